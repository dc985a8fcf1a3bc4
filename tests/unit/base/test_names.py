"""What a misspelt name may have meant, as the end of a message."""

from __future__ import annotations

import pytest

from fairbound.base.names import did_you_mean


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("wieght", {}, "did you mean 'weight'?"),
        ("wieght", {"before": "; "}, "; did you mean 'weight'?"),
        ("wieght", {"before": ". "}, ". Did you mean 'weight'?"),
        ("wieght", {"shown": {"weight": "weight=..."}}, "did you mean 'weight=...'?"),
        ("B IG", {}, "did you mean 'big'?"),
        ("zzz", {"before": "; ", "otherwise": "."}, "."),
        ("zzz", {}, ""),
        ("weigh", {"most": 2, "alike": 0.4}, "did you mean 'weight' or 'height'?"),
    ],
)
def test_names_that_are_alike_are_asked_for(name, options, said):
    assert did_you_mean(name, (n for n in ("weight", "height", "big")), **options) == said
