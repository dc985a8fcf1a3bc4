"""What the running means of a `Dual` say of its bounds: values, how sure they are, and the report."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbound.base.callers import users_line
from fairbound.base.errors import DataWarning, OptionError
from fairbound.base.names import shortlist
from fairbound.fairness.bound import Bound
from fairbound.fairness.compiled.contrasts import PlanContrasts, seen_contrasts
from fairbound.fairness.compiled.plan import Plan
from fairbound.fairness.compiled.statistics import SELECTED, Above, ClassShare, RowFunction
from fairbound.optim.batch import Batch, refuse_rows, without_number
from fairbound.optim.means import RunningMeans, cell_weights
from fairbound.optim.multipliers import FREE, raised, shrunk
from fairbound.optim.spread import standard_errors
from fairbound.optim.state import MEASURED, PASS_LOGITS, SAME_SIDE, DualReport, Nearly, by_name, said_alike
from fairbound.rows.groups import MISSING, Groups
from fairbound.rows.occurring import Occurring
from fairbound.rows.scores import nearly_all_alike

NEARLY = 0.95  # share of rows decided one way that is nearly all
MIXED = 0.125  # least share of the rows of the other label: models of rarer ones decide so without a bound
LATELY = 8  # times `memory`: about as long as a swing takes
PASSED = 64  # updates whose estimates are looked at together


def exact_means(
    running: RunningMeans, batches: Iterable[Sequence[Any]], read: Callable[..., Batch], world: int, place: torch.device
) -> tuple[np.ndarray, np.ndarray, tuple[float, float]]:
    """(K, S) means and (K,) rows of cells over all rows of batches; the statistics of `running`, which stays as it is;
    and the least and the largest score of this process.

    batches: of (scores, targets, group, weight), the last two perhaps left out. read: these -> a batch. world:
    processes whose rows are put together, on the device `place`. Raises: NonFiniteError where a score or loss is NaN or infinite.
    """
    found = RunningMeans(running.plan, running.statistics[:1], running.loss, math.inf, running.keys)
    low, high = math.inf, -math.inf
    with torch.no_grad():
        for number, given in enumerate(batches):
            batch = read(*_parts(given, number + 1))
            bad = without_number(torch.tensor(math.nan), batch, running.loss)  # of none is the loss known
            if bad is not None:
                refuse_rows(bad, batch, running.plan, running.keys, number + 1, MEASURED)
            low, high = min(low, float(batch.scores.min())), max(high, float(batch.scores.max()))
            found.add(batch, number)
            found.shorten(1)
        found.update(world, place)
    return found.state["mean"], found.state["rows"], (low, high)


def warn_of_measured(
    plan: Plan, means: np.ndarray, rows: np.ndarray, classes: Sequence[Any], span: tuple[float, float] | None
) -> None:
    """Warns: DataWarning where what `exact_means` found is of probabilities, or of rows decided alike.
    classes: as of `_decided_alike`; span: of scores that must be logits, None of others."""
    alike, said = _decided_alike(plan, means[:, 0], rows, classes), ""
    if span is not None and span[0] >= 0 and 0 < span[1] <= 1:
        said = f"all scores lie in [0, 1].{PASS_LOGITS}"
    elif alike:
        said = said_alike(alike, "measured")
    if said:
        warnings.warn(said, DataWarning, stacklevel=users_line())


def warn_of_nothing_measured(values: Mapping[str, float]) -> None:
    """Warns: DataWarning where no row tells the value of a bound. values: as of `named_values`."""
    if gone := [text for text, value in values.items() if math.isnan(value)]:
        warnings.warn(
            f"no row of these batches tells the value of {shortlist(gone)}, which is NaN: neither met nor missed.",
            DataWarning,
            stacklevel=users_line(),
        )


def _parts(batch: Any, number: int) -> list[Any]:
    """Scores, targets, group and weight of a batch, None where left out. Raises: OptionError where it is no such tuple."""
    if not isinstance(batch, list | tuple) or not 2 <= len(batch) <= 4:
        found = f"{len(batch)} values" if isinstance(batch, list | tuple) else f"a {type(batch).__name__}"
        how = "a single batch stands in a list: dual.measure([(scores, targets, group)])"
        if isinstance(batch, Mapping):
            how = "take them out of it: dual.measure((model(b['x']), b['y'], b['group']) for b in loader)"
        raise OptionError(
            f"measure takes batches of (scores, targets), (scores, targets, group) or (scores, targets, group, weight); batch {number} "
            f"is {found}; {how}."
        )
    return [*batch, *[None] * (4 - len(batch))]


def in_one_line(stated: Sequence[Bound], groups: Groups, outputs: int, state: dict[str, Any]) -> str:
    """A Dual with these bounds, groups, scores per row and state, as `repr` shows it."""
    texts = ", ".join(repr(b.text) for b in stated)
    sizes = {name: len(known) for name, known in zip(groups.attributes, groups.labels, strict=True)}
    by = f", groups={sizes}" if sizes else ""
    many = "" if outputs == 1 else f", classes={outputs}"
    y = state["multipliers"]
    return f"Dual({texts}{by}{many}, m={len(y)}, steps={state['k']}, largest multiplier={y.max():.3g})"


def _measured(plan: Plan, contrasts: PlanContrasts, q: Tensor, rows: np.ndarray) -> list[Any]:
    """The value of each bound from cell means q (K,), NaN where none of its groups has rows (K,)."""
    known, out = seen_contrasts(plan, torch.from_numpy(rows > 0)), []
    for number, bound in enumerate(plan.notions):
        rows = plan.rows_of(number)
        rows = rows if known is None else rows[known[rows].numpy()]
        out.append(bound.value_of(*contrasts.raw(q, rows)) if len(rows) else math.nan)
    return out


def stated_values(plan: Plan, contrasts: PlanContrasts, mean: np.ndarray, rows: np.ndarray) -> list[float]:
    """The same as numbers, from means (K, S)."""
    return [float(v) for v in _measured(plan, contrasts, torch.from_numpy(mean)[:, 0], rows)]


def named_values(
    plan: Plan, stated: Sequence[Bound], contrasts: PlanContrasts, per_bound: Any, mean: np.ndarray, rows: np.ndarray
) -> dict[str, float]:
    """The text of each bound and its value in its units. per_bound: what 1 in those of the means (K, S) is in these."""
    values = per_bound * np.array(stated_values(plan, contrasts, mean, rows))
    return dict(zip([b.text for b in stated], values.tolist(), strict=True))


def better(bound: Bound, one: float, other: float) -> float:
    """The value nearer to what is asked for; the one that is a number where one is NaN."""
    if one != one or other != other:
        return other if one != one else one
    return max(one, other) if bound.sense == "at least" else min(one, other)


class Best:
    """The best of each bound's estimates at updates, and the range of those lately, towards the present one of which its
    ends fade to 1/e over so many `rows`; worked out for many updates at once, as only reports need it.
    passed: means (K, S), rows (K,) and all rows since the update before, of those not looked at yet."""

    def __init__(self, plan: Plan, contrasts: PlanContrasts, rows: float):
        self.plan, self.contrasts, self.rows = plan, contrasts, rows
        self.passed: list[tuple[np.ndarray, np.ndarray, int]] = []

    def note(self, state: dict[str, Any], means: dict[str, Any], since: int) -> None:
        """An update of a Dual with this state, from these running means, so many rows after the one before."""
        self.passed.append((means["mean"], means["rows"], since))
        if len(self.passed) == PASSED:
            self.settled(state)

    def settled(self, state: dict[str, Any]) -> dict[str, Any]:
        """The state, with `smallest`, `low` and `high` brought up to date."""
        best, low, high = state["smallest"].tolist(), state["low"], state["high"]
        for *means, since in self.passed:
            now = stated_values(self.plan, self.contrasts, *means)
            best = [better(*each) for each in zip(self.plan.notions, best, now, strict=True)]
            at, kept = np.array(now), math.exp(-since / self.rows)
            low, high = np.fmin(at, at + kept * (low - at)), np.fmax(at, at + kept * (high - at))
        state |= {"smallest": np.array(best), "low": low, "high": high}
        self.passed.clear()
        return state


def _decided_alike(plan: Plan, means: np.ndarray, seen: np.ndarray, classes: Sequence[Any]) -> str | None:
    """How all rows are decided, as in `DualReport`, by the means (K,) of cells with rows (K,); None where not alike, or
    where it cannot be told. classes: the labels of the class numbers."""
    functions: Sequence[Any] = plan.functions
    of = np.array([functions.index(c.function) for c in plan.columns for _ in range(c.cells)])
    if all(isinstance(f, ClassShare) or (isinstance(f, RowFunction) and f.per_class) for f in functions):
        of, means = _by_class(plan, means)
        functions = classes
    shares = [means[(of == number) & (seen > 0)] for number in range(len(functions))]
    if (of < 0).any() or not all(map(len, shares)):
        return None
    all_in, none_in = [v.min() > 1 - 1e-9 for v in shares], [v.max() < 1e-9 for v in shares]
    if not all(a or b for a, b in zip(all_in, none_in, strict=True)):
        return None
    if functions is classes:
        return f"class {classes[all_in.index(True)]}" if sum(all_in) == 1 else None
    if all(isinstance(f, RowFunction) and f.table == SELECTED for f in functions):
        return "positive" if all(all_in) else "negative" if all(none_in) else None
    return SAME_SIDE if all(isinstance(f, Above) for f in functions) else None


def _nearly_alike(plan: Plan, means: np.ndarray, weight: np.ndarray, trained: Occurring) -> Nearly | None:
    """How nearly all rows are decided, where far fewer have that label; None of others, and where it cannot be told.

    means, weight: (K,) of cells and the rows behind them. trained: labels of the training rows, once each of a stream.
    """
    for column in plan.columns:
        function, both = column.function, set(column.conditions) == {0, 1}
        known = both or (column.conditions == (None,) and bool((trained.counts > 1).any()))
        if not (isinstance(function, RowFunction) and function.table == SELECTED and not function.per_class and known):
            continue
        own = slice(column.offset, column.offset + column.cells)
        of_cells = weight[own]
        if not (total := of_cells.sum()):
            continue
        positive = float(of_cells @ means[own]) / total
        of_labels = of_cells.reshape(len(column.conditions), -1).sum(1)
        labelled = of_labels[column.conditions.index(1)] / total if both else trained.of_label(1) / trained.rows
        said, share, label = (
            ("positive", positive, labelled) if positive > 0.5 else ("negative", 1 - positive, 1 - labelled)
        )
        if share >= NEARLY and 1 - label >= MIXED and nearly_all_alike(share, label):
            return Nearly(said, float(share), float(label))
    return None


def _by_class(plan: Plan, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(K,) the class that each cell's mean (K,) tells of, -1 where none; (K,) the share of its rows decided for that."""
    of, shares = np.full(plan.n_cells, -1), means.copy()
    for column in plan.columns:
        own = slice(column.offset, column.offset + column.cells)
        if isinstance(column.function, ClassShare):
            of[own] = column.function.code
        elif None not in column.conditions:  # the share that is not decided for its own class
            of[own], shares[own] = np.repeat(np.array(column.conditions), column.groups), 1 - means[own]
    return of, shares


