"""Text that was to be numbers: no column becomes categories, or is dropped, without words that say what to do."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

import fairbound as fb
from fairbound.base.errors import DataError, DataWarning
from fairbound.tables import Chunks, Encoded, TableEncoder, TableOptions

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

ROWS = 2000
DRAWS = np.random.default_rng(0).normal(size=ROWS)


def table(cells):
    return pd.DataFrame({"x": np.arange(ROWS) % 7.0, "p": pd.Series(cells)})


def said_of(act):
    """The texts of the warnings of a call, and the files they are about."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        act()
    assert all(issubclass(one.category, DataWarning) for one in found)
    return [str(one.message) for one in found], {one.filename for one in found}


def texts(decimals, gap=None):
    """Numbers kept as text, every `gap`-th of them n/a."""
    cells = pd.Series(DRAWS).round(decimals).astype(str)
    if gap:
        cells[::gap] = "n/a"
    return cells


NARROW = {" ": "blank", "\u00a0": "no-break", "\u202f": "narrow no-break", "\u2009": "thin", "’": "apostrophe"}
"""What may stand between thousands."""

# --- what is dropped ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "advice"),
    [
        (texts(3), "numbers kept as text, such as '0.126': make it a column of numbers (pandas.to_numeric)."),
        ([str(i - ROWS) for i in range(ROWS)], "such as '-2000': make it a column of numbers (pandas.to_numeric)."),
        ([str(i) for i in range(ROWS)], "make it a column of numbers (pandas.to_numeric) where it is no code."),
        ([f"{i + 10}.5 %" for i in range(ROWS)], "such as '10.5 %': remove signs, units and separators of thousands, so"),
        ([f"{i},5 %" for i in range(ROWS)], "such as '0,5 %': write the decimal comma as a point and remove signs, units and"),
        (texts(4).str.replace(".", ","), "such as '0,1257': write the decimal comma as a point and remove signs"),
        ([f"1.{100 + i % 900},{i:04}" for i in range(ROWS)], "such as '1.100,0000': write the decimal comma as a point and"),
        ([f"{1 + i // 900},{100 + i % 900}" for i in range(ROWS)], "such as '1,100': remove signs, units and separators"),
        *(([f"{1 + i // 900}{s}{100 + i % 900}" for i in range(ROWS)], f"such as {f'1{s}100'!r}: remove signs, units and separ") for s in NARROW),
        (texts(3, gap=7), "but not 'n/a': correct such cells or leave them empty (missing), and make it a column of numbers"),
        (["unknown" if i % 9 == 0 else str(i) for i in range(ROWS)], "; most are numbers, such as '1', but not 'unknown': where it is no code, correct such cells or leave them empty (missing), and make"),
        (["unknown" if i % 9 == 0 else f"{i},5 %" for i in range(ROWS)], "such as '1,5 %', but not 'unknown': leave such cells empty (missing), and write the decimal comma as a point and remove signs, units"),
        ([f"PC {i}" if i % 9 == 0 else str(113 * i) for i in range(ROWS)], "nearly unique, like a name or an identifier."),
    ],
    ids=["decimals", "below 0", "whole", "with a unit", "with a comma and a unit", "with a comma", "with a comma and thousands", "with thousands", *NARROW.values(), "with n/a", "with a word", "unit and word", "tickets"],
)  # fmt: skip
def test_a_dropped_column_is_warned_of_with_what_would_keep_it(cells, advice):
    for fit in (TableEncoder().fit, TableEncoder().fit_transform, TableEncoder().set_output(transform="pandas").fit):
        (said,), files = said_of(lambda fit=fit: fit(table(cells)))
        assert said.startswith("Column 'p' was dropped: ") and advice in said, said
        assert files == {__file__}


def test_a_pipeline_a_search_and_a_classifier_warn_once_each_in_the_same_words():
    X, y = table(texts(3)), (DRAWS > 0).astype(int)
    pipe = make_pipeline(TableEncoder(), LogisticRegression())
    fair = fb.FairClassifier(budget="20 steps", options=TableOptions(knots=0))
    (alone,), files = said_of(lambda: pipe.fit(X, y))
    assert said_of(lambda: fair.fit(X, y)) == ([alone], files) and files == {__file__}
    folds, files = said_of(lambda: cross_val_score(pipe, X, y, cv=2))
    assert len(folds) == 2 and files == {__file__}
    assert said_of(lambda: Encoded.of(TableEncoder(), X)) == ([], set())  # whoever encodes for others warns himself


