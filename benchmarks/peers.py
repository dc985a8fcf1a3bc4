"""Steps of other people's packages, and of plain torch, on the same prepared batches.

`plain_sgd` is the unit of every table. Each peer is written as its own documentation writes it; where a faster way to
use it exists the name says `vectorised`. A peer that is not installed is left out and reported under `skipped`.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import torch
from harness import Step
from tasks import FixedBatch, Rows
from torch import Tensor, nn

BOUND = 0.005
LEARNING_RATE = 0.01
DUAL_RATE = 0.01
PENALTY = 1.0


def _bce_rows(scores: Tensor, y: Tensor) -> Tensor:
    return nn.functional.binary_cross_entropy_with_logits(scores, y, reduction="none")


def plain_sgd(net: nn.Module, batches: Sequence[FixedBatch]) -> Step:
    """One plain torch SGD step: nn.Module, BCEWithLogitsLoss, torch.optim.SGD."""
    optimizer = torch.optim.SGD(net.parameters(), lr=LEARNING_RATE)
    criterion = nn.BCEWithLogitsLoss()
    k = len(batches)

    def step(i: int) -> None:
        b = batches[i % k]
        optimizer.zero_grad()
        loss = criterion(net(b.x).squeeze(-1), b.y)
        loss.backward()
        optimizer.step()

    return step


def two_sided(means: Tensor) -> Tensor:
    """|loss_0 - loss_1| <= BOUND as two inequalities."""
    gap = means[0] - means[1]
    return torch.stack((gap - BOUND, -gap - BOUND))


def each_against_overall(per_row: Tensor, means: Tensor) -> Tensor:
    """loss_k - loss <= BOUND for every group k."""
    return means - per_row.mean() - BOUND


def hc_alm(net: nn.Module, batches: Sequence[FixedBatch], m: int = 2, adam_moreau: bool = False) -> Step:
    """humancompatible-train's ALM, constraints from one matrix product (vectorised)."""
    from humancompatible.train.dual_optim import ALM, MoreauEnvelope

    primal: Any = torch.optim.SGD(net.parameters(), lr=LEARNING_RATE)
    if adam_moreau:
        primal = MoreauEnvelope(torch.optim.Adam(net.parameters(), lr=1e-3), mu=2.0, beta=0.5)
    dual = ALM(m=m, lr=DUAL_RATE, penalty=PENALTY, is_ineq=True)
    k = len(batches)

    def step(i: int) -> None:
        b = batches[i % k]
        per_row = _bce_rows(net(b.x).squeeze(-1), b.y)
        means = b.mean @ per_row
        constraints = two_sided(means) if m == 2 else each_against_overall(per_row, means)
        lagrangian = dual.forward_update(per_row.mean(), constraints)
        lagrangian.backward()
        primal.step()
        net.zero_grad()

    return step


def hc_alm_example(net: nn.Module, batches: Sequence[FixedBatch], m: int = 2) -> Step:
    """humancompatible-train's ALM, one criterion call per group, as its notebooks write it."""
    from humancompatible.train.dual_optim import ALM

    primal = torch.optim.SGD(net.parameters(), lr=LEARNING_RATE)
    dual = ALM(m=m, lr=DUAL_RATE, penalty=PENALTY, is_ineq=True)
    criterion = nn.BCEWithLogitsLoss()
    k, groups = len(batches), batches[0].mean.shape[0]

    def step(i: int) -> None:
        b = batches[i % k]
        scores = net(b.x).squeeze(-1)
        loss = criterion(scores, b.y)
        per_group = []
        for code in range(groups):
            mask = b.group == code
            per_group.append(criterion(scores[mask], b.y[mask]))
        means = torch.stack(per_group)
        constraints = two_sided(means) if m == 2 else means - loss - BOUND
        lagrangian = dual.forward_update(loss, constraints)
        lagrangian.backward()
        primal.step()
        primal.zero_grad()

    return step


