"""The four verbs of a FairProblem on a batch: values, gradient, jvp and jacobian, each from one forward pass.

f and g are reductions of per-row functions phi of the scores, so the gradient of w0 f + w . g in a row's score is phi'
times the weight that (w0, w) gives the row, and one backward pass of these slopes is the gradient in x.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import torch
from torch import Tensor

from fairbound.fairness.batches import Batch, Batches
from fairbound.fairness.plan import Plan
from fairbound.fairness.pointwise import Pointwise, exact, stand_in
from fairbound.fairness.reduction import IndexedReduction, Reduction
from fairbound.models.model import Model
from fairbound.models.scoring import noise, scores_of_rows
from fairbound.problems.problem import Evaluation, Weights, check_finite
from fairbound.rows.sampling import Strata
from fairbound.rows.sparse import SparseRows


class Verbs(Batches):
    """Losses and bounds of the rows of a batch, and their derivatives, for `model` and per-row `loss`.

    The other arguments are those of Batches. f is over all rows, or over the class of `_focus`.
    """

    def __init__(
        self,
        model: Model,
        loss: Pointwise,
        features: Tensor | SparseRows,
        targets: Tensor,
        cells: Tensor,
        row_weight: Tensor | None,
        strata: Strata,
        plan: Plan,
    ):
        super().__init__(features, targets, cells, row_weight, strata, plan)
        self.model, self.loss = model, loss
        self._focus: tuple[int, float] | None = None  # the class number of f; weight of all rows / weight of its rows
        self._kinds = [stand_in(kind, loss) for kind in plan.kinds]
        self._true = [exact(kind, loss) for kind in plan.kinds]
        self._loss_only = self._kinds == [loss]
        self._kept: tuple[Tensor, int, Reduction, Tensor] | None = None

    def values(self, x: Tensor, batch: Batch, true: bool = False) -> Evaluation:
        """f and g; with `true` the metric itself in place of its surrogate, on all rows without a module's dropout."""
        if true and batch.rows is None and getattr(self.model, "random", False):
            scores = scores_of_rows(self.model, x, batch.features)
        else:
            with noise(self.model, batch.seed):
                scores = self.model.scores(x, batch.features)
        evaluation, _ = self._evaluate(scores, batch, self._true if true else self._kinds)
        self._check(evaluation, scores, batch)
        return evaluation

    def gradient(
        self, x: Tensor, batch: Batch, weights: Weights | Callable[[Evaluation], Weights]
    ) -> tuple[Evaluation | None, Tensor]:
        with noise(self.model, batch.seed):
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
        gradient = tape.vjp(self._row_slopes(scores, batch, w0, w, memo))
        check_finite(gradient, lambda: self._explain(scores, batch))
        return evaluation, gradient

    def jvp(self, x: Tensor, batch: Batch, dx: Tensor) -> Tensor:
        with noise(self.model, batch.seed):
            scores, tape = self.model.forward(x, batch.features)
        with noise(self.model, batch.seed):  # a module with dropout runs again, and must drop the same units
            ds = tape.jvp(dx)
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

    def jacobian(self, x: Tensor, batch: Batch, which: Sequence[int] | None = None) -> tuple[Evaluation, Tensor]:
        """The evaluation, and the gradients (..., 1 + m, n) of f, g_1, ..., g_m, or the rows `which` of them."""
        with noise(self.model, batch.seed):
            scores, tape = self.model.forward(x, batch.features)
        evaluation, memo = self._evaluate(scores, batch, self._kinds)
        zero = scores.new_zeros(*evaluation.g.shape)
        w0 = torch.ones((*x.shape[:-1], 1), dtype=self.dtype, device=x.device) if x.dim() > 1 else 1.0
        made: dict[int, Tensor] = {}
        places = range(1 + self.m) if which is None else which
        for i in places:
            mirrored = self._mirrored.get(i - 1)
            if i == 0:
                made[0] = tape.vjp(self._row_slopes(scores, batch, w0, None, None))
            elif mirrored is not None and 1 + mirrored in made:
                made[i] = -made[1 + mirrored]
            else:
                w = zero.clone()
                w[..., i - 1] = 1.0
                made[i] = tape.vjp(self._row_slopes(scores, batch, 0.0, w, memo))
        jacobian = torch.stack([made[i] for i in places], dim=-2)
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
            g = g * batch.seen
        return Evaluation(f, g, batch.seen), memo

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
