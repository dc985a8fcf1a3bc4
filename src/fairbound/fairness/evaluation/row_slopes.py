"""Row functions of the scores of a batch: their values, and the slopes of objective and bounds in each row's score.

f and g are made of sums over rows of functions phi of the scores, so the gradient of w0 f + w . g in a row's score is phi'
times the weight that (w0, w) gives the row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from fairbound.fairness.compiled.forms import steeper
from fairbound.fairness.compiled.plan import Plan
from fairbound.fairness.evaluation.batches import Batch, Batches
from fairbound.fairness.evaluation.row_sums import RowSums, StratifiedSums
from fairbound.fairness.pointwise import Pointwise, summed_slopes
from fairbound.models.model import Model


class RowSlopes(Batches):
    """The row functions of a plan, for `model` and per-row `loss`."""

    model: Model
    loss: Pointwise

    def _use(self, plan: Plan) -> None:
        super()._use(plan)
        self._factor = 1.0
        self._functions = [f.trained(self.loss) for f in plan.functions]
        self._true = [f.exact(self.loss) for f in plan.functions]
        self._loss_only = self._functions == [self.loss]
        self._no_auxiliaries = torch.empty(0, dtype=self.dtype, device=self.device)
        self._always = plan.beyond_means or not self.contrasts.linear  # whether slopes need the values first
        self._kept: tuple[Tensor, int, RowSums, Tensor] | None = None

    def _steeper(self, factor: float) -> None:
        """Take surrogates of decisions `factor` times as steep."""
        self._factor = factor
        self._functions = [steeper(f, factor).trained(self.loss) for f in self.plan.functions]

    def _phi(
        self,
        functions: Sequence[Pointwise],
        scores: Tensor,
        batch: Batch,
        of: Callable[..., Tensor] = lambda function, scores, targets: function.value(scores, targets),
        *along: Tensor,
    ) -> Tensor:
        """What the batch's row sums take of row functions: their values `of` each, (..., P*B), or the sums of these
        over strata.

        of(function, scores, targets, *along): (..., B) of a slice of rows. along: more that is cut like the scores.
        """
        row_sums, y = batch.row_sums, self._per_run(scores, batch.targets)
        if not isinstance(row_sums, StratifiedSums):
            parts = [of(k, scores, y, *along) for k in functions]
            return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

        def values(rows: slice) -> list[Tensor]:
            some, *more = (self._some(t, rows) for t in (scores, *along))
            return [of(k, some, y[..., rows], *more) for k in functions]

        return row_sums.sums(values)

    def true_means(self, scores: Tensor, batch: Batch) -> Tensor:
        """(..., K) the means of the cells for decisions and losses as they are, without surrogates."""
        return batch.row_sums.means(self._phi(self._true, scores, batch))  # type: ignore[union-attr]

    def _some(self, scores: Tensor, rows: slice) -> Tensor:
        return scores[..., rows] if self.model.outputs == 1 else scores[..., rows, :]

    def _per_run(self, scores: Tensor, targets: Tensor) -> Tensor:
        """Targets (..., B) of each run, where all rows are one batch shared by a stack."""
        shape = scores.shape if self.model.outputs == 1 else scores.shape[:-1]
        return targets if targets.shape == shape else targets.expand(shape)

    def _row_slopes(self, scores: Tensor, batch: Batch, w0: float | Tensor, w: Tensor | None, memo: Any) -> Tensor:
        """The gradient of w0 f + w . g in the scores."""
        y = batch.targets
        ones = isinstance(w0, float) and w0 == 1.0
        if self.joint is not None:
            if w is None:
                w = scores.new_zeros(*self._per_run(scores, y).shape[:-1], self.m)
            fixed = ones and batch.seen is None
            weights = self._kept_weights(w0, w, batch) if fixed else self._row_weights(w0, w, batch, None)
            return self._function_slopes(scores, batch, weights)
        own = batch.objective if ones else batch.objective * w0
        if w is None or batch.row_sums is None:
            return self._per_row(own) * self.loss.slope(scores, y)
        fixed = ones and memo is None and batch.seen is None
        weights = self._kept_weights(own, w, batch) if fixed else self._row_weights(own, w, batch, memo)
        if self._in_one(batch):
            return self._per_row(weights) * self.loss.slope(scores, y)
        return self._per_row(own) * self.loss.slope(scores, y) + self._function_slopes(scores, batch, weights)

    def _function_slopes(self, scores: Tensor, batch: Batch, weights: Tensor) -> Tensor:
        """Slopes of the row functions, weighted: weights (..., P*B), or (..., P*S) of strata -> like the scores."""
        if isinstance(batch.row_sums, StratifiedSums):
            sums: list[Any] = []
            for rows, shares in batch.row_sums.weights_of_rows(weights):
                s, y = self._some(scores, rows), batch.targets[rows]
                each = (self._per_row(w) * k.slope(s, y) for k, w in zip(self._functions, shares, strict=True))
                sums.append(sum(each))
            return sums[0] if len(sums) == 1 else torch.cat(sums, -1 if self.model.outputs == 1 else -2)
        return summed_slopes(self._functions, scores, batch.targets, weights, self.model.outputs > 1)

    def _row_weights(self, own: float | Tensor, w: Tensor, batch: Batch, memo: Any) -> Tensor:
        """Weight of each row's slopes in the gradient of w . g, with the objective's where all slopes are the loss's;
        of a joint plan in that of own f + w . g."""
        row_sums, w = batch.row_sums, w if batch.seen is None else w * batch.seen
        if self.joint is not None:
            first = torch.as_tensor(own, dtype=w.dtype, device=w.device).expand(*w.shape[:-1], 1)
            return row_sums.vjp(torch.cat([first, w], dim=-1), memo)  # type: ignore[union-attr]
        weights = row_sums.vjp(w, memo)  # type: ignore[union-attr]
        return own + weights if self._in_one(batch) else weights

    def _in_one(self, batch: Batch) -> bool:
        """Whether the loss is the only row function, so that its weights of f and g
        are added before its slopes are taken."""
        return self._loss_only and not isinstance(batch.row_sums, StratifiedSums)

    def _kept_weights(self, own: float | Tensor, w: Tensor, batch: Batch) -> Tensor:
        """`_row_weights`, kept while w and the row sums are those of the call before: between dual updates."""
        kept = self._kept
        if kept is None or kept[0] is not w or kept[1] != w._version or kept[2] is not batch.row_sums:
            made = self._row_weights(own, w, batch, None)
            self._kept = kept = (w, w._version, batch.row_sums, made)  # type: ignore[assignment]
        return kept[3]  # type: ignore[index]

    def _per_row(self, weights: Tensor) -> Tensor:
        return weights if self.model.outputs == 1 else weights.unsqueeze(-1)

    def _along(self, products: Tensor) -> Tensor:
        return products if self.model.outputs == 1 else products.sum(-1)
