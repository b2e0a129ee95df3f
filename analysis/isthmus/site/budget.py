"""Estimates the node-hours of a set of checks, and selects the part of the set that a budget allows.

ReFrame writes the job scripts of the selected checks (a dry run; nothing is submitted); each script is one job. A job's
time is the median over stored records of the same command on the same partition (--records), or else the program's own
estimate (--bench; a rough guess in seconds, minutes or hours), or else its time limit. --per-job seconds are added for
the scheduler and the start of the program.

--budget HOURS selects jobs one by one while their sum is within the budget, always the job with the highest worth per
node-hour. A case is worth 1, or 10 if no job selected so far measures the same check, at any size, on that partition,
so that a small budget covers everything before it repeats anything. Of equal jobs the cheaper one comes first.
--select FILE writes the selection for `scripts/run-checks --select FILE`.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
import os
import pathlib
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile

from isthmus import Error, exits, spelling, tools
from isthmus.records import reading
from isthmus.references import site_tree
from isthmus.site import capabilities, check
from isthmus.tables import output

FIRST_OF_ITS_KIND = 10
# Properties of a compute node that the estimate assumes, since the machine on which this runs may lack them.
ASSUMED = {"ISTHMUS_HOST_MEMORY": "512GiB"}
EMULATED = "memory=64GiB,pageable_access=1,virtual_memory=1"

_UNITS = {"s": 1, "min": 60, "h": 3600}


@dataclasses.dataclass
class Job:
    name: str  #: name that ReFrame shows
    where: str  #: system:partition+environment
    hash: str
    command: tuple[str, ...]  #: arguments of `isthmus-bench`, without --record
    nodes: int = 1
    gpus: int = 1  #: number of GPUs of a node that the site states
    limit: float | None = None  #: time limit in seconds
    cases: int = 1
    seconds: float = 0
    source: str = ""

    @property
    def kind(self) -> tuple[str, str]:
        """Name of the check without its size, and where it runs."""
        return re.sub(r"\s*%size=\S+", "", self.name), self.where

    def node_hours(self, per_job: float) -> float:
        return self.nodes * (self.seconds + per_job) / 3600


def add_arguments(parser):
    parser.add_argument("site", help="name of a folder in site-configs/")
    parser.add_argument("-t", "--tag", action="append", default=[], help="like ReFrame's -t; repeatable, all must fit")
    parser.add_argument("-n", "--name", action="append", default=[], help="like ReFrame's -n; repeatable, any may fit")
    parser.add_argument("-S", "--setvar", action="append", default=[], help="like ReFrame's -S, such as processes=5")
    parser.add_argument("--system", help="like ReFrame's --system, such as SITE:PARTITION")
    parser.add_argument("--records", nargs="+", default=[], metavar="PATH", help="files or folders with kept records")
    parser.add_argument("--bench", metavar="FILE", help="isthmus-bench, for estimates (default: $ISTHMUS_BENCH)")
    parser.add_argument("--per-job", type=float, default=30, metavar="SECONDS", help="for scheduler and start (30)")
    parser.add_argument("--budget", type=float, metavar="HOURS", help="node-hours that the chosen jobs may take")
    parser.add_argument(
        "--select", type=output.Destination, metavar="FILE", help="write the chosen jobs for run-checks"
    )
    parser.set_defaults(check_output=output.check_destinations)
    site_tree.add_root(parser)


def run(arguments) -> int:
    for what, value in (("--budget", arguments.budget), ("--per-job", arguments.per_job)):
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise Error(f"{what} {value} is not an amount of time")
    root = site_tree.root_of(arguments.root)
    path = site_tree.configuration_of(root, arguments.site)
    bench = arguments.bench or os.environ.get("ISTHMUS_BENCH")
    if bench:
        check.listing(bench)  # fails early, in one sentence, if it is not isthmus-bench
    configuration = site_tree.load(path)
    measured, left, status = durations(arguments.records, without_gpu(configuration))
    jobs, others = dry_run(root, path, bench, configuration, arguments)
    wanted = {tuple(re.split(r"[:+]", job.where)[:2]) for job in jobs}
    for line in output.fold_each(left_out(measured, left, wanted)):
        print(line, file=sys.stderr)
    for job in jobs:
        time(job, measured, lambda job: estimate(bench, job.command, job.gpus))
    chosen = choose(jobs, arguments.per_job, arguments.budget)
    if arguments.budget is not None and not chosen:
        cheapest = min(job.node_hours(arguments.per_job) for job in jobs)
        raise Error(f"--budget {arguments.budget:g} is less than the {cheapest:.3f} node-hours of the cheapest job")
    show(jobs, chosen, others, arguments.per_job)
    if arguments.select:
        lines = ["# Written by isthmus site budget; scripts/run-checks --select reads it."]
        lines += [f"/{job.hash}  # {job.name}" for job in chosen]
        output.deliver("\n".join(dict.fromkeys(lines)) + "\n", arguments.select)
    return status


# --- listing of jobs ---


def dry_run(root, path, bench, configuration, arguments) -> tuple[list[Job], int]:
    """Returns the jobs that measure, and the number of other jobs (which list workloads).

    Raises Error if there are none.
    """
    with tempfile.TemporaryDirectory() as folder:
        shown = _dry_run(folder, root, path, bench, _selection(arguments))
        site = {partition["name"]: partition for system in configuration["systems"]
                for partition in system["partitions"]}  # fmt: skip
        jobs, others = [], 0
        started = re.compile(r"^\[ (?:DRY|RUN) +\] (.+?) /([0-9a-f]+) @(\S+)$", re.MULTILINE)
        for name, code, where in started.findall(shown):
            system, partition, environ = re.split(r"[:+]", where)
            found = list((pathlib.Path(folder) / "stage" / system / partition / environ).glob(f"*{code}/rfm_job.sh"))
            script = found[0].read_text(encoding="utf-8", errors="replace") if found else ""
            job = job_of(name, where, code, script)
            if job is None:
                others += 1
                continue
            job.gpus = _gpus(site.get(partition, {}))
            jobs.append(job)
    if not jobs:
        raise Error("no check matches this selection on this site; list the checks with `reframe -l`")
    return jobs, others


def _selection(arguments) -> list[str]:
    """Returns the options of ReFrame that select checks."""
    options = [f"--tag={tag}" for tag in arguments.tag] + [f"--name={name}" for name in arguments.name]
    options += [f"--setvar={setting}" for setting in arguments.setvar]
    return options + ([f"--system={arguments.system}"] if arguments.system else [])


def _dry_run(folder: str, root, path, bench, selection: list[str]) -> str:
    """Runs ReFrame, which writes job scripts into folder/stage, and returns its output. Raises Error if it fails."""
    installed = pathlib.Path(sys.executable).with_name("reframe")
    reframe = str(installed) if installed.exists() else shutil.which("reframe")
    if not reframe:
        raise Error("reframe is not installed; install it with `pip install 'isthmus[checks]'`")
    command = [reframe, "-C", str(path), "-c", str(root / "reframe/checks"), "--dry-run", f"--prefix={folder}"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RFM_")}
    environment |= {"ISTHMUS_BENCH": os.path.abspath(bench) if bench else "isthmus-bench", "TMPDIR": folder}
    result = subprocess.run(
        [*command, "--nocolor", *selection], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False, env=environment, errors="replace",
    )  # fmt: skip
    if result.returncode:
        said = re.findall(r"ERROR: (.*)", result.stdout + result.stderr) or ["see `reframe --dry-run`"]
        raise Error(f"ReFrame: {spelling.shorten(said[0], 300)}")
    return result.stdout


def _gpus(partition: dict) -> int:
    """Returns the number of GPUs of a node that the site states, or 1 if it states none."""
    devices = partition.get("devices", [])
    return sum(d.get("num_devices", 1) for d in devices if d.get("type") == "gpu") or 1


def job_of(name: str, where: str, code: str, script: str) -> Job | None:
    """Returns the job that a script describes, or None if the job does not measure."""
    line = next((line for line in script.splitlines() if re.search(r"\brun .*--record ", line)), None)
    if line is None:
        return None
    words = shlex.split(line)
    job = Job(name, where, code, measuring(words[words.index("run") :]))
    tasks = _number(r"--ntasks=(\d+)", script) or 1
    job.nodes = (
        _number(r"--nodes=(\d+)", script)
        or _number(r"select=(\d+)", script)
        or math.ceil(tasks / (_number(r"--ntasks-per-node=(\d+)", script) or tasks))
    )
    clock = re.search(r"(?:--time=|walltime=)(\d+):(\d+):(\d+)|--time-limit=(\d+)s", script)
    if clock:
        hours, minutes, seconds, flat = (int(part or 0) for part in clock.groups())
        job.limit = hours * 3600 + minutes * 60 + seconds + flat
    return job


def _number(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text)
    return int(found.group(1)) if found else None


def measuring(words) -> tuple[str, ...]:
    """Returns a command line of the program without the options that do not affect its duration."""
    kept, skip = [], False
    for word in words:
        if skip:
            skip = False
        elif word == "--record":
            skip = True
        elif word not in ("--table", "--quiet") and not word.startswith("--record="):
            kept.append(word)
    return tuple(kept)


# --- durations of jobs ---


def without_gpu(configuration: dict) -> set[tuple[str, str]]:
    """Returns the partitions without a stated GPU, where emulated runs show the time, since all runs are emulated."""
    return {
        (system["name"], partition["name"])
        for system in configuration["systems"]
        for partition in system.get("partitions", [])
        if not capabilities.BACKENDS.keys() & set(partition.get("features", [])) and not _states_gpu(partition)
    }


def _states_gpu(partition: dict) -> bool:
    return "gpu" in partition.get("features", []) or any(d.get("type") == "gpu" for d in partition.get("devices", []))


def durations(paths, emulating=frozenset()):
    """Returns the durations of past runs, the numbers of runs left out, and an exit code.

    Durations are in seconds, keyed by (system, partition, command). The numbers are keyed by ((system, partition),
    reason). Files that cannot be read are reported. Emulated runs count on the partitions in `emulating`.
    """
    cases, status = reading.read_files(paths) if paths else ([], exits.PASSED)
    runs: dict[str, list[dict]] = collections.defaultdict(list)
    for case in cases:
        runs[case["run"]["id"]].append(case)
    found: dict[tuple, list[float]] = collections.defaultdict(list)
    left: collections.Counter[tuple] = collections.Counter()
    for records in runs.values():
        run = records[0]["run"]
        where = run["system"], run["partition"]
        if reason := _no_measure(records, where in emulating):
            left[where, reason] += 1
            continue
        walls = collections.defaultdict(list)
        for case in records:
            walls[case["run"]["process"]].append((case["run"].get("process_wall"), case["run"]["wall"] or 0))
        command = measuring(run["command"][run["command"].index("run") :])
        found[(*where, command)].append(sum(map(_process_seconds, walls.values())))
    return found, left, status


def _no_measure(records: list[dict], is_emulating: bool) -> str | None:
    """Returns why a run does not show how long the same job will take; None if it does."""
    if "run" not in records[0]["run"]["command"]:
        return "not a run of `isthmus-bench run`"
    if any(case["profiler"] for case in records):
        return "profiled, which takes longer"
    if any(case["emulated"] for case in records) and not is_emulating:
        return "emulated although the partition states a GPU"
    return None


def left_out(measured, left, wanted: set[tuple]) -> list[str]:
    """Returns lines on left-out runs of --records: one for each reason and `wanted` partition, one for all others."""
    lines = [
        f"left out: {spelling.counted(count, 'run')} of {system}:{partition}, {reason}"
        for ((system, partition), reason), count in sorted(left.items(), key=str)
        if (system, partition) in wanted
    ]
    elsewhere: collections.Counter[tuple] = collections.Counter()
    for (where, _), count in left.items():
        elsewhere[where] += count if where not in wanted else 0
    for (system, partition, _), times in measured.items():
        elsewhere[system, partition] += len(times) if (system, partition) not in wanted else 0
    names = ", ".join(sorted(f"{system}:{partition}" for (system, partition), count in elsewhere.items() if count))
    if names:
        runs = spelling.counted(elsewhere.total(), "run")
        lines.append(f"left out: {runs} of {spelling.shorten(names)}, where no job will run")
    return lines


def _process_seconds(walls) -> float:
    """Returns the seconds of a process: the total in its last record or, without it, the sum over its cases."""
    whole = [seconds for seconds, _ in walls if seconds is not None]
    return max(whole) if whole else sum(seconds for _, seconds in walls)


@functools.cache
def estimate(bench: str | None, command: tuple[str, ...], gpus: int) -> tuple[int | None, float | None]:
    """Returns the number of cases and the seconds that the program predicts for a command; None for unknown ones.

    `bench` is the program, and `gpus` is the number of GPUs of a node.
    """
    if not bench:
        return None, None
    environment = os.environ | ASSUMED | {"ISTHMUS_EMULATOR": f"devices={gpus},{EMULATED}"}
    answer = tools.ask(bench, *command, "--dry-run", timeout=300, environ=environment)
    cases, seconds = understood(answer.out)
    if seconds is None:
        why = answer.why or f"{answer.command} does not say how long it takes"
        print(spelling.printable(f"no estimate: {spelling.shorten(why, 300)}"), file=sys.stderr)
    return cases, seconds


def understood(said: str) -> tuple[int | None, float | None]:
    """Parses the last line of a dry run, "120 cases, about 3 min in all", into the number of cases and the seconds.

    Values that the line lacks are None.
    """
    last = said.strip().rpartition("\n")[2]
    count = re.match(r"(\d+) cases?\b", last)
    length = re.search(r"(?:about|less than) ([0-9.]+) (s|min|h)\b", last)
    seconds = float(length.group(1)) * _UNITS[length.group(2)] if length else None
    return (int(count.group(1)) if count else None), seconds


def time(job: Job, measured, estimates):
    """Sets the cases, seconds and source of a job. Raises Error if its duration cannot be estimated."""
    system, partition, _ = re.split(r"[:+]", job.where)
    cases, guess = estimates(job)
    job.cases = cases or 1
    past = measured.get((system, partition, job.command))
    if past:
        job.seconds, job.source = statistics.median(past), f"measured, n={len(past)}"
    elif guess is not None:
        job.seconds, job.source = guess, "estimate"
    elif job.limit is not None:
        job.seconds, job.source = job.limit, "time limit"
    else:
        others = sum(len(found) for (s, p, _), found in measured.items() if (s, p) == (system, partition))
        of = f" ({spelling.counted(others, 'run')} from there measured other things)" if others else ""
        raise Error(
            f"{job.name}: nothing says how long it takes on {system}:{partition}; name a program with --bench, or "
            f"records of it from there with --records{of}"
        )


# --- selection of jobs ---


def choose(jobs: list[Job], per_job: float, budget: float | None) -> list[Job]:
    """Returns as many jobs as the budget allows, or all jobs without a budget, the best first."""
    left, spent = list(jobs), 0.0
    chosen: list[Job] = []
    seen: set = set()
    while left:
        fitting = [job for job in left if budget is None or spent + job.node_hours(per_job) <= budget + 1e-12]
        if not fitting:
            break
        best = min(fitting, key=lambda job: _rank(job, per_job, seen))
        chosen.append(best)
        left.remove(best)
        seen.add(best.kind)
        spent += best.node_hours(per_job)
    return chosen


def _rank(job: Job, per_job: float, seen: set) -> tuple:
    cost = job.node_hours(per_job)
    worth = job.cases * (1 if job.kind in seen else FIRST_OF_ITS_KIND)
    return -worth / cost if cost else -math.inf, cost, job.name, job.where, job.hash


def show(jobs, chosen, others, per_job):
    """Prints one line per job in the order of selection, and the totals."""
    rows, spent = [("node-hours", "sum", "cases", "by", "job")], 0.0
    for job in chosen:
        hours = job.node_hours(per_job)
        spent += hours
        rows.append((f"{hours:.3f}", f"{spent:.3f}", str(job.cases), job.source, f"{job.name} @{job.where}"))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        right = [cell.rjust(width) for cell, width in zip(row[:3], widths)]
        print("  ".join([*right, row[3].ljust(widths[3]), row[4]]))
    total = sum(job.node_hours(per_job) for job in jobs)
    most = sum(max(job.nodes * (job.limit or 0) / 3600, job.node_hours(per_job)) for job in chosen)
    limits = f"; at most {most:.2f} by their time limits" if any(job.limit for job in chosen) else ""
    print(f"\n{len(chosen)} of {len(jobs)} jobs, {spent:.2f} of {total:.2f} node-hours{limits}")
    if others:
        print(f"in addition, {others} short jobs that list the workloads, {others * per_job / 3600:.2f} node-hours")
