"""Fair training as a Problem: a model, rows, a loss, and stated bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fairbound.base.errors import DataError, EmptyGroupError
from fairbound.base.seeds import seed_for
from fairbound.fairness.class_risk import ClassRisk
from fairbound.fairness.notions import Notion, constraints
from fairbound.fairness.plan import Plan, class_number, compile_plan
from fairbound.fairness.pointwise import LOGISTIC, Pointwise, loss_named
from fairbound.fairness.reduction import dual_scale
from fairbound.fairness.row_checks import check_outputs, sorted_rows, sorted_weights
from fairbound.fairness.verbs import Verbs
from fairbound.models.model import Model
from fairbound.models.scoring import scores_of_rows
from fairbound.problems.base import BaseProblem
from fairbound.problems.domain import Domain, Space
from fairbound.problems.problem import Measured, Problem, check_finite
from fairbound.problems.wrappers import DualRows, Rebounded
from fairbound.rows.groups import Groups
from fairbound.rows.sampling import Strata
from fairbound.rows.sparse import SparseRows


class FairProblem(Verbs, BaseProblem):
    """min mean loss subject to the stated bounds, over the rows given.

    model: a Model with n parameters. features: (n_rows, d) tensor or array, or (n_rows, ...) for an nn.Module; a SciPy
        sparse matrix, never made dense, for the built-in models.
    targets: (n_rows,) in {0, 1}; class numbers 0, 1, ... for a model with several outputs.
    groups: Groups of the same rows, or anything Groups.of takes; None without bounds on groups.
    classes: labels of the class numbers, by which bounds on a class name it; None for the numbers themselves.
    objective_class: the label whose rows alone make up f, as in Neyman-Pearson classification; None for all rows.
    stated: bounds as text or objects. loss: "logistic", "hinge", "squared", "cross_entropy" or a per-row function.
    sample_weight: (n_rows,) >= 0, or None. dtype: of the arithmetic. plan: bounds already compiled, in place of `stated`.

    Raises: DataError for rows that cannot be used; NonFiniteError, from the verbs, naming batch, group and constraint.
    """

    bounds: Tensor
    strata: Strata

    def __init__(
        self,
        model: Model,
        features: Any,
        targets: Any,
        groups: Any = None,
        stated: str | Notion | Sequence[str | Notion] | None = None,
        *,
        classes: Sequence[Any] | None = None,
        objective_class: Any = None,
        loss: str | Pointwise | Callable[[Tensor, Tensor], Tensor] = "logistic",
        sample_weight: Any = None,
        domain: Domain | None = None,
        dtype: torch.dtype = torch.float32,
        device: str | torch.device = "cpu",
        plan: Plan | None = None,
    ):
        per_row = loss_named(loss, model.outputs)
        self.n, self.domain = model.n, domain or Space()
        y = np.asarray(targets.cpu() if hasattr(targets, "cpu") else targets)
        notions = constraints(stated)
        compared = [n.text for n in notions if not isinstance(n, ClassRisk)]
        if compared and groups is None:
            raise DataError(f"the bound {compared[0]!r} needs sensitive features, but none were given.")
        self.groups = None if groups is None else Groups.of(groups)
        codes = np.zeros((len(y), 0), dtype=np.int64) if self.groups is None else self.groups.codes
        if not len(y):
            raise DataError("there are no rows.")
        given = features.shape[0] if sparse.issparse(features) else len(features)
        if len(codes) != len(y) or given != len(y):
            raise DataError(f"features, targets and groups differ in length: {given}, {len(y)}, {len(codes)}.")
        if plan is None:
            plan = compile_plan(notions, self.groups or Groups(codes, (), ()), y, classes)
        check_outputs(model, per_row, plan, y)
        cells = plan.cells(codes, y)
        strata = Strata.of(cells)
        order = strata.order
        super().__init__(
            model,
            per_row,
            sorted_rows(model, features, order, dtype, torch.device(device)),
            torch.as_tensor(y[order], device=device).to(dtype),
            torch.as_tensor(cells[order], device=device),
            None if sample_weight is None else sorted_weights(sample_weight, order).to(dtype=dtype, device=device),
            strata,
            plan,
        )
        self._check_cells()
        self.names = plan.names
        if objective_class is not None:
            self._focus = self._focus_on(objective_class, y, classes)
        self.dual_scale = torch.as_tensor(dual_scale(plan, self._kinds), dtype=dtype, device=self.device)
        self.bounds, self.unbiased = self.contrasts.bounds, not plan.best
        self._one_hot: dict[Any, Tensor] = {}

    def _check_cells(self) -> None:
        used = np.unique(self.plan.index[self.plan.coefficient != 0])
        empty = used[(self.totals()[torch.as_tensor(used)] == 0).cpu().numpy()] if len(used) else used
        if len(empty):
            names = ", ".join(repr(self.plan.cell_names[c]) for c in empty[:5])
            raise EmptyGroupError(
                f"no row of positive weight among these {self.rows} belongs to {names}, so the bounds that compare it cannot "
                "be measured on them. Give more rows (a larger validation share), merge the group, or drop its bound."
            )

    def _focus_on(self, label: Any, y: np.ndarray, classes: Sequence[Any] | None) -> tuple[int, float]:
        """The class number of f, and the weight of all rows over the weight of its rows."""
        number = class_number(label, y, classes)
        w = torch.ones_like(self.targets) if self.row_weight is None else self.row_weight
        share = float(w[self.targets == number].sum() / w.sum())
        if share == 0:
            raise EmptyGroupError(f"objective_class={label!r}: no row of positive weight has this label.")
        return number, 1 / share

    def with_bounds(self, bounds: Any) -> Rebounded:
        """The same problem with other bounds: (m,), or (R, m) for R stacked runs. Data are shared, not copied."""
        return Rebounded(self, bounds)

    def with_dual_rows(self, held: Problem) -> DualRows:
        """The same problem whose stream "dual" draws from the rows of `held`."""
        return DualRows(self, held)

    def start(self, seeds: Sequence[int]) -> Tensor:
        starts = [self.model.start(torch.Generator().manual_seed(seed_for("start", root=s)), self.dtype) for s in seeds]
        return (starts[0] if len(seeds) == 1 else torch.stack(starts)).to(self.device)

    # -- measuring ----------------------------------------------------------------------------------------------

    def all_scores(self, x: Tensor, features: Tensor | SparseRows | None = None) -> Tensor:
        """(..., n_rows) scores of the problem's rows (sorted by stratum), or of `features`, a slice at a time.

        A module is run in evaluation mode."""
        return scores_of_rows(self.model, x, self.features if features is None else features)

    def evaluate(self, x: Tensor) -> Measured:
        scores = self.all_scores(x)
        reduce, objective = self._whole()
        loss = self.loss.value(scores, self._per_run(scores, self.targets))
        f = (self._objective(objective, self.targets) * loss).sum(-1)
        if reduce is None:
            g = f.new_zeros(*f.shape, 0)
        else:
            y = self._per_run(scores, self.targets)
            parts = [loss if k is self.loss else k.value(scores, y) for k in self._true]
            g = reduce.values(torch.cat(parts, dim=-1))[0]
        extra = {}
        if self.model.outputs == 1 and self.loss is LOGISTIC:
            extra["accuracy"] = (objective * ((scores > 0) == (self.targets > 0.5))).sum(-1)
        elif self.model.outputs > 1:
            extra["accuracy"] = (objective * (scores.argmax(-1) == self.targets)).sum(-1)
        check_finite(f, lambda: "the loss over all rows is not finite at this point; lower the step size.")
        return Measured(f, g, extra)

    def stated_values(self, measured: Measured) -> list[Tensor]:
        """(...,) the measured value of every stated bound, in the units in which it was stated."""
        raw = measured.g + self.contrasts.bounds
        return [n.shown(raw[..., self.plan.rows_of(i)].amax(-1)) for i, n in enumerate(self.plan.notions)]
