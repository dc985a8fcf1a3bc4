"""The state of a `Dual` and its report, and the check of a state that it is to continue from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairbound.base.errors import CheckpointError, NonFiniteError, OptionError
from fairbound.base.names import shortlist
from fairbound.fairness.bound import Bound
from fairbound.fairness.compiled.plan import Plan
from fairbound.rows.groups import label_text

FORMAT = 5
SIGNED = ("g", "side", "mean", "trail", "window", "smallest", "low", "high")
PASS_LOGITS = " If the scores are probabilities, pass the logits that go into them."
SWING = 6.0  # standard errors between the least and the largest of a few independent estimates, seldom by chance
TURNING = 2.0  # the same where changes of side that chance does not explain have shown that it swings
CALM = "Quarter dual_step_size and penalty, take larger batches, or lower the learning rate and let it decay"
SAME_SIDE = "on the same side of every threshold"
MAYBE = ("smallest", "low", "high")  # NaN before the first update
CAPPED = ("multipliers", "w")


def fresh_state(m: int, bounds: int) -> dict[str, Any]:
    """What changes beside the running means. multipliers, g, w, pace, side, turns: see `moved`. smallest: of each bound's
    estimates at updates; low, high: the range of those lately (see `Best`). k: steps; weighed: k at the last update; calls: batches of this process, and calls_at_step: the same at the last step()."""
    return {
        **{name: np.zeros(m) for name in ("multipliers", "g", "w", "side", "turns")},
        "pace": np.ones(m),
        **{name: np.full(bounds, math.nan) for name in MAYBE},
        **dict.fromkeys(("k", "weighed", "calls", "calls_at_step", "skipped"), 0),
        "processes": 1,
    }


class Nearly(NamedTuple):
    """How nearly all rows are decided: "positive" or "negative", the share of them, and the share with that label."""

    decided: str
    share: float
    labelled: float


@dataclass(frozen=True)
class DualReport:
    """Where a Dual stands; `str(report)` says it in words.

    steps, batches, rows: step() calls, loss() calls counted, and their rows (over all processes, as of the last update,
    plus this process since). skipped: batches left out for NaN or infinity.
    values: running estimate of each stated bound's metric, NaN before it could be measured. standard_errors: how far
        beyond it one standard error takes it, from the rows that it rests on. drifts: how far the values have moved
        over the rows that they remember, by which they lag where they go on so. ranges: of bounds on rates that were
        broken, met and broken again, or the other way round, the least and the largest estimate lately, older ones fading
        into the present one. turning: those of them that have turned so often of late that their multipliers move
        slower. bounds: what was asked.
    smallest: the estimate nearest to what is asked for at any update: the smallest of a bound from above, of one from
        below the largest. multipliers: contrast name -> multiplier, those
        above 0.
    raised: group -> what its rows weigh in the loss, where that is below 0: training raises their loss.
    at_cap: contrasts whose multiplier is at multiplier_bound: the bound is likely out of reach.
    lacking: group -> batches without a row of it. unmeasured: groups without a row in any batch so far. rests_on:
        group -> rows that the estimates rest on, each counted as what it still weighs (see `memory`), those of unequal
        weights as so many fewer (Kish).
    processes: how many processes the last update joined. alike: "positive", "negative" or "class ..." where all rows
        seen lately are decided so, and "on the same side ..." where all predicted numbers are so of every threshold
        of prediction_parity: that meets bounds on rates whatever the model is. nearly: the same of nearly all rows, where
        a multiplier is above 0 and far fewer rows have that label; None else. missing: training rows that are in no group.
    """

    steps: int
    batches: int
    rows: int
    skipped: int
    values: dict[str, float]
    standard_errors: dict[str, float]
    drifts: dict[str, float]
    ranges: dict[str, tuple[float, float]]
    turning: tuple[str, ...]
    bounds: dict[str, float]
    smallest: dict[str, float]
    multipliers: dict[str, float]
    raised: dict[str, float]
    at_cap: tuple[str, ...]
    lacking: dict[str, int]
    unmeasured: tuple[str, ...]
    rests_on: dict[str, int]
    processes: int
    alike: str | None = None
    nearly: Nearly | None = None
    missing: int = 0

    def unsure(self, text: str) -> float:
        """How far the estimate of a bound may be from what the model does now: its standard error and its drift, or as far
        as it swings."""
        off = sum(abs(v) for v in (self.standard_errors[text], self.drifts[text]) if v == v)
        return max([off, *(abs(end - self.values[text]) for end in self.swing(text))])

    def swing(self, text: str) -> tuple[float, ...]:
        """From where to where the estimate of a bound swings, as in `ranges`, where that is further than by chance."""
        low, high = self.ranges.get(text, (0.0, 0.0))
        by_chance = TURNING if text in self.turning else SWING
        return (low, high) if high - low > by_chance * self.standard_errors[text] else ()

    def _missed(self, text: str) -> bool:
        """Whether the estimate of a bound is on the wrong side of it by more than it may be off."""
        over = self.values[text] - self.bounds[text]
        return (-over if ">=" in text else over) > self.unsure(text)

    def _of_missed(self) -> list[str]:
        """What to do about bounds that are missed now, at most a line each for those that swing and for others."""
        missed = [text for text in self.values if self._missed(text)]
        lines: list[str] = []
        if not self.multipliers or self.at_cap:
            return lines
        if swing := [text for text in missed if text in self.ranges]:
            lines.append(
                f"multipliers swing for {shortlist(swing)}: a difference was broken, met and broken again, as they move too fast for "
                f"this loop. {CALM} (docs/pytorch.md), or keep a moment that met it."
            )
        if far := [text for text in missed if text not in self.ranges]:
            lines.append(
                f"not met yet: {shortlist(far)}. Train longer, with a learning rate that decays, or keep a moment that met it "
                f"(docs/pytorch.md). Where more steps do not bring it nearer: {CALM[0].lower()}{CALM[1:]}, or loosen the bound, which may "
                "be out of reach."
            )
        return lines

    def __str__(self) -> str:
        lines = [f"{self.steps} steps, {self.batches} batches, {self.rows} rows, {self.processes} process(es)"]
        if self.batches and not self.steps:
            lines.append("dual.step() was never called, so no multiplier moves: call it after every optimizer.step().")
        for text, value in self.values.items():
            about = (text, value, self.unsure(text), self.bounds[text], self.smallest[text])
            where = "not measured yet" if math.isnan(value) else _where(*about, self.swing(text))
            lines.append(f"{text}: {where}")
        lines += self._of_missed()
        if self.rests_on:
            fewest = sorted(self.rests_on.items(), key=lambda item: item[1])
            lines.append(
                f"estimates rest on the latest rows of each group: {shortlist([f'{n:,} of {name}' for name, n in fewest])}."
            )
        if self.alike:
            lines.append(said_alike(self.alike, "seen lately"))
        if self.nearly:
            decided, share, labelled = self.nearly
            lines.append(
                f"{100 * share:.1f} % of the rows seen lately are decided {decided}, where {100 * labelled:.1f} % have that label: "
                "rates of a nearly constant model are alike whatever it has learnt. Train longer with a learning rate that "
                "decays, loosen the bound, or keep another moment."
            )
        if self.raised:
            lines.append(
                f"training raises the loss of {shortlist([f'{name} (its rows weigh {w:.2g})' for name, w in self.raised.items()])}: "
                "lowering that of others has not met the bound. Loosen the bound where this is not wanted."
            )
        if self.at_cap:
            lines.append(
                f"multiplier at its cap for {shortlist(self.at_cap)}: the bound is likely out of reach of this "
                "model. Loosen it, use a richer model, or raise multiplier_bound."
            )
        if self.unmeasured:
            lines.append(f"no row yet of {shortlist(self.unmeasured)}: bounds on them are not active.")
        if self.missing:
            lines.append(f"{self.missing:,} training rows are in no group, and no bound speaks of them.")
        lacking = [f"{name} ({n})" for name, n in self.lacking.items()]
        if lacking:
            lines.append(f"batches without a row of a group: {shortlist(lacking)}.")
        if self.skipped:
            lines.append(f"{self.skipped} batches skipped for NaN or infinite scores or losses.")
        return "\n".join(lines)


def said_alike(alike: str, which: str) -> str:
    """That all rows are decided alike, as in `DualReport`. which: rows, in a word or two."""
    how = "predicted" if alike == SAME_SIDE else "decided"
    hint = PASS_LOGITS if alike == "positive" else ""
    return f"every row {which} is {how} {alike}, so its rates say nothing of the groups.{hint}"


def _where(text: str, value: float, off: float, bound: float, best: float, swing: tuple[float, ...]) -> str:
    """Where a bound's estimate stands. off: by how much it may be wrong; swing: as of `DualReport.swing`."""
    at_least = ">=" in text
    over, least = ("below", "largest") if at_least else ("above", "smallest")
    spare = value - bound if at_least else bound - value
    where = f"within the bound; {least} so far {best:.4g}"
    if spare < off:
        where = f"{over} the bound; {least} so far {best:.4g}"
    if off and abs(spare) < off:
        where = "too close to the bound to tell: dual.measure on all rows decides"
        if swing:
            low, high = swing
            where = (
                f"circles the bound, lately between {low:.2g} and {high:.2g}: let the learning rate decay, lower it, or quarter "
                "dual_step_size and penalty"
            )
    return f"{value:.4g}{f' ± {off:.2g}' if off else ''}, {where}"


