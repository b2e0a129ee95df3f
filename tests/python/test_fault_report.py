"""Tests of `isthmus faults report`: traces of known programs, incomplete files, and a self-contained page."""

import json
import pathlib
import random
import re
import shutil
import subprocess
import time

import fault_streams
import hypothesis
import numpy
import pytest
from fault_streams import BASE, BLOCK, PAGE, Stream, dense, packed, write
from hypothesis import strategies as st
from test_report import EVIL, Page

from isthmus import cli, exits
from isthmus.faults import charts, memory, report, tracefile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MIB = 1 << 20
ARRAY, OTHER = 0x7F0000000000, 0x7F2000000000


def content(rows, **how):
    return report.content("run.7.uvm", tracefile.Trace({"driver": "580.1"}, rows, **how))


def advised(stream):
    return [rule for rule, _ in content(stream.rows()).advice]


# --- ranges and advice ---


def test_ranges_have_what_happened_in_them():
    found = content(fault_streams.program().rows())
    sparse, big, shared = found.ranges
    assert (big.base, big.bytes, big.faults, big.batches) == (ARRAY, 256 * MIB, 4096, 16)
    assert (big.to_gpu, big.distinct, big.to_host, big.cpu_faults) == (256 * MIB, 256 * MIB, 256 * MIB, 128)
    assert (shared.to_gpu, shared.distinct, shared.to_host) == (256 * MIB, 64 * MIB, 256 * MIB)
    assert shared.to_gpu_by_fault == shared.to_gpu and not shared.only_read and big.only_read
    assert sparse.faults == 1000 and sparse.touched < sparse.bytes and sparse.gpu == 1
    assert sum(each.seconds for each in found.ranges) == pytest.approx(found.figures.service)


def test_a_gap_of_more_than_8_mib_parts_ranges():
    stream = Stream()
    stream.faults([ARRAY, ARRAY + 5 * BLOCK, ARRAY + 11 * BLOCK])
    assert sorted((each.base, each.bytes) for each in content(stream.rows()).ranges) == [
        (ARRAY, 6 * BLOCK), (ARRAY + 11 * BLOCK, BLOCK)
    ]  # fmt: skip


def swept(size, times=1, access=1, back=0):
    stream = Stream()
    for turn in range(times):
        stream.faults(dense(ARRAY, size), access=access)
        if turn < back:
            stream.host(ARRAY, size)
    return stream


def scattered(blocks, pages):
    stream = Stream()
    for block in range(blocks):
        stream.faults(ARRAY + block * BLOCK + numpy.arange(pages, dtype="u8") * PAGE, nearby=0)
    return stream


def evicted(size):
    stream = Stream()
    stream.faults(dense(ARRAY, 64 * MIB), access=2)
    stream.host(ARRAY, size, evicted=True)
    return stream


def made_there(blocks, pages, **also):
    """Returns a stream in which a GPU is the first to touch pages, so that nothing is copied. `also` adds other
    events."""
    stream = scattered(blocks, pages)
    stream.parts = [part for part in stream.parts if part[0, 0] != fault_streams.TYPES["move"]]
    for kind, fields in also.items():
        stream.add(kind, address=ARRAY, time=BASE, **fields)
    return stream


def thrashing():
    stream = Stream()
    stream.faults([ARRAY])
    stream.add("thrashing", address=ARRAY, bytes=PAGE, time=BASE)
    return stream


