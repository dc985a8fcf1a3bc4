"""`Queue`: the latest batches of a loop, kept as they came until an update sums them up. Usual ones stand in a `FastQueue`
until others join them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from fairbound.base.errors import CheckpointError
from fairbound.optim.batch import Batch, Joined, Keys
from fairbound.optim.fast_queue import FastQueue


@dataclass
class Queue:
    """Rows of the latest batches, as they came: what running sums are made of, now and then, in one go.

    scores: what `Keys.kept` keeps of each batch; keys: (B,); weights: (B,), or None for equal ones; steps: the
    optimiser step each came in; sizes: the rows that the loop gave.
    """

    scores: list[Tensor] = field(default_factory=list)
    keys: list[Tensor] = field(default_factory=list)
    weights: list[Tensor | None] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    rows: int = 0

    def add(self, batch: Batch, kept: Tensor, step: int) -> None:
        """A batch of step `step`. kept: as of `Keys.kept`."""
        self.scores.append(kept)
        self.keys.append(batch.keys)
        self.weights.append(batch.weight)
        self.steps.append(step)
        self.sizes.append(batch.rows)
        self.rows += batch.rows

    def take_in(self, fast: FastQueue, keys: Keys) -> None:
        """The rows of `fast` after those that are here; it has none then."""
        fast.joined(keys)
        for (s, y, codes), step in zip(fast.batches, fast.steps, strict=True):
            found = torch.add(y.long(), codes, alpha=keys.classes)
            self.add(Batch(s, y, found, found, None, len(found)), s, step)
        fast.clear()

    def to(self, device: torch.device) -> None:
        self.scores = [s.to(device) for s in self.scores]
        self.keys = [k.to(device) for k in self.keys]
        self.weights = [None if w is None else w.to(device) for w in self.weights]

    def joined(self, keys: Keys) -> Joined:
        """All rows."""
        weight = None
        if any(w is not None for w in self.weights):
            pairs = zip(self.weights, self.scores, strict=True)
            each = [s.new_ones(len(s)) if w is None else w for w, s in pairs]
            whole = [w if len(w) == n else (w[:n] + w[n:]).repeat(2) for w, n in zip(each, self.sizes, strict=True)]
            weight = torch.stack([torch.cat(each), torch.cat(whole)]).cpu().double().numpy()
        scores, found = torch.cat(self.scores).cpu(), torch.cat(self.keys).cpu().numpy()
        shape = tuple(k - self.steps[0] for k in self.steps), tuple(self.sizes), tuple(map(len, self.keys))
        return *keys.apart(scores, found), keys.cells(found), weight, shape

    def plain(self) -> dict[str, Any]:
        """Lists of CPU tensors and numbers."""
        return {
            "scores": [s.to("cpu", copy=True) for s in self.scores],
            "keys": [k.to("cpu", copy=True) for k in self.keys],
            "weights": [None if w is None else w.to("cpu", copy=True) for w in self.weights],
            "steps": list(self.steps),
            "sizes": list(self.sizes),
        }

    @classmethod
    def of(cls, saved: Any, keys: Keys) -> Queue:
        """The rows that `plain` gave. Raises: CheckpointError where they are not such rows."""
        try:
            made = cls(
                [v.clone() for v in saved["scores"]],
                [k.clone() for k in saved["keys"]],
                [None if w is None else w.clone() for w in saved["weights"]],
                list(saved["steps"]),
                list(saved["sizes"]),
            )
            parts = list(zip(made.scores, made.keys, made.weights, made.steps, made.sizes, strict=True))
            fits = len(saved) == 5 and made.steps == sorted(made.steps)
            for s, k, w, _, size in parts:
                fits = fits and (
                    s.shape == (len(k), *keys.kept_shape)
                    and k.dtype == torch.int64
                    and len(k) in (size, 2 * size)
                    and bool(torch.isfinite(s).all() & ((k >= -keys.n) & (k < keys.n)).all())
                    and (w is None or (w.shape == k.shape and bool((torch.isfinite(w) & (w >= 0)).all())))
                )
        except (TypeError, KeyError, AttributeError, IndexError, ValueError) as error:
            raise CheckpointError(
                f"the state of Dual has unreadable recent rows ({type(error).__name__}: {error}); "
                "pass what state_dict() returned."
            ) from error
        if not fits:
            raise CheckpointError(
                "the state of Dual has recent rows of other shapes, or with NaN; use an earlier checkpoint."
            )
        made.rows = sum(made.sizes)
        return made
