"""Checks and drafts the configuration of a site, and estimates node-hours.

check   finds common mistakes in site-configs/<site>/ before a job is submitted
probe   writes a first version of a site's configuration by examining this node
budget  estimates the node-hours of a set of checks, and selects the part that a budget allows
"""

from __future__ import annotations

from isthmus.site import budget, check, probe

PARTS = {
    "check": (check, "find the common mistakes before a job is submitted"),
    "probe": (probe, "write a first version of a site's configuration"),
    "budget": (budget, "estimate the node-hours of a set of checks, and what a budget allows"),
}


def add_arguments(parser):
    parts = parser.add_subparsers(dest="part", required=True, metavar="check|probe|budget")
    for name, (part, does) in PARTS.items():
        part.add_arguments(parts.add_parser(name, help=does, description=part.__doc__))


def run(arguments) -> int:
    return PARTS[arguments.part][0].run(arguments)
