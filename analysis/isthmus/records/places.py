"""Hosts of records: the node, or one of several hosts that have the same name.

Virtual machines and containers often share a name (`vm`, `localhost`). Records belong to one host where they share a
boot or a GPU. Hosts of one name are told apart where they cannot be one machine: another GPU in the same PCIe slot,
boots that ran at the same time, another processor, or another system. Such a host is called NAME#GPU, with the first
digits of its GPU's UUID, or NAME@SYSTEM without a GPU where systems differ. Records that fit no particular one of them,
such as those of the CPU alone, keep the name.
"""

from __future__ import annotations

import dataclasses
import datetime
from typing import TYPE_CHECKING

from isthmus.groups import components, grouped

if TYPE_CHECKING:
    import duckdb

#: Columns of the table of records that name_hosts() needs.
WANTED = ("node", "gpus", "slots", "boot", "job", "cpu", "system", "time")
_DIGITS = 8  # least number of digits of a UUID in a name


@dataclasses.dataclass(frozen=True)
class Trace:
    """Signs of the host in the records of one node name, boot, set of GPUs and, where neither is known, job."""

    node: str
    gpus: str  # UUIDs, joined by +
    slots: str  # UUID@PCI bus, joined by +
    boot: str | None
    job: str | None
    cpu: str
    system: str
    first: datetime.datetime
    last: datetime.datetime

    @property
    def uuids(self) -> set[str]:
        return set(filter(None, self.gpus.split("+")))

    @property
    def anchors(self) -> frozenset:
        """Boot and GPUs, which no other host has."""
        found = {("GPU", uuid) for uuid in self.uuids} | ({("boot", self.boot)} if self.boot else set())
        return frozenset(found)


def hosts(traces: list[Trace]) -> dict[Trace, str]:
    """Returns the host of each trace whose node name is shared: NAME#GPU, or NAME where the host is unknown."""
    result: dict[Trace, str] = {}
    for node, found in grouped((trace.node, trace) for trace in traces).items():
        anchored = [trace for trace in found if trace.anchors]
        of_systems = len(_systems(found)) > 1
        labels = components([trace.anchors for trace in anchored])
        parts = list(grouped(zip(labels, anchored)).values())
        if not _are_several(parts) and not of_systems:
            continue
        names = _names(node, parts, of_systems)
        jobs: dict[str | None, set[str]] = {}
        for part, name in zip(parts, names):
            for trace in part:
                result[trace] = name
                jobs.setdefault(trace.job, set()).add(name)
        for trace in found:
            if not trace.anchors:
                of_job = jobs.get(trace.job, set())
                alone = f"{node}@{trace.system}" if of_systems and trace.system else node
                result[trace] = next(iter(of_job)) if len(of_job) == 1 else alone
    return result


def _are_several(parts: list[list[Trace]]) -> bool:
    """Returns whether traces that share neither boot nor GPU cannot all be of one machine."""
    taken: dict[str, str] = {}
    for slot, uuid in (pair for part in parts for pair in _slots(part)):
        if taken.setdefault(slot, uuid) != uuid and not _together(parts, taken[slot], uuid):
            return True
    if len({trace.cpu for part in parts for trace in part if trace.cpu}) > 1 and len(parts) > 1:
        return True
    return _overlap(parts)


def _systems(traces: list[Trace]) -> set[str]:
    return {trace.system for trace in traces if trace.system}


def _slots(part: list[Trace]) -> set[tuple[str, str]]:
    """Returns (slot, UUID) of the GPUs of the traces."""
    pairs = (pair.rpartition("@") for trace in part for pair in trace.slots.split("+"))
    return {(slot, uuid) for uuid, _, slot in pairs if uuid and slot}


def _together(parts: list[list[Trace]], *uuids: str) -> bool:
    """Returns whether these GPUs were in one host, so that one may have replaced the other in a slot."""
    return any(set(uuids) <= {uuid for trace in part for uuid in trace.uuids} for part in parts)


def _overlap(parts: list[list[Trace]]) -> bool:
    """Returns whether boots of different parts ran at the same time."""
    spans = []
    for number, part in enumerate(parts):
        for boot, traces in grouped((trace.boot, trace) for trace in part).items():
            if boot is not None:
                spans.append((min(t.first for t in traces), max(t.last for t in traces), number))
    open_until: list = [None, None]  # latest end so far with its part, and latest end of any other part
    for first, last, number in sorted(spans):
        for before in filter(None, open_until):
            if before[1] != number and first < before[0]:
                return True
        best = [each for each in (*open_until, (last, number)) if each]
        latest = max(best)
        others = [each for each in best if each[1] != latest[1]]
        open_until = [latest, max(others) if others else None]
    return False


