"""A bound inside a loop with accumulated gradients, mixed precision and a scheduler, those of Lightning, Accelerate and Hugging Face's
Trainer, and that of a compiled network.

Each function trains the same small network under `demographic_parity <= 0.05` and returns the network and its Dual. What is asked of a loop
is the same everywhere: `dual.loss` in place of the criterion, and `dual.step()` once after each step of the optimiser.

    python examples/pytorch_loops.py plain compiled lightning_manual lightning_callback accelerate_loop trainer
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor, nn

from fairbound.data.generator import GaussianParity
from fairbound.optim import Dual

BOUND = "demographic_parity <= 0.05"
EPOCHS, BATCH = 30, 100


def rows() -> tuple[Tensor, Tensor, Tensor]:
    """Features, labels and group codes of 2,000 synthetic rows."""
    data = GaussianParity().sample(2000, seed=0)
    group = torch.tensor(data.sensitive["group"].astype(int))
    return torch.tensor(data.X, dtype=torch.float32), torch.tensor(data.y), group


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(rows()[0].shape[1], 1)


def bound() -> Dual:
    _, y, group = rows()
    return Dual(BOUND, groups=group, targets=y)


def batches() -> Any:
    data = torch.utils.data.TensorDataset(*rows())
    return torch.utils.data.DataLoader(data, batch_size=BATCH, shuffle=True, generator=torch.Generator().manual_seed(0))


def plain() -> tuple[nn.Module, Dual]:
    """Gradients accumulated over two batches, bfloat16, and a learning rate that falls."""
    net, dual = network(), bound()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (1 + step / 200) ** -0.5)
    for _ in range(2 * EPOCHS):
        for number, (x, y, group) in enumerate(batches(), start=1):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = dual.loss(net(x), y, group) / 2
            loss.backward()
            if number % 2 == 0:
                optimizer.step()
                optimizer.zero_grad()
                scheduler.step()
                dual.step()
    return net, dual


def compiled() -> tuple[nn.Module, Dual]:
    """torch.compile on the network; the Dual stays outside."""
    net, dual = network(), bound()
    fast, optimizer = torch.compile(net), torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(EPOCHS):
        for x, y, group in batches():
            optimizer.zero_grad()
            dual.loss(fast(x), y, group).backward()
            optimizer.step()
            dual.step()
    return net, dual


def lightning_manual() -> tuple[nn.Module, Dual]:
    """Lightning with manual optimisation."""
    import lightning

    class Fair(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = False
            self.net, self.dual = network(), bound()

        def training_step(self, batch: Any, index: int) -> None:
            x, y, group = batch
            optimizer = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(self.dual.loss(self.net(x), y, group))
            optimizer.step()
            self.dual.step()

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), lr=0.02)

    model = Fair()
    _lightning_trainer().fit(model, batches())
    return model.net, model.dual


def lightning_callback() -> tuple[nn.Module, Dual]:
    """Lightning's own optimisation, closed by a callback that also keeps the Dual in Lightning's checkpoints."""
    import lightning

    dual = bound()

    class CloseStep(lightning.Callback):
        steps = 0

        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            if trainer.global_step > self.steps:  # with accumulated gradients not every batch is a step
                self.steps = trainer.global_step
                dual.step()

        def state_dict(self) -> dict[str, Any]:
            return dual.state_dict()

        def load_state_dict(self, state_dict: dict[str, Any]) -> None:
            dual.load_state_dict(state_dict)

    class Fair(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def training_step(self, batch: Any, index: int) -> Tensor:
            x, y, group = batch
            return dual.loss(self.net(x), y, group)

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), lr=0.02)

    model = Fair()
    _lightning_trainer(callbacks=[CloseStep()]).fit(model, batches())
    return model.net, dual


def _lightning_trainer(**options: Any) -> Any:
    import lightning

    return lightning.Trainer(
        max_epochs=EPOCHS, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, **options,
    )  # fmt: skip


def accelerate_loop() -> tuple[nn.Module, Dual]:
    """Accelerate with gradients accumulated over two batches; `dual.step()` only where the optimiser really stepped."""
    import accelerate

    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    dual, net = bound(), network()
    net, optimizer, loader = accelerator.prepare(net, torch.optim.Adam(net.parameters(), lr=0.02), batches())
    for _ in range(2 * EPOCHS):
        for x, y, group in loader:
            with accelerator.accumulate(net):
                accelerator.backward(dual.loss(net(x), y, group))
                optimizer.step()
                optimizer.zero_grad()
                if accelerator.sync_gradients:
                    dual.step()
    return accelerator.unwrap_model(net), dual


def trainer() -> tuple[nn.Module, Dual]:
    """Hugging Face's Trainer: the loss in `compute_loss`, the step closed by a callback."""
    import tempfile

    import transformers

    dual, (x, y, group) = bound(), rows()

    class Close(transformers.TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            dual.step()

    class Fair(transformers.Trainer):
        def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **_: Any) -> Any:
            scores = model(inputs["x"])
            loss = dual.loss(scores, inputs["y"], inputs["group"])
            return (loss, {"scores": scores}) if return_outputs else loss

    net = network()
    data = [{"x": a, "y": b, "group": c} for a, b, c in zip(x, y, group, strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder, num_train_epochs=EPOCHS, per_device_train_batch_size=BATCH, learning_rate=0.02, report_to="none", use_cpu=True,
            save_strategy="no", logging_strategy="no", remove_unused_columns=False, disable_tqdm=True, seed=0,
        )  # fmt: skip
        Fair(net, arguments, train_dataset=data, callbacks=[Close()]).train()
    return net, dual


def difference(net: nn.Module) -> float:
    """The difference of selection rates on the training rows."""
    x, _, group = rows()
    with torch.no_grad():
        chosen = (net(x).squeeze(1) > 0).float()
    return float((chosen[group == 0].mean() - chosen[group == 1].mean()).abs())


LOOPS = {f.__name__: f for f in (plain, compiled, lightning_manual, lightning_callback, accelerate_loop, trainer)}


if __name__ == "__main__":
    for name in sys.argv[1:] or LOOPS:
        net, dual = LOOPS[name]()
        print(f"{name}: difference {difference(net):.4f} on the training rows\n{dual.report()}")
