"""Batches of page faults: the driver's events, and what a batch costs."""
