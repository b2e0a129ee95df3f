"""Tests of `isthmus faults`: a stream whose figures are known, incomplete files, programs that cannot be observed."""

import collections
import contextlib
import dataclasses
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
import zlib

import hypothesis
import numpy
import pytest
from hypothesis import strategies as st

import isthmus
from isthmus import Error, cli, exits
from isthmus.faults import processes, tracefile
from isthmus.records import load

ROOT = pathlib.Path(__file__).resolve().parents[2]
BASE, MICRO = 5_000_000_000, 1000
PAGE = 4096


def entry(*fields):
    """Returns an entry of 64 bytes with fields (offset, format, value)."""
    data = bytearray(64)
    for at, form, value in fields:
        struct.pack_into("<" + form, data, at, value)
    return bytes(data)


def fault(page, batch, when, gpu=1):
    return entry((0, "B", 3), (3, "B", gpu), (8, "Q", page * PAGE), (16, "Q", BASE + when * MICRO),
                 (24, "Q", BASE + (when - 10) * MICRO), (32, "I", batch), (36, "B", 1))  # fmt: skip


def replay(batch, when, gpu=1, kind=1):
    return entry((0, "B", 4), (1, "B", gpu), (2, "B", kind), (4, "I", batch), (8, "Q", BASE + when * MICRO),
                 (16, "Q", BASE + (when + 10) * MICRO))  # fmt: skip


def move(cause, size):
    return entry((0, "B", 2), (1, "B", cause), (16, "Q", size))


# The stream of tests/trace/figures_test.cpp, which must have the same figures there.
TWO_BATCHES = [
    fault(1000, 7, 100), fault(1001, 7, 101), fault(1001, 7, 102), move(2, 8192), move(3, 65536), replay(7, 150),
    fault(2000, 8, 250), fault(4000, 8, 260), move(2, 8192), replay(8, 300),
]  # fmt: skip


def rows(entries):
    return numpy.frombuffer(b"".join(entries), "u1").reshape(-1, 64)


def figures_of(entries):
    events = tracefile.decode(rows(entries))
    return tracefile.figures_of(events, tracefile.batches_of(events))


def packed(chunks, facts=b"driver=580.1\ncommand=a b\n", end=True, dropped=0):
    data = struct.pack("<16sII", b"isthmus.uvm/1\n", len(facts), zlib.crc32(facts)) + facts
    for entries in chunks:
        body = zlib.compress(b"".join(entries))
        data += struct.pack("<IIIIQQ", 0x434D5655, len(entries), len(body), zlib.crc32(body), dropped, 1) + body
    return data + (struct.pack("<IIIIQQ", 0x454D5655, 0, 0, 0, 0, 0) if end else b"")


@pytest.mark.parametrize("seed", range(5))
def test_two_batches_in_any_order(seed):
    events = TWO_BATCHES[:]
    random.Random(seed).shuffle(events)
    found = figures_of(events)
    assert (found.faults, found.pages, found.batches, found.replays) == (5, 4, 2, 2)
    assert (found.batch_faults.mean, found.batch_faults.deviation) == (2.5, 0.5)
    assert found.batch_blocks.mean == 1.5
    assert found.block_faults.mean == pytest.approx(5 / 3)
    assert (found.block_faults.least, found.block_faults.most) == (1, 3)
    assert {name: size for name, size in found.moved.items() if size} == {"fault": 16384, "prefetcher": 65536}
    assert found.service == pytest.approx(100e-6)
    assert found.latency_p50 == pytest.approx(69e-6)
    assert found.latency_p95 == pytest.approx(70e-6)


def test_batches_of_two_gpus_and_replays_of_others():
    found = figures_of([fault(1, 7, 0), fault(1, 7, 0, gpu=2), replay(7, 5, kind=0), replay(9, 5)])
    assert (found.batches, found.replays, found.pages) == (2, 1, 1)


