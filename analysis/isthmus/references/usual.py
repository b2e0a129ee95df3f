"""Shares of limits that paths usually reach in stored records; the contents of schema/usual_shares.json.

`scripts/make-usual-shares` writes this file from papers/data. isthmus-bench and isthmus read it to mark figures as low.
"""

from __future__ import annotations

import json
import pathlib
import re
import statistics
import sys
from typing import NamedTuple

from isthmus.grouping import grouped
from isthmus.records import copies, doubts, fields, load
from isthmus.references import lookup

#: Candidates for the minimum number of bytes of a path; the first from which its records agree is chosen.
_LEAST_BYTES = tuple(1 << power for power in (20, 23, 26, 28))
_RECORDS = 3  # minimum number of records that show what is usual
_AGREE = 0.75  # share of the median that all of a path's records except the lowest twentieth must reach
# Families whose workloads' names contain the path of the bytes; in other families the placement determines it.
_ROUTED = ("transfer/", "stream/", "mpi/")

#: Folders of papers/data with the sweeps of one sitting on one host, named after its GPU; their many cases would
#: outweigh the usual ones.
_SITTING = re.compile(r"-[0-9a-f]{8}$")


class _Path(NamedTuple):
    workload: str
    placement: str | None
    metric: str
    limit: str


class _Reached(NamedTuple):
    moved: float
    share: float
    folder: str


def _path(record: dict, metric: dict) -> _Path | None:
    """Returns the path of a figure; None if the figure depends on the machine's number of GPUs or on the program."""
    workload, placement = record["workload"], record["placement"]
    if workload.startswith(_ROUTED):
        if re.search(r"\ball\b", workload) or re.search(r"_gpu\d|_mapped|_pinned", metric["name"]):
            return None
        workload = re.sub(r"gpu\d+", "gpu*", workload)
    elif placement:
        workload = f"{workload.partition('/')[0]}/*"
    else:
        return None
    return _Path(workload, placement, metric["name"], doubts.limit_kind(metric["limit"]["source"]))


def _reached(files) -> dict[_Path, list[_Reached]]:
    """Returns the figures that count and have no doubts, grouped by path."""
    found, seen = [], copies.Seen()
    for file in (file for file in files if not _SITTING.search(pathlib.Path(file).parent.name)):
        for record in load.iterate(file):
            if fields.failure(record) or record["skipped"] or seen.is_copy(record, file):
                continue
            for metric in record["metrics"]:
                if not metric.get("limit") or metric["median"] is None:
                    continue
                if set(doubts.of_metric(record, metric)) - {"timer_coarse", "few_samples"}:
                    continue
                if (path := _path(record, metric)) and (nominal := lookup.nominal(metric, record)):
                    folder = pathlib.Path(file).parent.name
                    found.append((path, _Reached(doubts.moved(record, metric), nominal[0], folder)))
    return grouped(found)


def _usual(reached: list[_Reached]) -> tuple[int, float, list[_Reached]] | None:
    """Returns the minimum number of bytes of records that agree, the median of their shares, and these records.

    Returns None if records never agree or there are too few.
    """
    for least in _LEAST_BYTES:
        large = sorted((each for each in reached if each.moved >= least), key=lambda each: each.share)
        if len(large) < _RECORDS:
            return None
        middle = statistics.median(each.share for each in large)
        if large[len(large) // 20].share >= _AGREE * middle:
            return least, middle, large
    return None


def entries(files) -> list[dict]:
    """Returns the file's entries, sorted by path; metrics of a path that reach the same share have one entry."""
    merged: dict[tuple, list[str]] = {}
    for path, reached in sorted(_reached(files).items(), key=str):
        if found := _usual(reached):
            least, share, large = found
            folders = ", ".join(sorted({each.folder for each in large}))
            key = (path.workload, path.placement, path.limit, least, round(share, 2), len(large), folders)
            merged.setdefault(key, []).append(path.metric)
    names = ("workload", "placement", "limit", "bytes_least", "share", "records", "of")
    return [dict(zip(names, key), metrics=metrics) for key, metrics in merged.items()]


def text(found: list[dict]) -> str:
    """Returns the text of the file, with an entry per line."""
    lines = ",\n".join(f"    {json.dumps(each)}" for each in found)
    description = (
        "Median share of its nominal limit that a path reaches in `records` of the folders `of` of papers/data, from "
        "`bytes_least` bytes on. scripts/make-usual-shares writes this file."
    )
    return f'{{\n  "description": {json.dumps(description)},\n  "paths": [\n{lines}\n  ]\n}}\n'


def main(paths: list[str]) -> None:
    files = [file for path in paths for file in load.find(path)[0]]
    sys.stdout.write(text(entries(files)))


if __name__ == "__main__":
    main(sys.argv[1:])
