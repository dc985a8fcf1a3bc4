"""What a problem says of itself and what its verbs answer, held against the protocol: a mistake in a problem of one's own
ends in an error that names it, before it ends in one of Python's far away."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from torch import Tensor

from fairbound.base.errors import OptionError
from fairbound.problems.problem import Evaluation, Measured, Problem
from fairbound.rows.strata import Strata

_SIZES = (("n", 0, "parameters"), ("m", 0, "constraints"), ("rows", 1, "rows of data"))
_ABLE = (("domain", ("project",)), ("dual_set", ("centre", "prox", "support")))


def check_stated(problem: Problem) -> None:
    """Raises: OptionError where the problem does not say its sizes, or says names, bounds, scales, sets, strata or blocks
    that are not of the kind or number that these ask for."""
    who = type(problem).__name__
    if isinstance(problem, type):
        raise OptionError(f"{problem.__name__} is a class; pass a problem made of it, {problem.__name__}(...).")
    for name, least, what in _SIZES:
        value = getattr(problem, name, None)
        if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
            raise OptionError(
                f"{name} of {who}, the number of {what}, must be a whole number of at least {least}; it is {'not said' if value is None else _said(value)}. "
                "Set it in the class, or in __init__."
            )
    _check_names(problem, who)
    for name in ("bounds", "dual_scale"):
        _check_numbers(name, getattr(problem, name), problem.m, who)
    for name, verbs in _ABLE:
        value = getattr(problem, name)
        if isinstance(value, type) or not all(callable(getattr(value, verb, None)) for verb in verbs):
            example = "Space(), Box(-1.0, 1.0)" if name == "domain" else "DualSimplex()"
            said = (
                f"the class {value.__name__}: write {value.__name__}(...)" if isinstance(value, type) else _said(value)
            )
            raise OptionError(f"{name} of {who} must be a set such as {example}; it is {said}.")
    for name, kind, example in (("strata", (Strata, type(None)), "a Strata or None"), ("blocks", Mapping, "a mapping")):
        if not isinstance(value := getattr(problem, name), kind):
            raise OptionError(
                f"{name} of {who} must be {example}; it is {_said(value)}. Leave it out where there are none."
            )


def _check_names(problem: Problem, who: str) -> None:
    names = problem.names
    if isinstance(names, str) or not hasattr(names, "__len__") or not hasattr(names, "__getitem__"):
        raise OptionError(f"names of {who} must be a sequence of texts, one for each constraint; it is {_said(names)}.")
    if len(names) not in (problem.m, problem.m - problem.lifted):
        raise OptionError(
            f"{who} has m = {problem.m} constraints and {len(names)} names ({', '.join(map(str, names[:3]))}). Give one for each, or "
            "leave names out: they are then g1, g2, ..."
        )


def _check_numbers(name: str, value: Any, m: int, who: str) -> None:
    """Raises: OptionError unless value is a number, or a tensor (), (m,) or (R, m)."""
    if isinstance(value, Tensor):
        if value.dim() <= 2 and value.shape[-1:] in ((), (m,)):
            return
        said = f"a tensor of shape {tuple(value.shape)}"
    elif isinstance(value, Real):
        return
    else:
        said = _said(value)
    raise OptionError(
        f"{name} of {who} must be a number, or a torch tensor with one for each constraint, of shape ({m},), or ({{runs}}, {m}) for "
        f"a stack of runs; it is {said}."
    )


def _said(value: Any) -> str:
    text = repr(value)
    return "None" if value is None else f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"


def evaluation_of(problem: Problem, verb: str, x: Tensor, found: Any) -> Evaluation:
    """What a verb says of f and g on a batch at x (..., n). Raises: OptionError where it is no Evaluation, or of other
    shapes than x and m ask for."""
    if not isinstance(found, Evaluation):
        raise OptionError(
            f"{verb} of the problem must give a fairbound.problems.problem.Evaluation(f, g), not {_kind(found)}."
        )
    m = problem.m if found.subset is None else len(found.subset)
    _check_shapes(problem, verb, x, found.f, found.g, m)
    return found


def pair_of(verb: str, found: Any) -> tuple[Any, Any]:
    """The evaluation and the slopes that `gradient` or `jacobian` gave. Raises: OptionError where it is no pair."""
    if not isinstance(found, tuple) or isinstance(found, Evaluation) or len(found) != 2:
        raise OptionError(f"{verb} of the problem must give a pair (evaluation, {verb}), not {_kind(found)}.")
    return found


def check_slopes(verb: str, x: Tensor, found: Any, *last: int) -> None:
    """Raises: OptionError unless what a verb gave for x (..., n) is a tensor (..., *last)."""
    shape = (*x.shape[:-1], *last)
    if not isinstance(found, Tensor) or found.shape != shape:
        of = f" of shape {tuple(found.shape)}" if isinstance(found, Tensor) else ""
        raise OptionError(
            f"{verb} of the problem gave {_kind(found)}{of}. At x of shape {tuple(x.shape)} it must be a tensor of shape {shape}."
        )


def _kind(found: Any) -> str:
    return "None" if found is None else f"a {type(found).__name__}"


def measured(problem: Problem, x: Tensor) -> Measured:
    """What `evaluate` says at x (..., n). Raises: OptionError where it is no Measured, or of other shapes than x and m
    ask for."""
    found = problem.evaluate(x)
    if not isinstance(found, Measured) or not isinstance(found.extra, Mapping):
        extra = f"{type(found).__name__}"
        if isinstance(found, Measured):
            extra = f"one with {type(found.extra).__name__} as the last, a dict of what else was measured"
        raise OptionError(f"evaluate must return a fairbound.problems.problem.Measured(f, g, {{}}), not {extra}.")
    m = getattr(problem, "evaluated", problem.m - problem.lifted)  # of `BothRows` fewer than it trains under
    _check_shapes(problem, "evaluate", x, found.f, found.g, m)
    return found


def _check_shapes(problem: Problem, verb: str, x: Tensor, f: Any, g: Any, m: int) -> None:
    """Raises: OptionError unless f is one number for each run of x (..., n), and g (..., m), both tensors."""
    for name, value in (("f", f), ("g", g)):
        if not isinstance(value, Tensor):
            raise OptionError(f"{verb} of the problem gave {_kind(value)} as {name}; it must be a torch tensor.")
    lead = x.shape[:-1]
    if f.shape != lead or g.shape != (*lead, m):
        raise OptionError(
            f"{verb} of the problem gave f of shape {tuple(f.shape)} and g of shape {tuple(g.shape)}. At x of shape {tuple(x.shape)} with "
            f"m = {problem.m} they must be {tuple(lead)} and {(*lead, m)}: the constraints stand on the last axis of g, also where there is one."
        )


def rows_of(batch: Any) -> int:
    """The rows of each run in a batch. Raises: OptionError where the batch has no whole number `size`."""
    size = getattr(batch, "size", None)
    if not isinstance(size, int):
        raise OptionError(
            f"a batch must say in an attribute `size`, a whole number, how many rows of each run it holds, by which samples "
            f"and epochs are counted; a {type(batch).__name__} does not. Let `sample` return a NamedTuple with a field `size`."
        )
    return size
