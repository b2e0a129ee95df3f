"""Study of five papers: their figures, reproduced from the records in papers/data.

figures      named pictures, which the notebooks and `isthmus figure` draw, the latter from any records
batches      the driver's cost of a batch of page faults: `isthmus faults model`, and a part of `isthmus regress`
exhibits     which figures and tables of the papers the records show, and the page that lists them
published    figures that the papers state
remaining    commands that would measure exhibits that the records lack

The study uses Isthmus through the modules that tests/test_borders.py lists. Isthmus finds the study only through its
entry points.
"""

from isthmus.plugins import Command

FIGURE = Command("isthmus_papers.figures.command", "a figure of the notebooks from any records: PNG, SVG or PDF")
FAULTS_MODEL = Command(
    "isthmus_papers.batches.model",
    "what a batch costs the driver",
    "examples:\n  isthmus faults model results\n  isthmus faults model *.uvm --format csv -o model.csv\n\n"
    "exit code 3: no coefficient can be estimated, or files could not be read",
)
