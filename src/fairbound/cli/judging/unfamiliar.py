"""What a saved model never met in training, in the rows of a file that it is given: said once, of all parts together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from fairbound.base.errors import DataWarning, silenced
from fairbound.postprocessing.rule import GroupRule
from fairbound.tables import EncodeReport
from fairbound.tables.encode_report import merged_reports


class Unfamiliar:
    """Gathers what a reader must know of the rows that a saved model is given, at once or part by part."""

    def __init__(self, model: Any):
        self._model = model
        self._rule: GroupRule | None = getattr(model, "rule_", None)
        self._reports: list[EncodeReport] = []
        self._outside = 0

    @contextmanager
    def part(self, groups: Any = None) -> Iterator[None]:
        """Within, the model takes the next part of the rows, as a table, and its warnings of data are kept for `said`.
        groups: of these rows, for a model that decides by them."""
        with silenced(DataWarning):
            yield
        report = self._model.encoder_.last_report
        self._reports.append(report)
        if self._rule is not None:
            self._outside += self._rule.outside(groups, report.rows)

    @property
    def report(self) -> EncodeReport:
        """What happened to the columns of all parts."""
        return merged_reports(self._reports)

    def warnings(self) -> list[str]:
        """A sentence for each warning."""
        report = self.report
        said = report.strange_lines()
        if self._rule is not None and self._outside:
            said.append(self._rule.said_of_outside(self._outside, report.rows))
        return said


def predicted(model: Any, frame: Any) -> tuple[np.ndarray, list[str]]:
    """What a saved regressor or ranker predicts (n,) for the rows of a table, and a sentence for each of its warnings."""
    unfamiliar = Unfamiliar(model)
    with unfamiliar.part():
        found = model.predict(frame)
    return found, unfamiliar.warnings()


def scored(classifier: Any, frame: Any, groups: Any) -> tuple[np.ndarray, list[str]]:
    """The scores (n,) of a saved classifier on the rows of a table, and a sentence for each of its warnings."""
    unfamiliar = Unfamiliar(classifier)
    with unfamiliar.part(groups):
        scores = classifier.decision_function(frame, groups)
    return scores, unfamiliar.warnings()
