"""The correlation of scores with groups as a penalty: by how much a score tells groups apart, on average.

    mean over groups of |corr(h, 1[row in group])|,    which for two groups is |corr(h, group)|

Source: Beutel et al. (2019), Fairness in recommendation ranking through pairwise comparisons, section 4.2; Yao, Lin,
Yang (2023), E.2.
Departs: rows of balanced batches count by how many they stand for. Beutel et al. correlate residuals of pairs that were
clicked.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fairbound.fairness.evaluation.batches import Batch
from fairbound.fairness.fairret import PenaltyOfScores, PenaltyOnScores


class Correlation(PenaltyOnScores):
    """The penalty of a FairProblem, for the groups of `attributes`. Absent groups and constant scores add 0."""

    def of_scores(self, scores: Tensor, batch: Batch) -> PenaltyOfScores:
        member = self.groups_of(batch).movedim(-1, -2).to(scores)  # (..., S, B)
        weight = (batch.objective / batch.objective.sum(-1, keepdim=True)).expand_as(scores).unsqueeze(-2)
        away = scores.unsqueeze(-2) - (weight * scores.unsqueeze(-2)).sum(-1, keepdim=True)
        apart = member - (weight * member).sum(-1, keepdim=True)
        variance = (weight * away.square()).sum(-1, keepdim=True)
        spread = (weight * apart.square()).sum(-1, keepdim=True)
        there = (variance > 0) & (spread > 0)
        size = torch.where(there, (variance * spread).clamp_min(1e-30).sqrt(), torch.inf)
        corr = (weight * away * apart).sum(-1, keepdim=True) / size
        slope = weight * (apart / size - corr * torch.where(there, away / variance.clamp_min(1e-30), 0.0))
        count = member.shape[-2]
        return PenaltyOfScores(
            corr.abs().squeeze(-1).sum(-1) / count, (corr.sign() * slope).sum(-2) / count, int((~there).sum())
        )