@pytest.mark.parametrize("workload", ["random", "strided"])
def test_a_record_says_what_the_report_says_of_the_same_faults(tmp_path, workload):
    if (bench := os.environ.get("ISTHMUS_TEST_BENCH")) is None:
        pytest.skip("needs the built program: set ISTHMUS_TEST_BENCH")
    path = tmp_path / "r.jsonl"
    words = [f"faults/{workload}", "--set", "bytes=8MiB", "--set", "driver_prefetch=off", "--samples", "2"]
    subprocess.run([bench, "run", *words, "--observe", "uvm_faults", "--record", path], check=True, capture_output=True)
    [record] = load.read(path)
    of_sample = collections.defaultdict(list)
    for row in load.read_table(path, record, "uvm_faults"):
        page, batch = int(row["address"]) // PAGE, int(row["batch"])
        of_sample[int(row["sample"])].append(fault(page, batch, int(row["taken_up"] * 1e6), gpu=int(row["gpu"])))
    assert sorted(of_sample) == [0, 1]
    samples = {metric["name"]: metric["samples"] for metric in record["metrics"]}
    for number, entries in of_sample.items():
        found = figures_of(entries)
        for name in ("batch_faults", "batch_blocks", "block_faults"):
            assert samples[f"uvm_{name}"][number] == pytest.approx(getattr(found, name).mean), name
        for part, value in dataclasses.asdict(found.block_faults).items():
            name = "uvm_block_faults" if part == "mean" else f"uvm_block_faults_{part}"
            assert samples[name][number] == pytest.approx(value), name


def test_nothing_is_nothing():
    found = figures_of([])
    assert (found.faults, found.batches, found.batch_faults, found.service) == (0, 0, None, None)


@pytest.mark.parametrize("invalid", [replay(8, 255), replay(8, 3_600_000_000)])
def test_a_clock_that_jumps_costs_the_times(invalid):
    found = figures_of([*TWO_BATCHES[:-1], invalid])
    assert found.service is None and found.latency_p50 is None
    assert "1 of 2 batches" in found.problems[0] and "clock jumped" in found.problems[0]
    assert found.faults == 5


def test_a_file_is_reported(tmp_path, capsys):
    path = tmp_path / "run.1.uvm"
    path.write_bytes(packed([TWO_BATCHES[:4], TWO_BATCHES[4:]]))
    assert cli.main(["faults", "report", str(path)]) == 0
    out = capsys.readouterr().out
    assert "driver   580.1" in out and "moved, prefetcher" in out and "2 replays of other processes" in out


def test_dropped_events_make_the_report_undecided(tmp_path, capsys):
    path = tmp_path / "run.1.uvm"
    path.write_bytes(packed([TWO_BATCHES], dropped=3))
    assert cli.main(["faults", "report", str(path)]) == exits.UNDECIDED
    assert "dropped 3 events" in capsys.readouterr().out


def test_cut_short_anywhere(tmp_path, capsys):
    path = tmp_path / "run.1.uvm"
    whole = packed([TWO_BATCHES] * 3)
    most = 0
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        try:
            trace = tracefile.read(path)
        except Error as refusal:
            assert "not a trace" in str(refusal) and most == 0
            continue
        assert trace.problem and len(trace.entries) % 10 == 0 and len(trace.entries) >= most
        most = len(trace.entries)
    assert most == 30
    assert cli.main(["faults", "report", str(path)]) == exits.UNDECIDED
    assert "cut short" in capsys.readouterr().err


def test_invalid_anywhere(tmp_path):
    path = tmp_path / "run.1.uvm"
    whole = packed([TWO_BATCHES] * 3)
    rng = random.Random(1)
    for _ in range(2000):
        changed = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        path.write_bytes(changed)
        with contextlib.suppress(Error):
            assert len(tracefile.read(path).entries) <= 30


def test_a_killed_process_keeps_what_was_drained(tmp_path):
    path = tmp_path / "run.1.uvm"
    path.write_bytes(packed([TWO_BATCHES], end=False))
    trace = tracefile.read(path)
    assert len(trace.entries) == 10 and "killed" in trace.problem


def test_what_is_no_trace_is_one_sentence(tmp_path, capsys):
    for name, content in (("a", None), ("b", b""), ("c", b"text\n"), ("d", bytes(1000))):
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        assert cli.main(["faults", "report", str(path)]) == exits.BAD_INPUT
        assert capsys.readouterr().err.count("\n") == 1


