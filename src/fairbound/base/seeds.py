"""Seeds as they are given, and derived from names: the same parts give the same seed on every machine, and no global
generator is touched."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from numbers import Integral
from typing import Any

from fairbound.base.errors import OptionError
from fairbound.base.names import plain_repr


def seed_for(*parts: object, root: int = 0) -> int:
    """A seed in [0, 2**63) from `parts`, which say what the randomness is for.

    `seed_for("split", "adult", repeat)` names the data set and the repeat but no method, so that every method sees the
    same split; another `root` gives an independent family of seeds. Parts enter by their text: 1 and "1" are the same.
    """
    key = "/".join(map(str, (root, *parts))).encode()
    return int.from_bytes(hashlib.sha256(key).digest()[:8], "big") % 2**63


def seeds_of(seed: Any) -> tuple[int, ...]:
    """The seeds of the runs, one of each: of a whole number itself, else of several. Raises: OptionError where there is none,
    where one is no whole number or negative, and where two are equal."""
    if getattr(seed, "ndim", None) == 0 and hasattr(seed, "item"):
        seed = seed.item()
    if isinstance(seed, Integral) and not isinstance(seed, bool):
        seeds: list[Any] = [seed]
    elif isinstance(seed, str | bytes | bool) or not isinstance(seed, Iterable):
        raise OptionError(
            f"seed must be a whole number, or a list of them for a stack of runs, got {plain_repr(seed)}."
        )
    else:
        seeds = list(seed.tolist() if hasattr(seed, "tolist") else seed)
    if not seeds:
        raise OptionError("seed holds no seed; give one for each run of the stack.")
    for one in seeds:
        if isinstance(one, bool) or not isinstance(one, Integral) or one < 0:
            raise OptionError(f"a seed must be a whole number that is not negative, got {plain_repr(one)}.")
    found = tuple(int(one) for one in seeds)
    if len(set(found)) < len(found):
        raise OptionError(
            f"equal seeds in {list(found)} would make equal runs; give each run of the stack a seed of its own."
        )
    return found
