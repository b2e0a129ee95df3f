"""Jobs of records: the scheduler's id with the system's name, distinguished further if several jobs had the same id.

Schedulers restart at 1 after their largest id, and when they get a new database. Records with the same id belong to one
job, including all its nodes, steps and requeued attempts, as long as gaps between them are at most a week. After a
longer gap, they belong to another job. After a shorter gap, they belong to another job if every node with records on
both sides of the gap was rebooted, and either the gap is longer than a day or the later records only repeat earlier
cases; a requeued attempt, in contrast, was interrupted and continues with other cases. Jobs that share an id are called
ID@TIME, with the minute of their first record.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
from typing import TYPE_CHECKING

from isthmus.grouping import grouped

if TYPE_CHECKING:
    import duckdb

#: SQL for the job's id of a raw record, before name_jobs(). Ids are unique only within one scheduler, so two systems
#: may have the same id. Without a scheduler, the run counts as the job; its id has 64 random bits.
ID = "coalesce(coalesce(run.system || '#', '') || run.job, run.id)"
MOST = datetime.timedelta(days=7)  # longest gap between records of one job; jobs last days and measure more often
RESTARTED = datetime.timedelta(days=1)  # longest gap if nodes were rebooted, since jobs are requeued sooner
_TIME = r"@\d{4}-\d{2}-\d{2}T\d{2}:\d{2}"
#: SQL for the case of a record; _case_of() does the same for a record that was read from its file.
_CASE = "hash(workload, placement, staging, size, preset, axes, ranks)"
#: SQL for the scheduler's id in the column `job`.
NUMBER = f"regexp_replace(regexp_extract(job, '[^#]*$'), '{_TIME}$', '')"
#: SQL for plain() of the column `job`.
PLAIN = f"regexp_replace(job, '{_TIME}$', '')"


@dataclasses.dataclass(frozen=True)
class Trace:
    """First and last time of the records with the same id, node and boot on one day."""

    job: str
    node: str
    boot: str | None
    first: datetime.datetime
    last: datetime.datetime
    cases: frozenset = frozenset()


def id_of(record: dict) -> str:
    """Returns the value of ID for a record read from its file; after name_jobs_of(), the value of the column `job`."""
    run = record["run"]
    if run.get("job") is None:
        return run["id"]
    return run["job"] if run.get("system") is None else f"{run['system']}#{run['job']}"


def begins(traces: list[Trace]) -> dict[str, list[datetime.datetime]]:
    """Returns, for each id that several jobs had, the times at which these jobs began."""
    found = {}
    for job, of_id in grouped((trace.job, trace) for trace in traces).items():
        ordered = sorted(of_id, key=lambda trace: (trace.first, trace.last))
        starts, ended, before = [ordered[0].first], ordered[0].last, [ordered[0]]
        for trace in ordered[1:]:
            gap = trace.first - ended
            if gap > MOST or (gap > datetime.timedelta() and _is_another(before, _from(ordered, trace.first), gap)):
                starts.append(trace.first)
                before = []
            before.append(trace)
            ended = max(ended, trace.last)
        if len(starts) > 1:
            found[job] = starts
    return found


def _from(ordered: list[Trace], start: datetime.datetime) -> list[Trace]:
    """Returns the traces from `start` up to the next gap longer than RESTARTED."""
    found: list[Trace] = []
    for trace in ordered:
        if trace.first >= start:
            if found and trace.first - max(each.last for each in found) > RESTARTED:
                break
            found.append(trace)
    return found


def _is_another(before: list[Trace], after: list[Trace], gap: datetime.timedelta) -> bool:
    """Returns whether the records after a gap belong to another job, judging by their boots and cases."""
    if not _restarted(before, after):
        return False
    repeated = frozenset().union(*(trace.cases for trace in after))
    known = frozenset().union(*(trace.cases for trace in before))
    return gap > RESTARTED or (bool(repeated) and repeated <= known)


def _restarted(before: list[Trace], after: list[Trace]) -> bool:
    """Returns whether some nodes have records on both sides of a gap and all of these were rebooted during the gap."""
    boots: list[dict[str, set]] = [{}, {}]
    for of_side, traces in zip(boots, (before, after)):
        for trace in traces:
            if trace.boot is not None:
                of_side.setdefault(trace.node, set()).add(trace.boot)
    both = boots[0].keys() & boots[1].keys()
    return bool(both) and not any(boots[0][node] & boots[1][node] for node in both)


def _name(job: str, start: datetime.datetime) -> str:
    return f"{job}@{start:%Y-%m-%dT%H:%M}"


def plain(name: str) -> str:
    """Returns a job's name without the time that distinguishes it from other jobs with its id."""
    return re.sub(f"{_TIME}$", "", name, flags=re.ASCII)


