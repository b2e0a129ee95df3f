"""Checks of the references: vendor libraries, and copies within the device. A session's other figures are compared to
them."""

import pathlib
import sys

import reframe as rfm
import reframe.core.builtins as builtins

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

from isthmus_reframe import catalogue
from isthmus_reframe.families.catalogue_check import CatalogueCheck

WORKLOADS = catalogue.family("reference/")


@rfm.simple_test
class Reference(CatalogueCheck):
    """Check of one reference at one size. It runs only on a GPU."""

    workload = builtins.parameter(list(WORKLOADS), fmt=lambda name: name.removeprefix("reference/"))
    size = builtins.parameter(catalogue.sizes(WORKLOADS))
    valid_systems = ["+gpu"]
    time_limit = "30m"
