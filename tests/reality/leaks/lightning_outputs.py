"""A Lightning module that appends the output of every training step and never clears the list."""

import sys
import time

import lightning
import torch


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(256, 256)
        self.outputs = []

    def on_train_start(self):
        self.end = time.monotonic() + float(sys.argv[1])

    def training_step(self, batch, index):
        output = self.layer(batch)  # LEAK: 256 KiB
        self.outputs.append(output.detach())
        print(f"step {index}", flush=True)
        time.sleep(0.05)
        if time.monotonic() >= self.end:
            self.trainer.should_stop = True
        return output.square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


class Noise(torch.utils.data.IterableDataset):
    def __iter__(self):
        while True:
            yield torch.randn(256, 256)


trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
trainer.fit(Net(), torch.utils.data.DataLoader(Noise(), batch_size=None))