def identity(
    plan: Plan, stated: Sequence[Bound], loss: str, by: str, classes: Sequence[Any], outputs: int, units: Any
) -> dict[str, Any]:
    """What a state must agree in with the `Dual` that is to continue from it: how much each bound allows may differ."""
    return {
        "format": FORMAT,
        "stated": [b.text.rpartition(" ")[0] for b in stated],
        "names": list(plan.names),
        "cells": list(plan.cell_names),
        "loss": loss,
        "dual_values": by,
        "classes": [str(label_text(c)) for c in classes],
        "outputs": outputs,
        **({} if units is None else {"units": [units.mean, units.sd]}),
    }


def checked_state(
    saved: Mapping[str, Any],
    fresh: dict[str, Any],
    identity: dict[str, Any],
    multiplier_bound: float,
    others: tuple[str, ...],
) -> dict[str, Any]:
    """The values of `saved` for the keys of `fresh`, copied.

    identity: what must agree. others: keys that must be there too and are checked elsewhere. Raises: CheckpointError
    naming the key that is missing, unknown, of another problem, of another shape, or holds an impossible value.
    """
    if not isinstance(saved, Mapping):
        raise CheckpointError(f"the state of Dual is {type(saved).__name__}; pass what state_dict() returned.")
    wanted = {*fresh, *identity, *others}
    for what, keys in (("lacks", wanted - set(saved)), ("has unknown", set(saved) - wanted)):
        if keys:
            raise CheckpointError(
                f"the state of Dual {what} {sorted(map(str, keys))}; pass what state_dict() returned."
            )
    for key, here in identity.items():
        if saved[key] != here:
            raise CheckpointError(
                f"the state of Dual is of another problem: its {key} are {shown(saved[key])}, here "
                f"{shown(here)}. Build Dual as it was built when saved."
            )
    return {key: _checked(key, saved[key], like, multiplier_bound) for key, like in fresh.items()}


