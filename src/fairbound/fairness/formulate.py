"""From any `torch.nn.Module`, a loss and a group definition to a constrained training problem, in one call.

    problem = fb.formulate(module, "cross_entropy", (images, labels), groups, "loss_gap <= 0.02")
    solution = fb.solve(problem, "alm", budget="30s")
    problem.model.bind(solution.x)                                  # the module now has the trained parameters

The module's parameters become one flat tensor, its outputs scores, the loss of every row one number, and every bound a
contrast of group means, so each method of the library runs on it with one weighted backward pass per step.

Source: Kliachkin et al. (2025), section 1: "an automated way of constructing ERM formulations out of a computation
    graph"; sections 2 and 4 for the problem, min mean loss subject to bounds on differences of group means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data import Dataset as TorchDataset

from fairbound.base.errors import DataError, FairboundError, OptionError
from fairbound.base.names import shortlist
from fairbound.data.dataset import Dataset
from fairbound.fairness.module_trial import refuse_probabilities, takes_logits, trial
from fairbound.fairness.notions import Bound, constraints
from fairbound.fairness.pointwise import Pointwise, of_decisions
from fairbound.fairness.problem import FairProblem
from fairbound.fairness.row_checks import dense_rows
from fairbound.models.model import ModuleModel
from fairbound.models.scoring import MODULE_ROWS_AT_ONCE
from fairbound.problems.domain import Domain


def formulate(
    module: nn.Module,
    loss: str | Pointwise | Callable[[Tensor, Tensor], Tensor],
    data: Any,
    groups: Any = None,
    constraint: str | Bound | Sequence[str | Bound] | None = None,
    *,
    sample_weight: Any = None,
    domain: Domain | None = None,
    dtype: torch.dtype | None = None,
    device: str | torch.device | None = None,
) -> FairProblem:
    """From a torch module, data and groups to the problem of least mean loss under the stated bounds, for `fb.solve`.

    Take it for networks of your own, images and text; for a linear model or an MLP on a table take `fb.FairClassifier`.

    module: rows (B, ...) -> one score per row, (B,) or (B, 1), or one per class, (B, c). It is run on two rows to learn
        which. Its parameters are where training starts, and become views of the solver's x.
    loss: "logistic", "hinge" or "squared" for one score, the last of labels -1 and 1 under bounds on decisions, which
        are those above 0; "cross_entropy" for one per class; a loss module of torch (its
        reduction is set to "none" on a copy); or a function (scores, targets) -> (B,).
    data: (features, targets); (features, targets, groups); a torch Dataset whose items are such tuples; or a Dataset of
        this library. Features are arrays or tensors (n, ...), or a table. Floats take the module's dtype; integers
        (tokens for an embedding) stay integers. Targets: (n,) or (n, 1), 0/1 or class numbers.
    groups: who is compared. Labels (n,) or (n, A), a dict or table of columns, or Groups; the name of a column (or a
        list of names) of a Dataset of this library or of a table; the number of a column of features (n, d); a function
        (features, targets) -> labels, called on slices of rows; or None to take the third part of the data.
    constraint: one bound or several, as text or objects, e.g. ["loss_gap <= 0.01", "equal_opportunity <= 0.05"]. Bounds
        on rates of groups need one score per row; "recall of class 2 >= 0.95" names a class by its number.
    sample_weight: (n,) >= 0, or None.
    domain: a convex set of parameters, on which steps are projected; None for all.
    dtype, device: the module's by default. In bfloat16 the mean of rows has two to three digits, and so have bounds.
    Raises: OptionError where module, loss and bounds do not fit each other, or scores are probabilities; DataError for
        rows that cannot be used.
    """
    if not isinstance(module, nn.Module):
        raise OptionError(f"formulate takes a torch.nn.Module, got {type(module).__name__}.")
    features, targets, found = _parts(data)
    first = next((p for p in module.parameters() if p.is_floating_point()), None)
    dtype = dtype or (torch.float32 if first is None else first.dtype)
    device = torch.device(device or ("cpu" if first is None else first.device))
    groups = _groups(groups, features, targets, found, data)
    rows = _rows(features).to(device)
    scores = trial(module, rows)
    outputs = 1 if scores.dim() == 1 or scores.shape[-1] == 1 else scores.shape[-1]
    decided = any("two classes" in bound.needs for bound in constraints(constraint))
    problem = FairProblem(
        ModuleModel(module, outputs),
        rows,
        targets,
        groups,
        constraint,
        loss=of_decisions(loss) if decided else loss,
        sample_weight=sample_weight,
        domain=domain,
        dtype=dtype,
        device=device,
    )
    if takes_logits(problem.loss, problem.plan):
        refuse_probabilities(scores)
    _try_loss(problem, scores.detach().reshape(len(scores)) if outputs == 1 else scores.detach())
    return problem


def _try_loss(problem: FairProblem, scores: Tensor) -> None:
    """Raises: OptionError where the loss cannot be taken of the first rows' scores (k,) or (k, c)."""
    try:
        problem.loss.value(scores, problem.targets[: len(scores)].to(scores.dtype))
    except FairboundError:
        raise
    except RuntimeError as error:
        said = f"the loss {problem.loss.name!r} cannot be taken of the module's scores: {str(error).partition(chr(10))[0]}."
        if "between 0 and 1" in said:
            said += (
                " Scores are logits: give torch.nn.BCEWithLogitsLoss(), and the module without a sigmoid at its end."
            )
        raise OptionError(said) from error


