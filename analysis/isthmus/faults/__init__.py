"""Page faults of any CUDA program: recording them, what happened, and what to do about it."""
