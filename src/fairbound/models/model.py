"""A model as a function of one flat parameter tensor x (..., n): forward to scores, and the backward of its scores.

Linear models and MLPs have a built-in forward and backward; any other `torch.nn.Module` is run by autograd with its
parameters as views of x. All offer the same three calls:

    scores, tape = model.forward(x, features)   features (..., B, d) -> scores (..., B), or (..., B, c) for c > 1 outputs
    tape.vjp(ds)                                ds, shaped like scores -> gradient of (ds * scores).sum() in x, (..., n)
    tape.jvp(dx)                                dx (..., n) -> directional derivative of the scores along dx

A leading dimension of x is a stack of R runs; features are then (R, B, d), or (B, d) shared by all.
"""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from fairbound.base.errors import OptionError
from fairbound.models.mlp import MLP


class Tape(Protocol):
    """What a forward pass leaves for its derivatives at the same x (..., n) and rows."""

    def vjp(self, ds: Tensor) -> Tensor:
        """(..., n): the gradient in x of (ds * scores).sum() for ds shaped like the scores."""
        ...

    def jvp(self, dx: Tensor) -> Tensor:
        """Shaped like the scores: their directional derivative along dx (..., n)."""
        ...


class Model(Protocol):
    """n: number of parameters; outputs: scores per row (1 for a binary classifier). features: a tensor, for the
    built-in models also SparseRows."""

    n: int
    outputs: int

    def start(self, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Tensor:
        """(n,) parameters to begin with."""
        ...

    def forward(self, x: Tensor, features: Any) -> tuple[Tensor, Tape]:
        """The scores (..., B), or (..., B, c) of c > 1 outputs, of B rows at x (..., n), and their tape."""
        ...

    def scores(self, x: Tensor, features: Any) -> Tensor:
        """The scores (..., B) or (..., B, c) alone."""
        ...

    def spec(self) -> dict:
        """What the model is, as plain data for a report."""
        ...


class ModuleModel:
    """Any `torch.nn.Module`: features (B, ...) -> scores (B,), (B, 1) or (B, c), by autograd.

    The module's parameters become views of x while it runs; modules with buffers that training changes (batch
    normalisation) are refused, because their state would live outside x. Dropout and other randomness follow torch's
    global generator, which `Problem` seeds per batch.
    row_dims: dimensions of one row's features (3 for an image with channels), which a FairProblem sets: it tells
    features shared by stacked runs (B, ...) from features of each run (R, B, ...).
    """

    def __init__(self, module: nn.Module, outputs: int = 1):
        changing = [name for name, m in module.named_modules() if getattr(m, "track_running_stats", False)]
        if changing:
            raise OptionError(
                f"the module keeps running statistics ({', '.join(changing[:3])}), which are not parameters and "
                "would escape the constraints and the checkpoint; use LayerNorm or GroupNorm instead."
            )
        self.module, self.outputs = module, outputs
        self.parameters = [p for p in module.parameters() if p.requires_grad]
        if not self.parameters:
            raise OptionError("the module has no trainable parameter.")
        self.names = [k for k, p in module.named_parameters() if p.requires_grad]
        self.shapes = [p.shape for p in self.parameters]
        self.sizes = [p.numel() for p in self.parameters]
        self.n = sum(self.sizes)
        _load_backward()
        self.random = any(isinstance(m, nn.Dropout | nn.modules.dropout._DropoutNd) for m in module.modules())
        self.row_dims = 1
        self._start = torch.cat([p.detach().reshape(-1) for p in self.parameters])
        self._of: Tensor | None = None

    def spec(self) -> dict:
        return {"kind": "module", "class": type(self.module).__qualname__, "outputs": self.outputs}

    def start(self, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Tensor:
        """(n,) the module's own parameters at construction."""
        return self._start.to(dtype).clone()

    def bind(self, x: Tensor) -> None:
        """Make the module's parameters views of x (n,), or of the first n of a problem's variables,
        of which some bounds add more."""
        if x is self._of and self.parameters[0].data_ptr() == x.data_ptr():
            return
        if x.shape[0] > self.n:
            x = x[: self.n]
        for p, view, shape in zip(self.parameters, x.detach().split(self.sizes), self.shapes, strict=True):
            p.data = view.view(shape)
        self._gradient = torch.zeros_like(x)
        self._pieces = [
            part.view(shape) for part, shape in zip(self._gradient.split(self.sizes), self.shapes, strict=True)
        ]
        self._of = x

    def accumulated(self, x: Tensor, backward: Callable[[], None]) -> Tensor:
        """What `backward` adds to the parameters' gradients at x (n,), as one flat copy."""
        self.bind(x)
        for p, piece in zip(self.parameters, self._pieces, strict=True):
            p.grad = piece
        self._gradient.zero_()
        backward()
        return self._gradient.clone()

    def scores(self, x: Tensor, features: Tensor) -> Tensor:
        """(..., B), or (..., B, c) of c > 1 outputs, at x (..., n), without a graph."""
        if x.dim() > 1:
            return self._stacked(x.detach(), features)
        self.bind(x)
        with torch.no_grad():
            return self._shaped(self.module(features))

    def forward(self, x: Tensor, features: Tensor) -> tuple[Tensor, ModuleTape]:
        """The scores as `scores` gives them, and the tape for their derivatives at x (..., n)."""
        with torch.enable_grad():
            if x.dim() > 1:
                leaf = x.detach().requires_grad_()
                scores = self._stacked(leaf, features)
                return scores.detach(), ModuleTape(self, scores, [leaf], x, features)
            self.bind(x)
            scores = self._shaped(self.module(features))
        return scores.detach(), ModuleTape(self, scores, self.parameters, x, features)

    def _shaped(self, out: Tensor) -> Tensor:
        if self.outputs == 1 and out.dim() > 1:
            out = out.squeeze(-1)
        if out.dim() != (1 if self.outputs == 1 else 2) or (self.outputs > 1 and out.shape[-1] != self.outputs):
            raise OptionError(
                f"the module gives scores of shape {tuple(out.shape)}, but outputs={self.outputs} was declared; "
                + (
                    "give one score per row, (rows,) or (rows, 1): it tells two classes apart, or is the number to predict."
                    if self.outputs == 1
                    else f"give {self.outputs} scores per row, (rows, {self.outputs}), one for each class."
                )
            )
        return out

    def function(self, features: Tensor) -> Callable[[Tensor], Tensor]:
        """x (n,) -> scores as a pure function, for forward-mode and stacked evaluation."""

        def run(x: Tensor) -> Tensor:
            parts = x.split(self.sizes)
            named = {k: v.view(s) for k, v, s in zip(self.names, parts, self.shapes, strict=True)}
            return self._shaped(torch.func.functional_call(self.module, named, (features,)))

        return run

    def _stacked(self, x: Tensor, features: Tensor) -> Tensor:
        fused = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)  # torch's fused attention cannot be stacked
        try:
            with sdpa_kernel(SDPBackend.MATH):
                if features.dim() == 1 + self.row_dims:
                    return torch.func.vmap(self.function(features), randomness="different")(x)
                return torch.func.vmap(lambda xi, fi: self.function(fi)(xi), randomness="different")(x, features)
        finally:
            torch.backends.mha.set_fastpath_enabled(fused)


class ModuleTape:
    """The graph of one forward pass; see `Tape`."""

    def __init__(self, model: ModuleModel, scores: Tensor, leaves: Sequence[Tensor], x: Tensor, features: Tensor):
        self.model, self.output, self.leaves, self.x, self.features = model, scores, leaves, x, features

    def vjp(self, ds: Tensor) -> Tensor:
        """(..., n) for ds shaped like the scores."""
        if ds.dim() > self.output.dim():
            return torch.stack([self.vjp(row) for row in ds])
        if self.x.dim() > 1:
            return torch.autograd.grad(self.output, self.leaves, ds, retain_graph=True)[0]
        return self.model.accumulated(self.x, lambda: self.output.backward(ds, retain_graph=True))

    def jvp(self, dx: Tensor) -> Tensor:
        """Shaped like the scores, for dx (..., n)."""
        if self.model.random:
            return self._jvp_twice(dx)
        if self.x.dim() == 1:
            return self._jvp(self.x, dx, self.features)
        shared = self.features.dim() == 1 + self.model.row_dims
        runs = zip(self.x, dx, [self.features] * len(dx) if shared else self.features, strict=True)
        return torch.stack([self._jvp(*run) for run in runs])

    def _jvp(self, x: Tensor, dx: Tensor, features: Tensor) -> Tensor:
        _load_forward_mode()
        with sdpa_kernel(SDPBackend.MATH):  # the fused attention kernels have no forward mode
            return torch.func.jvp(self.model.function(features), (x.detach(),), (dx,))[1].detach()

    def _jvp_twice(self, dx: Tensor) -> Tensor:
        """By two backward passes through the module run again: forward mode would draw other units to drop."""
        with sdpa_kernel(SDPBackend.MATH), torch.enable_grad():  # the fused attention kernels have no second backward
            _, again = self.model.forward(self.x, self.features)
            v = torch.zeros_like(again.output, requires_grad=True)
            grads = torch.autograd.grad(again.output, again.leaves, v, create_graph=True, materialize_grads=True)
            flat = grads[0] if self.x.dim() > 1 else torch.cat([g.reshape(-1) for g in grads])
            return torch.autograd.grad((flat * dx).sum(), v)[0]


@functools.cache
def _load_backward() -> None:
    """Torch loads much at the first backward pass, which takes as long as a hundred
    steps and is no part of a run's budget."""
    torch.ones((), requires_grad=True).backward(torch.ones(()))


@functools.cache
def _load_forward_mode() -> None:
    """Torch loads its forward-mode rules at the first use, and warns of a deprecation that is its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.func.jvp(torch.sigmoid, (torch.zeros(()),), (torch.ones(()),))


MODELS = (
    "'linear', 'mlp:64,32' (hidden widths) or a torch.nn.Module; fb.Reduction keeps a classifier of another library"
)
_MLP = re.compile(r"^mlp:([0-9]+(?:,[0-9]+)*)$")
MOST_PARAMETERS = 1 << 28
"""Of a built-in model: 1 GiB of float32 for each copy that training keeps."""


def model_of(model: str | nn.Module | Model, features: int, outputs: int = 1) -> Model:
    """ "linear", "mlp:64,32" or an nn.Module as a Model for `features` inputs."""
    if isinstance(model, nn.Module):
        return ModuleModel(model, outputs)
    if not isinstance(model, str | type) and callable(getattr(model, "forward", None)):
        return model
    if not isinstance(model, str):
        raise OptionError(f"model must be {MODELS}; got {model!r}.")
    if model == "linear":
        return MLP(features, (), outputs)
    match = _MLP.match(model.replace(" ", ""))
    if not match:
        raise OptionError(f"unknown model {model!r}; give {MODELS}.")
    if any(len(w) > 10 for w in match[1].split(",")):
        raise OptionError(
            f"{model[:60]!r} has a hidden layer of more than ten thousand million units. Take smaller ones."
        )
    hidden = tuple(int(w) for w in match[1].split(","))
    if min(hidden) < 1:
        raise OptionError(f"{model[:60]!r} has a hidden layer of 0 units; give every layer at least 1.")
    made = MLP(features, hidden, outputs)
    if made.n > MOST_PARAMETERS:
        raise OptionError(
            f"{model!r} on {features} features has {made.n:,} parameters; built-in models have at most {MOST_PARAMETERS:,}. "
            "Take smaller layers."
        )
    return made
