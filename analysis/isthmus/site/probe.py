"""Writes a first version of a site's configuration from what this node shows.

Run it on a compute node of the partition: `srun --partition=… --gpus-per-node=… isthmus site probe NAME`. It looks for
GPUs, peer access, NUMA nodes, page faults, profilers, scheduler, launcher and modules: by isthmus-bench where there is
one, by what the system has where not. What was seen stands there with its witness; what could not be seen is FILL_IN,
which `isthmus site check` names until a person has filled it in.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess

import jinja2

from isthmus import Error, exits, spelling
from isthmus.references import site_tree

# What the program says of a GPU, and the words for it. Each of a node's GPUs must say it.
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
FILL_IN = "FILL_IN"


def add_arguments(parser):
    parser.add_argument("name", help="what the site is called, in records and as a folder")
    parser.add_argument("--partition", metavar="NAME", help="the scheduler's name for this node's partition")
    parser.add_argument("--bench", help="isthmus-bench, which knows most of a GPU (default: $ISTHMUS_BENCH)")
    parser.add_argument("--write", action="store_true", help="into site-configs/NAME/, which must not exist yet")
    site_tree.add_root(parser)


def run(arguments) -> int:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", arguments.name):
        raise Error(f"{arguments.name!r} cannot be a site's name; take small letters, digits, - and _")
    machine = Machine(bench=arguments.bench or os.environ.get("ISTHMUS_BENCH"))
    text = configuration(arguments.name, machine, arguments.partition)
    if not arguments.write:
        print(text, end="")
        return exits.PASSED
    folder = site_tree.root_of(arguments.root) / "site-configs" / arguments.name
    try:
        folder.mkdir()
        (folder / "reframe.py").write_text(text, encoding="utf-8")
        (folder / "README.md").write_text(readme(arguments.name, machine), encoding="utf-8")
    except FileExistsError:
        raise Error(f"{folder} is there already; nothing was changed") from None
    except OSError as error:
        raise Error(f"{folder}: {error.strerror}") from None
    print(f"wrote {folder}/reframe.py and README.md; fill in what `isthmus site check {arguments.name}` names")
    return exits.PASSED


# --- looking ---


@dataclasses.dataclass
class Machine:
    """This node, by its files and commands."""

    bench: str | None = None
    root: pathlib.Path = pathlib.Path("/")
    environ: dict = dataclasses.field(default_factory=lambda: dict(os.environ))
    is_root: bool = dataclasses.field(default_factory=lambda: os.geteuid() == 0)

    def has(self, command: str) -> bool:
        return shutil.which(command, path=self.environ.get("PATH")) is not None

    def ask(self, *command: str, errors: bool = False) -> str | None:
        """What a command prints, with `errors` on stderr, too; None where it is not there, fails, or takes a minute."""
        if not self.has(command[0]):
            return None
        try:
            result = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=60, env=self.environ, errors="replace",
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return None
        if result.returncode:
            return None
        return result.stdout + (result.stderr if errors else "")

    def read(self, path: str) -> str | None:
        try:
            return (self.root / path.lstrip("/")).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return None

    def folders(self, pattern: str) -> list[pathlib.Path]:
        return sorted(self.root.glob(pattern.lstrip("/")))


@dataclasses.dataclass
class Gpus:
    backend: str  #: cuda or hip
    arch: str
    count: int
    name: str
    seen_by: str
    words: set[str] = dataclasses.field(default_factory=set)
    notes: list[str] = dataclasses.field(default_factory=list)
    memory: int | None = None  #: bytes of the smallest


def gpus(machine: Machine) -> Gpus | None:
    """The GPUs of this node, by the best witness; None where none is seen."""
    found = _by_bench(machine) or _by_nvidia_smi(machine) or _by_kfd(machine)
    if found is None:
        return None
    if found.count > 1 and (witness := _peers(machine, found)):
        found.words.add("peer")
        found.notes.append(f"peer: {witness}")
    said = re.search(r"Addressing Mode\s*:\s*(\w+)", machine.ask("nvidia-smi", "-q") or "")
    mode = said[1].lower() if said else ""
    if mode in ("hmm", "ats"):
        found.words.add(mode)
        found.notes.append(f"{mode}: nvidia-smi, addressing mode")
    if found.backend == "hip" and machine.environ.get("HSA_XNACK") == "1":
        found.words.add("xnack")
        found.notes.append("xnack: HSA_XNACK=1 in the environment")
    return found


def _by_bench(machine) -> Gpus | None:
    if not machine.bench:
        return None
    answer = machine.ask(machine.bench, "info", "--json")
    if answer is None:
        raise Error(f"{machine.bench} info --json fails; name a built isthmus-bench, or leave --bench out")
    try:
        info = json.loads(answer)
        devices = [] if info["emulated"] else info["devices"]
        said = [set(device["capabilities"]) for device in devices]
        archs = sorted({device["arch"].partition(":")[0] for device in devices})
        memory = min((device.get("memory_bytes") or 0 for device in devices), default=0)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Error(f"{machine.bench} info --json: not what isthmus-bench says ({error})") from None
    if not devices:
        return None
    words = {word for each in set.intersection(*said) & set(WORDS) for word in WORDS[each]}
    notes = [f"GPUs differ: {', '.join(archs)}"] if len(archs) > 1 else []
    first = devices[0]
    return Gpus(first["backend"], archs[0], len(devices), first["name"], "isthmus-bench info", words, notes, memory)


def _by_nvidia_smi(machine) -> Gpus | None:
    answer = machine.ask("nvidia-smi", "--query-gpu=name,compute_cap", "--format=csv,noheader")
    rows = [[cell.strip() for cell in line.split(",")] for line in (answer or "").splitlines() if "," in line]
    if not rows:
        return None
    digits = re.sub(r"\D", "", rows[0][-1])  # N/A with old drivers
    return Gpus("cuda", f"sm_{digits}" if digits else FILL_IN, len(rows), rows[0][0], "nvidia-smi", {"managed"})


def _kfd_nodes(machine) -> dict[str, dict[str, str]]:
    """The GPUs that the AMD driver shows, by node number: their properties."""
    nodes = {}
    for folder in machine.folders("/sys/class/kfd/kfd/topology/nodes/*"):
        text = machine.read(f"/sys/class/kfd/kfd/topology/nodes/{folder.name}/properties") or ""
        properties = dict(line.split(maxsplit=1) for line in text.splitlines() if " " in line)
        if properties.get("gfx_target_version", "0") not in ("0", ""):
            nodes[folder.name] = properties
    return nodes


def _by_kfd(machine) -> Gpus | None:
    nodes = _kfd_nodes(machine)
    if not nodes:
        return None
    properties = next(iter(nodes.values()))
    version = int(properties["gfx_target_version"])  # 90010: major 9, minor 0, stepping 10
    arch = f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"
    said = re.findall(r"Card [Ss]eries:\s*(.+)", machine.ask("rocm-smi", "--showproductname") or "")
    return Gpus("hip", arch, len(nodes), said[0].strip() if said else arch, "the driver's topology")


def _peers(machine, found: Gpus) -> str | None:
    """Who says that every two GPUs reach each other's memory."""
    if found.backend == "cuda":
        matrix = machine.ask("nvidia-smi", "topo", "-p2p", "r") or ""
        row = re.compile(r"\s*GPU\d+\s+((?:(?:X|OK|[A-Z]*NS)\s*)+)$")
        rows = [match.group(1).split() for line in matrix.splitlines() if (match := row.match(line))]
        cells = [cell for row in rows for cell in row if cell != "X"]
        return "nvidia-smi topo -p2p" if len(rows) >= found.count and cells and set(cells) == {"OK"} else None
    nodes = set(_kfd_nodes(machine))
    for node in nodes:
        reached = set()
        for link in machine.folders(f"/sys/class/kfd/kfd/topology/nodes/{node}/*_links/*/properties"):
            text = link.read_text(encoding="utf-8", errors="replace")
            reached |= set(re.findall(r"^node_to (\d+)$", text, re.MULTILINE))
        if not nodes - {node} <= reached:
            return None
    return "the driver's links"


