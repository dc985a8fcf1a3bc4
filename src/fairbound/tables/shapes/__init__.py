"""Where labels ask for it: the values at which numbers bend and jump, and the columns that have an effect together."""
