"""Detection of a site's settings that are certainly mistakes, or have no effect.

ReFrame ignores all of these. `isthmus site check` reports them as errors, and sessions refuse to start with them; both
call `problems()`.
"""

from __future__ import annotations

import difflib
import re
from typing import Any, NamedTuple

from isthmus import spelling, units
from isthmus.references import lookup
from isthmus.site import capabilities, exports
from isthmus.site.machine import FILL_IN

#: Settings in `extras: {'isthmus': {…}}` of a partition.
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
#: Settings that only Isthmus uses, so that they are misplaced outside of 'isthmus'.
_OURS_ALONE = {"require_reference", "shared_nodes", "device_memory", "host_memory"}
_SLURM = ("slurm", "squeue")
#: Options that choose a queue, for each scheduler; _NODES has Slurm's other options that choose nodes.
_QUEUES = {
    **dict.fromkeys(_SLURM, ("--partition", "-p")),
    "flux-batch": ("--queue", "-q"),
    **dict.fromkeys(("pbs", "pbspro", "torque", "lsf", "sge", "oar"), ("-q",)),
}
_NODES = ("--reservation", "--constraint", "-C", "--nodelist", "-w", "--clusters", "-M")
#: Keys that ReFrame reads from a device and from `sched_options`; its schema accepts any keys.
_DEVICE = ("type", "arch", "model", "num_devices")
_SCHEDULING = (
    "hosts", "ignore_reqnodenotavail", "job_submit_timeout", "max_sacct_failures", "resubmit_on_errors",
    "sched_access_in_submit", "slurm_envvar_whitelist", "slurm_job_cancel_reasons", "slurm_multi_cluster_mode",
    "slurm_pending_job_reason_poll_freq", "unqualified_hostnames", "use_nodes_option",
)  # fmt: skip
#: Keys that ReFrame passes to its build systems. Our build is a script that reads such settings from variables.
_COMPILING = ("cc", "cxx", "ftn", "nvcc", "cppflags", "cflags", "cxxflags", "fflags", "ldflags")
_DURATION = re.compile(r"(\d+d)?(\d+h)?(\d+m)?(\d+s)?")
#: Long options of sbatch; its plug-ins may add others.
_SBATCH = frozenset(
    re.findall(
        r"[\w-]+",
        "account acctg-freq array batch bb bbf begin chdir cluster-constraint clusters comment constraint container "
        "contiguous core-spec cores-per-socket cpu-freq cpus-per-gpu cpus-per-task deadline delay-boot dependency "
        "distribution error exclude exclusive export export-file extra extra-node-info get-user-env gid gpu-bind "
        "gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags hint hold ignore-pbs input job-name "
        "kill-on-invalid-dep licenses mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus "
        "network nice no-kill no-requeue nodefile nodelist nodes ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node "
        "ntasks-per-socket open-mode output overcommit oversubscribe parsable partition power prefer priority profile "
        "propagate qos quiet reboot requeue reservation segment signal sockets-per-node spread-job stepmgr switches "
        "test-only thread-spec threads-per-core time time-min tmp tres-bind tres-per-task uid use-min-nodes verbose "
        "wait wait-all-nodes wckey wrap",
    )
)


class Problem(NamedTuple):
    where: str  #: location such as "system:partition" or "environment name"
    what: str

    def __str__(self):
        return f"{self.where}: {self.what}"


def problems(configuration: dict, name: str | None = None) -> list[Problem]:
    """Returns the problems of all systems of a configuration, or of the system called `name`."""
    systems = [each for each in configuration["systems"] if name in (None, each.get("name"))]
    environments = [each for each in configuration.get("environments", []) if _is_for(each, systems)]
    found: list[Problem] = []
    for system in systems:
        found += _of_system(system, environments)
    for environment in environments:
        found += _of_environment(environment)
    return found


