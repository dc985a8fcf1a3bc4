"""Linear models and ReLU networks with a built-in forward and backward, equal to autograd's, on dense and CSR rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, TypeGuard

import torch
from torch import Tensor

from fairbound.base.errors import OptionError
from fairbound.rows.sparse import SparseRows

_relu_backward = torch.ops.aten.threshold_backward

MANY_ROWS = 4096
"""From so many rows on, a linear model's gradient is taken of the rows with slopes alone: rows are sorted by group, so
that those of a bound on one group lie together."""


class _Layers:
    """Views of a flat x as weights and biases, kept while x is the same tensor.

    affine: (transposed weight, bias) of each layer of the last x (n,) viewed. room: a flat gradient and its views,
    which a vjp fills and copies out of, so that a model serves one thread at a time. Without biases theirs have no
    entries.
    """

    def __init__(self, widths: Sequence[int], bias: bool):
        pairs = itertools.pairwise(widths)
        self.shapes = [shape for fan_in, fan_out in pairs for shape in ((fan_out, fan_in), (fan_out if bias else 0,))]
        self.sizes = [math.prod(shape) for shape in self.shapes]
        self.n = sum(self.sizes)
        self.affine: list[tuple[Tensor, Tensor]] = []
        self._of: Tensor | None = None
        self._views: list[Tensor] = []
        self._room: tuple[Tensor, list[Tensor]] | None = None

    def views(self, x: Tensor) -> list[Tensor]:
        if x is not self._of:
            self._views, self._of = self.split(x), x
            if x.dim() == 1:
                self.affine = [(w.t(), b) for w, b in zip(self._views[::2], self._views[1::2], strict=True)]
        return self._views

    def room(self, like: Tensor) -> tuple[Tensor, list[Tensor]]:
        if self._room is None or self._room[0].dtype != like.dtype or self._room[0].device != like.device:
            flat = like.new_empty(self.n)
            self._room = (flat, self.split(flat))
        return self._room

    def split(self, x: Tensor) -> list[Tensor]:
        parts = x.split_with_sizes(self.sizes, -1)
        if x.dim() == 1:
            return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]
        return [part.unflatten(-1, shape) for part, shape in zip(parts, self.shapes, strict=True)]


def is_linear(model: Any, outputs: int | None = None) -> TypeGuard[MLP]:
    """Whether it is a linear model; where `outputs` is given, of so many scores."""
    return isinstance(model, MLP) and not model.hidden and outputs in (None, model.outputs)


def is_built_in(model: Any) -> TypeGuard[MLP]:
    """Whether it is a model of this library, linear or a network, and not a module of the user's."""
    return isinstance(model, MLP)


