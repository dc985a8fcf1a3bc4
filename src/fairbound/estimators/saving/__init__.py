"""A fitted estimator as a folder of plain files."""
