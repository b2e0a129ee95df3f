"""Verdicts: effects of a change, noise, trials, drift, nodes that differ from their equals, systems side by side."""
