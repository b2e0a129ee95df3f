"""Contents of a record: its metrics by name, and whether its figures count."""

from __future__ import annotations

import sys

from isthmus.spelling import counted

# Codes of warnings that invalidate the whole record if they name no samples; its figures are then invalid, not slow.
FOREIGN = "foreign_processes"
INVALIDATING = ("throttled", "pcie_downtrained", "ecc_errors", "xid_errors", "shared_node", FOREIGN)


def invalidating(record: dict) -> list[dict]:
    """Returns the record's warnings that make all of its figures invalid; measurements._INVALID is the same in SQL.

    Foreign processes are ignored in a record of several ranks, because ranks see each other's processes on the device.
    """
    return [
        warning
        for warning in record["warnings"]
        if warning.get("samples") is None
        and warning["code"] in INVALIDATING
        and (warning["code"] != FOREIGN or "ranks" not in record)
    ]


# States of verification for which a record's figures count.
VERIFIED = ("pass", "not_applicable")


def failure(record: dict) -> str | None:
    """Returns why the figures of a case that was not skipped do not count; None if they count.

    isthmus.statistics.series.FAILED is the same condition in SQL.
    """
    if record["error"]:
        return record["error"]
    status = record["verify"]["status"]
    if status == "fail":
        return "wrong result"
    return "the results were not verified" if status not in VERIFIED and not record["skipped"] else None


def say_left_out(number: int, kind: str) -> None:
    """Prints the number of left-out records of a kind ("emulated", "profiled") and the option that includes them."""
    if number:
        them = "it" if number == 1 else "them"
        print(f"{counted(number, f'{kind} record')} left out; --{kind} includes {them}", file=sys.stderr)


def say_invalid(number: int) -> None:
    if number:
        why = "its warnings say why" if number == 1 else "the warnings of each say why"
        print(f"{counted(number, 'record', 'are')} invalid and left out; {why}", file=sys.stderr)


def that_count(cases: list[dict], *, emulated: bool) -> list[dict]:
    """Returns the cases that are valid and, unless `emulated`, measured on real hardware; prints how many it drops."""
    wanted = [case for case in cases if emulated or not case["emulated"]]
    say_left_out(len(cases) - len(wanted), "emulated")
    good = [case for case in wanted if not invalidating(case)]
    say_invalid(len(wanted) - len(good))
    return good


def metrics(record: dict) -> dict[str, dict]:
    """Returns the record's metrics, keyed by name; in a valid record names are unique."""
    return {metric["name"]: metric for metric in record["metrics"]}


def axes(record: dict) -> dict:
    """Returns the record's axes and its number of ranks, so that runs of several processes form separate series."""
    return record["axes"] | ({"ranks": record["ranks"]["count"]} if "ranks" in record else {})


def samples(record: dict, metric: str) -> list:
    """Returns the metric's samples; an empty list if the record lacks the metric."""
    return next((each["samples"] for each in record["metrics"] if each["name"] == metric), [])