def numa_nodes(machine) -> int:
    """Nodes with processors and memory: a GPU's memory may be a node, too, but has no processors."""
    count = 0
    for folder in machine.folders("/sys/devices/system/node/node[0-9]*"):
        node = f"/sys/devices/system/node/{folder.name}"
        memory = re.search(r"MemTotal:\s*(\d+)", machine.read(f"{node}/meminfo") or "")
        count += bool(machine.read(f"{node}/cpulist") and memory and int(memory.group(1)))
    return count


def profilers(machine) -> tuple[set[str], list[str]]:
    """Those that can be used here, and why others that are here cannot."""
    found, notes = {name for name in PROFILERS if machine.has(name)}, []
    toolkits = {machine.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if machine.environ.get(name)}
    if any(machine.folders(f"{kit}/extras/CUPTI/lib*/libcupti.so*") for kit in toolkits | {"/usr/local/cuda"}):
        found.add("cupti")
    admin = re.search(r"RmProfilingAdminOnly: (\d)", machine.read("/proc/driver/nvidia/params") or "")
    if "ncu" in found and admin and admin.group(1) == "1":  # cupti counts calls and copies without counters
        found.discard("ncu")
        notes.append("ncu is here, but only root may read the GPU's counters")
    paranoid = machine.read("/proc/sys/kernel/perf_event_paranoid")
    if "perf" in found and paranoid and paranoid.lstrip("-").isdigit() and int(paranoid) > 2:
        found.discard("perf")
        notes.append(f"perf is here, but perf_event_paranoid is {paranoid}")
    return found, notes


