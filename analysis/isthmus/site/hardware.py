"""GPUs, memory and profilers of a node, with the tool that reported each.

A tool may be missing, fail, print nothing, or print something unintelligible. None of this proves that the node has no
GPU or profiler: unknown facts are FILL_IN, with a note that states why.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import re
from collections.abc import Callable
from typing import Any

from isthmus import Error, spelling, tools
from isthmus.site.machine import FILL_IN, Machine

# Facts that isthmus-bench states about a GPU → capabilities. A capability must apply to all GPUs of a node.
WORDS = {
    "managed": ("managed",),
    "concurrent_managed": ("managed_demand",),
    "pageable_access": ("system",),
    "host_native_atomics": ("host_atomics",),
    "memory_pools": ("pool",),
    "virtual_memory": ("vmm",),
    "async_shared_copy": ("async",),
    "bulk_shared_copy": ("bulk",),
    "integrated": ("unified",),
}
PROFILERS = ("nsys", "ncu", "rocprofv3", "perf")
KFD = "/sys/class/kfd/kfd/topology/nodes"
PCI = "/sys/bus/pci/devices"
#: PCI vendor number → vendor, and the PCI classes of its GPUs; AMD's classes do not include desktop GPUs.
VENDORS = {"0x10de": ("NVIDIA", ("0x0300", "0x0302")), "0x1002": ("AMD", ("0x0302", "0x0380", "0x1200"))}
BACKENDS = {"NVIDIA": "cuda", "AMD": "hip"}
ASK_FOR_ALL = "request all GPUs of the node and probe again"


@dataclasses.dataclass(frozen=True)
class Kind:
    """GPUs of the same kind in a node."""

    name: str
    arch: str
    count: int | None  #: None if unknown


@dataclasses.dataclass
class Gpus:
    """GPUs of this node."""

    backend: str  #: cuda or hip
    kinds: list[Kind]
    seen_by: str
    words: set[str] = dataclasses.field(default_factory=set)
    memory: int | None = None  #: bytes of the smallest GPU

    @property
    def count(self) -> int:
        return sum(kind.count or 0 for kind in self.kinds)


@dataclasses.dataclass
class Node:
    """Hardware of this node; `notes` state the sources of facts, and why other facts are missing."""

    gpus: Gpus | None
    words: list[str]
    notes: list[str]
    is_unknown: bool  #: true if no GPU was seen but the node may have some


def look(machine: Machine) -> Node:
    """Returns the GPUs, NUMA nodes and profilers of this node."""
    notes: list[str] = []
    doubts: list[str] = []
    found = gpus(machine, notes, doubts)
    words = ["gpu", found.backend, *sorted(found.words)] if found else [FILL_IN] if doubts else []
    if numa_nodes(machine, notes) > 1:
        words.append("numa")
    words += sorted(profilers(machine, notes))
    return Node(found, words, [*doubts, *notes], bool(doubts) and not found)


def gpus(machine: Machine, notes: list[str], doubts: list[str]) -> Gpus | None:
    """Returns the GPUs of this node according to the best available tool, or None.

    Adds reasons why the node may have GPUs that no tool showed to `doubts`.
    """
    by_driver = _by_kfd(machine, notes, doubts)
    found = _by_bench(machine) or _by_nvidia_smi(machine, notes, doubts) or by_driver or _by_rocm_smi(machine, doubts)
    if found and found.backend == "cuda" and by_driver:
        notes.append(f"{_listed(by_driver.kinds)} are here as well, but a partition is built for one vendor")
    _compare_with_pci(machine, found, notes, doubts)
    if found is None:
        return None
    if len(found.kinds) > 1:
        notes.append(f"the GPUs of this node differ ({_listed(found.kinds)}): keep those that should be measured")
    if found.count > 1:
        _look_at_peers(machine, found, notes)
    if found.backend == "cuda":
        _look_at_addressing(machine, found, notes)
    elif machine.environ.get("HSA_XNACK") == "1":
        found.words.add("xnack")
        notes.append("xnack: HSA_XNACK=1 in the environment")
    return found


def summary(node: Node) -> str:
    """Returns a sentence about a node's hardware, for a configuration without a partition of this node."""
    gpus = f"{_listed(node.gpus.kinds)} ({', '.join(kind.arch for kind in node.gpus.kinds)})" if node.gpus else ""
    has = "; ".join(filter(None, (gpus, ", ".join(node.words))))
    return f"this node has {has}" if has else "no GPU was seen on this node"


