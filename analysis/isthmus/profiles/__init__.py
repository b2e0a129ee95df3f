"""Profilers' outputs in one common form."""
