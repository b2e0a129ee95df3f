"""Tests of truncated records, of reports of a job's end, and of keeping records when the disk fails."""

import errno
import gzip
import hashlib
import itertools
import json
import os
import subprocess
import time
import tracemalloc
import types

import pytest
import reframe.utility.osext as osext
from hypothesis import given
from hypothesis import strategies as st
from reframe.core.exceptions import SanityError
from reframe.core.schedulers import slurm

import fake_bench
from isthmus import tools
from isthmus.records import load
from isthmus_reframe import jobs, steady_clock, store
from isthmus_reframe.gates import session_files

LINES = [
    (json.dumps(fake_bench.record("microbench/saxpy", mode, "tiny", "host")) + "\n").encode() for mode in ("pm", "uvm")
]


@given(st.integers(0, sum(map(len, LINES))), st.binary(max_size=40).filter(lambda b: b"{" not in b))
def test_lines_before_a_cut_are_kept_and_nothing_else(tmp_path_factory, cut, garbage):
    path = tmp_path_factory.mktemp("cut") / "record.jsonl"
    path.write_bytes(b"".join(LINES)[:cut] + b"\n" + garbage)
    kept = store.whole_records(path)
    # A line that lacks only its newline is complete.
    assert kept == [line for number, line in enumerate(LINES) if cut >= sum(map(len, LINES[: number + 1])) - 1]


@given(st.sets(st.integers(0, 300)))
def test_ranges_of_processors(numbers):
    assert jobs.numbers(",".join(map(str, numbers))) == numbers


def test_a_range_is_all_between_its_ends():
    assert jobs.numbers("0-2,8,10-11") == {0, 1, 2, 8, 10, 11}


def job(state, scheduler="slurm", nodes=("node1",)):
    named = types.SimpleNamespace(registered_name=scheduler)
    return types.SimpleNamespace(jobid="7", state=state, nodelist=list(nodes), scheduler=named)


@pytest.mark.parametrize(
    "state, words",
    [
        ("TIMEOUT", "job 7 on node1 ran into its time limit (TIMEOUT)"),
        ("NODE_FAIL", "job 7 on node1 lost its node (NODE_FAIL)"),
        ("CANCELLED", "job 7 on node1 was cancelled (CANCELLED)"),
        ("CANCELLED,CANCELLED", "job 7 on node1 was cancelled (CANCELLED)"),
        ("OUT_OF_MEMORY", "job 7 on node1 was killed for its use of memory (OUT_OF_MEMORY)"),
        ("PREEMPTED", "job 7 on node1 was preempted (PREEMPTED)"),
        ("BOOT_FAIL", "job 7 on node1 had nodes that did not start (BOOT_FAIL)"),
        ("DEADLINE", "job 7 on node1 ran into its deadline (DEADLINE)"),
        ("COMPLETED", None),
        ("FAILED", None),
        (None, None),
    ],
)
def test_an_end_in_words(state, words):
    assert jobs.abnormal_end(job(state)) == words


def test_a_job_that_failed_after_its_program_ended_well():
    told = "job 7 on node1 failed in a line of its script after the program (FAILED)"
    assert jobs.abnormal_end(job("FAILED"), well=True) == told
    assert jobs.abnormal_end(job("COMPLETED"), well=True) is None
    assert jobs.abnormal_end(job("FAILED", scheduler="local"), well=True) is None


@pytest.mark.parametrize("state, ended", [("PREEMPTED", True), ("REVOKED", True), ("RUNNING", False), (None, False)])
def test_reframe_does_not_wait_for_what_never_comes_back(state, ended):
    assert bool(slurm.slurm_state_completed(state)) == ended


