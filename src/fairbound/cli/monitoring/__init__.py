"""`fairbound monitor`: decisions counted as they come, file by file."""
