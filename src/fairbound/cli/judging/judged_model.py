"""A saved model that is judged on a file: its scores, its groups of training beside the file's, and what a reader must
know of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fairbound.base.errors import DataError, OptionError
from fairbound.base.names import shortlist
from fairbound.cli.bounds import compare_groups
from fairbound.cli.files.columns import in_file, named_columns
from fairbound.cli.files.saved_model import trained_columns, training_facts
from fairbound.cli.judging.unfamiliar import Unfamiliar
from fairbound.cli.options.judging import AuditOptions
from fairbound.estimators.classifier import FairClassifier
from fairbound.estimators.saving.folder import Folder
from fairbound.estimators.saving.saved import kind_of
from fairbound.rows.groups import Groups
from fairbound.rows.labels import same_label
from fairbound.tables import Encoded, EncodeReport


def model_of_two_classes(folder: Folder, positive: str | None) -> FairClassifier:
    """The saved classifier, for rows without outcomes. positive: the label that is said to be positive. Raises: OptionError for another model, and for one of more classes, whose decisions say
    nothing there, or another positive label."""
    kind = kind_of(folder)
    if kind != "FairClassifier":
        raise OptionError(f"name the column of true outcomes with --label, which a saved {kind} needs.")
    classifier = FairClassifier.load(folder)
    if len(classifier.classes_) > 2:
        raise OptionError(
            f"the model has {len(classifier.classes_)} classes, none of them positive, so nothing can be said of its decisions alone; "
            "name the column of true outcomes with --label."
        )
    check_positive(classifier, positive)
    return classifier


JUDGED_BY = {"FairRegressor": "fairbound audit", "FairRanker": "fairbound audit --qid"}
"""What judges a saved model that is no classifier."""


def check_classifier(folder: Folder, command: str) -> None:
    """Raises: OptionError where the saved model is no classifier, which `command` takes alone."""
    if (kind := kind_of(folder)) in JUDGED_BY:
        raise OptionError(
            f"the model in {folder.path!r} is a {kind}, and {command} takes classifiers; judge it by itself with {JUDGED_BY[kind]}."
        )


def check_positive(classifier: FairClassifier, stated: str | None) -> None:
    """Raises: OptionError where another label than the model's is stated to be positive, of two."""
    known = classifier.classes_.tolist()
    if stated is not None and same_label(stated, known) != known[1]:
        raise OptionError(f"the model's positive label is {str(known[1])!r}, not {stated!r}; leave --positive out.")


def labels_of_training(labels: Any, classifier: FairClassifier, positive: str | None) -> Any:
    """A file's column of labels, a Series without missing ones, as `in_words_of` the model's classes. positive: the label
    that is said to be positive.

    Raises: DataError where the model has two classes, and the file others in their place; then as `check_positive`.
    """
    known, found = classifier.classes_.tolist(), labels.unique().tolist()
    if len(found) <= len(known) == 2 and any(same_label(one, known) is None for one in found):
        raise DataError(
            f"the labels are {shortlist(sorted(map(repr, found)))}, and the model was trained on "
            f"{' and '.join(map(repr, known))}. Recode the column in the model's labels."
        )
    check_positive(classifier, positive)
    return in_words_of(labels, known)


def in_words_of(column: Any, known: Sequence[Any]) -> Any:
    """A column whose words differ from the labels `known` only in capitals and in blanks at the ends, in these labels; any other,
    and one that spells a label in two ways, as it is."""
    found = column.dropna().unique().tolist()
    own = {one: same_label(one, known) for one in found} if len(found) <= len(known) else {}
    one_to_one = None not in own.values() and len(set(own.values())) == len(own)
    return column.map(own) if one_to_one and any(isinstance(k, str) and k != v for k, v in own.items()) else column


def label_of_training(folder: Folder | None) -> str:
    """The column that a saved model learnt to tell, "decision" where its folder has none."""
    known = {} if folder is None else trained_columns(folder)
    return str(known.get("label", "decision"))


def group_columns(
    options: AuditOptions, columns: Sequence[str], classifier: FairClassifier | None, bounds: Sequence[Any]
) -> list[str]:
    """The columns of the groups. Raises: OptionError where a bound or the model needs some and none is named;
    then as `check_groups_named`."""
    needed = compare_groups(bounds) or (classifier is not None and classifier.needs_groups)
    attributes = named_columns(options.group, columns, "--group", needed)
    check_groups_named(classifier, str(options.model), attributes)
    return attributes


def check_groups_named(classifier: FairClassifier | None, named: str, attributes: Sequence[str]) -> None:
    """Raises: OptionError where --group, of `attributes`, leaves one out by which the saved model decides. One attribute may
    have another name than in training. named: the model's folder."""
    if classifier is None or not classifier.needs_groups or len(classifier.groups_.attributes) == len(attributes) == 1:
        return
    if missing := [name for name in classifier.groups_.attributes if name not in attributes]:
        raise OptionError(
            f"--group must name {' and '.join(missing)}{' too' if attributes else ''}: the model in {named} decides by "
            f"{'them' if len(missing) > 1 else 'it'}."
        )


def encoded_by_model(classifier: FairClassifier, frame: Any, options: AuditOptions, used: set[Any]) -> Encoded:
    """The rows of the file as the saved model takes them. used: columns of the file that are no features."""
    assert classifier.encoder_ is not None  # a module has none, and `load` refuses one without its code
    with in_file(options.data, frame.index.to_numpy()):
        encoded = Encoded.of(classifier.encoder_, frame)
    return replace(encoded, report=_beside(encoded.report, used))


