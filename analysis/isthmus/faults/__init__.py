"""Page faults of any CUDA program: the driver's events, what a batch costs, and what to do about it."""
