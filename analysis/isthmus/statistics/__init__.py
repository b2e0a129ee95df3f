"""Statistics over jobs: series, the spread of a figure, permutable units, and the test for comparisons."""
