"""The four verbs of a FairProblem on a batch: values, gradient, jvp and jacobian, each from one forward pass.

The gradient of w0 f + w . g in the scores is made of slopes of rows (see `row_slopes`); one backward pass takes it to
x. Plans with more than contrasts of cell means go through `quantities`; their auxiliary variables follow the model's
parameters in x.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from fairbound.fairness.evaluation import quantities
from fairbound.fairness.evaluation.batches import Batch
from fairbound.fairness.evaluation.one_pass import OnePass
from fairbound.fairness.evaluation.row_slopes import RowSlopes
from fairbound.fairness.evaluation.row_sums import IndexedSums, StratifiedSums
from fairbound.models.mlp import MLP, is_linear
from fairbound.models.scoring import noise, scores_of_rows
from fairbound.problems.problem import Evaluation, Weights, check_finite

STACKED = 1 << 20  # most slopes of several functions pulled back at once
MOST_PARTS = 64  # most strata, counted for each row function, that are pulled back apart


class Verbs(RowSlopes):
    """Losses and bounds of the rows of a batch, and their derivatives, for `model` and per-row `loss`."""

    def one_pass(self, x: Tensor, batch: Batch) -> OnePass | None:
        """What takes all rows at once, for x (n,); None where it does not apply."""
        if batch is not self._full or x.dim() > 1:
            return None
        at = OnePass, self._factor
        if at not in batch.kept:
            if OnePass not in batch.kept:
                batch.kept[OnePass] = OnePass.of(self, batch)
            stated = batch.kept[OnePass]
            batch.kept[at] = None if stated is None else stated.steeper(self._factor)
        return batch.kept[at]  # type: ignore[no-any-return]

    def split(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The model's parameters (..., n_model) and the auxiliary variables (..., aux) of x,
        (0,) where nothing asks for them."""
        n = self.model.n
        return (x[..., :n], x[..., n:]) if self.plan.beyond_means else (x, self._no_auxiliaries)

    def forward(self, theta: Tensor, batch: Batch) -> tuple[Tensor, Any]:
        """The scores of a batch's rows at the model's parameters theta (..., n_model), and their tape. Those of a linear
        model on all rows are kept, as several verbs are asked for at one point."""
        keeps = batch is self._full and theta.dim() == 1 and is_linear(self.model)
        if keeps and MLP in batch.kept:
            if torch.equal(batch.kept[MLP][0], theta):
                return batch.kept[MLP][1:]  # type: ignore[no-any-return]
            del batch.kept[MLP]  # its scores make room for those to come
        with noise(self.model, batch.seed):
            scores, tape = self.model.forward(theta, batch.features)
        if keeps:
            batch.kept[MLP] = (theta.clone(), scores, tape)
        return scores, tape

    def values(self, x: Tensor, batch: Batch, true: bool = False) -> Evaluation:
        """f and g; with `true` the metric itself in place of its surrogate, on all rows without a module's dropout."""
        if (whole := self.one_pass(x, batch)) is not None:
            evaluation = whole.values(x, true)
            check_finite(evaluation.f, lambda: self._explain(self.model.scores(x, batch.features), batch))
            return evaluation
        theta, z = self.split(x)
        if true and batch.rows is None and getattr(self.model, "random", False):
            scores = scores_of_rows(self.model, theta, batch.features)
        else:
            scores, _ = self.forward(theta, batch)
        evaluation, _ = self._evaluate(scores, z, batch, true)
        self._check(evaluation, scores, batch)
        return evaluation

    def gradient(
        self, x: Tensor, batch: Batch, weights: Weights | Callable[[Evaluation], Weights]
    ) -> tuple[Evaluation | None, Tensor]:
        """The gradient (..., n) of w0 f + w . g, and the evaluation where `weights` is a function of it."""
        if callable(weights) and (whole := self.one_pass(x, batch)) is not None:

            def explained() -> str:
                return self._explain(self.model.scores(x, batch.features), batch)

            def checked(e: Evaluation) -> Weights:
                check_finite(e.f, explained)
                return weights(e)

            found, gradient = whole.gradient(x, checked)
            check_finite(gradient, explained)
            return found, gradient
        theta, z = self.split(x)
        scores, tape = self.forward(theta, batch)
        evaluation, memo = None, None
        if callable(weights):
            evaluation, memo = self._evaluate(scores, z, batch)
            self._check(evaluation, scores, batch)
            w0, w = weights(evaluation)
        else:
            w0, w = weights
            if self._always and (w is not None or self.plan.beyond_means):
                memo = self._evaluate(scores, z, batch, bounds=w is not None)[1]
        gradient = self._gradient(tape, scores, batch, w0, w, memo)
        check_finite(gradient, lambda: self._explain(scores, batch))
        return evaluation, gradient

    def jvp(self, x: Tensor, batch: Batch, dx: Tensor) -> Tensor:
        """(..., 1 + m): derivatives of f, g_1, ..., g_m along dx (..., n)."""
        if self.plan.beyond_means:
            if x.dim() == 1 and self.shards.alone and self._statistic_alone:
                return self._along_statistic(x, batch, dx)
            return (self.jacobian(x, batch)[1] @ dx.unsqueeze(-1)).squeeze(-1)
        scores, tape = self.forward(x, batch)
        with noise(self.model, batch.seed):  # a module with dropout runs again, and must drop the same units
            ds = tape.jvp(dx)
        if self.joint is None:
            df = self.shards.sum(self._along(self._row_slopes(scores, batch, 1.0, None, None) * ds).sum(-1))
            if not self.m:
                return df.unsqueeze(-1)
        dphi = self._phi(self._functions, scores, batch, lambda k, s, y, part: self._along(k.slope(s, y) * part), ds)
        memo = self._evaluate(scores, self._no_auxiliaries, batch)[1] if self._always else None
        row_sums = batch.row_sums
        if isinstance(row_sums, IndexedSums):
            dF = row_sums.contrasts.jvp(row_sums.means(dphi), memo)
        else:
            dF = row_sums.values(dphi)[0] + row_sums.bounds  # type: ignore[union-attr]
        df, dg = (df, dF) if self.joint is None else (dF[..., 0], dF[..., 1:])
        if batch.seen is not None:
            dg = dg * batch.seen
        return torch.cat([df.unsqueeze(-1), dg], dim=-1)

    def jacobian(self, x: Tensor, batch: Batch, which: Sequence[int] | None = None) -> tuple[Evaluation, Tensor]:
        """The evaluation, and the gradients (..., 1 + m, n) of f, g_1, ..., g_m, or the rows `which` of them."""
        theta, z = self.split(x)
        scores, tape = self.forward(theta, batch)
        evaluation, memo = self._evaluate(scores, z, batch)
        if self.joint is not None:
            self._check(evaluation, scores, batch)
        linear = x.dim() == 1 and is_linear(self.model)
        if linear and self.joint is not None:
            jacobian = self._joint_jacobian(tape, scores, batch, which)
        elif linear and self._statistic_alone:
            jacobian = self._statistic_jacobian(tape, scores, batch, memo, which)
        else:
            jacobian = self._one_by_one(x, tape, scores, batch, memo, which)
        check_finite(jacobian, lambda: self._explain(scores, batch))
        return evaluation, jacobian

    def _one_by_one(
        self, x: Tensor, tape: Any, scores: Tensor, batch: Batch, memo: Any, which: Sequence[int] | None
    ) -> Tensor:
        """(..., 1 + m, n) gradients, or the rows `which` of them, by a backward pass each."""
        w0 = torch.ones((*x.shape[:-1], 1), dtype=self.dtype, device=x.device) if x.dim() > 1 else 1.0
        made: dict[int, Tensor] = {}
        places = range(1 + self.m) if which is None else which
        for i in places:
            opposite = self.plan.mirrored.get(i - 1)
            if i == 0:
                made[0] = self._gradient(tape, scores, batch, w0, None, memo if self.plan.beyond_means else None)
            elif opposite is not None and 1 + opposite in made:
                made[i] = -made[1 + opposite]
            else:
                w = scores.new_zeros(*x.shape[:-1], self.m)
                w[..., i - 1] = 1.0
                made[i] = self._gradient(tape, scores, batch, 0.0, w, memo)
        return torch.stack([made[i] for i in places], dim=-2)

    def _joint_jacobian(self, tape: Any, scores: Tensor, batch: Batch, which: Sequence[int] | None) -> Tensor:
        """(..., n) gradients of a joint plan and a linear model, from slopes of the row functions: of a whole table
        also from one product with the rows of each stratum, of a batch from one for all."""
        functions, row_sums, y = self._functions, batch.row_sums, batch.targets
        rows = self._unit_rows(range(1 + self.m) if which is None else which, scores.device)
        if isinstance(row_sums, StratifiedSums):
            shares = row_sums.vjp(rows).unflatten(-1, (len(functions), -1))
            used = shares.any(0).nonzero().tolist()
            if len(used) <= MOST_PARTS and row_sums.weights is None:
                strata = [
                    slice(int(end - size), int(end)) for end, size in zip(row_sums.ends, row_sums.sizes, strict=True)
                ]
                own = ((functions[p], strata[s]) for p, s in used)
                parts = [tape.part(at.start, at.stop).vjp(k.slope(self._some(scores, at), y[at])) for k, at in own]
                return self.shards.sum(shares[:, [p for p, _ in used], [s for _, s in used]] @ torch.stack(parts))
        if batch.seen is not None:
            rows[:, 1:] *= batch.seen
        out = []
        for some in rows.split(max(1, STACKED // scores.numel())):
            out.append(tape.vjp(self._function_slopes(scores, batch, row_sums.vjp(some))))  # type: ignore[union-attr]
        return self.shards.sum(torch.cat(out))

    def _unit_rows(self, which: Sequence[int], device: torch.device) -> Tensor:
        """(k, 1 + m) the weights of f and of the constraints by which each function asked for is taken alone. Of a few among
        many thousands, those alone are made."""
        rows = torch.zeros(len(which), 1 + self.m, dtype=self.dtype, device=device)
        rows[torch.arange(len(which)), torch.as_tensor(list(which))] = 1.0
        return rows

    def _statistic_jacobian(self, tape: Any, scores: Tensor, batch: Batch, memo: Any, which: Any) -> Tensor:
        """(1 + m, n) gradients of a linear model, or the rows `which` of them, where `_statistic_alone`."""
        plan = self.plan
        rows, of_auxiliaries, mix = plan.statistics[0].basis(memo.statistics[0])  # type: ignore[attr-defined]
        asked = list(range(1 + self.m) if which is None else which)
        w = self._unit_rows(asked, scores.device)[:, 1:].to(scores.dtype)  # the objective has a row of 0
        w = w if batch.seen is None else w * batch.seen
        dq = self.contrasts.vjp(w, None)[:, plan.n_cells + 1 :]
        dq, dz = dq[:, : len(mix)] @ mix, dq[:, len(mix) :]
        some = dq.any(0).nonzero().flatten()
        dq, rows = dq[:, some], rows[some]
        if of_auxiliaries is not None:
            dz = dz + dq @ of_auxiliaries[some]
        out = torch.cat([dq @ tape.vjp(rows), dz], -1)
        if 0 in asked:
            out[asked.index(0)] = self._gradient(tape, scores, batch, 1.0, None, memo)
        return out

    @property
    def _statistic_alone(self) -> bool:
        """Whether all constraints are contrasts of one statistic that knows all its slopes at once,
        and of auxiliary variables."""
        plan, plain = self.plan, self.contrasts.linear and not getattr(self.model, "random", False)
        single = len(plan.statistics) == 1 and hasattr(plan.statistics[0], "basis") and not plan.combinations
        return bool(single and plain and (plan.index[plan.coefficient != 0] > plan.n_cells).all())

    def _along_statistic(self, x: Tensor, batch: Batch, dx: Tensor) -> Tensor:
        """(1 + m,) derivatives along dx (n,) of such a plan, from one derivative of the scores."""
        (theta, z), (dtheta, dz) = self.split(x), self.split(dx)
        scores, tape = self.forward(theta, batch)
        ds, memo = tape.jvp(dtheta), self._evaluate(scores, z, batch)[1]
        rows, of_auxiliaries, mix = self.plan.statistics[0].basis(memo.statistics[0])  # type: ignore[attr-defined]
        along = mix @ (rows @ ds + (0.0 if of_auxiliaries is None else of_auxiliaries @ dz))
        dg = self.contrasts.jvp(torch.cat([along.new_zeros(self.plan.n_cells + 1), along, dz]), None)
        slopes, own = self._slopes(scores, batch, 1.0, None, memo)
        df = (slopes * ds).sum() + (own * dz).sum()
        return torch.cat([df.unsqueeze(0), dg if batch.seen is None else dg * batch.seen])

    def _evaluate(
        self, scores: Tensor, z: Tensor, batch: Batch, true: bool = False, bounds: bool = True
    ) -> tuple[Evaluation, Any]:
        """f and g of the rows' scores, and what `_gradient` needs of the values; bounds: see `quantities.value`."""
        y = self._per_run(scores, batch.targets)
        functions = self._true if true else self._functions
        memo: Any
        if self.joint is not None:
            F, memo = batch.row_sums.values(self._phi(functions, scores, batch))  # type: ignore[union-attr]
            g = F[..., 1:] if batch.seen is None else F[..., 1:] * batch.seen
            return Evaluation(F[..., 0], g, batch.seen), memo
        loss = self.loss.value(scores, y)
        f = self.shards.sum((batch.objective * loss).sum(-1))
        of = lambda k, s, y: loss if k is self.loss and s is scores else k.value(s, y)  # noqa: E731
        if self.plan.beyond_means:
            means = f.new_zeros(*f.shape, self.plan.n_cells)
            if self.plan.uses_means:
                means = batch.row_sums.means(self._phi(functions, scores, batch, of))  # type: ignore[union-attr]
            f, g, memo = quantities.value(self.plan, self.contrasts, batch, means, f, scores, z, true, bounds)
        elif batch.row_sums is None:
            return Evaluation(f, f.new_zeros(*f.shape, 0)), None
        else:
            g, memo = batch.row_sums.values(self._phi(functions, scores, batch, of))
        if batch.seen is not None and bounds:
            g = g * batch.seen
        return Evaluation(f, g, batch.seen), memo

    def _gradient(
        self, tape: Any, scores: Tensor, batch: Batch, w0: float | Tensor, w: Tensor | None, memo: Any
    ) -> Tensor:
        """(..., n): the gradient of w0 f + w . g in x."""
        if not self.plan.beyond_means:
            return self.shards.sum(tape.vjp(self._row_slopes(scores, batch, w0, w, memo)))
        slopes, own = self._slopes(scores, batch, w0, w, memo)
        return torch.cat([self.shards.sum(tape.vjp(slopes)), own], dim=-1)

    def _slopes(self, scores: Tensor, batch: Batch, w0: Any, w: Tensor | None, memo: Any) -> tuple[Tensor, Tensor]:
        """For a plan beyond means, the gradients of w0 f + w . g in the scores and in the auxiliary variables."""
        w = w if w is None or batch.seen is None else w * batch.seen
        made = quantities.vjp(self.plan, self.contrasts, batch, w0, w, memo)
        parts = [] if made.of_scores is None else [made.of_scores]
        if made.of_rows is not None:
            parts.append(self._function_slopes(scores, batch, made.of_rows))
        if not parts or made.of_loss.any():
            parts.append(self._per_row(batch.objective * made.of_loss) * self.loss.slope(scores, batch.targets))
        return sum(parts[1:], parts[0]), made.of_auxiliaries

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