@pytest.mark.parametrize("make", [lambda c: table(c), lambda c: [[x] for x in c], lambda c: np.array(c)[:, None]])
def test_whole_numbers_beyond_float64_are_not_called_constant_without_a_word(make):
    encoder = TableEncoder()
    said = "constant (1e+30) in float64, which cannot tell neighbouring numbers of this size apart; if they differ"
    try:
        texts, _ = said_of(lambda: encoder.fit(make([10**30 + i for i in range(ROWS)])))
        assert len(texts) == 1 and said in texts[0]
    except DataError as error:  # no other column is left
        assert said in str(error)
    assert said_of(lambda: TableEncoder().fit(table([2.0**53 - 1] * ROWS)))[0][0].endswith("constant (9.0072e+15).")


# --- what becomes categories ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("gap", [2, 3, 4, 7, 15])
@pytest.mark.parametrize("frame", [table, lambda cells: pl.DataFrame(table(cells).to_dict("list"))])
def test_numbers_with_texts_among_them_never_become_categories_without_a_word(gap, frame):
    """At 2 % of the cells it is an error, at more a warning."""
    with pytest.raises(DataError, match=r"'p' holds numbers, but 40 of 2000 rows have text in it, e\.g\. 'n/a' in"):
        TableEncoder().fit(frame(texts(1, gap=50)))
    cells, encoder = texts(1, gap=gap), TableEncoder()
    (said,), files = said_of(lambda: encoder.fit(frame(cells)))
    different = cells.nunique()
    assert f"'p' is text and taken for categories, though {different - 1} of its {different} different texts" in said
    assert "'n/a' is none. To have numbers, correct such cells" in said and "TableOptions(categorical=...)" in said
    assert files == {__file__} and any(name.startswith("p=") for name in encoder.feature_names)
    parts = [frame(cells)[:900], frame(cells)[900:]]
    assert said_of(lambda: Encoded.of(TableEncoder(), Chunks(lambda: parts)))[0] == [said]
    asked = TableOptions(categorical=("p",))
    assert said_of(lambda: TableEncoder(asked).fit(frame(cells))) == ([], set())


def test_what_is_advised_helps():
    cells = texts(1, gap=7)
    frame = table(pd.to_numeric(cells, errors="coerce"))
    assert said_of(lambda: TableEncoder().fit(frame)) == ([], set())
    assert TableEncoder().fit(frame).feature_names == ("x", "p", "p=(missing)")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["1", "2", "3", "other"], None),  # real categories
        ([*map(str, range(12))], None),
        ([f"{i}" for i in range(9)] + ["a", "b"], None),
        ([f"{i}" for i in range(10)] + [f"V{i}" for i in range(10)], None),
        ([f"{i:02d}" for i in range(12)] + ["K"], None),  # a leading zero marks a code
        ([f"{i}.0" for i in range(12)], None),
        ([f"{i}" for i in range(12)] + ["K"], "12 of its 13 different texts are numbers such as '0'; 'K' is none"),
        ([f"{i}.5" for i in range(12)], "all its texts are numbers such as '0.5'. Make it a column of numbers"),
        (["1,2", "1,2,3", "2"], None),  # lists of codes
        ([f"{i}" for i in range(60)], "all its texts are numbers such as '0'. Make it a column of numbers"),
    ],
)
def test_real_categories_stay_what_they_are(values, said):
    cells = [values[i % len(values)] for i in range(ROWS)]
    for typed in (pd.Series(cells), pd.Series(cells, dtype="category")):
        encoder = TableEncoder()
        found, _ = said_of(lambda typed=typed, encoder=encoder: encoder.fit(table(typed)))
        assert len(encoder.feature_names) == 1 + len(values)
        assert len(found) == (said is not None and typed.dtype != "category") and all(said in text for text in found)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([f"{i},50" for i in range(12)], "its cells are numbers with a decimal comma, such as '0,50'. Make them numbers, with a point for"),
        (["-1,3596", "85,00", "7"], "its cells are numbers with a decimal comma, such as '-1,3596'. Make them"),
        (["10,000", "20,000", "7"], "its cells are numbers such as '10,000'. Make them numbers."),
        (["10%", "20%", "7%"], "its cells are numbers such as '10%'. Make them numbers."),
    ],
)  # fmt: skip
def test_few_numbers_with_marks_become_categories_with_a_word(values, said):
    (found,), _ = said_of(lambda: TableEncoder().fit(table([values[i % len(values)] for i in range(ROWS)])))
    assert f"'p' is text and taken for categories, though {said}" in found
