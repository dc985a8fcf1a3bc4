"""A table as it is read: files of CSV and Parquet, of any encoding and in parts, and what kind of column each one is."""