def _is_for(environment: dict, systems: list[dict]) -> bool:
    targets = {target.partition(":")[0] for target in environment.get("target_systems", ["*"])}
    return "*" in targets or any(system.get("name") in targets for system in systems)


def _of_system(system: dict, environments: list[dict]) -> list[Problem]:
    name = system.get("name", "?")
    found = [*_blanks(f"system {name}", {k: v for k, v in system.items() if k != "partitions"})]
    found += _misplaced(f"system {name}", system)
    found += [Problem(f"system {name}", what) for what in exports.of(system)]
    found += _keys(f"system {name}", "sched_options", system.get("sched_options", {}), _SCHEDULING)
    partitions = system.get("partitions", [])
    for partition in partitions:
        where = f"{name}:{partition.get('name', '?')}"
        found += _blanks(where, partition)
        found += _modules(where, system, partition, environments)
        found += _queue(where, partition, partitions)
        for option in partition.get("access", []):
            if why := wrong_option(str(partition.get("scheduler")), option, f"access {option!r}"):
                found.append(Problem(where, why))
        found += [Problem(where, what) for what in exports.of(partition)]
        found += _numbers(where, partition)
        found += _extras(where, partition.get("extras", {}))
        if partition.get("container_platforms"):
            found.append(
                Problem(where, "container_platforms has no effect, because no check runs in a container: leave it out")
            )
        found += _slips(where, partition, capabilities.CAPABILITIES)
        for device in partition.get("devices", []):
            found += _keys(where, "a device", device, _DEVICE)
        found += _keys(where, "sched_options", partition.get("sched_options", {}), _SCHEDULING)
    return found


def _of_environment(environment: dict) -> list[Problem]:
    where = f"environment {environment.get('name', '?')}"
    found = [*_blanks(where, environment), *_misplaced(where, environment)]
    found += [Problem(where, what) for what in exports.of(environment)]
    found += _slips(where, environment, capabilities.OF_ENVIRONMENTS)
    # The compiler cc does not count, because ReFrame's own environment `builtin` states it.
    if stated := [key for key in _COMPILING if environment.get(key) and (key, environment[key]) != ("cc", "cc")]:
        what = f"{', '.join(stated)} {'has' if len(stated) == 1 else 'have'} no effect, because the build does not "
        what += (
            f"read {'it' if len(stated) == 1 else 'them'}: set CC, CXX, CUDACXX, CXXFLAGS in env_vars, or load modules"
        )
        found.append(Problem(where, what))
    for key in environment.get("extras", {}):
        if key != "spack_environment" and _is_slip(key, "spack_environment"):
            found.append(Problem(where, f"extras has {key!r}, which nothing reads; did you mean 'spack_environment'?"))
    return found


def _is_slip(word: str, meant: str) -> bool:
    return word != meant and difflib.SequenceMatcher(None, word.lower(), meant).ratio() >= 0.8


def _keys(where: str, what: str, place: dict, known) -> list[Problem]:
    """Returns a problem for each unknown key that resembles a known one."""
    slips = {key: next((each for each in known if _is_slip(key, each)), None) for key in place if key not in known}
    return [
        Problem(where, f"{what} has {key!r}, which nothing reads; did you mean {meant!r}?")
        for key, meant in slips.items()
        if meant
    ]


# --- blanks ---


def _blanks(where: str, value: Any, within: str = "") -> list[Problem]:
    """Returns a problem for each FILL_IN that the probe wrote and that was not filled in."""
    if isinstance(value, dict):
        return [each for key, inner in value.items() for each in _blanks(where, inner, within or str(key))]
    if isinstance(value, (list, tuple)):
        return [each for inner in value for each in _blanks(where, inner, within)]
    if not (isinstance(value, str) and FILL_IN in value):
        return []
    shown = within if value == FILL_IN else f"{within} {value!r}"
    return [Problem(where, f"{shown} is still to be filled in ({FILL_IN})")]


# --- modules, options and numbers of jobs ---


