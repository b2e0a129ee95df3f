"""Hosts of records: usually the node, but several hosts may have the same name, and one host may have several names.

Virtual machines and containers often share a name (`vm`, `localhost`), and each container of a host may have a
different name. Therefore records are assigned to the same host by this evidence, the strongest first:

1. The same boot, regardless of names: a boot's id is drawn at random when a machine starts, and all containers see it.
   If records of a boot show two GPUs in the same PCIe slot, or two processors, then a running machine was copied, and
   the boot is not used as evidence across names.
2. The same GPU under the same name.
3. The same name, unless the hosts cannot be one machine: another GPU in the same PCIe slot, boots that ran at the same
   time (counting the records of all names), another processor, or another system.
4. The same GPU in the same slot under different names: a host that was restarted under another name. This requires
   that its boots are known, that none of the hosts' boots ran at the same time, that GPUs in other slots, processor and
   system agree, and that neither name is used by several hosts. A GPU that moved to another node is therefore not
   evidence: both nodes ran at the same time, or one of them had another GPU in that slot before or after.

A GPU without a UUID, such as an emulated one, is not evidence. An instance of a GPU (MIG) counts as a separate GPU, but
several instances have the same slot. Hosts with the same name are called NAME#GPU, with the first digits of the GPU's
UUID, or, without a GPU, NAME@SYSTEM if systems differ; records that cannot be assigned to one of them, such as those of
the CPU alone, keep the name. A host with several names is called by a name that no other host has; of several such
names, the one that was used for most days, and of equals, the first.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import itertools
import sys
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from isthmus import spelling
from isthmus.grouping import components, grouped

if TYPE_CHECKING:
    import duckdb

#: Columns of the table of records that name_hosts() needs.
WANTED = ("node", "gpus", "slots", "boot", "job", "cpu", "system", "time")
_DIGITS = 8  # minimum number of digits of a UUID in a name
_INSTANCE = "MIG-"
_GENUINE = ("GPU-", _INSTANCE)
_SAID = 3  # maximum number of a host's names that a note lists


@dataclasses.dataclass(frozen=True, eq=False)  # hashed by identity, since dictionaries may have 100,000 of them
class Trace:
    """Evidence of the host in records with the same node name, boot, GPUs and, without a boot, job."""

    node: str
    gpus: str  # UUIDs, joined by +
    slots: str  # UUID@PCI bus, joined by +
    boot: str | None
    job: str | None
    cpu: str
    system: str
    first: datetime.datetime
    last: datetime.datetime

    @functools.cached_property
    def uuids(self) -> set[str]:
        return set(filter(None, self.gpus.split("+")))

    @functools.cached_property
    def in_slots(self) -> set[tuple[str, str]]:
        """Slot and UUID of each GPU, as pairs."""
        pairs = (pair.rpartition("@") for pair in self.slots.split("+"))
        return {(slot, uuid) for uuid, _, slot in pairs if uuid and slot}

    @property
    def is_anchored(self) -> bool:
        """True if the trace has a boot or a GPU, which identify its host."""
        return bool(self.boot or self.gpus.strip("+"))


@dataclasses.dataclass
class Named:
    """Names of hosts that differ from the names of their nodes."""

    of: dict[Trace, str] = dataclasses.field(default_factory=dict)
    shared: dict[str, str] = dataclasses.field(default_factory=dict)  # host → node name that other hosts also have
    others: dict[str, list[str]] = dataclasses.field(default_factory=dict)  # host → its other names, in order of time


class _Machines:
    """Anchored traces grouped by machine. Machines have numbers, and are merged when evidence is found."""

    def __init__(self, traces: Iterable[Trace]):
        anchored = [trace for trace in traces if trace.is_anchored]
        copied = _copied_boots(anchored)
        labels = components([
            frozenset({("GPU", uuid, trace.node) for uuid in trace.uuids})
            | ({("boot", trace.boot, trace.node if trace.boot in copied else "")} if trace.boot else set())
            for trace in anchored
        ])  # fmt: skip
        self.traces: dict[int, list[Trace]] = grouped(zip(labels, anchored))
        self._number = dict(zip(anchored, labels))

    def numbers(self, traces: Iterable[Trace]) -> list[int]:
        """Returns the distinct machines of the traces, in the order of the traces."""
        return list(dict.fromkeys(self._number[trace] for trace in traces if trace in self._number))

    def of(self, trace: Trace) -> int | None:
        return self._number.get(trace)

    def merge(self, numbers: list[int]) -> None:
        first, *others = numbers
        for number in others:
            moved = self.traces.pop(number)
            self.traces[first] += moved
            self._number.update(dict.fromkeys(moved, first))

    def merge_renamed(self, shared: Collection[str]) -> None:
        """Merges machines that share a GPU, if they can be one machine that was renamed.

        Names in `shared` belong to several hosts and are not evidence.
        """
        own = (trace for trace in self._number if trace.boot and trace.node not in shared)
        pairs = ((uuid, trace) for trace in own for uuid in trace.uuids)
        for uuid, traces in grouped(pairs).items():
            if not uuid.startswith(_GENUINE) or len(self.numbers(traces)) < 2:
                continue
            for before, after in itertools.pairwise(sorted(traces, key=lambda trace: trace.first)):
                one, other = self._number[before], self._number[after]
                if one != other and _is_renamed(self.traces[one], self.traces[other], uuid):
                    self.merge([one, other])


def _copied_boots(traces: list[Trace]) -> set[str]:
    """Returns boots with several node names and with different CPUs, or different GPUs in one slot. Such a boot is of
    several machines, copied while running."""
    copied = set()
    for boot, found in grouped((trace.boot, trace) for trace in traces if trace.boot).items():
        if len({trace.node for trace in found}) > 1:
            slots = grouped((slot, uuid) for slot, uuid in _slots(found))
            cpus = {trace.cpu for trace in found if trace.cpu}
            if len(cpus) > 1 or any(len(uuids) > 1 for uuids in slots.values()):
                copied.add(boot)
    return copied


def _is_renamed(one: list[Trace], other: list[Trace], uuid: str) -> bool:
    """Returns whether two machines that had this GPU may be the same machine."""
    slots = [{slot for trace in part for slot, own in trace.in_slots if own == uuid} for part in (one, other)]
    agree = not all(slots) or bool(slots[0] & slots[1])
    return agree and len(_systems([*one, *other])) <= 1 and not _are_several([one, other])


def hosts(traces: list[Trace]) -> Named:
    """Returns the names of hosts that share their node's name with other hosts or have several names."""
    machines, by_node = _Machines(traces), grouped((trace.node, trace) for trace in traces)
    several = {}  # node name that several hosts have → whether these belong to several systems
    for node, found in by_node.items():
        numbers, of_systems = machines.numbers(found), len(_systems(found)) > 1
        if of_systems or _are_several([machines.traces[number] for number in numbers]):
            several[node] = of_systems
        elif numbers:
            machines.merge(numbers)
    machines.merge_renamed(several)
    names, result = _names_of(machines, by_node, several), Named()
    for (_, host), *others in names.values():
        if others:
            result.others[host] = [node for node, _ in others]
    renamed = {name for others in result.others.values() for name in others}
    for node in sorted(several.keys() | renamed):
        found = by_node[node]
        known = {trace: names[number][0] for trace in found if (number := machines.of(trace)) is not None}
        of_traces = _with_jobs(node, found, {trace: host for trace, (_, host) in known.items()}, several.get(node))
        result.of |= {trace: host for trace, host in of_traces.items() if node in several or host != node}
        if node in several:
            elsewhere = {host for owner, host in known.values() if owner != node}
            result.shared |= dict.fromkeys(set(of_traces.values()) - elsewhere, node)
    return result


