"""Who is ranked above whom: exact counts of pairs from one sort of the scores."""
