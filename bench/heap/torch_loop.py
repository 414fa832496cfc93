"""A real training loop: a transformer of two layers on random tokens, with AdamW and a DataLoader. Usage: torch_loop.py [STEPS]"""

import sys

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
B, T, C, V = 8, 32, 64, 500


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(V, C)
        layer = nn.TransformerEncoderLayer(C, 4, 4 * C, dropout=0.1, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(C, V)

    def forward(self, tokens):
        return self.head(self.body(self.embed(tokens)))


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    tokens = torch.randint(0, V, (steps * B, T + 1))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(tokens), batch_size=B)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    total = 0.0
    for (batch,) in loader:
        logits = model(batch[:, :-1])
        loss = nn.functional.cross_entropy(logits.reshape(-1, V), batch[:, 1:].reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(total / steps)


main()
