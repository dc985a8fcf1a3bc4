"""What the figures of a study are drawn from, and what they share: colours, marks, legends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scipy.stats import t as student

from fairbound.base.errors import DataError
from fairbound.base.names import did_you_mean
from fairbound.report.figures import Look, dash_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ORDER = ("muted", "s5", "s4", "s6", "s3", "s2", "s1", "ink", "s5", "s4", "s1", "s6")  # a colour twice has another dash
MARKS = "osD^vPX*<>hp"
DOTS = (0, (1, 1.6))
LETTERS = 15  # of a legend, to the inch
BESIDE = 9  # letters in whose place the mark of a name and the room between columns stand
Runs = Mapping[tuple[str, str], Mapping[int, list[dict[str, Any]]]]
"""(data, method) -> seed -> rows of records.jsonl."""


def nearest(name: str, names: Iterable[str]) -> str:
    """The names like `name`, as the end of a message; "" where there is none."""
    return did_you_mean(name, names, before="; ", most=3, alike=0.4)


@dataclass(frozen=True)
class Scene:
    """What a figure of a block is drawn from. spec: its declaration. data, methods: key -> title, of those with runs;
    rows: of results.json; outputs: method -> the model its rows are of; ink, place: of every method; intervals:
    data -> that of its task, "" for none."""

    spec: Mapping[str, Any]
    data: Mapping[str, str]
    methods: Mapping[str, str]
    runs: Runs
    rows: Sequence[Mapping[str, Any]]
    outputs: Mapping[str, str]
    ink: Mapping[str, str]
    place: Mapping[str, int]
    intervals: Mapping[str, str]

    def of(self, data: str, method: str) -> list[list[dict[str, Any]]]:
        """The evaluations of the runs of a method on a data set, by seed; [] where it has none."""
        by_seed = self.runs.get((data, method), {})
        return [[r for r in by_seed[seed] if r["output"] is None] for seed in sorted(by_seed)]

    def check(self) -> None:
        """Raises: DataError where x or y of the declaration is no column of the records."""
        records = [r for by_seed in self.runs.values() for rows in by_seed.values() for r in rows[:1]]
        there = {name for record in records for name in record}
        for name in (*self.spec["x"], *self.spec["y"]):
            if records and name not in there:
                raise DataError(
                    f"figure {self.spec['key']!r} draws {name!r}, which is no column of records.jsonl{nearest(name, there)}. Correct it "
                    "and call again: finished cells are kept."
                )

    def option(self, name: str, i: int, default: Any) -> Any:
        """Entry i of a list of the declaration, or the default where it is shorter."""
        given = self.spec[name]
        return given[i] if i < len(given) else default


def places(study: dict[str, Any], methods: Sequence[str]) -> dict[str, int]:
    """Place in ORDER of every method: that of the study's first item where it is there (or the method it was tuned
    from), else one that no other method of this block has."""
    first = study["items"][0]["methods"]
    known = {m: first.index(base) for m in methods if (base := m.removesuffix("-tuned")) in first}
    free = iter([i for i in range(len(ORDER) - 1, -1, -1) if i not in known.values()] + list(range(len(methods))))
    return {m: (known[m] if m in known else next(free)) % len(ORDER) for m in methods}


def values_of(scene: Scene, column: str, data: str | None = None) -> dict[str, tuple[float, float]]:
    """Method -> mean of a column of results.json, for those that have one, and how far its bar goes to each side: one
    standard deviation, or to the ends of a 95 % interval of the mean. data: of this data set alone."""
    found = [r for r in scene.rows if r["column"] == column and r["ours"] is not None and data in (None, r["data"])]
    return {r["row"]: (r["ours"], (r["std"] or 0.0) * _times(scene, r["n"])) for r in found}


def printed(scene: Scene, column: str) -> dict[str, float]:
    """Method -> what the paper prints in a column, for those that it prints one of."""
    found = [r for r in scene.rows if r["column"] == column and r["paper"] is not None]
    return {r["row"]: r["paper"] for r in found}


def _times(scene: Scene, n: int) -> float:
    """How many standard deviations of n runs a bar goes to each side."""
    if scene.spec.get("bars", "deviation") == "deviation" or n < 2:
        return 1.0
    return float(student.ppf(0.975, n - 1)) / n**0.5


def plain_numbers(axis: Any) -> None:
    axis.set_major_formatter(lambda v, _: f"{v:g}".replace("-", "−").replace("e+0", "e"))
    axis.set_minor_formatter(lambda v, _: "")


def legend_size(scene: Scene, width: float) -> tuple[int, float]:
    """The columns, at most 4, and the inches of height of a legend of the methods
    below a figure that is so wide in inches."""
    longest = max(map(len, scene.methods.values()), default=0)
    columns = max(1, min(4, int(LETTERS * width / (longest + BESIDE))))
    return columns, 0.2 * -(-len(scene.methods) // columns)


def legend(
    figure: Figure,
    scene: Scene,
    look: Look,
    methods: Sequence[str],
    marked: bool,
    dashed: bool = True,
    columns: int = 4,
) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [], [], color=look[scene.ink[m]], linewidth=1.8, markersize=5, markeredgewidth=0,
            linestyle=dash_of(scene.place[m]) if dashed else "",
            marker=MARKS[scene.place[m]] if marked else "",
        )
        for m in methods
    ]  # fmt: skip
    titles = [scene.methods[m] for m in methods]
    figure.legend(handles, titles, loc="outside lower center", ncols=min(columns, len(titles)), frameon=False)


def wrapped(title: str, most: int = 15) -> str:
    """The title on two lines where it is long."""
    if len(title) <= most or " " not in title:
        return title
    cut = min((i for i, c in enumerate(title) if c == " "), key=lambda i: abs(i - len(title) / 2))
    return f"{title[:cut]}\n{title[cut + 1 :]}"