def _parts(data: Any) -> tuple[Any, Any, Any]:
    """Features, targets and the groups that came with them (or None)."""
    if isinstance(data, Dataset):
        return data.X, data.y, data.sensitive
    if isinstance(data, DataLoader):
        raise OptionError("give the loader's dataset in place of the DataLoader: batches are drawn by the solver.")
    if isinstance(data, TensorDataset):
        data = data.tensors
    elif isinstance(data, TorchDataset):
        if not hasattr(data, "__len__"):
            raise DataError("an iterable dataset has no length; collect its rows into (features, targets) first.")
        items = [data[i] for i in range(len(data))]
        if not items:
            raise DataError("there are no rows.")
        data = tuple(_stack([item[j] for item in items]) for j in range(len(items[0])))
    if not isinstance(data, (tuple, list)) or len(data) not in (2, 3):
        raise OptionError(
            f"data must be (features, targets), (features, targets, groups) or a data set, got {type(data).__name__}"
            + (f" of {len(data)} parts." if isinstance(data, (tuple, list)) else ".")
        )
    return data[0], data[1], data[2] if len(data) == 3 else None


def _stack(values: list[Any]) -> Any:
    return torch.stack(values) if isinstance(values[0], Tensor) else np.stack([np.asarray(v) for v in values])


def _groups(groups: Any, features: Any, targets: Any, found: Any, data: Any) -> Any:
    """What Groups.of takes, from any of the forms of `formulate`; None where there are no groups."""
    if groups is None:
        return found if found is None or len(found) else None
    columns = data.sensitive if isinstance(data, Dataset) else features if hasattr(features, "columns") else {}
    if isinstance(groups, str) and groups not in columns:
        known = shortlist(columns, 20) or "none: the features are no table"
        raise OptionError(
            f"groups={groups!r} names no column; there are {known}. Give one of them, the labels themselves, a column "
            "number, or a function of (features, targets)."
        )
    names = [groups] if isinstance(groups, str) else groups
    if isinstance(names, (list, tuple)) and names and all(isinstance(g, str) and g in columns for g in names):
        return {name: columns[name] for name in names}
    if isinstance(groups, (int, np.integer)) and not isinstance(groups, bool):
        table = _rows(features)
        if table.dim() != 2 or not -table.shape[1] <= groups < table.shape[1]:
            raise OptionError(f"groups={groups} is no column of features of shape {tuple(table.shape)}.")
        return table[:, int(groups)]
    if callable(groups):
        return _by_function(groups, features, targets)
    return groups


def _by_function(groups: Callable[[Any, Any], Any], features: Any, targets: Any) -> np.ndarray:
    x = features.to_numpy() if hasattr(features, "columns") else features
    y = targets.to_numpy() if hasattr(targets, "to_numpy") else targets
    parts = []
    for start in range(0, len(y), MODULE_ROWS_AT_ONCE):
        end = min(start + MODULE_ROWS_AT_ONCE, len(y))
        made = groups(x[start:end], y[start:end])
        part = made.detach().cpu().numpy() if isinstance(made, Tensor) else np.asarray(made, dtype=object)
        if part.shape[:1] != (end - start,):
            raise OptionError(
                f"the function of groups must return a label for each of {end - start} rows, got shape {part.shape}."
            )
        parts.append(part)
    return np.concatenate(parts)


def _rows(features: Any) -> Tensor:
    """Features as a dense tensor (n, ...). Raises: DataError where they have no row for each label."""
    rows = dense_rows(features.toarray() if sparse.issparse(features) else features)
    if rows.dim() < 1:
        raise DataError("features must have a row for every label.")
    return rows
