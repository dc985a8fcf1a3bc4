"""A monitor of stated bounds: counts of the decisions so far, the verdicts that they allow, and a file that keeps them.

The decisions are taken as draws from one population, whose rates do not change. Every verdict at every look holds
together with probability `confidence`, however often and whenever one looks.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairbound.audits.assembling import assembled, facts_of_data
from fairbound.audits.classes import class_metrics, class_rates_of_groups, class_rows
from fairbound.audits.groups import group_rows
from fairbound.audits.impact import impact_tables
from fairbound.base.checks import check_confidence
from fairbound.base.errors import CheckpointError, DataError, OptionError
from fairbound.base.files import atomic_write_bytes
from fairbound.base.version import __version__
from fairbound.fairness.bound import check_groups
from fairbound.fairness.notions import Bound, constraints
from fairbound.fairness.scored import Finding, Scored
from fairbound.monitoring.areas import judge_areas_in_time
from fairbound.monitoring.format import check_format, format_of, tally_from_dict, tally_to_dict
from fairbound.monitoring.growth import said_of
from fairbound.monitoring.history import History
from fairbound.monitoring.judging import Shares, anytime_groups, check_watched, contradicted, judge_in_time
from fairbound.monitoring.pairing import AreaTally
from fairbound.monitoring.stored import check_not_changed, read_state, state_file
from fairbound.monitoring.tally import Tally
from fairbound.rows.doubtful import doubtful_groups
from fairbound.rows.groups import label_text
from fairbound.rows.labels import class_tuple


class Monitor:
    """Watches stated bounds on labelled decisions as they come.

    Look as often as you like: the chance that any verdict is ever wrong is at most 1 - confidence.

        monitor = fb.Monitor("demographic_parity <= 0.05")
        monitor.update(y_true, y_pred, {"sex": sex})       # one row or many
        found = monitor.look()                             # an audit: docs/audit-schema.md
        found["verdict"], found["monitoring"]["alarms"]

    constraint: bounds as text or objects: on rates, on classes, on mean losses with a largest value
        ("loss_gap[largest=3] <= 0.1"), or on areas under ROC curves (auc_parity; they need scores and a threshold).
    confidence: in (0.5, 1), of all verdicts of all bounds at all looks together.
    classes: the labels, of two the positive one last; more than two for bounds that speak of no positive one.
    threshold: None where y_pred holds labels; else y_pred holds scores, and a positive decision is a score above it.
    largest_weight: of rows with weights, the largest that any can have. A row of weight w is then counted with
        probability w / largest_weight, by a random stream of `random_state`. None where rows count once each.
    random_state: of that stream, and of another one by which rows of one call are shuffled.

    Raises: OptionError for bounds or options that cannot be used.
    """

    def __init__(
        self,
        constraint: str | Bound | Sequence[str | Bound],
        confidence: float = 0.95,
        *,
        classes: Sequence[Any] | int = ("0", "1"),
        threshold: float | None = None,
        largest_weight: float | None = None,
        random_state: int = 0,
    ):
        self.bounds = constraints(constraint)
        if not self.bounds:
            raise OptionError("a monitor needs at least one bound, such as 'demographic_parity <= 0.05'.")
        for bound in self.bounds:
            check_watched(bound, threshold)
        if threshold is not None and not math.isfinite(threshold):
            raise OptionError(f"the threshold must be a finite number, got {threshold!r}.")
        if largest_weight is not None and not 0 < largest_weight < math.inf:
            raise OptionError(f"largest_weight must be a positive number, got {largest_weight!r}.")
        check_confidence(confidence)
        labels = tuple(str(label_text(v)) for v in class_tuple(classes))
        if len(set(labels)) != len(labels):
            raise OptionError(
                f"classes must be two or more different labels, of two the positive one last; got {list(labels)}."
            )
        speaks = [bound.text for bound in self.bounds if "two classes" in bound.needs]
        if len(labels) > 2 and (speaks or threshold is not None):
            what = repr(speaks[0]) if speaks else "a threshold"
            raise OptionError(
                f"{what} needs a positive label, but there are {len(labels)}; watch one class against the rest, or a bound on classes."
            )
        self.confidence = confidence
        self.threshold = threshold
        self.files: list[dict[str, Any]] = []
        self.columns: dict[str, str] = {}  # where a file's labels and decisions are: "label", and "score" or "model"
        self.last_file: dict[str, Any] = {}  # what is kept of the rows of the file counted last, to know them again
        sums = tuple(dict.fromkeys(float(b.largest) for b in self.bounds if b.judged_from == "losses"))
        areas = AreaTally(tuple(b for b in self.bounds if b.judged_from == "areas"))
        self._tally = Tally(
            labels, threshold, largest=sums, largest_weight=largest_weight, seed=random_state, areas=areas
        )
        self._shares = {bound.text: Shares() for bound in self.bounds}
        self._history = History()
        self._latest: tuple[int, dict[str, str]] = 0, {}  # the rows at the latest look, and its verdicts
        self._stored: str | None = None

    @property
    def rows(self) -> int:
        """Decisions counted so far."""
        return self._tally.rows

    @property
    def repeated(self) -> int:
        """Rows left out so far because their id was counted before."""
        return self._tally.repeated

    @property
    def classes(self) -> tuple[str, ...]:
        """The labels; of two the positive one is last."""
        return self._tally.classes

    @property
    def largest_weight(self) -> float | None:
        """The largest weight that a row can have; None where rows count once each."""
        return self._tally.largest_weight

    @property
    def attributes(self) -> tuple[str, ...] | None:
        """Names of the sensitive features; None before the first row."""
        return self._tally.attributes

    @property
    def groups(self) -> dict[str, dict[str, int]]:
        """The groups of each sensitive feature, and the rows of each that were counted so far."""
        found: dict[str, dict[str, int]] = {a: {} for a in self.attributes or ()}
        for key, rows in self._tally.counts.items():
            for attribute, group in zip(found, key, strict=False):
                if group is not None:
                    found[attribute][str(group)] = found[attribute].get(str(group), 0) + rows
        return found

    @property
    def alarms(self) -> dict[str, int]:
        """The bounds found violated, and the rows at the look that found it."""
        return self._history.alarm_rows

    def update(
        self,
        y_true: Any,
        y_pred: Any,
        sensitive_features: Any = None,
        *,
        losses: Any = None,
        sample_weight: Any = None,
        ids: Any = None,
    ) -> Monitor:
        """Count decisions whose outcome is known: one row, or columns (n,) of them. Returns the monitor.

        The rows of one call have no order: a file may be sorted, and is passed in one call then. How many a call has must not be
        chosen by how they were decided.

        sensitive_features: a value or a dict of values for one row; for more what `Groups.of` takes. A group may appear
            late, and may be missing (None). The attributes are those of the first call; a single one may come without
            its name.
        losses: (n,) >= 0, where mean losses are bounded. sample_weight: (n,) from 0 to largest_weight, where that is
            stated. ids: (n,) what tells decisions apart. A row whose id was counted before is left out (`repeated`),
            and of several rows with one id the first is counted. All calls pass them, or none.
        Raises: DataError for rows that cannot be used; none of them is counted then.
        """
        check_groups(self.bounds, sensitive_features)
        self._tally.add(y_true, y_pred, sensitive_features, losses, sample_weight, ids)
        return self

    def look(self, title: str | None = None) -> dict[str, Any]:
        """The verdicts now, as an audit (docs/audit-schema.md) with what was found over time under "monitoring".

        A bound found violated once stays so: the evidence was enough. A bound is met while its upper limit is within
        it.
        Raises: DataError before the first row.
        """
        rows, found, changed, growth = self._judged(needed=True)
        facts = {
            "data": self._data(rows),
            "metrics": self._metrics(rows),
            "groups": anytime_groups(self._groups(rows), 1 - self.confidence),
            "constraints": found,
            "comparison": [],
            "distributions": [],
            "impact": impact_tables(rows) if len(self.classes) == 2 else [],
            "warnings": [*changed, *doubtful_groups(rows.groups.names)],
            "monitoring": {
                "looks": self._history.rows,
                "bounds": {b.text: self._history.over_time(b.text) for b in self.bounds},
                "alarms": self.alarms,
                "files": self.files,
                "growth": growth,
                **({} if self._tally.ids is None else {"repeated": self.repeated}),
                **({} if self.largest_weight is None else {"offered": self._tally.offered}),
            },
        }
        notes = ["Every interval holds at all looks together; that of a group's rate holds for this rate alone."]
        return assembled(facts, title or "Fairness monitor", self.bounds, model=self._decides(), notes=notes)

    def _decides(self) -> dict[str, Any] | None:
        """What a report says of what decides, where the decisions came from files."""
        if "model" in self.columns:
            return {
                "kind": "saved",
                "description": "the saved model of this checksum",
                "checksum": self.columns["model"],
            }
        if "score" in self.columns:
            return {"kind": "scores", "description": f"the column {self.columns['score']} of the files"}
        return None

    def verdicts(self) -> dict[str, str]:
        """The verdict on each bound now: what `look` says, without the rest of the audit, which takes longer."""
        if not self.rows or self._latest[0] != self.rows:
            self._judged(needed=False)
        return dict(self._latest[1])

    def _judged(self, needed: bool) -> tuple[Scored, list[Finding], list[str], list[Finding]]:
        """The decisions counted, what is found of each bound, warnings, and differences that have grown; the look is
        remembered. needed: whether the rows that would decide, and growth, are looked for."""
        if not self.rows:
            raise DataError("the monitor has seen no row yet; call update first.")
        scored, now, before = self._tally.scored()
        rows = replace(scored, confidence=self.confidence, losses=np.zeros(len(scored)))
        alpha, found = (1 - self.confidence) / len(self.bounds), []
        for bound in self.bounds:
            if bound.judged_from == "areas":
                about = self._tally.areas, len(before), self._shares[bound.text]
                found.append(judge_areas_in_time(bound, rows, *about, alpha, needed))
                continue
            sums = self._tally.largest.index(float(bound.largest)) if bound.judged_from == "losses" else None
            found.append(judge_in_time(bound, rows, now, before, self._shares[bound.text], alpha, needed, sums))
        growth = [grown for finding in found if (grown := finding.pop("grown", None))]
        changed = list(map(said_of, growth))
        changed += [
            said
            for finding in found
            for said in (contradicted(finding), self._history.alarm(finding, self.rows))
            if said
        ]
        self._history.remember(found, self.rows)
        self._latest = self.rows, {finding["text"]: finding["verdict"] for finding in found}
        return rows, found, changed, growth

    def _data(self, rows: Scored) -> dict[str, Any]:
        data: dict[str, Any] = {"name": "decisions as they came", "split": "all decisions since the start"}
        data |= (
            {"positive": self.classes[1]}
            if len(self.classes) == 2
            else {"positive": None, "classes": list(self.classes)}
        )
        if self.largest_weight is not None:
            data["split"] += f"; {self.rows:,} of {self._tally.offered:,} weighted rows counted, by their weight"
            data["split"] += f", column {self.columns['weights']}" if "weights" in self.columns else ""
        if "label" in self.columns:
            data["label"] = self.columns["label"]
        return facts_of_data(rows.groups, data, rows.each)

    def _groups(self, rows: Scored) -> list[dict[str, Any]]:
        return (
            group_rows(rows, self.bounds)
            if len(self.classes) == 2
            else class_rows(rows, self.columns.get("label", "y")) + class_rates_of_groups(rows, self.bounds)
        )

    def _metrics(self, rows: Scored) -> dict[str, float | None]:
        if len(self.classes) > 2:
            return class_metrics(rows)
        share = lambda hit: float(rows.each[hit].sum() / rows.total)  # type: ignore[index]  # noqa: E731
        return {
            "accuracy": share(rows.target == rows.predicted),
            "selection_rate": share(rows.predicted == 1),
            "base_rate": share(rows.target == 1),
        }

    # -- several monitors -----------------------------------------------------------------------------------------

    def merge(self, other: Monitor) -> Monitor:
        """A new monitor of the decisions of both, which must be different ones.

        What it says from now on is wrong with probability at most 1 - confidence, if the choice to merge did not look
        at outcomes. It looks afresh: alarms and looks of the two are theirs alone, each with its own error probability.
        A checkpoint that only one of them has passed is lost, which costs some evidence.
        Raises: DataError where their bounds, confidence or labels differ, or a file was counted by both.
        """
        mine, theirs = (
            [*map(str, (m.confidence, m.classes, m.threshold, m.largest_weight)), *(b.text for b in m.bounds)]
            for m in (self, other)
        )
        if mine != theirs:
            raise DataError(f"monitors of {mine} and of {theirs} cannot be merged.")
        twice = {f["sha256"] for f in self.files} & {f["sha256"] for f in other.files}
        if twice:
            raise DataError(
                f"both monitors have counted the file with sha256 {min(twice)}; its rows would count twice."
            )
        if self.largest_weight is not None and self._tally.seed == other._tally.seed:
            raise DataError(
                "both monitors drew the same random numbers for their weights; give them other random_state."
            )
        made = Monitor(self.bounds, self.confidence, classes=self.classes, threshold=self.threshold)
        made._tally = self._tally.merge(other._tally)
        made.files = [*self.files, *other.files]
        made.columns = dict(self.columns) if self.columns == other.columns else {}
        return made

    # -- the file -------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """The state as plain data, from which `from_dict` makes the same monitor."""
        return {
            "format": format_of(self._tally),
            "library": __version__,
            "constraint": [bound.text for bound in self.bounds],
            "confidence": self.confidence,
            "classes": list(self.classes),
            "threshold": self.threshold,
            "largest_weight": self.largest_weight,
            "rows": self.rows,
            **tally_to_dict(self._tally),
            "shares": {text: {"first": s.first, "late": s.late} for text, s in self._shares.items()},
            "alarms": self._history.alarms,
            "looks": self._history.looks,
            "files": self.files,
            "columns": self.columns,
            **({"last_file": self.last_file} if self.last_file else {}),
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Monitor:
        """The monitor of a state. Raises: CheckpointError for one of another format, or that does not fit together."""
        check_format(state)
        try:
            options: dict[str, Any] = {name: state.get(name) for name in ("threshold", "largest_weight")}
            made = cls(state["constraint"], state["confidence"], classes=state["classes"], **options)
            made._tally = tally_from_dict(state, made._tally)
            made._shares = {b.text: Shares(**state["shares"][b.text]) for b in made.bounds}
            made._history, made.files = History(dict(state["alarms"]), list(state["looks"])), list(state["files"])
            made.columns = dict(state.get("columns", {}))  # states of older versions have none
            made.last_file = dict(state.get("last_file", {}))
            made._history.over_time(""), made.alarms, [f["sha256"] for f in made.files]  # can be read
            if made.rows != state["rows"]:
                raise ValueError(f"it says {state['rows']} rows, but its counts add up to {made.rows}")
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise CheckpointError(f"the state of the monitor does not fit together: {error!r}.") from error
        return made

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state as one JSON file with its checksum; the old file stays until the new one is whole.

        Raises: CheckpointError where the file is not the one this monitor was loaded from, or last saved to: another
            process has written it since, or there is one already.
        """
        check_not_changed(path, self._stored)
        content, total = state_file(self.to_dict())
        atomic_write_bytes(path, content)
        self._stored = total

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Monitor:
        """The monitor saved at `path`. Raises: FileNotFoundError,
        and CheckpointError for a file that is damaged or is none."""
        state, total = read_state(path)
        made = cls.from_dict(state)
        made._stored = total
        return made

    def __repr__(self) -> str:
        return f"Monitor({[b.text for b in self.bounds]}, rows={self.rows}, alarms={self.alarms})"
