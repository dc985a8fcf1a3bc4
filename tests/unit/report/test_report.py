"""Claims about the report room: what the schema refuses, what the page shows, and that nothing hostile gets through."""

from __future__ import annotations

import builtins
import copy
import functools
import json
import math
import re
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

import fairbound as fb
import report_examples as examples
from fairbound import report
from fairbound.report import figures, plots, render, schema, summary, words
from fairbound.report.frontier import frontier_chart
from fairbound.report.schema import SchemaError, validate
from fairbound.report.tables import model_metrics
from fairbound.report.terminal import grid

pytest.importorskip("matplotlib", reason="the page's charts need the extra 'report'")
jinja2 = pytest.importorskip("jinja2", reason="the page needs the extra 'report'")

VOID = {"meta", "link", "br", "img", "hr", "input"}
SVG_VOID = {"path", "circle", "use", "rect"}


class Page(HTMLParser):
    """Every tag with its attributes, the text of the page, and a check that tags close in order."""

    def __init__(self, html: str):
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        names = [k for k, _ in attrs]
        assert len(names) == len(set(names)), f"an attribute stands twice in {self.get_starttag_text()}"
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert tag in SVG_VOID | VOID
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]


@functools.cache
def page_of(example) -> str:
    return report.audit_page(example())


@pytest.mark.parametrize("example", examples.ALL, ids=lambda f: f.__name__)
class TestEveryExample:
    def test_validates_and_survives_json(self, example):
        audit = example()
        validate(audit)
        text = json.dumps(audit, allow_nan=False)
        validate(json.loads(text))

    def test_page_is_well_formed_and_asks_for_nothing(self, example):
        html = page_of(example)
        page = Page(html)
        assert not page.all("script") and not page.all("img") and not page.all("iframe")
        for tag, attrs in page.tags:
            assert not [k for k in attrs if k.startswith("on")], tag
            assert "src" not in attrs and "srcset" not in attrs and "xlink:href" not in attrs
            href = attrs.get("href")
            assert href is None or href.startswith("#") or (tag == "link" and href == "data:,")
            for value in attrs.values():
                assert all(u.startswith("url(#") for u in re.findall(r"url\([^)]*", value or ""))
        css = html[html.index("<style>") : html.index("</style>")]
        assert "url(" not in css and "@import" not in css
        assert "//" not in re.sub(r"/\*.*?\*/", "", css)

    def test_ids_are_unique_and_links_lead_somewhere(self, example):
        html = page_of(example)
        page = Page(html)
        ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
        assert len(ids) == len(set(ids))
        wanted = {attrs["href"][1:] for _, attrs in page.tags if (attrs.get("href") or "").startswith("#")}
        wanted |= {
            u for _, attrs in page.tags for v in attrs.values() for u in re.findall(r"^url\(#([^)]*)\)", v or "")
        }
        assert wanted <= set(ids)

    def test_drawings_are_described_and_tables_captioned(self, example):
        page = Page(page_of(example))
        for svg in page.all("svg"):
            assert svg.get("aria-hidden") == "true" or (svg["role"] == "img" and svg["aria-label"])
        assert len(page.all("table")) == len(page.all("caption"))
        assert all(attrs.get("scope") in ("row", "col") for attrs in page.all("th"))

    def test_page_is_the_same_each_time(self, example):
        assert report.audit_page(example()) == page_of(example)

    def test_no_number_is_written_as_nan(self, example):
        assert "nan" not in Page(page_of(example)).text.lower().split()
        assert "nan" not in report.table(example()).lower().split()


@pytest.mark.parametrize(
    ("example", "word"),
    [
        (examples.large_met, "Bound met"),
        (examples.large_violated, "Bound violated"),
        (examples.mortgage, "Not enough evidence"),
        (examples.no_bound, "No bound stated"),
    ],
)
def test_the_verdict_stands_first_in_words(example, word):
    audit = example()
    text = Page(report.audit_page(audit)).text
    first = min(text.index(w) for w in words.VERDICTS.values() if w in text)
    assert text[first:].startswith(word)
    assert report.table(audit).startswith(word)


def test_insufficient_says_how_many_rows_would_decide():
    audit = examples.mortgage()
    c = audit["constraints"][0]
    assert c["verdict"] == "insufficient"
    sentence = f"About {words.about(c['rows_needed'])} held-out rows of this kind would decide it at about even odds; this audit had 497."
    assert sentence in Page(report.audit_page(audit)).text
    assert sentence in report.table(audit)
    c["rows_needed"] = None
    assert "No number of rows was found that would decide it." in words.explain(c, 497)


