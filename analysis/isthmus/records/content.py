"""What a record says: its metrics by name, and whether its figures count."""

from __future__ import annotations

import sys

from isthmus.spelling import counted

# Warnings that spoil a whole record where they name no samples: its figures are invalid, not slow.
FOREIGN = "foreign_processes"
SPOILING = ("throttled", "pcie_downtrained", "ecc_errors", "xid_errors", "shared_node", FOREIGN)


def spoiling(record: dict) -> list[dict]:
    """The record's warnings that make all of its figures invalid; isthmus.records.store has the same as SQL.

    Ranks see each other's processes on the device, so there a foreign process says nothing.
    """
    return [
        warning
        for warning in record["warnings"]
        if warning.get("samples") is None
        and warning["code"] in SPOILING
        and (warning["code"] != FOREIGN or "ranks" not in record)
    ]


# What verification may come to in a record whose figures count.
VERIFIED = ("pass", "not_applicable")


def failure(record: dict) -> str | None:
    """Why a case that was not skipped has no figures that count; isthmus.statistics.series.FAILED has it as SQL."""
    if record["error"]:
        return record["error"]
    status = record["verify"]["status"]
    if status == "fail":
        return "wrong result"
    return "the results were not verified" if status not in VERIFIED and not record["skipped"] else None


def say_left_out(number: int, kind: str) -> None:
    """How many records were not asked for, which are those that are emulated or profiled, and how to ask for them."""
    if number:
        them = "it" if number == 1 else "them"
        print(f"{counted(number, f'{kind} record')} left out; --{kind} takes {them}", file=sys.stderr)


def say_spoilt(number: int) -> None:
    if number:
        why = "its field warnings says why" if number == 1 else "the field warnings of each says why"
        print(f"{counted(number, 'record', 'are')} spoilt and left out; {why}", file=sys.stderr)


def that_count(cases: list[dict], *, emulated: bool) -> list[dict]:
    """Without the emulated, unless they are asked for, and without those that are spoilt; both numbers are printed."""
    wanted = [case for case in cases if emulated or not case["emulated"]]
    say_left_out(len(cases) - len(wanted), "emulated")
    good = [case for case in wanted if not spoiling(case)]
    say_spoilt(len(wanted) - len(good))
    return good


def metrics(record: dict) -> dict[str, dict]:
    """The record's metrics by name; no valid record has two of one name."""
    return {metric["name"]: metric for metric in record["metrics"]}


def axes(record: dict) -> dict:
    """With the number of ranks, which keeps what several processes measured together apart."""
    return record["axes"] | ({"ranks": record["ranks"]["count"]} if "ranks" in record else {})


def samples(record: dict, metric: str) -> list:
    """The metric's samples; none where the record has no such metric."""
    return next((each["samples"] for each in record["metrics"] if each["name"] == metric), [])
