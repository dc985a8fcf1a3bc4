"""What is reported of a problem's rows at a point: the share decided rightly and the value of each stated bound."""

from __future__ import annotations

from copy import copy
from typing import Any

import torch
from torch import Tensor

from fairbound.fairness.evaluation import quantities
from fairbound.fairness.evaluation.batches import Batch
from fairbound.fairness.evaluation.row_sums import SLICE
from fairbound.fairness.evaluation.verbs import Verbs
from fairbound.problems.problem import Measured


class Reported(Verbs):
    """A FairProblem's measures as they are reported.

    _decides: whether a score of one output is a decision of two classes. exact_weight: (n_rows,) float64 on the CPU, of
    the sorted rows, or None.
    """

    _decides: bool
    exact_weight: Tensor | None

    def all_scores(self, x: Tensor, features: Any = None) -> Tensor:
        """(..., n_rows) scores of the rows; of FairProblem."""
        raise NotImplementedError

    def evaluate(self, x: Tensor) -> Measured:
        """The objective and constraints on all rows; of FairProblem."""
        raise NotImplementedError

    def reported(self, x: Tensor) -> Measured:
        """What `evaluate` says, with "accuracy" and the values of bounds added up in float64:
        those of the same decisions to the last digit that rows tell, while f and g stay what training saw."""
        measured = self.evaluate(x)
        if self.dtype == torch.float64 or self.device.type == "mps":  # which has no float64
            return measured
        own, scores = self._in_double(), self.all_scores(x).double()
        batch = own.full()
        extra = measured.extra | own._accuracy(scores, batch.objective)
        if self.m:
            g, q = measured.g.double(), scores.new_zeros(*measured.f.shape, 0)
            if self._true:
                q = own.true_means(scores, batch)
            if self.plan.beyond_means:
                _, g, q = own._beyond_means(x.double(), batch, scores, measured.f.double(), q)
            extra["stated"] = own._stated(own.contrasts.raw(q), g)
        return Measured(measured.f, measured.g, extra)

    def _beyond_means(
        self, x: Tensor, batch: Batch, scores: Tensor, f: Tensor, q: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """f, g and the quantities but for ratios, from cell means q, of a plan that looks at more than these."""
        f, g, made = quantities.value(self.plan, self.contrasts, batch, q, f, scores, self.split(x)[1], True)
        return f, g, made.q[..., : made.q.shape[-1] - len(self.plan.ratios)]

    def _in_double(self) -> Reported:
        """The same rows with labels and weights of float64, and functions of this plan; features are shared."""
        made = copy(self)
        made.dtype, made._totals, made.of_cells = torch.float64, None, {}
        made.targets = self.targets.double()
        made.row_weight = None if self.exact_weight is None else self.exact_weight.to(self.device)
        mass = made.targets.new_tensor(float(self.rows)) if made.row_weight is None else made.row_weight.sum()
        made._mass = self.shards.sum(mass)
        made._use(self.plan)
        return made

    def _accuracy(self, scores: Tensor, objective: Tensor) -> dict[str, Tensor]:
        if self.model.outputs == 1 and not self._decides:
            return {}
        share = objective.new_zeros(())
        for first in range(0, len(self.targets), SLICE):
            own = slice(first, first + SLICE)
            some, y = self._some(scores, own), self.targets[own]
            right = some.argmax(-1) == y if self.model.outputs > 1 else (some > 0) == (y > 0.5)
            share = share + (objective[..., own] * right).sum(-1)
        return {"accuracy": self.shards.sum(share)}

    def _stated(self, raw: tuple[Tensor, Tensor], g: Tensor) -> Tensor:
        """(..., bounds) the value of each stated bound, from the sums and terms of all contrasts, as of
        `PlanContrasts.raw`, and the constraints (..., m)."""
        sums, terms = raw
        out = []
        for number, bound in enumerate(self.plan.notions):
            rows = self.plan.rows_of(number)
            contrasts = rows[rows < len(self.plan.index)]
            if len(contrasts):
                some = slice(None) if len(contrasts) == sums.shape[-1] else torch.as_tensor(contrasts, device=g.device)
                out.append(bound.value_of(sums[..., some], terms[..., some, :]))
            else:
                out.append(bound.value_of(g[..., rows] + bound.bound, None))
        return torch.stack(out, dim=-1)