def scheduler(machine) -> tuple[str, str]:
    """Scheduler and launcher, as ReFrame calls them."""
    if machine.ask("sinfo", "-h", "-o", "%R") is not None:
        accounting = machine.ask("sacct", "-n", "-X", "-j", "1") is not None
        return ("slurm" if accounting else "squeue"), ("ibrun" if machine.has("ibrun") else "srun")
    if machine.ask("flux", "resource", "info") is not None:
        return "flux-batch", "flux-run"
    if machine.has("qsub"):
        return "pbs", "pals" if "CRAY_MPICH_DIR" in machine.environ else "mpiexec"
    return "local", "mpirun" if machine.has("mpirun") else "local"


@dataclasses.dataclass
class Partition:
    name: str
    time_limit: str | None = None
    gpus: str | None = None  #: what the scheduler says of them, as gpu:a100:4
    here: bool = False  #: whether this node is one of it

    @property
    def identifier(self) -> str:
        return re.sub(r"[^A-Za-z0-9_-]", "_", self.name)

    @property
    def limit(self) -> str:
        return _limit(self.time_limit)

    @property
    def gpu_count(self) -> int:
        number = re.search(r"gpu(?::[\w.-]+)?:(\d+)", self.gpus or "")
        return int(number[1]) if number else 0


def partitions(machine, kind: str, named: str | None) -> list[Partition]:
    """Those of the scheduler; of a scheduler that cannot be asked, one."""
    if kind not in ("slurm", "squeue"):
        default = {"flux-batch": machine.environ.get("FLUX_JOB_QUEUE"), "pbs": machine.environ.get("PBS_QUEUE")}
        return [Partition(named or default.get(kind) or ("local" if kind == "local" else FILL_IN), here=True)]
    node = machine.environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]
    mine = set((machine.ask("sinfo", "-h", "-n", node, "-o", "%R") or "").split())
    if named or "SLURM_JOB_PARTITION" in machine.environ:
        mine = {named or machine.environ["SLURM_JOB_PARTITION"]}
    found: dict[str, Partition] = {}
    for line in (machine.ask("sinfo", "-h", "-o", "%R|%l|%G") or "").splitlines():
        name, limit, gres = [*line.split("|"), "", ""][:3]
        entry = found.setdefault(name, Partition(name, here=name in mine))
        entry.time_limit = None if limit in ("infinite", "") else limit
        if "gpu" in gres:
            entry.gpus = gres
    if named and named not in found:
        hint = spelling.did_you_mean(named, found) or f"; sinfo has {', '.join(found)}"
        raise Error(f"there is no partition {named!r} here{hint}")
    return sorted(found.values(), key=lambda partition: not partition.here)


def modules(machine) -> tuple[str, list[str]]:
    """The modules system as ReFrame calls it, and what is loaded."""
    loaded = [name for name in machine.environ.get("LOADEDMODULES", "").split(":") if name]
    if machine.environ.get("LMOD_CMD"):
        return "lmod", loaded
    return ("tmod4" if machine.environ.get("MODULES_CMD") else "nomod"), loaded


