"""Tests of files that a user names.

Outputs must not overwrite them, and commands must not wait for them, read them without limit, or ignore them.
"""

import contextlib
import functools
import gzip
import io
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import tracemalloc
import types

import pytest
from histories import History, jobs_of, write

from isthmus import Error, cli, exits, inputs
from isthmus.records import load
from isthmus.tables import output


class Hangs(Exception):
    """Error that is raised if a command does not end."""


def run(*words, seconds=30):
    """Runs the command `isthmus` in this process. Returns its exit code, stdout and stderr."""

    def give_up(*_):
        raise Hangs(words)

    out, err = io.StringIO(), io.StringIO()
    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli.main([str(word) for word in words])
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return types.SimpleNamespace(returncode=code, stdout=out.getvalue(), stderr=err.getvalue())


ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/records/saxpy.jsonl"
REPORT = {
    "session_info": {"uuid": "1", "cmdline": "reframe -r"},
    "runs": [
        {
            "testcases": [
                {
                    "result": "pass",
                    "name": "a",
                    "system": "s",
                    "partition": "p",
                    "environ": "e",
                    "perfvalues": {"s:p:time": [1, 0, None, None, "s"]},
                }
            ]
        }
    ],
}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Returns a folder with inputs of many kinds, which tests must not change."""
    folder = tmp_path_factory.mktemp("kept")
    for i, case in enumerate(jobs_of(History(nodes=2), 4, 4)):
        write(folder / "c", [case], f"{i:03}.jsonl")
    shutil.copy(folder / "c/000.jsonl", folder / "a.jsonl")
    shutil.copy(folder / "a.jsonl", folder / "plain.json")  # records under another name
    (folder / "link.json").symlink_to("a.jsonl")
    os.link(folder / "a.jsonl", folder / "hard.json")
    (folder / "rep.json").write_text(json.dumps(REPORT, indent=2))
    (folder / "x.uvm").write_bytes(b"isthmus.uvm/1\n\0\0")
    (folder / "w.json").write_text('{"metrics": {"microbench/* time": 1}}')
    (folder / "p").mkdir()
    (folder / "p/a.perf").write_text("1;;page-faults;1;100.00;;\n")
    assert run("noise", folder / "c", "-o", folder / "n.json").returncode == 0
    shutil.copytree(folder / "c", folder / "d")
    assert run("compact", folder / "d").returncode == 0
    shutil.copy(next((folder / "d/compacted").rglob("*.parquet")), folder / "part.parquet")
    return folder


SIDES = ["--from", "driver=570", "--to", "driver=580"]


@pytest.mark.parametrize(
    "words, where",
    [
        (["table", "a.jsonl", "--format", "json", "-o"], "a.jsonl"),
        (["table", "a.jsonl", "--format", "json", "-o"], "./c/../a.jsonl"),
        (["table", "a.jsonl", "-o"], "link.json"),
        (["table", "a.jsonl", "-o"], "hard.json"),
        (["table", "plain.json", "-o"], "plain.json"),
        (["table", "a.jsonl", "-o"], "plain.json"),
        (["table", "a.jsonl", "-o"], "rep.json"),
        (["table", "a.jsonl", "--format", "csv", "-o"], "x.uvm"),
        (["regress", "c", *SIDES, "--json"], "c/000.jsonl"),
        (["regress", "c", *SIDES, "--noise", "n.json", "--json"], "n.json"),
        (["noise", "c", "--format", "json", "-o"], "c/007.jsonl"),
        (["nightly", "rep.json", "--json"], "rep.json"),
        (["nightly", "rep.json", "--junit"], "rep.json"),
        (["score", "c", "--weights", "w.json", "--reference", "c", "-o"], "w.json"),
        (["profile", "perf", "p", "--format", "json", "-o"], "p/a.perf"),
        (["site", "budget", "generic", "--select"], "a.jsonl"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else words,
)
def test_no_output_replaces_what_was_measured_or_read(kept, monkeypatch, words, where):
    monkeypatch.chdir(kept)
    before = pathlib.Path(where).read_bytes()
    done = run(*words, where)
    assert pathlib.Path(where).read_bytes() == before and not done.stdout
    assert done.returncode == exits.BAD_INPUT and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.endswith("; name another\n") or done.stderr.endswith("; name another file\n")


def test_no_output_replaces_what_cannot_be_read(tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    path.write_text("{}")
    output.refuse_input(path)

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(inputs, "open", refuse, raising=False)
    with pytest.raises(Error, match=r"contains contents that cannot be read .Permission denied., which is never"):
        output.refuse_input(path)


def test_no_output_replaces_a_part_of_a_compacted_table(kept, tmp_path):
    shutil.copytree(kept / "d", tmp_path / "d")
    part = next((tmp_path / "d/compacted").rglob("*.parquet"))
    before = part.read_bytes()
    done = run("table", kept / "a.jsonl", "-o", part)
    assert done.returncode == exits.BAD_INPUT and part.read_bytes() == before
    assert "part of a compacted table" in done.stderr


def test_two_outputs_are_two_files(kept, tmp_path):
    done = run("nightly", kept / "rep.json", "--json", tmp_path / "n", "--junit", tmp_path / "n")
    assert done.returncode == exits.BAD_INPUT and "two outputs" in done.stderr and not list(tmp_path.iterdir())
    assert run("nightly", kept / "rep.json", "--json", os.devnull, "--junit", os.devnull).returncode == exits.PASSED


def test_an_output_replaces_an_earlier_one(kept, tmp_path):
    for name in ("t.json", "t.csv", "t.txt", "t.parquet"):
        for _ in range(2):
            assert run("table", kept / "a.jsonl", "-o", tmp_path / name).returncode == exits.PASSED
    for _ in range(2):
        assert run("nightly", kept / "rep.json", "--json", tmp_path / "n.json").returncode == exits.PASSED


# --- inputs that are not files, too large, or too deep ---

READERS = {
    "weights": (["score", "c", "--reference", "c", "--weights", "w.json"], "w.json"),
    "weights.toml": (["score", "c", "--reference", "c", "--weights", "w.toml"], "w.toml"),
    "noise": (["regress", "c", *SIDES, "--noise", "n.json"], "n.json"),
    "baseline": (["regress", "c", "--to", "driver=580", "--baseline", "b"], "c/baselines/b.json"),
    "plan": (["trial", "read", "t"], "t/plan.json"),
    "program": (["advise", "placement", "c", "--emulated", "--program", "p.toml"], "p.toml"),
    "instructions": (["advise", "staging", "c", "--emulated", "--instructions", "mix.csv"], "mix.csv"),
    "references": (["references", "check", "--site", "./s"], "s/references/r.yaml"),
    "catalogue": (["references", "check", "--site", "generic", "--catalogue", "cat.json"], "cat.json"),
    "perf": (["profile", "perf", "p"], "p/a.perf"),
    "cupti": (["profile", "cupti", "p"], "p/a.json"),
    "night": (["nightly", "rep.json"], "rep.json"),
    "manifest": (["noise", "d"], "d/manifests/00000001.json"),
}


def fifo(path):
    os.mkfifo(path)


def device(path):
    path.symlink_to("/dev/zero")


def sparse(path):
    path.touch()
    os.truncate(path, 30 << 30)


def deep(path):
    nested = "[" * 200_000 + "]" * 200_000
    path.write_text({".yaml": nested, ".toml": f"a = {nested}"}.get(path.suffix, f'{{"runs": {nested}}}'))


@pytest.mark.parametrize("invalidate", [fifo, device, sparse, deep])
@pytest.mark.parametrize("name", READERS)
def test_every_reader_refuses_what_it_cannot_hold(kept, tmp_path, monkeypatch, name, invalidate):
    words, where = READERS[name]
    monkeypatch.chdir(tmp_path)
    shutil.copytree(kept / "c", "c")
    shutil.copytree(ROOT / "site-configs/generic", "s")
    path = pathlib.Path(where)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    invalidate(path)
    done = run(*words)
    assert done.returncode == exits.BAD_INPUT, (done.returncode, done.stderr)
    assert done.stderr.count("\n") == 1 and "[Errno" not in done.stderr and len(done.stderr) < 400, done.stderr
    assert path.name in done.stderr or (name in ("perf", "cupti") and not path.is_file()), done.stderr


# --- isthmus.inputs reads all files that a user names ---

#: Modules that open files which the user does not name, and those files.
OTHER_FILES = {
    "inputs.py": "this is the place",
    "faults/memory.py": "/proc and control groups",
    "faults/processes.py": "the ELF head of the program that is run, which the system has to open anyway",
    "records/compact.py": "a manifest that it writes",
    "records/store.py": "copies in a temporary folder",
    "tables/output.py": "what DuckDB wrote into a temporary folder",
    "site/budget.py": "what ReFrame wrote into a temporary folder",
    "site/check.py": "files of the tree that it checks",
    "site/hardware.py": "links in /sys",
    "site/machine.py": "/proc and /sys",
}
_OPENS = re.compile(r"[.](read_text|read_bytes|open)\(|(?<![\w.])open\(")
_OF_THE_PACKAGE = re.compile(r"schema_path\(\)|beside_schema\(|__file__|importlib[.]resources|/proc|os[.]devnull")


def test_a_small_file_takes_little_room(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 1000)
    tracemalloc.start()
    assert inputs.read_small(tmp_path / "a", 64 * inputs.MIB) == b"x" * 1000
    assert tracemalloc.get_traced_memory()[1] < 2 * inputs.MIB
    tracemalloc.stop()
    assert inputs.read_small("/proc/self/status").startswith(b"Name:"), "which has no size"
    with pytest.raises(OSError, match="0"):
        inputs.read_small("/proc/self/status", 10)


def test_what_a_program_said_is_read_within_a_limit(tmp_path):
    path = tmp_path / "rfm_job.err"
    path.write_bytes(b"first\n" + b"caf\xe9\n" + b"x" * 100)
    assert inputs.read_ends(path) == ("first\ncaf\ufffd\n" + "x" * 100, "", 0)
    with path.open("r+b") as file:  # extends the file to 3 GiB with a hole in the middle
        file.truncate(3 << 30)
        file.seek(0, os.SEEK_END)
        file.write(b"cut\nlast\n")
    tracemalloc.start()
    found = inputs.read_ends(path)
    assert tracemalloc.get_traced_memory()[1] < 16 * inputs.MIB
    tracemalloc.stop()
    assert (found.head, found.tail) == ("first\ncaf\ufffd\n", "last\n")
    assert found.text.splitlines() == ["first", "caf\ufffd", "last"]
    assert found.left_out == path.stat().st_size - len(b"first\ncaf\xe9\n") - len(b"last\n")
    assert found.gap == ", of which 3071 MiB in the middle were not read"


def test_a_line_without_an_end_is_read_in_part(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 5000)
    found = inputs.read_ends(tmp_path / "a", 1000)
    assert found == ("x" * 500 + "\n", "x" * 500, 5000 - 1001)
    fifo(tmp_path / "b")
    with pytest.raises(OSError, match="a FIFO"):
        inputs.read_ends(tmp_path / "b")


def nested(depth, innermost=()):
    return innermost if depth == 1 else [nested(depth - 1, innermost)]


def doubled(times):
    found = [1]
    for _ in range(times):
        found = [found, found]
    return found


def itself():
    found = {"a": {"b": [1]}}
    found["a"]["b"].append(found)
    return found


@pytest.mark.parametrize(
    "content, why",
    [
        (itself(), "contains itself"),
        (nested(101), "has more than 100 levels"),
        (nested(100), None),
        (doubled(40), "unfolds to more than 1000 values"),
        ([[1], [1], {"a": 1}] * 10, None),
        ([one := [1], one, {"a": one}], None),
        ("text", None),
        ({}, None),
    ],
)
def test_what_no_walk_would_end_on_is_told(content, why):
    assert inputs.unwieldy(content, 1000) == why


def test_files_of_users_are_read_in_one_place():
    folder = ROOT / "analysis/isthmus"
    found = {
        f"{path.relative_to(folder)}: {line.strip()}"
        for path in folder.rglob("*.py")
        if str(path.relative_to(folder)) not in OTHER_FILES
        for line in path.read_text(encoding="utf-8").splitlines()
        if _OPENS.search(line) and not _OF_THE_PACKAGE.search(line)
    }
    assert not found, "inputs.read_small() and inputs.open_file() read what a user names"
    assert all((folder / name).is_file() for name in OTHER_FILES)


# --- contents that lose something ---


@pytest.mark.parametrize(
    "name, text, why",
    [
        ("w.toml", '[metrics]\n"a b" = 1\n[metric]\n"c d" = 1', "'metric' is not known here; did you mean 'metrics'?"),
        ("w.toml", '[metrics]\n"a b" = 1\n[options]\nx = 1', "'options' is not known here"),
        ("w.json", '{"metrics": {"a b": 1, "c d": 2, "a b": 3}}', "the key 'a b' appears twice"),
        ("w.json", '{"metrics": {"a b": 1}, "metrics": {"c d": 1}}', "the key 'metrics' appears twice"),
        ("w.json", '{"metrics": {"a b size=1 size=2": 1}}', "names size twice"),
        ("w.toml", f"[{'.'.join('a' * 100_000)}]", "a line is longer than"),
        ("w.json", json.dumps({"metrics": {f"a b{i}": 1 for i in range(60_000)}}), "'a b0' names no metric"),
        ("w.json", json.dumps({"metrics": {f"a/{i} b x={i}": 1 for i in range(60_000)}}), "larger than 1 MiB"),
        ("w.json", '{"metrics": {"a b": ' + '{"c":' * 500 + "1" + "}" * 502, "is a table; write a number"),
        ("w.json", '{"metrics": {"a b": 1' + "0" * 400 + "}}", "write a number above zero"),
    ],
)
def test_weights_are_taken_whole_or_refused(kept, tmp_path, name, text, why):
    (tmp_path / name).write_text(text)
    done = run("score", kept / "c", kept / "d", "--reference", "c", "--weights", tmp_path / name, seconds=10)
    assert done.returncode == exits.BAD_INPUT and done.stderr.count("\n") == 1 and len(done.stderr) < 500
    assert why in done.stderr


@pytest.mark.parametrize(
    "name, text, why",
    [
        ("r.yaml", "$fingerprint: {}\n$index: [arch]\nsm_90: []\n", "'$fingerprint' is not known here"),
        ("n.json", '[{"between": 1, "between": 2}]', "the key 'between' appears twice"),
        ("mix.csv", "kernel,architecture,instructions,instructions\nk,a,1,2\n", "not written by scripts/instruction"),
        ("p.toml", "in = 1\nin = 2\n", "not TOML"),
    ],
)
def test_no_reader_ignores_a_key(kept, tmp_path, monkeypatch, name, text, why):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(kept / "c", "c")
    shutil.copytree(ROOT / "site-configs/generic", "s")
    words, where = next(each for each in READERS.values() if each[1].endswith(name))
    path = pathlib.Path(where)
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    done = run(*words)
    assert done.returncode == exits.BAD_INPUT and why in done.stderr and done.stderr.count("\n") == 1, done.stderr


# --- nothing is silently omitted ---


def files(folder):
    found, skipped = load.find(folder)
    return [os.path.relpath(each, folder) for each in found], [os.path.relpath(each.path, folder) for each in skipped]


def large_files(folder):
    """Writes files that are large enough to be checked by several processes. Returns their paths."""
    for number in range(4):
        with (folder / f"{number}.jsonl").open("wb") as file:
            file.truncate(load._ALONE // 3)
    return sorted(map(str, folder.iterdir()))


def workers(parent):
    """Returns the ids of the running child processes of `parent`."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            state, above = pathlib.Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[:2]
            found += [int(name)] if int(above) == parent and state != "Z" else []
    return found


