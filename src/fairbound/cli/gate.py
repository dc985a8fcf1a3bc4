"""A gate for CI: what a TOML file says must hold of a model, checked by one function for Python,
the command line and pytest."""

from __future__ import annotations

import contextlib
import math
import re
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from fairbound.base.errors import FairboundError, OptionError
from fairbound.base.locks import output_folder
from fairbound.base.verdicts import about, direction, in_clusters, left_out, odds, scarce
from fairbound.cli.files.outcome import Outcome
from fairbound.cli.judging.audit import run_audit
from fairbound.cli.judging.audit_facts import OF_TRAINING
from fairbound.cli.judging.compare import compared
from fairbound.cli.options.judging import AuditOptions, CompareOptions, GateOptions, JudgeOptions
from fairbound.report.words import VERDICTS

KEYS = (
    "data", "label", "group", "model", "score", "positive", "threshold", "constraint", "cross", "confidence", "accept", "least",
    "baseline", "weights", "clusters", "out", "drop_missing_labels", "encoding", "decimal",
)  # fmt: skip


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _are_texts(value: Any) -> bool:
    return _is_text(value) or (isinstance(value, list) and value != [] and all(map(_is_text, value)))


_BOOL = (lambda value: isinstance(value, bool), "true or false, without quotes")
KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "group": (_is_text, "a text, with commas between several names"),
    "positive": (lambda value: isinstance(value, str | int | float), "a label"),
    "threshold": (_is_number, "a number"),
    "confidence": (_is_number, "a number"),
    "constraint": (_are_texts, "a bound as text or a list of them; leave it out for the bounds of the model"),
    "accept": (_are_texts, "a list of 'met' and 'insufficient'; leave it out for 'met' alone"),
    "least": (
        lambda value: isinstance(value, dict) and all(map(_is_number, value.values())),
        "a table of metrics and finite numbers, such as { accuracy = 0.8 }",
    ),
    "cross": _BOOL,
    "drop_missing_labels": _BOOL,
}
"""What the value of a key must be, in words; of the others, a text."""
LOW_IS_GOOD = {"log_loss", "root_mean_squared_error"}
"""Metrics of an audit of which less is better."""


@dataclass(frozen=True)
class Gate:
    """What was found. passed: whether all holds. exit_code: 0, 1 where something is broken, 3 where only evidence is
    missing.
    reasons: what does not hold, in sentences. measured: every bound's verdict and every metric asked for, with its
    value, and every bound's value beside that of the baseline. summary: of the audit, as `fairbound audit --json` prints it;
    its "out" is None where the file names no folder."""

    passed: bool
    exit_code: int
    reasons: tuple[str, ...]
    measured: tuple[str, ...]
    summary: dict[str, Any]


def check(config: str | Path) -> Gate:
    """Check what the TOML file `config` says must hold (docs/evidence.md); paths in it are relative to its folder. The
    file that the model was trained on is no evidence, so it never passes.

    Raises: OptionError for a file that cannot be read or has an unknown key; what `fairbound audit` raises.
    """
    config = Path(config)
    stated = _stated(config)
    accept = _texts(stated.get("accept", ["met"]))
    if not set(accept) <= {"met", "insufficient"}:
        raise OptionError(f"accept may hold 'met' and 'insufficient', got {accept}.")
    if "clusters" in stated and "baseline" in stated:
        raise OptionError(
            "a baseline is compared row by row, which takes rows for independent; leave baseline or clusters out."
        )
    asked = _options(stated, config.parent)
    with tempfile.TemporaryDirectory() as folder, _errors_in_keys():
        options = AuditOptions(**{"out": Path(folder), **asked})
        with output_folder(options.folder):
            outcome = run_audit(options)
    summary = outcome.summary | {"warnings": [_in_keys(text) for text in outcome.summary["warnings"]]}
    summary = summary if "out" in stated else summary | {"out": None}
    broken, wanting = _verdicts(summary, accept)
    broken += [OF_TRAINING] if OF_TRAINING in summary["warnings"] else []
    broken += _too_low(summary, stated.get("least", {}))
    compared_to: list[str] = []
    if "baseline" in stated:
        with _errors_in_keys():
            worse, unknown, compared_to = _beside_baseline(stated, asked, config.parent)
        broken += worse
        if "insufficient" in accept:
            compared_to += unknown
        else:
            wanting += unknown
    code = 1 if broken else 3 if wanting else 0
    measured = [_found(c) for c in summary["constraints"]]
    measured += [
        f"{k} {_number(summary['metrics'][k])}, at least {v} is asked" for k, v in stated.get("least", {}).items()
    ]
    measured += compared_to
    return Gate(not broken and not wanting, code, (*broken, *wanting), tuple(measured), summary)


@contextlib.contextmanager
def _errors_in_keys() -> Iterator[None]:
    """Within, errors name keys of the file as `_in_keys` does."""
    try:
        yield
    except FairboundError as error:
        error.args = (_in_keys(str(error)), *error.args[1:])
        raise


def _in_keys(text: str) -> str:
    """What `fairbound audit` advises, with keys of the file in place of its options."""
    of_option = {"--" + key.replace("_", "-"): key for key in KEYS}
    return re.sub(r"(?<![\w-])--[a-z-]+", lambda found: of_option.get(found[0], found[0]), text)