def mpi_variables(machine, launcher: str) -> list[list[str]]:
    """What lets the launcher start ranks of the MPI that is here: Open MPI wants PMIx of srun, and refuses root.

    srun is told to bind none.
    """
    if (
        launcher in ("mpirun", "mpiexec")
        and machine.is_root
        and "Open MPI" in (machine.ask(launcher, "--version") or "")
    ):
        return [["OMPI_ALLOW_RUN_AS_ROOT", "1"], ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"]]
    if launcher != "srun":
        return []
    kinds = machine.ask("srun", "--mpi=list", errors=True) if machine.has("ompi_info") else None
    pmix = [["SLURM_MPI_TYPE", "pmix"]] if re.search(r"\bpmix\b", kinds or "") else []
    return [*pmix, ["SLURM_CPU_BIND", "none"]]


def has_mpi(machine) -> bool:
    return any(machine.has(compiler) for compiler in ("mpicc", "mpicxx", "cc")) and (
        machine.has("mpicxx") or "CRAY_MPICH_DIR" in machine.environ
    )


# --- writing ---


#: How a scheduler is asked for a queue, an account and GPUs; others than these as Slurm is.
_QUEUE = {"flux-batch": "--queue=", "pbs": "-q "}
_ACCOUNT = {"flux-batch": "--bank=", "pbs": "-A "}
_GPUS = {"flux-batch": [], "pbs": ["ngpus={num_gpus_per_node}"]}


def configuration(name: str, machine: Machine, named: str | None) -> str:
    """The text of reframe.py. What this node shows is said of its own partitions only."""
    kind, launcher = scheduler(machine)
    found, (modules_system, loaded) = gpus(machine), modules(machine)
    tools, why_not = profilers(machine)
    words = ["gpu", found.backend, *sorted(found.words)] if found else []
    words += ["numa"] if numa_nodes(machine) > 1 else []
    submit_host = machine.environ.get("SLURM_SUBMIT_HOST") or machine.environ.get("PBS_O_HOST")
    here = socket.gethostname()
    folder = jinja2.FileSystemLoader(pathlib.Path(__file__).parent)
    environment = jinja2.Environment(
        loader=folder,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"text": _text, "printable": spelling.printable}
    return environment.get_template("reframe.py.jinja").render(
        name=name, here=here, FILL_IN=FILL_IN, host=host_pattern(here if kind == "local" else submit_host),
        plugin={"flux-batch": "flux_batch", "pals": "pals"}.get(kind if kind == "flux-batch" else launcher),
        modules_system=modules_system, loaded=loaded, scheduler=kind, launcher=launcher,
        queue=_QUEUE.get(kind, "--partition="), account=_ACCOUNT.get(kind, "--account="),
        gpu_options=_GPUS.get(kind, ["--gpus-per-node={num_gpus_per_node}"]), gpus=found,
        words=[*words, *sorted(tools)], notes=[*(found.notes if found else []), *why_not],
        partitions=partitions(machine, kind, named),
        mpi_variables=mpi_variables(machine, launcher), has_mpi=has_mpi(machine),
    )  # fmt: skip


def _text(value) -> str:
    """As JSON, which is Python, too, of texts and lists of them."""
    return json.dumps(value, ensure_ascii=False)


def host_pattern(host: str | None) -> str:
    """A regular expression for the node and those that differ from it by numbers: login\\d+."""
    if not host or not re.fullmatch(r"[\w.-]+", host):
        return FILL_IN
    return re.sub(r"\d+", r"\\d+", host.replace(".", r"\."))


def _limit(longest: str | None) -> str:
    """ReFrame's way of writing: an hour, or what the partition allows where that is less."""
    days, _, clock = (longest or "").rpartition("-")
    parts = [int(part) for part in clock.split(":") if part.isdigit()]
    minutes = 60
    if parts and not days:
        hours, left = (parts[0], parts[1]) if len(parts) == 3 else (0, parts[0])
        minutes = min(60, hours * 60 + left) or 60
    return "1h" if minutes == 60 else f"{minutes}m"


def readme(name: str, machine: Machine) -> str:
    return (
        f"# {name}\n\nA first version by `isthmus site probe`, on {socket.gethostname()}. "
        "Say here what is stated and where that is documented, and what a first run has shown.\n\n"
        f"    reframe -C site-configs/{name}/reframe.py -c reframe/checks -r -t smoke\n"
    )
