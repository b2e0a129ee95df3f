"""Finds common mistakes in site configurations before a job is submitted.

Errors are settings that fail or are silently ignored; notes are settings that may be intended. Settings that are
certainly mistakes, or have no effect, also prevent a session from starting. With --bench or $ISTHMUS_BENCH, references
are compared with all workloads, metrics and axes that the program lists; otherwise with those that are the same on
every machine.

exit codes: 0 no errors; 1 errors were found; 2 bad input, such as an unknown site
"""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import pathlib
import re
import socket
import sys

from isthmus import Error, exits, inputs, spelling, tools
from isthmus.references import lookup, site_tree
from isthmus.site import capabilities, exports, settings
from isthmus.site.machine import FILL_IN

PLACEHOLDER = re.compile(r"ACCOUNT|PROJECT|<[a-z]+>")
ARCHITECTURE = re.compile(r"sm_\d{2,3}[af]?|gfx[0-9a-f]{3,4}")
CATALOGUE = "reframe/checks/catalogue.json"
# File with the names of a site's login nodes, one per line, with which its patterns of host names are tested.
LOGIN_NODES = "login-nodes.txt"
# Launchers that work with only one batch system → ReFrame's names for its schedulers.
LAUNCHERS_OF = {"srun": ("slurm", "squeue"), "ibrun": ("slurm", "squeue"), "flux-run": ("flux-batch",)}
# Modules of HPE's MPI, whose ranks only its own launcher can start.
OF_HPE = re.compile(r"(PrgEnv-|cray-mpich|craype)")
# Sites that are not real machines; they match any host, and need no Spack environment.
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
    parser.add_argument(
        "--bench", metavar="FILE", help="isthmus-bench, to check references against (default: $ISTHMUS_BENCH)"
    )
    parser.add_argument("--quiet", action="store_true", help="errors only")


def run(arguments) -> int:
    root = site_tree.root_of(arguments.root)
    entries = site_tree.entries(root)
    if all(what and not what.is_error for what in entries.values()):
        raise Error(f"no site in {root / 'site-configs'}")
    for name in arguments.sites:
        site_tree.configuration_of(root, name)
    known = Known(root, arguments.bench or os.environ.get("ISTHMUS_BENCH"))
    files = read(root)
    patterns = host_patterns(files)
    errors = checked = 0
    for name in arguments.sites or entries:
        if what := entries[name]:
            findings = [Finding("error" if what.is_error else "note", str(what.path.relative_to(root)), what.why)]
        else:
            findings = Site(root, name, known, files, patterns).findings()
        checked += what is None or what.is_error
        errors += sum(finding.level == "error" for finding in findings)
        for finding in findings:
            if finding.level == "error" or not arguments.quiet:
                print("\n".join(spelling.fold(f"{name}: {finding}")))
    for name, loaded in files.items():
        if isinstance(loaded, Error) and arguments.sites and name not in arguments.sites and not arguments.quiet:
            print("\n".join(spelling.fold(f"{name}: note: its host names are not compared with others: {loaded}")))
    print(f"{spelling.counted(checked, 'site')}, {spelling.counted(errors, 'error')}", file=sys.stderr)
    return exits.FOUND if errors else exits.PASSED


def read(root) -> dict[str, site_tree.Loaded | Error]:
    """Executes every site's file once, as if the machine had a modules system.

    Returns each file's result, or the error if it cannot be read. Raises OSError if site-configs/ cannot be listed.
    """
    found: dict[str, site_tree.Loaded | Error] = {}
    away = not os.environ.get("LMOD_CMD") and not os.environ.get("MODULES_CMD")
    if away:  # otherwise a file that detects its machine's modules system would find none
        os.environ["LMOD_CMD"] = "lmod"
    try:
        for name, what in site_tree.entries(root).items():
            if what and not what.is_error:
                continue
            try:
                found[name] = site_tree.execute(site_tree.configuration_of(root, name))
            except Error as error:
                found[name] = error
    finally:
        if away:
            del os.environ["LMOD_CMD"]
    return found


