"""Batch system of a machine: recognising it, its partitions, and how its jobs start ranks.

If the batch system is unknown or does not answer, the scheduler is FILL_IN rather than "none".
"""

from __future__ import annotations

import dataclasses
import re
import socket
from typing import NamedTuple

from isthmus import Error, spelling
from isthmus.site import sinfo
from isthmus.site.machine import FILL_IN, Machine


@dataclasses.dataclass(frozen=True)
class System:
    """Kind of batch system: how it is recognised, and how ReFrame requests nodes from it."""

    name: str
    scheduler: str = FILL_IN  #: ReFrame's name for the scheduler
    commands: tuple[str, ...] = ()  #: commands; a machine with this batch system has at least one of them
    variables: tuple[str, ...] = ()  #: variables that are set in this batch system's jobs
    question: tuple[str, ...] = ()  #: command that succeeds if the batch system works
    queue: str = FILL_IN  #: option that chooses a queue
    queue_variable: str = ""
    account: str = FILL_IN  #: option that names the account to charge
    gpus: tuple[str, ...] = (FILL_IN,)  #: options that request a node's GPUs
    submit_host: str = ""  #: variable with the name of the login node


SLURM = System(
    "Slurm", "slurm", ("sinfo",), ("SLURM_JOB_ID",), ("sinfo", "-h", "-o", "%R"), "--partition=", "SLURM_JOB_PARTITION",
    "--account=", ("--gpus-per-node={num_gpus_per_node}",), "SLURM_SUBMIT_HOST",
)  # fmt: skip
FLUX = System(
    "Flux", "flux-batch", ("flux",), ("FLUX_JOB_ID", "FLUX_URI"), ("flux", "resource", "info"), "--queue=",
    "FLUX_JOB_QUEUE", "--bank=", (),
)  # fmt: skip
PBS = System(
    "PBS", "pbs", ("qsub",), ("PBS_JOBID",), (), "-q ", "PBS_QUEUE", "-A ", ("ngpus={num_gpus_per_node}",), "PBS_O_HOST"
)
LSF = System(
    "LSF", "lsf", ("bsub",), ("LSB_JOBID",), ("lsid",), "-q ", "LSB_QUEUE", "-P ",
    ("-gpu num={num_gpus_per_node}",), "LSB_SUB_HOST",
)  # fmt: skip
#: Supported batch systems, in the order in which they are tried; PBS is late because others also have a `qsub`.
SYSTEMS = (
    SLURM,
    FLUX,
    LSF,
    System("OAR", "oar", ("oarsub",), ("OAR_JOB_ID",), queue="-q ", account="--project="),
    System("Grid Engine", "sge", ("qconf",), ("SGE_O_WORKDIR",), queue="-q ", queue_variable="QUEUE", account="-A "),
    System("Cobalt", commands=("cqsub", "cqstat"), variables=("COBALT_JOBID",)),
    PBS,
    System("HTCondor", commands=("condor_submit",), variables=("_CONDOR_JOB_AD",)),
    System("LoadLeveler", commands=("llsubmit",), variables=("LOADL_STEP_ID",)),
)
LOCAL = System("no batch system", "local")
#: Pattern of variables that look like a job's, but are set by CI systems.
_NO_BATCH = re.compile(r"(CI|GITHUB|GITLAB|BUILD|JENKINS|TRAVIS|CIRCLE|BITBUCKET)_.*")


class Batch(NamedTuple):
    """Batch system of a machine, with ReFrame's names for its scheduler and for the launcher of its jobs."""

    system: System
    scheduler: str
    launcher: str


def batch(machine: Machine, notes: list[str]) -> Batch:
    """Returns the machine's batch system, with ReFrame's scheduler and launcher.

    Adds notes for the person who completes the configuration to `notes`.
    """
    system = _system(machine, notes)
    if system is SLURM:
        return Batch(system, _of_slurm(machine, notes), "ibrun" if machine.has("ibrun") else "srun")
    if system is LOCAL:
        return Batch(system, "local", "mpirun" if machine.has("mpirun") else "local")
    if system.scheduler == FILL_IN and system.name:
        notes.append(f"ReFrame has no scheduler for {system.name}: register one, or write the partition by hand")
    return Batch(system, system.scheduler, _launcher(machine, system, notes))