def _modules(where: str, system: dict, partition: dict, environments: list[dict]) -> list[Problem]:
    used = [each for each in environments if each.get("name") in partition.get("environs", [])]
    places = [("", system), ("", partition), *((f" of environment {each.get('name')}", each) for each in used)]
    for whose, place in places:
        stated = place.get("modules", [])
        if isinstance(stated, str):
            return [Problem(where, f"modules{whose} is the text {stated!r}, and must be a list: write [{stated!r}]")]
        if system.get("modules_system", "nomod") == "nomod" and (names := [_module_name(each) for each in stated]):
            what = f"modules{whose} ({', '.join(names)}) are never loaded: modules_system is 'nomod'; use 'lmod' or "
            what += "'tmod4' (a site's file can detect them in a login shell), or leave them out"
            return [Problem(where, what)]
    return []


def _module_name(module) -> str:
    return str(module.get("name", "?") if isinstance(module, dict) else module)


def _queue(where: str, partition: dict, partitions: list[dict]) -> list[Problem]:
    """Returns a problem if a partition names no queue although another partition of the same scheduler names one."""
    scheduler = partition.get("scheduler")
    own = _QUEUES.get(str(scheduler))
    if not own or _begins(partition, (*own, *_NODES)):
        return []
    other = next((p for p in partitions if p.get("scheduler") == scheduler and _begins(p, own)), None)
    if other is None:
        return []
    what = f"access has no {own[0]}, unlike that of {other.get('name')}: its jobs go to the default queue"
    return [Problem(where, f"{what}, and are recorded as this one's")]


def _begins(partition: dict, options: tuple[str, ...]) -> bool:
    """Returns whether `access` contains one of these options, written like `--partition=x`, `-p x` or `-px`."""
    return any(
        re.split(r"[=\s]", option.strip())[0] == name or (len(name) == 2 and re.match(f"{name}[^-]", option.strip()))
        for option in partition.get("access", [])
        for name in options
    )


def wrong_option(scheduler: str, option: str, named: str) -> str | None:
    """Returns what is wrong with an option of a scheduler, or None; `named` begins the sentence."""
    text = option.strip()
    if scheduler == "local":
        return f"{named}: the scheduler {scheduler!r} takes no options"
    if scheduler in _SLURM and not text.startswith(("-", "#")):
        return f"{named} is not an option of sbatch, because it does not begin with '-'"
    long = re.match(r"--([\w-]+)", text)
    if scheduler in _SLURM and long and not any(known.startswith(long[1]) for known in _SBATCH):  # getopt abbreviates
        near = next((known for known in sorted(_SBATCH) if _is_slip(long[1], known)), None)
        if near:
            return f"{named}: sbatch has no such option; did you mean '--{near}'?"
    if scheduler in ("pbs", "pbspro", "torque", "lsf", "sge") and text.startswith("--"):
        command = "bsub" if scheduler == "lsf" else "qsub"
        return f"{named}: {command} of {scheduler.upper()} has no options with two dashes"
    return None


def _numbers(where: str, partition: dict) -> list[Problem]:
    found = []
    jobs = partition.get("max_jobs", 1)
    if not _is_count(jobs):
        found.append(f"max_jobs is {jobs!r}; write a whole number of at least 1")
    limit = partition.get("time_limit")
    if isinstance(limit, str) and FILL_IN not in limit:
        written = _DURATION.fullmatch(limit)
        if not written or not any(int(part[:-1]) for part in written.groups() if part):
            found.append(f"time_limit is {limit!r}; write an amount of time such as '30m' or '1h30m'")
    for device in partition.get("devices", []):
        kind, count = device.get("type"), device.get("num_devices")
        if isinstance(kind, str) and kind != "gpu" and re.sub(r"\W|s$", "", kind.lower()) == "gpu":
            found.append(f"a device of type {kind!r}, which no check looks at; did you mean 'gpu'?")
        if count is not None and count != FILL_IN and not _is_count(count):
            found.append(f"num_devices is {count!r}; write a whole number of at least 1")
    return [Problem(where, what) for what in found]