def cooper_step(
    net: nn.Module, batches: Sequence[FixedBatch], m: int = 2, augmented: bool = True, objects: bool = False
) -> Step:
    """cooper's (augmented) Lagrangian with simultaneous updates; `objects`: one Constraint object per constraint."""
    import cooper

    class Fair(cooper.ConstrainedMinimizationProblem):
        def __init__(self) -> None:
            super().__init__()
            self.parts = []
            for j in range(m if objects else 1):
                size = 1 if objects else m
                options: dict[str, Any] = {"formulation_type": cooper.formulations.Lagrangian}
                if augmented:
                    options = {
                        "formulation_type": cooper.formulations.AugmentedLagrangian,
                        "penalty_coefficient": cooper.penalty_coefficients.DensePenaltyCoefficient(
                            init=torch.full((size,), PENALTY)
                        ),
                    }
                part = cooper.Constraint(
                    constraint_type=cooper.ConstraintType.INEQUALITY,
                    multiplier=cooper.multipliers.DenseMultiplier(num_constraints=size),
                    **options,
                )
                setattr(self, f"part{j}", part)
                self.parts.append(part)

        def compute_cmp_state(self, batch: FixedBatch) -> cooper.CMPState:
            per_row = _bce_rows(net(batch.x).squeeze(-1), batch.y)
            means = batch.mean @ per_row
            values = two_sided(means) if m == 2 else each_against_overall(per_row, means)
            pieces = values.split(1) if objects else (values,)
            states = {p: cooper.ConstraintState(violation=v) for p, v in zip(self.parts, pieces, strict=True)}
            return cooper.CMPState(loss=per_row.mean(), observed_constraints=states)

    problem = Fair()
    optimizer = cooper.optim.SimultaneousOptimizer(
        cmp=problem,
        primal_optimizers=torch.optim.SGD(net.parameters(), lr=LEARNING_RATE),
        dual_optimizers=torch.optim.SGD(problem.dual_parameters(), lr=DUAL_RATE, maximize=True),
    )
    k = len(batches)

    def step(i: int) -> None:
        optimizer.roll(compute_cmp_state_kwargs={"batch": batches[i % k]})

    return step


def fairret_penalty(net: nn.Module, batches: Sequence[FixedBatch]) -> Step:
    """SGD on loss + fairret's norm penalty on positive rates (a penalty, not a constraint)."""
    from fairret.loss import NormLoss
    from fairret.statistic import PositiveRate

    optimizer = torch.optim.SGD(net.parameters(), lr=LEARNING_RATE)
    criterion = nn.BCEWithLogitsLoss()
    penalty = NormLoss(PositiveRate())
    groups = batches[0].mean.shape[0]
    one_hot = [nn.functional.one_hot(b.group, groups).float() for b in batches]
    k = len(batches)

    def step(i: int) -> None:
        b = batches[i % k]
        optimizer.zero_grad()
        scores = net(b.x)
        loss = criterion(scores.squeeze(-1), b.y) + penalty(scores, one_hot[i % k])
        loss.backward()
        optimizer.step()

    return step


def mark_vectorised(net: nn.Module, batches: Sequence[FixedBatch]) -> Step:
    """Hand-written mark for many groups: SGD on loss + multipliers times vectorised group means, all by autograd."""
    optimizer = torch.optim.SGD(net.parameters(), lr=LEARNING_RATE)
    k, groups = len(batches), batches[0].mean.shape[0]
    multipliers = torch.zeros(groups)
    each = len(batches[0].group) // groups

    def step(i: int) -> None:
        b = batches[i % k]
        optimizer.zero_grad()
        per_row = _bce_rows(net(b.x).squeeze(-1), b.y)
        means = per_row.view(groups, each).mean(1)
        loss = per_row.mean()
        values = means - loss - BOUND
        with torch.no_grad():
            multipliers.add_(values, alpha=DUAL_RATE).clamp_(min=0.0)
        (loss + multipliers @ values).backward()
        optimizer.step()

    return step


def available(*modules: str) -> dict[str, bool]:
    """Which of the modules can be imported here."""
    out = {}
    for name in modules:
        try:
            importlib.import_module(name)
            out[name] = True
        except ImportError:
            out[name] = False
    return out


