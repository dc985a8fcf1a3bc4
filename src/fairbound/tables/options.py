"""`TableOptions`: how an encoder reads a table."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fairbound.base.errors import OptionError

MOST_KNOTS = 3
"""Of one number, where labels say at which values it bends."""

FEWEST, MOST_CATEGORIES = 50, 250
"""Columns that a categorical column may become in long tables, and in others."""

VALUES = 25_000_000
"""Rows times columns of one categorical column; a table is long where MOST_CATEGORIES would make more."""


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """How a `TableEncoder` reads a table.

    knots: at how many values each number of a linear model may bend, 0 or more; "auto": 3, in the numbers for which a
        test on the labels asks; None: "auto" for a linear FairClassifier or FairRegressor, else 0 (docs/training.md).
    jumps: "auto": a number may jump at the values for which a test on the labels asks; 0: at none;
        None: as knots, "auto" where they are, and for a network of classes where neither is stated.
    pairs: "auto": two columns may have an effect together for which a test on the labels asks, and numbers may jump;
        0: none may; None: "auto" where knots and jumps are, except with more than two classes.
    categorical, numeric: names of columns that are categories, or numbers, whatever their type.
    min_count: training rows that a category needs for a column of its own, >= 1. Numbers that differ from one value in
        fewer rows, of 20 times as many or more, are divided by their range, as by their sd they would be huge.
    max_categories: columns that one categorical column may become, >= 2; (other) counts, (missing) does not. None: 250,
        and fewer, down to 50, where they would hold more than 25 million values.
    unique_share: text with more values than max_categories, or than 50 where that is None, is dropped where this share
        of its rows, in (0, 1], is distinct.
    infinite: "error", or "missing": infinities count as missing.
    sparse_scale: of sparse tables: "max_abs" divides each column by its largest |x|, "none" leaves it.
    Raises: OptionError for a value out of range.
    """

    min_count: int = 5
    max_categories: int | None = None
    unique_share: float = 0.5
    infinite: str = "error"
    categorical: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    knots: int | str | None = None
    jumps: int | str | None = None
    pairs: int | str | None = None
    sparse_scale: str = "max_abs"

    def __post_init__(self) -> None:
        for name, least in (("min_count", 1), ("max_categories", 2), ("knots", 0)):
            value = getattr(self, name)
            if (name == "knots" and value in (None, "auto")) or (name == "max_categories" and value is None):
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                or_auto = " or 'auto'" * (name == "knots")
                raise OptionError(f"{name} must be a whole number of at least {least}{or_auto}, got {value!r}.")
        for name in ("jumps", "pairs"):
            value = getattr(self, name)
            if value not in (None, "auto", 0) or isinstance(value, bool):
                raise OptionError(f"{name} must be 0 or 'auto', got {value!r}.")
        if self.pairs == "auto" and self.jumps == 0:
            raise OptionError(
                "pairs='auto' needs jumps: numbers jump at the sides of pairs. Leave jumps=0 out, or give pairs=0."
            )
        if not 0 < self.unique_share <= 1:
            raise OptionError(
                f"unique_share must lie in (0, 1], got {self.unique_share!r}; 1 drops only all-distinct text."
            )
        for name, allowed in (("infinite", ("error", "missing")), ("sparse_scale", ("max_abs", "none"))):
            if getattr(self, name) not in allowed:
                raise OptionError(f"{name} must be one of {allowed}, got {getattr(self, name)!r}.")
        for name in ("categorical", "numeric"):
            if isinstance(getattr(self, name), str):
                raise OptionError(
                    f"{name} is a list of column names, got the text {getattr(self, name)!r}; write ({name!r},)."
                )
            object.__setattr__(self, name, tuple(getattr(self, name)))
        both = sorted(set(self.categorical) & set(self.numeric))
        if both:
            raise OptionError(f"{both} are named both categorical and numeric; choose one.")

    @property
    def most_knots(self) -> int:
        """How many knots a number may have."""
        return MOST_KNOTS if isinstance(self.knots, str) else self.knots or 0

    @property
    def many(self) -> int:
        """Text of more different values than these may be dates, numbers or identifiers."""
        return FEWEST if self.max_categories is None else self.max_categories

    def most_categories(self, rows: int) -> int:
        """Columns that a categorical column of so many training rows may become."""
        return self.max_categories or max(FEWEST, min(MOST_CATEGORIES, VALUES // max(rows, 1)))

    @property
    def jumps_by_labels(self) -> bool:
        """Whether labels say where numbers jump."""
        return self.jumps == "auto" or (self.jumps is None and "auto" in (self.knots, self.pairs))

    @property
    def pairs_by_labels(self) -> bool:
        """Whether labels say which columns have an effect together."""
        return self.pairs == "auto" or (self.pairs is None and self.knots == "auto" and self.jumps_by_labels)

    @property
    def by_labels(self) -> bool:
        """Whether labels say where numbers bend or jump, or which columns have an effect together."""
        return self.knots == "auto" or self.jumps_by_labels

    def or_knots(self) -> TableOptions:
        """These options, with knots where labels ask for them where they state none."""
        return replace(self, knots="auto") if self.knots is None else self

    def or_jumps(self) -> TableOptions:
        """These options, with jumps where they state neither knots nor jumps."""
        return replace(self, jumps="auto") if self.knots is None and self.jumps is None else self

    def shaped_as(self, others: TableOptions) -> TableOptions:
        """These options, with the knots, jumps and pairs of others where they state none."""
        knots = (others.knots or 0) if self.knots is None else self.knots
        jumps = others.jumps if self.jumps is None else self.jumps
        pairs = others.pairs if self.pairs is None and jumps != 0 else self.pairs
        return replace(self, knots=knots, jumps=jumps, pairs=pairs)
