"""The study of five papers: what their figures are here, from the records in papers/data.

figures      pictures with names, which the notebooks draw and `isthmus figure` makes of any records
batches      what a batch of page faults costs the driver: `isthmus faults model`, and more for `isthmus regress`
exhibits     which figures and tables of the papers the records show, and the page that says so
published    figures that the papers state
remaining    the commands that would measure what records lack of the exhibits

It reads Isthmus through the modules that tests/test_borders.py lists, and Isthmus knows it by its entry points only.
"""

from isthmus.plugins import Command

FIGURE = Command("isthmus_papers.figures.command", "a figure of the notebooks, of any records: PNG, SVG or PDF")
FAULTS_MODEL = Command(
    "isthmus_papers.batches.model",
    "what a batch costs the driver",
    "examples:\n  isthmus faults model results\n  isthmus faults model *.uvm --format csv -o model.csv\n\n"
    "exit code 3: no coefficient can be estimated, or files could not be read",
)
