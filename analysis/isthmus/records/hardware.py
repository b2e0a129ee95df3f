"""Machines of records: finds records of equal hardware, so that figures of unequal machines are never mixed.

Machines are distinguished by the system's name, the GPU's model and the number of GPUs in the *host*, its processor,
cores, NUMA nodes and memory, the links between GPUs and to them, MIG and the power limit. A record names only the GPUs
that its process used, or none if it used only the CPU; other records of the same host complete these facts.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from isthmus import spelling, units
from isthmus.grouping import grouped

if TYPE_CHECKING:
    from isthmus.records import store  # for types only, since it imports DuckDB, which is not always needed


@dataclasses.dataclass(frozen=True)
class Facts:
    """Hardware as one record describes it; only GPUs that its process used are counted."""

    system: str
    node: str
    cpu: str
    cores: int
    numa_nodes: int
    memory: int  # bytes
    device: str  # "" without a GPU
    gpus: int
    links: int
    pcie_width: int
    mig: str
    power_limit: float  # watts

    @property
    def host(self) -> tuple:
        return self.system, self.node, self.cpu, self.cores, self.numa_nodes, self.memory

    @property
    def gpu(self) -> tuple:
        return self.device, self.mig, self.power_limit


#: SQL for each field of Facts over the table of records, in the order of the fields.
COLUMNS = {
    "system": "coalesce(system, '')",
    "node": "node",
    "cpu": "coalesce(cpu, '')",
    "cores": "coalesce(cores, 0)",
    "numa_nodes": "coalesce(numa_nodes, 0)",
    "memory": "coalesce(memory, 0)",
    "device": "coalesce(device, '')",
    "gpus": "CASE WHEN coalesce(device, '') = '' THEN 0 ELSE greatest(1, len(string_split(gpus, '+'))) END",
    "links": "coalesce(links, 0)",
    "pcie_width": "coalesce(pcie_width, 0)",
    "mig": "coalesce(mig, '')",
    "power_limit": "coalesce(power_limit, 0)",
}
WANTED = tuple(COLUMNS)


def _joined(values) -> str:
    return "+".join(sorted({str(value) for value in values if value is not None}))


def _of_devices(devices: list[dict]) -> dict:
    states = [device.get("state") or {} for device in devices]
    links = [(state.get("pcie") or device.get("pcie") or {}) for state, device in zip(states, devices, strict=True)]
    limits = [state.get("power_limit_w") for state in states]
    return {
        "device": _joined(device.get("name") for device in devices),
        "gpus": len(devices),
        "links": min((len(device.get("links") or []) for device in devices), default=0),
        "pcie_width": min((link["width"] for link in links if link.get("width")), default=0),
        "mig": _joined(str(state["mig"]).lower() for state in states if state.get("mig") is not None),
        "power_limit": min((limit for limit in limits if limit), default=0.0),
    }


def facts(case: dict) -> Facts:
    """Returns the facts of a record, which equal those that COLUMNS selects from its row."""
    host = case["host"]
    return Facts(
        case["run"].get("system") or "",
        case["run"]["node"],
        host.get("cpu") or "",
        host.get("cores") or 0,
        host.get("numa_nodes") or 0,
        host.get("memory_bytes") or 0,
        **_of_devices(case["devices"]),
    )


@dataclasses.dataclass(frozen=True)
class Machine(Facts):
    """Kind of host: all hosts with equal hardware. All GPUs of the host are counted, and `node` is empty.

    Memory is rounded to steps of 6%, since hosts of one kind differ by some megabytes.
    """


def machines(found) -> dict[Facts, Machine]:
    """Returns the machine to which each of these facts belongs."""
    result = {}
    for alike in grouped((each.host, each) for each in found).values():
        kinds = {each.gpu for each in alike if each.device}
        for each in alike:
            gpu = each.gpu if each.device or len(kinds) != 1 else next(iter(kinds))
            same = [other for other in alike if other.gpu == gpu]
            most = {name: max(getattr(other, name) for other in same) for name in ("gpus", "links", "pcie_width")}
            device, mig, power = gpu
            memory = round(math.exp(0.06 * round(math.log(each.memory) / 0.06))) if each.memory > 0 else 0
            of_host = {"node": "", "memory": memory, "device": device, "mig": mig, "power_limit": power, **most}
            result[each] = Machine(**(dataclasses.asdict(each) | of_host))
    return result


def name_machines(opened: store.Store) -> list[Machine]:
    """Returns all machines, and creates the view `measured`: measurements with an index into this list as `machine`."""
    columns = ", ".join(f'{expression} AS "f_{name}"' for name, expression in COLUMNS.items())
    rows = opened.sql(f"SELECT DISTINCT {columns} FROM measurements").fetchall()
    machine_of = machines([Facts(*row) for row in rows])
    found = list(dict.fromkeys(machine_of.values()))
    numbers = {machine: number for number, machine in enumerate(found)}
    kinds = ", ".join(
        f"f_{field.name} {({'str': 'VARCHAR', 'int': 'BIGINT', 'float': 'DOUBLE'})[str(field.type)]}"
        for field in dataclasses.fields(Facts)
    )
    opened.sql(f"CREATE OR REPLACE TEMP TABLE machine_of ({kinds}, machine INTEGER)")
    marks = ", ".join("?" * (len(COLUMNS) + 1))
    for facts, machine in machine_of.items():
        opened.sql(f"INSERT INTO machine_of VALUES ({marks})", [*dataclasses.astuple(facts), numbers[machine]])
    joined = " AND ".join(f"f_{name} = ({expression})" for name, expression in COLUMNS.items())
    opened.sql(f"CREATE OR REPLACE TEMP VIEW measured AS SELECT * FROM measurements JOIN machine_of ON {joined}")
    return found


def _words(machine: Machine) -> dict[str, str]:
    """Returns words for each fact that may distinguish machines."""
    return {
        "cpu": machine.cpu if machine.device else "",
        "cores": spelling.counted(machine.cores, "core"),
        "numa_nodes": spelling.counted(machine.numa_nodes, "NUMA node"),
        "memory": f"{units.quantity(machine.memory, 'B')} of memory",
        "links": spelling.counted(machine.links, "link"),
        "pcie_width": f"PCIe ×{machine.pcie_width}",
        "mig": "MIG" if machine.mig == "true" else "no MIG",
        "power_limit": f"{machine.power_limit:g} W",
    }


def titles(found: list[Machine]) -> dict[Machine, str]:
    """Returns a name for each machine: the number and model of GPUs, and the system.

    Other facts are appended only if machines with the same name differ in them.
    """
    names = {}
    for machine in found:
        title = f"{machine.gpus} × {machine.device}" if machine.gpus > 1 else machine.device
        names[machine] = ", ".join(filter(None, (title or machine.cpu or "unknown hardware", machine.system)))
    result = {}
    for machine in found:
        alike = [other for other in found if names[other] == names[machine]]
        words = _words(machine)
        differing = [
            words[field] for field in words
            if words[field] and len({getattr(other, field) for other in alike}) > 1
        ]  # fmt: skip
        result[machine] = ", ".join([names[machine], *differing])
    return result