def _listed(kinds: list[Kind]) -> str:
    return ", ".join(f"{'?' if kind.count is None else kind.count} × {kind.name}" for kind in kinds)


def _kinds(rows: list[tuple[str, str]]) -> list[Kind]:
    """Groups GPUs, given as (name, arch), into kinds, in order of appearance."""
    return [Kind(name, arch, count) for (name, arch), count in collections.Counter(rows).items()]


def _by_bench(machine) -> Gpus | None:
    if not machine.bench:
        return None
    answer = machine.ask(machine.bench, "info", "--json")
    if not answer.ok:
        raise Error(f"{machine.bench}: {answer.why}; name a built isthmus-bench, or leave --bench out")
    try:
        devices = _devices_of(json.loads(answer.out))
    except (ValueError, RecursionError) as error:
        why = spelling.printable(spelling.shorten(str(error), 120))
        raise Error(
            f"{machine.bench} info --json: not written by isthmus-bench ({why}), so it is not known whether there are "
            "GPUs; name a built isthmus-bench, or leave --bench out"
        ) from None
    if not devices:
        return None
    said = [set(device["capabilities"]) for device in devices]
    kinds = _kinds([(device["name"], device["arch"].partition(":")[0]) for device in devices])
    words = {word for each in set.intersection(*said) & set(WORDS) for word in WORDS[each]}
    memory = min(device.get("memory_bytes") or 0 for device in devices)
    return Gpus(devices[0]["backend"], kinds, "isthmus-bench info", words, memory)


#: Fields of a device in `info --json` → test that the value must pass, and the requirement in words.
_DEVICE: dict[str, tuple[Callable[[Any], bool], str]] = {
    "name": (lambda value: isinstance(value, str) and bool(value.strip()), "a name"),
    "arch": (lambda value: isinstance(value, str) and bool(value.strip()), "a name"),
    "backend": (lambda value: value in ("cuda", "hip"), "cuda or hip"),
    "capabilities": (
        lambda value: isinstance(value, list) and all(isinstance(word, str) for word in value), "a list of words",
    ),
    "memory_bytes": (
        lambda value: value is None or (type(value) is int and value >= 0), "a number of bytes",
    ),
}  # fmt: skip
_MAY_LACK = ("memory_bytes",)


def _devices_of(info) -> list[dict]:
    """Returns the GPUs in the output of `info --json`, or none if it is of the emulator.

    Raises ValueError if the output does not have the documented form.
    """
    if not isinstance(info, dict) or not isinstance(info.get("emulated"), bool):
        raise ValueError("emulated is neither true nor false")
    devices = info.get("devices")
    if not isinstance(devices, list) or not all(isinstance(device, dict) for device in devices):
        raise ValueError("devices is not a list of GPUs")
    if info["emulated"]:
        return []
    for number, device in enumerate(devices):
        for field, (holds, words) in _DEVICE.items():
            if field not in device and field in _MAY_LACK:
                continue
            if not holds(device.get(field)):
                raise ValueError(f"{field} of GPU {number} is {device.get(field)!r}, not {words}")
    if len({device["backend"] for device in devices}) > 1:
        raise ValueError("its GPUs are of cuda and of hip")
    return devices


# --- NVIDIA ---


def _by_nvidia_smi(machine, notes, doubts) -> Gpus | None:
    answer = machine.ask("nvidia-smi", "--query-gpu=name,compute_cap", "--format=csv,noheader")
    listed = machine.ask("nvidia-smi", "-L")
    if not answer.is_here or (_says_none(answer, NO_NVIDIA, (0, 6)) and _says_none(listed, NO_NVIDIA, (0, 6), True)):
        return None
    lines = [line.strip() for line in answer.out.splitlines() if line.strip()]
    rows = [match.groups() for line in lines if (match := re.fullmatch(r"(.+?)\s*,\s*([^,]+)", line))]
    instances, unlisted = listed_by_nvidia_smi(listed)
    if answer.ok and rows and len(rows) == len(lines):
        kinds = _kinds([(name, _architecture(name, version, notes)) for name, version in rows])
    elif rows:  # a GPU is lost, or the tool prints complaints between its lines
        odd = [line for line in lines if not re.fullmatch(r".+,[^,]+", line)]
        notes.append(f"nvidia-smi does not list all GPUs ({spelling.shorten((odd or [answer.why])[0], 120)})")
        known = _kinds([(name, _architecture(name, version, notes)) for name, version in rows])
        kinds = [dataclasses.replace(kind, count=None) for kind in known]
    elif instances:  # drivers before 510 do not support compute_cap
        notes.append(f"no architecture is known: {answer.why or 'nvidia-smi does not name it'}")
        kinds = _kinds([(name, FILL_IN) for name, _ in instances])
        if unlisted:
            kinds = [dataclasses.replace(kind, count=None) for kind in kinds]
    else:
        why = _odd(answer, NO_NVIDIA) or _odd(listed, NO_NVIDIA) or answer.why or listed.why or "nvidia-smi is odd"
        doubts.append(f"whether there are NVIDIA GPUs is not known: {why}")
        return None
    if unlisted:
        notes.append(f"MIG: not known, {unlisted}; if GPUs are split, a program uses one instance")
    return Gpus("cuda", _without_mig(kinds, instances, notes), "nvidia-smi", {"managed"})


