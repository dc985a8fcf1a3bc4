"""Tables and labels into numbers: CSV files, frames and arrays, and the encoder learnt on training rows."""

from fairbound.tables.encoder import EncodeReport, TableEncoder, TableOptions
from fairbound.tables.files import binary_labels, class_labels, read_table

__all__ = ["EncodeReport", "TableEncoder", "TableOptions", "binary_labels", "class_labels", "read_table"]