@pytest.mark.parametrize(
    ("stream", "rules"),
    [
        (swept(16 * MIB), ["prefetch"]),
        (swept(14 * MIB), []),
        (swept(16 * MIB, back=1), ["prefetch", "prefetch-host"]),
        (swept(14 * MIB, back=1), []),
        (swept(16 * MIB, times=2, back=1), ["read-mostly"]),
        (swept(16 * MIB, times=2, access=2, back=1), ["to-and-fro"]),
        (swept(16 * MIB, times=2, access=2), ["prefetch"]),  # pages arrived twice but were never evicted
        (scattered(16, 100), ["sparse"]),
        (scattered(15, 100), []),
        (scattered(16, 128), []),  # a quarter of the pages
        (made_there(16, 1), ["first-touch"]),
        (made_there(8, 1), ["first-touch"]),
        (made_there(7, 1), []),
        (made_there(8, 1, remote_map={"bytes": PAGE, "gpu_time": BASE}), []),  # the GPU reads pages in place
        (made_there(8, 1, cpu_fault={}), []),
        (evicted(16 * MIB), ["evicted"]),
        (evicted(14 * MIB), ["prefetch"]),
        (thrashing(), ["to-and-fro"]),
        (Stream(), []),
    ],
)
def test_a_rule_gives_advice_from_its_threshold_on(stream, rules):
    assert advised(stream) == rules


def test_between_two_gpus_pages_go_to_and_fro():
    stream = Stream()
    for turn in range(4):
        stream.faults(dense(ARRAY, 16 * MIB), gpu=1 + turn % 2, source=2 - turn % 2, access=2)
    assert advised(stream) == ["to-and-fro"]


def test_each_rule_is_in_the_documentation():
    text = (ROOT / "docs/uvm.md").read_text(encoding="utf-8")
    assert all(f"`{rule}`" in text for rule in report.RULES)


def test_the_sketch_and_the_pictures_count_all(capsys):
    found = content(fault_streams.program().rows())
    plots = charts.all_of(found.events, found.batches, tracefile.spans_of(found.events), times=True)
    named = {plot["title"]: plot for plot in plots}
    assert len(plots) == 6
    bars = {trace["name"]: trace["y"] for trace in named["Timeline"]["data"]}
    assert sum(bars["faults of GPUs"]) == found.figures.faults and sum(bars["faults of the host"]) == 256
    assert sum(bars["fault, to the host"]) == pytest.approx(-512, rel=1e-3)
    in_service = sum(bars["in service"]) / len(bars["in service"])
    length = charts.window(found.events)[1] * 1e-9
    last = int((found.batches.replay - BASE).max()) * 1e-9
    assert length >= last and in_service * length == pytest.approx(found.figures.service, rel=0.02)
    texts = [text for line in named["Faults of GPUs: address × time"]["data"][0]["text"] for text in line]
    assert sum(int(text.split()[0]) for text in texts if text) == found.figures.faults
    both = named["Moves: address × time"]["data"][0]
    sizes = re.findall(
        r"([\d.e+]+) MiB to GPUs, ([\d.e+]+) MiB", " ".join(text for line in both["text"] for text in line)
    )
    assert sum(float(size) for size, _ in sizes) == pytest.approx(574.5, rel=1e-3)
    assert sum(float(size) for _, size in sizes) == pytest.approx(512, rel=1e-3)


# --- broken input ---


@hypothesis.given(st.integers(0, 2**32 - 1))
@hypothesis.settings(max_examples=20)
def test_the_order_of_events_says_nothing(seed):
    rows = fault_streams.program().rows()[::7]
    order = numpy.random.default_rng(seed).permutation(len(rows))
    one, other = content(rows), content(rows[order])
    assert report.text(one) == report.text(other)
    assert one.ranges == other.ranges and one.advice == other.advice


def shown(found):
    """Makes every output of a report, and checks that JSON can represent every number."""
    report.text(found)
    section = report._section(found, "run.7.uvm")
    json.dumps([section["plots"], section["cards"]], allow_nan=False)
    report._rows(found)
    return section


@hypothesis.given(
    st.lists(
        st.tuples(st.sampled_from([1, 2, 3, 4, 10, 11, 12, 13, 200]), st.binary(min_size=63, max_size=63)), max_size=60
    )
)
@hypothesis.settings(max_examples=150)
def test_whatever_the_bytes_are_there_is_a_report(entries):
    data = b"".join(bytes([kind]) + rest for kind, rest in entries)
    found = content(numpy.frombuffer(data, "u1").reshape(-1, 64))
    shown(found)
    assert all(problem and "\n" not in problem for problem in found.problems)


