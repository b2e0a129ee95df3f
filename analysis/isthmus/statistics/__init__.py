"""Figures over jobs: series, how sure a figure is, what may be dealt out anew, the test that compares."""
