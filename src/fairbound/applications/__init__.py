"""Data-defined convex problems of Lin, Nadarajah, Soheili, Yang (2020), by name.

from fairbound.applications import instance

problem = instance("fair-a9a", data_dir)         # a Problem for solve and for every method
"""

from __future__ import annotations

import os
from typing import Any

from fairbound.applications.data_instances import INSTANCES
from fairbound.applications.fair_ratio import fair_ratio, positive_shares
from fairbound.applications.linear_terms import Block, LinearTerms, Ranges, Term
from fairbound.applications.neyman_pearson import neyman_pearson
from fairbound.errors import OptionError

__all__ = [
    "INSTANCES",
    "Block",
    "LinearTerms",
    "Ranges",
    "Term",
    "fair_ratio",
    "instance",
    "neyman_pearson",
    "optimum",
    "positive_shares",
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
    """What is known of the optimum of an instance (see `fairbound.applications.exact`)."""
    from fairbound.applications import exact

    return exact.optimum(name)
