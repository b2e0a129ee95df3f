"""Checks of families of workloads: those of the catalogue, in modes, and those that a machine lists itself."""
