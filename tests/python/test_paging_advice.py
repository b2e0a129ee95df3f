"""Tests of advice on methods of access.

Planted costs are found, wrong picks are counted, and impossible requests are refused in one sentence.
"""

import copy
import dataclasses
import json
import math
import pathlib
import random
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus import cli, exits
from isthmus.advise import costs, methods, paged_programs, paging, paging_check
from isthmus.advise.methods import Program

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/reframe"))
import fake_bench  # noqa: E402

KIB, MIB = 2**10, 2**20
GB = 1e9
CORES = 100
KERNEL = {"name": "k", "registers": 64, "shared_bytes": 0, "occupancy": 0.5}
#: Seconds per unit of each amount, for each method, on the simulated machine.
TRUTH = {
    "copy": {"kernels": 3e-6, "copied": 1 / (55 * GB), "visits": 1e-9, "read": 1 / (3000 * GB),
             "read_by_a_warp": 1 / (5 * GB)},
    "streamed": {"kernels": 2e-4, "streamed": 1 / (54 * GB), "read": 1 / (3000 * GB), "read_by_a_warp": 1 / (5 * GB)},
    "mapped": {"kernels": 3e-6, "visits": 1e-9, "lines": 1 / (50 * GB), "lines_of_a_warp": 1 / (2 * GB)},
    "managed": {"kernels": 3e-6, "migrated": 1 / (20 * GB), "blocks": 1e-6, "regions": 2e-5, "read": 1 / (3000 * GB)},
    "paged": {"kernels": 3e-6, "visits": 2e-9, "fetches": 2e-9, "evicted": 1 / (500 * GB), "read": 1 / (2000 * GB),
              "fetched": 1 / (51 * GB), "fetched_by_a_warp": 1 / (2 * GB)},
}  # fmt: skip


def planted(program, way, truth=TRUTH):
    return costs.Sum(truth[way], methods.EITHER[way])(methods.amounts(program, way, CORES))


def grid():
    for page in (4 * KIB, 64 * KIB, 2 * MIB):
        for density in (3, 20, 100):
            for use in (128, KIB, page):
                for passes in (1, 4):
                    for frames in (50, 100):
                        yield page, density, use, passes, frames


def record(workload, axes, metrics, **changes):
    case = copy.deepcopy(fake_bench.record("microbench/saxpy", "pm", "tiny", "cuda"))
    like = case["metrics"][0] | {"limit": None, "share": None, "bytes_needed": None}
    case["metrics"] = [
        like | {"name": name, "median": value, "samples": [value], "unit": unit}
        for name, (value, unit) in metrics.items()
    ]
    case |= {"workload": workload, "axes": axes, "emulated": False, "mode": None, "placement": None, "staging": None}
    case["devices"][0] |= {"multiprocessors": CORES, "name": "Simple GPU", "fp32_rate": 6e13}
    return case | changes


def pattern(program, way, seconds):
    axes = {"bytes": int(program.bytes), "page": int(program.page), "density": 7, "use": int(program.use),
            "passes": int(program.passes), "frames": round(100 * program.room), "way": way,
            "order": "in_order" if program.in_order else "scattered"}  # fmt: skip
    axes["density"] = max(round(100 * program.touched / program.pages), 1)
    return record(paging_check.PATTERN, axes, {
        "time": (seconds, "s"), "pages_touched": (program.touched, "1"), "useful": (program.touched * program.use, "B"),
    })  # fmt: skip