#: Complete output of nvidia-smi and of AMD's tools on a machine without GPUs; rocm-smi prints it inside a frame.
NO_NVIDIA = re.compile(r"no devices (?:were )?found\.?", re.IGNORECASE)
NO_AMD = re.compile(r"(?:warning:|error:)?\s*no amd gpus (?:specified|found|detected)\.?", re.IGNORECASE)
_FRAME = re.compile(r"[=\s]*|=+[ \w:.-]*=+")


def _odd(answer: tools.Answer, sentence: re.Pattern) -> str:
    """Returns a line that a tool prints in addition to the statement that there is no GPU; empty if there is none."""
    lines = [line.strip() for line in (answer.out + "\n" + answer.err).splitlines() if line.strip()]
    others = [line for line in lines if not sentence.fullmatch(line) and not _FRAME.fullmatch(line)]
    if not others or len(others) == len(lines):
        return ""
    return f"{answer.command} says {spelling.printable(spelling.shorten(others[0], 120))!r}"


def _says_none(answer: tools.Answer, sentence: re.Pattern, codes: tuple[int, ...], may_be_silent: bool = False) -> bool:
    """Returns whether a tool states only that there is no GPU, and exits with one of the `codes` for this.

    Some tools do not list a lost GPU, but complain about it in other lines.
    """
    lines = [
        line.strip() for line in (answer.out + "\n" + answer.err).splitlines() if not _FRAME.fullmatch(line.strip())
    ]
    is_clean = all(sentence.fullmatch(line) for line in lines) and (bool(lines) or may_be_silent)
    return answer.is_here and is_clean and answer.code in codes


def _architecture(name: str, version: str, notes) -> str:
    if re.fullmatch(r"\d+\.\d+", version):
        return f"sm_{version.replace('.', '')}"
    note = f"nvidia-smi says {version!r} of the compute capability of {name}"
    if note not in notes:
        notes.append(note)
    return FILL_IN


def listed_by_nvidia_smi(answer: tools.Answer) -> tuple[list[tuple[str, list[str]]], str]:
    """Parses `nvidia-smi -L` into the name of each GPU with the profiles of its MIG instances.

    The second return value states why the list may be incomplete; it is empty if the list is complete.
    """
    found: list[tuple[str, list[str]]] = []
    others = []
    for line in answer.out.splitlines():
        if gpu := re.fullmatch(r"GPU \d+: (.+?)(?: \(UUID: .*\))?", line):
            found.append((gpu[1], []))
        elif found and (instance := re.match(r"\s+MIG (\S+)", line)):
            found[-1][1].append(instance[1])
        elif line.strip():
            others.append(line.strip())
    if not found and _says_none(answer, NO_NVIDIA, (0, 6)):
        return [], ""
    odd = f"{answer.command} says {spelling.printable(spelling.shorten(others[0], 120))!r}" if others else ""
    return found, odd or answer.why


def _without_mig(kinds: list[Kind], gpus: list[tuple[str, list[str]]], notes) -> list[Kind]:
    """Returns the devices that a program can use; all GPUs of a kind that are cut into MIG instances count as one."""
    whole = collections.Counter(name for name, instances in gpus if not instances)
    cut = collections.Counter(name for name, instances in gpus if instances)
    for name, count in cut.items():
        profiles = [profile for other, instances in gpus if other == name for profile in instances]
        verb, parts = "is" if count == 1 else "are", spelling.counted(len(profiles), "MIG instance")
        notes.append(
            f"{count} × {name} {verb} split into {parts} ({', '.join(sorted(set(profiles)))}): a program uses only one"
        )
    if strangers := sorted(set(cut) - {kind.name for kind in kinds}):
        notes.append(f"MIG: nvidia-smi names {', '.join(strangers)} only in its list, so all GPUs are counted as whole")
    return [
        dataclasses.replace(kind, count=min(kind.count, whole[kind.name] + 1))
        if kind.name in cut and kind.count is not None
        else kind
        for kind in kinds
    ]


