"""Tests of advice on placements.

A machine with known rates is predicted exactly, and the errors on committed records are those that the page states.
"""

import copy
import dataclasses
import json
import pathlib
import re
import shlex
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus import Error, cli, exits
from isthmus.advise import costs, placing, placing_check
from isthmus.advise import footprint as footprint_
from isthmus.advise import machine as machine_
from isthmus.records import load

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/reframe"))
import fake_bench  # noqa: E402

H200 = ROOT / "papers/data/h200"
GB = 1e9
#: Properties of the simple machine: rates in B/s and flop/s, and seconds per call.
LINK, SLOW, FAULTS, MEMORY, FLOPS, LOCK, CALL = 50 * GB, 10 * GB, 5 * GB, 4000 * GB, 50e12, 4 * GB, 1e-5


def base(workload, axes, metrics, **changes):
    case = copy.deepcopy(fake_bench.record("microbench/saxpy", "pm", "tiny", "cuda"))
    like = case["metrics"][0] | {"limit": None, "share": None}
    case["metrics"] = [
        like | {"name": name, "median": value, "samples": [value], "unit": unit, "bytes_needed": needed}
        for name, (value, unit, needed) in metrics.items()
    ]
    case |= {"workload": workload, "axes": axes, "emulated": False, "mode": None, "placement": None, "staging": None}
    case["devices"][0] |= {"multiprocessors": 100, "memory_bytes": int(80 * GB), "name": "Simple GPU"}
    return case | changes


def program(name, moved_in, moved_out, flops, placement, staging, size="super", slowdown=1.0, **axes):
    """Returns a record of a program on the simple machine, which works in place if the real program does."""
    touched = moved_in + moved_out
    buffers = moved_in if name in footprint_.IN_PLACE else touched
    kernel = slowdown * max(touched / MEMORY, flops / FLOPS)
    rate = {"pinned": (LINK, LINK), "pageable": (SLOW, SLOW), "managed_in": (LINK, FAULTS)}[placement]
    seconds = {
        "host_alloc": buffers / LOCK if placement == "pinned" else 1e-6,
        "host_touch": buffers / (20 * GB),
        "device_alloc": CALL,
        "in": moved_in / rate[0],
        "kernel": kernel,
        "out": moved_out / rate[1],
        "free": CALL,
    }
    metrics = {phase: (value, "s", {"in": moved_in, "out": moved_out}.get(phase)) for phase, value in seconds.items()}
    metrics["wall"] = (sum(seconds.values()), "s", None)
    metrics["kernel_rate"] = (touched / kernel, "B/s", None)
    metrics["kernel_flop_rate"] = (flops / kernel, "1/s", None)
    return base(
        f"microbench/{name}", {"blocks": 0} | axes, metrics, placement=placement, staging=staging, size=size, mode=None
    )


def machine(slowdowns=(1.0, 1.0)):
    """Returns the simple machine's records: references, transfers, calls, and programs in three placements and two
    stagings."""
    cases = [
        base("transfer/gpu0-gpu0/ce", {"bytes": n, "cache": "flushed"}, {"time": (2 * n / MEMORY, "s", None)})
        for n in (1 << 20, 1 << 30)
    ]  # fmt: skip
    cases.append(base("reference/sgemm", {"n": 8192, "m": 8192, "k": 8192}, {"kernel_flop_rate": (FLOPS, "1/s", None)}))
    for way, rate in {
        "pinned-gpu0/ce": LINK, "gpu0-pinned/ce": LINK, "pageable-gpu0/ce": SLOW, "gpu0-pageable/ce": SLOW,
        "managed-gpu0/prefetch": LINK, "gpu0-managed/prefetch": LINK, "managed-gpu0/fault": FAULTS,
        "gpu0-managed/fault": FAULTS, "mapped-gpu0/sm-read": LINK, "gpu0-mapped/sm-write": LINK,
    }.items():  # fmt: skip
        for size in (1 << 12, 1 << 20, 1 << 30):
            cases.append(
                base(f"transfer/{way}", {"bytes": size, "cache": "flushed"}, {"time": (size / rate, "s", None)})
            )
        # Transfers with warm caches must be ignored, because programs do not find warm caches.
        cases.append(base(f"transfer/{way}", {"bytes": 1 << 20, "cache": "warm"}, {"time": (1e-9, "s", None)}))
    for allocator, seconds in {"pinned": 1e-3, "device": CALL, "managed": CALL, "pool": 1e-6}.items():
        for size in (1 << 12, 1 << 26):
            calls = {"alloc": (seconds, "s", None), "free": (seconds / 10, "s", None)}
            cases.append(base("driver/alloc", {"allocator": allocator, "bytes": size}, calls))
    for name, moved_in, moved_out, flops in (
        ("vector_seq", 4 * GB, 4 * GB, 2e9), ("saxpy", 8 * GB, 4 * GB, 2e9), ("gemv", 4 * GB, 1e5, 2e9),
        ("gemm", 2 * GB, 1 * GB, 8e12),
    ):  # fmt: skip
        for placement in ("pinned", "pageable", "managed_in"):
            for staging, slowdown in zip(("direct", "async"), slowdowns):
                cases.append(program(name, moved_in, moved_out, flops, placement, staging, slowdown=slowdown))
    return cases