def _is_count(value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 1 and value == int(value)


# --- extras ---


def _misplaced(where: str, place: dict) -> list[Problem]:
    if "isthmus" in place.get("extras", {}):
        return [Problem(where, "extras has 'isthmus', which is read only from partitions; move it there")]
    return []


def _extras(where: str, extras: dict) -> list[Problem]:
    found = []
    for key in extras:
        if _is_slip(str(key), "isthmus"):
            found.append(f"extras has {key!r}, which nothing reads; did you mean 'isthmus'?")
        elif key in _OURS_ALONE:
            found.append(f"extras has {key!r}, which nothing reads there; write {{'isthmus': {{{key!r}: …}}}}")
    settings = extras.get("isthmus", {})
    if not isinstance(settings, dict):
        found.append(f"extras.isthmus is {settings!r}, not a mapping of settings")
        settings = {}
    for key, value in settings.items():
        if key not in SETTINGS:
            hint = spelling.did_you_mean(key, SETTINGS) or f"; there are {', '.join(sorted(SETTINGS))}"
            found.append(f"extras.isthmus has {key!r}, which is not a setting of the checks{hint}")
        elif not _has_blank(value) and (why := _VALUES[key](value)):
            found.append(f"{key} is {value!r}; {why}")
    return [Problem(where, what) for what in found]


def _slips(where: str, place: dict, known) -> list[Problem]:
    """Returns a problem for each feature that is certainly a misspelling of one of ours.

    Other unknown features may be required by a site's own checks.
    """
    words = [word for word in place.get("features", []) if word not in known and word not in capabilities.OLD]
    slips = {word: slip for word in words if (slip := spelling.slip_of(word, known))}
    return [
        Problem(where, f"{word!r} is a feature that no check asks for; did you mean {slip!r}?")
        for word, slip in slips.items()
    ]


def _has_blank(value) -> bool:
    return FILL_IN in str(value)


def _capabilities(value) -> str | None:
    """Returns why a value is not a list of our capabilities, or None; other words are not allowed here."""
    words = [word for word in value if word not in capabilities.OLD] if _words(value) is None else []
    unknown = next((word for word in words if word not in capabilities.CAPABILITIES), None)
    if unknown is None:
        return _words(value)
    hint = spelling.did_you_mean(unknown, capabilities.CAPABILITIES)
    return f"{unknown!r} is a capability that no check asks for{hint}"


def _words(value) -> str | None:
    if isinstance(value, list) and all(isinstance(each, str) and each.strip() for each in value):
        return None
    return "write a list of names"


def _truth(value) -> str | None:
    return None if isinstance(value, bool) else "write True or False"


def _amount(value) -> str | None:
    """Returns why a value is not a number of bytes with a unit, or None; a bare number may have been meant in GiB."""
    text = value.strip() if isinstance(value, str) else ""
    try:
        if re.search(r"[KMGT]iB$", text) and units.amount(text) > 0:
            return None
    except ValueError:
        pass
    return "write an amount such as '80GiB'"


def _references(value) -> str | None:
    if isinstance(value, bool) or (value and _words(value) is None):
        return None
    return "write True, False or a list of metrics"


def _pcie(value) -> str | None:
    return None if isinstance(value, str) and lookup.pcie_of(value) else "write generation and lanes, such as '5 x16'"


def _links(value) -> str | None:
    return None if isinstance(value, int) and _is_count(value) else "write their number, such as 18"


_VALUES = {
    "capabilities": _capabilities,
    "maintainers": _words,
    "shared_nodes": _truth,
    "device_memory": _amount,
    "host_memory": _amount,
    "require_reference": _references,
    "pcie": _pcie,
    "links": _links,
}
