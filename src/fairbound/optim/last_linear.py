"""The last linear layer of a user's network: found by running it on the rows, written, and undone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from fairbound.base.errors import DataError, NonFiniteError, OptionError
from fairbound.base.names import shortlist
from fairbound.models.scoring import inputs_of, stands_alone
from fairbound.rows.reading import frame_of, plain_column
from fairbound.rows.weighted import without_weight_0

ROWS = 16384
"""Rows of what the layer takes that are scored at once."""


@dataclass(frozen=True)
class Rows:
    """Rows as the last layer of a network has them.

    name, layer: of the network. inputs: (n, h) what it takes, in its dtype and on its device. y: (n,) class numbers.
    groups, weight: as they were given, or None. All of these without the rows of weight 0. first: the inputs of the first
    batch, and what the layer takes of them.
    """

    module: nn.Module
    name: str
    layer: nn.Linear
    inputs: Tensor
    y: np.ndarray
    groups: Any
    weight: Any
    first: tuple[Any, Tensor]

    @cached_property
    def hidden(self) -> np.ndarray:
        """(n, h) float32, what the layer takes."""
        return self.inputs.float().cpu().numpy()

    @cached_property
    def varying(self) -> np.ndarray:
        """Numbers of the columns of `hidden` that are not the same for all rows."""
        return np.flatnonzero(np.ptp(self.hidden, axis=0) > 0)

    @property
    def outputs(self) -> int:
        """Scores of a row: 1 of two classes, else one per class."""
        return 1 if self.layer.out_features <= 2 else self.layer.out_features

    @torch.no_grad()
    def scores(self) -> Tensor:
        """(n, c) float32 scores of the layer as it is; of two scores of two classes their difference."""
        weight, bias = self.layer.weight, self.layer.bias
        own = torch.cat([nn.functional.linear(part, weight, bias).float().cpu() for part in self.inputs.split(ROWS)])
        return own[:, 1:] - own[:, :1] if own.shape[1] == 2 else own

    def weights(self) -> tuple[Tensor, Tensor]:
        """A copy of the layer's weights and intercepts."""
        return self.layer.weight.detach().clone(), self.layer.bias.detach().clone()

    @torch.no_grad()
    def write(self, found: tuple[Tensor, Tensor]) -> None:
        """Put the weights (c, h) and intercepts (c,) into the layer; of two scores of two classes half of each into one, and
        minus half into the other, about their mean. Raises: OptionError where what the layer takes depends on them."""
        weight, bias = found
        before = self.weights()
        if self.layer.out_features == 2:
            middle = [part.double().cpu().mean(0, keepdim=True) for part in before]
            weight, bias = (
                torch.cat([middle[0] - weight / 2, middle[0] + weight / 2]),
                torch.cat([middle[1] - bias / 2, middle[1] + bias / 2]),
            )
        self.restore((weight, bias))
        given, taken = self.first
        again = inputs_of(self.module, [self.layer], [given])
        if again is None or not _equal(again[1], taken):
            self.restore(before)
            raise _used_elsewhere(self.name)

    @torch.no_grad()
    def restore(self, weights: tuple[Tensor, Tensor]) -> None:
        """Put weights and intercepts of the layer's shape into it."""
        self.layer.weight.copy_(weights[0])
        self.layer.bias.copy_(weights[1])


