"""What the driver takes for itself: launches, graphs, waits, contexts."""

import pathlib
import sys

import reframe as rfm
import reframe.core.builtins as builtins

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "plugins"))

import catalogue
from catalogue_check import CatalogueCheck

CATALOGUE = catalogue.load()
WORKLOADS = {w["name"]: w for w in CATALOGUE["workloads"] if w["name"].startswith("driver/")}


@rfm.simple_test
class DriverCosts(CatalogueCheck):
    """One kind of call: at one point (tiny), or over the default sweeps of its axes (small)."""

    workload = builtins.parameter(sorted(WORKLOADS), fmt=lambda name: name.removeprefix("driver/"))
    size = builtins.parameter([s for s in CATALOGUE["sizes"] if any(s in w["sizes"] for w in WORKLOADS.values())])
    unverified = frozenset(WORKLOADS) - {"driver/copy_call", "driver/prefetch_call"}
    time_limit = "10m"