@hypothesis.given(st.integers(0, 2**32 - 1), st.floats(0, 0.2))
@hypothesis.settings(max_examples=60)
def test_invalid_events_give_a_report(seed, share):
    chance = numpy.random.default_rng(seed)
    rows = fault_streams.program().rows()[:: int(chance.integers(1, 40))].copy()
    invalid = chance.random(rows.shape) < share / 16
    rows[invalid] = chance.integers(0, 256, int(invalid.sum()))
    shown(content(rows))


@hypothesis.given(st.integers(1, 8), st.sampled_from([-1, 1]), st.integers(61, 10**9), st.sampled_from(["time", "gpu"]))
@hypothesis.settings(max_examples=40)
def test_a_clock_that_jumps_costs_times_and_no_counts(count, way, seconds, clock):
    rows = fault_streams.program().rows().copy()
    places = numpy.flatnonzero(rows[:, 0] == 4)[:count]
    column = slice(8, 16) if clock == "time" else slice(16, 24)
    times = numpy.ascontiguousarray(rows[places, column]).view("<i8").ravel()
    moved = numpy.maximum(times + way * seconds * 1_000_000_000, 1).astype("<i8")
    rows[places, column] = moved.view("u1").reshape(-1, 8)
    found = content(rows)
    assert found.figures.service is None and found.figures.faults == 9192
    [problem] = found.problems
    assert "clock jumped" in problem
    section = shown(found)
    assert [plot["title"] for plot in section["plots"]] == ["Moves by cause and size"]


def test_a_stray_event_is_named_and_does_not_squeeze_the_others():
    rows = fault_streams.program().rows()
    stray = fault_streams.events("cpu_fault", address=ARRAY, time=BASE + 3600 * 10**9, access=1)
    found = content(numpy.concatenate([rows, stray]))
    assert not found.problems
    assert charts.window(found.events)[1] < 10**9
    assert "1 events are far from all others" in report.text(found)


def reported(path, capsys, code, *more):
    assert cli.main(["faults", "report", str(path), *more]) == code
    said = capsys.readouterr()
    return said.out, said.err


def test_each_kind_of_broken_file_is_one_sentence(tmp_path, capsys):
    rows = fault_streams.program().rows()[:1000]
    whole = packed([rows[:500], rows[500:]])
    path = tmp_path / "run.7.uvm"
    nonsense = numpy.full((2, 64), 255, "u1")
    nonsense[:, 0] = 3
    cases = [
        (whole[:-40], "is cut short"),
        (whole[:-32], "its process was killed or still runs"),
        (whole + b"x", "continues past its end"),
        (whole[:300] + b"\0\0\0\0" + whole[304:], "is corrupt"),
        (packed([rows], dropped=3), "the driver dropped 3 events"),
        (packed([rows], facts={"driver": "610.10"}), "the events of driver branch 610"),
        (packed([rows], facts={}), "a driver of unknown version"),
        (packed([rows, nonsense]), "2 events have an impossible address, size or time"),
    ]
    for data, words in cases:
        path.write_bytes(data)
        for form in ("text", "csv"):
            out, err = reported(path, capsys, exits.UNDECIDED, "--format", form)
            said = " ".join((out if form == "text" else "").split()) + " ".join(err.split())
            assert said.count(words) == 1, (form, words, said)
            assert err.count("\n") <= 1


def test_a_file_cut_anywhere_is_reported_or_refused(tmp_path, capsys):
    whole = packed([fault_streams.program().rows()[:200]] * 3)
    path = tmp_path / "run.7.uvm"
    for length in sorted(random.Random(1).sample(range(len(whole)), 60)):
        path.write_bytes(whole[:length])
        code = cli.main(["faults", "report", str(path), "--format", "csv"])
        assert code in (exits.UNDECIDED, exits.BAD_INPUT)
        assert capsys.readouterr().err.count("\n") == 1


