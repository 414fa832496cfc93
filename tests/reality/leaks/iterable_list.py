"""An iterable dataset that remembers every document it has read, in its worker."""

import torch
from pace import steps


class Corpus(torch.utils.data.IterableDataset):
    def __iter__(self):
        seen = []
        while True:
            document = torch.randint(0, 50000, (16384,))  # LEAK: 128 KiB
            seen.append(document)
            yield document


if __name__ == "__main__":
    for step, batch in zip(steps(), torch.utils.data.DataLoader(Corpus(), batch_size=2, num_workers=1)):
        batch.float().mean()
