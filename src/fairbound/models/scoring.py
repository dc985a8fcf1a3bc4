"""The scores of rows as a problem needs them: of a batch with its own dropout, or of all rows without any; and what of
them the last layer of a network adds."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fairbound.base.errors import DataError
from fairbound.models.mlp import MLP
from fairbound.models.model import Model, ModuleModel
from fairbound.rows.sparse import SparseRows

ROWS_AT_ONCE = 16384
MODULE_ROWS_AT_ONCE = 2048

TRIED = 16
"""Rows on which the last layer of a module is looked for."""

_QUIET = contextlib.nullcontext()


def noise(model: Model, seed: int) -> Any:
    """A context in which a module with dropout drops the units of `seed`; the same ones each time it is entered."""
    return _Seeded(seed) if getattr(model, "random", False) else _QUIET


class _Seeded:
    """Torch's global generator seeded for one batch and put back."""

    def __init__(self, seed: int):
        self.seed = seed

    def __enter__(self) -> None:
        self.before = torch.random.get_rng_state()
        torch.manual_seed(self.seed)

    def __exit__(self, *args: object) -> None:
        torch.random.set_rng_state(self.before)


def scores_of_rows(model: Model, x: Tensor, features: Tensor | SparseRows) -> Tensor:
    """(..., rows) scores, with several outputs (..., rows, c), a slice at a time; a module is run in evaluation mode
    and left in the mode that it was in."""
    module = getattr(model, "module", None)
    size = ROWS_AT_ONCE if module is None else MODULE_ROWS_AT_ONCE
    with _evaluated(module):
        return torch.cat([model.scores(x, part) for part in features.split(size)], dim=x.dim() - 1)


@contextlib.contextmanager
def _evaluated(module: nn.Module | None) -> Iterator[None]:
    """`module` in evaluation mode, and after that in the mode that it was in."""
    modes = [] if module is None else [(part, part.training) for part in module.modules() if part.training]
    if modes:
        module.eval()  # type: ignore[union-attr]
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def last_inputs(model: Model, x: Tensor, features: Tensor | SparseRows) -> Tensor | None:
    """(rows, h) what the last layer of a network makes its scores of, at x (n,). None unless the scores are those of a
    linear layer whose weights and intercepts are the last parameters and stand nowhere else."""
    if isinstance(model, MLP):
        return (
            torch.cat([model.last_inputs(x, part) for part in features.split(ROWS_AT_ONCE)]) if model.hidden else None
        )
    if not isinstance(model, ModuleModel) or isinstance(features, SparseRows):
        return None
    if (last := _last_layer(model)) is None:
        return None
    model.bind(x)
    found = inputs_of(model.module, (last,), features.split(MODULE_ROWS_AT_ONCE))
    return None if found is None else found[1]


def inputs_of(module: nn.Module, layers: Sequence[nn.Linear], parts: Iterable[Any]) -> tuple[nn.Linear, Tensor] | None:
    """The one of some linear layers whose outputs are the scores of a module, and (rows, h) what it makes them of; None
    where there is none. The module is run in evaluation mode.

    parts: rows that go through the module one part after the other, each a tensor, or a tuple or mapping of arguments.
    """
    seen: dict[nn.Linear, list[tuple[Tensor, Tensor, int]]] = {}
    found: list[Tensor] = []

    def note(layer: Any, given: tuple[Tensor, ...], scores: Tensor) -> None:
        seen.setdefault(layer, []).append((given[0], scores, scores._version))

    hooks = [layer.register_forward_hook(note) for layer in layers]
    try:
        with _evaluated(module), torch.no_grad():
            for part in parts:
                seen.clear()
                out = _run(module, part)
                layers = [at for at in layers if len(seen.get(at, ())) == 1 and _same_numbers(*seen[at][0], out)]
                if not layers:
                    return None
                found.append(seen[layers[0]][0][0])
    finally:
        for hook in hooks:
            hook.remove()
    return (layers[0], torch.cat(found)) if found else None


def _run(module: nn.Module, part: Any) -> Any:
    """What a module gives for a tensor, or for a tuple or mapping of arguments."""
    if isinstance(part, Mapping):
        return module(**part)
    return module(*part) if isinstance(part, tuple) else module(part)


def has_last_layer(model: Model, features: Any) -> bool:
    """Whether `last_inputs` of a model's first parameters gives any, by the first TRIED of the rows `features`."""
    if isinstance(model, MLP) or not isinstance(features, np.ndarray | Tensor):
        return isinstance(model, MLP) and bool(model.hidden)
    return last_inputs(model, *_at_first(model, features)) is not None


