"""The driver's cost of a batch of page faults."""
