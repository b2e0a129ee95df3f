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

from isthmus import Error, capabilities, cli, records, site_tree

SELECTORS = ("workload", "mode", "size", "partition", "driver")
SETTINGS = {"capabilities", "require_reference"}
PLACEHOLDER = re.compile(r"ACCOUNT|PROJECT|FILL_IN|<[a-z]+>")
ARCHITECTURE = re.compile(r"sm_\d{2,3}[af]?|gfx[0-9a-f]{3,4}")
MADE = {"transfer", "latency", "stream", "atomics", "alloc", "fault", "accounting"}
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
                print(f"{name}: {finding}")
    print(f"{len(names)} site(s), {errors} error(s)", file=sys.stderr)
    return cli.FOUND if errors else cli.PASSED


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
    """What the suite measures: workloads with their metrics and axes, units, families."""

    def __init__(self, root, bench: str | None):
        catalogue = json.loads((root / "reframe/checks/catalogue.json").read_text(encoding="utf-8"))
        self.modes, self.sizes = list(catalogue["modes"]), catalogue["sizes"]
        self.workloads = {w["name"]: w for w in catalogue["workloads"]}
        if bench:
            self.workloads |= {w["name"]: w for w in listing(bench)["workloads"]}
        schema = json.loads(records.schema_path().read_text(encoding="utf-8"))
        self.units = schema["properties"]["metrics"]["items"]["properties"]["unit"]["enum"]
        #: Families that a machine makes its workloads of; only the program lists them.
        self.made = set() if bench else MADE
        self.families = {*MADE, *(name.partition("/")[0] for name in self.workloads)}


