"""Tables and labels into numbers: CSV files, frames and arrays, and the encoder learnt on training rows."""

from fairbound.rows.labels import binary_labels, class_labels
from fairbound.tables.encode_report import EncodeReport
from fairbound.tables.encoded import Encoded
from fairbound.tables.encoder import TableEncoder
from fairbound.tables.group_terms import GroupTerms
from fairbound.tables.options import TableOptions
from fairbound.tables.reading.chunks import Chunks
from fairbound.tables.reading.files import read_table
from fairbound.tables.reading.kinds import Kinds

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