def _look_at_addressing(machine, found: Gpus, notes) -> None:
    answer = machine.ask("nvidia-smi", "-q")
    modes = {mode.lower() for mode in re.findall(r"Addressing Mode\s*:\s*(\w+)", answer.out)} if answer.ok else set()
    if len(modes) == 1 and modes <= {"hmm", "ats"}:
        found.words |= modes
        notes.append(f"{', '.join(modes)}: nvidia-smi, addressing mode")
    elif len(modes) > 1:
        notes.append(f"hmm, ats: the GPUs differ in their addressing mode ({', '.join(sorted(modes))})")
    elif not modes and found.seen_by == "nvidia-smi":
        notes.append(f"hmm, ats: not known, {answer.why or 'nvidia-smi -q names no addressing mode'}")


def _look_at_peers(machine, found: Gpus, notes) -> None:
    """Adds the word `peer` if all GPUs can access each other's memory, and a note that names the tool."""
    if found.backend != "cuda":
        witness, why = ("the driver's links", "") if _linked_by_kfd(machine) else ("", "")
    else:
        answer = machine.ask("nvidia-smi", "topo", "-p2p", "r")
        row = re.compile(r"\s*GPU\d+\s+((?:(?:X|OK|[A-Z]*NS)\s*)+)$")
        lines = answer.out.splitlines() if answer.ok else []
        rows = [match.group(1).split() for line in lines if (match := row.match(line))]
        cells = {cell for row in rows for cell in row if cell != "X"}
        witness = "nvidia-smi topo -p2p" if len(rows) >= found.count and cells == {"OK"} else ""
        why = answer.why or ("" if len(rows) >= found.count else "nvidia-smi topo -p2p does not show all GPUs")
    if witness:
        found.words.add("peer")
        notes.append(f"peer: {witness}")
    elif why:
        notes.append(f"peer: not known, {why}")


# --- AMD ---


def _kfd_nodes(machine) -> tuple[dict[str, dict[str, str]], int]:
    """Returns the properties of GPUs in the AMD driver's topology, keyed by node, and the number of unreadable nodes.

    A job's control group hides the properties of GPUs that are not assigned to the job.
    """
    nodes, hidden = {}, 0
    for folder in machine.folders(f"{KFD}/*"):
        text = machine.read(f"{KFD}/{folder.name}/properties") or ""
        properties = dict(line.split(maxsplit=1) for line in text.splitlines() if " " in line.strip())
        hidden += not properties
        if any(
            properties.get(name, "0") != "0" for name in ("gfx_target_version", "simd_count")
        ):  # both are 0 or missing for a CPU
            nodes[folder.name] = properties
    return nodes, hidden


def _by_kfd(machine, notes, doubts) -> Gpus | None:
    nodes, hidden = _kfd_nodes(machine)
    if hidden:
        entries = f"{hidden} {'entry' if hidden == 1 else 'entries'} whose properties cannot be read"
        (notes if nodes else doubts).append(
            f"the driver's topology has {entries}, as happens with AMD GPUs that were not allocated to the job: "
            f"{ASK_FOR_ALL}"
        )
    if not nodes:
        return None
    archs = [_gfx(properties.get("gfx_target_version", "")) for properties in nodes.values()]
    answer = machine.ask("rocm-smi", "--showproductname")
    names = [name.strip() for name in re.findall(r"Card [Ss]eries:[ \t]*(\S.*)", answer.out)] if answer.ok else []
    if answer.is_here and not answer.ok:
        notes.append(f"names of the GPUs: not known, {answer.why}")
    if len(names) != len(archs):
        names = archs
    if FILL_IN in archs:
        notes.append("the driver's topology has a GPU without gfx_target_version, or one that is not a number")
    return Gpus("hip", _kinds(list(zip(names, archs))), "the driver's topology")