def _names(node: str, parts: list[list[Trace]], of_systems: bool) -> list[str]:
    """Returns a name for each part; without a GPU NAME@SYSTEM where there are several systems, else NAME."""
    firsts = [min((uuid for trace in part for uuid in trace.uuids), default="") for part in parts]
    short = [uuid.partition("-")[2] or uuid if uuid.startswith(("GPU-", "MIG-")) else uuid for uuid in firsts]
    longest = max(map(len, short), default=0)
    known = {uuid for uuid in short if uuid}
    digits = next((n for n in range(_DIGITS, longest) if len({uuid[:n] for uuid in known}) == len(known)), longest)
    systems = ["+".join(sorted(_systems(part))) if of_systems else "" for part in parts]
    without = [f"{node}@{system}" if system else node for system in systems]
    return [f"{node}#{uuid[:digits]}" if uuid else name for uuid, name in zip(short, without)]


# --- the table of records, and records as they were read ---


def name_hosts(connection: duckdb.DuckDBPyConnection, table: str) -> dict[str, str]:
    """Makes the table `host_of` of hosts that share their node name with others; returns the node name of each host."""
    key = (
        "node, coalesce(gpus, ''), coalesce(slots, ''), boot, CASE WHEN boot IS NULL THEN job END, coalesce(cpu, ''), "
        "coalesce(system, '')"
    )
    rows = connection.execute(
        f"SELECT {key}, min(time), max(time) FROM {table} WHERE node IN (SELECT node FROM {table} GROUP BY node "
        "HAVING count(DISTINCT boot) > 1 OR count(DISTINCT gpus) > 1 OR count(DISTINCT system) > 1) GROUP BY ALL "
        "ORDER BY ALL"
    ).fetchall()
    found = hosts([Trace(*row) for row in rows])
    connection.execute(
        "CREATE TABLE host_of (node VARCHAR, gpus VARCHAR, boot VARCHAR, job VARCHAR, system VARCHAR, host VARCHAR)"
    )
    named = {(trace.node, trace.gpus, trace.boot, trace.job, trace.system): host for trace, host in found.items()}
    if named:  # in one statement: DuckDB takes a millisecond for each
        columns = [list(column) for column in zip(*((*key, host) for key, host in named.items()))]
        of_lists = ", ".join(["unnest(?::VARCHAR[])"] * len(columns))
        connection.execute(f"INSERT INTO host_of SELECT {of_lists}", columns)
    return {host: trace.node for trace, host in found.items()}


def with_hosts(table: str) -> str:
    """Returns SQL for the rows of a table with the hosts of name_hosts() in `node`."""
    return (
        f"SELECT r.* REPLACE (coalesce(h.host, r.node) AS node) FROM {table} r LEFT JOIN host_of h ON h.node = r.node "
        "AND h.gpus = coalesce(r.gpus, '') AND h.boot IS NOT DISTINCT FROM r.boot "
        "AND h.job IS NOT DISTINCT FROM CASE WHEN r.boot IS NULL THEN r.job END AND h.system = coalesce(r.system, '')"
    )


def name_hosts_of(records: list[dict]) -> None:
    """Renames the nodes of records as read from their files, as name_hosts() does: `run.node` becomes the host."""
    traces: dict[tuple, list] = {}
    for record in records:
        key = _key(record)
        time = datetime.datetime.strptime(record["run"]["time"], "%Y-%m-%dT%H:%M:%SZ")
        span = traces.setdefault(key, [time, time])
        span[:] = min(span[0], time), max(span[1], time)
    found = hosts([Trace(*key, *span) for key, span in traces.items()])
    named = {key: found[trace] for key, span in traces.items() if (trace := Trace(*key, *span)) in found}
    for record in records:
        host = named.get(_key(record))
        if host:
            record["run"]["node"] = host


def _key(record: dict) -> tuple:
    """Returns the fields of a record's Trace except its times."""
    run, boot = record["run"], record["host"].get("boot_id")
    gpus = sorted({device["uuid"] or "" for device in record["devices"]})
    slots = sorted({f"{d['uuid']}@{d['pci_bus']}" for d in record["devices"] if d["uuid"] and d.get("pci_bus")})
    job = (run.get("job") or run["id"]) if boot is None else None
    cpu, system = record["host"].get("cpu") or "", run.get("system") or ""
    return run["node"], "+".join(gpus), "+".join(slots), boot, job, cpu, system