def listing(bench: str) -> dict:
    """`isthmus-bench list --json`. Raises Error."""
    try:
        result = subprocess.run([bench, "list", "--json"], capture_output=True, text=True, check=False, timeout=120)
        if result.returncode == 0:
            return json.loads(result.stdout)
        why = result.stderr.strip().splitlines()[-1:] or [f"exit code {result.returncode}"]
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        why = [str(error)]
    raise Error(f"{bench} list --json: {records.shorten(why[0])}; name a built isthmus-bench with --bench")


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
        hint = site_tree.did_you_mean(word, known)
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
        environments = self._environments(configuration)
        for system in configuration["systems"]:
            self._system(system, environments)
        self._references([p["name"] for s in configuration["systems"] for p in s.get("partitions", [])])
        return self._findings

    def _against_schema(self):
        """What ReFrame itself refuses, where ReFrame is installed."""
        try:
            from reframe.core.config import load_config
            from reframe.core.exceptions import ReframeError
        except ModuleNotFoundError:
            return
        try:
            load_config(str(self.path)).validate()
        except (ReframeError, ValueError) as error:
            self.error("reframe.py", f"ReFrame refuses it: {' '.join(str(error).split())[:300]}")

    # --- environments ---

    def _environments(self, configuration) -> dict[str, list[dict]]:
        """By name. Several of one name are for several systems."""
        found = collections.defaultdict(list)
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
            if spack and not (self.root / spack / "spack.yaml").is_file():
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
        if pattern in (".*", ".+", ""):
            self.note(where, f"hostname {pattern!r} takes every machine for this one; name the login nodes")
        others = sorted({other for other in self.patterns[pattern] if other != self.name})
        if others or self.patterns[pattern].count(self.name) > 1:
            whom = ", ".join(others) or "another system of this file"
            self.error(where, f"hostname {pattern!r} is also that of {whom}; the first one read wins")

    def _environs(self, where, partition, system, environments):
        names = partition.get("environs", [])
        if not names:
            self.error(where, "lists no environment ('environs'), so no check runs there")
        for name in names:
            targets = [set(e.get("target_systems", ["*"])) for e in environments.get(name, [])]
            mine = {"*", system.get("name"), where}
            if not any(target & mine for target in targets) and name != "builtin":
                hint = site_tree.did_you_mean(name, environments) or "; define it under 'environments'"
                self.error(where, f"environment {name!r} is not defined for this system{hint}")

    def _is_here(self, system) -> bool:
        """Whether this machine is one of the system's."""
        name = socket.gethostname()
        return any(re.match(pattern, name) for pattern in system.get("hostnames", []) if _compiles(pattern))

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
        if scheduler == "slurm" and self._is_here(system) and (why := no_accounting()):
            self.error(where, f"scheduler 'slurm' needs accounting, but {why}; take 'squeue'")

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
            self.error(where, f"{kind} {name!r}: {error}{site_tree.did_you_mean(name, known)}")

    def _access(self, where, partition):
        for option in partition.get("access", []):
            if PLACEHOLDER.search(option):
                self.note(where, f"access {option!r} is a placeholder; fill it in")
            if re.search(r"\s-", option.strip()):
                self.error(where, f"access {option!r} has several options; one string for each")

    def _capabilities(self, where, partition):
        features = list(partition.get("features", []))
        settings = partition.get("extras", {}).get("isthmus", {})
        for key in settings:
            if key not in SETTINGS:
                self.unknown(f"{where} extras", key, SETTINGS, "no setting of the checks")
        stated = {*features, *settings.get("capabilities", [])}
        for word in sorted(stated - set(capabilities.CAPABILITIES)):
            self.unknown(where, word, capabilities.CAPABILITIES, "a feature that no check asks for")
        gpus = [device for device in partition.get("devices", []) if device.get("type") == "gpu"]
        self._gpus(where, partition, stated, gpus)
        required = settings.get("require_reference", False)
        if not isinstance(required, bool) and not isinstance(required, list):
            self.error(where, "require_reference is neither True nor a list of metrics")

    def _gpus(self, where, partition, stated, gpus):
        backends = {capabilities.BACKENDS[word] for word in stated if word in capabilities.BACKENDS}
        if len(backends) > 1:
            self.error(where, "states both CUDA and HIP; a partition is built for one of them")
        has_gpu = bool(gpus or backends or "gpu" in stated)
        if not has_gpu:
            for word in sorted(stated & capabilities.OF_GPUS):
                self.error(where, f"states {word!r} but no GPU; add 'gpu' and devices, or drop the word")
            return
        report = self.note if self.is_pattern else self.error
        if not gpus:
            report(where, "states a GPU but no devices; add [{'type': 'gpu', 'arch': 'sm_90', 'num_devices': 4}]")
        if not stated & {"gpu", *capabilities.BACKENDS}:
            self.error(where, "has GPUs among its devices, but not the feature 'gpu': checks that ask for it pass by")
        for device in gpus:
            arch = device.get("arch")
            if not arch:
                report(where, "a device without 'arch': the build then takes what the login node has")
            elif not ARCHITECTURE.fullmatch(arch):
                self.error(where, f"arch {arch!r} is neither like sm_90 nor like gfx942")
            elif backends and backends != {"cuda" if arch.startswith("sm_") else "hip"}:
                self.error(where, f"arch {arch!r} is not of the vendor that is stated ({', '.join(sorted(backends))})")
            if not device.get("num_devices"):
                self.error(where, "a device without 'num_devices': a node that has lost a GPU would pass")
        if "peer" in stated and gpus and sum(device.get("num_devices", 0) for device in gpus) < 2:
            self.error(where, "states 'peer' with fewer than two GPUs")
        if "xnack" in stated and ["HSA_XNACK", "1"] not in [list(map(str, v)) for v in partition.get("env_vars", [])]:
            self.error(where, "states 'xnack' without ['HSA_XNACK', '1'] in env_vars")
        self._resources(where, partition)

    def _resources(self, where, partition):
        if partition.get("scheduler") in ("local", "ssh"):
            return
        resources = {resource.get("name"): resource.get("options", []) for resource in partition.get("resources", [])}
        if "gpu" not in resources:
            near = site_tree.did_you_mean("gpu", resources) or "; its options are [] where GPUs come with the node"
            self.error(where, f"no resource 'gpu', so jobs ask for none{near}")
        for option in resources.get("gpu", []):
            for word in re.findall(r"{(\w*)}", option):
                if word != "num_gpus_per_node":
                    self.error(where, f"resource gpu: {{{word}}} is never filled in; it is {{num_gpus_per_node}}")

    # --- references ---

    def _references(self, partitions):
        import yaml

        seen = {}
        for path in sorted((self.path.parent / "references").glob("*")):
            if path.suffix != ".yaml":
                self.error(f"references/{path.name}", "not read: files end in .yaml")
                continue
            try:
                entries = yaml.safe_load(path.read_text(encoding="utf-8")) or []
            except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
                self.error(f"references/{path.name}", f"cannot be read ({' '.join(str(error).split())[:200]})")
                continue
            if not isinstance(entries, list):
                self.error(f"references/{path.name}", "not a list of entries")
                continue
            for number, entry in enumerate(entries, 1):
                self._reference(f"references/{path.name}, entry {number}", entry, partitions, seen)

    def _reference(self, where, entry, partitions, seen):
        if not isinstance(entry, dict) or not isinstance(entry.get("metrics"), dict):
            self.error(where, "not a mapping with 'metrics'")
            return
        known = [*SELECTORS, "axes", "metrics"]
        for key in set(entry) - set(known):
            self.error(where, f"unknown key {key!r}{site_tree.did_you_mean(key, known) or f'; choose from {known}'}")
        selectors = {}
        for key in SELECTORS:
            if key in entry:
                try:
                    selectors[key] = re.compile(str(entry[key]))
                except re.error as error:
                    self.error(where, f"{key} {entry[key]!r} is no regular expression ({error})")
        for key, choices in (("partition", partitions), ("mode", self.known.modes), ("size", self.known.sizes)):
            if key in selectors and not any(map(selectors[key].fullmatch, choices)):
                hint = site_tree.did_you_mean(entry[key], choices) or f"; choose from {', '.join(choices)}"
                self.error(where, f"no {key} is called {entry[key]!r}{hint}")
        axes = entry.get("axes", {})
        if not isinstance(axes, dict):
            self.error(where, "'axes' is not a mapping of an axis to its value")
            axes = {}
        workloads = self._matched(where, entry, selectors)
        self._axes(where, axes, workloads)
        for metric, bound in entry["metrics"].items():
            self._bound(where, metric, bound, workloads)
            key = json.dumps([metric, {k: v for k, v in entry.items() if k != "metrics"}], sort_keys=True, default=str)
            if key in seen:
                self.error(where, f"a second reference for {metric}; the first is {seen[key]}")
            seen.setdefault(key, where)

    def _matched(self, where, entry, selectors) -> list[dict]:
        """The known workloads that an entry is for; none where they are made by the machine and nobody listed them."""
        pattern = selectors.get("workload")
        if pattern is None:
            return [] if "workload" in entry else list(self.known.workloads.values())
        matched = [w for name, w in self.known.workloads.items() if pattern.fullmatch(name)]
        family = str(entry["workload"]).partition("/")[0]
        if matched:
            return matched
        if family.isidentifier() and family not in self.known.made:
            hint = site_tree.did_you_mean(entry["workload"], self.known.workloads)
            hint = hint or site_tree.did_you_mean(family, self.known.families)
            self.error(where, f"no workload is called {entry['workload']!r}{hint}")
        return []

    def _axes(self, where, axes, workloads):
        choices = {axis["name"] for workload in workloads for axis in workload.get("axes", [])}
        for axis in set(axes) - choices if choices else ():
            self.error(where, f"no axis {axis!r} here{site_tree.did_you_mean(axis, choices)}")

    def _bound(self, where, metric, bound, workloads):
        if not isinstance(bound, list) or len(bound) != 4:
            self.error(where, f"{metric} is not [value, lower, upper, unit]")
            return
        value, lower, upper, unit = bound
        if isinstance(value, str) and re.fullmatch(r"[0-9.]+[eE][0-9]+", value):
            self.error(where, f"{metric}: YAML takes {value} for text; write {re.sub('[eE]', 'e+', value)}")
        elif isinstance(value, bool) or not isinstance(value, (int, float)):
            self.error(where, f"{metric}: the value {value!r} is no number")
        for name, fraction, bad in (("lower", lower, lambda f: f > 0), ("upper", upper, lambda f: f < 0)):
            if fraction is None:
                continue
            if isinstance(fraction, bool) or not isinstance(fraction, (int, float)):
                self.error(where, f"{metric}: the {name} tolerance {fraction!r} is neither a fraction nor null")
            elif bad(fraction):
                self.error(where, f"{metric}: the {name} tolerance {fraction} has the wrong sign")
        if lower is None and upper is None:
            self.error(where, f"{metric}: open on both sides bounds nothing")
        if unit not in self.known.units:
            units = ", ".join(self.known.units)
            self.error(where, f"{metric}: no record is in {unit!r}; units are {units}, without prefixes")
        listed = {name for workload in workloads for name in [*workload.get("metrics", []), *_phases(workload)]}
        if listed and workloads and metric not in listed and not _per_rank(metric):
            self.error(where, f"no metric {metric!r} there{site_tree.did_you_mean(metric, listed)}")


def _phases(workload) -> tuple[str, ...]:
    """Metrics of a transfer case: the harness measures these phases of every workload with placements."""
    if not workload.get("placements"):
        return ()
    return (
        *("host_alloc", "host_touch", "device_alloc", "in", "kernel", "out", "free", "overlapped", "overlap", "wall"),
        *("paper_total", "in_rate", "out_rate", "kernel_rate", "kernel_flop_rate", "sync_cost"),
    )


def _compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def _per_rank(metric: str) -> bool:
    return bool(re.search(r"_(rank|gpu)\d+", metric))


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
        return f"sacct says {records.shorten(result.stderr.strip(), 80)!r}"
    return None
