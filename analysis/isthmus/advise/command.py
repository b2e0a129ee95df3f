"""Advises from what a machine measured: `isthmus advise interjob|paging|placement|staging RECORDS…`."""

from __future__ import annotations

import argparse

from isthmus.advise import interjob, paging, placing, staging

#: Module of each topic; its docstring becomes the topic's help.
TOPICS = {"interjob": interjob, "paging": paging, "placement": placing, "staging": staging}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    topics = parser.add_subparsers(dest="topic", metavar="TOPIC", required=True)
    for name, module in TOPICS.items():
        summary, _, _ = (module.__doc__ or "").partition("\n\n")
        module.add_arguments(topics.add_parser(name, help=" ".join(summary.split()), description=module.__doc__))


def run(asked: argparse.Namespace) -> int:
    return TOPICS[asked.topic].run(asked)
