"""What each command may be given, and how a dataclass of options becomes a command."""
