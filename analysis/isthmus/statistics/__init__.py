"""Statistics over jobs: series, the spread of a figure, what may be permuted, and the test that compares."""
