"""Contents of a record: its metrics by name, and whether its figures count."""

from __future__ import annotations

import sys

from isthmus.spelling import counted

# Codes of warnings that invalidate a whole record where they name no samples: its figures are invalid, not slow.
FOREIGN = "foreign_processes"
SPOILING = ("throttled", "pcie_downtrained", "ecc_errors", "xid_errors", "shared_node", FOREIGN)


def spoiling(record: dict) -> list[dict]:
    """Returns the record's warnings that make all of its figures invalid; isthmus.records.store has the same as SQL.

    Foreign processes are ignored in a record of several ranks, because ranks see each other's processes on the device.
    """
    return [
        warning
        for warning in record["warnings"]
        if warning.get("samples") is None
        and warning["code"] in SPOILING
        and (warning["code"] != FOREIGN or "ranks" not in record)
    ]


# States of verification with which a record's figures count.
VERIFIED = ("pass", "not_applicable")


def failure(record: dict) -> str | None:
    """Returns why a case that was not skipped has no figures that count, or None.

    isthmus.statistics.series.FAILED has the same as SQL.
    """
    if record["error"]:
        return record["error"]
    status = record["verify"]["status"]
    if status == "fail":
        return "wrong result"
    return "the results were not verified" if status not in VERIFIED and not record["skipped"] else None


def say_left_out(number: int, kind: str) -> None:
    """Prints how many records of a kind ("emulated", "profiled") were left out, and the option that includes them."""
    if number:
        them = "it" if number == 1 else "them"
        print(f"{counted(number, f'{kind} record')} left out; --{kind} takes {them}", file=sys.stderr)


def say_spoilt(number: int) -> None:
    if number:
        why = "its field warnings says why" if number == 1 else "the field warnings of each says why"
        print(f"{counted(number, 'record', 'are')} spoilt and left out; {why}", file=sys.stderr)


def that_count(cases: list[dict], *, emulated: bool) -> list[dict]:
    """Returns the cases without invalid records and, unless `emulated`, without emulated ones; prints both numbers."""
    wanted = [case for case in cases if emulated or not case["emulated"]]
    say_left_out(len(cases) - len(wanted), "emulated")
    good = [case for case in wanted if not spoiling(case)]
    say_spoilt(len(wanted) - len(good))
    return good


def metrics(record: dict) -> dict[str, dict]:
    """Returns the record's metrics by name; no valid record has two of one name."""
    return {metric["name"]: metric for metric in record["metrics"]}


def axes(record: dict) -> dict:
    """Returns the record's axes and its number of ranks, so that runs of several processes form series of their own."""
    return record["axes"] | ({"ranks": record["ranks"]["count"]} if "ranks" in record else {})


def samples(record: dict, metric: str) -> list:
    """Returns the metric's samples; an empty list where the record has no such metric."""
    return next((each["samples"] for each in record["metrics"] if each["name"] == metric), [])