def host_patterns(files) -> dict[str, list[str]]:
    """Returns, for each pattern of host names, the sites that have it.

    Sites that cannot be read are left out, since they are reported elsewhere.
    """
    found = collections.defaultdict(list)
    for name, loaded in files.items():
        for system in [] if isinstance(loaded, Error) else loaded.configuration["systems"]:
            patterns = system.get("hostnames") if isinstance(system, dict) else None
            for pattern in patterns if isinstance(patterns, list) else []:
                if isinstance(pattern, str):
                    found[pattern].append(name)
    return found


class Known:
    """Workloads, metrics, modes and sizes of the suite, including those of this machine if the program is given."""

    def __init__(self, root, bench: str | None):
        place = next(filter(inputs.status_of, (tree / CATALOGUE for tree in (root, site_tree.OWN))), None)
        if place is None:
            raise Error(
                f"{root / CATALOGUE} is missing, which lists what the suite measures; name Isthmus's tree with --root"
            )
        try:
            self.catalogue = inputs.json_of(inputs.read_small(place))
        except (OSError, ValueError, RecursionError) as error:
            why = getattr(error, "strerror", None) or spelling.shorten(str(error))
            raise Error(
                f"{place}: not a list of what the suite measures ({why}); take it from Isthmus's tree"
            ) from None
        if bench:
            listed = {w["name"]: w for w in listing(bench)["workloads"]}
            fixed = [w for w in self.catalogue["workloads"] if w["name"] not in listed]
            self.catalogue["workloads"] = [*fixed, *listed.values()]
        self.modes, self.sizes = list(self.catalogue["modes"]), self.catalogue["sizes"]
        self.workloads = {w["name"]: w for w in self.catalogue["workloads"]}

    def metrics(self) -> set[str]:
        """Returns the names of all metrics that workloads are known to report."""
        return {name for w in self.workloads.values() for key in ("metrics", "observed") for name in w.get(key, [])}


def listing(bench: str) -> dict:
    """Returns the parsed output of `isthmus-bench list --json`. Raises Error if it fails."""
    answer = tools.ask(bench, "list", "--json", timeout=120)
    why = answer.why
    if answer.ok and not why:
        try:
            return json.loads(answer.out)
        except (ValueError, RecursionError) as error:
            why = f"{bench} list --json: {error}"
    raise Error(f"{spelling.shorten(why)}; name a built isthmus-bench with --bench")


