"""The colours of the pages in light and dark: the contrast that WCAG 2.2 asks of text and of marks, and pages that fit a telephone."""

from __future__ import annotations

import json
import re
from importlib import resources
from itertools import product

import pytest

import report_examples as examples
from browsing import CHROMIUM, Browser
from fairbound import report
from fairbound.report.compare import compare_page
from fairbound.report.frontier import frontier_page

CSS = resources.files("fairbound.report").joinpath("page.css").read_text(encoding="utf-8")
TEXT, MARKS = 4.5, 3.0  # WCAG 2.2, success criteria 1.4.3 (AA) and 1.4.11


def palette(scheme):
    """The page's colours by name, as (red, green, blue) in 0..255."""
    light, dark = re.findall(r":root \{(.*?)\}", CSS, flags=re.S)[:2]
    text = light if scheme == "light" else light + dark
    return {name: tuple(bytes.fromhex(code)) for name, code in re.findall(r"--([\w-]+): #([0-9a-f]{6});", text)}


def luminance(color):
    """WCAG 2.2, relative luminance."""
    parts = [c / 255 for c in color]
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one, other):
    """WCAG 2.2, contrast ratio."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_ratio_is_that_of_the_standard():
    assert contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
    assert contrast((119, 119, 119), (255, 255, 255)) == pytest.approx(4.48, abs=0.005)  # the grey that just fails


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_marks_stand_out(scheme):
    of = palette(scheme)
    tones = ("met", "violated", "insufficient", "none")
    grounds = ["paper", "card", *(f"{tone}-soft" for tone in tones)]
    text = [*product(("ink", "muted", "accent"), grounds), *product(("ink", "muted", "bound"), ["beyond"])]
    text += [(tone, ground) for tone in tones for ground in (f"{tone}-soft", "card", "paper")]
    weak = {pair: contrast(of[pair[0]], of[pair[1]]) for pair in text}
    assert {pair: ratio for pair, ratio in weak.items() if ratio < TEXT} == {}
    marks = [*product((f"s{i}" for i in range(1, 7)), ("card", "paper")), ("bound", "card"), ("s3", "beyond")]
    weak = {pair: contrast(of[pair[0]], of[pair[1]]) for pair in marks}
    assert {pair: ratio for pair, ratio in weak.items() if ratio < MARKS} == {}


def test_a_mark_drawn_half_through_still_stands_out():
    (share,) = (float(s) for s in re.findall(r"\.g-range \{[^}]*opacity: ([.\d]+)", CSS))
    for scheme in ("light", "dark"):
        of = palette(scheme)
        mixed = tuple(share * a + (1 - share) * b for a, b in zip(of["s1"], of["card"], strict=True))
        assert contrast(mixed, of["card"]) >= MARKS


def frontier():
    """A frontier of two bounds, as `fairbound frontier` writes it."""
    rates = {"selection_rate": 0.4, "true_positive_rate": 0.7, "false_positive_rate": 0.2}
    more = {"seed": 0, "auc": 0.8, "train_value": 0.02, "feasible": True, "seconds": 1.0, "interrupted": False}
    shown = {"changed": 10, "rows": 900, "roc": {"race: a": [[0, 0], [0.3, 0.8], [1, 1]], "race: b": []}}
    groups = {"groups": {"race: a": rates, "race: b": rates}}
    points = [
        {"bound": b, "accuracy": a, "value": v, "lower": 0.0, "upper": v + 0.1, "verdict": w, **more, **shown, **groups}
        for b, a, v, w in ((None, 0.86, 0.2, None), (0.05, 0.81, 0.04, "insufficient"), (0.1, 0.84, 0.09, "met"))
    ]
    counts = {"met": 0, "violated": 0, "insufficient": 1}
    keys = ("bound", "accuracy", "auc", "value", "train_value")
    summary = [
        {**{k: p[k] for k in keys}, "n": 1, "smallest": p["value"], "largest": p["value"], "verdicts": counts}
        for p in points
    ]
    certificates = [
        {"bound": b, "verdict": "insufficient", "trained_under": None, "accuracy": None} for b in (0.05, 0.1)
    ]
    return {
        "data": "a_file_with_a_long_name_without_a_blank_in_it.csv", "label": "paid", "sensitive": ["race"], "sense": "at most",
        "notion": "demographic_parity", "confidence": 0.95, "split": "25 % held out", "model": "linear", "points": points,
        "summary": summary, "certificates": certificates, "knee": 0.1, "advice": "None would be confirmed.", "seed": 0,
        "library": {"fairbound": "0"},
    }  # fmt: skip


def comparison():
    line = {"first": 0.81, "second": 0.78, "difference": -0.03, "lower": -0.05, "upper": -0.01, "rows": 900}
    lines = [line | {"name": "accuracy"}, line | {"name": "a_rate_of_a_group, race = b", "lower": None, "upper": None}]
    return {
        "created": "2026-01-01", "names": ["old/model", "new/model"], "rows": 900, "changed": 40, "confidence": 0.95, "seed": 0,
        "differences": lines, "library": {"fairbound": "0"},
    }  # fmt: skip


def test_the_page_of_a_comparison_says_what_is_clear_and_what_not():
    page = compare_page(comparison())
    assert "1 January 2026, 00:00" in page and "2026-01-01" not in page
    assert "40 of 900 decisions differ. Clear at 95 % confidence, each for itself: accuracy (lower)." in page
    assert page.count("<td>lower</td>") == 1 and page.count("<td>not known</td>") == 1 and "<script" not in page
    hostile = comparison() | {"names": ["<script>a</script>", "b"]}
    assert "<script" not in compare_page(hostile)


def test_no_element_has_the_name_of_another():
    """Of audits tests/unit/report/test_report.py says so."""
    for page in (frontier_page(frontier()), compare_page(comparison())):
        names = re.findall(r'<[^>]*\sid="([^"]*)"', page)
        assert len(names) > 4 and len(set(names)) == len(names), sorted(names)


def test_limits_of_a_frontier_s_models_are_told_from_the_bound():
    result = frontier()
    result["points"][1] |= {"lower": 0.049996, "upper": 0.050004}
    assert "0.049996 to 0.050004" in frontier_page(result)


FAINT = """
(() => {
  const read = (text) => (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
  const light = ([r, g, b]) => {
    const f = (c) => (c /= 255, c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b);
  };
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const c = read(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] === 1) return c;
    }
    return [255, 255, 255];
  };
  const faint = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const text = walk.currentNode.textContent.trim(), e = walk.currentNode.parentElement;
    if (!text || ["SCRIPT", "STYLE", "NOSCRIPT"].includes(e.tagName)) continue;
    const style = getComputedStyle(e);
    const [a, b] = [light(read(e.closest("svg") ? style.fill : style.color)), light(ground(e))].sort((x, y) => x - y);
    if ((b + 0.05) / (a + 0.05) < 4.5) faint.push(text.slice(0, 30) + " " + ((b + 0.05) / (a + 0.05)).toFixed(2));
  }
  return JSON.stringify(faint);
})()
"""


TINY = """
JSON.stringify([...document.querySelectorAll("svg.chart text")].map(e =>
  [e.textContent, parseFloat(getComputedStyle(e).fontSize) * e.getScreenCTM().a]).filter(([_, size]) => 0 < size && size < 9.5))