def _stated(config: Path) -> dict[str, Any]:
    """What the file says. Raises: OptionError where it cannot be read, or a key is unknown, missing or of another kind."""
    gate = f"the gate {str(config)!r}"
    try:
        stated = tomllib.loads(config.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else None
        raise OptionError(f"{gate} cannot be read: {why or error}.") from error
    if unknown := sorted(set(stated) - set(KEYS)):
        raise OptionError(f"{gate} has unknown keys {unknown}; known are {', '.join(KEYS)}.")
    if "data" not in stated:
        raise OptionError(f"{gate} lacks data.")
    for key, value in stated.items():
        good, words = KINDS.get(key, (_is_text, "a text"))
        if not good(value):
            raise OptionError(f"{gate}: {key} must be {words}, got {value!r}.")
    return stated


def run_gate(options: GateOptions) -> Outcome:
    """The gate as a command."""
    found = check(config := options.config)
    said = "the gate is passed" if found.passed else "the gate is closed"
    bounds = [_found(c) for c in found.summary["constraints"]]
    others = [line for line in bounds if not any(reason.startswith(line) for reason in found.reasons)]
    lines = [*found.reasons, *others] if found.reasons else found.measured
    text = "\n".join([f"{config}: {said}", *(f"- {line}" for line in lines)])
    text += "".join(f"\nwarning: {line}" for line in found.summary["warnings"])
    facts = {"passed": found.passed, "exit_code": found.exit_code, "reasons": list(found.reasons)}
    summary = facts | {"audit": found.summary}
    return Outcome(summary, text, found.exit_code)


def _texts(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [str(v) for v in value]


def _options(stated: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What the file states of the options of an audit."""
    read: dict[str, Callable[[Any], Any]] = {
        "data": lambda path: str(folder / path), "model": lambda path: folder / path, "out": lambda path: folder / path,
        "positive": str, "constraint": _texts, "cross": bool, "confidence": float, "drop_missing_labels": bool,
    }  # fmt: skip
    own = [field.name for field in fields(AuditOptions) if field.name in stated]
    return {name: read[name](stated[name]) if name in read else stated[name] for name in own}


def _verdicts(summary: dict[str, Any], accept: list[str]) -> tuple[list[str], list[str]]:
    """What is violated, and what is not decided and must be."""
    if not summary["constraints"]:
        raise OptionError("the gate states no bound (constraint = [...]), and neither does its model.")
    by = {"violated": [], "insufficient": []}  # type: dict[str, list[str]]
    for c in summary["constraints"]:
        if c["verdict"] not in accept and c["verdict"] != "met":
            needed = ""
            if c.get("rows_needed") is not None:
                needed = scarce(c).rstrip(".").replace(" ", "; ", 1) or (
                    f"; about {about(c['rows_needed'])} held-out rows would decide it {odds(c)}, this audit had {summary['rows']:,}"
                    f"{in_clusters(summary.get('clusters'))}."
                    f"{direction([c])}".rstrip(".")
                )
            elif c.get("why"):
                needed = f"; {c['why']}".rstrip(".")
            by[c["verdict"]].append(_found(c) + needed)
    return by["violated"], by["insufficient"]


def _found(c: dict[str, Any]) -> str:
    """A bound's verdict, the value measured and its interval."""
    named = {"measured": c["value"], "at least": c["lower"], "at most": c["upper"]}
    ends = ", ".join(f"{name} {_number(v)}" for name, v in named.items() if v is not None)
    out = left_out([c]).rstrip(".")
    return f"{c['text']}: {VERDICTS[c['verdict']].lower()}" + (f" ({ends})" if ends else "") + (out and f".{out}")


def _number(value: float | None) -> str:
    return "not defined" if value is None else f"{value:.4g}"


def _too_low(summary: dict[str, Any], least: dict[str, float]) -> list[str]:
    unknown = sorted(set(least) - set(summary["metrics"]))
    if unknown:
        raise OptionError(f"least names {unknown}, which are no metrics of the audit: {', '.join(summary['metrics'])}.")
    if turned := sorted(set(least) & LOW_IS_GOOD):
        raise OptionError(
            f"least names {', '.join(turned)}, of which less is better; at least so much says nothing good of a model. Leave it out."
        )
    found = summary["metrics"]
    low = {k: v for k, v in least.items() if found[k] is None or found[k] < v}
    return [
        f"{k} is {'not defined' if found[k] is None else _below(found[k], v)}, less than {v}" for k, v in low.items()
    ]


def _below(value: float, least: float) -> str:
    """A value in four digits, or in as many as show that it is less than `least`."""
    return next(text for digits in (4, 6, 17) if float(text := f"{value:.{digits}g}") < least)


def _beside_baseline(
    stated: dict[str, Any], asked: dict[str, Any], folder: Path
) -> tuple[list[str], list[str], list[str]]:
    """The bounds whose value is worse than the baseline's, beyond what chance explains, those of which that is not known,
    as a value is not defined, and the others."""
    named = stated.get("model") or stated.get("score")
    first, second = (
        str(folder / str(n)) if (folder / str(n)).is_dir() else str(n) for n in (stated["baseline"], named)
    )
    names = ("threshold", *(field.name for field in fields(JudgeOptions)))
    alike = {name: asked[name] for name in names if name in asked}
    found = compared(CompareOptions(first=first, second=second, **alike))
    worse, unknown, others = [], [], []
    for d in found["differences"]:
        floor, bound = ">=" in d["name"], "<=" in d["name"] or ">=" in d["name"]
        value, before = _number(d["second"]), _number(d["first"])
        if not bound:
            continue
        if d["difference"] is None:
            unknown.append(f"{d['name']}: {value}, and whether it is worse than the baseline's, {before}, is not known")
        elif d["lower"] is not None and (d["upper"] < 0 if floor else d["lower"] > 0):
            worse.append(f"{d['name']}: {value}, worse than the baseline's {before} beyond chance")
        else:
            others.append(f"{d['name']}: {value}, not worse for certain than the baseline's {before}")
    return worse, unknown, others