def test_known_branches_are_those_of_the_reader():
    source = (ROOT / "src/trace/uvm/driver.cpp").read_text(encoding="utf-8")
    listed = re.search(r"kKnownBranches\[\] = \{([^}]*)\}", source)[1]
    assert tuple(map(int, listed.split(","))) == tracefile.KNOWN_BRANCHES
    assert not tracefile.branch_problem({"driver": "580.0 (emulated)"})
    line = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  595.12.01  Release Build"
    assert not tracefile.branch_problem({"driver": line})


# --- text, formats, page ---


@pytest.fixture
def trace(tmp_path):
    return write(tmp_path / "solver.7.uvm", fault_streams.program().rows())


def test_text_and_formats_say_the_same(trace, capsys):
    text, err = reported(trace, capsys, 0)
    assert not err and max(map(len, text.splitlines())) <= 80
    rows = json.loads(reported(trace, capsys, 0, "--format", "json")[0])
    said = " ".join(text.split())
    assert [row["text"] for row in rows if row["says"] == "advice"] and all(
        row["text"] in said for row in rows if row["says"] == "advice"
    )
    figures = {row["name"]: row["value"] for row in rows if row["says"] == "figure"}
    assert figures["faults"] == 9192 and figures["block_faults_most"] == 32 and figures["service"] > 0
    for row in rows:
        if row["says"] == "range":
            assert f"{row['address']:#x}" in text and row["faults"] and row["service"] > 0
    assert "faults of GPUs by address" in text and "█" in text


def test_two_gpus_are_named_by_the_drivers_numbers_and_one_is_not():
    stream = swept(16 * MIB)
    assert "to the GPU (cudaMemPrefetchAsync)" in content(stream.rows()).advice[0][1]
    stream.faults(dense(OTHER, 32 * MIB), gpu=2)
    said = [sentence for _, sentence in content(stream.rows()).advice]
    assert "driver calls 2" in said[0] and "driver calls 1" in said[1]


def test_an_emulated_trace_is_marked(tmp_path, capsys):
    trace = write(tmp_path / "a.7.uvm", swept(16 * MIB).rows(), facts={"driver": "580.0 (emulated)"})
    assert "no GPU ran" in reported(trace, capsys, 0)[0]
    assert "no GPU ran" in Page(page_of(trace, tmp_path)).text


def page_of(trace, tmp_path, *more):
    out = tmp_path / "page.html"
    assert cli.main(["faults", "report", str(trace), *map(str, more), "-o", str(out)]) == 0
    return out.read_text()


def test_the_page_is_complete_and_asks_for_nothing(trace, tmp_path):
    text = page_of(trace, tmp_path, trace)
    page = Page(text)
    plots = json.loads(re.search(r'id="plots">(.*?)</script>', text, re.DOTALL)[1])
    assert set(plots) == {at["id"] for _, at in page.elements if at.get("class") == "plot"} and len(plots) == 12
    assert not [tag for tag, attributes in page.elements if {"src", "data", "action"} & attributes.keys()]
    assert all(attributes["href"].startswith("#") for _, attributes in page.elements if "href" in attributes)
    assert next(at["content"] for _, at in page.elements if "http-equiv" in at).startswith("default-src 'none'")
    assert "prefers-color-scheme: dark" in text and "@media print" in text
    assert "0x7f0000000000" in page.text and "thrashes" in page.text


def test_hostile_facts_are_only_text(tmp_path):
    rows = fault_streams.program().rows()
    path = write(
        tmp_path / "a.7.uvm", rows, facts={"driver": "580.1", "command": EVIL.replace("\n", ""), EVIL[:20]: "x"}
    )
    page = Page(page_of(path, tmp_path, "--title", EVIL))
    assert "img" not in [tag for tag, _ in page.elements]
    assert [tag for tag, _ in page.elements].count("script") == 4
    assert "<script>alert(1)</script>" in page.text and "{{ 7777 * 7777 }}" in page.text and "60481729" not in page.text