def _checked(key: str, value: Any, like: Any, multiplier_bound: float) -> Any:
    if not isinstance(like, Tensor):
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise CheckpointError(f"the state of Dual has {key} = {value!r}; expected a whole number >= 0.")
        return value
    if not isinstance(value, Tensor) or value.shape != like.shape or value.dtype != like.dtype:
        found = f"{value.dtype} {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise CheckpointError(f"the state of Dual has {key} as {found}, expected {like.dtype} {tuple(like.shape)}.")
    low, top = -math.inf if key in SIGNED else 0.0, multiplier_bound if key in CAPPED else math.inf
    possible = (value >= low) & (value <= top)
    possible = possible | value.isnan() if key in MAYBE else possible & value.isfinite()
    if not bool(possible.all()):
        raise CheckpointError(
            f"the state of Dual has impossible {key} ({value[~possible][:3].tolist()}); they must be "
            f"finite and in [{low:g}, {top:g}]. Use an earlier checkpoint."
        )
    return value.numpy(force=True).copy()


def as_tensors(state: Mapping[str, Any]) -> dict[str, Any]:
    """A state with copies of its arrays as tensors, which `torch.load(weights_only=True)` reads."""
    return {key: torch.tensor(value) if isinstance(value, np.ndarray) else value for key, value in state.items()}


def shown(value: Any) -> str:
    """A value of an `identity`, in words."""
    return f"{len(value)}: {shortlist(value)}" if isinstance(value, (list, tuple)) else repr(value)


def by_name(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Name -> the largest number given with it (attributes may share a group name)."""
    out: dict[str, int] = {}
    for name, number in pairs:
        out[name] = max(number, out.get(name, 0))
    return out


def check_options(nonfinite: str, distributed: bool, memory: float | None) -> None:
    """Raises OptionError for options of Dual that cannot be meant."""
    if memory is not None and not memory > 0:
        raise OptionError(f"memory must be positive, got {memory!r}.")
    if nonfinite not in ("raise", "skip"):
        raise OptionError(f"nonfinite must be 'raise' or 'skip', got {nonfinite!r}.")
    if distributed and nonfinite == "skip":
        raise OptionError(
            "nonfinite='skip' cannot be used with distributed=True: a process that skips its "
            "backward pass leaves the others waiting for its gradients. Use nonfinite='raise'."
        )


TRAINED = (
    "Nothing of the batch entered the multipliers. Look for NaN or huge values in these rows, lower the "
    "learning rate, or use Dual(..., nonfinite='skip') to skip and count such batches."
)
PADDED = (
    "These rows weigh 0, but a gradient that passes a NaN is NaN whatever the row weighs: leave them out before the model "
    "sees them, or give it finite inputs for them."
)
MEASURED = (
    "measure leaves no row out, whatever `nonfinite` is. Look for NaN or huge values in these rows and in the weights "
    "of the model, or give the batches without these rows."
)


def not_finite(
    bad: int, rows: int, number: int, names: Sequence[str], groups: Sequence[str], hint: str = TRAINED
) -> NonFiniteError:
    """The error of a batch with `bad` of its `rows` NaN or infinite. number: of the batch; names, groups: constraints
    and groups that they are in. hint: what to do."""
    return NonFiniteError(
        f"scores or losses are NaN or infinite in {bad} of {rows} rows of batch {number}"
        + (
            f"; groups {shortlist(groups)}; constraints {shortlist(names)}"
            if groups
            else "; no bound is on their groups"
        )
        + f". {hint}"
    )
