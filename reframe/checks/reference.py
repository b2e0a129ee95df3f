"""The references: vendor libraries, and copies within the device, beside which the figures of a session stand."""

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
    """One reference at one size; on a GPU only."""

    workload = builtins.parameter(list(WORKLOADS), fmt=lambda name: name.removeprefix("reference/"))
    size = builtins.parameter(catalogue.sizes(WORKLOADS))
    valid_systems = ["+gpu"]
    time_limit = "30m"