def test_classes_and_groups_are_counted_apart():
    rng = np.random.default_rng(0)
    y, groups = rng.choice(list("abc"), 300), {"sex": rng.choice(["f", "m"], 300), "age": rng.choice(["o", "y"], 300)}

    def tiles(of_groups, bound):
        page = report.audit_page(fb.audit(y, y, of_groups, bound))
        return re.findall(r"<dt>(Classes|Groups)</dt><dd>(\d+)</dd>", page)

    assert tiles(None, "recall of class a >= 0.5") == [("Classes", "3")]
    assert tiles(groups, "class_recall_parity <= 0.5") == [("Classes", "3"), ("Groups", "4")]
    assert tiles(groups, "class_recall_parity[crossed] <= 0.5") == [("Classes", "3"), ("Groups", "8")]


def test_violated_and_met_cite_the_side_that_decides():
    met = {
        "bound": 0.03,
        "value": 0.01,
        "lower": 0.0,
        "upper": 0.0299,
        "confidence": 0.95,
        "verdict": "met",
        "why": None,
    }
    assert words.explain(met, 9) == "Measured 0.0100. With 95 % confidence it is at most 0.0299, within the bound 0.03."
    broken = met | {"value": 0.05, "lower": 0.030004, "upper": 0.07, "verdict": "violated"}
    assert "at least 0.030004, above the bound 0.03." in words.explain(broken, 9)


@pytest.mark.parametrize(
    ("value", "beside", "shown"),
    [
        (0.5, None, "0.5000"),
        (0.03000001, 0.03, "0.03000001"),
        (0.03, 0.03, "0.0300"),
        (0.03 + 1e-15, 0.03, "0.0300"),
        (-0.25, None, "−0.2500"),
        (-1e-9, None, "0.0000"),
        (-9138931.0512, None, "−9,138,931"),
        (9999.5, None, "9999.5000"),
        (None, None, "undefined"),
    ],
)
def test_numbers_never_round_onto_the_bound(value, beside, shown):
    assert words.number(value, beside=beside) == shown


@pytest.mark.parametrize(("areas", "shown"), [((None, None), ["accuracy"]), ((None, 0.7), ["accuracy", "auc"])])
def test_models_are_compared_by_areas_where_one_has_one(areas, shown):
    assert model_metrics({"comparison": [{"accuracy": 0.5, "auc": area} for area in areas]}) == shown


def test_undefined_rates_are_never_shown_as_zero():
    audit = examples.undefined_rates()
    html = report.audit_page(audit)
    text = Page(html).text
    for why in ("no positives", "no negatives", "no rows"):
        assert f"undefined ({why})" in text
    assert "It could not be measured on these rows: group 'inuit' has no positives." in text
    row = html[html.index("inuit</bdi></span></th>") :].split("</tr>")[0]
    assert row.count("undefined") == 2 * 5 and "0.000" not in row


def test_rates_show_their_interval_and_their_rows():
    audit = examples.mortgage()
    rate = audit["groups"][1]["rates"]["true_positive_rate"]
    assert rate["count"] == audit["groups"][1]["positives"] < audit["groups"][1]["n"]
    text = Page(report.audit_page(audit)).text
    assert f"{rate['value']:.3f} of {rate['count']}" in text
    assert f"{rate['lower']:.3f} to {rate['upper']:.3f}" in text


def test_a_missing_trajectory_is_said_and_a_present_one_drawn():
    assert "No trajectory was recorded" in Page(report.audit_page(examples.large_violated())).text
    page = Page(report.audit_page(examples.mortgage()))
    labels = [s["aria-label"] for s in page.all("svg") if s.get("role") == "img"]
    drawn = [label.split(" over training steps")[0] for label in labels if " over training steps" in label]
    assert drawn == ["Loss", "Constraint", "Constraint", "Multipliers"]
    assert "12,000 steps in 27.4 s; 160 points were recorded." in page.text
    assert "27.4 s for the whole fit; 12,000 steps of the run that gave the model" in page.text


@pytest.mark.parametrize("points", [0, 1, 2])
def test_a_short_trajectory_is_drawn_without_warning(points):
    audit = examples.mortgage()
    audit["trajectory"] = examples.trajectory(["demographic_parity"], [0.03], points=points)
    audit["trajectory"]["seconds"] = [None] * points
    Page(report.audit_page(audit))