def _gfx(version: str) -> str:
    """Returns the architecture of a version such as 90010 (major 9, minor 0, stepping 10); FILL_IN if it is not a
    number."""
    if not version.isdigit():
        return FILL_IN
    number = int(version)
    return f"gfx{number // 10000}{number // 100 % 100:x}{number % 100:x}"


def _by_rocm_smi(machine, doubts) -> Gpus | None:
    """Returns the GPUs that AMD's tools list; used if the driver shows none."""
    for command in (("rocm-smi", "--showproductname"), ("amd-smi", "list")):
        answer = machine.ask(*command)
        if not answer.is_here or _says_none(answer, NO_AMD, (0,)):
            continue
        names = re.findall(r"Card [Ss]eries:[ \t]*(\S.*)", answer.out) or re.findall(r"^(GPU): \d+", answer.out, re.M)
        if answer.ok and names:
            return Gpus("hip", _kinds([(name.strip(), FILL_IN) for name in names]), command[0])
        why = _odd(answer, NO_AMD) or answer.why or f"{command[0]} lists none"
        doubts.append(f"whether there are AMD GPUs is not known: {why}")
    return None


def _linked_by_kfd(machine) -> bool:
    nodes = set(_kfd_nodes(machine)[0])
    for node in nodes:
        reached = set()
        for link in machine.folders(f"{KFD}/{node}/*_links/*"):
            text = machine.read(f"{KFD}/{node}/{link.parent.name}/{link.name}/properties") or ""
            reached |= set(re.findall(r"^node_to (\d+)$", text, re.MULTILINE))
        if not nodes - {node} <= reached:
            return False
    return bool(nodes)


# --- comparison with the PCI bus ---


def _compare_with_pci(machine, found: Gpus | None, notes, doubts) -> None:
    """Compares the found GPUs with the PCI bus, which also shows GPUs without a driver or not assigned to the job."""
    seen: collections.Counter[str] = collections.Counter()
    for folder in machine.folders(f"{PCI}/*"):
        name, classes = VENDORS.get(machine.read(f"{PCI}/{folder.name}/vendor") or "", ("", ()))
        seen[name] += (machine.read(f"{PCI}/{folder.name}/class") or "").startswith(classes) if classes else 0
    for name, count in seen.items():
        if found is None and count:
            doubts.append(f"the PCI bus has {spelling.counted(count, f'{name} GPU')}, and no tool shows any")
        elif found and found.backend == BACKENDS.get(name) and count > found.count > 0:
            notes.append(f"the PCI bus has {count} {name} GPUs: {ASK_FOR_ALL}")


# --- memory and profilers ---


def numa_nodes(machine, notes: list[str]) -> int:
    """Counts the NUMA nodes with processors and memory; a GPU's memory may also be a node, but without processors."""
    folders = machine.folders("/sys/devices/system/node/node[0-9]*")
    if not folders:
        notes.append("numa: not known, /sys/devices/system/node does not exist")
    count = 0
    for folder in folders:
        node = f"/sys/devices/system/node/{folder.name}"
        memory = re.search(r"MemTotal:\s*(\d+)", machine.read(f"{node}/meminfo") or "")
        count += bool(machine.read(f"{node}/cpulist") and memory and int(memory.group(1)))
    return count


def profilers(machine, notes: list[str]) -> set[str]:
    """Returns the profilers that can be used here; adds notes on why other installed profilers cannot."""
    found = set()
    for name in PROFILERS:
        answer = machine.ask(name, "--version")
        if answer.ok:
            found.add(name)
        elif answer.is_here:
            notes.append(f"{name} is here, but {answer.why}")
    toolkits = {machine.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if machine.environ.get(name)}
    if any(machine.folders(f"{kit}/extras/CUPTI/lib*/libcupti.so*") for kit in toolkits | {"/usr/local/cuda"}):
        found.add("cupti")
    admin = re.search(r"RmProfilingAdminOnly: (\d)", machine.read("/proc/driver/nvidia/params") or "")
    if "ncu" in found and admin and admin.group(1) == "1":  # cupti needs no counters for calls and copies
        found.discard("ncu")
        notes.append("ncu is here, but only root may read the GPU's counters")
    paranoid = machine.read("/proc/sys/kernel/perf_event_paranoid")
    if "perf" in found and paranoid and paranoid.lstrip("-").isdigit() and int(paranoid) > 2:
        found.discard("perf")
        notes.append(f"perf is here, but perf_event_paranoid is {paranoid}")
    return found
