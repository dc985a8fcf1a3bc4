"""The Problem protocol and the sets that x may lie in."""