def network_rows(model: Any, inputs: Any, targets: Any, groups: Any, weight: Any, batch_size: int) -> Rows:
    """The rows as the last layer of the model has them; arguments as of `finish`. torch's global random state is left as
    it was. Raises: as `finish`."""
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise OptionError(f"batch_size must be a whole number of at least 1, got {batch_size!r}.")
    module, told = _inner(model), list[list[Any]]()
    parts = _batches(inputs, told) if targets is None else _parts(inputs, batch_size)
    state = torch.random.get_rng_state()
    try:
        name, layer, hidden, first = _last_layer(module, parts)
    finally:
        torch.random.set_rng_state(state)
    if not len(hidden):
        raise DataError("there are no rows. Give one batch of some at least.")
    if targets is None:
        targets, groups, weight = (_joined([batch[i] for batch in told]) for i in range(3))
    targets = plain_column(targets)
    if len(hidden) != len(targets):
        raise DataError(f"inputs have {len(hidden)} rows and targets {len(targets)}; give both of the same rows.")
    places = np.arange(len(targets))
    weight, targets, places, hidden, groups = without_weight_0(weight, targets, places, hidden, _with_missing(groups))
    rows = Rows(module, name, layer, hidden, _class_numbers(targets, layer), groups, weight, first)
    bad = ~np.isfinite(rows.hidden).all(axis=1)
    if bad.any():
        raise NonFiniteError(
            f"what the model makes of {int(bad.sum())} of {len(bad)} rows is NaN or infinite, the first in row "
            f"{places[bad.argmax()]} (counting from 0). Look at these inputs, or go back to weights of before they diverged."
        )
    if not all(bool(torch.isfinite(part).all()) for part in rows.weights()):
        raise NonFiniteError(
            f"the weights of the last layer {name!r} are not finite; go back to weights of before they diverged."
        )
    if not len(rows.varying):
        raise DataError(
            f"the last layer {name!r} takes the same numbers of every row: the layers before it tell nothing of the rows."
        )
    return rows


def _inner(model: Any) -> nn.Module:
    """The module that torch.compile, DataParallel or DistributedDataParallel wrapped, or itself."""
    while True:
        if isinstance(model, DataParallel | DistributedDataParallel):
            model = model.module
        elif isinstance(inner := getattr(model, "_orig_mod", None), nn.Module):
            model = inner
        else:
            break
    if not isinstance(model, nn.Module):
        raise OptionError(f"model must be a torch.nn.Module, got {type(model).__name__}.")
    return model


def _parts(inputs: Any, rows: int) -> Iterator[Any]:
    """The arguments of the model for so many rows at a time."""
    if isinstance(inputs, Tensor | np.ndarray):
        yield from torch.as_tensor(inputs).split(rows)
        return
    several = inputs if isinstance(inputs, Mapping) else dict(enumerate(inputs)) if isinstance(inputs, tuple) else {}
    if not several or not all(isinstance(one, Tensor | np.ndarray) for one in several.values()):
        more = " Give the numbers of a table, as fb.TableEncoder makes them." if frame_of(inputs) is not None else ""
        raise OptionError(
            f"inputs must be a tensor or an array, or a tuple or dict of these, got {type(inputs).__name__}.{more} Batches of a loader "
            "are (inputs, targets, groups); leave targets out then."
        )
    if len({len(one) for one in several.values()}) > 1:
        raise DataError(f"the inputs differ in rows: {[len(one) for one in several.values()]}.")
    for made in zip(*(torch.as_tensor(one).split(rows) for one in several.values()), strict=True):
        yield made if isinstance(inputs, tuple) else dict(zip(several, made, strict=True))


def _batches(batches: Any, told: list[list[Any]]) -> Iterator[Any]:
    """The inputs of batches (inputs, targets, groups, weights); of each the rest is added to `told`, None where there is none."""
    if isinstance(batches, Tensor | np.ndarray | str | Mapping) or not isinstance(batches, Iterable):
        raise OptionError("give targets of these inputs, or batches of (inputs, targets) or (inputs, targets, groups).")
    for batch in batches:
        if not isinstance(batch, tuple | list) or not 2 <= len(batch) <= 4:
            raise OptionError(
                "without targets inputs are batches of (inputs, targets), (inputs, targets, groups) or (inputs, targets, groups, weights)."
            )
        told.append([*batch[1:], None, None, None][:3])
        yield batch[0]


def _joined(parts: list[Any]) -> Any:
    """What batches hold one after the other; None where they hold nothing."""
    if not parts or parts[0] is None:
        return None
    return torch.cat([torch.as_tensor(part) for part in parts])


