"""Page faults of any CUDA program: recording, analysis and advice."""
