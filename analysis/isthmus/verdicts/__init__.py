"""Judgements: what a change did, noise, trials, drift, nodes unlike their equals, systems side by side."""