def dataloader_weighted(rows: Rows, size: int, seed: int = 0) -> Step:
    """torch's DataLoader with a WeightedRandomSampler that makes groups equally likely; one call draws one batch."""
    generator = torch.Generator().manual_seed(seed)
    weights = (1.0 / torch.bincount(rows.group)[rows.group].double()).tolist()
    sampler = torch.utils.data.WeightedRandomSampler(weights, len(rows), replacement=True, generator=generator)
    data = torch.utils.data.TensorDataset(rows.x, rows.y, rows.group)
    return endless(torch.utils.data.DataLoader(data, batch_size=size, sampler=sampler, drop_last=True))


def hc_balanced_loader(rows: Rows, size: int, seed: int = 0) -> Step:
    """humancompatible-train's BalancedBatchSampler inside a DataLoader; one call draws one batch."""
    from humancompatible.train.fairness.utils import BalancedBatchSampler

    generator = torch.Generator().manual_seed(seed)
    one_hot = nn.functional.one_hot(rows.group).float()
    sampler = BalancedBatchSampler(group_onehot=one_hot, batch_size=size, generator=generator)
    data = torch.utils.data.TensorDataset(rows.x, rows.y, rows.group)
    return endless(torch.utils.data.DataLoader(data, batch_sampler=sampler))


def endless(loader: torch.utils.data.DataLoader) -> Step:
    """`step(i)` returns the loader's next batch and starts over at its end."""
    state = {"batches": iter(loader)}

    def step(i: int) -> Any:
        try:
            return next(state["batches"])
        except StopIteration:
            state["batches"] = iter(loader)
            return next(state["batches"])

    return step


PAPER_STEPS = 50  # iterations of the paper's own loop that one call runs


def paper_code(net: nn.Module, rows: Rows, size: int, algorithm: str) -> Step:
    """The benchmark paper's published loop (humancompatible-train 0.1.0), drawing of batches included.

    algorithm: "ssl_alm", "alm" or "ssw". One call runs PAPER_STEPS iterations with its default settings and `size` rows
    in all: size // 2 from each group for a constraint. Its loop draws its own batches, so this is not comparable to a
    microsecond with the steps on prepared batches, only in its order of magnitude.
    """
    from humancompatible.train.algorithms import SSG, SSLALM
    from humancompatible.train.fairness.constraints.constraint import FairnessConstraint
    from humancompatible.train.fairness.constraints.constraint_fns import loss_equality

    criterion = nn.BCEWithLogitsLoss()
    data = torch.utils.data.TensorDataset(rows.x, rows.y)
    members = [torch.nonzero(rows.group == code).flatten().tolist() for code in (0, 1)]

    def signed(sign: float) -> FairnessConstraint:
        def value(_net: nn.Module, sample: Any) -> Tensor:
            return sign * loss_equality(_squeezed(criterion), _net, sample) - BOUND

        return FairnessConstraint(data, members, value, batch_size=size // 2, seed=0)

    constraints = [signed(1.0), signed(-1.0)]
    if algorithm == "ssw":
        ssw = SSG(net, data, _squeezed(criterion), constraints)
        return lambda i: ssw.optimize(
            ctol_rule="dimin",
            ctol=1e-4,
            f_stepsize_rule="const",
            f_stepsize=0.05,
            c_stepsize_rule="const",
            c_stepsize=0.05,
            batch_size=size,
            max_iter=PAPER_STEPS + 1,
            max_runtime=600.0,
            verbose=False,
            save_state_interval=10**9,
        )
    alm = SSLALM(net, data, _squeezed(criterion), constraints)
    mu = 2.0 if algorithm == "ssl_alm" else 0.0
    return lambda i: alm.optimize(
        mu=mu, batch_size=size, max_iter=PAPER_STEPS + 1, verbose=False, save_state_interval=10**9
    )


def _squeezed(criterion: nn.Module) -> Any:
    return lambda scores, y: criterion(scores.reshape(-1), y.reshape(-1))
