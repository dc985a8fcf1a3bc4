"""The Problem protocol, its base class and wrappers, and the sets that x and the multipliers may lie in."""