@pytest.mark.skipif(not shutil.which("chromium"), reason="no chromium here")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_draws_the_page_without_an_error(trace, tmp_path, scheme):
    page_of(trace, tmp_path)
    dark = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
    for seconds in (10, 30, 90):
        drawn = subprocess.run(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,6000", "--dump-dom", *dark,
             f"--virtual-time-budget={1000 * seconds}", "--enable-logging=stderr",
             f"--user-data-dir={tmp_path / f'profile{seconds}'}", (tmp_path / "page.html").as_uri()],
            capture_output=True, text=True, check=True, timeout=240,
        )  # fmt: skip
        assert "CONSOLE" not in drawn.stderr, drawn.stderr
        if drawn.stdout.count('class="main-svg"') >= 12:
            ink = {"light": "rgb(22, 32, 42)", "dark": "rgb(230, 234, 238)"}
            assert f"fill: {ink[scheme]}" in drawn.stdout
            assert f"fill: {ink['dark' if scheme == 'light' else 'light']}" not in drawn.stdout
            return
    pytest.fail("no plot was drawn")


def test_a_million_events_are_reported_within_twenty_seconds_and_ten_megabytes(tmp_path):
    trace = write(tmp_path / "solver.7.uvm", fault_streams.program(36).rows())
    begin = time.process_time()
    page = page_of(trace, tmp_path)
    assert time.process_time() - begin < 20 and len(page.encode()) < 10e6


def test_no_more_events_are_held_than_memory_has_room_for(tmp_path, monkeypatch, capsys):
    """Limits the number of events, because a file of megabytes may unpack to gigabytes, and a report reads all files
    into memory."""
    path = fault_streams.write(tmp_path / "a.uvm", fault_streams.program().rows())
    events = len(tracefile.read(path).entries)
    monkeypatch.setattr(memory, "most_events", lambda: events + 10)
    trace = tracefile.read(path, events - 1)
    assert "has more events than the" in trace.problem and len(trace.entries) < events
    assert cli.main(["faults", "report", str(path)]) == exits.PASSED
    assert cli.main(["faults", "report", str(path), str(path)]) == exits.UNDECIDED
    assert "has more events than the 10 that fit in half of the free memory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({"proc/meminfo": "MemTotal: 9 kB\nMemAvailable:    1024 kB\n"}, 1 << 20),
        ({"proc/meminfo": "MemAvailable:    1024 kB\n", "proc/self/cgroup": "0::/a/b\n",
          "sys/fs/cgroup/a/memory.max": "5000\n", "sys/fs/cgroup/a/memory.current": "1000\n",
          "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/b/memory.current": "0\n"}, 4000),
        ({}, 2 * memory.MOST_BYTES),
    ],
)  # fmt: skip
def test_what_is_free_is_what_every_limit_leaves(tmp_path, files, free):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert memory.free(tmp_path) == free


def test_each_of_several_traces_is_named(trace, tmp_path, capsys):
    files = [tmp_path / name for name in ("a/run.7.uvm", "b/run.7.uvm", "b/other.uvm")]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(trace.read_bytes())
    names = report.names_of([str(file) for file in files])
    assert names == ["a/run.7.uvm", "b/run.7.uvm", "other.uvm"]
    assert report.names_of(["x.uvm", "x.uvm"]) == ["x.uvm", "x.uvm"] and report.names_of(["/d/x.uvm"]) == ["x.uvm"]
    assert cli.main(["faults", "report", *map(str, files)]) == exits.PASSED
    said = capsys.readouterr().out
    assert [line.split()[1] for line in said.splitlines() if line.startswith("file ")] == names
    assert cli.main(["faults", "report", *map(str, files), "-o", str(tmp_path / "page.html")]) == exits.PASSED
    assert all(name in (tmp_path / "page.html").read_text() for name in names)
    capsys.readouterr()
    assert cli.main(["faults", "report", str(files[0])]) == exits.PASSED and "file " not in capsys.readouterr().out
