"""What the library advises, in words that the command line can follow."""

from __future__ import annotations

from fairbound.base.errors import BINARY

ADVICE = {
    "positive= (--positive)": "--positive",
    "positive=": "--positive ",
    "certify=True": "--certify",
    "threshold= (--threshold)": "--threshold",
    "Leave them out of X": "Leave them out with --drop",
    "options=TableOptions(knots=0)": "--knots 0",
    "options=TableOptions(jumps=0)": "--jumps 0",
    "options=TableOptions(pairs=0)": "--pairs 0",
    "options=TableOptions(max_categories=...)": "--max-categories",
    "group_terms=True": "--group-terms",
    "put fb.PostProcessor": "in Python put fb.PostProcessor",
    "fb.FairRegressor": "fairbound regress",
    " or a torch.nn.Module; fb.Reduction keeps a classifier of another library": "; --estimator of fit keeps a scikit-learn classifier",
    f" {BINARY}": "",
    'Correct them, or pass TableOptions(infinite="missing") to treat infinity as missing.': "Correct these cells or leave them "
    "empty (missing).",
    "If the column is a code, name it in TableOptions(categorical=...).": "If the column is a code, name it "
    "with --text, or leave it out with --drop.",
    ", and make it a column of numbers (pandas.to_numeric)": "",
    "Name it in TableOptions(categorical=...) or (numeric=...), or give it one type.": "Name it with --text, or leave it out "
    "with --drop.",
    'encoding="cp1252"': "--encoding cp1252",
    'encoding="utf-16-le"': "--encoding utf-16-le",
    'decimal="': '--decimal "',
}
"""What the library advises, and what the command line can do instead: of the encoder's options it has four."""


def for_commands(said: str) -> str:
    """What an error or a warning says, with the command line's own advice."""
    for of_python, of_commands in ADVICE.items():
        said = said.replace(of_python, of_commands)
    return said