def test_unknown_values_leave_a_gap_in_a_curve():
    whole = plots.lines([0, 1, 2, 3, 4], [None] * 5, [[0.1, 0.2, 0.3, 0.2, 0.1]], None, "a", "x")
    gap = plots.lines([0, 1, 2, 3, 4], [None] * 5, [[0.1, 0.2, None, 0.2, 0.1]], None, "a", "x")

    def curve(svg):
        return re.search(r'<path d="([^"]*)"[^>]*stroke: var\(--s1\)', svg)[1]

    assert curve(whole).count("M") == 1 and curve(whole).count("L") == 4
    assert curve(gap).count("M") == 2 and curve(gap).count("L") == 2


def test_mirrored_differences_are_shown_once_and_largest_first():
    audit = examples.large_violated()
    names = {"F - M": (-0.12, -0.14, -0.1), "M - F": (0.12, 0.1, 0.14), "F - all": (-0.05, -0.06, -0.04)}
    keys = ("name", "value", "lower", "upper")
    audit["constraints"][0]["contrasts"] = [dict(zip(keys, (k, *v), strict=True)) for k, v in names.items()]
    audit["constraints"][0]["contrasts"][0]["mirrored"] = True
    text = Page(report.audit_page(audit)).text
    assert "F - M" not in text and text.index("M - F") < text.index("F - all")
    assert "2 comparisons , largest first" in text


def test_of_a_bound_from_below_the_smallest_comparison_stands_first():
    audit = examples.large_violated()
    c = audit["constraints"][0]
    c |= {"text": "demographic_parity_ratio >= 0.8", "sense": "at least", "bound": 0.8, "value": 0.5, "lower": 0.4}
    c |= {"upper": 0.6, "worst": "F / M"}
    ratios = [{"name": n, "value": v, "lower": v - 0.1, "upper": v + 0.1} for n, v in (("M / F", 1.25), ("F / M", 0.5))]
    c["contrasts"] = ratios
    text = Page(report.audit_page(audit)).text
    assert "2 comparisons , smallest first" in text and text.rindex("F / M") < text.index("M / F")
    assert "is at most 0.6000, below the bound 0.8" in text
    c["contrasts"] = [{"name": f"r{i}", "value": 0.01 * i, "lower": 0.0, "upper": 1.0} for i in range(60)]
    text = Page(report.audit_page(audit)).text
    assert "r39" in text and "r40" not in text and "20 larger ones are in audit.json" in text


def test_a_bound_within_reach_is_not_called_undecidable_when_a_group_is_absent():
    c = {"bound": 0.3, "value": 0.1, "lower": 0.0, "upper": 0.2, "confidence": 0.95, "verdict": "insufficient"}
    said = words.explain(c | {"rows_needed": None, "why": "no held-out row measures inuit"}, 10)
    assert "not everything that the constraint names could be measured. No held-out row measures inuit." in said
    assert "cannot tell" not in said and "would decide" not in said


def test_interval_marks_stand_where_the_numbers_are():
    svg = plots.glyph(0.25, 0.0, 0.5, (0.0, 1.0), limit=1.0)
    assert 'cx="32.0"' in svg and "M4.0 6H60.0" in svg and "M116.0 0V12" in svg
    assert "g-dot" not in plots.glyph(None, None, None, (0.0, 1.0))


def test_drawings_use_page_colours_only():
    html = report.audit_page(examples.mortgage())
    body = html[html.index("<body>") :]
    assert not re.findall(r"(?:fill|stroke|color)[:=]\s*\"?#[0-9a-f]{3,8}", body)
    named = set(re.findall(r"var\((--[a-z0-9-]+)\)", html))
    css = resources.files("fairbound.report").joinpath("page.css").read_text(encoding="utf-8")
    assert named <= set(re.findall(r"(--[a-z0-9-]+):", css))


def luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_and_lines_have_the_contrast_wcag_asks_for(theme):
    css = resources.files("fairbound.report").joinpath("page.css").read_text(encoding="utf-8")
    light, dark = re.findall(r":root \{(.*?)\}", css, flags=re.S)[:2]
    colors = dict(re.findall(r"(--[a-z0-9-]+): (#[0-9a-f]{6})", light if theme == "light" else dark))

    def contrast(a: str, b: str) -> float:
        high, low = sorted((luminance(colors[a]), luminance(colors[b])), reverse=True)
        return (high + 0.05) / (low + 0.05)

    for back in ("--paper", "--card"):
        assert all(contrast(text, back) >= 4.5 for text in ("--ink", "--muted", "--accent"))
    for tone in ("--met", "--violated", "--insufficient", "--none"):
        assert contrast(tone, f"{tone}-soft") >= 4.5 and contrast("--ink", f"{tone}-soft") >= 7
        assert contrast("--accent", f"{tone}-soft") >= 4.5
    assert all(contrast(f"--s{i}", "--card") >= 3 for i in range(1, figures.SERIES + 1))
    assert contrast("--bound", "--beyond") >= 4.5