class MLP:
    """Fully connected ReLU network; hidden=() is a linear model. Scores are logits.

    features: d inputs; hidden: widths of the hidden layers; outputs: 1, or the number of classes. bias: of a linear
    model.
    Parameters in x, layer by layer: weight (out, in) row by row, then bias, as in `nn.Sequential(nn.Linear, ...)`.
    """

    def __init__(self, features: int, hidden: Sequence[int] = (), outputs: int = 1, bias: bool = True):
        if features < 1 or any(h < 1 for h in hidden) or outputs < 1:
            raise OptionError(f"layer widths must be positive, got {features}, {tuple(hidden)}, {outputs}.")
        if hidden and not bias:
            raise OptionError("bias=False is for linear models; leave it out where there are hidden layers.")
        self.features, self.hidden, self.outputs, self.bias = features, tuple(hidden), outputs, bias
        self.layers = _Layers((features, *hidden, outputs), bias)
        self.n = self.layers.n

    def spec(self) -> dict:
        return {
            "kind": "mlp" if self.hidden else "linear",
            "features": self.features,
            "hidden": list(self.hidden),
            "outputs": self.outputs,
        }

    def start(self, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Tensor:
        """Uniform in +-1/sqrt(fan_in), torch's own initialisation of nn.Linear; zero for a linear model."""
        x = torch.zeros(self.n, dtype=dtype)
        if not self.hidden:
            return x
        fan_in = self.features
        for view in self.layers.split(x):
            fan_in = view.shape[1] if view.dim() == 2 else fan_in
            bound = 1 / math.sqrt(fan_in)
            view.copy_((2 * torch.rand(view.shape, generator=generator, dtype=dtype) - 1) * bound)
        return x

    def scores(self, x: Tensor, features: Tensor | SparseRows) -> Tensor:
        return self.forward(x, features)[0]

    def of_each_score(self, inputs: Tensor) -> Tensor:
        """(n, n) of a linear model: for every score by itself, `inputs` (d, d) of its weights, or (d + 1, d + 1) of
        these and its bias."""
        places = torch.arange(self.n)
        weights, biases = places[: self.features * self.outputs].view(self.outputs, -1), places[-self.outputs :]
        own = torch.cat([weights, biases.unsqueeze(1)], 1) if self.bias else weights
        out = inputs.new_zeros(self.n, self.n)
        for each in own:
            out[each.unsqueeze(1), each] = inputs
        return out

    def last_inputs(self, x: Tensor, features: Tensor | SparseRows) -> Tensor:
        """(B, h) what the last layer makes its scores of, for x (n,) and features (B,
        d) of a network with hidden layers."""
        return self.forward(x, features)[1].inputs[-1]

    def forward(self, x: Tensor, features: Tensor | SparseRows) -> tuple[Tensor, MLPTape]:
        parameters = self.layers.views(x)
        if not self.bias:
            scores = _products(features, parameters[0])
            return (scores.squeeze(-1) if self.outputs == 1 else scores), MLPTape(self, parameters, [features])
        inputs: list[Any] = [features]
        h: Any = features
        if x.dim() == 1 and isinstance(features, Tensor) and features.dim() == 2:
            *hidden, (weight, bias) = self.layers.affine
            for w, b in hidden:
                h = torch.addmm(b, h, w).relu_()
                inputs.append(h)
            scores = torch.addmm(bias, h, weight)
        else:
            last = len(parameters) - 2
            for layer in range(0, last, 2):
                h = _affine(h, parameters[layer], parameters[layer + 1]).relu_()
                inputs.append(h)
            scores = _affine(h, parameters[last], parameters[last + 1])
        return (scores.squeeze(-1) if self.outputs == 1 else scores), MLPTape(self, parameters, inputs)


def _products(h: Tensor | SparseRows, weight: Tensor) -> Tensor:
    return h.scores(weight) if isinstance(h, SparseRows) else h @ weight.mT


def _affine(h: Tensor | SparseRows, weight: Tensor, bias: Tensor) -> Tensor:
    if isinstance(h, SparseRows):
        return h.scores(weight) + (bias if weight.dim() == 2 else bias.unsqueeze(-2))
    if weight.dim() == 2:
        return torch.addmm(bias, h, weight.mT) if h.dim() == 2 else h @ weight.mT + bias
    return torch.baddbmm(bias.unsqueeze(-2), h.expand(weight.shape[0], -1, -1), weight.mT)


class MLPTape:
    """Inputs of every layer of one forward pass."""

    def __init__(self, model: MLP, parameters: list[Tensor], inputs: list[Any]):
        self.model, self.parameters, self.inputs = model, parameters, inputs

    def part(self, first: int, last: int) -> MLPTape:
        """The tape of rows first .. last - 1 alone, of a linear model at x (n,)."""
        return MLPTape(self.model, self.parameters, [self.inputs[0][first:last]])

    def vjp(self, ds: Tensor) -> Tensor:
        delta = ds.unsqueeze(-1) if self.model.outputs == 1 else ds
        if not self.model.bias:
            h = self.inputs[0]
            return (h.vjp(delta) if isinstance(h, SparseRows) else delta.mT @ h).flatten(-2)
        if delta.dim() == 2:
            return self._vjp_one(delta)
        grad = ds.new_empty(*delta.shape[:-2], self.model.n)
        pieces = self.model.layers.split(grad)
        for layer in range(len(self.inputs) - 1, -1, -1):
            h = self.inputs[layer]
            torch.sum(delta, -2, out=pieces[2 * layer + 1])
            pieces[2 * layer].copy_(h.vjp(delta) if isinstance(h, SparseRows) else delta.mT @ h)
            if layer:
                delta = _relu_backward(delta @ self.parameters[2 * layer], h, 0)
        return grad

    def _vjp_one(self, delta: Tensor) -> Tensor:
        linear = len(self.inputs) == 1 and delta.device.type == "cpu"
        if linear and len(delta) >= MANY_ROWS and not delta[0].any():
            some = delta.any(1).nonzero()
            first, last = (int(some[0]), int(some[-1]) + 1) if len(some) else (0, 1)
            return self.part(first, last)._vjp_one(delta[first:last])
        grad, pieces = self.model.layers.room(delta)
        for layer in range(len(self.inputs) - 1, -1, -1):
            h = self.inputs[layer]
            torch.sum(delta, 0, out=pieces[2 * layer + 1])
            if isinstance(h, SparseRows):
                pieces[2 * layer].copy_(h.vjp(delta))
            else:
                torch.mm(delta.t(), h, out=pieces[2 * layer])
            if layer:
                delta = _relu_backward(torch.mm(delta, self.parameters[2 * layer]), h, 0)
        return grad.clone()

    def jvp(self, dx: Tensor) -> Tensor:
        tangents = self.model.layers.split(dx)
        if not self.model.bias:
            along = _products(self.inputs[0], tangents[0])
            return along.squeeze(-1) if self.model.outputs == 1 else along
        dh: Tensor | None = None
        for layer, h in enumerate(self.inputs):
            dout = _affine(h, tangents[2 * layer], tangents[2 * layer + 1])
            if dh is not None:
                dout = dout + (dh @ self.parameters[2 * layer].mT)
            dh = dout if layer == len(self.inputs) - 1 else dout * (self.inputs[layer + 1] > 0)
        assert dh is not None
        return dh.squeeze(-1) if self.model.outputs == 1 else dh