@pytest.mark.parametrize(
    "text, said",
    [
        ("srun: error: n1: task 0: Exited with exit code 2\nslurmstepd-n1: error: execve(): p: Permission denied\n",
         "slurmstepd-n1: error: execve(): p: Permission denied"),
        ("warning: an error\nisthmus-bench: one\nisthmus-bench: two\nsrun: error: n1: task 0: Killed\n",
         "isthmus-bench: two"),
        ("slurmstepd-n1: error: *** STEP 7.0 ON n1 CANCELLED AT 10:00 ***\nsrun: error: n1: task 1: Killed\n",
         "srun: error: n1: task 1: Killed"),
        ("srun: error: n1: task 0: Exited with exit code 7\nall is well\n", ""),
        ("fatal: \x1b[31mred", "fatal: \\x1b[31mred"),
        ("", ""),
    ],
)  # fmt: skip
def test_the_line_that_says_what_went_wrong(text, said):
    assert jobs.complaint(text) == said


@pytest.mark.parametrize(
    "line, found",
    [
        ("/spool/slurm_script: line 7: module: command not found", True),
        ('Lmod has detected the following error: The following module(s) are unknown: "cuda/99"', True),
        ("ERROR: Unable to locate a modulefile for 'cuda/99'", True),
        ("ModuleCmd_Load.c(213):ERROR:105: Unable to locate a modulefile for 'cuda/99'", True),
        ("==> Error: Spec 'fmt' matches no installed packages.", True),
        ("isthmus-bench: this module has detected the error", False),
        ("srun: command not found", False),
        ("/etc/bash.bashrc: line 3: module: command not found", False),
    ],
)
def test_an_environment_that_was_not_loaded(line, found):
    assert jobs.not_loaded(f"before\n{line}\nafter") == (line if found else None)


@pytest.mark.parametrize(
    "line, found",
    [
        ("  ERROR: Module cannot be loaded due to a conflict.", True),
        ("==> Error: fmt matches multiple packages.", True),
        ("job.sh: line 4: module: not found", True),
        ("cuda/99.9: unknown module", True),
        ("ml: the following have been reloaded with a version change: 1) gcc/12 => gcc/13", False),
        ("bash: warning: setlocale: LC_ALL: cannot change locale (de_DE.UTF-8)", False),
        ("~/.bashrc: line 3: conda: command not found", False),
    ],
)
def test_what_is_said_while_an_environment_is_loaded_is_said_of_it(line, found):
    mark = jobs.note_environment()[0].split("'")[1]
    assert jobs.not_loaded(f"before\n{line}\n{mark}\nafter") == (line.strip() if found else None)
    # After the mark, the same words in the program's output mean something else.
    assert jobs.not_loaded(f"{mark}\nisthmus-bench: error: a conflict, unknown, not found") is None


@pytest.mark.parametrize(
    "loaded, missing",
    [
        ("gcc/12.3:cuda/12.4", None),
        ("gcc/12.3:cuda/11.8", "cuda/12.4"),
        ("gccx/12:cuda/12.4", "gcc"),
        ("", "gcc, cuda/12.4"),
    ],
)
def test_modules_that_are_not_there_after_they_were_loaded_are_named(tmp_path, monkeypatch, loaded, missing):
    """Lists loaded modules. A module may be missing without an error, because another module has unloaded it."""
    system = types.SimpleNamespace(name="lmod", resolve_module=lambda name: [name])
    monkeypatch.setattr(jobs.runtime, "runtime", lambda: types.SimpleNamespace(modules_system=system))
    asked = [
        {"name": "gcc", "collection": False},
        {"name": "cuda/12.4", "collection": False},
        {"name": "own", "collection": True},
    ]
    lines = jobs.note_environment(types.SimpleNamespace(modules_detailed=asked))
    script = "\n".join(["set -eu", "module() { false; }", *lines])
    subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, check=True, env={"LOADEDMODULES": loaded, "PATH": os.environ["PATH"]}
    )
    assert jobs.not_loaded("", tmp_path) == (missing and f"after it, {missing} is not loaded")