# --- programs ---


@pytest.fixture
def library(tmp_path, monkeypatch):
    path = tmp_path / "libisthmus-uvm.so"
    path.write_bytes(b"")  # the loader reports that this is not a library, and continues
    monkeypatch.setenv("ISTHMUS_UVM_LIBRARY", str(path))
    monkeypatch.chdir(tmp_path)
    return path


def test_a_program_runs_as_it_is_and_its_files_are_named(library, tmp_path, capfd):
    script = "import os, sys; open(os.environ['ISTHMUS_UVM_TRACE'] + '.7.uvm', 'w'); print(sys.argv[1:]); sys.exit(4)"
    assert cli.main(["faults", "run", "-o", "mine", "--", sys.executable, "-c", script, "--steps", "-o"]) == 4
    said = capfd.readouterr()
    assert said.out == "['--steps', '-o']\n"
    assert "mine.7.uvm" in said.err


def test_a_program_has_the_descriptors_that_it_was_given(library, capfd):
    """Passes a descriptor to a program, as a shell does for `isthmus faults run -- cat <(…)` or `… 9>file`."""
    ends = os.pipe()
    os.set_inheritable(ends[1], True)
    script = f"import os; os.write({ends[1]}, b'hi')"
    cli.main(["faults", "run", "--", sys.executable, "-c", script])
    os.close(ends[1])
    with open(ends[0], "rb") as reader:
        assert reader.read() == b"hi"


