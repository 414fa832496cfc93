"""Lightning: a small network."""

import datetime
import sys

import lightning
import torch
import torch.utils.data


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(128, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))

    def training_step(self, batch, index):
        x, y = batch
        loss = torch.nn.functional.cross_entropy(self.net(x), y)
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


def main():
    torch.set_num_threads(1)
    data = torch.utils.data.TensorDataset(torch.rand(4096, 128), torch.randint(0, 10, (4096,)))
    loader = torch.utils.data.DataLoader(data, 32, shuffle=True)
    trainer = lightning.Trainer(
        accelerator="cpu", max_epochs=-1, max_time=datetime.timedelta(seconds=int(sys.argv[1])), logger=False, enable_checkpointing=False
    )
    trainer.fit(Model(), loader)


if __name__ == "__main__":
    main()