@pytest.mark.parametrize("field", ["system", "partition", "job"])
def test_an_environment_that_was_lost_on_the_way_is_not_called_another_job(field):
    case = {"run": {"system": "s", "partition": "p", "job": "7", "node": "node1", "time": "2026-11-21T00:00:00Z"}}
    case["run"][field] = None
    told = jobs.foreign(case, job("COMPLETED"), "s", "p")
    assert f"the record names no {field}, so the job's environment did not reach the program" in told
    case["run"][field] = "another"
    assert "another" in jobs.foreign(case, job("COMPLETED"), "s", "p")


def test_a_clock_that_was_set_meanwhile_makes_no_record_foreign(monkeypatch):
    """Sets the clock after the job was submitted, so that the job's record has a time of the new clock."""
    wall, local = [1000.0], job("COMPLETED", scheduler="local", nodes=())
    steady = steady_clock.SteadyTime(wall=lambda: wall[0], monotonic=lambda: 0.0)
    monkeypatch.setattr(jobs.steady_clock, "STEADY", steady)
    monkeypatch.setattr(jobs.time, "time", lambda: wall[0])
    monkeypatch.setattr(jobs, "_own_job", lambda: None)
    monkeypatch.setattr(jobs, "_nodes", lambda job: set())
    local.submit_time = 1000.0
    case = {"run": {"system": "s", "partition": "p", "job": None, "node": "n"}}
    for now, recorded, is_foreign in ((1000, 1000, False), (1000, 900, True), (940, 940, False), (940, 1000, False),
                                      (940, 800, True), (5000, 5000, False), (5000, 900, True)):  # fmt: skip
        wall[0] = float(now)
        case["run"]["time"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(recorded))
        assert bool(jobs.foreign(case, local, "s", "p")) == is_foreign, (now, recorded)


@pytest.mark.parametrize(
    "noted, exclusive, told",
    [
        ("", True, None),
        ("", False, None),
        ("?\n", True, None),
        ("?\n", False, "could not be determined"),
        ("?\n", None, "could not be determined"),
        (None, None, "could not be determined"),
        ("8\n?\n9\n", True, "other jobs ran on the node (8, 9)"),
    ],
)
def test_a_look_for_others_that_failed_is_not_a_look_that_found_none(tmp_path, noted, exclusive, told):
    if noted is not None:
        (tmp_path / jobs.OTHER_JOBS).write_text(noted)
    mine = job("COMPLETED")
    mine.isthmus_exclusive = exclusive
    found = jobs.company(mine, tmp_path)
    assert found is None if told is None else told in found
    assert jobs.company(job("COMPLETED", scheduler="local"), tmp_path) is None


@pytest.mark.parametrize(
    "recorded, asked, told",
    [
        (True, None, None),
        (False, True, "did not have its nodes to itself"),
        (None, True, None),
        (None, False, "did not have its nodes to itself"),
        (None, None, "could not be determined (scontrol failed)"),
    ],
)
def test_a_grant_that_may_be_shared_is_named(recorded, asked, told):
    mine = job("COMPLETED")
    mine.isthmus_exclusive = asked
    found = jobs.shared_grant({"run": {"allocation": {"exclusive": recorded}}}, mine)
    assert found is None if told is None else told in found
    assert jobs.shared_grant({"run": {"allocation": None}}, job("COMPLETED", scheduler="local")) is None


@pytest.mark.parametrize("code", [0, 1, None])
def test_the_look_of_a_job_script_notes_that_it_failed(tmp_path, code):
    (tmp_path / "squeue").write_text(f"#!/bin/sh\nprintf '7\\n8\\n'; exit {code}\n" if code is not None else "")
    (tmp_path / "squeue").chmod(0o755 if code is not None else 0o644)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n"}
    subprocess.run(["bash", "-euc", jobs._NOTE_OTHERS], cwd=tmp_path, env=env, check=True)
    assert (tmp_path / jobs.OTHER_JOBS).read_text().split() == (["8"] if code == 0 else ["?"])


