"""Advice from what a machine measured: placements, batches of jobs, staging."""
