"""Finds the common mistakes in site configurations before a job is submitted.

Errors are what goes wrong, or passes without a word; notes are what a person still has to fill in or may mean so.
With --bench, or $ISTHMUS_BENCH, references are compared with every workload, metric and axis that the program lists;
without, with those that are the same on every machine.

exit codes: 0 no errors; 1 errors were found; 2 bad input, as an unknown site
"""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import re
import shutil
import socket
import subprocess
import sys

from isthmus import Error, exits, spelling, units
from isthmus.references import lookup, site_tree
from isthmus.site import capabilities

SETTINGS = {
    "capabilities",
    "require_reference",
    "pcie",
    "links",
    "shared_nodes",
    "device_memory",
    "host_memory",
    "maintainers",
}
PLACEHOLDER = re.compile(r"ACCOUNT|PROJECT|FILL_IN|<[a-z]+>")
ARCHITECTURE = re.compile(r"sm_\d{2,3}[af]?|gfx[0-9a-f]{3,4}")
# Names of a site's login nodes, one a line, that its patterns are tried on.
LOGIN_NODES = "login-nodes.txt"
# Launchers that are commands of one batch system.
LAUNCHERS_OF = {"srun": ("slurm", "squeue"), "ibrun": ("slurm", "squeue"), "flux-run": ("flux-batch",)}
# Modules that bring HPE's MPI, for which no command of another MPI starts ranks.
OF_HPE = re.compile(r"(PrgEnv-|cray-mpich|craype)")
# Sites that are no machine: they fit any host, and need no Spack environment.
PATTERNS = ("generic", "example")


@dataclasses.dataclass(frozen=True)
class Finding:
    level: str  #: "error" or "note"
    where: str
    what: str

    def __str__(self):
        return f"{self.level}: {self.where}: {self.what}"


def add_arguments(parser):
    parser.add_argument("sites", nargs="*", metavar="SITE", help="names of folders in site-configs/ (default: all)")
    site_tree.add_root(parser)
    parser.add_argument("--bench", help="isthmus-bench, to hold references against (default: $ISTHMUS_BENCH)")
    parser.add_argument("--quiet", action="store_true", help="errors only")


def run(arguments) -> int:
    root = site_tree.root_of(arguments.root)
    names = arguments.sites or site_tree.sites(root)
    if not names:
        raise Error(f"no site in {root / 'site-configs'}")
    known = Known(root, arguments.bench or os.environ.get("ISTHMUS_BENCH"))
    patterns = host_patterns(root)
    errors = 0
    for name in names:
        path = site_tree.configuration_of(root, name)
        findings = Site(root, name, path, known, patterns).findings()
        errors += sum(finding.level == "error" for finding in findings)
        for finding in findings:
            if finding.level == "error" or not arguments.quiet:
                print("\n".join(spelling.fold(f"{name}: {finding}")))
    print(f"{spelling.counted(len(names), 'site')}, {spelling.counted(errors, 'error')}", file=sys.stderr)
    return exits.FOUND if errors else exits.PASSED


def host_patterns(root) -> dict[str, list[str]]:
    """Which sites each pattern of host names stands in; a site that cannot be read says so elsewhere."""
    found = collections.defaultdict(list)
    for name in site_tree.sites(root):
        try:
            configuration = site_tree.load(site_tree.configuration_of(root, name))
        except Error:
            continue
        for system in configuration["systems"]:
            for pattern in system.get("hostnames", []):
                found[pattern].append(name)
    return found


class Known:
    """What the suite measures; with the program, what it makes of this machine, too."""

    def __init__(self, root, bench: str | None):
        self.catalogue = json.loads((root / "reframe/checks/catalogue.json").read_text(encoding="utf-8"))
        if bench:
            listed = {w["name"]: w for w in listing(bench)["workloads"]}
            fixed = [w for w in self.catalogue["workloads"] if w["name"] not in listed]
            self.catalogue["workloads"] = [*fixed, *listed.values()]
        self.modes, self.sizes = list(self.catalogue["modes"]), self.catalogue["sizes"]
        self.workloads = {w["name"]: w for w in self.catalogue["workloads"]}