def _names_of(
    machines: _Machines, by_node: dict[str, list[Trace]], several: dict[str, bool]
) -> dict[int, list[tuple[str, str]]]:
    """Returns each machine's (node name, host name derived from it) pairs; the machine is called by the first."""
    candidates: dict[int, list[tuple]] = {}
    for node, found in by_node.items():
        own = grouped((number, trace) for trace in found if (number := machines.of(trace)) is not None)
        names = _names(node, list(own.values()), several[node]) if node in several else [node] * len(own)
        for (number, those), name in zip(own.items(), names):
            first = min(trace.first for trace in those)
            days = (max(trace.last for trace in those) - first).days
            candidates.setdefault(number, []).append((node in several, -days, first, node, name))
    result = {}
    for number, named in candidates.items():
        best = min(named)
        others = sorted((each for each in named if each is not best), key=lambda each: each[2:])
        result[number] = [each[3:] for each in (best, *others)]
    return result


def _with_jobs(node: str, traces: list[Trace], known: dict[Trace, str], of_systems: bool | None) -> dict[Trace, str]:
    """Returns the host of each trace with a node name: the known host, the host of its job, or else the node name.

    `of_systems` is whether hosts with this name belong to several systems; it is None if there is only one host.
    """
    jobs = grouped((trace.job if of_systems is not None else None, host) for trace, host in known.items())
    result = {}
    for trace in traces:
        of_job = set(jobs.get(trace.job if of_systems is not None else None, ()))
        alone = f"{node}@{trace.system}" if of_systems and trace.system else node
        result[trace] = known.get(trace) or (next(iter(of_job)) if len(of_job) == 1 else alone)
    return result


