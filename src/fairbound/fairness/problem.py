"""Fair training as a Problem: a model, rows, a loss, and stated bounds."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fairbound.domain import Domain, Space
from fairbound.errors import DataError, EmptyGroupError, OptionError
from fairbound.fairness.batches import Batch, Batches
from fairbound.fairness.class_risk import ClassRisk
from fairbound.fairness.notions import Notion, constraints
from fairbound.fairness.plan import Plan, class_number, compile_plan
from fairbound.fairness.pointwise import LOGISTIC, Pointwise, exact, loss_named, stand_in
from fairbound.fairness.reduction import IndexedReduction, Reduction, dual_scale
from fairbound.groups import Groups
from fairbound.mlp import MLP
from fairbound.model import Model, ModuleModel
from fairbound.problem import Evaluation, Measured, Weights, check_finite
from fairbound.records import Counts
from fairbound.sampling import Strata
from fairbound.seeds import seed_for
from fairbound.sparse_rows import SparseRows

ROWS_AT_ONCE = 16384
MODULE_ROWS_AT_ONCE = 2048


class FairProblem(Batches):
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
        self.model, self.loss = model, loss_named(loss, model.outputs)
        self.domain = domain or Space()
        self.n, self.counts = model.n, Counts()
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
        self.plan = plan
        self._check_outputs(y)
        cells = plan.cells(codes, y)
        strata = Strata.of(cells)
        order = strata.order
        super().__init__(
            _sorted_rows(model, features, order, dtype, torch.device(device)),
            torch.as_tensor(y[order], device=device).to(dtype),
            torch.as_tensor(cells[order], device=device),
            None if sample_weight is None else _checked_weights(sample_weight, order).to(dtype=dtype, device=device),
            strata,
            plan,
        )
        self._check_cells()
        self.names = plan.names
        self._focus = None if objective_class is None else self._focus_on(objective_class, y, classes)
        self._kinds = [stand_in(kind, self.loss) for kind in plan.kinds]
        self._true = [exact(kind, self.loss) for kind in plan.kinds]
        self._loss_only = self._kinds == [self.loss]
        self._kept: tuple[Tensor, int, Reduction, Tensor] | None = None
        self.dual_scale = torch.as_tensor(dual_scale(plan, self._kinds), dtype=dtype, device=self.device)
        self.dual_rows: FairProblem | None = None
        self._one_hot: dict[Any, Tensor] = {}

    def _check_outputs(self, y: np.ndarray) -> None:
        """Whether loss, bounds and labels fit the model's number of scores per row."""
        outputs = self.model.outputs
        if self.loss.per_class != (outputs > 1):
            raise OptionError(
                f"the loss {self.loss.name!r} takes one score per row, the model gives {outputs}; take 'cross_entropy' "
                "(labels 0, 1, ...), or a function of (scores, targets)."
                if outputs > 1
                else f"the loss {self.loss.name!r} takes a score for every class, the model gives one per row; take "
                "'logistic', or a model with as many outputs as classes."
            )
        if outputs == 1:
            if any(isinstance(n, ClassRisk) for n in self.plan.notions) and not np.isin(y, (0, 1)).all():
                raise DataError(
                    f"a bound on a class needs labels 0 and 1, or a model with a score for every class; got "
                    f"{np.unique(y)[:5].tolist()}."
                )
            return
        for notion in self.plan.notions:
            if isinstance(notion, ClassRisk):
                continue
            if notion.statistic == "rate" or notion.conditioned != (None,):
                raise OptionError(
                    f"{notion.text!r} speaks of positive and negative, but the model gives {outputs} scores per row and "
                    "no class is the positive one. State loss_gap over all labels, or train one class against the rest."
                )
        if not np.isin(y, np.arange(outputs)).all():
            raise DataError(f"labels must be class numbers 0 to {outputs - 1}, got {np.unique(y)[:5].tolist()}...")

    @property
    def bounds(self) -> Tensor:
        """(m,) or (R, m) the bound inside each g."""
        return self.contrasts.bounds

    def _check_cells(self) -> None:
        used = np.unique(self.plan.index[self.plan.coefficient != 0])
        empty = used[(self.totals()[torch.as_tensor(used)] == 0).cpu().numpy()] if len(used) else used
        if len(empty):
            names = ", ".join(repr(self.plan.cell_names[c]) for c in empty[:5])
            raise EmptyGroupError(
                f"no row of positive weight among these {self.rows} belongs to {names}, so the bounds that compare it cannot "
                "be measured on them. Give more rows (a larger validation share), merge the group, or drop its bound."
            )

    def with_bounds(self, bounds: Tensor) -> FairProblem:
        """The same problem with other bounds: (m,), or (R, m) for R stacked runs. Data are shared, not copied."""
        bounds = torch.as_tensor(bounds, dtype=self.dtype, device=self.device)
        if bounds.shape[-1] != self.m:
            raise OptionError(
                f"bounds must end in {self.m}, one per contrast ({', '.join(self.names[:3])}...), got {tuple(bounds.shape)}."
            )
        twin = object.__new__(type(self))
        twin.__dict__ |= self.__dict__ | {"contrasts": self.contrasts.with_bounds(bounds), "counts": Counts()}
        twin._forget()
        return twin

    def with_dual_rows(self, held: FairProblem) -> FairProblem:
        """The same problem whose stream "dual" draws from the rows of `held`: x is trained on these rows, multipliers on
        others, so that a model that fits its own rows too well still feels the bounds.

        Source: Cotter, Gupta, Jiang, Srebro, Sridharan, Wang, Woodworth, You (2019), Training well-generalizing
            classifiers for fairness metrics and other data-dependent constraints.
        """
        twin = object.__new__(type(self))
        twin.__dict__ |= self.__dict__ | {"dual_rows": held, "counts": Counts()}
        twin._forget()
        return twin

    def sample(self, seeds: Sequence[int], name: str, k: int, size: int, kind: str) -> Batch:
        if name == "dual" and self.dual_rows is not None:
            return self.dual_rows.sample(seeds, name, k, size, kind)
        return super().sample(seeds, name, k, size, kind)

    def start(self, seeds: Sequence[int]) -> Tensor:
        starts = [self.model.start(torch.Generator().manual_seed(seed_for("start", root=s)), self.dtype) for s in seeds]
        return (starts[0] if len(seeds) == 1 else torch.stack(starts)).to(self.device)

    # -- the four verbs -----------------------------------------------------------------------------------------

    def values(self, x: Tensor, batch: Batch, true: bool = False) -> Evaluation:
        """f and g; with `true` the metric itself in place of its surrogate."""
        self.counts.values += 1
        self.counts.samples += batch.targets.shape[-1]
        with self._noise(batch):
            scores = self.model.scores(x, batch.features)
        evaluation, _ = self._evaluate(scores, batch, self._true if true else self._kinds)
        self._check(evaluation, scores, batch)
        return evaluation

    def gradient(
        self, x: Tensor, batch: Batch, weights: Weights | Callable[[Evaluation], Weights]
    ) -> tuple[Evaluation | None, Tensor]:
        self.counts.gradients += 1
        self.counts.samples += batch.targets.shape[-1]
        with self._noise(batch):
            scores, tape = self.model.forward(x, batch.features)
        evaluation, memo = None, None
        if callable(weights):
            evaluation, memo = self._evaluate(scores, batch, self._kinds)
            self._check(evaluation, scores, batch)
            w0, w = weights(evaluation)
        else:
            w0, w = weights
            if w is not None and self.plan.best:
                memo = self._evaluate(scores, batch, self._kinds)[1]
        gradient = tape.pull(self._row_slopes(scores, batch, w0, w, memo))
        check_finite(gradient, lambda: self._explain(scores, batch))
        return evaluation, gradient

    def jvp(self, x: Tensor, batch: Batch, dx: Tensor) -> Tensor:
        self.counts.jvps += 1
        self.counts.samples += batch.targets.shape[-1]
        with self._noise(batch):
            scores, tape = self.model.forward(x, batch.features)
        with self._noise(batch):  # a module with dropout runs again, and must drop the same units
            ds = tape.push(dx)
        df = self._along(self._row_slopes(scores, batch, 1.0, None, None) * ds).sum(-1)
        if not self.m:
            return df.unsqueeze(-1)
        dphi = torch.cat([self._along(k.slope(scores, batch.targets) * ds) for k in self._kinds], dim=-1)
        _, memo = self._evaluate(scores, batch, self._kinds)
        reduce = batch.reduction
        if isinstance(reduce, IndexedReduction) and memo is not None:
            dq = reduce.means(dphi)
            dg = (dq.gather(-1, memo.flatten(-2)).view(memo.shape) * self.contrasts.coefficient).sum(-1)
        else:
            dg = reduce.values(dphi)[0] + self.contrasts.bounds  # type: ignore[union-attr]
        if batch.seen is not None:
            dg = dg * batch.seen
        return torch.cat([df.unsqueeze(-1), dg], dim=-1)

    def jacobian(self, x: Tensor, batch: Batch) -> tuple[Evaluation, Tensor]:
        self.counts.jacobians += 1
        self.counts.samples += batch.targets.shape[-1]
        with self._noise(batch):
            scores, tape = self.model.forward(x, batch.features)
        evaluation, memo = self._evaluate(scores, batch, self._kinds)
        zero = scores.new_zeros(*evaluation.g.shape)
        w0 = torch.ones((*x.shape[:-1], 1), dtype=self.dtype, device=x.device) if x.dim() > 1 else 1.0
        rows = [tape.pull(self._row_slopes(scores, batch, w0, None, None))]
        for i in range(self.m):
            if i in self._mirrored:
                rows.append(-rows[1 + self._mirrored[i]])
                continue
            w = zero.clone()
            w[..., i] = 1.0
            rows.append(tape.pull(self._row_slopes(scores, batch, 0.0, w, memo)))
        jacobian = torch.stack(rows, dim=-2)
        check_finite(jacobian, lambda: self._explain(scores, batch))
        return evaluation, jacobian

    @cached_property
    def _mirrored(self) -> dict[int, int]:
        """Constraints that have the negative of an earlier one's gradient: the other side of |a - b| <= bound."""
        if self.plan.best:
            return {}
        first: dict[tuple, int] = {}
        out = {}
        for i, (cells, weights) in enumerate(
            zip(self.plan.index.tolist(), self.plan.coefficient.tolist(), strict=True)
        ):
            own = sorted((c, w) for c, w in zip(cells, weights, strict=True) if w)
            first.setdefault(tuple(own), i)
            negative = first.get(tuple((c, -w) for c, w in own))
            if negative is not None:
                out[i] = negative
        return out

    def _evaluate(self, scores: Tensor, batch: Batch, kinds: list[Pointwise]) -> tuple[Evaluation, Tensor | None]:
        y = self._per_run(scores, batch.targets)
        loss = self.loss.value(scores, y)
        f = (self._objective(batch.objective, batch.targets) * loss).sum(-1)
        if batch.reduction is None:
            return Evaluation(f, f.new_zeros(*f.shape, 0)), None
        parts = [loss if k is self.loss else k.value(scores, y) for k in kinds]
        phi = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
        g, memo = batch.reduction.values(phi)
        if batch.seen is not None:
            self.counts.unseen += int((~batch.seen).sum())
            g = g * batch.seen
        return Evaluation(f, g, batch.seen), memo

    def _focus_on(self, label: Any, y: np.ndarray, classes: Sequence[Any] | None) -> tuple[int, float]:
        """The class number of f, and the weight of all rows over the weight of its rows."""
        number = class_number(label, y, classes)
        w = torch.ones_like(self.targets) if self.row_weight is None else self.row_weight
        share = float(w[self.targets == number].sum() / w.sum())
        if share == 0:
            raise EmptyGroupError(f"objective_class={label!r}: no row of positive weight has this label.")
        return number, 1 / share

    def _objective(self, weights: Tensor, targets: Tensor) -> Tensor:
        """(..., B) weight of each row's loss in f."""
        if self._focus is None:
            return weights
        number, scale = self._focus
        return weights * ((targets == number).to(weights.dtype) * scale)

    def _per_run(self, scores: Tensor, targets: Tensor) -> Tensor:
        """Targets (..., B) of each run, where all rows are one batch shared by a stack."""
        shape = scores.shape if self.model.outputs == 1 else scores.shape[:-1]
        return targets if targets.shape == shape else targets.expand(shape)

    def _row_slopes(
        self, scores: Tensor, batch: Batch, w0: float | Tensor, w: Tensor | None, memo: Tensor | None
    ) -> Tensor:
        """The gradient of w0 f + w . g in the scores."""
        y = batch.targets
        ones = isinstance(w0, float) and w0 == 1.0
        own = self._objective(batch.objective, y)
        own = own if ones else own * w0
        if w is None or batch.reduction is None:
            return self._per_row(own) * self.loss.slope(scores, y)
        fixed = ones and memo is None and batch.seen is None and self._focus is None
        pulled = self._kept_weights(own, w, batch.reduction) if fixed else self._row_weights(own, w, batch, memo)
        if self._loss_only:
            return self._per_row(pulled) * self.loss.slope(scores, y)
        pieces = pulled.split(y.shape[-1], dim=-1) if len(self._kinds) > 1 else (pulled,)
        total = self._per_row(own) * self.loss.slope(scores, y)
        for kind, piece in zip(self._kinds, pieces, strict=True):
            total = total + self._per_row(piece) * kind.slope(scores, y)
        return total

    def _row_weights(self, own: Tensor, w: Tensor, batch: Batch, memo: Tensor | None) -> Tensor:
        """Weight of each row's slopes in the gradient of w . g, with the objective's where all slopes are the loss's."""
        pulled = batch.reduction.pull(w if batch.seen is None else w * batch.seen, memo)  # type: ignore[union-attr]
        return own + pulled if self._loss_only else pulled

    def _kept_weights(self, own: Tensor, w: Tensor, reduction: Reduction) -> Tensor:
        """`_row_weights`, kept while w and the reduction are those of the call before: between dual updates."""
        if (
            self._kept is None
            or self._kept[0] is not w
            or self._kept[1] != w._version
            or self._kept[2] is not reduction
        ):
            pulled = reduction.pull(w, None)
            self._kept = (w, w._version, reduction, own + pulled if self._loss_only else pulled)
        return self._kept[3]

    def _per_row(self, weights: Tensor) -> Tensor:
        return weights if self.model.outputs == 1 else weights.unsqueeze(-1)

    def _along(self, products: Tensor) -> Tensor:
        return products if self.model.outputs == 1 else products.sum(-1)

    def _noise(self, batch: Batch) -> Any:
        if not getattr(self.model, "random", False):
            return _QUIET
        return _Seeded(batch.seed)

    # -- measuring ----------------------------------------------------------------------------------------------

    def all_scores(self, x: Tensor, features: Tensor | SparseRows | None = None) -> Tensor:
        """(..., n_rows) scores of the problem's rows (sorted by stratum), or of `features`, a slice at a time.

        A module is run in evaluation mode."""
        features = self.features if features is None else features
        module = getattr(self.model, "module", None)
        modes = [] if module is None else [(part, part.training) for part in module.modules() if part.training]
        if modes:
            module.eval()  # type: ignore[union-attr]
        try:
            size = ROWS_AT_ONCE if module is None else MODULE_ROWS_AT_ONCE
            return torch.cat([self.model.scores(x, part) for part in features.split(size)], dim=x.dim() - 1)
        finally:
            for part, training in modes:
                part.training = training

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

    # -- errors -------------------------------------------------------------------------------------------------

    def _check(self, evaluation: Evaluation, scores: Tensor, batch: Batch) -> None:
        check_finite(evaluation.f, lambda: self._explain(scores, batch))
        if self.m:
            check_finite(evaluation.g, lambda: self._explain(scores, batch))

    def _explain(self, scores: Tensor, batch: Batch) -> str:
        where = f"batch {batch.key[1]} of stream {batch.key[0]!r}"
        loss = self.loss.value(scores, self._per_run(scores, batch.targets))
        bad = ~torch.isfinite(loss)
        if not bad.any():
            return f"the gradient is not finite in {where}, though every loss is; lower the step size."
        cells = batch.cells.expand(*bad.shape, batch.cells.shape[-1])[bad].flatten()
        touched, groups = self.plan.touched(cells.tolist())
        return (
            f"the loss is NaN or infinite in {int(bad.sum())} of {bad.numel()} rows of {where}"
            + (f"; groups {', '.join(groups[:5])}; constraints {', '.join(touched[:4])}" if groups else "")
            + ". Look for NaN or huge values in these rows, or lower the step size; solve(..., nonfinite='skip') skips and "
            "counts such batches."
        )