def records(truth=TRUTH, noise=0.0, size=512 * MIB):
    chance = random.Random(3)
    for page, density, use, passes, frames in grid():
        touched = max(size // page * density // 100, 1)
        program = Program(size, page, touched, use, passes, frames / 100, density == 100)
        for way in methods.ways_of(program):
            if way != "mapped" or frames == 100:  # reading in place does not depend on frames
                yield pattern(program, way, planted(program, way, truth) * (1 + noise * chance.uniform(-1, 1)))


@pytest.fixture(scope="module")
def cases():
    return list(records())


def write(folder, cases):
    folder.mkdir(exist_ok=True)
    (folder / "r.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases))
    return str(folder)


# --- sums ---


def test_a_planted_cost_is_found_in_each_way(cases):
    machine = paging_check.learn(paging_check.points_of(cases), CORES)
    for way, truth in TRUTH.items():
        found = machine.costs[way].each
        for name in ("copied", "streamed", "lines", "migrated", "regions", "fetched"):
            if name in truth:
                assert found[name] == pytest.approx(truth[name], rel=0.05), (way, name)


def test_of_rivals_only_the_longest_counts():
    truth = costs.Sum({"call": 1.0, "all": 2.0, "one": 5.0}, ("all", "one"))
    assert truth.parts({"call": 1, "all": 10, "one": 1}) == {"call": 1.0, "all": 20.0}
    points = [{"call": c, "all": a, "one": o} for c in (1, 7) for a in (1, 10, 100) for o in (1, 10, 100)]
    assert costs.fit_sum([(p, truth(p)) for p in points], ("all", "one")).each == pytest.approx(truth.each)


@given(
    st.lists(st.floats(0, 1e3), min_size=3, max_size=3),
    st.lists(st.tuples(*[st.floats(0, 1e6)] * 3, st.floats(1e-6, 1e6)), min_size=1, max_size=20),
)
def test_nothing_costs_less_than_nothing_whatever_was_measured(truth, measured):
    points = [(dict(zip("abc", amounts)), seconds) for *amounts, seconds in measured]
    for either in ((), ("a", "b")):
        found = costs.fit_sum(points, either)
        assert all(each >= 0 for each in found.each.values()) and found.each.keys() == {*"abc"}
    if sum(truth) > 0:  # exact sums of three costs are separated into the costs
        made = [(amounts, costs.Sum(dict(zip("abc", truth)))(amounts)) for amounts, _ in points]
        made = [(amounts, seconds) for amounts, seconds in made if seconds > 1e-3]
        if made:
            again = costs.fit_sum(made)
            assert all(again(amounts) <= 3.01 * seconds for amounts, seconds in made)


# --- counts ---


@given(
    st.sampled_from([4 * KIB, 64 * KIB, 2 * MIB]), st.integers(1, 2**14), st.floats(0.001, 1), st.floats(0, 1),
    st.integers(1, 5), st.floats(0.01, 1), st.booleans(),
)  # fmt: skip
def test_amounts_are_those_of_some_program(page, pages, density, used, passes, room, in_order):
    touched = max(int(pages * density), 1)
    program = Program(pages * page, page, touched, max(used * page, 16), passes, room, in_order)
    for way in methods.ways_of(program):
        found = methods.amounts(program, way, CORES)
        assert all(value >= 0 for value in found.values()), (way, found)
        assert found.keys() == TRUTH[way].keys()
    paged = methods.amounts(program, "paged", CORES)
    assert touched <= paged["fetches"] <= touched * passes
    more = methods.amounts(dataclasses.replace(program, room=1), "paged", CORES)
    assert more["fetches"] == touched and more["evicted"] == 0
    migrated = methods.amounts(program, "managed", CORES)["migrated"]
    assert program.touched * min(program.use, 16) <= migrated <= pages * page + 2 * MIB


def test_blocks_of_scattered_pages_are_those_of_chance():
    chance, pages, touched = random.Random(1), 2**16, 2**11
    blocks = {page // 16 for page in chance.sample(range(pages), touched)}
    program = Program(pages * 4 * KIB, 4 * KIB, touched, 128)
    assert program.granules(64 * KIB) == pytest.approx(len(blocks), rel=0.03)


# --- checks ---


def test_a_machine_that_is_as_the_model_says_is_picked_right(cases):
    found = paging_check.check(cases)
    assert len(found.patterns) == len(list(grid())) and not found.programs and not found.left
    assert paging_check.good_share(found.patterns) > 0.97
    assert {pick.best for pick in found.patterns} >= {"copy", "streamed", "mapped", "paged"}


def test_noise_of_some_percent_does_not_change_that():
    assert paging_check.good_share(paging_check.check(list(records(noise=0.03))).patterns) > 0.9


def test_a_wrong_pick_is_counted(cases):
    """Makes one pattern ten times slower than the other patterns predict, so that the pick for it is wrong."""
    invalid = copy.deepcopy(cases)
    right = next(pick for pick in paging_check.check(cases).patterns if pick.way == "paged" and pick.loss == 0)
    before = {pick.point.label: pick.loss for pick in paging_check.check(cases).patterns}
    for case in invalid:
        same = {name: case["axes"][name] for name in ("page", "density", "use", "passes", "frames")}
        if case["axes"]["way"] == "paged" and all(
            f"{name}={value}" in right.point.label for name, value in same.items()
        ):
            case["metrics"][0]["median"] *= 10
    after = {pick.point.label: pick for pick in paging_check.check(invalid).patterns}[right.point.label]
    assert before[right.point.label] == 0 and after.way == "paged" and after.loss > paging_check.NEAR
    assert after.loss == after.point.seconds["paged"] / after.point.seconds[after.best] - 1
    text = paging_check.table_of_check(paging_check.check(invalid)).text
    assert "worst" in text and f"of {len(before)} (" in text


def test_no_pattern_predicts_itself(cases):
    """Makes copies slower in one half of the patterns. Each half must be predicted from the other half."""
    points = paging_check.points_of(cases)
    odd = {point.label.rpartition(" ")[0] for point in points if point.half == 1}
    changed = copy.deepcopy(cases)
    for case in changed:
        key = " ".join(f"{n}={v}" for n, v in sorted(case["axes"].items()) if n not in ("way", "frames"))
        if key in odd and case["axes"]["way"] == "copy":
            case["metrics"][0]["median"] *= 2
    for pick in paging_check.check(changed).patterns:
        if "copy" in pick.predicted:
            ratio = pick.predicted["copy"] / pick.point.seconds["copy"]
            assert ratio == pytest.approx(0.5 if pick.point.half == 1 else 2, rel=0.1)


PAGE, PAGES = 4 * KIB, 2**18
PLACED = {way: placement for placement, way in paged_programs.WAYS.items()}


def program_records(name, program, truth=TRUTH, ways_measured=("copy", "mapped", "paged"), evictions=0, **changes):
    """Yields the records that the simulated machine would measure for a program with some methods."""
    for way in ways_measured:
        axes = {"n": 5} | ({"page": int(program.page), "frames": round(100 * program.room), "eviction": "fifo"}
                           if way == "paged" else {})  # fmt: skip
        roomy = program if way == "paged" else dataclasses.replace(program, room=1)
        metrics = {"overlapped": (planted(roomy, way, truth), "s"), "in": (1e-3, "s"), "out": (1e-6, "s")}
        if way == "paged":
            metrics |= {"fetches": (program.fetched, "1"), "evictions": (evictions, "1")}
        case = record(f"apps/{name}", axes, metrics, placement=PLACED[way], **changes)
        case["metrics"][1]["bytes_needed"] = 0.0 if way == "paged" else program.bytes
        case["kernels"] = [KERNEL | {"bytes_read": 1.0 * program.visits * program.use, "flops": 0.0}]
        yield case


FEW, ALL = (Program(PAGE * PAGES, PAGE, touched, PAGE, 3) for touched in (PAGES // 20, PAGES))


def both(truth=TRUTH):
    return [*program_records("few", FEW, truth), *program_records("all", ALL, truth)]


def test_programs_are_predicted_from_their_own_counts(cases):
    found = paging_check.check(cases + both())
    assert {(pick.point.case["workload"], pick.way, pick.best) for pick in found.programs} == {
        ("apps/few", "paged", "paged"), ("apps/all", "copy", "copy"),
    }  # fmt: skip
    for pick in found.programs:
        assert pick.predicted.keys() == {"copy", "mapped", "paged"}
        assert pick.predicted == pytest.approx(pick.point.seconds, rel=0.15)
    slow = copy.deepcopy(TRUTH)
    slow["paged"]["fetched"] *= 40
    lost = paging_check.check(cases + both(slow)).programs
    assert {pick.point.case["workload"]: pick.loss > 1 for pick in lost} == {"apps/few": True, "apps/all": False}


def test_each_way_reads_what_its_kernels_read(cases):
    """Uses a program whose kernel for reading in place reads once what its paged kernel reads three times."""
    made = list(program_records("few", FEW))
    for case in made:
        if case["placement"] == "mapped":
            case["kernels"][0]["bytes_read"] /= 3
            case["metrics"][0]["median"] = planted(dataclasses.replace(FEW, passes=1), "mapped")
    (pick,) = paging_check.check(cases + made).programs
    assert pick.point.of("mapped").passes == 1 and pick.point.of("paged").passes == 3
    assert pick.predicted["mapped"] == pytest.approx(pick.point.seconds["mapped"], rel=0.15)


def test_what_has_no_room_is_left_out_with_the_reason(cases):
    half = dataclasses.replace(ALL, room=0.5, fetches=2.0 * PAGES)
    found = paging_check.check(cases + list(program_records("half", half, evictions=1.5 * PAGES)))
    tight, roomy = sorted(found.programs, key=lambda pick: pick.point.program.room)
    assert tight.predicted.keys() == {"mapped", "paged"} and roomy.predicted.keys() == {"copy", "mapped"}
    assert tight.point.left.keys() == {"copy"} and not roomy.point.left
    assert roomy.point.program.touched == PAGES and roomy.point.program.fetches is None
    text = paging_check.table_of_check(found).text
    assert "Left out, copy: the whole array does not fit in its frames: apps/half" in text
    rows = [row for row in paging_check.table_of_check(found).rows if "left_out" in row]
    assert [(row["way"], row["workload"]) for row in rows] == [("copy", "apps/half")]


def test_an_array_that_nobody_copied_has_the_size_of_its_frames(cases):
    half = dataclasses.replace(ALL, room=0.5, fetches=2.0 * PAGES)
    found = paging_check.check(cases + list(program_records("half", half, TRUTH, ("paged",), 1.5 * PAGES)))
    (only,) = found.programs
    assert only.point.program.bytes == PAGE * PAGES and only.predicted.keys() == {"paged"}
    assert paging_check.choices(found.programs) == []
    unknown = paging_check.check(cases + list(program_records("half", half, TRUTH, ("paged",), 0)))
    assert [left.why for left in unknown.left] == ["no record in which it was copied shows the size of the array"]


def test_programs_of_other_gpus_and_versions_are_kept_apart_and_marked(cases):
    there = both()
    for case in there:
        case["devices"][0] |= {"uuid": "GPU-far", "name": "Far GPU"}
    slow = list(program_records("few", FEW, version=2))
    for case in slow:
        case["metrics"][0]["median"] *= 7
    found = paging_check.check(cases + there + list(program_records("few", FEW)) + slow)
    assert [found.elsewhere(pick.point.case) for pick in found.programs] == [True, True, False, False]
    assert len({pick.point.seconds["paged"] for pick in found.programs}) == 3
    text = paging_check.table_of_check(found).text
    assert "few tiny page=4KiB frames=100 *" in text and "* measured on other hardware (Far GPU" in text
    assert "*" not in paging_check.table_of_check(paging_check.check(cases + both())).text


def test_another_host_of_the_same_kind_is_no_other_hardware(cases):
    there = both()
    for case in there:
        case["devices"][0]["uuid"] = "GPU-twin"
        case["run"] |= {"node": "twin", "system": "a name"}
    assert "*" not in paging_check.table_of_check(paging_check.check(cases + there)).text
    for case in there:
        case["host"]["cores"] = 999
    text = paging_check.table_of_check(paging_check.check(cases + there)).text
    assert "few tiny page=4KiB frames=100 *" in text and "999 cores" in text


def changed(change):
    made = both()
    for case in made:
        change(case)
    return made


def _of(case, name):
    return next(metric for metric in case["metrics"] if metric["name"] == name)


def counted(case, name, value):
    _of(case, name).update(median=value, samples=[value])


def _if_paged(change):
    return lambda case: change(case) if case["placement"] == "paged" else None


@pytest.mark.parametrize(
    "change, reason",
    [
        (lambda case: _of(case, "out").update(bytes_needed=1e9), "its results exceed 5% of its inputs"),
        (lambda case: case["kernels"][0].update(bytes_read=1e15), "more than 64 times the bytes"),
        (lambda case: case["kernels"][0].update(flops=1e15), "even at the GPU's peak, it computes for longer"),
        (_if_paged(lambda case: case["axes"].update(transport="relay")), "something else moved its pages"),
        (_if_paged(lambda case: counted(case, "fetches", 0)), "it counted no pages"),
    ],
)
def test_a_program_whose_record_does_not_tell_is_left_out_with_the_reason(change, reason, cases):
    found = paging_check.check(cases + changed(change))
    assert found.left and all(reason in left.why and not left.refused for left in found.left)
    text = " ".join(paging_check.table_of_check(found).text.split())
    assert f"Left out, {found.left[0].why}: apps/all, apps/few" in text
    assert not any("paged" in pick.predicted for pick in found.programs)


@pytest.mark.parametrize(
    "change, sentence",
    [
        (lambda case: counted(case, "fetches", -5.0), "fetches=-5 is not a number of pages"),
        (lambda case: counted(case, "fetches", 5.5), "fetches=5.5 is not a number of pages"),
        (
            lambda case: counted(case, "fetches", PAGES + 17.0),
            "with room for all pages, it fetched 262161 although it has only 262144",
        ),
        (lambda case: counted(case, "evictions", 1e9), "1000000000 pages were evicted, but only"),
        (lambda case: case["axes"].update(page=0), "page=0 is not a whole number from 1 to"),
        (lambda case: case["axes"].update(frames=-1), "frames=-1 is not a whole number from 1 to"),
        (lambda case: _of(case, "in").update(bytes_needed=1e12), "it copied in more bytes when it was paged"),
    ],
)
def test_counts_that_cannot_be_are_refused_in_a_sentence(change, sentence, cases, tmp_path, capsys):
    made = changed(_if_paged(lambda case: change(case) if case["workload"] == "apps/few" else None))
    folder = write(tmp_path / "r", cases + made)
    assert cli.main(["advise", "paging", folder, "--check"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert re.search(r"Refused, few tiny page=\S+ frames=\S+: its counts are impossible: " + sentence, said)
    assert "all tiny page=4KiB frames=100 copy" in said


# --- the command ---


def test_a_program_is_advised(cases, tmp_path, capsys):
    folder = write(tmp_path / "r", cases)
    assert (
        cli.main(
            ["advise", "paging", folder, "--program", "bytes=1GiB", "touched=5000", "passes=4", "--format", "json"]
        )
        == 0
    )
    rows = json.loads(capsys.readouterr().out)
    assert [row["way"] for row in rows][0] == "paged" and {row["way"] for row in rows} == {*TRUTH} - {"streamed"}
    program = Program(2**30, 4096, 5000, 4096, 4)
    assert {row["way"]: row["seconds"] for row in rows} == pytest.approx(
        {row["way"]: planted(program, row["way"]) for row in rows}, rel=0.1
    )
    words = ["bytes=1GiB", "order=in_order", "room=256MiB", "passes=4", "page=64KiB"]
    assert cli.main(["advise", "paging", folder, "--program", *words]) == 0
    said = capsys.readouterr().out
    assert "streamed" in said and "managed:" in said and "copied 55.0 GB/s" in said
    assert "not copy: there is no room for the whole array\nnot managed: there is no room" in said
    assert cli.main(["advise", "paging", folder, "--check"]) == 0
    assert "picked within 10% of the best" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["touched=5"], "declare bytes=BYTES"),
        (["bytes=1GiB", "bytes=2GiB"], "'bytes=2GiB' is not understood"),
        (["bytes=1GiB", "use=0"], "'use=0' is not understood"),
        (["bytes=1GiB", "order=random"], "order=in_order|scattered"),
        (["bytes=1MiB", "touched=300"], "touched=300 pages are more than the array's 256"),
        (["bytes=1GiB", "passes=0.2"], "passes is 0.2; the minimum is 1"),
        (["bytes=1MiB", "fetches=255"], "fetches=255 is less than the 256 pages that are touched"),
        (["bytes=16GiB", "fetches=4194303"], "fetches=4194303 is less than the 4194304 pages"),
        (["bytes=1MiB", "touched=9", "fetches=8.5"], "fetches=8.5 is less than the 9 pages"),
    ],
)
def test_a_program_that_cannot_be_is_one_sentence(words, sentence, cases, tmp_path, capsys):
    folder = write(tmp_path / "r", cases[:40])
    assert cli.main(["advise", "paging", folder, "--program", *words]) == exits.BAD_INPUT
    said = capsys.readouterr().err.splitlines()
    assert sentence in said[-1]


def test_pages_that_came_once_are_a_program():
    assert paging.declared(["bytes=1MiB", "touched=9", "fetches=9", "passes=1"]).fetched == 9


def test_patterns_of_a_slower_node_are_refused(cases, tmp_path, capsys):
    slower = copy.deepcopy(cases)
    for case in slower:
        case["run"] |= {"node": "n2", "id": "0123456789abcde1"}
        case["host"] |= {"boot_id": "another boot"}
        for metric in case["metrics"]:
            if metric["unit"] == "s":
                metric |= {"median": 2 * metric["median"], "samples": [2 * s for s in metric["samples"]]}
    folder = write(tmp_path / "two", [*cases, *slower])
    words = ["--program", "bytes=1GiB", "touched=5000", "passes=4"]
    assert cli.main(["advise", "paging", folder, *words]) == exits.BAD_INPUT
    assert "paging/pattern time differs by a factor of 2 between node " in capsys.readouterr().err
    assert cli.main(["advise", "paging", folder, *words, "--where", "node=n2"]) == 0


@pytest.mark.parametrize("topic", ["paging", "placement"])
def test_a_program_is_looked_at_before_records_are(topic, capsys):
    """Passes a wrong program, which is refused before records are read, because reading them takes half a minute."""
    assert cli.main(["advise", topic, "/nowhere", "--program", "bytse=4GB"]) == exits.BAD_INPUT
    said = capsys.readouterr().err
    assert "'bytse=4GB' is not understood" in said and "3, 2e9 or 4GiB" in said and said.count("\n") == 1


def test_without_patterns_nothing_is_advised(cases, tmp_path, capsys):
    others = write(tmp_path / "r", both())
    for words in (["--check"], ["--program", "bytes=1GiB"]):
        assert cli.main(["advise", "paging", others, *words]) == exits.BAD_INPUT
        assert "docs/paging.md" in capsys.readouterr().err
    one = write(tmp_path / "one", cases[:1])
    assert cli.main(["advise", "paging", one, "--check"]) == exits.BAD_INPUT
    assert "1 pattern is too few to predict one half from the other" in capsys.readouterr().err


def test_emulated_patterns_are_left_out_with_a_word(cases, tmp_path, capsys):
    emulated = write(tmp_path / "r", [case | {"emulated": True} for case in cases[:2]])
    for words in (["--check"], ["--program", "bytes=1GiB"]):
        assert cli.main(["advise", "paging", emulated, *words]) == exits.BAD_INPUT
        first, second = capsys.readouterr().err.splitlines()
        assert first == "2 emulated records left out; --emulated includes them"
        assert second.startswith("isthmus advise: these files have no valid record of paging/pattern; measure")
    one = write(tmp_path / "one", [cases[0] | {"emulated": True}])
    assert cli.main(["advise", "paging", one, "--check", "--emulated"]) == exits.BAD_INPUT
    assert "1 pattern is too few" in capsys.readouterr().err


@given(
    st.sampled_from(["bytes", "page", "passes", "frames", "order", "way", "pages_touched", "useful", "time"]),
    st.sampled_from([None, True, 0, -1, 1, 10**400, 1e308, 5e-324]),
)
def test_a_pattern_that_cannot_be_teaches_nothing(name, value):
    case = pattern(Program(MIB, 4 * KIB, 100, 128), "mapped", 1e-3)
    if name in case["axes"]:
        case["axes"][name] = value
    else:
        next(metric for metric in case["metrics"] if metric["name"] == name)["median"] = value
    found = paging_check.points_of([case])
    for point in found:
        assert all(math.isfinite(seconds) for _, seconds in paging_check.learn(found, CORES).rank(point.program))


def test_room_for_all_that_is_read_is_not_room_for_the_array():
    half = paging.declared(["bytes=1GiB", "touched=1000", "room=512MiB"])
    assert half.frames == half.touched and "copy" not in methods.ways_of(half)
