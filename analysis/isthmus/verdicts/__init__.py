"""Verdicts: what a change did, noise, trials, drift, nodes that differ from their equals, systems side by side."""