def _with_missing(groups: Any) -> Any:
    """Group codes of a tensor as they are, but None for -1; other groups as they are."""
    if not isinstance(groups, Tensor):
        return groups
    codes = plain_column(groups)
    return np.where(codes == -1, None, codes.astype(object)) if codes.dtype.kind in "iu" else codes  # type: ignore[call-overload]


def _last_layer(module: nn.Module, parts: Iterator[Any]) -> tuple[str, nn.Linear, Tensor, tuple[Any, Tensor]]:
    """The name of the last layer, itself, (n, h) what it makes its scores of, and the arguments of the first rows with
    what it makes theirs of."""
    linear = {part: name for name, part in module.named_modules() if type(part) is nn.Linear and part.bias is not None}
    like = next((p for p in module.parameters() if p.is_floating_point()), torch.zeros(0))
    made = (_moved(part, like) for part in parts)
    first = next(made, None)
    if first is None:
        raise DataError("there are no rows. Give one batch at least.")
    with torch.autocast(like.device.type, enabled=False):
        found = inputs_of(module, list(linear), chain([first], made))
        if found is None:
            raise OptionError(
                "the model's scores are not those of an nn.Linear with a bias, as they come from it. Let the model return "
                "the logits of such a layer alone, without a sigmoid, softmax or scale; wrap it in a module whose forward "
                "picks them out of a tuple or dict. It has these layers of the kind: "
                f"{shortlist(list(linear.values())) if linear else 'none'}."
            )
        layer, hidden = found
        again = inputs_of(module, [layer], [first])
        if again is None or not _equal(again[1], hidden):
            raise OptionError(
                "the model makes other numbers of the same rows each time: something in it is random in evaluation mode too."
            )
    _check_layer(module, layer, linear[layer])
    return linear[layer], layer, hidden, (first, again[1])


def _equal(first: Tensor, whole: Tensor) -> bool:
    """Whether the first rows of all are the same numbers, NaN too."""
    return torch.equal(first.nan_to_num(), whole[: len(first)].nan_to_num())


def _used_elsewhere(name: str) -> OptionError:
    return OptionError(
        f"the weights of the last layer {name!r} are used elsewhere in the model too, and would change there."
    )


def _check_layer(module: nn.Module, layer: nn.Linear, name: str) -> None:
    """Raises: OptionError where the layer's weights stand elsewhere too, or do not make its scores."""
    if not stands_alone(module, layer):
        raise _used_elsewhere(name)
    if layer._forward_hooks or layer._forward_pre_hooks:
        raise OptionError(
            f"the last layer {name!r} has hooks (or weight_norm and the like), so that its weights alone do not make its scores. Remove them first."
        )


def _moved(part: Any, like: Tensor) -> Any:
    """The arguments of a model, their tensors on the device of `like`, fractions in its dtype."""
    if isinstance(part, Tensor | np.ndarray):
        tensor = torch.as_tensor(part)
        return tensor.to(like.device, like.dtype if tensor.is_floating_point() else tensor.dtype)
    if isinstance(part, Mapping):
        return {name: _moved(value, like) for name, value in part.items()}
    return tuple(_moved(value, like) for value in part) if isinstance(part, tuple | list) else part


def _class_numbers(targets: Any, layer: nn.Linear) -> np.ndarray:
    """(n,) int64. Raises: DataError for other targets than the class numbers that the layer has scores of."""
    y, classes = np.asarray(targets), max(2, layer.out_features)
    whole = y.astype(np.int64) if y.dtype.kind in "biuf" and np.isfinite(y).all() else None
    found = [] if whole is None else np.unique(whole).tolist()
    if whole is None or not (whole == y).all() or found != list(range(classes)):
        known = sorted(set(map(str, y.tolist())))
        raise DataError(
            f"a layer of {layer.out_features} scores needs targets 0 to {classes - 1}, each in some row; these are {shortlist(known)}."
        )
    return whole