def scheduler(folder, monkeypatch, **scripts):
    """Puts stubs of a scheduler's commands on PATH, before the system's commands."""
    for name, script in scripts.items():
        (folder / name).write_bytes(b"#!/bin/bash\n" + script + b"\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


@pytest.mark.parametrize("squeue", [None, b"sleep 60", b"exit 1", b"cat /dev/zero"])
def test_a_command_that_does_not_answer_is_one_that_failed(tmp_path, monkeypatch, squeue):
    names = ("squeue", "scontrol", "scancel")
    scheduler(tmp_path, monkeypatch, **(dict.fromkeys(names, squeue) if squeue else {}))
    ask = tools.ask
    monkeypatch.setattr(jobs.tools, "ask", lambda *command: ask(*command, timeout=0.2))
    monkeypatch.setattr(jobs.time, "sleep", lambda _: None)
    assert jobs.look_in_queue(["7"])[0] is None
    jobs.settle([job("RUNNING")])  # gives up after ten failures in a row
    assert "squeue failed: " in jobs.settle_ids(["7"])
    assert jobs.is_exclusive(job("COMPLETED")) is None


def test_what_slurm_prints_need_not_be_utf_8(tmp_path, monkeypatch):
    told = b"printf 'JobId=7 JobName=caf\\351 OverSubscribe=NO JobState=OUT_OF_MEMORY NodeList=node1'"
    scheduler(tmp_path, monkeypatch, scontrol=told, squeue=b"printf 'caf\\351' >&2; exit 1")
    mine = job("COMPLETED", scheduler="squeue")
    assert jobs.is_exclusive(mine)
    assert "was killed for its use of memory" in jobs.abnormal_end(mine)
    assert jobs.look_in_queue(["7"]) == (None, "squeue failed: caf\N{REPLACEMENT CHARACTER}")
    environment = {"LC_ALL": "C.UTF-8", "PATH": os.environ["PATH"], "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "node1"}
    lines = f"set -e\n{jobs._NOTE_SHARING}\necho $ISTHMUS_JOB_SHARING"
    assert subprocess.check_output(["bash", "-c", lines], env=environment) == b"NO\n"


def test_what_reframe_asks_slurm_need_not_be_utf_8(tmp_path, monkeypatch):
    scheduler(tmp_path, monkeypatch, squeue=b"printf '7|caf\\351'")
    session_files.install()
    assert osext.run_command("squeue").stdout == "7|caf\N{REPLACEMENT CHARACTER}"


def test_slurm_is_asked_in_the_c_locale(tmp_path, monkeypatch):
    scheduler(tmp_path, monkeypatch, squeue=b'echo "$LC_ALL" >&2; exit 1')
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert jobs.look_in_queue(["7"]) == (None, "squeue failed: C")


@pytest.fixture
def slurm_says(monkeypatch):
    """Returns slurm_says(exit code, standard output, standard error), which sets the answer of every Slurm command."""
    monkeypatch.setattr(jobs.time, "sleep", lambda _: None)

    def say(code, out="", err=""):
        failure = f"ends with exit code {code}" if code else None
        answer = tools.Answer("scontrol", out, err, code=code, failure=failure)
        monkeypatch.setattr(jobs.tools, "ask", lambda *command: answer)

    return say


@pytest.mark.parametrize(
    "code, out, err, queued",
    [(0, "7\n", "", True), (0, "", "", False), (1, "", "slurm_load_jobs error: Invalid job id specified", False),
     (1, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)", None)],
)  # fmt: skip
def test_a_queue_that_does_not_answer_is_not_an_empty_one(slurm_says, code, out, err, queued):
    slurm_says(code, out, err)
    assert jobs.look_in_queue(["7"])[0] is queued


def recorded_on(node):
    run = {"system": "s", "partition": "p", "job": "7", "node": node, "time": "2026-11-21T00:00:00Z"}
    return {"run": run}


@pytest.mark.parametrize("scheduler", jobs.SLURM)
@pytest.mark.parametrize(
    "nodespec, node, told",
    [(None, "node1", "the nodes of job 7 could not be queried (scontrol failed)"),
     ("node[1", "node1", "the nodes of job 7 could not be queried (scontrol failed)"),
     ("node[1-2]", "node3", "the record is of node node3, but the job ran on node1, node2"),
     ("node[1-2]", "node2", "when this job did not run")],
)  # fmt: skip
def test_nodes_that_slurm_does_not_name_let_no_record_pass(slurm_says, scheduler, nodespec, node, told):
    slurm_says(1)
    mine = job("COMPLETED", scheduler=scheduler, nodes=())
    mine._nodespec, mine.submit_time = nodespec, time.time()
    assert told in jobs.foreign(recorded_on(node), mine, "s", "p")


def test_an_end_that_slurm_does_not_tell_is_no_good_one(slurm_says):
    for code, err, is_told in ((1, "Unable to contact slurm controller", False), (1, "Invalid job id specified", True)):
        slurm_says(code, err=err)
        found = jobs.abnormal_end(job("COMPLETED", scheduler="squeue"), well=True)
        assert found is None if is_told else "in an unknown way, because scontrol failed" in found


@pytest.mark.parametrize("code, words", [(0, "0"), (7, "7"), (137, "137 (SIGKILL)"), (255, "255")])
def test_exit_codes_in_words(code, words):
    assert jobs.exit_code_in_words(code) == words


@pytest.mark.parametrize(
    "ranks, on_gpus, why",
    [
        ([("a", "G0", "0-3"), ("a", "G1", "4-7"), ("b", "G0", "0-7")], True, None),
        ([("a", "G0", "0-3"), ("a", "G0", "4-7")], True, "ranks 0 and 1 are both bound to GPU G0 of a"),
        ([("a", "G0", "0-3"), ("a", "G0", "4-7")], False, None),
        ([("a", None, None), ("a", None, None)], True, None),
        ([("a", "G0", "0"), ("b", "G0", "0"), ("a", "G1", "0-1")], True, "ranks 0 and 2 are both bound to processor 0"),
    ],
)
def test_ranks_that_crowd(ranks, on_gpus, why):
    each = [{"node": node, "device": device, "cpus": cpus} for node, device, cpus in ranks]
    told = jobs.crowded_ranks({"ranks": {"each": each}}, on_gpus=on_gpus)
    assert told is None if why is None else told.startswith(why)
    assert jobs.crowded_ranks({}, on_gpus=on_gpus) is None


@pytest.mark.parametrize(
    "allocation, short",
    [(None, False), ({}, False), ({"gpus": None}, False), ({"gpus": 2}, False), ({"gpus": 1}, True)],
)
def test_a_grant_of_too_few(allocation, short):
    told = jobs.short_grant({"run": {"node": "n", "allocation": allocation}}, 2)
    assert told == ("the job was granted 1 GPUs on n, but 2 were requested" if short else None)


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Returns keep(), which stores a different record at each call, and the folder of the stored records."""
    monkeypatch.setenv("ISTHMUS_RESULTS", str(tmp_path / "results"))
    source, numbers = tmp_path / "record.jsonl", itertools.count()
    record = json.loads(LINES[0])

    def keep(**run):
        record["run"].update(run)
        record["seed"] = next(numbers)
        source.write_text(json.dumps(record) + "\n")
        return store.keep_record(source, "saxpy")

    source.write_bytes(LINES[0])
    return keep, tmp_path / "results"


def test_a_record_behind_half_of_another_is_found(tmp_path):
    """Finds a record after half of another one, and several records on one line, but not a record within other JSON or
    one with bytes that are not text."""
    one, two = (line.rstrip() for line in LINES)
    path = tmp_path / "record.jsonl"
    for text, found in (
        (one[:900] + two, [two]),
        (one + two, [one, two]),
        (one[:900] + two + one[:500] + b"\n" + one, [two, one]),
        (one + one, [one]),
        (b'{"wrapped": ' + one + b"}", []),
        (one[:900] + two.replace(b"fake", b"f\xffke"), []),
        (b"{" * 5000, []),
        (b"\0" * 500, []),
    ):
        path.write_bytes(text)
        assert store.whole_records(path) == [record + b"\n" for record in found]


def test_a_file_of_records_is_read_within_a_limit(kept, tmp_path, monkeypatch):
    _, results = kept
    path = tmp_path / "record.jsonl"
    path.write_bytes(LINES[0] + b"\0" * (9 << 20) + b"\n" + LINES[1])
    assert store.whole_records(path) == LINES
    os.truncate(path, 3 << 30)
    tracemalloc.start()
    assert store.whole_records(path) == LINES
    with pytest.raises(SanityError, match=r"larger than 128 MiB.*it is still in"):
        store.keep_record(path, "saxpy")
    assert tracemalloc.get_traced_memory()[1] < 128 << 20
    tracemalloc.stop()
    monkeypatch.setattr(store, "MOST_RECORDS", len(LINES[0]))
    with pytest.raises(SanityError, match="of records, the maximum that is kept: move it away"):
        store.whole_records(path)
    assert not list(results.iterdir())


def test_a_record_that_is_too_large_is_one_sentence(session):
    outcome = session(fake="padded:130")
    assert not outcome.green and "MiB, more than the 128 MiB that records may have" in outcome.output


def test_the_same_line_is_kept_once(kept, tmp_path):
    _, results = kept
    (tmp_path / "record.jsonl").write_bytes(LINES[0] + LINES[1] + LINES[0])
    store.keep_record(tmp_path / "record.jsonl", "saxpy")
    assert [path.read_bytes() for path in results.iterdir()] == [LINES[0] + LINES[1]]


def test_records_of_one_name_in_one_second_are_all_kept(kept):
    keep, results = kept
    assert len({keep() for _ in range(20)}) == 20
    assert len({path.read_bytes() for path in results.iterdir()}) == 20


def test_a_run_of_a_job_is_kept_once(kept, tmp_path):
    keep, results = kept
    first = keep(id="0badcafe", job="7")
    assert first.name == "20261121T000000Z-saxpy-0badcafe-job7.jsonl"
    assert store.keep_record(tmp_path / "record.jsonl", "saxpy") == first
    assert keep(id="0badcafe", job="8") != first
    assert len(list(results.iterdir())) == 2


def test_records_of_one_name_in_one_second_keep_each_its_tables(kept, tmp_path):
    _, results = kept
    record = json.loads(LINES[0])
    (tmp_path / "record.tables").mkdir()
    for number in range(5):
        data = gzip.compress(f"a\n{number}\n".encode())
        (tmp_path / "record.tables/t.csv.gz").write_bytes(data)
        (tmp_path / "record.tables/.t.csv.gz.part").write_bytes(data)
        entry = {"name": "t", "columns": ["a"], "file": "record.tables/t.csv.gz", "rows": 1}
        record["tables"] = [{**entry, "sha256": hashlib.sha256(data).hexdigest()}]
        (tmp_path / "record.jsonl").write_text(json.dumps(record) + "\n{cut")
        path = store.keep_record(tmp_path / "record.jsonl", "saxpy")
        assert store.keep_record(tmp_path / "record.jsonl", "saxpy") == path
        line, cut = path.read_text().split("\n")
        assert cut == "{cut" and load.read_table(path, json.loads(line), "t") == [{"a": number}]
    assert len(list(results.glob("*.jsonl"))) == len(list(results.glob("*/t.csv.gz"))) == 5
    assert not list(results.glob("*/.*"))


def test_file_systems_without_hard_links_keep_records_too(kept, monkeypatch):
    keep, results = kept
    keep()

    def refuse(*_):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    paths = {keep() for _ in range(3)}
    assert len(paths) == 3 and len({path.read_bytes() for path in results.iterdir()}) == 4


@pytest.mark.parametrize("call", ["fsync", "fdopen", "link"])
def test_a_disk_that_fails_leaves_nothing_and_a_sentence(kept, monkeypatch, call):
    keep, results = kept

    def fail(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(SanityError, match=r"kept in .*results \(No space left on device\); it is still in"):
        keep()
    assert not list(results.iterdir())
