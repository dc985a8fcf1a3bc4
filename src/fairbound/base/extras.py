"""Packages that an extra of this one installs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def extra(name: str, what: str) -> Iterator[None]:
    """Imports within that fail say what needs which package, and the extra `name` that brings it.
    Raises: ImportError."""
    try:
        yield
    except ImportError as error:
        raise ImportError(f"{what}: pip install 'fairbound[{name}]'") from error
