"""What a model's text may say."""

from __future__ import annotations

import pytest

from fairbound.base.errors import OptionError
from fairbound.models.model import model_of


@pytest.mark.parametrize("text", ["mlp:0", "mlp:16,0", "mlp: 0, 8"])
def test_a_layer_without_units_is_refused_by_its_text(text):
    with pytest.raises(OptionError, match=f"{text!r} has a hidden layer of 0 units"):
        model_of(text, 3)
