"""What a study shows of its results, as its TOML file states it: figures and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairbound.base.errors import OptionError
from fairbound.studies.checked import known

KINDS = ("curve", "profile", "density", "frontier", "radar", "scores", "shares", "bars")


@dataclass(frozen=True, kw_only=True)
class FigureSpec:
    """A figure, drawn for every block from the saved records and results.

    kind: "curve" and "profile": columns y of the records over columns x, a row of panels for each y; a curve has
    quartile bands over runs in a panel for each of `panels` ("data" or "methods"), a profile one line a method, the
    `statistic` over runs, in a panel for each x. "density": histograms, columns y of the reported models. "frontier":
    results y over results x, the paper's points hollow. "radar": results "x y" on axes y in a panel for each x.
    "scores": each group's density of scores in a panel for each method, "shares": shares above thresholds, group
    against group, and the disparity at every percentile, both from columns of the reported models that begin with y.
    "bars": two results x, mirrored, for every data set.
    methods: patterns of those that are shown. bars: of a frontier, one standard "deviation" or a 95 % "interval" of the
    mean.
    scales: of each y, "linear", "log" or "symlog"; lines: levels drawn across each y; ranges: [low, high] of each y, or
    [].
    marks: a count in the records at whose increases the first run is marked. missing: what a null in the records is,
    "unknown" or "infinite". mean: curves show the mean over runs beside the median.
    """

    key: str
    kind: str
    title: str
    x: tuple[str, ...] = ()
    y: tuple[str, ...] = ()
    caption: str = ""
    panels: str = "data"
    statistic: tuple[str, ...] = ()
    scales: tuple[str, ...] = ()
    lines: tuple[Sequence[float], ...] = ()
    ranges: tuple[Sequence[float], ...] = ()
    marks: str = ""
    missing: str = "unknown"
    mean: bool = False
    methods: tuple[str, ...] = ()
    bars: str = "deviation"

    def __post_init__(self) -> None:
        known(f"figure {self.key!r}", "value of bars", self.bars, ("deviation", "interval"))
        if self.kind == "bars" and len(self.x) != 2:
            raise OptionError(f"figure {self.key!r}: bars have two results x, got {len(self.x)}.")
        known(f"figure {self.key!r}", "kind", self.kind, KINDS)
        known(f"figure {self.key!r}", "value of panels", self.panels, ("data", "methods"))
        known(f"figure {self.key!r}", "value of missing", self.missing, ("unknown", "infinite"))
        for scale in self.scales:
            known(f"figure {self.key!r}", "scale", scale, ("linear", "log", "symlog"))
        for statistic in self.statistic:
            known(f"figure {self.key!r}", "statistic", statistic, ("mean", "median"))


@dataclass(frozen=True, kw_only=True)
class TableSpec:
    """A table of results, a row for each method, for every data set. columns, percent: patterns such as "train *" of
    the columns of results.json; percent: those shown in per cent. digits: after the point. lowest: shade the lowest.
    items: keys of the items that show it, all of them by default."""

    caption: str
    columns: tuple[str, ...]
    percent: tuple[str, ...] = ()
    digits: int = 3
    lowest: bool = True
    items: tuple[str, ...] = ()
