"""What padding costs: sequences of very different length in batches of eight."""

import torch

import tidemark.torch

torch.manual_seed(1)
lengths = torch.distributions.LogNormal(4.0, 0.6).sample((400,)).clamp(8, 512).long()
meter = tidemark.torch.PaddingMeter(bytes_per_token=50257 * 4)  # the logits of one position, in float32
for batch in lengths.split(8):
    mask = torch.arange(int(batch.max()))[None, :] < batch[:, None]
    meter.feed({"input_ids": mask.long() * 7, "attention_mask": mask.long()})
print(meter)
