"""Plans a change of driver (or of anything else) as an experiment, and judges its outcome with a single verdict.

plan   computes how many jobs on which nodes find which step, and writes DIR: plan.json, plan.tsv (what runs where, in
       random order), trial.sbatch (a Slurm array script) and submit.
read   compares the records in DIR/records, and lists tasks that were lost or failed; running submit again runs only
       these tasks.

Jobs run before the change, then the change is made, then jobs run after it. --control adds jobs after a restart of the
nodes without the change, so that the effect of the restart is not attributed to the change. --boots restarts the nodes
several times per side, in random order, because a restart alone changes figures, so one boot per side shows little. If
a job can choose its side (--setup-before, --setup-after), jobs of both sides take turns in random order and are
compared as pairs, so that other changes over time do not affect the verdict.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import math
import pathlib
import random
import re
import shlex
import signal

from isthmus import Error, exits, inputs, options, spelling, units
from isthmus.records import jobs, selection, store
from isthmus.records.measurements import literal
from isthmus.statistics import clusters, rank_test, series
from isthmus.tables import output
from isthmus.verdicts import baselines, comparison, comparison_text, judging

SIDES = ("before", "control", "after")
MOST = 100_000  # maximum number of jobs of a plan
#: Scripts of a trial and their templates, in which @WORDS@ are replaced.
_SCRIPTS = {"trial.sbatch": "trial_job.sh", "submit": "trial_submit.sh"}
_ENDED_BY_SIGNAL = {128 + number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM)}


# --- planning ---


def needed(noise: list[float], step: float, *, nodes: int, metrics: int, cover: float = 0.9, delta: float = 0.0) -> int:
    """Returns how many jobs per side and node find a step beyond margin `delta` in a share `cover` of the series."""
    wanted = []
    for sd in noise:
        sd = max(sd, 1e-4)
        distance, margin = math.log1p(step) / sd, math.log1p(delta) / sd
        wanted.append(rank_test.jobs_needed(distance, strata=nodes, metrics=metrics, margin=margin))
    return sorted(wanted)[min(len(wanted) - 1, math.ceil(cover * len(wanted)) - 1)]


def detectable(jobs: int, *, nodes: int, metrics: int, margin: float = 0.0) -> float:
    """Returns the step that this many jobs a side and node find, infinite if they find none; step and margin are in
    standard deviations of jobs."""

    def found(beyond: float) -> bool:
        step = round(margin + beyond, 4)
        return rank_test.power(step, jobs, strata=nodes, metrics=metrics, margin=margin) >= rank_test.POWER

    low, high = 0.005, 50.0
    if not found(high):
        return math.inf
    while high / low > 1.02:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if found(middle) else (middle, high)
    return margin + high


def fewest_boots(nodes: int, metrics: int) -> int:
    """Returns the number of boots per side and node needed to distinguish a change from differences between boots.

    Several nodes are restarted together, so a boot of all nodes counts once: see statistics/clusters.py.
    """
    if nodes > 1:
        return clusters.fewest(rank_test.threshold(metrics))
    return next(n for n in range(1, 64) if rank_test.power(50, n, strata=nodes, metrics=metrics) >= rank_test.POWER)


@dataclasses.dataclass
class Size:
    """Size of a trial: numbers per side and node, and the steps that it finds."""

    boots: int
    jobs: int  # number over all boots
    steps: list[float]  # step found with 90% power in each series, ascending
    unit: str  # "jobs", "boots" or "restarts"
    simulated: bool  # false if the power is an approximation

    def finds(self, covered: float) -> float:
        """Returns the step that is found in a share `covered` of the series."""
        return self.steps[min(len(self.steps) - 1, math.ceil(covered * len(self.steps)) - 1)]


def size(
    noise: list[float], step: float, *, nodes: int, metrics: int, jobs: int | None = None, boots: int | None = None,
    boot_sd: float = 0.0, delta: float = 0.0, in_turns: bool = False,
) -> Size:  # fmt: skip
    """Returns the size of a trial that finds the step.

    If boots are known to differ, or there are several, the unit is the boot and not the job. `jobs`, if given, is the
    number in one boot. A trial in turns has at least as many pairs as a proof needs. Raises Error for more jobs than
    MOST.
    """

    def wanted() -> int:
        pairs = rank_test.fewest_pairs(rank_test.threshold(metrics)) if in_turns else 0
        return max(needed(noise, step, nodes=nodes, metrics=metrics, delta=delta), -(-pairs // nodes))

    by_boot = bool(boots or boot_sd)
    if by_boot:
        each = jobs or (max(1, -(-wanted() // boots)) if boots else 2)
        if nodes > 1:
            return _of_restarts(noise, step, nodes=nodes, metrics=metrics, each=each, boots=boots, boot_sd=boot_sd,
                                delta=delta)  # fmt: skip
        noise = [math.hypot(boot_sd, sd / math.sqrt(each)) for sd in noise]
        boots = units = boots or max(wanted(), fewest_boots(nodes, metrics))
    else:
        boots, each = 1, jobs or wanted()
        units = each
    _refuse_too_many(2 * nodes * boots * each)
    steps: dict[float, float] = {}
    found = []
    for sd in noise:
        # Rounding reduces the number of different margins to compute.
        margin = round(math.log1p(delta) / max(sd, 1e-4), 1 if len(noise) > 20 else 2)
        if margin not in steps:
            steps[margin] = detectable(units, nodes=nodes, metrics=metrics, margin=margin) - margin
        sd_steps = math.log1p(delta) + steps[margin] * sd
        found.append(math.expm1(sd_steps) if sd_steps < 700 else math.inf)
    return Size(boots, boots * each, sorted(found), "boots" if by_boot else "jobs", rank_test.simulated(units, nodes))


def _refuse_too_many(jobs: int) -> None:
    if jobs > MOST:
        raise Error(f"{jobs} jobs would be needed, more than {MOST}; look for a larger step, or compare fewer metrics")


def _of_restarts(
    noise: list[float], step: float, *, nodes: int, metrics: int, each: int, boots: int | None, boot_sd: float,
    delta: float,
) -> Size:  # fmt: skip
    """Returns the size of a trial that restarts all nodes together; the unit is the restart of all nodes.

    It is unknown how much of a boot's effect is common to all nodes, so the whole effect is assumed to be common.
    """
    p, margin = rank_test.threshold(metrics), math.log1p(delta)
    spreads = [max(math.hypot(boot_sd, sd / math.sqrt(each * nodes)), 1e-4) for sd in noise]
    if not boots:
        wanted = sorted(clusters.needed(math.log1p(step), sd, margin, p) for sd in spreads)
        boots = max(wanted[min(len(wanted) - 1, math.ceil(0.9 * len(wanted)) - 1)], clusters.fewest(p))
    _refuse_too_many(2 * nodes * boots * each)
    found = [clusters.detectable(boots, sd, margin, p) for sd in spreads]
    steps = sorted(math.expm1(each_step) if each_step < 700 else math.inf for each_step in found)
    return Size(boots, boots * each, steps, "restarts", True)


def _boots_in_turn(boots: int, chance: random.Random) -> list[str]:
    """Returns the side of each boot, in pairs of both sides in random order, so that a trend does not favour a side."""
    return [side for _ in range(boots) for side in chance.sample(["before", "after"], 2)]


def schedule(
    nodes: list[str], jobs: int, commands: int, *, control: bool, in_turns: bool, seed: int, boots: int = 1
) -> list[tuple]:
    """Returns rows (part, node, task, side, order of commands); `jobs` is the number per side and node, over all boots.

    With `in_turns`, jobs are pairs of both sides in random order. With several boots, a part is a boot of all nodes.
    """
    chance = random.Random(seed)
    sides_of_boots = _boots_in_turn(boots, chance) if boots > 1 else []
    rows = []
    for node in nodes:
        if in_turns:
            parts = {"both": [s for _ in range(jobs) for s in chance.sample(["before", "after"], 2)]}
        elif boots > 1:
            parts = {f"boot{n}": [side] * (jobs // boots) for n, side in enumerate(sides_of_boots, 1)}
        else:
            parts = {side: [side] * jobs for side in SIDES if side != "control" or control}
        for part, sides in parts.items():
            for task, side in enumerate(sides):
                order = ",".join(map(str, chance.sample(range(commands), commands)))
                rows.append((part, node, task, side, order))
    places = {part: place for place, part in enumerate(parts)}
    return sorted(rows, key=lambda row: (places[row[0]], row[1], row[2]))


def _write(folder: pathlib.Path, plan: dict, rows: list[tuple]) -> None:
    parts = " | ".join(dict.fromkeys(row[0] for row in rows))
    setup = "\n".join(f"  {side})\n    {plan['setup'].get(side) or ':'}\n    ;;" for side in SIDES)
    commands = "\n".join(f"  {shlex.quote(command)}" for command in plan["commands"])
    words = {"TRIAL": shlex.quote(str(folder.resolve())), "PARTS": parts, "SETUP": setup, "COMMANDS": commands}

    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with output.whole_folder(folder) as unfinished:
            (unfinished / "records").mkdir()
            (unfinished / "tasks").mkdir()
            (unfinished / "plan.json").write_text(json.dumps(plan, indent=1) + "\n", encoding="utf-8")
            lines = ("\t".join(map(str, row)) + "\n" for row in rows)
            (unfinished / "plan.tsv").write_text("".join(lines), encoding="utf-8")
            for name, template in _SCRIPTS.items():
                text = pathlib.Path(__file__).with_name(template).read_text(encoding="utf-8")
                filled = re.sub("(?:  # )?@([A-Z]+)@", lambda match: words[match[1]], text)
                (unfinished / name).write_text(filled, encoding="utf-8")
                (unfinished / name).chmod(0o755)
    except FileExistsError:
        raise Error(f"{folder} already exists; name another folder for this trial") from None
    except OSError as error:
        raise Error(f"{folder}: {error.strerror}") from None


def _nodes(text: str) -> list[str]:
    nodes = [node for part in options.listed("--nodes", text) for node in part.split()]
    for node in nodes:
        if not spelling.is_node_name(node):
            raise Error(
                f"{node!r} is not the name of a node; write names separated by commas, or "
                '"$(scontrol show hostnames …)"'
            )
    if len(set(nodes)) < len(nodes):
        raise Error("a node is named twice; name each once")
    return nodes


_RECORD = re.compile(r"""(?<![\w-])--record(?:=|\s+)["']?([^\s"']*)""")
_RESULTS = re.compile(r"\$(?:ISTHMUS_RESULTS\b|\{ISTHMUS_RESULTS\})/(?!.*\.\.)")


def _refuse_lost_records(commands: list[str]) -> None:
    """Raises Error for a command that would not write its records to the folder of the trial."""
    for command in commands:
        file = next((path for path in _RECORD.findall(command) if not _RESULTS.match(path)), None)
        if file is None and not re.search(r"\bISTHMUS_RESULTS=", command):
            continue
        how = "sets ISTHMUS_RESULTS" if file is None else f"writes its records to {spelling.shorten(file, 60)!r}"
        raise Error(
            f"--command {spelling.shorten(command, 80)!r} {how}, but the trial reads only its own folder; leave that "
            'out, or write --record "$ISTHMUS_RESULTS/NAME.jsonl"'
        )


def _refuse_contradictions(asked) -> None:
    _refuse_lost_records(asked.command)
    series.condition(asked.a), series.condition(asked.b)  # reports errors now rather than after a week of jobs
    if bool(asked.setup_before) != bool(asked.setup_after):
        raise Error("--setup-before and --setup-after go together: a job must be able to choose either side")
    if asked.noise:
        options.refuse_idle({"--sd": asked.sd}, "without --noise, which has the spread of each metric")
    by_boot = asked.boots or asked.boot_sd
    if by_boot and asked.setup_before:
        raise Error("jobs that choose their side run in one boot: leave out --boots and --boot-sd")
    if asked.control and asked.setup_before:
        raise Error("jobs that choose their side need no restart, so there is none to control for: leave out --control")
    if by_boot and asked.control:
        raise Error("several boots a side show what a restart alone does: leave out --control")


def make(asked) -> int:
    """Runs `isthmus trial plan`."""
    nodes = _nodes(asked.nodes)
    _refuse_contradictions(asked)
    sd = asked.sd or 0.01
    noise = list(baselines.load_noise(asked.noise).worst.values()) if asked.noise else [sd]
    noise = [sd for sd in noise if math.isfinite(sd)] or [sd]
    metrics = asked.metrics or len(noise)
    delta = asked.delta or min(judging.FLOOR, asked.step / 2)
    if delta >= asked.step:
        raise Error(f"a step of {asked.step:.1%} is not beyond the margin of {delta:.1%}; make --delta smaller")
    sized = size(
        noise, asked.step, nodes=len(nodes), metrics=metrics, jobs=asked.jobs, boots=asked.boots,
        boot_sd=asked.boot_sd or 0.0, delta=delta, in_turns=bool(asked.setup_before),
    )  # fmt: skip
    in_turns = bool(asked.setup_before)
    rows = schedule(
        nodes, sized.jobs, len(asked.command), control=asked.control, in_turns=in_turns, seed=asked.seed,
        boots=sized.boots,
    )  # fmt: skip
    plan = {
        "format": 1, "from": asked.a, "to": asked.b, "nodes": nodes, "jobs": sized.jobs, "boots": sized.boots,
        "delta": delta, "step": asked.step, "metrics": metrics, "seed": asked.seed,
        "control": asked.control, "in_turns": in_turns, "commands": asked.command,
        "setup": {"before": asked.setup_before, "after": asked.setup_after},
    }  # fmt: skip
    _write(pathlib.Path(asked.folder), plan, rows)
    print("\n".join(_summary(plan, sized, rows, asked.folder, boot_sd=asked.boot_sd)))
    return exits.PASSED


def _summary(plan: dict, sized: Size, rows: list[tuple], folder: str, *, boot_sd: float | None) -> list[str]:
    """Returns the lines that describe a plan."""
    nodes, metrics = len(plan["nodes"]), plan["metrics"]
    boots = f" in {sized.boots} boots" if sized.boots > 1 else ""
    lines = [
        f"{spelling.counted(sized.jobs, 'job')} a side on each of {spelling.counted(nodes, 'node')}{boots}, "
        f"{spelling.counted(len(rows), 'job')} in all, for {spelling.counted(metrics, 'metric')}"
    ]
    if math.isinf(sized.steps[0]):
        lines.append(
            f"too few {sized.unit} to find anything: even complete separation of the sides would not be significant"
        )
    else:
        lines.append(
            f"finds with 90% power, beyond the margin of ±{plan['delta']:.1%}, one changed metric among {metrics}:"
        )
        for covered in (0.1, 0.5, 0.9, 1.0) if len(sized.steps) > 1 else (1.0,):
            lines.append(f"  a step of {sized.finds(covered):.1%} or more in {covered:.0%} of the metrics")
        if not sized.simulated:
            lines.append(
                f"approximate: the number of {sized.unit} is too large to simulate, so a normal distribution is assumed"
            )
    if sized.unit in ("boots", "restarts") and not boot_sd:
        lines.append("assumes that boots do not differ; give their standard deviation with --boot-sd")
    fewest = fewest_boots(nodes, metrics)
    if not plan["in_turns"] and sized.boots < fewest:
        if nodes > 1:
            lines.append(
                f"note: all nodes share the effects of a night, so one part a side decides nothing: plan {fewest} "
                f"(--boots {fewest}), or jobs that choose their side (--setup-before)"
            )
        lines.append(
            f"note: if the change needs a restart, chance effects of boots are part of it: {fewest} boots a side on "
            f"each node separate them (--boots {fewest}); jobs that choose their side need none (--setup-before)"
        )
    parts = list(dict.fromkeys(row[0] for row in rows))
    if sized.boots > 1:
        sides = {row[0]: row[3] for row in rows}
        lines.append("reboot every node before each part: " + ", ".join(f"{p} {sides[p]}" for p in parts))
    quoted = shlex.quote(folder)
    submits = " … ".join(f"{quoted}/submit {part}" for part in parts)
    return [*output.fold_each(lines), f"next: {submits}, then isthmus trial read {quoted}"]


# --- reading ---


def _plan(folder: pathlib.Path) -> dict:
    path = folder / "plan.json"
    try:
        plan = inputs.json_of(inputs.read_small(path))
        if plan["format"] != 1:
            raise ValueError("another version of Isthmus made it")
        kinds: dict[str, type | tuple[type, ...]] = {"from": str, "to": str, "nodes": list, "jobs": int}
        kinds["commands"] = list
        kinds |= {"control": bool, "boots": int, "in_turns": bool, "delta": (int, float, type(None))}
        found = {name: {"boots": 1, "in_turns": False, "delta": None, **plan}[name] for name in kinds}
        for name, kind in kinds.items():
            if not isinstance(found[name], kind):
                raise TypeError(f"{name} is {json.dumps(found[name])[:40]}")
        if not all(isinstance(each, str) for each in [*found["nodes"], *found["commands"]]):
            raise TypeError("a node or command is not text")
        return found
    except OSError as error:
        raise Error(f"{path}: {error.strerror}; make it with `isthmus trial plan`") from None
    except (RecursionError, ValueError, KeyError, TypeError) as error:
        why = spelling.shorten(str(error))
        raise Error(f"{path}: not the plan of a trial ({why}); make one with `isthmus trial plan`") from None


def _text(path: pathlib.Path) -> str:
    try:
        return inputs.read_small(path).decode()
    except OSError as error:
        raise Error(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Error(f"{path}: not text, so a trial did not write it") from None


def _unfinished(folder: pathlib.Path) -> tuple[list[str], list[str], list[tuple[str, str]]]:
    """Returns sentences on tasks that did not end, sentences on tasks that failed, and superseded attempts.

    Superseded attempts are the (node, job) of all attempts at a task except the last.
    """
    lost, failed, former = [], [], []
    try:
        for line in _text(folder / "plan.tsv").splitlines():
            part, node, task, side, _ = line.split("\t")
            progress = folder / "tasks" / f"{part}.{node}.{task}"
            if not inputs.status_of(progress):
                continue
            said = _text(progress)
            began = re.findall(r"^(\S+) began$", said, re.MULTILINE)
            # A job keeps its number when it is requeued.
            former += [(node, job) for job in began[:-1] if job != began[-1]]
            ended = re.search(r"^(\S+) ended (\d+)\n\Z", said, re.MULTILINE)
            which = f"task {task} of {part} on {node} ({side})"
            if ended is None:
                lost.append(f"{which} began but did not end: it is still running, or was lost")
            elif int(ended[2]) in _ENDED_BY_SIGNAL:  # a cancelled task may have had time to write its exit code
                lost.append(f"{which} began but did not end: signal {int(ended[2]) - 128} ended it")
            elif ended[2] != "0":
                failed.append(f"{which}, job {ended[1]}, ended with exit code {ended[2]}")
    except Error:
        raise
    except ValueError:
        raise Error(f"{folder}: plan.tsv or tasks/ is not as a trial writes it") from None
    return lost, failed, former


def _turns(opened: store.Store, folder: pathlib.Path) -> dict[str, tuple]:
    """Returns the pair (node, number) of each job that ran in turns; files in tasks/ contain the jobs of each task."""
    tasks = {}
    for name in inputs.names_in(folder / "tasks"):
        part, _, rest = name.partition(".")
        if part != "both":
            continue
        node, _, task = rest.rpartition(".")
        for job in re.findall(r"^(\S+) ended \d+$", _text(folder / "tasks" / name), re.MULTILINE):
            tasks[node, job] = (node, int(task) // 2)
    rows = opened.sql(f"SELECT DISTINCT node, job, {jobs.NUMBER} FROM measurements").fetchall()
    return {job: tasks[node, number] for node, job, number in rows if (node, number) in tasks}


def _command_of(kept: pathlib.Path) -> str:
    """Returns SQL for the number of the command that wrote a record, from the folder of trial.sbatch, or null."""
    inside = f"replace(file, {literal(f'{kept}/')}, '')"  # compacted records have names relative to the folder
    return f"TRY_CAST(regexp_extract({inside}, '^[a-z]+/command([0-9]+)/', 1) AS INTEGER)"


def _idle_commands(commands: list[str], measured: list[set[str]], jobs: set[str], where: str) -> list[str]:
    """Returns sentences on commands without figures in some jobs.

    Returns none for a single command, because its job is reported as missing.
    """
    if len(commands) < 2:
        return []
    return [
        f"command {number} ({spelling.printable(spelling.shorten(command, 60))}) left no figure in {len(jobs - did)} "
        f"of {spelling.counted(len(jobs), 'job')} {where}: look at their output"
        for number, (command, did) in enumerate(zip(commands, measured), 1)
        if jobs - did
    ]


def _missing(asked, opened: store.Store, plan: dict, side: str, command: str) -> tuple[list[str], list[str]]:
    """Returns sentences on missing jobs, commands without figures and missing boots, and the sides without any job.

    Counts jobs regardless of the options that select records. Raises Error if jobs ran in a state of the machine that
    was not planned for their side.
    """
    by_side = f"(SELECT *, {side} AS side FROM measurements)"
    kinds = ("true" if asked.emulated else "NOT emulated", "true" if asked.profiled else "profiler IS NULL")
    rows = opened.sql(
        "SELECT side, node, job, command, bool_or(metric IS NOT NULL) FROM "
        f"(SELECT *, {side} AS side, {command} AS command FROM everything WHERE {' AND '.join(kinds)}) "
        "WHERE side IS NOT NULL GROUP BY ALL"
    ).fetchall()
    places = opened.sql(
        f"SELECT side || ' on ' || node AS place, count(DISTINCT boot) FROM {by_side} "
        "WHERE side IS NOT NULL GROUP BY place ORDER BY place"
    ).fetchall()
    jobs_of, measured = collections.defaultdict(set), collections.defaultdict(set)
    for name, node, job, number, has_figure in rows:
        jobs_of[name, node].add(job)
        if has_figure:
            measured[name, node, number].add(job)
    sentences, empty = [], []
    for name in SIDES if plan["control"] else ("before", "after"):
        for node in plan["nodes"]:
            jobs = jobs_of[name, node]
            if len(jobs) < plan["jobs"]:
                sentences.append(f"{plan['jobs'] - len(jobs)} of {plan['jobs']} jobs {name} on {node} are missing")
            did = [measured[name, node, number] for number, _ in enumerate(plan["commands"], 1)]
            sentences += _idle_commands(plan["commands"], did, jobs, f"{name} on {node}")
        if not any(place.startswith(f"{name} on ") for place, _ in places):
            empty.append(name)
    for name, wanted in (("before", plan["from"]), ("control", plan["from"]), ("after", plan["to"])):
        [[count]] = opened.sql(
            f"SELECT count(DISTINCT job) FROM {by_side} WHERE side = '{name}' AND NOT {series.condition(wanted)}"
        ).fetchall()
        if count:
            stray = spelling.counted(count, "job")
            raise Error(f"{stray} {name} did not run with {wanted}; move the records out of the trial")
    for place, boots in places:
        if plan["boots"] > max(boots, 1):
            ran = f"{place} ran in {boots or 'no known'} of {plan['boots']} boots"
            sentences.append(f"{ran}: reboot the node before each part")
    return sentences, empty


_NAMED = 10


def _notes(sentences: list[str]) -> list[str]:
    more = [f"… and {len(sentences) - _NAMED} more"] if len(sentences) > _NAMED else []
    return [f"note: {sentence}" for sentence in [*sentences[:_NAMED], *more]]


def _table(outcomes: dict[str, judging.Outcome], first: str, last: list[str], everything: bool) -> output.Table:
    """Returns a table with a row for each series of each comparison; `first` is the side compared with "after"."""
    lines, notes = [], []
    if restart := outcomes.get("restart"):
        notes = [f"restart alone: {restart.verdict}"]
        lines = [*notes]
        if first == "control":
            lines += [comparison_text.text(restart), "so the change is compared with the jobs after the restart\n"]
    if change := outcomes.get("change"):
        lines.append(comparison_text.text(change, everything=everything))
        notes += comparison_text.of_all(change)
    rows = [
        comparison_text.row_of(each) | {"comparison": name}
        for name, found in outcomes.items()
        for each in found.results
    ]
    columns = {"comparison": "VARCHAR", **comparison_text.COLUMNS}
    return output.of_cases(rows, columns, "\n".join([*lines, *last]), [*notes, *last])


def read(asked) -> int:
    """Runs `isthmus trial read`."""
    folder = pathlib.Path(asked.folder)
    plan = _plan(folder)
    lost, failed, former = _unfinished(folder)
    kept = folder / "records"
    side = "CASE "
    if former:
        attempts = ", ".join(f"({literal(node)}, {literal(job)})" for node, job in former)
        side += f"WHEN (node, {jobs.NUMBER}) IN ({attempts}) THEN NULL "
    side += "".join(
        f"WHEN starts_with(file, {literal(f'{kept}/{name}/')}) OR starts_with(file, '{name}/') THEN '{name}' "
        for name in SIDES
    )
    side += "END"

    def compared(a: str, b: str) -> judging.Outcome:
        chosen = f"CASE {side} WHEN '{a}' THEN 'A' WHEN '{b}' THEN 'B' END"
        delta = asked.delta or (None if noise or plan["delta"] == judging.FLOOR else plan["delta"])
        return comparison.outcome(
            opened, chosen, asked=f"{plan['from']},{plan['to']}", delta=delta, noise=noise, boots=boots,
            randomised=plan["in_turns"] or plan["boots"] > 1, turns=turns,
        )  # fmt: skip

    noise, boots, _ = baselines.load_noise(asked.noise) if asked.noise else (None, None, None)
    outcomes, turns, first = {}, {}, "before"
    with selection.from_arguments(asked, paths=[kept], wanted=(*comparison.WANTED, "file")) as opened:
        missing, empty = _missing(asked, opened, plan, side, _command_of(kept))
        turns = _turns(opened, folder) if plan["in_turns"] else {}
        if plan["control"] and not {"before", "control"} & {*empty}:
            restart = outcomes["restart"] = compared("before", "control")
            if restart.count("regressed") or restart.count("improved"):
                first = "control"
        if not {first, "after"} & {*empty}:
            outcomes["change"] = compared(first, "after")
    last = [line for sentences in (lost, failed, missing) for line in _notes(sentences)]
    change = outcomes.get("change")
    if change is None:
        last.append(f"nothing to compare yet: no job {' or '.join(empty)} left a record")
    elif lost or failed or missing:
        last.append("the trial is not complete; run submit again for the tasks that were lost or failed")
    output.write(asked, _table(outcomes, first, last, asked.all))
    if change is None or lost or failed or missing:
        return (change and change.exit_code) or exits.UNDECIDED
    return change.exit_code


def add_arguments(parser) -> None:
    parts = parser.add_subparsers(dest="part", required=True, metavar="plan | read")
    plan = parts.add_parser("plan", help="how many jobs, and the scripts for Slurm")
    plan.add_argument("folder", metavar="DIR", help="folder to create for plan, scripts and records")
    plan.add_argument("--from", dest="a", required=True, metavar="WHAT", help="the state before: FIELD=VALUE,…")
    plan.add_argument("--to", dest="b", required=True, metavar="WHAT", help="the state after")
    plan.add_argument("--nodes", required=True, metavar="N1,N2,…", help="nodes that every side runs on")
    plan.add_argument("--step", **units.SHARE, default=0.03, help="the change to find (0.03)")
    plan.add_argument("--delta", **units.SHARE, help="the margin that a change must exceed (0.01, or half a step)")
    plan.add_argument("--noise", metavar="FILE", help="file that `isthmus noise -o FILE.json` wrote")
    plan.add_argument("--sd", **units.SHARE, help="standard deviation between jobs, without --noise (0.01)")
    plan.add_argument("--metrics", **units.COUNT, help="metrics to compare (default: those of --noise)")
    plan.add_argument(
        "--jobs", **units.COUNT, help="jobs a side and node (of each boot, with --boots), not the computed number"
    )
    plan.add_argument("--boots", **units.COUNT, help="restarts of every node a side, in random order")
    plan.add_argument(
        "--boot-sd",
        **units.SHARE,
        help="standard deviation between boots of a node; without --boots, determines their number",
    )
    plan.add_argument("--control", action="store_true", help="also run after a restart of the nodes without the change")
    plan.add_argument("--setup-before", metavar="SH", help="shell line with which a job chooses the state before")
    plan.add_argument("--setup-after", metavar="SH", help="shell line with which a job chooses the state after")
    plan.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the random order (1)")
    plan.add_argument(
        "--command",
        action="append",
        required=True,
        metavar="SH",
        help="command that each job runs and that writes records (repeatable)",
    )
    plan.set_defaults(do=make)
    reading = parts.add_parser("read", help="the outcome as one verdict")
    reading.add_argument("folder", metavar="DIR")
    reading.add_argument("--delta", **units.SHARE, help="changes up to this are equivalent")
    reading.add_argument("--noise", metavar="FILE", help="file that `isthmus noise -o FILE.json` wrote")
    reading.add_argument("--all", action="store_true", help="show every series")
    selection.add_selection(reading)
    output.add_arguments(reading)
    reading.set_defaults(do=read)


def run(asked) -> int:
    return asked.do(asked)
