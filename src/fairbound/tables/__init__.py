"""Tables and labels into numbers: CSV files, frames and arrays, and the encoder learnt on training rows."""

from fairbound.rows.labels import binary_labels, class_labels
from fairbound.tables.chunks import Chunks
from fairbound.tables.encode_report import EncodeReport
from fairbound.tables.encoded import Encoded
from fairbound.tables.encoder import TableEncoder
from fairbound.tables.files import read_table
from fairbound.tables.group_terms import GroupTerms
from fairbound.tables.kinds import Kinds
from fairbound.tables.options import TableOptions

__all__ = [
    "Chunks",
    "EncodeReport",
    "Encoded",
    "GroupTerms",
    "Kinds",
    "TableEncoder",
    "TableOptions",
    "binary_labels",
    "class_labels",
    "read_table",
]