def test_the_library_is_found_from_any_folder(library, tmp_path, monkeypatch, capfd):
    """Finds the library in the command's tree, in the tree of the current folder, and next to the program."""
    tree = tmp_path / "tree"
    monkeypatch.setattr(isthmus, "__file__", str(tree / "analysis/isthmus/__init__.py"))
    for name in ("ISTHMUS_UVM_LIBRARY", "ISTHMUS_BENCH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    program = ["faults", "run", "--", sys.executable, "-c", "import os; print(os.environ['LD_PRELOAD'])"]
    (tree / "scripts").mkdir(parents=True)
    (tree / "scripts/build").touch()
    assert cli.main(program) == exits.BAD_INPUT
    said = capfd.readouterr().err
    assert f"build it with `{tree}/scripts/build --target isthmus-uvm`" in said and said.count("\n") == 1
    bench = tmp_path / "kept/bin/isthmus-bench"
    installed = tmp_path / "prefix/lib" / library.name
    for folder, place in ((tree, tree / "build/cuda/bin" / library.name), (tmp_path, installed),
                          (bench.parent, bench.parent / library.name)):  # fmt: skip
        place.parent.mkdir(parents=True)
        place.write_bytes(b"")
        if folder == bench.parent:
            bench.touch(0o755)
            monkeypatch.setenv("ISTHMUS_BENCH", str(bench))
        cli.main(program)
        assert capfd.readouterr().out == f"{place}\n"
    bench.unlink()
    assert cli.main(program) == exits.BAD_INPUT
    assert f"ISTHMUS_BENCH is {bench}, which is not a program" in capfd.readouterr().err


def test_a_library_that_cannot_be_preloaded_is_refused(library, tmp_path, monkeypatch, capsys):
    blank = tmp_path / "a folder" / library.name
    blank.parent.mkdir()
    blank.write_bytes(b"")
    assert "has a blank" in refused(["--library", blank, "--", "true"], capsys)
    assert "none.so is not a file; name the libisthmus-uvm.so" in refused(
        ["--library", tmp_path / "none.so", "--", "true"], capsys
    )
    assert "no such folder; create it" in refused(["-o", "none/x", "--", "true"], capsys)


def test_a_program_without_unified_memory_is_undecided(library, capfd):
    assert cli.main(["faults", "run", "--", sys.executable, "-c", "pass"]) == exits.UNDECIDED
    assert "no unified memory" in capfd.readouterr().err


def test_a_file_of_which_events_were_dropped_makes_the_run_undecided(library, tmp_path, capfd):
    (tmp_path / "source").write_bytes(packed([TWO_BATCHES], dropped=3))
    for source, code in (("source", exits.UNDECIDED), ("whole", exits.PASSED)):
        (tmp_path / "whole").write_bytes(packed([TWO_BATCHES]))
        script = f"import shutil; shutil.copy({str(tmp_path / source)!r}, {str(tmp_path / source)!r} + '.1.uvm')"
        words = ["faults", "run", "-o", str(tmp_path / source), "--", sys.executable, "-c", script]
        assert cli.main(words) == code
        assert ("dropped 3 events" in capfd.readouterr().err) == (code != exits.PASSED)


def test_children_are_watched_unless_they_are_left_out(library, monkeypatch, capfd):
    monkeypatch.setenv("ISTHMUS_UVM_PARENT", "4711")
    script = "import os; print(os.environ.get('ISTHMUS_UVM_PARENT') == str(os.getppid()))"
    cli.main(["faults", "run", "--no-children", "--", sys.executable, "-c", script])
    said = capfd.readouterr()
    assert said.out == "True\n" and "without --no-children" in said.err
    script = "import os; print(os.environ.get('ISTHMUS_UVM_PARENT'))"
    cli.main(["faults", "run", "--", sys.executable, "-c", script])
    said = capfd.readouterr()
    assert said.out == "None\n" and "--no-children" not in said.err


def test_the_library_is_preloaded_beside_others(library, monkeypatch, capfd):
    monkeypatch.setenv("LD_PRELOAD", "")
    script = "import os; print(os.environ['LD_PRELOAD'])"
    cli.main(["faults", "run", "--", sys.executable, "-c", script])
    assert capfd.readouterr().out == f"{library}\n"


def refused(words, capsys):
    assert cli.main(["faults", "run", *map(str, words)]) == exits.BAD_INPUT
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def test_what_cannot_be_watched_is_refused(library, tmp_path, monkeypatch, capsys):
    assert "no program is named" in refused([], capsys)
    assert "no program is named" in refused(["--"], capsys)
    assert "no such program" in refused(["--", "./none"], capsys)
    static = fully_static(tmp_path)
    assert "fully static" in refused(["--no-children", "--", static], capsys)
    other = tmp_path / "other"
    shutil.copy(shutil.which("true"), other)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    other.chmod(0o4755)
    assert "another user" in refused(["--", other], capsys)


def fully_static(folder):
    """Returns a 64-bit ELF file whose only program header loads a segment, so that it names no interpreter."""
    static = folder / "static"
    static.write_bytes(elf(kinds=(1,)))
    static.chmod(0o755)
    return static


def elf(*, table=64, size=56, count=1, kinds=(3,), length=None):
    """Returns a 64-bit ELF header followed by program headers of these kinds."""
    data = bytearray(max(64, length or 64 + 56 * len(kinds)))
    struct.pack_into("<4sB", data, 0, b"\x7fELF", 2)
    struct.pack_into("<Q", data, 32, table)
    struct.pack_into("<HH", data, 54, size, count)
    for number, kind in enumerate(kinds):
        struct.pack_into("<I", data, 64 + 56 * number, kind)
    return bytes(data)


def test_a_program_is_static_that_names_no_interpreter(tmp_path):
    program = tmp_path / "program"
    for data, is_static in [
        (elf(), False), (elf(kinds=(1,)), True), (elf(count=2, kinds=(1, 3)), False),
        (elf(count=2, kinds=(1, 1)), True), (elf(size=0), False), (elf(size=3), False), (elf(size=55), False),
        (elf(count=0), False),
        (elf(table=2**64 - 1), False), (elf(table=65), False), (elf(count=2000, length=1 << 20), False),
        (b"#!/bin/sh\n", False), (elf()[:63], False),
    ]:  # fmt: skip
        program.write_bytes(data)
        assert processes.is_static(program) is is_static, data[:64]


@hypothesis.given(st.data())
@hypothesis.settings(max_examples=300)
def test_no_program_header_stops_a_run(tmp_path_factory, data):
    program = tmp_path_factory.getbasetemp() / "mutated"
    head = bytearray(elf(kinds=(1, 3), count=2))
    for at, form in ((4, "B"), (32, "Q"), (54, "H"), (56, "H"), (64, "I")):
        if data.draw(st.booleans()):
            bits = struct.calcsize(form) * 8
            interesting = [0, 1, 2, 3, 4, 55, 56, 57, 64, 2**bits - 1, 2 ** (bits - 1)]
            value = data.draw(st.sampled_from(interesting) | st.integers(0, 2**bits - 1))
            struct.pack_into(f"<{form}", head, at, value & (2**bits - 1))
    program.write_bytes(head[: data.draw(st.integers(0, len(head)))])
    program.chmod(data.draw(st.sampled_from([0o755, 0o4755, 0o2755])))
    assert processes.is_static(program) in (True, False) and processes.has_privileges(program) in (True, False)


def test_an_object_file_is_one_sentence(tmp_path, capsys):
    """Runs an object file, as if a user typed `./solver.o` for `./solver`. Such a file has no program headers."""
    program, library = tmp_path / "solver.o", tmp_path / "libisthmus-uvm.so"
    program.write_bytes(elf(size=0, count=0, kinds=()))
    program.chmod(0o755)
    library.touch()
    words = ["faults", "run", "--library", library, "-o", tmp_path / "t", "--", program]
    assert cli.main([str(word) for word in words]) == exits.BAD_INPUT
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "solver.o" in said and "Traceback" not in said


# --- processes: programs that use unified memory of a driver, which a preloaded library simulates ---


@pytest.fixture
def device(tmp_path, monkeypatch):
    """Returns the path of a program that uses unified memory. A fake driver is preloaded in addition to the library."""
    bench = os.environ.get("ISTHMUS_TEST_BENCH")
    built = pathlib.Path(bench).parent if bench else ROOT / "build/host/bin"
    if not (built / "tests/uses-uvm").exists() or not (built / "libisthmus-uvm.so").exists():
        pytest.skip("needs the tests of the built tree: scripts/build --preset host")
    monkeypatch.setenv("ISTHMUS_UVM_LIBRARY", str(built / "libisthmus-uvm.so"))
    monkeypatch.setenv("ISTHMUS_UVM", "force")
    monkeypatch.setenv("LD_PRELOAD", str(built / "tests/libfake-uvm.so"))
    monkeypatch.chdir(tmp_path)
    return built / "tests/uses-uvm"


def watched(capfd, *words):
    """Returns the exit code, the number of page faults that the output states for each file, and the output."""
    code = cli.main(["faults", "run", *map(str, words)])
    said = capfd.readouterr().err
    counts = [int(found) for found in re.findall(r"^  \S+\.uvm  (\d+) fault", said, re.MULTILINE)]
    assert len(counts) == len(list(pathlib.Path().glob("*.uvm")))
    return code, sorted(counts), said


def test_every_process_has_a_file(device, capfd):
    # The working folder makes no difference, nor does it matter that bash execs the background command.
    script = f"{device} 100 & cd /; {device} 100; wait; exit 5"
    code, counts, said = watched(capfd, "--", "bash", "-c", script)
    assert (code, counts) == (5, [20, 20]) and "in all: 40 faults in 4 batches" in said


def test_the_last_command_and_the_one_before_are_recorded(device, capfd):
    code, counts, _ = watched(capfd, "--", "bash", "-c", f"{device} 50; {device} 50")
    assert (code, counts) == (0, [20, 20])


def test_a_forked_process_and_a_program_that_becomes_another_have_files(device, capfd):
    assert watched(capfd, "--", device, "100", "fork")[:2] == (0, [20])
    for path in pathlib.Path().glob("*.uvm"):
        path.unlink()
    code, counts, said = watched(capfd, "--", device, "100", "exec", device, "100")
    assert (code, counts) == (3, [10, 20]) and "its end is missing" in said and "-2.uvm" in said


def test_an_earlier_runs_files_are_neither_overwritten_nor_listed(device, capfd):
    watched(capfd, "--", device, "50")
    assert cli.main(["faults", "run", "--", str(device), "50"]) == 0
    assert "1 file of page faults" in capfd.readouterr().err and len(list(pathlib.Path().glob("*.uvm"))) == 2


@pytest.mark.skipif(not shutil.which("mpirun"), reason="no mpirun here")
def test_the_ranks_of_an_mpirun_have_files(device, monkeypatch, capfd):
    for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
        monkeypatch.setenv(name, "1")
    code, counts, said = watched(capfd, "--", "mpirun", "--oversubscribe", "-np", "2", device, "300")
    assert code == 0 and [count for count in counts if count] == [20, 20], said


def test_what_was_not_watched_is_said(device, tmp_path, capfd):
    script = f"env -u LD_PRELOAD sleep 1; {device} 50; exit 0"
    code, counts, said = watched(capfd, "--", "bash", "-c", script)
    assert (code, counts) == (0, [20])
    assert re.search(r"not watched.*: sleep \(\d+\), which was started without LD_PRELOAD", said), said


def test_unified_memory_that_was_not_watched_passes_nothing(device, tmp_path, monkeypatch, capfd):
    node = tmp_path / "node"
    node.touch()
    monkeypatch.setattr(processes, "MEMORY_NODE", str(node))
    script = f"env -u LD_PRELOAD bash -c 'exec 7<{node}; sleep 1'; {device} 50; exit 0"
    code, counts, said = watched(capfd, "--", "bash", "-c", script)
    assert (code, counts) == (exits.UNDECIDED, [20])
    assert re.search(
        r"(bash|sleep) \(process \d+\) used unified memory but left no file: it was started without", said
    ), said


def test_an_inherited_descriptor_is_no_use_of_memory(device, tmp_path, monkeypatch, capfd):
    """Forks a worker that inherits the open device file, like workers of a process that uses CUDA."""
    node = tmp_path / "node"
    node.touch()
    monkeypatch.setattr(processes, "MEMORY_NODE", str(node))
    script = f"import os, time; f = open({str(node)!r}); time.sleep(0.6); " \
             "os.fork() and os.wait(); time.sleep(0.6)"  # fmt: skip
    assert cli.main(["faults", "run", "--", sys.executable, "-c", script]) == exits.UNDECIDED
    assert capfd.readouterr().err.count("left no file") == 1, "the parent's alone"


def test_processes_that_still_run_are_named(device, capfd):
    code, counts, said = watched(capfd, "--", "bash", "-c", f"{device} 3000 & sleep 1; exit 0")
    assert (code, counts) == (3, [10])
    assert re.search(r"still running, .*: \d+\n", said) and "its end is missing" in said


def test_an_interrupted_run_names_what_was_kept(device, tmp_path):
    words = [sys.executable, "-m", "isthmus", "faults", "run", "-o", "mine", "--", device, "30000"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "analysis")}
    for send in (signal.SIGINT, signal.SIGTERM):
        run = subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True)
        while not list(tmp_path.glob("mine.*.uvm")):
            time.sleep(0.05)
        time.sleep(0.5)
        run.send_signal(send)
        _, said = run.communicate(timeout=60)
        assert run.returncode == 128 + send, said
        [path] = tmp_path.glob("mine.*.uvm")
        assert f"interrupted by {send.name}; the events recorded until then are kept" in said and path.name in said
        assert "Traceback" not in said
        path.unlink()


_LAST_THREAD = "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(0.5,)).start(); {}"


def test_a_program_that_outlives_its_first_thread_is_seen(tmp_path):
    """Runs a program whose first thread ends before the others, as when a CUDA program ends. The process then looks
    like a zombie."""
    words = [sys.executable, "-c", _LAST_THREAD.format("ctypes.CDLL(None).pthread_exit(None)")]
    done = processes.run(words, sys.executable, dict(os.environ), str(tmp_path / "none.so"))
    assert done.code == 0 and done.seen_all
    assert all(each.reason for each in done.unwatched())


def test_of_a_process_that_is_just_ending_nothing_is_said():
    ending = processes.Process(1, 1, "mpirun", "mpirun", looks=3)
    unset = dataclasses.replace(ending, reason="was started without LD_PRELOAD in its environment")
    assert processes.Run(0, processes=[ending, unset]).unwatched() == [unset]
