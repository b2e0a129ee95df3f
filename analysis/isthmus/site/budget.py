"""Node-hours of a set of checks beforehand, and the part of the set that a budget allows.

ReFrame writes the job scripts of the selection (a dry run, nothing is submitted); each is one job. How long it takes is
what kept records of the same command on the same partition took (--records, their median), else what the program
estimates (--bench, a rough guess: seconds, minutes or hours), else its time limit. To that come
--per-job seconds for the scheduler and the start of the program.

--budget HOURS takes jobs, one after the other, as long as the sum stays within: always the one that is worth the most
for its node-hours. A job is worth one for each case that it measures; ten for each where no chosen job has measured the
same check at any size on that partition, so that a small budget touches everything before it repeats anything. Of
equals the cheaper comes first. --select FILE writes the chosen ones for `scripts/run-checks --select FILE`.
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
# What the estimate may assume of a compute node, which the machine that this runs on need not have.
ASSUMED = {"ISTHMUS_HOST_MEMORY": "512GiB"}
EMULATED = "memory=64GiB,pageable_access=1,virtual_memory=1"

_UNITS = {"s": 1, "min": 60, "h": 3600}


@dataclasses.dataclass
class Job:
    name: str  #: as ReFrame shows it
    where: str  #: system:partition+environment
    hash: str
    command: tuple[str, ...]  #: what follows `isthmus-bench`, without --record
    nodes: int = 1
    gpus: int = 1  #: of a node, as the site states them
    limit: float | None = None  #: seconds
    cases: int = 1
    seconds: float = 0
    source: str = ""

    @property
    def kind(self) -> tuple[str, str]:
        """The check without its size, on its partition."""
        return re.sub(r"\s*%size=\S+", "", self.name), self.where

    def node_hours(self, per_job: float) -> float:
        return self.nodes * (self.seconds + per_job) / 3600


def add_arguments(parser):
    parser.add_argument("site", help="name of a folder in site-configs/")
    parser.add_argument("-t", "--tag", action="append", default=[], help="as ReFrame's -t; repeatable, all must fit")
    parser.add_argument("-n", "--name", action="append", default=[], help="as ReFrame's -n; repeatable, any may fit")
    parser.add_argument("-S", "--setvar", action="append", default=[], help="as ReFrame's -S, e.g. processes=5")
    parser.add_argument("--system", help="as ReFrame's --system, e.g. SITE:PARTITION")
    parser.add_argument("--records", nargs="+", default=[], metavar="PATH", help="kept records, files or folders")
    parser.add_argument("--bench", metavar="FILE", help="isthmus-bench, for estimates (default: $ISTHMUS_BENCH)")
    parser.add_argument("--per-job", type=float, default=30, metavar="SECONDS", help="of scheduler and start (30)")
    parser.add_argument("--budget", type=float, metavar="HOURS", help="node-hours that the chosen jobs may take")
    parser.add_argument(
        "--select", type=output.Destination, metavar="FILE", help="write the chosen ones for run-checks"
    )
    parser.set_defaults(check_output=output.check_destinations)
    site_tree.add_root(parser)


def run(arguments) -> int:
    for what, value in (("--budget", arguments.budget), ("--per-job", arguments.per_job)):
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise Error(f"{what} {value} is no amount of time")
    root = site_tree.root_of(arguments.root)
    path = site_tree.configuration_of(root, arguments.site)
    bench = arguments.bench or os.environ.get("ISTHMUS_BENCH")
    if bench:
        check.listing(bench)  # one sentence, before ReFrame starts, where it is no isthmus-bench
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


# --- which jobs there are ---


def dry_run(root, path, bench, configuration, arguments) -> tuple[list[Job], int]:
    """The jobs that measure, and how many others the session has (lists of workloads). Raises Error."""
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
        raise Error("no check matches this selection on this site; see what there is with `reframe -l`")
    return jobs, others


def _selection(arguments) -> list[str]:
    """The options of ReFrame that choose checks."""
    options = [f"--tag={tag}" for tag in arguments.tag] + [f"--name={name}" for name in arguments.name]
    options += [f"--setvar={setting}" for setting in arguments.setvar]
    return options + ([f"--system={arguments.system}"] if arguments.system else [])


def _dry_run(folder: str, root, path, bench, selection: list[str]) -> str:
    """What ReFrame prints while it writes job scripts into folder/stage. Raises Error where it cannot."""
    beside = pathlib.Path(sys.executable).with_name("reframe")
    reframe = str(beside) if beside.exists() else shutil.which("reframe")
    if not reframe:
        raise Error("reframe is not installed; `pip install 'isthmus[checks]'` brings it")
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
    """GPUs of a node, as the site states them; 1 where it states none."""
    devices = partition.get("devices", [])
    return sum(d.get("num_devices", 1) for d in devices if d.get("type") == "gpu") or 1


def job_of(name: str, where: str, code: str, script: str) -> Job | None:
    """What a job script asks for; None where it does not measure."""
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
    """A command line of the program without what does not change how long it takes."""
    kept, skip = [], False
    for word in words:
        if skip:
            skip = False
        elif word == "--record":
            skip = True
        elif word not in ("--table", "--quiet") and not word.startswith("--record="):
            kept.append(word)
    return tuple(kept)


# --- how long they take ---


def without_gpu(configuration: dict) -> set[tuple[str, str]]:
    """Partitions that state no GPU: what is emulated there will be emulated again, and takes as long."""
    return {
        (system["name"], partition["name"])
        for system in configuration["systems"]
        for partition in system.get("partitions", [])
        if not capabilities.BACKENDS.keys() & set(partition.get("features", [])) and not _states_gpu(partition)
    }


def _states_gpu(partition: dict) -> bool:
    return "gpu" in partition.get("features", []) or any(d.get("type") == "gpu" for d in partition.get("devices", []))


def durations(paths, emulating=frozenset()):
    """Seconds of past runs by (system, partition, command), the number of runs that are left out by partition and
    reason, and an exit code; a file that cannot be taken is named. Emulated runs count on `emulating` partitions."""
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
    """Why a run says nothing of how long the same job will take."""
    if "run" not in records[0]["run"]["command"]:
        return "not of `isthmus-bench run`"
    if any(case["profiler"] for case in records):
        return "profiled, which takes longer"
    if any(case["emulated"] for case in records) and not is_emulating:
        return "emulated although the partition states a GPU"
    return None


def left_out(measured, left, wanted: set[tuple]) -> list[str]:
    """What was not taken of --records, by partition; of other partitions in one sentence."""
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
    """Of one process: what its last record says of the whole, else the sum of its cases."""
    whole = [seconds for seconds, _ in walls if seconds is not None]
    return max(whole) if whole else sum(seconds for _, seconds in walls)


@functools.cache
def estimate(bench: str | None, command: tuple[str, ...], gpus: int) -> tuple[int | None, float | None]:
    """Cases and seconds that the program says of a command beforehand, on a node with so many GPUs."""
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
    """Cases and seconds of the last line of a dry run: "120 cases, about 3 min in all"."""
    last = said.strip().rpartition("\n")[2]
    count = re.match(r"(\d+) cases?\b", last)
    length = re.search(r"(?:about|less than) ([0-9.]+) (s|min|h)\b", last)
    seconds = float(length.group(1)) * _UNITS[length.group(2)] if length else None
    return (int(count.group(1)) if count else None), seconds


def time(job: Job, measured, estimates):
    """Fills in cases, seconds and where they come from."""
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
            f"--records of it from there{of}"
        )


# --- which to take ---


def choose(jobs: list[Job], per_job: float, budget: float | None) -> list[Job]:
    """In the order in which they are worth it, as many as the budget allows; all where there is none."""
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
    """One line a job, in the order of choice, and what it comes to."""
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
        print(f"beside them {others} short jobs that list what there is, {others * per_job / 3600:.2f} node-hours")