def _are_several(parts: list[list[Trace]]) -> bool:
    """Returns whether parts that share neither boot nor GPU cannot all belong to one machine."""
    if len(parts) < 2:
        return False
    taken: dict[str, str] = {}
    for slot, uuid in (pair for part in parts for pair in _slots(part)):
        if taken.setdefault(slot, uuid) != uuid and not _together(parts, taken[slot], uuid):
            return True
    return len({trace.cpu for part in parts for trace in part if trace.cpu}) > 1 or _overlap(parts)


def _systems(traces: list[Trace]) -> set[str]:
    return {trace.system for trace in traces if trace.system}


def _slots(part: list[Trace]) -> set[tuple[str, str]]:
    """Returns (slot, UUID) of each GPU of the traces, except instances (MIG), several of which are in the same slot."""
    return {pair for trace in part for pair in trace.in_slots if not pair[1].startswith(_INSTANCE)}


def _together(parts: list[list[Trace]], *uuids: str) -> bool:
    """Returns whether all these GPUs were in one host, so that one may have replaced the other in a slot."""
    return any(set(uuids) <= {uuid for trace in part for uuid in trace.uuids} for part in parts)


def _overlap(parts: list[list[Trace]]) -> bool:
    """Returns whether boots of different parts ran at the same time."""
    spans = []
    for number, part in enumerate(parts):
        for boot, traces in grouped((trace.boot, trace) for trace in part).items():
            if boot is not None:
                spans.append((min(t.first for t in traces), max(t.last for t in traces), number))
    open_until: list = [None, None]  # (end, part): the latest end so far, and the latest end of any other part
    for first, last, number in sorted(spans):
        for before in filter(None, open_until):
            if before[1] != number and first <= before[0]:
                return True
        best = [each for each in (*open_until, (last, number)) if each]
        latest = max(best)
        others = [each for each in best if each[1] != latest[1]]
        open_until = [latest, max(others) if others else None]
    return False


def _names(node: str, parts: list[list[Trace]], of_systems: bool) -> list[str]:
    """Returns a name for each part: NAME#GPU, or without a GPU NAME@SYSTEM if there are several systems, else NAME."""
    firsts = [min((uuid for trace in part for uuid in trace.uuids), default="") for part in parts]
    short = [uuid.partition("-")[2] or uuid if uuid.startswith(_GENUINE) else uuid for uuid in firsts]
    longest = max(map(len, short), default=0)
    known = {uuid for uuid in short if uuid}
    digits = next((n for n in range(_DIGITS, longest) if len({uuid[:n] for uuid in known}) == len(known)), longest)
    systems = ["+".join(sorted(_systems(part))) if of_systems else "" for part in parts]
    without = [f"{node}@{system}" if system else node for system in systems]
    return [f"{node}#{uuid[:digits]}" if uuid else name for uuid, name in zip(short, without)]


# --- naming of hosts in the table of records, and in records read from files ---


def name_hosts(connection: duckdb.DuckDBPyConnection, table: str, *, wanted: bool = True) -> Named:
    """Creates the tables `host_of`, with the result of hosts() for a table of records, and `also_called`, with names.

    Both are empty unless hosts are `wanted`.
    """
    found = hosts(_traces(connection, table) if wanted else [])
    keys = {(trace.node, trace.gpus, trace.boot, trace.job, trace.system): host for trace, host in found.of.items()}
    columns = ("node", "gpus", "boot", "job", "system", "host")
    _make(connection, "host_of", columns, [(*key, host) for key, host in keys.items()])
    pairs = [(host, name) for host, names in found.others.items() for name in names]
    _make(connection, "also_called", ("host", "name"), pairs)
    return found