class Site:
    """Files of a site, and their mistakes."""

    def __init__(self, root, name, known: Known, files, patterns):
        self.root, self.name, self.known, self.patterns = root, name, known, patterns
        self.path = site_tree.configuration_of(root, name)
        self.loaded = files[name]
        self.is_pattern = name.startswith(PATTERNS)
        self._findings: list[Finding] = []

    def error(self, where, what):
        self._findings.append(Finding("error", where, what))

    def note(self, where, what):
        self._findings.append(Finding("note", where, what))

    def unknown(self, where, word, known, what):
        """Adds a note, not an error, on a word that our checks do not use, since checks of the site may use it.

        Nothing is added for certain misspellings, which settings.problems() reports as errors.
        """
        if not spelling.slip_of(word, known):
            self.note(where, f"{word!r} is {what}{spelling.did_you_mean(word, known)}")

    def findings(self) -> list[Finding]:
        if isinstance(self.loaded, Error):
            self.error("reframe.py", str(self.loaded))
            return self._findings
        if not (self.path.parent / "README.md").is_file():
            self.error("README.md", "missing; write a page that says what is stated and where it is documented")
        try:
            for where, what in settings.problems(self.loaded.configuration):
                self.error(where, what)
            stated = len(self._findings)
            has_blanks = FILL_IN in repr(self.loaded.configuration)
            if not has_blanks:
                self._against_schema()
            if self._findings and self._findings[-1].where == "reframe.py":
                return self._findings  # the code below relies on the schema
            with site_tree.registered(self.loaded):
                self._look(self.loaded.configuration)
            # Blanks were reported above, so findings that a blank is not an architecture or a scheduler are dropped.
            self._findings[stated:] = [each for each in self._findings[stated:] if FILL_IN not in each.what]
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            self._against_schema()
            if not any(finding.where == "reframe.py" for finding in self._findings):  # such as without ReFrame
                self.error("reframe.py", f"not a configuration of ReFrame ({type(error).__name__}: {error})")
        return self._findings

    def _look(self, configuration):
        environments = self._environments(configuration)
        for system in configuration["systems"]:
            self._system(system, environments)
        self._unused(configuration)
        self._login_nodes([p for s in configuration["systems"] for p in s.get("hostnames", []) if _compiles(p)])
        self._references(site_tree.partitions_of(configuration))

    def _against_schema(self):
        """Reports why ReFrame refuses the configuration, if it does and is installed."""
        try:
            from reframe.core.config import load_config
            from reframe.core.exceptions import ReframeError
        except ModuleNotFoundError:
            return
        try:
            known = load_config()  # loads ReFrame's own configuration, without executing the site's file again
            known.update_config(self.loaded.configuration, str(self.path))
            known.validate()
        # Various errors occur, since ReFrame uses some parts before it checks their types.
        except (ReframeError, ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
            self.error("reframe.py", f"ReFrame refuses it: {' '.join(str(error).split())[:300]}")

    # --- environments ---

    def _environments(self, configuration) -> dict[str, list[dict]]:
        """Checks the environments and returns them grouped by name; several systems may use the same name."""
        found: dict[str, list[dict]] = collections.defaultdict(list)
        for environment in configuration.get("environments", []):
            name = environment.get("name", "?")
            where = f"environment {name}"
            for other in found[name]:
                if set(other.get("target_systems", ["*"])) & set(environment.get("target_systems", ["*"])):
                    self.error(where, "defined twice for one system; the later one hides the other")
            found[name].append(environment)
            for word in environment.get("features", []):
                if word not in (known := capabilities.OF_ENVIRONMENTS):
                    self.unknown(where, word, known, "a feature of an environment that no check asks for")
            spack = environment.get("extras", {}).get("spack_environment")
            # An installation by Spack lacks the environments, since nothing is built from it.
            installed = not (self.root / "scripts/spack-environment").is_file()
            try:
                if spack and not installed and not inputs.status_of(self.root / spack / "spack.yaml"):
                    self.error(where, f"its Spack environment {spack}/spack.yaml is missing")
                if isinstance(spack, str):
                    self._spack_files(self.root / spack)
            except OSError as error:
                self.error(where, f"its Spack environment {spack} cannot be read ({error.strerror})")
        return found

    def _spack_files(self, folder):
        """Reports variables that the files of a Spack environment set but are never read.

        Raises OSError if the files cannot be listed.
        """
        for path in exports.spack_files(folder):
            try:
                content = lookup.read_yaml(path)
            except lookup.BadReference:  # Spack reports the error
                continue
            for why in sorted(set(exports.of_spack(content))):
                self.error(f"{folder.name}/{path.name}", why)

    def _unused(self, configuration):
        """Reports environments that no partition lists, and target systems that do not exist."""
        systems = configuration["systems"]
        listed = {name for s in systems for p in s.get("partitions", []) for name in p.get("environs", [])}
        names = {each for s in systems for each in (s.get("name"), *_partitions_of(s))}
        for environment in configuration.get("environments", []):
            where = f"environment {environment.get('name', '?')}"
            if environment.get("name") not in listed:
                self.note(where, "no partition lists it under 'environs', so nothing is built with it")
            for target in environment.get("target_systems", []):
                if target not in (*names, "*") and not target.startswith("*"):
                    slip = spelling.did_you_mean(target, {str(name) for name in names})
                    self.error(where, f"target_systems names {target!r}, which is not a system of this file{slip}")

    # --- systems and partitions ---

    def _system(self, system, environments):
        name = system.get("name", "?")
        if not self.is_pattern and name != self.name:
            self.note(f"system {name}", f"records will say {name!r}, but the folder is {self.name!r}")
        for pattern in system.get("hostnames", []):
            self._hostname(f"system {name}", pattern)
        taken = set()
        nodes: dict[str, str] = {}
        for partition in system.get("partitions", []):
            where = f"{name}:{partition.get('name', '?')}"
            if partition.get("name") in taken:
                self.error(where, "two partitions have this name")
            taken.add(partition.get("name"))
            self._same_nodes(where, partition, nodes)
            self._environs(where, partition, system, environments)
            self._jobs(where, partition, system)
            self._launcher(where, partition, environments)
            self._access(where, partition)
            self._capabilities(where, partition)

    def _same_nodes(self, where, partition, nodes: dict[str, str]):
        """Adds a note if a partition requests the same nodes as another from the scheduler."""
        if partition.get("scheduler") in ("local", "ssh"):
            return
        asked = repr([partition.get(key) for key in ("scheduler", "access", "resources", "sched_options", "env_vars")])
        if asked in nodes:
            self.note(where, f"requests the same nodes as {nodes[asked]}; check 'access'")
        nodes.setdefault(asked, where)

    def _hostname(self, where, pattern):
        if not _compiles(pattern):
            self.error(where, f"hostname {pattern!r} is not a regular expression")
            return
        if self.is_pattern:
            return
        if PLACEHOLDER.search(pattern):
            self.note(where, f"hostname {pattern!r} is a placeholder; name the login nodes")
            return
        if pattern.startswith(r"\."):
            self.error(where, f"hostname {pattern!r} matches no host: it is compared from the beginning of the name")
        if pattern in (".*", ".+", ""):
            self.note(where, f"hostname {pattern!r} matches every machine; name the login nodes")
        others = sorted({other for other in self.patterns[pattern] if other != self.name})
        if others or self.patterns[pattern].count(self.name) > 1:
            whom = ", ".join(others) or "another system of this file"
            self.error(where, f"hostname {pattern!r} is also that of {whom}; the first one read wins")

    def _login_nodes(self, own: list[str]):
        """Checks that the names in login-nodes.txt, if it exists, match only this machine."""
        path = self.path.parent / LOGIN_NODES
        try:
            text = inputs.read_small(path, inputs.MIB).decode() if inputs.status_of(path) else ""
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            self.error(LOGIN_NODES, f"it cannot be read ({why}); write the name of one login node per line")
            return
        lines = [line.partition("#")[0].strip() for line in text.splitlines()]
        for name in filter(None, lines):
            if not any(re.match(pattern, name) for pattern in own):
                self.error(LOGIN_NODES, f"no pattern of 'hostnames' matches {name}: a session there would be refused")
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
            self.error(where, "ReFrame's scheduler 'flux' requests neither a GPU nor a queue; use 'flux-batch'")
        elif scheduler:
            self._backend(where, "scheduler", scheduler)
        if launcher:
            self._backend(where, "launcher", launcher)
        if not local and launcher == "local":
            self.error(
                where, f"launcher 'local' under {scheduler} starts no ranks; use the scheduler's own, such as srun"
            )
        if local and partition.get("max_jobs", 8) != 1:
            self.error(where, "several local jobs at once disturb each other's figures; set max_jobs to 1")
        if not local and not partition.get("time_limit"):
            self.note(where, "no time_limit: a job that sets none runs to the queue's limit")
        here = any(re.match(p, socket.gethostname()) for p in system.get("hostnames", []) if _compiles(p))
        if scheduler == "slurm" and here and (why := no_accounting()):
            self.error(where, f"scheduler 'slurm' needs accounting, but {why}; use 'squeue'")

    def _launcher(self, where, partition, environments):
        """Checks that the launcher works with the batch system and starts ranks of the loaded MPI."""
        scheduler, launcher = partition.get("scheduler"), partition.get("launcher")
        own = LAUNCHERS_OF.get(launcher)
        if own and scheduler not in (*own, "local", "ssh"):
            self.error(where, f"launcher {launcher!r} is a command of {own[0]}, but the scheduler is {scheduler!r}")
        for name in partition.get("environs", []) if launcher == "local" else ():
            if any("mpi" in each.get("features", []) for each in environments.get(name, [])):
                self.error(
                    where, f"environment {name} states 'mpi', but launcher 'local' starts one process; use 'mpirun'"
                )
        if launcher not in ("mpiexec", "mpirun"):
            return
        for name in partition.get("environs", []):
            modules = [each for e in environments.get(name, []) for each in e.get("modules", [])]
            names = [each.get("name", "") if isinstance(each, dict) else str(each) for each in modules]
            if found := next(filter(OF_HPE.match, names), None):
                self.error(
                    where,
                    f"launcher {launcher!r} with {found}: HPE's MPI is started by 'srun' under Slurm, else by 'pals' "
                    "(reframe/isthmus_reframe/pals.py), whose mpiexec has --cpu-bind",
                )

    def _backend(self, where, kind, name):
        """Checks that ReFrame has this scheduler or launcher, or that the site's file registers it."""
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
            if re.search(r"\s-", option.strip()):
                self.error(where, f"access {option!r} has several options; one string for each")

    def _capabilities(self, where, partition):
        given = partition.get("extras", {}).get("isthmus", {})
        given = given if isinstance(given, dict) else {}
        own = given.get("capabilities", [])
        own = [word for word in own if isinstance(word, str)] if isinstance(own, list) else []
        stated = {*partition.get("features", []), *own}
        if why := capabilities.refused(stated):
            self.error(where, why)
        for word in sorted(stated - set(capabilities.CAPABILITIES) - set(capabilities.OLD)):
            if word not in own:
                self.unknown(where, word, capabilities.CAPABILITIES, "a feature that no check asks for")
        gpus = [device for device in partition.get("devices", []) if device.get("type") == "gpu"]
        self._gpus(where, partition, stated, gpus)
        if not given.get("maintainers") and not self.is_pattern:
            self.note(where, "no maintainers in extras.isthmus, so a failed check names nobody to ask")
        self._required(where, given.get("require_reference"))

    def _required(self, where, required):
        """Checks the metrics that must have a reference; a metric that no workload reports would have no effect."""
        metrics = self.known.metrics()
        for name in required if isinstance(required, list) else []:
            if isinstance(name, str) and name not in metrics and (hint := spelling.did_you_mean(name, metrics)):
                slip = spelling.slip_of(name, metrics)
                (self.error if slip else self.note)(
                    where, f"require_reference names {name!r}, which is not known{hint}"
                )

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
            self.error(where, "has GPUs among its devices, but not the feature 'gpu': checks that need it skip it")
        for device in gpus:
            self._device(where, device, backends)
        if "peer" in stated and gpus and sum(map(_count, gpus)) < 2:
            self.error(where, "states 'peer' with fewer than two GPUs")
        if "xnack" in stated and ["HSA_XNACK", "1"] not in [list(map(str, v)) for v in partition.get("env_vars", [])]:
            self.error(where, "states 'xnack' without ['HSA_XNACK', '1'] in env_vars")
        self._resources(where, partition)

    def _lacks(self, where, words):
        """Reports an error, or a note if this site is one of PATTERNS, from which other sites are made."""
        (self.note if self.is_pattern else self.error)(where, words)

    def _device(self, where, device, backends):
        arch = device.get("arch")
        if arch == FILL_IN:
            return
        if not arch:
            self._lacks(where, "a device without 'arch': the build then uses that of the login node")
        elif not ARCHITECTURE.fullmatch(arch):
            self.error(where, f"arch {arch!r} is neither like sm_90 nor like gfx942")
        elif backends and backends != {"cuda" if arch.startswith("sm_") else "hip"}:
            self.error(where, f"arch {arch!r} is not of the vendor that is stated ({', '.join(sorted(backends))})")
        if device.get("num_devices") is None:
            self.error(where, "a device without 'num_devices': a node that has lost a GPU would pass")

    def _resources(self, where, partition):
        if partition.get("scheduler") in ("local", "ssh"):
            return
        resources = {resource.get("name"): resource.get("options", []) for resource in partition.get("resources", [])}
        if "gpu" not in resources:
            near = spelling.did_you_mean("gpu", resources) or "; its options are [] if GPUs come with the node"
            self.error(where, f"no resource 'gpu', so jobs request none{near}")
        for option in resources.get("gpu", []):
            for word in re.findall(r"{(\w*)}", option):
                if word != "num_gpus_per_node":
                    self.error(where, f"resource gpu: {{{word}}} is never filled in; it is {{num_gpus_per_node}}")

    # --- references ---

    def _references(self, partitions):
        seen: dict[tuple, str] = {}
        opened: set[pathlib.Path] = set()
        all_read = True
        self._misnamed()
        for path in self._reference_files():
            if path.suffix != ".yaml":
                if path.is_dir():
                    continue  # read only through $ref: see never_read()
                self.error(f"references/{path.name}", "not read: files end in .yaml")
                continue
            try:
                entries = lookup.load_file(path, opened)
            except lookup.BadReference as error:
                self.error("references", str(error))
                all_read = False
                continue
            for sentence in lookup.problems(entries, self.known.catalogue):
                self.error("references", sentence + self._nearest(sentence))
            for sentence in lookup.idle(entries, partitions):
                self.error("references", sentence)
            for entry in entries:
                self._reference(entry, seen)
        for sentence in lookup.never_read(lookup.folders(self.path), opened) if all_read else ():
            self.error("references", sentence)

    def _reference_files(self) -> list[pathlib.Path]:
        found = []
        for folder in lookup.folders(self.path):
            try:
                found += lookup.listed(folder)
            except lookup.BadReference as error:
                self.error("references", str(error))
        return found

    def _misnamed(self):
        """Reports files whose names resemble that of the folder of references, since they are never read."""
        try:
            paths = sorted(self.path.parent.iterdir())
        except OSError as error:  # for instance, the folder's files can be opened, but not listed
            self.error("references", f"misspelt names cannot be searched for: {error.strerror}")
            return
        for path in paths:
            name = path.stem if path.suffix in (".yaml", ".yml") else path.name
            if path.name != "references" and spelling.distance(name.lower(), "references") <= 2:
                self.error(path.name, "not read under this name; did you mean 'references', the folder?")

    def _nearest(self, sentence: str) -> str:
        """Returns a suggestion for a name that matches nothing."""
        wrong = re.findall(r"'([^']*)'", sentence)[-1]
        if "no workload of" in sentence:
            return spelling.did_you_mean(wrong, self.known.workloads)
        return spelling.did_you_mean(wrong, {*self.known.metrics(), *self.known.modes, *self.known.sizes})

    def _reference(self, entry, seen):
        """Checks an entry's axes against the program's list, and that each metric has only one reference."""
        pattern = entry.selectors.get("workload", ".*")
        fitting = [w for name, w in self.known.workloads.items() if re.fullmatch(pattern, name)]
        # Only workloads that the program listed have lists of axes; these contain all axes on this machine.
        listed = [workload["axes"] for workload in fitting if isinstance(workload.get("axes"), list)]
        axes = {axis["name"] for described in listed for axis in described}
        for axis in set(entry.axes) - axes if axes else ():
            self.error(entry.where, f"no axis {axis!r} here{spelling.did_you_mean(axis, axes)}")
        for metric in entry.metrics:
            key = json.dumps([metric, entry.selectors, entry.axes], sort_keys=True, default=str)
            if key in seen:
                self.error(entry.where, f"a second reference for {metric}; the first is {seen[key]}")
            seen.setdefault(key, entry.where)


def _partitions_of(system: dict) -> list[str]:
    return [f"{system.get('name')}:{partition.get('name')}" for partition in system.get("partitions", [])]


def _count(device: dict) -> float:
    count = device.get("num_devices", 0)
    return count if isinstance(count, (int, float)) else 2  # 2 if the count is a blank to be filled in


def _compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def no_accounting() -> str | None:
    """Returns why Slurm on this machine has no accounting; None if it has accounting, or Slurm is not installed."""
    if not tools.ask("sinfo", "--version", timeout=30).is_here:
        return None
    answer = tools.ask("sacct", "-n", "-X", "-j", "1", timeout=30)
    return None if answer.ok else answer.why