def _system(machine, notes) -> System:
    """Returns the batch system of the current job or, outside a job, the first one that answers.

    If none answers, returns a system without a name if there are signs of one, otherwise LOCAL.
    """
    inside = [each for each in SYSTEMS if any(machine.environ.get(name) for name in each.variables)]
    if inside:
        if len(inside) > 1:
            names = " and ".join(each.name for each in inside)
            notes.append(f"this job seems to be one of {names}: {inside[0].name} is chosen")
        if inside[0].question and (why := machine.ask(*inside[0].question).why):
            notes.append(f"{inside[0].name} does not list its partitions: {why}")
        return inside[0]
    silent = []
    for each in SYSTEMS:
        if not any(map(machine.has, each.commands)):
            continue
        answer = machine.ask(*each.question) if each.question else None
        if answer is None or answer.ok:
            return each
        silent.append(f"{each.name} may be the batch system, but {answer.why}")
    unknown = _unknown_job(machine)
    if unknown:
        silent.append(f"{unknown} is set, as in a job of an unknown batch system")
    notes += silent
    return System("") if silent else LOCAL


def _unknown_job(machine) -> str | None:
    """Returns the name of a variable that only jobs of an unsupported batch system have, or None."""
    names = sorted(name for name, value in machine.environ.items() if value)
    return next((n for n in names if re.fullmatch(r"(\w+_)?JOB_?ID", n) and not _NO_BATCH.fullmatch(n)), None)


def _of_slurm(machine, notes) -> str:
    """Returns `slurm`, which gets exit codes from sacct, or `squeue` if Slurm's accounting is unavailable."""
    answer = machine.ask("sacct", "-n", "-X", "-j", "1")
    if answer.ok:
        return "slurm"
    if answer.is_here and "disabled" not in answer.err:
        notes.append(f"squeue, which needs no accounting: {answer.why}; choose 'slurm' once that works")
    return "squeue"


def _launcher(machine, system: System, notes) -> str:
    if system is FLUX:
        return "flux-run"
    if system is PBS:
        answer = machine.ask("qstat", "--version")
        if answer.is_here and not re.search(r"pbs_version|^PBS", answer.out + answer.err, re.MULTILINE):
            why = "" if answer.ok else f" ({answer.why})"
            notes.append(f"qstat --version does not say which PBS this is{why}: ReFrame calls the other one 'torque'")
        return "pals" if "CRAY_MPICH_DIR" in machine.environ else "mpiexec"
    found = next((name for name in ("mpirun", "lrun", "mpiexec") if machine.has(name)), None)
    if found is None:
        other = next((name for name in ("jsrun", "aprun", "prun") if machine.has(name)), None)
        notes.append(
            f"launcher: ReFrame has none for {other}; register one, or load an MPI that has mpirun"
            if other
            else "launcher: there is no mpirun; load an MPI and probe again"
        )
    return found or FILL_IN


# --- partitions ---


@dataclasses.dataclass
class Partition:
    """Partition, or those of its nodes that are of one kind."""

    name: str  #: scheduler's name for the partition
    limit: str | None = None  #: maximum duration of a job in the scheduler's notation
    gpus: list[sinfo.NodeGpus] = dataclasses.field(default_factory=list)  #: GPUs of a node according to the scheduler
    gres: str = ""  #: GPUs of a node in the scheduler's notation
    here: bool = False  #: true if this node belongs to the partition
    kind: str | None = None  #: type of the GPUs, if the partition has nodes with different types
    is_unclear: bool = False  #: true if the scheduler's description of GPUs cannot be understood
    notes: list[str] = dataclasses.field(default_factory=list)
    identifier: str = ""

    @property
    def time_limit(self) -> str:
        """Time limit in ReFrame's notation: an hour, or less if the partition allows less. FILL_IN if the partition's
        limit is zero or cannot be understood."""
        try:
            longest = sinfo.seconds_of(self.limit or "")
        except ValueError:
            return FILL_IN
        if longest == 0:
            return FILL_IN
        return _duration(min(3600, longest or 3600))

    def options(self, options) -> list[str]:
        """Returns the options that request a node's GPUs.

        They include the type of the GPUs if the partition has nodes with different types.
        """
        if self.kind is None:
            return list(options)
        types, number = {gpus.type for gpus in self.gpus}, "{num_gpus_per_node}"
        return (
            [option.replace(number, f"{self.kind}:{number}") for option in options]
            if types == {self.kind}
            else [FILL_IN]
        )


