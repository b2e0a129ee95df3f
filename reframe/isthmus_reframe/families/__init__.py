"""Base classes for checks of families of workloads: workloads of the catalogue, workloads in transfer modes, and
workloads that a machine lists depending on its hardware."""
