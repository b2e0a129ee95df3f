"""The references: vendor libraries, and copies within the device, beside which the figures of a session stand."""

import pathlib
import sys

import reframe as rfm
import reframe.core.builtins as builtins

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "plugins"))

import catalogue
from catalogue_check import CatalogueCheck

CATALOGUE = catalogue.load()
WORKLOADS = {w["name"]: w for w in CATALOGUE["workloads"] if w["name"].startswith("reference/")}


@rfm.simple_test
class Reference(CatalogueCheck):
    """One reference at one size; on a GPU only."""

    workload = builtins.parameter(sorted(WORKLOADS), fmt=lambda name: name.removeprefix("reference/"))
    size = builtins.parameter(CATALOGUE["sizes"])
    valid_systems = ["+gpu"]
    time_limit = "30m"