def _duration(seconds: int) -> str:
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return "".join(f"{value}{unit}" for value, unit in ((hours, "h"), (minutes, "m"), (seconds, "s")) if value)


def partitions(machine: Machine, system: System, named: str | None, notes: list[str]) -> list[Partition]:
    """Returns the scheduler's partitions, this node's first, or a single one if the scheduler cannot be queried.

    `named` selects one. Raises Error if the scheduler has no such partition.
    """
    found = _of_sinfo(machine, named, notes) if system is SLURM else []
    if not found:
        queue = machine.environ.get(system.queue_variable) if system.queue_variable else None
        found = [Partition(named or queue or ("local" if system is LOCAL else FILL_IN), here=True)]
    found.sort(key=lambda partition: not partition.here)
    taken: set[str] = set()
    for partition in found:
        base = re.sub(r"[^A-Za-z0-9_-]", "_", "_".join(filter(None, (partition.name, partition.kind))))
        base = base if re.match("[A-Za-z_]", base) else f"p{base}"
        numbers = (f"{base}{number or ''}" for number in range(len(found) + 1))
        partition.identifier = next(each for each in numbers if each not in taken)
        taken.add(partition.identifier)
    return found


def _of_sinfo(machine, named: str | None, notes) -> list[Partition]:
    answer = machine.ask("sinfo", "-h", "-o", "%R|%l|%G")
    rows: dict[str, list[tuple[str, str]]] = {}
    for line in filter(str.strip, answer.out.splitlines() if answer.ok else []):
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 3 and cells[0]:
            rows.setdefault(cells[0], []).append((cells[1], cells[2]))
        else:
            notes.append(f"sinfo prints {spelling.shorten(line, 60)!r}, which does not describe a partition")
    if named and rows and named not in rows:
        hint = spelling.did_you_mean(named, rows) or f"; sinfo has {', '.join(rows)}"
        raise Error(f"there is no partition {named!r} here{hint}")
    if not rows:
        notes.append(f"partitions: not known, {answer.why or 'sinfo lists none that can be read'}")
    node = machine.environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]
    chosen = named or machine.environ.get("SLURM_JOB_PARTITION")
    mine = {chosen} if chosen else _of_node(machine, node, notes)
    return [part for name, lines in rows.items() for part in _kinds(machine, node, name, lines, name in mine)]


def _of_node(machine, node: str, notes) -> set[str]:
    """Returns the partitions of this node; adds a note if sinfo lists none."""
    answer = machine.ask("sinfo", "-h", "-n", node, "-o", "%R")
    if not answer.ok:
        notes.append(f"it is not known to which partition this node belongs: {answer.why}; give --partition")
        return set()
    if answer.is_empty:
        notes.append(f"sinfo lists no partition with this node, {node}; give --partition if it belongs to one")
    return set(answer.out.split())


def _kinds(machine, node: str, name: str, lines: list[tuple[str, str]], here: bool) -> list[Partition]:
    """Returns a partition, split by type of GPU if its nodes have different types."""
    limit, notes = lines[0][0], []
    groups: dict[tuple[str, ...], list[tuple[list[sinfo.NodeGpus], str]]] = {}
    for _, gres in lines:
        gpus, unreadable = sinfo.gpus_of(gres)
        notes += [f"the scheduler says {entry}, which cannot be read" for entry in unreadable]
        groups.setdefault(tuple(each.type for each in gpus), []).append((gpus, gres))
    with_gpus = {types: group for types, group in groups.items() if types}
    if len({line[0] for line in lines}) > 1:
        notes.append(f"time limits differ: {', '.join(sorted({line[0] for line in lines}))}")
    if not with_gpus:
        return [Partition(name, limit, here=here, is_unclear="which cannot be read" in str(notes), notes=notes)]
    if () in groups:
        notes.append("some nodes of the partition have no GPU")
    is_split = len(with_gpus) > 1
    own, why = _types_here(machine, node, name) if is_split and here else (None, "")
    own = own if own in groups else None
    found = []
    for types, group in with_gpus.items():
        gpus, gres = min(group, key=lambda each: sum(gpus.count for gpus in each[0]))
        own_notes = list(notes)
        if len({words for _, words in group}) > 1:
            own_notes.append(
                f"its nodes differ ({', '.join(sorted({words for _, words in group}))}): the least is stated"
            )
        if any(map(sinfo.MIG.fullmatch, types)):
            own_notes.append("these are MIG instances, of which a program uses only one: state what it should see")
        elif len(types) > 1:
            own_notes.append("the GPUs of a node differ: keep those that should be measured")
        if is_split and here and own is None:
            own_notes.append(f"sinfo does not say which of the partition's kinds of node this is{why}")
        is_here = here and (not is_split or own == types)
        kind = "-".join(filter(None, types)) if is_split else None
        found.append(Partition(name, limit, gpus, gres, is_here, kind, notes=own_notes))
    return found