def test_series_differ_by_dash_and_not_by_colour_alone():
    assert len(set(figures.DASHES)) == figures.SERIES


def test_hostile_names_stay_text():
    audit = examples.hostile()
    html = report.audit_page(audit)
    page = Page(html)
    for i in (0, 1):
        assert examples.HOSTILE[i] in page.text
    assert not re.findall("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", html)
    terminal = report.table(audit)
    assert "\x1b" not in terminal and "\u202e" not in terminal and r"\x1b[31m" in terminal


def piece(macro: str, *given: object) -> str:
    return str(getattr(render.environment().get_template("pieces.html.j2").module, macro)(*given))


def test_templates_escape_what_is_put_in_and_cut_long_names():
    assert piece("name", """<a b="c" d='e'>&""") == "<bdi>&lt;a b=&#34;c&#34; d=&#39;e&#39;&gt;&amp;</bdi>"
    long = piece("name", '"' + "x" * 200)
    assert long.startswith('<bdi title="&#34;xxx') and len(re.sub("<[^>]*>", "", long)) < 100
    assert piece("undefined", "a\x1b\u202e<b>") == '<span class="undefined">undefined (a\ufffd\ufffd&lt;b&gt;)</span>'


def test_a_template_that_asks_for_what_it_was_not_given_fails():
    with pytest.raises(jinja2.UndefinedError):
        render.render("frontier.html.j2", title="x")


def test_every_template_and_macro_is_used():
    folder = resources.files("fairbound.report")
    sources = {p.name: p.read_text(encoding="utf-8") for p in folder.joinpath("templates").iterdir()}
    code = "".join(p.read_text(encoding="utf-8") for p in folder.iterdir() if p.name.endswith(".py"))
    everything = "".join(sources.values()) + code
    assert all(f'"{name}"' in everything for name in sources)
    macros = re.findall(r"\{% macro (\w+)", sources["pieces.html.j2"])
    assert len(macros) > 10
    assert all(re.search(rf"(?<!macro )\b{name}\(|_piece\(\"{name}\"", everything) for name in macros)


def test_forty_groups_are_all_in_the_table_and_the_charts_say_what_they_leave_out():
    audit = examples.forty_groups()
    html = report.audit_page(audit)
    text = Page(html).text
    assert all(f"group {i:02d}" in text for i in range(40))
    assert "the 6 largest groups of 40, the others are in audit.json" in text
    assert "780 comparisons" in text and "740 smaller ones are in audit.json" in text
    assert "40 groups, 53 to 879 rows each" in text
    assert len(html) < 400_000


def test_write_audit_writes_both_files_and_only_those(tmp_path):
    audit = examples.hostile()
    before = copy.deepcopy(audit)
    json_path, html_path = report.write_audit(audit, tmp_path / "new" / "folder")
    assert audit == before
    assert sorted(p.name for p in json_path.parent.iterdir()) == ["audit.json", "model_card.md", "report.html"]
    assert json.loads(json_path.read_text(encoding="utf-8")) == audit
    assert html_path.read_text(encoding="utf-8") == report.audit_page(audit)


def test_write_audit_leaves_nothing_of_a_broken_audit(tmp_path):
    audit = examples.mortgage()
    audit["metrics"]["auc"] = math.nan
    with pytest.raises(SchemaError, match=r"audit.metrics.auc"):
        report.write_audit(audit, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def without(monkeypatch, package: str) -> None:
    real = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.split(".")[0] == package:
            raise ImportError(f"No module named {package!r}")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)


def test_without_matplotlib_the_numbers_are_kept_and_the_extra_is_named(tmp_path, monkeypatch):
    without(monkeypatch, "matplotlib")
    with pytest.raises(ImportError, match=r"audit.json is written.*pip install 'fairbound\[report\]'"):
        report.write_audit(examples.mortgage(), tmp_path)
    validate(json.loads((tmp_path / "audit.json").read_text(encoding="utf-8")))