def has_last_intercept(model: Model, features: Any) -> bool:
    """Whether `last_intercept` finds one at a model's first parameters, by the first TRIED of the rows `features`."""
    if isinstance(model, MLP) or not isinstance(features, np.ndarray | Tensor):
        return isinstance(model, MLP) and model.bias
    return last_intercept(model, *_at_first(model, features)) is not None


def _at_first(model: Model, features: np.ndarray | Tensor) -> tuple[Tensor, Tensor]:
    """A model's first parameters, and the first TRIED of the rows as it takes them."""
    x = model.start(torch.Generator())
    rows = torch.as_tensor(features[:TRIED]).to(x.device)
    return x, rows.to(x.dtype) if rows.is_floating_point() else rows


def _last_layer(model: ModuleModel) -> nn.Linear | None:
    """The linear layer whose weights and intercepts are the last two parameters and stand nowhere else."""
    for part in model.module.modules():
        if type(part) is nn.Linear and part.bias is not None and part.out_features == model.outputs:
            last = (part.weight, part.bias)
            if all(p is q for p, q in zip(model.parameters[-2:], last, strict=True)):
                return part if stands_alone(model.module, part) else None
    return None


def stands_alone(module: nn.Module, layer: nn.Linear) -> bool:
    """Whether the weights and intercepts of a layer stand nowhere else in the module."""
    own = [p for part in module.modules() for p in part.parameters(recurse=False)]
    return all(sum(p is q for p in own) == 1 for q in (layer.weight, layer.bias))


def _same_numbers(inputs: Tensor, scores: Tensor, version: int, out: Any) -> bool:
    """Whether `out` is `scores`, unchanged since that version and at most in another shape, and `inputs` has one row
    for each of them."""
    if not isinstance(out, Tensor):
        return False
    same = out.untyped_storage().data_ptr() == scores.untyped_storage().data_ptr() and scores._version == version
    same = same and out.numel() == scores.numel() and inputs.dim() == 2
    return same and torch.equal(out.reshape(scores.shape).nan_to_num(), scores.nan_to_num())


def last_intercept(model: Model, x: Tensor, features: Tensor | SparseRows) -> slice | None:
    """Where the last intercept lies in x (n,): as many numbers as the model has outputs, of which each is added to one
    score. None where there is none. Of a module it is the last parameter that does so on
    the first TRIED of the rows `features`."""
    if isinstance(model, MLP):
        return slice(model.n - model.outputs, model.n) if model.bias else None
    if not isinstance(model, ModuleModel) or isinstance(features, SparseRows):
        return None
    scores = scores_of_rows(model, x, features[:TRIED])
    far = 2 * float(scores.abs().max()) + 1
    move = far * torch.arange(1, model.outputs + 1).to(scores) / model.outputs
    for size, end in reversed(list(zip(model.sizes, accumulate(model.sizes), strict=True))):
        if size == model.outputs and all(
            _adds(model, x, features[:TRIED], slice(end - size, end), t) for t in (move, -move)
        ):
            return slice(end - size, end)
    return None


def _adds(model: Model, x: Tensor, features: Tensor, at: slice, move: Tensor) -> bool:
    """Whether each row's scores grow by `move` (c,) where this is added to x (n,) there."""
    moved = x.clone()
    moved[at] += move
    scores, after = (scores_of_rows(model, point, features) for point in (x, moved))
    return torch.allclose(after - scores, move.expand_as(scores), atol=1e-4 * float(move.abs().max()))


def predicted_scores(model: Model, x: Tensor, features: Tensor | SparseRows) -> Tensor:
    """`scores_of_rows` in float64 arithmetic for a built-in model, a module in its own dtype.

    A matrix product rounds a row differently in another batch; in float64 this is below 1e-12 of the score's terms.
    """
    if getattr(model, "module", None) is not None:
        return scores_of_rows(model, x, features).double()
    wide = x.double()
    return torch.cat([scores_of_rows(model, wide, part.double()) for part in features.split(ROWS_AT_ONCE)], x.dim() - 1)


def refuse_overflow(scores: np.ndarray, of_module: bool = False) -> None:
    """Raises: DataError where a score (n,) or (n, k) is NaN, which no decision can be made of. of_module: whether a module
    gave them, of finite features."""
    bad = np.isnan(scores)
    if bad.any():
        row = int(np.argwhere(bad)[0][0])
        why = (
            "the module makes NaN of finite features there, as of values too large for it. Look at these, and at the module"
            if of_module
            else "a value there is too large for a float. Correct it or leave it empty"
        )
        raise DataError(
            f"the score of {int(bad.any(axis=-1).sum()) if bad.ndim > 1 else int(bad.sum())} of {len(scores)} rows is NaN, the first "
            f"in row {row} (counting from 0): {why}."
        )