def report_of(
    plan: Plan,
    stated: Sequence[Bound],
    state: dict[str, Any],
    means: RunningMeans,
    values: dict[str, float],
    per_bound: Any,
    cap: float,
    of_losses: np.ndarray,
    classes: Sequence[Any],
    trained: Occurring,
) -> DualReport:
    """Where a Dual stands. stated: its bounds; state: of the Dual; values: of the bounds, in their units; per_bound:
    what 1 in the state's is in these; cap: what no
    multiplier exceeds; of_losses: (K + 1,) cells that average the loss; classes: as of
    `_decided_alike`; trained: as of `_nearly_alike`."""
    y, names = torch.from_numpy(state["multipliers"]), plan.cell_names
    compared, found = plan.used_cells().tolist(), np.array(list(values.values()))
    lacked, latest = means.lacked().tolist(), means.latest()
    rows, smallest = latest.rows.tolist(), (per_bound * state["smallest"]).tolist()
    contrasts, joint = PlanContrasts(plan), means.latest(state["processes"])
    errors = per_bound * np.array(standard_errors(plan, contrasts, joint.mean, joint.resting))
    now, before = (
        np.array(stated_values(plan, contrasts, q, joint.weight)) for q in (joint.mean, joint.trail[:, None])
    )
    drifts = per_bound * (now - before)
    turns = {text: state["turns"][plan.rows_of(j)].max() for j, text in enumerate(values)}
    rest = latest.resting
    ends = np.stack([np.fmin(per_bound * state["low"], found), np.fmax(per_bound * state["high"], found)])
    memo = contrasts.values(torch.from_numpy(means.moving()))[1]
    by_cell = cell_weights(contrasts, state["w"], means.state, max(state["weighed"], 1), memo)[1]
    below = raised(by_cell, of_losses) * shrunk(by_cell, of_losses, means.state)
    alike = _decided_alike(plan, latest.mean[:, 0], latest.rows, classes)
    return DualReport(
        steps=state["k"],
        batches=means.seen_batches,
        rows=means.seen_rows,
        skipped=state["skipped"],
        values=values,
        standard_errors=dict(zip(values, errors.tolist(), strict=True)),
        drifts=dict(zip(values, drifts.tolist(), strict=True)),
        ranges={text: tuple(ends[:, j].tolist()) for j, text in enumerate(values) if turns[text] > 1},
        turning=tuple(text for text in values if turns[text] > FREE),
        bounds={b.text: float(b.stated) for b in stated},
        smallest={
            b.text: better(b, values[b.text], v) if values[b.text] == values[b.text] else math.nan
            for b, v in zip(stated, smallest, strict=True)
        },
        multipliers={plan.names[i]: float(y[i]) for i in y.nonzero().flatten().tolist()},
        raised={names[c]: -float(below[c]) for c in below.nonzero()[0].tolist()},
        at_cap=tuple(plan.names[i] for i in (y >= cap).nonzero().flatten().tolist()),
        lacking=by_name((names[c], int(lacked[c])) for c in compared if lacked[c]),
        unmeasured=tuple(by_name((names[c], 1) for c in compared if not rows[c])),
        rests_on={names[c]: round(float(rest[c])) for c in sorted(compared, key=lambda c: -rest[c]) if rows[c]},
        processes=state["processes"],
        alike=alike,
        missing=int(trained.counts[(trained.codes == MISSING).any(1)].sum()),
        nearly=_nearly_alike(plan, latest.mean[:, 0], latest.weight, trained)
        if alike is None and bool(y.any())
        else None,
    )
