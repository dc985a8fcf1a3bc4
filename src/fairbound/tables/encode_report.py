"""`EncodeReport`: what happened to a table on its way to features, in numbers and in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from fairbound.base.names import shortlist

STRANGE = 0.5
FEWEST = 20
"""A column is strange where at least this share of the rows whose value training should know, and at least so many,
have a value it did not know."""

SURE = 4
"""Standard errors of the usual share by which there must be more, as many columns of many tables are looked at."""

MOSTLY = 0.95
"""Share of the rows from which on tiny numbers are spoken of."""

MANY = 0.2
"""From this share of the training rows on, the report says that their values are too rare to have a feature each."""

FEW = ", as few rows have any one of them."
"""What is said of values that are less frequent than `min_count`."""

SOME, SHOWN = 3, 40
"""Of values that training never had so many are named, each by so many characters."""

APART = 3
"""Columns with a value far outside training's range up to which each has a sentence of its own."""

IN_WORDS, BY_NAME = 5, 20
"""For so many dropped columns the reason is given, and so many more are named."""

_one_table: ContextVar[bool] = ContextVar("_one_table", default=False)


@contextmanager
def of_one_table() -> Iterator[None]:
    """Within it no encoder warns of values that training never had, nor counts them as told: rows kept apart of the
    training table are written as those of training are, and rare values stand in one part alone."""
    token = _one_table.set(True)
    try:
        yield
    finally:
        _one_table.reset(token)


def is_of_one_table() -> bool:
    """Whether the rows being encoded are of the training table."""
    return _one_table.get()


def dropped_words(dropped: Mapping[str, str]) -> list[str]:
    """What is said of columns that were dropped, each with its reason."""
    said = [f"Column {name!r} was dropped: {reason}." for name, reason in list(dropped.items())[:IN_WORDS]]
    if rest := list(dropped)[IN_WORDS:]:
        said.append(f"Further columns were dropped, {len(rest)} in all: {shortlist(rest, BY_NAME)}.")
    return said


def empty_words(empty: int, rows: int) -> list[str]:
    """What is said of `empty` of so many rows that have no value in any column."""
    return [f"{empty:,} of {rows:,} rows have no value in any column. Are they blank lines, or sums?"] if empty else []


def identifier_words(names: Sequence[str], out: str = "Leave them out of X") -> list[str]:
    """What is said of features that look like identifiers. out: how they are left out."""
    return [
        f"These columns look like identifiers of rows or persons, and are features: {shortlist(names, BY_NAME)}. {out} "
        "if they are, since they say nothing of new people; those that several rows share, as of a school, may be made text."
    ] if names else []  # fmt: skip


