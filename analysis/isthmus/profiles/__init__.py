"""Profilers' outputs in one form."""