@given(
    st.lists(st.tuples(st.floats(1, 1e12), st.floats(1e-9, 1e3)), min_size=1, max_size=20), st.floats(0, 1e13)
)  # fmt: skip
def test_a_curve_is_never_below_its_fastest_rate_nor_negative(points, size):
    curve = costs.Curve(points)
    assert curve(size) >= 0
    if size > 0:
        fastest = min(seconds / many for many, seconds in points)
        assert curve(size) >= 0.999 * size * fastest
    largest = max(many for many, _ in points)
    assert curve(2 * largest) == pytest.approx(2 * curve(largest))


def test_a_curve_goes_through_its_points():
    curve = costs.Curve([(1024, 1e-6), (4096, 2e-6), (65536, 8e-6)])
    assert [curve(size) for size in (1024, 4096, 65536)] == pytest.approx([1e-6, 2e-6, 8e-6])
    assert curve(16) == pytest.approx(1e-6) and 1e-6 < curve(2048) < 2e-6 and curve(0) == 0


def test_a_machine_of_known_rates_is_predicted_as_it_is():
    simple = machine_.Machine(machine())
    footprint = footprint_.declared(["in=6e9", "out=2e9", "flops=2e9", "passes=5"])
    by = {each.placement: each for each in simple.rank(footprint) if each.staging == "direct"}
    pinned = by["pinned"].phases
    assert pinned["in"] == pytest.approx(6 / 50) and pinned["out"] == pytest.approx(2 / 50)
    assert pinned["kernel"] == pytest.approx(8 / 4000, rel=0.01) and pinned["host_alloc"] == pytest.approx(
        8 / 4, rel=0.01
    )
    assert by["managed_in"].phases["out"] == pytest.approx(2 / 5) and by["pageable"].phases["in"] == pytest.approx(0.6)
    assert by["managed"].phases["out"] == pytest.approx(2 / 50) and by["mapped"].phases["kernel"] == pytest.approx(
        8 / 50
    )
    assert by["pinned"].total == pytest.approx(2 + 8 / 20 + 2 * CALL + 5 * (8 / 50 + 0.002), rel=0.01)
    work = 8 / 50 + 0.002
    assert by["streamed"].total - by["streamed"].allocation == pytest.approx(5 * (0.12 + (work - 0.12) / 16), rel=0.01)


def test_more_passes_turn_to_pinned_memory_and_many_allocations_away_from_it():
    simple = machine_.Machine(machine())

    def best(*words):
        ranked = [
            each for each in simple.rank(footprint_.declared(list(words))) if each.placement in ("pinned", "pageable")
        ]
        return ranked[0].placement

    assert best("in=1e9", "out=1e9", "passes=1") == "pageable" and best("in=1e9", "out=1e9", "passes=50") == "pinned"
    assert best("in=1e6", "out=1e6", "passes=50", "allocations=10000") == "pageable"