def _beside(report: EncodeReport, used: set[Any]) -> EncodeReport:
    """The report on a table without the columns `used`, which are no features, among those ignored."""
    return replace(report, ignored=tuple(name for name in report.ignored if name not in used))


class JudgedInParts:
    """A saved model on a file read in parts, and what a reader must know of all of them together."""

    def __init__(self, classifier: FairClassifier):
        self._classifier = classifier
        self._new = Counter[tuple[str, str]]()
        self._unfamiliar = Unfamiliar(classifier)

    def scored(self, frame: Any, groups: Groups | None) -> tuple[np.ndarray, Groups | None]:
        """The scores (n,) of the next part, and its groups with those of training."""
        if groups is not None:
            groups, new = with_groups_of_training(self._classifier, groups)
            self._new.update(new)
        with self._unfamiliar.part(groups):
            return self._classifier.decision_function(frame, groups), groups

    def warnings(self, attributes: Sequence[str], bounds: Sequence[Any]) -> list[str]:
        """What is said of values and groups that training lacked, and as `unjudged_attribute_warnings`. attributes: of all parts."""
        lacked = new_group_warnings(self._new, self._unfamiliar.report.rows)
        return [
            *self._unfamiliar.warnings(),
            *lacked,
            *unjudged_attribute_warnings(self._classifier, attributes, bounds),
        ]

    def notes(self, used: set[Any]) -> list[str]:
        """As `encoding_notes`, of all parts. used: as in `encoded_by_model`."""
        return encoding_notes(_beside(self._unfamiliar.report, used))


def encoding_notes(report: EncodeReport) -> list[str]:
    """What is noted of the rows' columns."""
    return [line for line in report.lines() if ": dropped, " not in line]


def beside_training(
    classifier: FairClassifier, groups: Groups | None, bounds: Sequence[Any], rows: int
) -> tuple[Groups | None, list[str]]:
    """The file's groups with those of training, and what a reader must know of them. rows: of the file."""
    if groups is None:
        return None, []
    found, new = with_groups_of_training(classifier, groups)
    said = [*new_group_warnings(new, rows), *unjudged_attribute_warnings(classifier, found.attributes, bounds)]
    rule = classifier.rule_
    if rule is not None and (outside := rule.outside(found, rows)):
        said.append(rule.said_of_outside(outside, rows))
    return found, said


def model_facts(model: Any, options: AuditOptions, folder: Folder | None, holds: str = "scores") -> dict[str, Any]:
    """What the report says of the model saved in `folder`, or where there is none, of the column of --score. holds: what
    that column holds."""
    if model is None or folder is None:
        return {"kind": holds, "description": f"the column {options.score} of the file"}
    return {
        "kind": model.fit_report_["model"]["kind"],
        "description": f"saved in {Path(str(options.model)).name}",
        **training_facts(model),
        "checksum": f"sha256:{folder.checksum}",
    }


def with_groups_of_training(classifier: FairClassifier, groups: Groups) -> tuple[Groups, Counter[tuple[str, str]]]:
    """The file's groups with those of training, and the rows by (attribute,
    group) of every group that training lacked."""
    known = classifier.groups_
    if set(known.attributes) != set(groups.attributes):
        return groups, Counter()
    found, new = groups.after(known)
    counts = found.counts()
    return found, Counter({(a, label): counts[a][label] for a, labels in new.items() for label in labels})


def unjudged_attribute_warnings(
    classifier: FairClassifier, attributes: Sequence[str], bounds: Sequence[Any]
) -> list[str]:
    """A warning where the model was trained under bounds on other attributes than those that this audit is given."""
    known = classifier.groups_
    if not compare_groups(bounds):
        return []
    missing = [name for name in known.attributes if name not in attributes]
    if not missing:
        return []
    return [
        f"The model was trained under bounds on {' and '.join(missing)} too, which this audit does not judge: its verdicts are of "
        f"{' and '.join(attributes)} alone. Name them all with --group."
    ]


def dropped_group_warnings(classifier: FairClassifier | None, found: dict[str, Any]) -> list[str]:
    """What a reader must know of groups that are judged here, and that the saved model's bounds left out in training, as
    they had too few rows there."""
    if classifier is None:
        return []
    judged = {name for c in found["constraints"] for name in c["groups"]}
    left = classifier.fit_report_.get("dropped_groups", [])
    both = [name for name in left if any(one == name or one.startswith((f"{name} | ", f"{name}, ")) for one in judged)]
    if not both:
        return []
    return [
        f"Too few training rows: the model's bounds left {shortlist(both, quoted=True)} out in training. Here they have enough, and "
        "are judged."
    ]


def new_group_warnings(new: Counter[tuple[str, str]], rows: int) -> list[str]:
    """What a reader must know of groups that training lacked; rows: of the file."""
    out = []
    for attribute in dict.fromkeys(a for a, _ in new):
        labels = [label for a, label in new if a == attribute]
        count = sum(new[attribute, label] for label in labels)
        out.append(
            f"{attribute}: {count:,} of {rows:,} rows have a group that training lacked ({shortlist(labels, quoted=True)}). They are measured here, "
            "but the model was trained under no bound for them."
        )
    return out
