"""Figures of groups' scores and of results over data sets, from made-up runs of a study."""

from dataclasses import asdict

import numpy as np
import pytest
from scipy import stats

from fairbound.base.errors import OptionError
from fairbound.report import figures, study_figures, study_scores
from fairbound.report.study_scene import printed, values_of
from fairbound.studies.shown import FigureSpec

RANKS = np.linspace(1, 0, 101)


def study(kind, **spec):
    figure = {"key": "f", "kind": kind, "title": "T", "caption": "", "x": [], "y": ["test scores "], **spec}
    method = {"title": "M", "color": "", "output": "best"}
    data = {d: {"title": d, "task": {"interval": "0.1:0.4"}} for d in ("one", "two")}
    item = {"key": "i", "methods": ["free", "bound"], "figures": None, "compare": {}}
    return {
        "data": data,
        "methods": {"free": method, "bound": method | {"color": "s1"}},
        "items": [item],
        "figures": [figure],
    }


def runs():
    made = {}
    for method, shift in (("free", 1.0), ("bound", 0.2)):
        lists = {
            f"test scores {g}": list(stats.norm.ppf(0.005 + 0.99 * RANKS, s)) for g, s in (("a", 0.0), ("b", shift))
        }
        rows = [{"output": "last"}, {"output": "best", **lists}]
        made |= {(d, method): {0: rows, 1: rows} for d in ("one", "two")}
    return made


@pytest.mark.parametrize("data", [1, 2, 3])
def test_every_name_of_a_legend_is_inside_the_figure(data):
    pytest.importorskip("matplotlib", reason="figures need the extra 'report'")

    curve = FigureSpec(key="f", kind="curve", title="T", x=("passes",), y=("loss",))
    spec = study(**asdict(curve))
    titles = {f"m{i}": f"A method, with batches of size {i}" for i in range(9)}
    spec["methods"] = {m: spec["methods"]["free"] | {"title": title} for m, title in titles.items()}
    spec["items"][0] |= {"methods": list(titles)}
    row = {"output": None, "passes": 1.0, "loss": 1.0}
    made = {(f"d{d}", m): {0: [row, row | {"passes": 2.0}]} for d in range(data) for m in titles}
    spec["data"] = {f"d{d}": spec["data"]["one"] for d in range(data)}
    (drawing,) = study_figures.drawings(spec, {"item": "i", "data": list(spec["data"]), "key": "i"}, [], made)
    check_legend(drawing)


def check_legend(drawing):
    with figures.settings(figures.INKS, "none"):
        figure = figures._figure(drawing, figures.INKS)
        figure.draw_without_rendering()
    for text in figure.legends[0].get_texts():
        box = text.get_window_extent()
        assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 and figure.bbox.y0 <= box.y0


@pytest.mark.parametrize(
    "title",
    ["all scores <= 0.405", "interval <= 0.005", "interval <= 0.28", "interval <= 0.1", "weight 0.405", "<= 0.1"],
)
def test_names_of_many_bounds_are_inside_a_narrow_figure(title):
    pytest.importorskip("matplotlib", reason="figures need the extra 'report'")
    frontier = FigureSpec(key="f", kind="frontier", title="T", x=("fairness",), y=("accuracy",))
    spec = study(**asdict(frontier))
    spec["methods"] = {f"m{i}": spec["methods"]["free"] | {"title": title} for i in range(12)}
    spec["items"][0] |= {"methods": list(spec["methods"])}
    made = {("one", m): {0: [{"output": "best"}]} for m in spec["methods"]}
    rows = [
        {"row": m, "column": c, "data": "one", "ours": i / 12, "std": None, "n": 1, "paper": None}
        for i, m in enumerate(spec["methods"])
        for c in ("accuracy", "fairness")
    ]
    (drawing,) = study_figures.drawings(spec, {"item": "i", "data": ["one"], "key": "i"}, rows, made)
    check_legend(drawing)


ROWS = [
    {"row": m, "column": c, "data": d, "ours": v, "std": 0.02, "n": 5, "paper": p}
    for d in ("one", "two")
    for m, v, p in (("free", 0.9, None), ("bound", 0.8, 0.85))
    for c in ("accuracy", "fairness")
]


def drawn(spec, data):
    return list(study_figures.drawings(spec, {"item": "i", "data": data, "key": "i/x"}, ROWS, runs()))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (study("scores"), ("a", "b", "M", study_scores.ZERO)),
        (study("scores", methods=["bound"]), ("a", "b")),
        (study("shares"), ("share of a above, in %", "disparity")),
        (study("bars", x=["accuracy", "fairness"], bars="interval"), ("one", "two", "accuracy", "fairness")),
        (study("frontier", x=["fairness"], y=["accuracy"], bars="interval"), ("fairness", "accuracy")),
    ],
)
def test_each_kind_is_drawn_and_says_what_it_shows(spec, words):
    (figure,) = drawn(spec, ["one", "two"] if spec["figures"][0]["kind"] == "bars" else ["one"])
    markup = figures.inline(figure, "u")
    assert all(f">{word}<" in markup for word in words) and figure.name == "i-x-f"


def test_a_density_is_that_of_the_scores_its_percentiles_are_of():
    curve, edges = stats.norm.ppf(0.0005 + 0.999 * RANKS), np.linspace(-3.3, 3.3, 61)
    found = study_scores.density_of(curve, edges)
    assert (found * np.diff(edges)).sum() == pytest.approx(1, abs=0.01)
    middle = (edges[1:] + edges[:-1]) / 2
    assert found[np.abs(middle) < 2] == pytest.approx(stats.norm.pdf(middle[np.abs(middle) < 2]), abs=0.02)


def test_shares_above_and_disparity_are_those_of_the_scores():
    rng = np.random.default_rng(0)
    samples = {"a": rng.normal(size=4000), "b": rng.normal(0.7, 1.3, size=3000), "c": rng.normal(-0.4, 1, size=2000)}
    curves = {g: np.quantile(s, RANKS) for g, s in samples.items()}
    at = np.array([-1.0, 0.0, 0.4, 2.0])
    assert study_scores.above(curves["b"], at) == pytest.approx([(samples["b"] > t).mean() for t in at], abs=0.004)
    found = study_scores.disparity(curves)
    for i in (10, 50, 90):
        each = [[(other > curves[g][i]).mean() for other in samples.values()] for g in samples]
        assert found[i] == pytest.approx(max(max(e) - min(e) for e in each), abs=0.01)


def test_bars_are_deviations_or_95_percent_intervals_and_printed_points_are_kept():
    def scene(bars):
        seen = []
        spec = study("frontier", x=["fairness"], y=["accuracy"], bars=bars)
        kept = study_figures._frontier
        try:
            study_figures._frontier = lambda s: seen.append(s) or kept(s)
            drawn(spec, ["one"])
        finally:
            study_figures._frontier = kept
        return seen[0]

    assert values_of(scene("deviation"), "accuracy", "one")["free"] == (0.9, pytest.approx(0.02))
    width = stats.t.ppf(0.975, 4) * 0.02 / 5**0.5
    assert values_of(scene("interval"), "accuracy", "two")["bound"] == (0.8, pytest.approx(width))
    assert printed(scene("interval"), "accuracy") == {"bound": 0.85}


@pytest.mark.parametrize("change", [{"bars": "range"}, {"kind": "bars", "x": ("one",)}, {"kind": "violin"}])
def test_wrong_declarations_are_refused(change):
    with pytest.raises(OptionError):
        FigureSpec(**({"key": "f", "kind": "frontier", "title": "T"} | change))
