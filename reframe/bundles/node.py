"""Bundles for a site's nightly run: one job per node, with several checks in each job.

reframe -C site-configs/<site>/reframe.py -c reframe/bundles -r -S checks='smoke' --distribute=idle
"""

import pathlib
import sys

import reframe as rfm

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

from isthmus_reframe.bundle import Bundle


@rfm.simple_test
class NodeBundle(Bundle):
    """Bundle of the chosen checks that run as a single process."""

    descr = "the chosen one-process checks, one after another in one job"
    tags = {"bundle"}


@rfm.simple_test
class RanksBundle(Bundle):
    """Bundle of the chosen checks that run as several ranks."""

    descr = "the chosen several-rank checks, one after another in one job"
    tags = {"bundle", "mpi"}
    valid_prog_environs = ["+mpi"]
    several_ranks = True