def _traces(connection: duckdb.DuckDBPyConnection, table: str) -> list[Trace]:
    """Returns the traces of node names that have several boots, GPUs or systems, or share these with another name."""
    connection.execute(
        "CREATE TEMP TABLE traced AS SELECT node, coalesce(gpus, '') AS gpus, coalesce(slots, '') AS slots, boot, "
        "CASE WHEN boot IS NULL THEN job END AS job, coalesce(cpu, '') AS cpu, coalesce(system, '') AS system, "
        f"min(time), max(time) FROM {table} WHERE metric_index = 0 GROUP BY ALL"
    )
    rows = connection.execute(
        "WITH single AS (SELECT DISTINCT node, unnest(string_split(gpus, '+')) AS uuid FROM traced) "
        "SELECT * FROM traced WHERE node IN (SELECT node FROM traced GROUP BY node "
        "HAVING count(DISTINCT boot) > 1 OR count(DISTINCT gpus) > 1 OR count(DISTINCT system) > 1 "
        "UNION SELECT unnest(list(node)) FROM traced WHERE boot IS NOT NULL GROUP BY boot "
        "HAVING count(DISTINCT node) > 1 "
        "UNION SELECT unnest(list(node)) FROM single WHERE uuid <> '' GROUP BY uuid HAVING count(*) > 1) ORDER BY ALL"
    ).fetchall()
    connection.execute("DROP TABLE traced")
    return [Trace(*row) for row in rows]


def _make(connection: duckdb.DuckDBPyConnection, table: str, columns: tuple[str, ...], rows: list[tuple]) -> None:
    """Creates a table whose columns are texts."""
    connection.execute(f"CREATE TABLE {table} ({', '.join(f'{name} VARCHAR' for name in columns)})")
    if rows:  # all rows in one statement, since DuckDB takes a millisecond per statement
        of_lists = ", ".join(["unnest(?::VARCHAR[])"] * len(columns))
        connection.execute(f"INSERT INTO {table} SELECT {of_lists}", [list(column) for column in zip(*rows)])


def with_hosts(table: str) -> str:
    """Returns SQL for the rows of a table in which `node` contains the hosts that name_hosts() found."""
    return (
        f"SELECT r.* REPLACE (coalesce(h.host, r.node) AS node) FROM {table} r LEFT JOIN host_of h ON h.node = r.node "
        "AND h.gpus = coalesce(r.gpus, '') AND h.boot IS NOT DISTINCT FROM r.boot "
        "AND h.job IS NOT DISTINCT FROM CASE WHEN r.boot IS NULL THEN r.job END AND h.system = coalesce(r.system, '')"
    )


def or_also_called(of_node: str, of_name: str) -> str:
    """Returns SQL for whether a host's name or another of its names fulfils a condition.

    The condition is given twice: as SQL over the column `node` and over the column `name`.
    """
    return f"({of_node} OR node IN (SELECT host FROM also_called WHERE {of_name}))"


def say_names(others: dict[str, list[str]]) -> None:
    """Prints a sentence on stderr that states how many hosts have several names, and lists some of one host's names."""
    if not others:
        return
    host, names = max(others.items(), key=lambda each: len(each[1]))
    few = f"{', '.join(map(spelling.printable, names[:_SAID]))}{', …' if len(names) > _SAID else ''}"
    more = f"; {spelling.counted(len(others) - 1, 'more host', 'have')} several names" if len(others) > 1 else ""
    print(
        f"{spelling.printable(host)} has {spelling.counted(len(names), 'other name')} ({few}), according to boots or "
        f"GPUs{more}",
        file=sys.stderr,
    )


def name_hosts_of(records: list[dict]) -> None:
    """Renames nodes as name_hosts() does, in records read from files: `run.node` becomes the host.

    Reports hosts with several names on stderr.
    """
    traces: dict[tuple, list[datetime.datetime]] = {}
    for record in records:
        key = _key(record)
        time = datetime.datetime.strptime(record["run"]["time"], "%Y-%m-%dT%H:%M:%SZ")
        span = traces.setdefault(key, [time, time])
        span[:] = min(span[0], time), max(span[1], time)
    of_keys = {key: Trace(*key, *span) for key, span in traces.items()}
    found = hosts([*of_keys.values()])
    for record in records:
        if host := found.of.get(of_keys[_key(record)]):
            record["run"]["node"] = host
    say_names(found.others)


def _key(record: dict) -> tuple:
    """Returns the fields of a record's Trace except its times."""
    run, boot = record["run"], record["host"].get("boot_id")
    gpus = sorted({device["uuid"] or "" for device in record["devices"]})
    slots = sorted({f"{d['uuid']}@{d['pci_bus']}" for d in record["devices"] if d["uuid"] and d.get("pci_bus")})
    job = (run.get("job") or run["id"]) if boot is None else None
    cpu, system = record["host"].get("cpu") or "", run.get("system") or ""
    return run["node"], "+".join(gpus), "+".join(slots), boot, job, cpu, system