"""


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_pages_fit_their_window_and_can_be_read_in_light_and_dark(tmp_path):
    """At 360 and 1440 pixels nothing runs out of the window, and all text has the contrast that is asked, as it is drawn."""
    pages = {
        "audit": report.audit_page(examples.mortgage()),
        "names": report.audit_page(examples.hostile()),
        "frontier": frontier_page(frontier()),
        "compare": compare_page(comparison()),
    }
    for name, text in pages.items():
        (tmp_path / f"{name}.html").write_text(text)
    browser = Browser(tmp_path / "audit.html")
    try:
        for name, scheme in product(pages, ("light", "dark")):
            browser.open(tmp_path / f"{name}.html")
            for width in (360, 1440):
                browser.shown_as(scheme, width)
                wide = browser.value("document.documentElement.scrollWidth")
                assert wide <= width, (name, scheme, width, wide)
                assert json.loads(browser.value(TINY)) == [], (name, width)
            if name == "frontier":
                assert browser.value("document.querySelector('.narrow .chart').getBoundingClientRect().width") <= 680
            paper = browser.value("getComputedStyle(document.body).backgroundColor")
            assert tuple(int(v) for v in re.findall(r"\d+", paper)) == palette(scheme)["paper"]
            assert json.loads(browser.value(FAINT)) == [], (name, scheme)
    finally:
        browser.close()