def test_stagings_follow_the_kernels_that_were_measured():
    simple = machine_.Machine(machine((1.0, 0.8)))
    footprint = footprint_.declared(["in=1e9", "out=1e9"])
    assert simple.rank(footprint)[0].staging == "async" and simple.stagings(footprint) == ["direct", "async"]
    assert simple.kernel(footprint, "async") / simple.kernel(footprint, "direct") == pytest.approx(0.8)
    assert simple.kernel(footprint, "bulk") is None
    few = dataclasses.replace(footprint, blocks=10)  # grids that leave parts of the device idle were not measured
    assert simple.stagings(few) == [] and simple.rank(few) == []
    random = dataclasses.replace(footprint, random=True)
    assert simple.roofline(random, "none") == pytest.approx(8 * simple.roofline(footprint, "none"))
    assert simple.roofline(random, "direct") == simple.roofline(footprint, "direct")


def test_what_does_not_fit_the_device_is_not_advised():
    simple = machine_.Machine(machine())
    ranked = simple.rank(footprint_.declared(["in=60e9", "out=60e9"]))
    assert {each.placement for each in ranked} == {"managed", "managed_in", "managed_demand", "mapped", "streamed"}
    assert "do not fit" in placing.table_of(simple, ranked, None).text


def test_the_check_is_exact_on_the_simple_machine_and_no_program_predicts_itself():
    found = placing_check.check(machine())
    assert {miss.what for miss in found.misses} == set(placing_check.WORDS)
    assert max(abs(miss.relative) for miss in found.misses) < 0.02
    assert all(loss == 0 for losses in found.losses.values() for _, loss in losses)
    cases = machine()
    for case in cases:  # makes gemv ten times slower than all other records predict
        if case["workload"] == "microbench/gemv":
            for metric in case["metrics"]:
                metric["median"] *= 10 if metric["unit"] == "s" else 1
    slow = [
        miss for miss in placing_check.check(cases).misses if miss.workload == "microbench/gemv" and miss.what == "in"
    ]
    assert slow and all(miss.predicted == pytest.approx(miss.measured / 10, rel=0.02) for miss in slow)


def test_the_errors_on_the_committed_records_are_what_the_page_says(capsys):
    assert cli.main(["advise", "placement", str(H200), "--check"]) == 0
    said = capsys.readouterr().out
    assert said.strip() in (ROOT / "docs/advice.md").read_text(), "docs/advice.md is stale: paste the output of --check"


def test_the_errors_on_the_committed_records_are_small():
    cases = [case for path in load.find(H200)[0] for case in load.read(path)]
    found = placing_check.check([case for case in cases if len(case["devices"]) == 1])
    off = sorted(abs(miss.relative) for miss in found.misses if miss.what == "profiled")
    assert len(off) > 100 and off[len(off) // 2] < 0.05 and sum(x <= 0.15 for x in off) / len(off) > 0.8
    losses = [loss for _, loss in found.losses["placement"]]
    assert sum(loss <= 0.05 for loss in losses) / len(losses) > 0.9


def test_the_command_ranks_declared_and_profiled_programs(tmp_path, capsys):
    file = tmp_path / "program.toml"
    file.write_text('in = "4GiB"\nout = 4294967296\nbuffers = "4GiB"\nflops = 2.1e9\npasses = 10\n')
    assert cli.main(["advise", "placement", str(H200), "--program", str(file)]) == 0
    by_file = capsys.readouterr().out
    told = " ".join(by_file.split())
    words = ["in=4GiB", "out=4GiB", "buffers=4GiB", "flops=2.1e9", "passes=10"]
    assert cli.main(["advise", "placement", str(H200), "--program", *words]) == 0
    assert capsys.readouterr().out == by_file
    assert "kernel by staging, streamed: none " in by_file
    lines = by_file.splitlines()
    assert lines[2].startswith("streamed") and "±: median error" in told and "it pays off from 3 passes on" in told
    assert cli.main(["advise", "placement", str(H200), "--like", str(H200 / "mega.jsonl"), "--passes", "20"]) == 0
    assert capsys.readouterr().out.startswith("like microbench/gemv mega: kernel 4.46 ms")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["in=1e9", "what=3"], "'what=3' is not understood"),
        (["in=many"], "is not understood"),
        (["in=-1"], "is not understood"),
        (["in=nan"], "is not understood"),
        (["in=1e9", "in=2"], "is not understood"),
        (["in=1e9", "order=mixed"], "is not understood"),
        (["in=1e9", "passes=0"], "passes is 0; the minimum is 1"),
        (["flops=1e9"], "the program moves no data"),
        (["in=1", "touched=0"], "reads and writes nothing"),
        (["none.toml"], "No such file"),
    ],
)
def test_a_program_that_is_not_understood_is_one_sentence(words, why):
    with pytest.raises(Error, match=why):
        footprint_.declared(words)