def listing(bench: str) -> dict:
    """`isthmus-bench list --json`. Raises Error."""
    try:
        result = subprocess.run([bench, "list", "--json"], capture_output=True, text=True, check=False, timeout=120)
        if result.returncode == 0:
            return json.loads(result.stdout)
        why = result.stderr.strip().splitlines()[-1:] or [f"exit code {result.returncode}"]
    except OSError as error:
        raise Error(f"{bench}: {error.strerror}; name a built isthmus-bench with --bench") from None
    except (ValueError, subprocess.TimeoutExpired) as error:
        why = [str(error)]
    raise Error(f"{bench} list --json: {spelling.shorten(why[0])}; name a built isthmus-bench with --bench")


class Site:
    """One site's files, and what is wrong with them."""

    def __init__(self, root, name, path, known: Known, patterns):
        self.root, self.name, self.path, self.known, self.patterns = root, name, path, known, patterns
        self.is_pattern = name.startswith(PATTERNS)
        self._findings: list[Finding] = []

    def error(self, where, what):
        self._findings.append(Finding("error", where, what))

    def note(self, where, what):
        self._findings.append(Finding("note", where, what))

    def unknown(self, where, word, known, what):
        """A word that nothing asks for: an error where it looks like a slip, else the site's own."""
        hint = spelling.did_you_mean(word, known)
        (self.error if hint else self.note)(where, f"{word!r} is {what}{hint}")

    def findings(self) -> list[Finding]:
        try:
            configuration = site_tree.load(self.path)
        except Error as error:
            self.error("reframe.py", str(error))
            return self._findings
        if not (self.path.parent / "README.md").is_file():
            self.error("README.md", "missing; a page that says what is stated, and where that is documented")
        self._against_schema()
        if self._findings and self._findings[-1].where == "reframe.py":
            return self._findings  # what follows takes the schema for granted
        try:
            self._look(configuration)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # Without ReFrame nothing has seen the schema.
            self.error("reframe.py", f"not a configuration of ReFrame ({type(error).__name__}: {error})")
        return self._findings

    def _look(self, configuration):
        environments = self._environments(configuration)
        for system in configuration["systems"]:
            self._system(system, environments)
        self._login_nodes([p for s in configuration["systems"] for p in s.get("hostnames", []) if _compiles(p)])
        self._references([p["name"] for s in configuration["systems"] for p in s.get("partitions", [])])

    def _against_schema(self):
        """What ReFrame itself refuses, where ReFrame is installed."""
        try:
            from reframe.core.config import load_config
            from reframe.core.exceptions import ReframeError
        except ModuleNotFoundError:
            return
        path = sys.path[:]  # ReFrame takes another's entry away where a configuration adds one at the front
        try:
            load_config(str(self.path)).validate()
        # It reads some parts before it checks their shape.
        except (ReframeError, ValueError, TypeError, AttributeError, LookupError) as error:
            self.error("reframe.py", f"ReFrame refuses it: {' '.join(str(error).split())[:300]}")
        finally:
            sys.path[:] = path

    # --- environments ---

    def _environments(self, configuration) -> dict[str, list[dict]]:
        """By name. Several of one name are for several systems."""
        found: dict[str, list[dict]] = collections.defaultdict(list)
        for environment in configuration.get("environments", []):
            name = environment.get("name", "?")
            where = f"environment {name}"
            for other in found[name]:
                if set(other.get("target_systems", ["*"])) & set(environment.get("target_systems", ["*"])):
                    self.error(where, "defined twice for one system; the later one hides the other")
            found[name].append(environment)
            for word in environment.get("features", []):
                if word not in capabilities.PROGRAMMING and word not in capabilities.BACKENDS:
                    known = [*capabilities.PROGRAMMING, *capabilities.BACKENDS]
                    self.unknown(where, word, known, "a feature of an environment that no check asks for")
            spack = environment.get("extras", {}).get("spack_environment")
            # What Spack installed has no environments: nothing is built from there.
            installed = not (self.root / "scripts/spack-environment").is_file()
            if spack and not installed and not (self.root / spack / "spack.yaml").is_file():
                self.error(where, f"its Spack environment {spack}/spack.yaml is missing")
        return found

    # --- systems and partitions ---

    def _system(self, system, environments):
        name = system.get("name", "?")
        if not self.is_pattern and name != self.name:
            self.note(f"system {name}", f"records will say {name!r}, the folder is {self.name!r}")
        for pattern in system.get("hostnames", []):
            self._hostname(f"system {name}", pattern)
        taken = set()
        for partition in system.get("partitions", []):
            where = f"{name}:{partition.get('name', '?')}"
            if partition.get("name") in taken:
                self.error(where, "two partitions have this name")
            taken.add(partition.get("name"))
            self._environs(where, partition, system, environments)
            self._jobs(where, partition, system)
            self._launcher(where, partition, environments)
            self._access(where, partition)
            self._capabilities(where, partition)

    def _hostname(self, where, pattern):
        if not _compiles(pattern):
            self.error(where, f"hostname {pattern!r} is no regular expression")
            return
        if self.is_pattern:
            return
        if PLACEHOLDER.search(pattern):
            self.note(where, f"hostname {pattern!r} is a placeholder; name the login nodes")
            return
        if pattern.startswith(r"\."):
            self.error(where, f"hostname {pattern!r} fits no host: it is compared from the beginning of the name")
        if pattern in (".*", ".+", ""):
            self.note(where, f"hostname {pattern!r} takes every machine for this one; name the login nodes")
        others = sorted({other for other in self.patterns[pattern] if other != self.name})
        if others or self.patterns[pattern].count(self.name) > 1:
            whom = ", ".join(others) or "another system of this file"
            self.error(where, f"hostname {pattern!r} is also that of {whom}; the first one read wins")

    def _login_nodes(self, own: list[str]):
        """Whether the names in login-nodes.txt, where there is one, are of this machine and of no other."""
        path = self.path.parent / LOGIN_NODES
        if not path.is_file():
            return
        lines = [line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
        for name in filter(None, lines):
            if not any(re.match(pattern, name) for pattern in own):
                self.error(LOGIN_NODES, f"no pattern of 'hostnames' fits {name}: a session there would be refused")
            fitting = [p for p in self.patterns if _compiles(p) and re.match(p, name)]
            others = {site for p in fitting for site in self.patterns[p] if not site.startswith(PATTERNS)} - {self.name}
            if others:
                self.error(LOGIN_NODES, f"{name} is also a host of {', '.join(sorted(others))}")

    def _environs(self, where, partition, system, environments):
        names = partition.get("environs", [])
        if not names:
            self.error(where, "lists no environment ('environs'), so no check runs there")
        for name in names:
            targets = [set(e.get("target_systems", ["*"])) for e in environments.get(name, [])]
            mine = {"*", system.get("name"), where}
            if not any(target & mine for target in targets) and name != "builtin":
                hint = spelling.did_you_mean(name, environments) or "; define it under 'environments'"
                self.error(where, f"environment {name!r} is not defined for this system{hint}")

    def _jobs(self, where, partition, system):
        scheduler, launcher = partition.get("scheduler"), partition.get("launcher")
        local = scheduler in ("local", "ssh")
        if scheduler == "flux":
            self.error(where, "ReFrame's scheduler 'flux' asks for no GPU and no queue; take 'flux-batch'")
        elif scheduler:
            self._backend(where, "scheduler", scheduler)
        if launcher:
            self._backend(where, "launcher", launcher)
        if not local and launcher == "local":
            self.error(where, f"launcher 'local' under {scheduler} starts no ranks; take the scheduler's own, as srun")
        if local and partition.get("max_jobs", 8) != 1:
            self.error(where, "several local jobs at once perturb each other's figures; set max_jobs to 1")
        if not local and not partition.get("time_limit"):
            self.note(where, "no time_limit: a job that sets none runs to the queue's limit")
        here = any(re.match(p, socket.gethostname()) for p in system.get("hostnames", []) if _compiles(p))
        if scheduler == "slurm" and here and (why := no_accounting()):
            self.error(where, f"scheduler 'slurm' needs accounting, but {why}; take 'squeue'")

    def _launcher(self, where, partition, environments):
        """Whether the launcher is the batch system's, and starts ranks of the MPI that is loaded."""
        scheduler, launcher = partition.get("scheduler"), partition.get("launcher")
        own = LAUNCHERS_OF.get(launcher)
        if own and scheduler not in (*own, "local", "ssh"):
            self.error(where, f"launcher {launcher!r} is a command of {own[0]}, the scheduler is {scheduler!r}")
        if launcher not in ("mpiexec", "mpirun"):
            return
        for name in partition.get("environs", []):
            modules = [each for e in environments.get(name, []) for each in e.get("modules", [])]
            names = [each.get("name", "") if isinstance(each, dict) else str(each) for each in modules]
            if found := next(filter(OF_HPE.match, names), None):
                self.error(
                    where,
                    f"launcher {launcher!r} with {found}: HPE's MPI is started by 'srun' under Slurm, else by 'pals' "
                    "(reframe/plugins/pals.py), whose mpiexec takes --cpu-bind",
                )

    def _backend(self, where, kind, name):
        """Whether ReFrame, with what the file registered, has this scheduler or launcher."""
        try:
            from reframe.core import backends
            from reframe.core.exceptions import ConfigError
        except ModuleNotFoundError:
            return
        try:
            {"scheduler": backends.getscheduler, "launcher": backends.getlauncher}[kind](name)
        except ConfigError as error:
            known = getattr(backends, f"_{kind}s", {})
            self.error(where, f"{kind} {name!r}: {error}{spelling.did_you_mean(name, known)}")

    def _access(self, where, partition):
        for option in partition.get("access", []):
            if PLACEHOLDER.search(option):
                self.note(where, f"access {option!r} is a placeholder; fill it in")
            if partition.get("scheduler") == "pbs" and option.startswith("--"):
                self.error(where, f"access {option!r}: qsub of PBS has no options of two dashes")
            if re.search(r"\s-", option.strip()):
                self.error(where, f"access {option!r} has several options; one string for each")

    def _capabilities(self, where, partition):
        features = list(partition.get("features", []))
        settings = partition.get("extras", {}).get("isthmus", {})
        for key in settings:
            if key not in SETTINGS:
                self.unknown(f"{where} extras", key, SETTINGS, "no setting of the checks")
        stated = {*features, *settings.get("capabilities", [])}
        if why := capabilities.refused(stated):
            self.error(where, why)
        for word in sorted(stated - set(capabilities.CAPABILITIES) - set(capabilities.OLD)):
            self.unknown(where, word, capabilities.CAPABILITIES, "a feature that no check asks for")
        gpus = [device for device in partition.get("devices", []) if device.get("type") == "gpu"]
        self._gpus(where, partition, stated, gpus)
        people = settings.get("maintainers", [])
        if not isinstance(people, list) or not all(isinstance(each, str) for each in people):
            self.error(where, "maintainers is no list of names")
        elif not people and not self.is_pattern:
            self.note(where, "no maintainers in extras.isthmus: a red check names nobody to ask")
        required = settings.get("require_reference", False)
        if not isinstance(required, bool) and not isinstance(required, list):
            self.error(where, "require_reference is neither True nor a list of metrics")
        for key in settings.keys() & {"device_memory", "host_memory"}:
            try:
                units.amount(str(settings[key]))
            except ValueError:
                self.error(where, f"{key} is {settings[key]!r}; write an amount such as '80GiB'")

    def _gpus(self, where, partition, stated, gpus):
        backends = {capabilities.BACKENDS[word] for word in stated if word in capabilities.BACKENDS}
        if len(backends) > 1:
            self.error(where, "states both CUDA and HIP; a partition is built for one of them")
        if not (gpus or backends or "gpu" in stated):
            for word in sorted(stated & capabilities.OF_GPUS):
                self.error(where, f"states {word!r} but no GPU; add 'gpu' and devices, or drop the word")
            return
        if not gpus:
            self._lacks(where, "states a GPU but no devices; add [{'type': 'gpu', 'arch': 'sm_90', 'num_devices': 4}]")
        if not stated & {"gpu", *capabilities.BACKENDS}:
            self.error(where, "has GPUs among its devices, but not the feature 'gpu': checks that ask for it pass by")
        for device in gpus:
            self._device(where, device, backends)
        if "peer" in stated and gpus and sum(device.get("num_devices", 0) for device in gpus) < 2:
            self.error(where, "states 'peer' with fewer than two GPUs")
        if "xnack" in stated and ["HSA_XNACK", "1"] not in [list(map(str, v)) for v in partition.get("env_vars", [])]:
            self.error(where, "states 'xnack' without ['HSA_XNACK', '1'] in env_vars")
        self._resources(where, partition)

    def _lacks(self, where, words):
        """An error; a note in a pattern, which leaves it to the sites that are made from it."""
        (self.note if self.is_pattern else self.error)(where, words)

    def _device(self, where, device, backends):
        arch = device.get("arch")
        if not arch:
            self._lacks(where, "a device without 'arch': the build then takes what the login node has")
        elif not ARCHITECTURE.fullmatch(arch):
            self.error(where, f"arch {arch!r} is neither like sm_90 nor like gfx942")
        elif backends and backends != {"cuda" if arch.startswith("sm_") else "hip"}:
            self.error(where, f"arch {arch!r} is not of the vendor that is stated ({', '.join(sorted(backends))})")
        if not device.get("num_devices"):
            self.error(where, "a device without 'num_devices': a node that has lost a GPU would pass")

    def _resources(self, where, partition):
        if partition.get("scheduler") in ("local", "ssh"):
            return
        resources = {resource.get("name"): resource.get("options", []) for resource in partition.get("resources", [])}
        if "gpu" not in resources:
            near = spelling.did_you_mean("gpu", resources) or "; its options are [] where GPUs come with the node"
            self.error(where, f"no resource 'gpu', so jobs ask for none{near}")
        for option in resources.get("gpu", []):
            for word in re.findall(r"{(\w*)}", option):
                if word != "num_gpus_per_node":
                    self.error(where, f"resource gpu: {{{word}}} is never filled in; it is {{num_gpus_per_node}}")

    # --- references ---

    def _references(self, partitions):
        seen: dict[tuple, str] = {}
        for path in sorted((self.path.parent / "references").glob("*")):
            if path.is_dir():
                continue  # read where a file names it by $ref
            if path.suffix != ".yaml":
                self.error(f"references/{path.name}", "not read: files end in .yaml")
                continue
            try:
                entries = lookup.load_file(path)
            except lookup.BadReference as error:
                self.error("references", str(error))
                continue
            for sentence in lookup.problems(entries, self.known.catalogue):
                self.error("references", sentence + self._nearest(sentence))
            for entry in entries:
                self._reference(entry, partitions, seen)

    def _nearest(self, sentence: str) -> str:
        """What a name that fits nothing may have been meant to be."""
        wrong = re.findall(r"'([^']*)'", sentence)[-1]
        if "no workload of" in sentence:
            return spelling.did_you_mean(wrong, self.known.workloads)
        metrics = {name for workload in self.known.workloads.values() for name in workload.get("metrics", [])}
        return spelling.did_you_mean(wrong, metrics | {*self.known.modes, *self.known.sizes})

    def _reference(self, entry, partitions, seen):
        """What only a site's configuration, or the program, can tell of an entry."""
        chosen = entry.selectors.get("partition")
        if chosen is not None and not any(re.fullmatch(chosen, name) for name in partitions):
            hint = spelling.did_you_mean(chosen, partitions) or f"; there are {', '.join(partitions)}"
            self.error(entry.where, f"no partition is called {chosen!r}{hint}")
        pattern = entry.selectors.get("workload", ".*")
        fitting = [w for name, w in self.known.workloads.items() if re.fullmatch(pattern, name)]
        # The program's list has all of this machine, the catalogue has no families.
        listed = [workload["axes"] for workload in fitting if isinstance(workload.get("axes"), list)]
        axes = {axis["name"] for described in listed for axis in described}
        for axis in set(entry.axes) - axes if axes else ():
            self.error(entry.where, f"no axis {axis!r} here{spelling.did_you_mean(axis, axes)}")
        for metric in entry.metrics:
            key = json.dumps([metric, entry.selectors, entry.axes], sort_keys=True, default=str)
            if key in seen:
                self.error(entry.where, f"a second reference for {metric}; the first is {seen[key]}")
            seen.setdefault(key, entry.where)


def _compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def no_accounting() -> str | None:
    """Why Slurm on this machine has no accounting; None where it has, or where there is no Slurm."""
    if not shutil.which("sinfo"):
        return None
    if not shutil.which("sacct"):
        return "there is no sacct"
    command = ["sacct", "-n", "-X", "-j", "1"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"sacct does not answer ({error})"
    if result.returncode:
        return f"sacct says {spelling.shorten(result.stderr.strip(), 80)!r}"
    return None
