"""Checks of the driver's own costs: launches, graphs, waits, contexts."""

import pathlib
import sys

import reframe as rfm
import reframe.core.builtins as builtins

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

from isthmus_reframe import catalogue
from isthmus_reframe.families.catalogue_check import CatalogueCheck

WORKLOADS = catalogue.family("driver/")


@rfm.simple_test
class DriverCosts(CatalogueCheck):
    """Check of one kind of call, at one point (tiny) or over the default sweeps of its axes (small)."""

    workload = builtins.parameter(list(WORKLOADS), fmt=lambda name: name.removeprefix("driver/"))
    size = builtins.parameter(catalogue.sizes(WORKLOADS))
    unverified = frozenset(WORKLOADS) - {"driver/copy_call", "driver/prefetch_call"}
    time_limit = "10m"