@dataclass(frozen=True)
class EncodeReport:
    """What happened to one table on its way to features; plain data."""

    rows: int
    features: int
    unseen: dict[str, int] = field(default_factory=dict)  # column -> rows whose value is unseen or too rare in training
    new: dict[str, tuple[str, ...]] = field(default_factory=dict)  # column, without (other) -> values not in training
    rare: dict[str, float] = field(default_factory=dict)  # column -> share of the training rows whose value is too rare
    full: tuple[str, ...] = ()  # of these, columns that were allowed no more features
    missing: dict[str, int] = field(default_factory=dict)  # column -> rows with no value
    gaps: dict[str, float] = field(default_factory=dict)  # of these, column -> share of the training rows with none
    empty: int = 0  # rows without a value in any column
    beyond: dict[str, int] = field(default_factory=dict)  # column -> rows whose number is outside training's range
    far: dict[str, int] = field(default_factory=dict)  # column -> those further outside than the range is wide
    tiny: dict[str, int] = field(default_factory=dict)  # column -> rows whose number is tiny beside training's
    ranges: dict[str, str] = field(default_factory=dict)  # of these, training's range in words
    infinite: dict[str, int] = field(default_factory=dict)  # column -> infinities counted as missing
    dropped: dict[str, str] = field(default_factory=dict)  # column -> why it was dropped in training
    ignored: tuple[str, ...] = ()  # columns of this table that training did not have
    identifiers: tuple[str, ...] = ()  # features that look like identifiers in training
    doubts: tuple[
        str, ...
    ] = ()  # what is said of training's columns: texts that look like numbers or dates, numbers far from others
    positional: bool = False  # columns were matched by place because one of the two tables has no names

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON data, without the values of `new`: what few people share has no place in a file."""
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
        return {name: value for name, value in plain.items() if name != "new"}

    def column_lines(self) -> list[str]:
        """What is said of columns that were dropped or are doubtful, of features that look like identifiers, and of rows
        without any value."""
        columns = dropped_words(self.dropped) + [said[0].upper() + said[1:] for said in self.doubts]
        return columns + identifier_words(self.identifiers) + empty_words(self.empty, self.rows)

    def rare_lines(self) -> list[str]:
        """A sentence for each column of which many training rows share one feature."""
        return [
            f"Column {name!r}: {100 * share:.0f} % of the training rows have one of its less frequent values, which share one feature"
            + (". options=TableOptions(max_categories=...) gives more values their own." if name in self.full else FEW)
            for name, share in self.rare.items()
            if share >= MANY
        ]

    def strange_lines(self, besides: Container[str] = ()) -> list[str]:
        """A sentence for each column of which most values were not known in training, as of another table or another
        spelling; values too rare in training count as far as there are more of them than there. besides: columns whose
        unknown values are spoken of elsewhere."""
        out = []
        for name, count in self.unseen.items():
            usual = self.rare.get(name, 0.0)
            if name in besides or not self._far_more(count, usual):
                continue
            rare = f" or that was too rare there (as in {100 * usual:.2g} % of its own rows)" if usual else ""
            out.append(
                f"{name}: {count:,} of {self.rows:,} rows have a value that training did not know{rare}, so the column says little of them. Is "
                "it written as in the training table?"
            )
        return out + self._strange_gaps() + self._strange_numbers()

    def _far_more(self, count: int, usual: float) -> bool:
        """Whether `count` rows are far more than the share that is usual in training, and not by chance."""
        more, by_chance = count - usual * self.rows, SURE * (usual * (1 - usual) * self.rows) ** 0.5
        return count >= FEWEST and more >= max(STRANGE * (1 - usual) * self.rows, by_chance)

    def _strange_gaps(self) -> list[str]:
        """Of columns that are missing in far more rows than in training, and of rows without any value."""
        out = [
            f"{name}: {self.missing[name]:,} of {self.rows:,} rows are missing, in training {100 * usual:.2g} %, so the column says little of "
            "them. Was it delivered?"
            for name, usual in self.gaps.items()
            if self._far_more(self.missing[name], usual)
        ]
        return out + empty_words(self.empty, self.rows)

    def _strange_numbers(self) -> list[str]:
        """Of columns of numbers unlike those of training."""
        out, single = [], dict[str, str]()
        for name, words in self.ranges.items():
            far, beyond, tiny = (counts.get(name, 0) for counts in (self.far, self.beyond, self.tiny))
            begins, ask = f"{name}: {{:,}} of {self.rows:,} rows hold", "Is it in the units of training?"
            if beyond >= max(FEWEST, STRANGE * self.rows):
                out.append(f"{begins.format(beyond)} a number outside training's range{words}. {ask}")
            elif far:
                single[name] = f"{begins.format(far)} a value far outside training's range{words}. Is it right?"
            elif tiny >= max(FEWEST, MOSTLY * self.rows):
                out.append(f"{begins.format(tiny)} a number tiny beside those of training. {ask}")
        if len(single) <= APART:
            return [*out, *single.values()]
        each = shortlist([f"{name} ({self.far[name]:,})" for name in single], BY_NAME)
        return [
            *out,
            f"{len(single)} columns hold values far outside training's range in some of {self.rows:,} rows: {each}. Are they right?",
        ]

    def noted_lines(self) -> list[str]:
        """A sentence for each column of which a few values were not known in training, or a few are missing where none
        was there."""
        strange = tuple(line.split(": ")[0] for line in self.strange_lines())
        unseen = [
            f"{name}: {count:,} of {self.rows:,} rows have a value unseen or too rare in training."
            for name, count in sorted(self.unseen.items())
            if count and name not in strange
        ]
        return unseen + [
            f"{name}: {count:,} of {self.rows:,} rows are missing, and in training none was."
            for name, count in sorted(self.missing.items())
            if name not in strange and self.gaps.get(name) == 0
        ]

    def new_lines(self, columns: Container[str]) -> list[str]:
        """A sentence for each of these columns that has values that training never had."""
        return [
            f"{name}: {self.unseen[name]:,} of {self.rows:,} rows have a value that training did not know, "
            f"{shortlist([value[:SHOWN] for value in values], SOME, quoted=True)}, so the column says nothing of them. Is it "
            "written as in the training table? (This is said once of a column.)"
            for name, values in self.new.items()
            if name in columns
        ]

    def lines(self) -> list[str]:
        """One sentence for each thing a reader should know; empty where there is nothing to say."""
        out = [f"{name}: dropped, {reason}." for name, reason in self.dropped.items()]
        out += [
            f"{name}: {count} of {self.rows} rows have a value unseen or too rare in training."
            for name, count in self.unseen.items()
        ]
        out += [f"{name}: {count} of {self.rows} rows are missing." for name, count in self.missing.items()]
        out += [f"{name}: {count} infinite values taken as missing." for name, count in self.infinite.items()]
        out += [f"{name}: not in the training table, ignored." for name in self.ignored]
        return out + (["Columns were matched by their place, not by name."] if self.positional else [])


def merged_reports(reports: Sequence[EncodeReport]) -> EncodeReport:
    """The report on all parts of a table."""
    counts = {what: Counter[str]() for what in ("unseen", "missing", "infinite", "beyond", "far", "tiny")}
    gaps, ranges, new = dict[str, float](), dict[str, str](), dict[str, tuple[str, ...]]()
    for report in reports:
        for what, count in counts.items():
            count.update(getattr(report, what))
        gaps |= report.gaps
        new |= {name: tuple(dict.fromkeys((*new.get(name, ()), *values))) for name, values in report.new.items()}
        ranges |= {name: words for name, words in report.ranges.items() if words or name not in ranges}
    rows, empty = (sum(getattr(report, what) for report in reports) for what in ("rows", "empty"))
    summed: dict[str, Any] = {what: dict(count) for what, count in counts.items()}
    return replace(reports[0], rows=rows, empty=empty, gaps=gaps, ranges=ranges, new=new, **summed)
