"""Figures with names, a module for each subject; `isthmus figure` makes them of any records."""

import isthmus.figures  # noqa: F401 - gives matplotlib a home