@pytest.mark.parametrize("passes", ["-5", "0", "0.5", "nan", "inf", "many"])
def test_passes_that_cannot_be_are_refused_before_records_are_read(passes, capsys):
    words = ["--like", "/nowhere", f"--passes={passes}"]
    assert cli.main(["advise", "placement", "/nowhere", *words]) == exits.BAD_INPUT
    assert f"--passes: '{passes}' is not a number of 1 or more" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--program", "in=4GiB"], ["--check"]])
def test_passes_of_what_is_not_like_a_record_are_refused(words, capsys):
    assert cli.main(["advise", "placement", "/nowhere", *words, "--passes", "100"]) == exits.BAD_INPUT
    said = capsys.readouterr().err
    assert "--passes changes only the program of --like; declare passes=N" in said and said.count("\n") == 1


@given(st.lists(st.text(max_size=30), min_size=1, max_size=4))
def test_any_words_are_a_program_or_an_error(words):
    try:
        found = footprint_.declared(words)
    except Error as error:
        assert str(error)
    else:
        assert found.touched > 0


def test_bad_files_and_records(tmp_path, capsys):
    (tmp_path / "bad.toml").write_text("in = = 3")
    with pytest.raises(Error, match="not TOML"):
        footprint_.declared([str(tmp_path / "bad.toml")])
    (tmp_path / "table.toml").write_text("[in]\nx = 1\n")
    with pytest.raises(Error, match="is not understood"):
        footprint_.declared([str(tmp_path / "table.toml")])
    for paths in ([ROOT / "papers/data/cpu-only"], [tmp_path / "none"], [H200 / "fault.jsonl.gz"]):
        assert cli.main(["advise", "placement", *map(str, paths), "--check"]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert cli.main(["advise", "placement", str(H200), "--like", str(H200 / "fault.jsonl.gz")]) == 2
    two = copy.deepcopy(machine())
    two[0]["devices"][0]["name"] = "Another GPU\x1b[2J"
    (tmp_path / "two.jsonl").write_text("".join(json.dumps(case) + "\n" for case in two))
    capsys.readouterr()
    assert cli.main(["advise", "placement", str(tmp_path / "two.jsonl"), "--check"]) == 2
    said = capsys.readouterr().err
    assert "values of device (Another GPU\\x1b[2J, Simple GPU)" in said and "\x1b" not in said


@pytest.mark.parametrize(
    ("path", "value"),
    [("run.system", "other"), ("devices.0.driver", "590.1"), ("host.cpu", "other"), ("devices.0.state.mig", True),
     ("devices.0.state.power_limit_w", 350.0)],
)  # fmt: skip
def test_records_of_unlike_places_are_refused_with_the_means_to_choose(tmp_path, capsys, path, value):
    """Mixes records of different machines. Without the refusal, the commonest machine would silently be used."""
    cases, others = ([*load.iterate(H200 / "medium.jsonl"), *load.iterate(H200 / "reference.jsonl")] for _ in "ab")
    for case in cases:
        case["run"]["system"] = "ours"
    *outer, last = path.split(".")
    for case in others:
        case["run"]["system"], case["run"]["id"] = "ours", "0123456789abcdef"
        inner = case
        for name in outer:
            inner = inner[int(name)] if name.isdigit() else inner.setdefault(name, {})
        inner[last] = value
    file = tmp_path / "two.jsonl"
    file.write_text("".join(json.dumps(case) + "\n" for case in [*cases, *others]))
    advise = ["advise", "placement", str(file), "--program", "in=1GiB", "flops=1e9"]
    assert cli.main(advise) == exits.BAD_INPUT
    said = capsys.readouterr().err
    assert "advice is for one kind of machine, but " in said and said.count("\n") == 1
    chosen = shlex.split(re.search(r"choose one with (--where .*), or leave", said)[1])
    assert cli.main([*advise, *chosen]) == 0
    there = capsys.readouterr().out
    assert cli.main([*advise, "--without", chosen[1]]) == 0
    assert capsys.readouterr().out and there
    assert cli.main([*advise, "--where", "system=none"]) == exits.BAD_INPUT
    assert "no record matches --where 'system=none'; system is o" in capsys.readouterr().err


def on_two_places(tmp_path, factor, *, node="n2", begin="transfer/"):
    """Writes the simple machine's records, and those of another node or GPU on which workloads that begin with `begin`
    take longer."""
    first, second = machine(), machine()
    for case in first:
        case["run"] |= {"node": "n1", "id": "0123456789abcde0"}
    for case in second:
        case["run"] |= {"node": node, "id": "0123456789abcde1"}
        case["devices"][0]["uuid"] = "GPU-2"
        if node != "n1":
            case["host"] |= {"boot_id": "another boot"}
        for metric in case["metrics"] if case["workload"].startswith(begin) else ():
            if metric["unit"] == "s":
                metric |= {"median": metric["median"] * factor, "samples": [s * factor for s in metric["samples"]]}
    file = tmp_path / "two.jsonl"
    file.write_text("".join(json.dumps(case) + "\n" for case in [*first, *second]))
    return file


ASKED = ["--program", "in=1GiB", "flops=1e9"]


@pytest.mark.parametrize(("node", "field"), [("n2", "node"), ("n1", "gpu")])
def test_places_that_measured_unlike_figures_are_refused(tmp_path, capsys, node, field):
    """Uses two nodes or GPUs that differ by a factor of two, whose mean would not describe either of them."""
    file = on_two_places(tmp_path, 2, node=node)
    assert cli.main(["advise", "placement", str(file), *ASKED]) == exits.BAD_INPUT
    said = capsys.readouterr().err
    assert " time differs by a factor of 2 between " in said and said.count("\n") == 1
    for option in ("--where", "--without"):
        chosen = shlex.split(re.search(rf"it (?:with|out with) ({option} [^,\n]+)", said)[1])
        assert chosen[1].startswith(f"{field}=")
        assert (
            cli.main(["advise", "placement", str(file), *ASKED, *chosen]) == 0 == capsys.readouterr().err.count("note")
        )


def test_places_that_differ_by_less_are_noted_once(tmp_path, capsys):
    for factor, notes in ((1.3, 1), (1.1, 0)):
        assert cli.main(["advise", "placement", str(on_two_places(tmp_path, factor)), *ASKED]) == 0
        assert capsys.readouterr().err.count("note: transfer/") == notes


def test_a_place_is_held_to_the_same_points_alone(tmp_path, capsys):
    """Measures other sizes on the second node. Only points that both nodes have can be compared."""
    file = on_two_places(tmp_path, 1)
    cases = [json.loads(line) for line in file.read_text().splitlines()]
    for case in cases:
        if case["run"]["node"] == "n2" and "bytes" in case["axes"]:
            case["axes"]["bytes"] += 4096
    file.write_text("".join(json.dumps(case) + "\n" for case in cases))
    assert cli.main(["advise", "placement", str(file), *ASKED]) == 0
    assert "note" not in capsys.readouterr().err


def test_a_program_of_a_slower_node_is_no_pattern_for_this_one(tmp_path, capsys):
    both = [json.loads(line) for line in on_two_places(tmp_path, 2, begin="micro").read_text().splitlines()]
    here, there = tmp_path / "here.jsonl", tmp_path / "there.jsonl"
    here.write_text("".join(json.dumps(case) + "\n" for case in both if case["run"]["node"] == "n1"))
    there.write_text(json.dumps(next(c for c in both if c["run"]["node"] == "n2" and c["placement"])) + "\n")
    assert cli.main(["advise", "placement", str(here), "--like", str(there)]) == exits.BAD_INPUT
    assert "so its kernel's time does not apply to this machine" in capsys.readouterr().err


def test_a_program_of_another_machine_is_no_pattern_for_this_one(tmp_path, capsys):
    """Passes a record of another machine with --like. Otherwise, its kernel's time would be used as this machine's."""
    like = next(case for case in copy.deepcopy(machine()) if footprint_.of_program(case))
    like["devices"][0]["name"] = "Another GPU"
    (tmp_path / "like.jsonl").write_text(json.dumps(like) + "\n")
    assert cli.main(["advise", "placement", str(H200), "--like", str(tmp_path / "like.jsonl")]) == exits.BAD_INPUT
    assert "cpu differs from that of the machine (Intel(R) Xeon(R) Processor and fake)" in capsys.readouterr().err