def _types_here(machine, node: str, name: str) -> tuple[tuple[str, ...] | None, str]:
    """Returns the types of this node's GPUs according to sinfo, or None and why they are unknown."""
    answer = machine.ask("sinfo", "-h", "-n", node, "-p", name, "-o", "%G")
    lines = [line for line in answer.out.splitlines() if line.strip()]
    if answer.ok and len(lines) == 1:
        return tuple(each.type for each in sinfo.gpus_of(lines[0])[0]), ""
    return None, f": {answer.why}" if answer.why else ""


# --- modules and MPI ---


def modules(machine: Machine, notes: list[str]) -> tuple[str, list[str]]:
    """Returns ReFrame's name for the modules system (FILL_IN if its kind is unknown), and the modules that are
    currently loaded."""
    loaded = [name for name in machine.environ.get("LOADEDMODULES", "").split(":") if name]
    if machine.environ.get("LMOD_CMD"):
        return "lmod", loaded
    if machine.environ.get("MODULES_CMD"):
        return "tmod4", loaded
    if loaded or machine.environ.get("MODULESHOME"):
        notes.append("modules_system: modules are here, but neither Lmod (LMOD_CMD) nor Modules 4 (MODULES_CMD)")
        return FILL_IN, loaded
    return "nomod", loaded


def mpi_variables(machine: Machine, launcher: str, notes: list[str]) -> list[list[str]]:
    """Returns variables that the launcher needs to start ranks of this machine's MPI.

    Open MPI needs PMIx from srun, and by default refuses to run as root. A variable also prevents srun from binding
    ranks.
    """
    if launcher in ("mpirun", "mpiexec") and machine.is_root:
        answer = machine.ask(launcher, "--version")
        if answer.is_here and not answer.ok:
            notes.append(f"it is not known whether {launcher} starts for root: {answer.why}")
        if "Open MPI" in answer.out or "OpenRTE" in answer.out:
            return [["OMPI_ALLOW_RUN_AS_ROOT", "1"], ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"]]
    if launcher != "srun":
        return []
    kinds = machine.ask("srun", "--mpi=list") if machine.has("ompi_info") else None
    if kinds and not kinds.ok:
        notes.append(f"it is not known which MPI srun starts: {kinds.why}")
    pmix = [["SLURM_MPI_TYPE", "pmix"]] if kinds and kinds.ok and re.search(r"\bpmix\b", kinds.out + kinds.err) else []
    return [*pmix, ["SLURM_CPU_BIND", "none"]]


def has_mpi(machine: Machine, launcher: str, variables: list[list[str]], notes: list[str], *, is_local: bool) -> bool:
    """Returns whether programs can be built with an MPI whose ranks the launcher can start.

    Adds what is missing to `notes`.
    """
    wrapper = next(
        filter(machine.has, ("mpicxx", *(("CC", "cc") if "CRAY_MPICH_DIR" in machine.environ else ()))), None
    )
    if wrapper is None:
        notes.append("mpi: no compiler of MPI was found")
        return False
    if why := _failure(machine.ask(wrapper, "--version")):
        notes.append(f"mpi: {wrapper} is here, but {why}")
        return False
    if launcher in ("local", FILL_IN):
        notes.append(f"mpi: {wrapper} is here, but no launcher that starts ranks")
        return False
    if is_local and launcher == "mpirun":  # two ranks, as in the checks
        start = machine.ask(
            "mpirun", "-n", "2", "--bind-to", "core", "true", environ={each[0]: each[1] for each in variables}
        )
        if why := _failure(start):
            notes.append(f"mpi: {wrapper} is here, but two ranks do not start: {why}")
            return False
        notes.append(f"mpi: {wrapper}, started by {launcher}")
    else:
        notes.append(f"mpi: {wrapper}, to be started by {launcher}: this was not tried, since it needs a job")
    return True


def _failure(answer) -> str:
    return "" if answer.ok else answer.why
