"""Data sets: loaders with checksums and published counts, two embedded real samples,
and a generator with known truth."""

from fairbound.data.catalog import DatasetInfo
from fairbound.data.communities import threshold_groups
from fairbound.data.dataset import Dataset
from fairbound.data.download import fetch
from fairbound.data.files import FileInfo
from fairbound.data.generator import FrontierPoint, GaussianParity
from fairbound.data.generic import load_csv
from fairbound.data.letor import read_letor, rows_like_mslr
from fairbound.data.prepared import Prepared, prepare
from fairbound.data.registry import info, load, names, options

__all__ = [
    "Dataset",
    "DatasetInfo",
    "FileInfo",
    "FrontierPoint",
    "GaussianParity",
    "Prepared",
    "fetch",
    "info",
    "load",
    "load_csv",
    "names",
    "options",
    "prepare",
    "read_letor",
    "rows_like_mslr",
    "threshold_groups",
]