# --- naming of jobs in the table of records, and in records read from files ---


def name_jobs(connection: duckdb.DuckDBPyConnection, table: str) -> bool:
    """Creates the table `job_of` of jobs that share their id with other jobs; returns whether there are any."""
    rows = connection.execute(
        f"SELECT job, node, boot, min(time), max(time), list(DISTINCT {_CASE}) FROM {table} WHERE metric_index = 0 AND "
        f"job IN (SELECT job FROM {table} WHERE metric_index = 0 GROUP BY job "
        f"HAVING max(time) - min(time) > INTERVAL 1 DAY UNION SELECT job FROM {table} WHERE metric_index = 0 "
        "GROUP BY job, node HAVING count(DISTINCT boot) > 1) GROUP BY job, node, boot, time::DATE ORDER BY 1, 2, 3, 4"
    ).fetchall()
    found = begins([
        Trace(job, node, boot, first, last, frozenset(cases)) for job, node, boot, first, last, cases in rows
    ])  # fmt: skip
    connection.execute("CREATE TABLE job_of (id VARCHAR, began TIMESTAMP, until TIMESTAMP, name VARCHAR)")
    named = [
        [job, start, until, _name(job, start)]
        for job, starts in found.items()
        for start, until in zip(starts, [*starts[1:], datetime.datetime.max])
    ]
    if named:
        connection.executemany("INSERT INTO job_of VALUES (?, ?, ?, ?)", named)
    return bool(named)


def with_names(table: str) -> str:
    """Returns SQL for the rows of a table in which `job` contains the names that name_jobs() found."""
    return (
        f"SELECT r.* REPLACE (coalesce(j.name, r.job) AS job) FROM {table} r LEFT JOIN job_of j ON j.id = r.job "
        "AND r.time >= j.began AND r.time < j.until"
    )


def _case_of(record: dict) -> tuple:
    axes, ranks = json.dumps(record["axes"], sort_keys=True), (record.get("ranks") or {}).get("count")
    return (*(record[name] for name in ("workload", "placement", "staging", "size", "preset")), axes, ranks)


def name_jobs_of(records: list[dict]) -> None:
    """Renames jobs as name_jobs() does, in records read from files: `run.job` (or `run.id`) becomes ID@TIME."""
    spans: dict[tuple, list] = {}
    times = [datetime.datetime.strptime(record["run"]["time"], "%Y-%m-%dT%H:%M:%SZ") for record in records]
    for record, time in zip(records, times):
        key = (id_of(record), record["run"]["node"], record["host"].get("boot_id"), time.date())
        span = spans.setdefault(key, [time, time, set()])
        span[:2] = min(span[0], time), max(span[1], time)
        span[2].add(_case_of(record))
    found = begins([
        Trace(job, node, boot, first, last, frozenset(cases))
        for (job, node, boot, _), (first, last, cases) in spans.items()
    ])  # fmt: skip
    for record, time in zip(records, times):
        if starts := found.get(id_of(record)):
            run = record["run"]
            field = "id" if run.get("job") is None else "job"
            run[field] = _name(run[field], max(start for start in starts if start <= time))
