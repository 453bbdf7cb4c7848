"""A LightningModule under Lightning's Trainer.

usage: fit.py [automatic|manual]
"""
import os
import sys
import warnings

os.environ.setdefault("MKL_NUM_THREADS", "1")
import lightning  # noqa: E402
import torch  # noqa: E402

from torch_training import Run  # noqa: E402


class Module(lightning.LightningModule):
    def __init__(self, run, manual):
        super().__init__()
        self.run = run
        self.automatic_optimization = not manual
        self.backbone = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.GELU(), torch.nn.Dropout(0.1))
        self.norm = torch.nn.LayerNorm(16)
        self.head = torch.nn.Linear(16, 3)
        self.losses = []

    def forward(self, x):
        return self.head(self.norm(self.backbone(x)))

    def training_step(self, batch, index):
        x, target = batch
        loss = torch.nn.functional.cross_entropy(self(x), target)
        self.losses.append(loss.detach())
        if not self.automatic_optimization:
            optimizer = self.optimizers()
            self.manual_backward(loss)
            optimizer.step()
            self.end_step(optimizer)
            optimizer.zero_grad()
        return loss

    def validation_step(self, batch, index):
        x, target = batch
        self.log("accuracy", (self(x).argmax(1) == target).float().mean())

    def end_step(self, optimizer):
        self.run.end_step(self.losses, optimizer=getattr(optimizer, "optimizer", optimizer))
        self.losses.clear()

    def optimizer_step(self, epoch, index, optimizer, closure):
        super().optimizer_step(epoch, index, optimizer, closure)
        self.end_step(optimizer)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


class Steps(lightning.Callback):
    def __init__(self, run):
        self._run = run

    def on_train_start(self, trainer, module):
        self._run.watch(module, trainer.optimizers[0])

    def on_train_batch_start(self, trainer, module, batch, index):
        self._run.begin_step()


def main():
    warnings.simplefilter("ignore")
    manual = sys.argv[1:] == ["manual"]
    run = Run()
    lightning.seed_everything(11, verbose=False)
    generator = torch.Generator().manual_seed(5)
    data = torch.utils.data.TensorDataset(torch.randn(4 * run.count, 6, generator=generator),
                                          torch.randint(0, 3, (4 * run.count,), generator=generator))
    module = Module(run, manual)
    trainer = lightning.Trainer(max_steps=run.count, accelerator="cpu", logger=False, enable_checkpointing=False,
                                enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=1,
                                gradient_clip_val=None if manual else 1.0, callbacks=[Steps(run)])
    trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=4), torch.utils.data.DataLoader(data, batch_size=4))
    run.close()


main()
