"""Fair training as a Problem: a model, rows, a loss, and stated bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import cached_property, reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbound.base.errors import DataError, EmptyGroupError, OptionError
from fairbound.base.names import shortlist
from fairbound.base.seeds import seed_for
from fairbound.fairness.bound import Bound
from fairbound.fairness.compiled.builder import compile_plan
from fairbound.fairness.compiled.contrasts import dual_scale
from fairbound.fairness.compiled.convex_parts import plan_parts
from fairbound.fairness.compiled.forms import steeper
from fairbound.fairness.compiled.plan import Plan
from fairbound.fairness.compiled.statistics import LOSS
from fairbound.fairness.evaluation.reported import Reported
from fairbound.fairness.lines.sweeping import FewRows, swept
from fairbound.fairness.notions import constraints
from fairbound.fairness.objectives import Accuracy, ClassLosses, objective_of
from fairbound.fairness.pointwise import HINGE, LOGISTIC, SQUARED, SQUARED_MARGIN, Pointwise, loss_named
from fairbound.fairness.row_checks import check_bounds, check_same_length, labels_of, sorted_rows, sorted_weights
from fairbound.models.mlp import is_linear
from fairbound.models.model import Model
from fairbound.models.scoring import scores_of_rows
from fairbound.problems.base import BaseProblem
from fairbound.problems.domain import Domain, Product, Space
from fairbound.problems.problem import Measured, check_finite
from fairbound.problems.wrappers import Rebounded
from fairbound.rows.groups import Groups, no_groups
from fairbound.rows.moments import second_moments
from fairbound.rows.occurring import Occurring
from fairbound.rows.reading import plain_array
from fairbound.rows.sampling import reorder
from fairbound.rows.shards import ALONE, Shards
from fairbound.rows.sparse import SparseRows
from fairbound.rows.strata import Strata

CONVEX = (LOGISTIC, HINGE, SQUARED, SQUARED_MARGIN)
CURVATURE_ROWS = 50_000
MOST_CURVED = 2000
"""Second moments of the features are taken over so many rows at most, and for so many parameters at most."""
MOST_CONSTRAINTS = 2_000_000
"""Constraints of all bounds, at most, as between all pairs of 1,400 groups: vectors of more take tens of gigabytes in a
fit."""


class FairProblem(Reported, BaseProblem):
    """min mean loss (or another objective) subject to the stated bounds, over the rows given.

    model: a Model with n parameters. features: (n_rows, d) tensor or array, or (n_rows, ...) for an nn.Module; a SciPy
        sparse matrix, never made dense, for the built-in models.
    targets: (n_rows,) in {0, 1}; class numbers 0, 1, ... for a model with several outputs; numbers for the loss "squared"
        or a function, under bounds that do not look at labels.
    groups: Groups of the same rows, or anything Groups.of takes; None without bounds on groups.
    classes: labels of the class numbers, by which bounds on a class name it; None for the numbers themselves.
    stated: bounds as text or objects, or a Plan that was compiled from them.
    objective: None for the mean loss; "largest_group_loss" for the largest mean loss of a group, "auc" for one minus
        the area under the ROC curve, as text; or an object of `fairbound.fairness.objectives`, such as ClassLoss for
        the loss of the rows of one class. A Plan has one already, of which this says the kind.
    loss: "logistic", "hinge", "squared" of numbers, "squared_margin" of labels 0 and 1, "cross_entropy" or a per-row function. dtype: of the arithmetic.
    sample_weight: (n_rows,) >= 0, or None.
    in_place: dense features of this dtype are the problem's own from now on, and are sorted by stratum where they lie;
        else it makes a sorted copy.
    shards: where the rows given are a part of the table and other processes hold the rest. Groups and classes have the
        same numbers in all of them, and functions, gradients and measures are those of the whole table. Bounds that are
        no sums over rows, as those on areas under ROC curves, are refused then.

    Raises: DataError for rows that cannot be used; OptionError for bounds of more than MOST_CONSTRAINTS constraints;
    NonFiniteError, from the verbs, naming batch, group and constraint.
    """

    bounds: Tensor
    strata: Strata

    def __init__(
        self,
        model: Model,
        features: Any,
        targets: Any,
        groups: Any = None,
        stated: str | Bound | Sequence[str | Bound] | Plan | None = None,
        *,
        classes: Sequence[Any] | None = None,
        objective: Any = None,
        loss: str | Pointwise | Callable[[Tensor, Tensor], Tensor] = "logistic",
        sample_weight: Any = None,
        domain: Domain | None = None,
        dtype: torch.dtype = torch.float32,
        device: str | torch.device = "cpu",
        in_place: bool = False,
        shards: Shards = ALONE,
    ):
        per_row = loss_named(loss, model.outputs)
        y = labels_of(targets, per_row, model.outputs)
        self.groups = no_groups(len(y)) if groups is None else Groups.of(groups)
        codes, minimised = self.groups.codes, objective_of(objective)
        check_same_length(features, y, codes)
        bounds = stated.notions if isinstance(stated, Plan) else constraints(stated)
        check_bounds(bounds, model.outputs, minimised, y)
        plan = stated if isinstance(stated, Plan) else _compiled(bounds, minimised, self.groups, y, classes, shards)
        if plan.statistics and not shards.alone:
            raise OptionError(
                "these bounds or this objective compare rows with each other, and no process sees the rows of the others; "
                "train on one process."
            )
        self.n = model.n + sum(a.size for a in plan.auxiliaries)
        self.domain = _joint_domain(model.n, domain or Space(), plan)
        cells = plan.cells(codes, y)
        strata = Strata.of(cells)
        order = strata.order
        sorted_cells = torch.as_tensor(cells)
        reorder(sorted_cells, order)
        self.model, self.loss, self.classes = model, per_row, classes
        self._decides = per_row in (LOGISTIC, HINGE) or classes is not None
        self.exact_weight = None if sample_weight is None else sorted_weights(sample_weight, order)
        super().__init__(
            sorted_rows(model, features, order, dtype, torch.device(device), in_place),
            torch.as_tensor(y[order], device=device).to(dtype),
            sorted_cells.to(device),
            None if self.exact_weight is None else self.exact_weight.to(dtype=dtype, device=device),
            strata,
            shards,
        )
        self._use(plan)
        self._check_cells()
        self.names = plan.names
        self.dual_scale = torch.as_tensor(dual_scale(plan, self._functions), dtype=dtype, device=self.device)
        self.bounds = torch.as_tensor(plan.spare, dtype=dtype, device=self.device)
        self.unbiased = plan.unbiased and not (plan.statistics and self.row_weight is not None)
        self.refined = isinstance(minimised, Accuracy)
        self.class_losses = minimised if isinstance(minimised, ClassLosses) else None
        self.convex = self._promises_to_be_convex()
        self._curvature: Tensor | None = None

    def _promises_to_be_convex(self) -> bool:
        """Whether f is the mean of a convex loss of a linear model,
        and every g_i a sum of such means with weights of at least 0."""
        plan = self.plan
        others = plan.objective is not None or plan.beyond_means or len(plan.ratios) or plan.best
        return (
            self._convex_loss
            and not others
            and all(f == LOSS for f in plan.functions)
            and bool((plan.coefficient >= 0).all())
        )

    @property
    def _convex_loss(self) -> bool:
        """Whether the loss of a row is convex in the parameters."""
        return is_linear(self.model) and self.loss in CONVEX

    def _check_cells(self) -> None:
        used = np.union1d(self.plan.used_cells(), np.array(sum(self.plan.combined_cells, ()), dtype=np.int64))
        empty = used[(self.totals()[torch.as_tensor(used)] == 0).cpu().numpy()] if len(used) else used
        if len(empty):
            raise EmptyGroupError(
                f"no row of positive weight among these {self.rows} belongs to {shortlist((self.plan.cell_names[c] for c in empty), quoted=True)}, so the bounds that compare it cannot "
                "be measured on them. Give more rows (a larger validation share), merge the group, or drop its bound."
            )

    def with_bounds(self, bounds: Any) -> Rebounded:
        """The same problem with other bounds: (m,), or (R, m) for R stacked runs. Data are shared, not copied.

        Raises: OptionError where a bound is no difference: a ratio's is not only subtracted.
        """
        ratios = any(bound.sense == "at least" and bound.about == "group" for bound in self.plan.notions)
        if ratios or len(self.plan.bounds) < self.m:
            raise OptionError(
                "only bounds that are subtracted can be exchanged; build the problem anew with the other bound."
            )
        return Rebounded(self, bounds)

    def start(self, seeds: Sequence[int]) -> Tensor:
        starts = [self.model.start(torch.Generator().manual_seed(seed_for("start", root=s)), self.dtype) for s in seeds]
        x = starts[0] if len(seeds) == 1 else torch.stack(starts)
        firsts = [torch.as_tensor(a.start, dtype=self.dtype) for a in self.plan.auxiliaries]
        sizes = [(*x.shape[:-1], a.size) for a in self.plan.auxiliaries]
        more = [first.expand(size) for first, size in zip(firsts, sizes, strict=True)]
        return torch.cat([x, *more], dim=-1).to(self.device)

    # -- the same rows under other functions --------------------------------------------------------------------

    def sharpened(self, factor: float) -> FairProblem:
        """This problem with surrogates of decisions `factor` times as steep. Rows and batches are shared."""
        if factor == self._factor == 1:
            return self
        made = self._copied()
        made._steeper(factor)
        if self.plan.statistics:  # else the plan, and what it has computed, is shared
            made.plan = replace(self.plan, statistics=tuple(steeper(s, factor) for s in self.plan.statistics))
        made._kept = None
        return made

    def with_objective(self, objective: Accuracy) -> FairProblem:
        """This problem, whose objective is an Accuracy, with another share of the error rate. Rows are shared."""
        plan = self.plan
        assert plan.objective is not None
        if plan.objective.coefficient == objective.coefficients:
            return self
        self.curvature(), self.few_rows  # taken once: the copies share them
        return self._under(replace(plan, objective=replace(plan.objective, coefficient=objective.coefficients)))

    @property
    def aim(self) -> str:
        """What is minimised where it is between the loss and the error rate; "" of other objectives."""
        if not self.refined or self.plan.objective is None:
            return ""
        loss, error = self.plan.objective.coefficient
        return f"minimising {loss:.0%} loss + {error:.0%} error rate" if error else "minimising the loss"

    @property
    def plus(self) -> FairProblem | None:  # type: ignore[override]
        """The first of two problems whose difference is this one; it has the bounds. None where no such split is known.
        Both are convex for a linear model and a convex loss; for other models up to a term in |x|^2."""
        return self._parts[0]

    @property
    def minus(self) -> FairProblem | None:  # type: ignore[override]
        """The second of the two problems: this problem is `plus` less `minus`."""
        return self._parts[1]

    @cached_property
    def _parts(self) -> tuple[FairProblem | None, FairProblem | None]:
        """`plus` and `minus`; their batches are this problem's."""
        plans = plan_parts(self.plan) if self.model.outputs == 1 else None
        if plans is None:
            return None, None
        plus, minus = (self._under(plan) for plan in plans)
        for part in (plus, minus):
            part._parts, part.convex = (None, None), self._convex_loss
        return plus, minus

    def _under(self, plan: Plan) -> FairProblem:
        """This problem under another plan with the same columns. Rows are shared."""
        made = self._copied()
        made._use(plan)
        return made

    def _copied(self) -> FairProblem:
        """A copy that shares the rows and what was computed of them."""
        made = copy(self)
        made.__dict__.pop("_parts", None)
        return made

    def curvature(self) -> Tensor | None:
        """(n, n) second moments of the features of at most CURVATURE_ROWS rows, for a linear model, those of each of
        several scores by themselves."""
        model, features = self.model, self.features
        if not is_linear(model) or model.n > MOST_CURVED:
            return None
        if self._curvature is None:
            step = -(-self.rows // CURVATURE_ROWS)
            if isinstance(features, SparseRows):
                sums, count = second_moments(features.double().matrices[0][::step], model.bias)
            else:
                sums, count = second_moments(plain_array(features[::step]), model.bias)
            mean = self.shards.sum(torch.as_tensor(sums)) / self.shards.sum(torch.tensor(count))
            if model.outputs > 1:
                mean = model.of_each_score(mean)
            more = self.n - model.n
            self._curvature = torch.block_diag(mean, mean.trace() / len(mean) * torch.eye(more, dtype=mean.dtype))
        return self._curvature

    @cached_property
    def few_rows(self) -> FewRows | None:
        """The distinct rows, where they are so few that all ways to divide them along lines are measured."""
        return FewRows.of(self)

    def nearer(self, x: Tensor) -> Tensor | None:
        """x (n,) moved nearer to the bounds: by `sweeping` for a linear model of few distinct rows under bounds on rates
        of decisions, else as a single statistic that knows a way says for a linear model; None for others."""
        if (few := self.few_rows) is not None:
            return swept(self, few, x)
        only: Any = self.plan.statistics[0] if len(self.plan.statistics) == 1 else None
        alone = is_linear(self.model, 1) and self.shards.alone
        if not alone or not hasattr(only, "nearer") or x.dim() > 1:
            return None
        return only.nearer(self, x)  # type: ignore[no-any-return]

    @cached_property
    def descriptions(self) -> Tensor | None:
        """(m, d) a row for each constraint, that tells it from others: the contrast of its cells' mean features, each
        column over its largest size; None for sparse or unflattened rows,
        and for constraints that are no contrasts of cell means."""
        features, plan = self.features, self.plan
        if (
            isinstance(features, SparseRows)
            or features.dim() != 2
            or plan.beyond_means
            or len(plan.ratios)
            or not self.m
        ):
            return None
        sums = features.new_zeros(plan.n_cells + 1, features.shape[1])
        for column in self.cells.unbind(1):
            sums.index_add_(0, column, self.weight_of_rows().unsqueeze(1) * features)
        means = self.shards.sum(sums) / self.totals().clamp_min(torch.finfo(self.dtype).tiny).unsqueeze(1)
        found = (means[self.contrasts.index] * self.contrasts.coefficient.unsqueeze(-1)).sum(1)
        return found / found.abs().amax(0).clamp_min(torch.finfo(self.dtype).tiny)

    # -- measuring ----------------------------------------------------------------------------------------------

    def all_scores(self, x: Tensor, features: Tensor | SparseRows | None = None) -> Tensor:
        """(..., n_rows) scores of the problem's rows (sorted by stratum), or of `features`, a slice at a time.

        A module is run in evaluation mode."""
        theta = self.split(x)[0]
        if features is None and x.dim() == 1 and is_linear(self.model):
            return self.forward(theta, self.full())[0]
        return scores_of_rows(self.model, theta, self.features if features is None else features)

    def evaluate(self, x: Tensor) -> Measured:
        """The objective, the true constraints and the stated bounds' values on all rows; uncounted.

        extra: "loss" the mean loss where the objective is accuracy, "accuracy" where there is one, and "stated" (...,
        bounds): the value of each bound as it was stated, NaN where it is undefined.
        """
        batch = self.full()
        whole = self.one_pass(x, batch)
        scores = self.all_scores(x) if whole is None else whole.scores(x)
        loss = self.loss.value(scores, self._per_run(scores, self.targets)) if whole is None else whole.losses(x)
        f = self.shards.sum((batch.objective * loss).sum(-1))
        extra = self._accuracy(scores, batch.objective) | ({"loss": f} if self.refined else {})
        q = f.new_zeros(*f.shape, 0)
        if whole is not None:
            q = whole.true_rates(x)
            f, g = whole.of_rates(q, loss)[:2]
        elif batch.row_sums is None and not self.plan.beyond_means:
            g = f.new_zeros(*f.shape, 0)
        else:
            if self._true:
                q = self.true_means(scores, batch)
            if self.plan.beyond_means:
                f, g, q = self._beyond_means(x, batch, scores, f, q)
            elif self.joint is not None:
                F = self.joint.values(q)[0]
                f, g = F[..., 0], F[..., 1:]
            else:
                g, _ = self.contrasts.values(q)
        if self.m:
            raw = self.contrasts.raw(q)
            g = self.contrasts.levelled(g, q, raw[0])
            extra["stated"] = self._stated(raw, g).to(g.dtype)
        check_finite(f, lambda: "the loss over all rows is not finite at this point; lower the step size.")
        return Measured(f, g, extra)


def _compiled(
    bounds: Sequence[Bound],
    objective: Any,
    groups: Groups,
    y: np.ndarray,
    classes: Sequence[Any] | None,
    shards: Shards,
) -> Plan:
    """The plan of bounds and objective on the groups and labels (n,) of the rows of all parts.

    Raises: DataError where one of them compares groups, and there are none.
    """
    compared = [n.text for n in (*bounds, objective) if n is not None and "groups" in n.needs]
    if compared and not groups.attributes:
        raise DataError(f"{compared[0]!r} needs sensitive features, but none were given.")
    occurring = shards.gather(Occurring.of(groups, y))
    plan = compile_plan(bounds, reduce(Occurring.merge, occurring), None, classes, objective=objective)
    if plan.m > MOST_CONSTRAINTS:
        raise OptionError(_too_many(plan))
    return plan


def _too_many(plan: Plan) -> str:
    """What is said of a plan of more than MOST_CONSTRAINTS constraints, and of the bound that has most of them."""
    largest = int(np.bincount(plan.notion_of).argmax())
    bound = plan.notions[largest]
    advice = "Leave out groups of few rows (fewest=50 in the brackets of the bound), or merge groups."
    if getattr(bound, "against", "") == "pairwise":
        with suppress(OptionError):
            other = replace(bound, against="overall")
            advice = f"State {other.text!r}, which compares each group with all rows. Or l{advice[1:]}"
    return (
        f"{bound.text!r} makes {len(plan.rows_of(largest)):,} comparisons between groups, and training holds at most {MOST_CONSTRAINTS:,} "
        f"in all. {advice}"
    )


def _joint_domain(n: int, domain: Domain, plan: Plan) -> Domain:
    """The domain of the model's n parameters and of the auxiliary variables after them."""
    if not plan.auxiliaries or all(isinstance(d, Space) for d in (domain, *(a.domain for a in plan.auxiliaries))):
        return domain
    return Product([domain, *(a.domain for a in plan.auxiliaries)], [n, *(a.size for a in plan.auxiliaries)])
