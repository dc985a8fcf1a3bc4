"""Data-defined convex problems of Lin, Nadarajah, Soheili, Yang (2020), by name.

from fairbound.instances import instance

problem = instance("fair-a9a", data_dir)         # a Problem for solve and for every method
"""

from __future__ import annotations

import os
from typing import Any

from fairbound.base.errors import OptionError
from fairbound.instances.data_instances import INSTANCES
from fairbound.instances.fair_ratio import fair_ratio
from fairbound.instances.linear_terms import Block, LinearTerms, Term
from fairbound.instances.neyman_pearson import neyman_pearson

__all__ = [
    "INSTANCES",
    "Block",
    "LinearTerms",
    "Term",
    "fair_ratio",
    "instance",
    "neyman_pearson",
    "optimum",
]


def instance(name: str, data_dir: str | os.PathLike[str] | None = None, **options: Any) -> Any:
    """The Problem called `name`, one of INSTANCES.

    data_dir: the folder of data files, the environment variable FAIRBOUND_DATA by default; the inventory needs none.
    options: passed to the problem's constructor, such as dtype, kappa or bound.
    Raises: OptionError for an unknown name; DataError where a file is missing.
    """
    if name not in INSTANCES:
        raise OptionError(f"unknown instance {name!r}; known: {', '.join(INSTANCES)}.")
    return INSTANCES[name](data_dir, **options)


def optimum(name: str) -> Any:
    """What is known of the optimum of an instance (see `fairbound.instances.exact`)."""
    from fairbound.instances import exact

    return exact.optimum(name)