@pytest.mark.parametrize("package", ["jsonschema", "rich", "jinja2"])
def test_without_a_library_of_the_report_the_extra_is_named(monkeypatch, package):
    for cached in (schema._validator, render.environment):
        cached.cache_clear()
    without(monkeypatch, package)
    make = report.table if package == "rich" else report.audit_page
    with pytest.raises(ImportError, match=r"pip install 'fairbound\[report\]'"):
        make(examples.mortgage())


def test_terminal_table_holds_every_number():
    audit = examples.mortgage()
    text = report.table(audit)
    for c in audit["constraints"]:
        line = next(line for line in text.splitlines() if c["text"] in line)
        assert all(f"{c[k]:.4f}" in line for k in ("value", "lower", "upper")) and "not enough evidence" in line
    assert "unconstrained" in text and "0.8241" in text and "warning: Column 'loanprc'" in text
    assert "undefined" in report.table(examples.undefined_rates())


def test_a_printed_table_has_the_width_of_the_terminal_or_of_its_cells(monkeypatch):
    heads, rows = ("name", "value"), [("x" * 150, "1"), ("long words " * 20, "2")]

    def widest(text: str) -> int:
        return max(map(len, text.splitlines()))

    monkeypatch.setenv("COLUMNS", "60")
    piped = grid("", heads, rows)
    assert widest(piped) == len("long words " * 20) + len("│  │ value │")
    assert len(piped.splitlines()) == 4 + len(rows)
    assert widest(grid("", heads, rows, width=80)) == 80
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert widest(grid("", heads, rows)) == 60


def test_numbers_stand_to_the_right_and_words_to_the_left():
    text = grid("a title", ("name", "n", "why"), [("a", "1", "b"), ("ccc", "22", "dd\x1b[31m")], left=("why",))
    assert [line.rstrip() for line in text.splitlines()] == [
        "a title",
        "╭──────┬────┬────────────╮",
        "│ name │  n │ why        │",
        "├──────┼────┼────────────┤",
        "│ a    │  1 │ b          │",
        "│ ccc  │ 22 │ dd\\x1b[31m │",
        "╰──────┴────┴────────────╯",
    ]


def test_the_room_imports_base_alone():
    for path in Path(report.__file__).parent.glob("*.py"):
        rooms = re.findall(r"^\s*from fairbound\.(\w+)", path.read_text(encoding="utf-8"), flags=re.M)
        assert set(rooms) <= {"base", "report"}, path.name


@pytest.mark.parametrize(("sense", "sign"), [("at most", "≤"), ("at least", "≥")])
def test_a_frontier_s_chart_writes_each_bound_with_its_sign(sense, sign, monkeypatch):
    from matplotlib.axes import Axes

    said = []
    monkeypatch.setattr(Axes, "annotate", lambda axes, text, *a, **k: said.append(text))
    means = [{"bound": b, "value": v, "accuracy": v} for b, v in ((0.9, 0.88), (0.8, 0.83), (None, 0.7))]
    frontier_chart({"notion": "x", "sense": sense, "points": means, "summary": means})
    assert said == [f"{sign} 0.9", f"{sign} 0.8", "no bound"]


@pytest.mark.parametrize(("score", "said"), [(-1.0, True), (1.0, True), (None, False)])
def test_the_verdict_s_line_says_that_a_model_is_constant(score, said):
    """A model that gives every row the same decision meets every bound on rates, which is no achievement."""
    rng = np.random.default_rng(0)
    y, group = rng.integers(0, 2, 400), rng.choice(["a", "b"], 400)
    scores = rng.normal(size=400) if score is None else np.full(400, score)
    found = fb.audit(scores, y, group, "demographic_parity <= 0.3", threshold=0)
    assert found["verdict"] == "met"
    assert ("same decision" in summary.said(found)) == said
    assert ("same decision" in fb.report.table(found)) == said


def test_a_price_of_nothing_is_no_accuracy():
    free = {"values": [0.1], "accuracy": 0.8, "verdict": "violated"}
    assert words.certified_price({"unconstrained": free, "price": -0.01}).endswith("The bound costs no accuracy.")
    dear = words.certified_price({"unconstrained": free, "price": 0.0123})
    assert dear.endswith("The bound costs 1.23 percentage points of accuracy.")


@pytest.mark.parametrize(
    ("free", "price", "said"), [("met", 0.0123, True), ("violated", 0.0123, False), ("met", 0, False)]
)
def test_why_a_model_without_the_bound_that_meets_it_was_not_returned(free, price, said):
    without = {"values": [0.1], "accuracy": 0.8, "verdict": free}
    text = words.certified_price({"unconstrained": without, "price": price, "verdict": "met"})
    assert ("in an order fixed on other rows" in text) == said
