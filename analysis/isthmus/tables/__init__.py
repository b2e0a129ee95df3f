"""Tables for people and for programs: medians, matrices, cache levels, counters, and all output formats."""