def _checked_weights(sample_weight: Any, order: np.ndarray) -> Tensor:
    w = np.asarray(sample_weight, dtype=np.float64)
    if w.shape != order.shape or not np.isfinite(w).all() or (w < 0).any() or w.sum() == 0:
        raise DataError(f"sample_weight must be {len(order)} finite numbers >= 0 that are not all zero.")
    return torch.as_tensor(w[order])


def _sorted_rows(
    model: Model, features: Any, order: np.ndarray, dtype: torch.dtype, device: torch.device
) -> Tensor | SparseRows:
    """The rows in the order of their strata, checked."""
    if sparse.issparse(features):
        if not isinstance(model, MLP):
            raise DataError(
                f"{type(model).__name__} computes with dense features, and a sparse matrix of {features.shape[0]:,} x "
                f"{features.shape[1]:,} was given. Pass features.toarray(), or take model='linear' or 'mlp:...'."
            )
        if device.type != "cpu":
            raise OptionError(
                f"sparse features work on the CPU, not on {device}. Pass features.toarray(), or device='cpu'."
            )
        return SparseRows.of(features, dtype).rows(order)
    x = features if isinstance(features, Tensor) else torch.as_tensor(np.ascontiguousarray(features))
    x = x.to(dtype=dtype if x.is_floating_point() else x.dtype, device=device)[torch.as_tensor(order)]
    if x.is_floating_point() and not bool(torch.isfinite(x).all()):
        raise DataError(_name_rows(x, order))
    if isinstance(model, ModuleModel):
        model.row_dims = x.dim() - 1
    return x


def _name_rows(features: Tensor, order: np.ndarray) -> str:
    flat = features.flatten(1)
    row = int((~torch.isfinite(flat)).any(1).nonzero()[0])
    column = int((~torch.isfinite(flat[row])).nonzero()[0])
    return (
        f"feature {column} is NaN or infinite in row {int(order[row])} (and perhaps in others). Impute or drop such values "
        "before training; TableEncoder does."
    )


_QUIET = contextlib.nullcontext()


class _Seeded:
    """Torch's global generator seeded for one batch and put back."""

    def __init__(self, seed: int):
        self.seed = seed

    def __enter__(self) -> None:
        self.before = torch.random.get_rng_state()
        torch.manual_seed(self.seed)

    def __exit__(self, *args: object) -> None:
        torch.random.set_rng_state(self.before)
