"""Agreement of results: cases with the same inputs must have computed the same checksums."""

from __future__ import annotations

import dataclasses
import json
import sys

from isthmus import spelling

RESULTS = ("file", "time", "workload", "version", "placement", "staging", "inputs", "checksums", "verify", "error")


@dataclasses.dataclass(frozen=True)
class Result:
    """Checksum that a record states for one buffer; all results with the same `case` must have the same checksum."""

    case: tuple  # workload, version, inputs, buffer
    checksum: str
    record: str


def results(sql) -> list[Result]:
    """Returns the distinct results in `measurements`, each with one record that states it.

    `sql` runs a query over the columns RESULTS. Failed cases are left out, because their results are known to be wrong
    and reveal nothing about others.
    """
    found = []
    for *case, checksums, file, time, placement, staging in sql(
        "SELECT DISTINCT ON (workload, version, inputs, checksums) workload, version, inputs, checksums, file, time, "
        "placement, staging FROM measurements WHERE inputs IS NOT NULL AND checksums IS NOT NULL AND verify <> 'fail' "
        "AND error IS NULL ORDER BY time, file, placement, staging, checksums"
    ).fetchall():
        record = f"{file} ({placement or 'no placement'}, {staging or 'no staging'}, {time:%Y-%m-%dT%H:%M:%SZ})"
        stated = json.loads(checksums)
        if isinstance(stated, dict):
            found += [Result((*case, buffer), str(checksum), record) for buffer, checksum in stated.items()]
    return found


def disagreements(found: list[Result]) -> list[str]:
    """Returns a sentence for each case with different checksums in two records, which the sentence names."""
    first: dict[tuple, Result] = {}
    said: dict[tuple, str] = {}
    for result in found:
        other = first.setdefault(result.case, result)
        if other.checksum != result.checksum and result.case not in said:
            workload, version, inputs, buffer = (spelling.printable(spelling.shorten(str(x), 80)) for x in result.case)
            said[result.case] = (
                f"{spelling.printable(other.record)} and {spelling.printable(result.record)} disagree: {workload} "
                f"(version {version}) computed a different {buffer} from the same inputs ({inputs}); one of them is "
                "wrong, or the workload changed without a new version"
            )
    return list(said.values())


_NAMED = 10


def say_disagreements(sentences: list[str]) -> None:
    for sentence in sentences[:_NAMED]:
        print(sentence, file=sys.stderr)
    if len(sentences) > _NAMED:
        print(f"{len(sentences) - _NAMED} more results disagree", file=sys.stderr)