def wait_until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
    return found


def kills_once(mark, path):
    """Returns the signature of a file, but kills the first process that calls it, as the OOM killer might."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        os.kill(os.getpid(), signal.SIGKILL)
    return load.signature(path), None


def test_what_a_killed_worker_was_to_check_is_checked_again(tmp_path, capsys, monkeypatch):
    (tmp_path / "r").mkdir()
    paths = large_files(tmp_path / "r")
    check = functools.partial(kills_once, str(tmp_path / "mark"))
    with load.checker(paths, 2) as apply:
        assert apply is not map
        for _ in range(2):  # compacting calls it once per batch
            assert list(apply(check, paths)) == [(load.signature(path), None) for path in paths]
    assert "a process that checked records was killed, perhaps for lack of memory" in capsys.readouterr().err

    def refuse(*_):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    with load.checker(paths, 2) as apply:
        assert list(apply(load.signature, paths)) == [load.signature(path) for path in paths]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_workers_end_with_their_command(tmp_path, number):
    """Kills a command. Its workers must end too; otherwise, they would keep its output open, and the caller would
    wait for them."""
    script = (
        "import sys, time; from isthmus import start; start.listen(); from isthmus.records import load\n"
        "with load.checker(sys.argv[1:], 2) as apply:\n    print('ready', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", script, *large_files(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
        assert program.stdout.readline() == b"ready\n"
        started = wait_until(lambda: (found := workers(program.pid)) and len(found) >= 2 and found)
        program.send_signal(number)
        assert program.wait(30) == -number
        wait_until(lambda: not any(os.path.exists(f"/proc/{each}/fd/1") for each in started))
        assert program.stdout.read() == b""


def test_what_cannot_be_looked_at_is_not_taken_for_nothing(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("gone")
    (tmp_path / "loop").symlink_to("loop")
    assert inputs.status_of(tmp_path / "none") is inputs.status_of(tmp_path / "file/below") is None
    assert inputs.names_in(tmp_path) == ["file", "link", "loop"] and inputs.names_in(tmp_path / "none") == []
    for name, why in {"link": inputs.DANGLING, "loop": "Too many levels of symbolic links"}.items():
        for look in (inputs.status_of, inputs.names_in):
            with pytest.raises(OSError) as raised:
                look(tmp_path / name)
            assert (raised.value.strerror, os.fspath(raised.value.filename)) == (why, str(tmp_path / name))


def test_linked_folders_are_read_once_and_loops_end(kept, tmp_path):
    (tmp_path / "r/own").mkdir(parents=True)
    (tmp_path / "far/deep").mkdir(parents=True)
    shutil.copy(kept / "c/000.jsonl", tmp_path / "r/own/0.jsonl")
    shutil.copy(kept / "c/001.jsonl", tmp_path / "far/deep/1.jsonl")
    (tmp_path / "r/a-node").symlink_to(tmp_path / "far")
    (tmp_path / "r/again").symlink_to(tmp_path / "r/own")
    (tmp_path / "r/loop").symlink_to(tmp_path / "r")
    (tmp_path / "far/up").symlink_to(tmp_path)
    (tmp_path / "far/back").symlink_to(tmp_path / "r/own")
    assert files(tmp_path / "r") == (["own/0.jsonl", "a-node/deep/1.jsonl"], ["a-node/up"])
    (tmp_path / "far/up").unlink()
    assert files(tmp_path / "r") == (["own/0.jsonl", "a-node/deep/1.jsonl"], [])
    (tmp_path / "r/gone").symlink_to(tmp_path / "unmounted")
    assert files(tmp_path / "r") == (["own/0.jsonl", "a-node/deep/1.jsonl"], ["gone"])
    done = run("table", tmp_path / "r")
    assert done.returncode == exits.UNDECIDED and "gone: a link whose target is missing" in done.stderr


def test_a_link_that_leads_out_of_what_is_read_is_named(kept, tmp_path):
    shutil.copytree(kept / "c", tmp_path / "home/r/c")
    shutil.copytree(kept / "c", tmp_path / "home/others")
    shutil.copytree(kept / "c", tmp_path / "far/c")
    for name, target in {"all": "/", "home": "..", "state": "/proc", "far": tmp_path / "far"}.items():
        (tmp_path / "home/r" / name).symlink_to(target)
    (tmp_path / "far/up").symlink_to(tmp_path)
    (tmp_path / "far/state").symlink_to("/sys/kernel")
    found, skipped = files(tmp_path / "home/r")
    assert {os.path.dirname(each) for each in found} == {"c", "far/c"}
    assert sorted(skipped) == ["all", "far/state", "far/up", "home", "state"]
    done = run("table", tmp_path / "home/r")
    assert done.returncode == exits.UNDECIDED and "saxpy" in done.stdout
    assert f"home/r/home: a link to {tmp_path}/home, a folder above it, so it is not followed" in done.stderr
    assert "home/r/state: it is in proc, which shows the system's state and has no records" in done.stderr
    done = run("profile", "perf", tmp_path / "home/r")
    assert "all: a link to /, a folder above it" in " ".join(done.stderr.split())


def test_so_many_folders_are_read_behind_links_and_no_more(kept, tmp_path, monkeypatch):
    monkeypatch.setattr(load, "_MOST_BEHIND_LINKS", 3)
    for name in ("r/0", "r/1", "r/2", "r/3", "far/a/0", "far/b/0", "far/b/1"):
        shutil.copytree(kept / "p", tmp_path / name)
        shutil.copy(kept / "c/000.jsonl", tmp_path / name)
    for name in ("a", "b", "c"):
        (tmp_path / "far" / name).mkdir(exist_ok=True)
        (tmp_path / "r" / name).symlink_to(tmp_path / "far" / name)
    found, skipped = files(tmp_path / "r")
    own = [f"{number}/000.jsonl" for number in range(4)]
    assert found == [*own, "a/0/000.jsonl"] and skipped == ["b"]
    done = run("table", tmp_path / "r")
    assert done.returncode == exits.UNDECIDED and done.stderr.count("skipped ") == 1
    assert "r/b: more than 3 folders are behind links" in done.stderr


@contextlib.contextmanager
def nested(folder, depth, name="a"):
    """Makes nested folders and removes them afterwards, without recursion or long paths. Yields the innermost one."""

    def enter(name):
        before = here[0]
        here[0] = os.open(name, os.O_RDONLY, dir_fd=before)
        os.close(before)

    here = [os.open(folder, os.O_RDONLY)]
    for _ in range(depth):
        os.mkdir(name, dir_fd=here[0])
        enter(name)
    try:
        yield f"/proc/self/fd/{here[0]}"
    finally:
        for file in os.listdir(here[0]):
            os.unlink(file, dir_fd=here[0])
        for _ in range(depth):
            enter("..")
            os.rmdir(name, dir_fd=here[0])
        os.close(here[0])


def test_folders_that_are_deeper_than_python_calls_are_read(kept, tmp_path, monkeypatch):
    (tmp_path / "r").mkdir()
    with nested(tmp_path / "r", 1100) as last:
        shutil.copy(kept / "c/000.jsonl", tmp_path / "r/0.jsonl")
        shutil.copy(kept / "c/001.jsonl", f"{last}/1.jsonl")
        monkeypatch.chdir(tmp_path)
        found, skipped = load.find("r")
        assert found == ["r/0.jsonl", f"r/{'a/' * 1100}1.jsonl"] and not skipped
        shutil.copy(kept / "p/a.perf", f"{last}/b.perf")
        for words in (["table", "r"], ["compact", "r"], ["profile", "perf", "r"]):
            done = run(*words)
            assert "Traceback" not in done.stderr and "skipped" not in done.stderr, (words, done.stderr)
        shutil.rmtree("r/compacted")


def test_folders_that_are_deeper_than_a_path_may_be_are_named(kept, tmp_path):
    (tmp_path / "r").mkdir()
    with nested(tmp_path / "r", 20, "a" * 255) as last:
        shutil.copy(kept / "c/000.jsonl", tmp_path / "r/0.jsonl")
        shutil.copy(kept / "c/001.jsonl", f"{last}/1.jsonl")
        done = run("table", tmp_path / "r")
    assert done.returncode == exits.UNDECIDED and "saxpy" in done.stdout
    assert "a folder that cannot be read (File name too long)" in done.stderr and done.stderr.count("skipped ") == 1


@pytest.mark.parametrize(
    "name",
    [
        *("x.jsonl.xz", "x.jsonl.1", "x.JSONL", "x.Jsonl.gz", "x.jsonl~", "x.json", "x.ndjson"),
        *("x", "x.txt", "x.log", "x.json.bak", ".x"),
    ],
)
def test_records_under_another_name_are_named(kept, tmp_path, name):
    shutil.copy(kept / "c/000.jsonl", tmp_path / "0.jsonl")
    (tmp_path / "plan.json").write_text('{"schema": "another"}')
    (tmp_path / "0.jsonl.tables").mkdir()
    assert files(tmp_path) == (["0.jsonl"], [])
    shutil.copy(kept / "c/001.jsonl", tmp_path / name)
    assert files(tmp_path) == (["0.jsonl"], [name])
    done = run("table", tmp_path)
    is_packed = name.endswith(".xz")
    why = "compressed by xz, which is not read; decompress it" if is_packed else "not read under this name; rename it"
    assert done.returncode == exits.UNDECIDED and f"{name}: {why}" in done.stderr


@pytest.mark.parametrize("form", ["indented", "sorted", "array", "indented array", "marked", "packed", "cut"])
def test_records_in_another_form_of_json_are_named(kept, tmp_path, form):
    shutil.copy(kept / "c/000.jsonl", tmp_path / "0.jsonl")
    case = json.loads((kept / "c/001.jsonl").read_bytes())
    (tmp_path / "report.json").write_text(json.dumps(REPORT, indent=2))
    assert files(tmp_path) == (["0.jsonl"], [])
    options = {"indent": 4} if form not in ("array",) else {}
    text = json.dumps([case, case] if "array" in form else case, sort_keys=form == "sorted", **options).encode()
    text = {"marked": b"\xef\xbb\xbf" + text, "packed": gzip.compress(text), "cut": text[: len(text) // 2]}.get(
        form, text
    )
    (tmp_path / "1.json").write_bytes(text)
    assert files(tmp_path) == (["0.jsonl"], ["1.json"])
    done = run("table", tmp_path)
    assert done.returncode == exits.UNDECIDED
    assert "1.json: not read, since it does not have one record per line; write one per line" in done.stderr
    done = run("table", tmp_path / "0.jsonl", "-o", tmp_path / "1.json")
    assert done.returncode == exits.BAD_INPUT and "contains records" in done.stderr


def test_packed_records_under_another_name_are_named_and_other_files_are_not(kept, tmp_path):
    line = (kept / "c/001.jsonl").read_bytes()
    (tmp_path / "node2.gz").write_bytes(gzip.compress(line))
    (tmp_path / "cut.gz").write_bytes(gzip.compress(line)[:50])
    (tmp_path / "other.gz").write_bytes(gzip.compress(b"begin,end\n"))
    (tmp_path / "notes.txt").write_text("records: node2.gz\n")
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "fifo")
    assert files(tmp_path) == ([], ["node2.gz"])


def test_so_many_other_files_are_looked_at_and_no_more(kept, tmp_path, monkeypatch):
    monkeypatch.setattr(load, "_LOOKED_AT", 3)
    for name in ("0", "1", "2", "3", "4.json"):
        shutil.copy(kept / "c/001.jsonl", tmp_path / name)
    assert files(tmp_path) == ([], ["0", "1", "2", "4.json"])


def test_a_session_counts_once(kept, tmp_path):
    copy = tmp_path / "copy.json"
    shutil.copy(kept / "rep.json", copy)
    done = run("nightly", kept / "rep.json", copy)
    assert done.returncode == exits.PASSED and json.loads(done.stdout)["counts"]["green"] == 1
    assert f"{copy}: the same session as {kept / 'rep.json'}, which is counted once\n" in done.stderr
    copy.write_text(json.dumps(REPORT | {"runs": []}))
    done = run("nightly", kept / "rep.json", copy)
    assert done.returncode == exits.BAD_INPUT and "name one of them" in done.stderr
