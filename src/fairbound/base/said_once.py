"""Warnings of many fits of one model, each said once."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Iterator

_COUNT = re.compile(r"(?<=[ (])\d[\d,.]*(?=[ ).,;])")


@contextlib.contextmanager
def said_once() -> Iterator[None]:
    """A context that gives the warnings raised in it at its end, the first of those that differ in counts alone."""
    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            yield
    finally:
        said = set()
        for one in caught:
            key = one.category, _COUNT.sub("0", str(one.message))
            if key not in said:
                said.add(key)
                warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
