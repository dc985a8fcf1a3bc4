"""What the commands that train have in common: the model beside the one without bounds, the rows that judge them,
and the audit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fairbound.audits.audit import audit
from fairbound.base.errors import CertificateWarning, silenced
from fairbound.base.files import check_not_read
from fairbound.cli.bounds import bounds_in_words
from fairbound.cli.files.outcome import Outcome, csv_file, say, shows_progress
from fairbound.cli.files.saved_model import HELD_OUT, interrupted, training_facts, written_fit
from fairbound.cli.judging.audit_facts import add_own_model, data_facts
from fairbound.cli.training.rows import InputRows
from fairbound.cli.training.splitting import Split, split_rows, table_options

ENOUGH = 30
"""Held-out rows of the smallest group from which on a certificate is worth trying."""

CERTIFY = (
    "To have it confirmed on new rows, train with --certify: it looks for the cheapest model that rows kept apart "
    "confirm, and says where they are too few."
)


class FittedPair(NamedTuple):
    """A fitted estimator, None or the same without bounds, which rows took part,
    and whether an interrupt cut training short."""

    model: Any
    free: Any
    split: Split
    stopped: bool


def parameters(options: Any) -> dict[str, Any]:
    """What the options of every command that trains say to its estimator."""
    return {
        "model": options.model,
        "algorithm": options.algorithm,
        "options": table_options(options),
        "budget": options.budget,
        "random_state": options.seed,
        "progress": shows_progress(),
    }


def held_out(options: Any, rows: InputRows) -> Split | None:
    """The rows to train on and those held out; None where a certificate keeps some apart."""
    check_not_read(options.out / HELD_OUT, options.data)
    return None if options.certify else split_rows(rows, options.test_size, options.seed)


def trained(
    options: Any, bounds: Sequence[Any], rows: InputRows, split: Split | None, fit: Callable[..., Any]
) -> FittedPair:
    """Train under the bounds, and without them where options.baseline asks for it.

    split: as `held_out` gives it. fit: of row numbers, bounds and the confidence of a certificate, or 0 for none, the
    fitted estimator.
    """
    under = bounds_in_words(bounds)
    what = "rows" if rows.qid is None else "documents"
    if split is None:
        every = np.arange(len(rows))
        count = rows.counting(every)
        say(f"{rows.name}: training on a part of {count:,} {what} until another part confirms {under}, or cannot.")
        with silenced(CertificateWarning):  # the verdict says it
            model = fit(every, bounds, options.confidence)
        held = model.certify_rows_
        words = f"{len(held) / len(rows):.0%} of the {what}, kept apart to certify, seed {options.seed}"
        free = model.unconstrained_ if options.baseline else None
        return FittedPair(model, free, Split(np.setdiff1d(every, held), held, words), interrupted(model))
    train, held_out_rows = map(rows.counting, (split.train, split.test))
    say(f"{rows.name}: training on {train:,} {what} under {under}; {held_out_rows:,} are held out.")
    model = fit(split.train, bounds, 0.0)
    free = fit(split.train, [], 0.0) if bounds and options.baseline and not interrupted(model) else None
    if free is not None and interrupted(free):
        return FittedPair(model, None, split, True)
    return FittedPair(model, free, split, interrupted(model))


def judged(
    options: Any,
    bounds: Sequence[Any],
    rows: InputRows,
    done: FittedPair,
    scored: Callable[[Any], dict[str, Any]],
    *,
    about: str,
    warnings: Sequence[str],
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """The audit of a trained model on the held-out rows, beside the one without bounds. scored: of a model, what
    `audit` takes of these rows and the model's scores. about: describes the model."""
    facts, split = done.model.fit_report_, done.split
    found = audit(
        **scored(done.model),
        constraint=bounds,
        confidence=options.confidence,
        together=not options.certify,
        compare={} if done.free is None else {"unconstrained": scored(done.free)["scores"]},
        **data_facts(
            rows.name,
            rows.label,
            split.words,
            rows.checksum,
            rows.counting(split.train),
            rows.classes,
            clusters=rows.split_by,
        ),
        model={"kind": options.model, "description": about, **training_facts(done.model)},
        trajectory=getattr(done.model, "trajectory_", None),
        warnings=[*warnings, *rows.warnings],
        notes=[*rows.notes, *facts["notes"], *notes],
    )
    add_own_model(found, facts)
    return found


def reported(
    options: Any,
    bounds: Sequence[Any],
    rows: InputRows,
    done: FittedPair,
    found: dict[str, Any],
    of_training: Callable[[Any], dict[str, Any]],
) -> Outcome:
    """Write the model, its training records and its audit `found`, which takes in what training did on its own rows.
    of_training: as `scored` in `judged`, of the training rows."""
    lines = _in_training(options, bounds, done, of_training, found)
    held = held_out_rows(rows, done.split.test)
    return written_fit(
        found, options, done.model, rows.checksum, lines, held=held, stopped=done.stopped, marks=rows.marks
    )


def held_out_rows(rows: InputRows, numbers: np.ndarray) -> bytes:
    """The content of HELD_OUT, for the rows `numbers`."""
    return csv_file("row", lines=([row] for row in np.sort(rows.places_of(numbers)).tolist()))


MET_WITHOUT = (
    "Without bounds these values are within them too. Training under them may still have ended at another model: the two "
    "stand side by side under 'Models'."
)
"""Note where the bounds cost nothing on the training rows."""


def value_in_training(text: str, value: float, free: float | None = None) -> str:
    """What is said of the value of a bound on the training rows. free: of a model without bounds, None where none is
    known."""
    line = f"On the training rows, which the verdict is not about, the value of {text!r} is {value:.4f}"
    return line + ("." if free is None else f"; without the bound it is {free:.4f}.")


def _within(finding: dict[str, Any]) -> bool:
    """Whether the value that was measured is within the bound."""
    value, limit = finding["value"], finding["bound"]
    return value is not None and bool(value >= limit if finding.get("sense") == "at least" else value <= limit)


def _in_training(
    options: Any,
    bounds: Sequence[Any],
    done: FittedPair,
    scored: Callable[[Any], dict[str, Any]],
    found: dict[str, Any],
) -> list[str]:
    """The exact value of every bound on the training rows, with and without it: what training did, beside its verdict;
    and where that is not "met" what to do next. The notes of the audit `found` take them in. Nothing of a model with a
    certificate.

    scored: as in `judged`, of the training rows.
    """
    if options.certify:
        return []
    free = None if done.free is None else audit(**scored(done.free), constraint=bounds)["constraints"]
    out = []
    for i, bound in enumerate(bounds):
        value = done.model.fit_report_["constraints"][i]["train_value"]
        out.append(value_in_training(bound.text, value, None if free is None else free[i]["value"]))
    if free and all(_within(made) for made in free):
        out.append(MET_WITHOUT)
    fewest = min((n for c in found["constraints"] for n in c["groups"].values()), default=0)
    unsure = found["verdict"] in ("violated", "insufficient") and done.model.fit_report_["feasible"]
    if unsure and fewest >= ENOUGH:
        broken = ", and the model breaks it on new rows" if found["verdict"] == "violated" else ""
        never = next((f"{b.text!r} has no certificate: {b.uncertain}" for b in bounds if b.uncertain is not None), None)
        out.append(f"The bound is met on the training rows{broken}. {never or CERTIFY}")
    found["notes"] = [*found["notes"], *out]
    return out
