"""Seeds derived from names: the same parts give the same seed on every machine, and no global generator is touched."""

from __future__ import annotations

import hashlib


def seed_for(*parts: object, root: int = 0) -> int:
    """A seed in [0, 2**63) from `parts`, which say what the randomness is for.

    `seed_for("split", "adult", repeat)` names the data set and the repeat but no method, so that every method sees the
    same split; another `root` gives an independent family of seeds. Parts enter by their text: 1 and "1" are the same.
    """
    key = "/".join(map(str, (root, *parts))).encode()
    return int.from_bytes(hashlib.sha256(key).digest()[:8], "big") % 2**63
