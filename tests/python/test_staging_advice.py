"""Tests of advice on asynchronous copies.

Rules find planted effects, are not learned from the workloads that they are tested on, and report if there is no
effect. Instructions are weighted by their loops.
"""

import csv
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from test_placement_advice import base

from isthmus import Error, cli
from isthmus.advise import staging

ROOT = pathlib.Path(__file__).resolve().parents[2]
H200 = ROOT / "papers/data/h200"
EXAMPLE_MIX = "kernel,architecture,registers,instructions,flops,shared,global,barrier,integer\n"


def pair(workload, ratio, *, occupancy=0.5, registers=40, seconds=1e-3, blocks=0, flops=1e9, where="super", **changes):
    """Returns records of a kernel with direct and with asynchronous staging; the latter takes `ratio` times as long."""
    found = []
    for way, time in (("direct", seconds), ("async", seconds * ratio)):
        case = base(f"microbench/{workload}", {"blocks": blocks}, {"kernel": (time, "s", None)}, placement="pinned",
                    staging=way, size=where)  # fmt: skip
        case["kernels"] = [
            {"name": f"{workload}_staged", "registers": registers, "shared_bytes": 0, "occupancy": occupancy,
             "bytes_read": 1e9, "bytes_written": 0.0, "flops": flops}
        ]  # fmt: skip
        found.append(case | changes)
    return found


def pairs(*each):
    return [case for two in each for case in two]


def rate(found, name):
    return next(each for each in found.rates if each.name == name)


SIX = (("a", 0.2), ("b", 0.25), ("c", 0.3), ("d", 0.7), ("e", 0.75), ("f", 0.8))


def test_a_rule_that_is_there_is_found_with_its_threshold_and_is_called_reliable():
    cases = pairs(*(pair(name, 0.8 if o < 0.5 else 1.2, occupancy=o) for name, o in SIX))
    found, lacking = staging.find(cases, None)
    assert lacking == 0 and len(found.kernels) == 6
    occupancy = rate(found, "occupancy")
    assert (occupancy.hits, occupancy.lost) == (1.0, 0.0) and occupancy.when == "≤ 0.5"
    assert found.picked.hits == 1.0 and found.reliable and staging.answer(found).startswith("Yes")


def test_where_nothing_tells_the_answer_is_no_with_what_it_costs():
    ratios = (0.8, 1.2, 0.8, 1.2, 0.8, 0.8)
    found, _ = staging.find(pairs(*(pair(n, r, occupancy=o) for (n, o), r in zip(SIX, ratios, strict=True))), None)
    assert not found.reliable
    assert rate(found, "always asynchronous").hits == pytest.approx(4 / 6)
    assert rate(found, "always asynchronous").lost == pytest.approx(2 * 0.2 / 6)
    assert rate(found, "never asynchronous").lost == pytest.approx(4 * 0.25 / 6)
    assert re.match("No, not reliably: .* of 6 workloads, and “always asynchronous” in 67%", staging.answer(found))


def test_no_workload_is_judged_by_what_it_taught():
    """Uses one workload with low occupancy. The rule for it is learned from the others, so it must miss this one."""
    cases = pairs(*(pair(n, 1.2, occupancy=0.9) for n in "abcde"), pair("f", 0.5, occupancy=0.1))
    found, _ = staging.find(cases, None)
    occupancy = rate(found, "occupancy")
    assert occupancy.when == "≤ 0.5" and occupancy.hits == pytest.approx(5 / 6)
    assert found.picked.hits == pytest.approx(5 / 6) and not found.reliable  # no better than always answering no


def test_a_workload_counts_once_however_many_records_it_has():
    many = [pair("a", 0.8, where=str(n)) for n in range(9)]
    found, _ = staging.find(pairs(*many, pair("b", 1.2), pair("c", 1.2)), None)
    assert len(found.kernels) == 11 and rate(found, "always asynchronous").hits == pytest.approx(1 / 3)


@pytest.mark.parametrize("ratio, pays", [(0.96, True), (0.98, False), (1.0, False)])
def test_less_than_three_per_cent_does_not_pay(ratio, pays):
    found, _ = staging.find(pairs(*(pair(n, ratio) for n in "abc")), None)
    assert {each.pays for each in found.kernels} == {pays}


def test_what_teaches_nothing_is_left_out():
    """Adds kernels that are too short, fell back to another staging, or have no partner, all of which are left out."""
    rest = [pair(n, 0.9) for n in "abc"]
    fallback = pair("e", 0.1)
    fallback[1]["fallback"] = "async through registers"
    found, _ = staging.find(pairs(*rest, pair("d", 0.1, seconds=5e-6), fallback, pair("f", 0.1)[:1]), None)
    assert found.workloads == ["microbench/a", "microbench/b", "microbench/c"]


def test_too_few_workloads_and_two_machines_are_refused():
    with pytest.raises(Error, match="fewer than three workloads"):
        staging.find(pairs(pair("a", 0.9), pair("b", 0.9)), None)
    other = pairs(pair("c", 0.9))
    for case in other:
        case["devices"][0]["name"] = "Other GPU"
    with pytest.raises(Error, match=r"these records have 2 values of device \(Other GPU, Simple GPU\)"):
        staging.find(pairs(pair("a", 0.9), pair("b", 0.9)) + other, None)


def test_kernels_of_a_slower_node_are_refused():
    """Adds records of a slower node, which are refused because a pair with one staging from each node would show a
    false effect."""
    there = pairs(*(pair(n, 0.9, seconds=2e-3) for n in "abc"))
    for case in there:
        case["run"] |= {"node": "n2"}
    with pytest.raises(Error, match=r"microbench/. kernel differs by a factor of 2 between node"):
        staging.find(pairs(*(pair(n, 0.9, seconds=1e-3) for n in "abc")) + there, None)


def test_blocks_are_a_share_of_the_device():
    shares = []
    for blocks, grid in ((0, None), (50, None), (0, [2, 5, 1]), (0, [64, 64, 1])):
        case = pair("a", 0.9, blocks=blocks)[0]
        if grid:
            case["kernels"][0]["grid"] = grid
        shares.append(staging.features_of(case, case["kernels"][0], None)["blocks"])
    assert shares == [1.0, 0.5, 0.1, 1.0]  # blocks as a share of 100 multiprocessors, at most 1


def test_the_longest_kernel_is_the_one_that_is_looked_at():
    case = pair("a", 0.9)[0]
    first = case["kernels"][0]
    library = first | {"name": "fill", "registers": None, "occupancy": None, "seconds": 9.0}
    case["kernels"] = [first | {"seconds": 1e-3}, first | {"name": "second", "seconds": 6e-4, "launches": 2}, library]
    assert staging.main_kernel(case, None)["name"] == "second"
    assert staging.main_kernel(case | {"kernels": [library]}, None) is None


def test_of_the_machine_code_kernels_count_before_longer_ones_that_stage_nothing(tmp_path):
    case = pair("a", 0.9)[0]
    case["kernels"].append(case["kernels"][0] | {"name": "other", "seconds": 9.0})
    mix = staging.load_mix(mix_file(tmp_path, '"a_staged<0,1u>",sm_90,40,100,10,5,2,1,50'))
    assert staging.main_kernel(case, None)["name"] == "other"
    assert staging.main_kernel(case, mix)["name"] == "a_staged" and staging.main_kernel(case, {})["name"] == "other"


# --- the instruction mix of records ---


def mix_file(tmp_path, *lines):
    path = tmp_path / "instructions.csv"
    path.write_text(EXAMPLE_MIX + "".join(line + "\n" for line in lines))
    return path


def test_a_kernel_is_found_by_name_staging_registers_and_tile(tmp_path):
    path = mix_file(
        tmp_path,
        '"a_staged<0,1u,Tile64>",sm_90,40,100,10,5,2,1,50',
        '"a_staged<0,1u,Tile32>",sm_90,40,100,40,5,2,1,50',
        '"a_staged<0,1u,Tile16>",sm_90,64,100,80,5,2,1,50',
        '"a_staged<1,2u,Tile64>",sm_90,40,100,99,1,2,1,50',
        '"sweep<0,1u,Adjust>",sm_90,32,200,20,4,2,1,50',
    )
    mix = staging.load_mix(path)

    def flops(name, registers, tile):
        found = staging.mix_of({"name": name, "registers": registers}, {"tile": tile}, mix)
        return found and found["flops_per_shared"]

    assert flops("a_staged", 40, "64") == 2 and flops("a_staged", 40, "32") == 8
    assert flops("a_staged", 40, None) == 5, "the mean of those that it may be"
    assert flops("a_staged", 64, "64") == 16
    assert flops("a", 99, "64") == 2, "compiled otherwise since"
    assert flops("adjust", 32, None) == 5 and flops("b_staged", 40, "64") is None
    assert staging.mix_of({"name": "adjust", "registers": 32}, {}, mix)["shared"] == 4 / 200


def test_kernels_that_the_mix_lacks_are_told(tmp_path):
    rows = (f'"{n}_staged<0,1u>",sm_90,40,100,{f},5,2,1,50' for n, f in zip("abc", (5, 10, 80), strict=True))
    cases = pairs(pair("a", 1.1), pair("b", 1.1), pair("c", 0.5), pair("d", 0.5))
    found, lacking = staging.find(cases, staging.load_mix(mix_file(tmp_path, *rows)))
    assert lacking == 1 and found.workloads == ["microbench/a", "microbench/b", "microbench/c"]
    assert rate(found, "flops per shared access").when == "> 9"


def test_the_papers_rule_wants_both_to_be_high(tmp_path):
    high, few_flops, little_use = (100, 10), (5, 10), (10, 1)  # flops and shared accesses per 100 instructions
    kinds = dict(zip("abcdef", (high, few_flops, little_use) * 2, strict=True))
    rows = (f'"{n}_staged<0,1u>",sm_90,40,100,{f},{s},2,1,50' for n, (f, s) in kinds.items())
    cases = pairs(*(pair(name, 0.5 if kind == high else 1.1) for name, kind in kinds.items()))
    found, _ = staging.find(cases, staging.load_mix(mix_file(tmp_path, *rows)))
    assert rate(found, staging.PAPERS).hits == 1 and rate(found, staging.PAPERS).when == "> 5.25 and > 0.055"
    assert all(each.hits < 1 for each in found.rates if each.name in staging.MIX.values())


@pytest.mark.parametrize(
    "text",
    ["", "a,b\n1,2\n", EXAMPLE_MIX + "x,sm_90,nan,1,1,1,1,1,1\n", EXAMPLE_MIX + "x,sm_90,1,0,1,1,1,1,1\n",
     EXAMPLE_MIX + "x,sm_90,1\n", EXAMPLE_MIX.replace(",integer", "") + "x,sm_90,1,1,1,1,1,1\n"],
)  # fmt: skip
def test_what_is_no_instruction_mix_is_one_sentence(text, tmp_path):
    path = tmp_path / "mix.csv"
    path.write_text(text)
    if text == "":
        assert staging.load_mix(path) == {}  # an empty file has no kernels
        return
    with pytest.raises(Error, match=r"mix\.csv: not written by scripts/instruction-mix"):
        staging.load_mix(path)


# --- the command, on committed records ---


def test_the_page_has_what_the_command_says_of_the_committed_records(capsys):
    assert cli.main(["advise", "staging", str(H200)]) == 0
    said = [line.strip() for line in capsys.readouterr().out.splitlines()]
    page = (ROOT / "docs/advice.md").read_text(encoding="utf-8")
    shown = re.search("```\n(NVIDIA H200: .*?asynchronous.*?)```", page, re.S)[1]
    assert [line.strip() for line in shown.splitlines()] == said, (
        "docs/advice.md: take over what `isthmus advise staging papers/data/h200` prints"
    )


def test_programs_get_every_kernel(capsys):
    assert cli.main(["advise", "staging", str(H200), "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert any(row["workload"] == "microbench/gemv" and row["case"] == "super" and row["ratio"] < 0.85 for row in rows)


# --- scripts/instruction-mix ---

SASS = """
	code for sm_90
		Function : _Z9demo_loopILN7isthmus6device11TileStagingE0ELj1EEvPf
        /*0000*/                   MOV R1, c[0x0][0x28] ;
        /*0010*/                   LDG.E R2, desc[UR4][R4.64] ;
        /*0020*/                   FFMA R2, R2, R3, R4 ;
        /*0030*/                   STS.128 [R5], R2 ;
        /*0040*/                   FADD R2, R2, R3 ;
        /*0050*/              @P1 BRA 0x40 ;
        /*0060*/                   BRA.DIV UR4, 0xc0 ;
        /*0070*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*0080*/              @P0 BRA 0x20 ;
        /*0090*/             @!PT LDS RZ, [RZ] ;
        /*00a0*/                   STG.E desc[UR4][R4.64], R2 ;
        /*00b0*/                   EXIT ;
        /*00c0*/                   SHFL.DOWN PT, R2, R2, R3, R4 ;
        /*00d0*/                   BRA 0x70 ;
        /*00e0*/                   BRA 0xe0 ;
        /*00f0*/                   NOP ;
"""
USAGE = " Function _Z9demo_loopILN7isthmus6device11TileStagingE0ELj1EEvPf:\n  REG:24 STACK:0 SHARED:0\n"


def mixed(tmp_path, *options, sass=SASS, usage=USAGE):
    tool = tmp_path / "cuobjdump"
    (tmp_path / "sass").write_text(sass)
    (tmp_path / "usage").write_text(usage)
    tool.write_text(f'#!/bin/sh\ncase $1 in -sass) cat "{tmp_path}/sass" ;; *) cat "{tmp_path}/usage" ;; esac\n')
    tool.chmod(0o755)
    return subprocess.run(
        [sys.executable, ROOT / "scripts/instruction-mix", *options, "object.o"], capture_output=True, text=True,
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )  # fmt: skip


def test_instructions_weigh_by_the_loops_they_stand_in(tmp_path):
    done = mixed(tmp_path)
    assert done.returncode == 0, done.stderr
    (row,) = csv.DictReader(done.stdout.splitlines())
    assert row["kernel"].startswith("demo_loop<0,1") and (row["registers"], row["loops"]) == ("24", "2")
    assert float(row["fp32"]) == 10 + 100 and float(row["flops"]) == 2 * 10 + 100
    assert (float(row["shared"]), float(row["global"]), float(row["barrier"])) == (10, 1 + 1, 10)
    assert float(row["shuffle"]) == 0, "nothing but a warp whose threads have parted gets there"
    assert float(row["control"]) == 100 + 2 * 10 + 1


def test_a_jump_back_from_code_that_was_moved_to_the_end_is_no_loop(tmp_path):
    """Uses code that jumps from 0x10 to 0x50 and then back to 0x30, so that every instruction runs at most once."""
    sass = SASS[: SASS.index("        /*0000*/")] + (
        "        /*0000*/                   MOV R1, R2 ;\n"
        "        /*0010*/              @P0 BRA 0x50 ;\n"
        "        /*0020*/                   FADD R2, R2, R3 ;\n"
        "        /*0030*/                   FADD R2, R2, R3 ;\n"
        "        /*0040*/                   EXIT ;\n"
        "        /*0050*/                   FFMA R2, R2, R3, R4 ;\n"
        "        /*0060*/                   BRA 0x30 ;\n"
    )
    (row,) = csv.DictReader(mixed(tmp_path, sass=sass).stdout.splitlines())
    assert (row["loops"], float(row["fp32"]), float(row["instructions"])) == ("0", 3, 7)


def test_no_kernel_of_that_name_is_one_sentence(tmp_path):
    done = mixed(tmp_path, "--kernels", "x*", "--")
    assert done.returncode == 1 and done.stderr == "instruction-mix: no kernel of these objects is called x*\n"


@pytest.mark.parametrize(
    ("sass", "usage", "why"),
    [
        ("", USAGE, "object.o has no kernel: leave it out"),
        (SASS[: SASS.index("        /*0000*/")], USAGE, "for sm_90 has no end, so cuobjdump was cut short"),
        (SASS[: SASS.index("        /*00a0*/")], USAGE, "for sm_90 has no end, so cuobjdump was cut short"),
        (SASS, "", "-res-usage has no registers of _Z9demo_loop"),
    ],
)
def test_what_cuobjdump_did_not_say_whole_is_no_shorter_table(tmp_path, sass, usage, why):
    done = mixed(tmp_path, sass=sass, usage=usage)
    assert done.returncode == 1 and why in done.stderr and done.stderr.count("\n") == 1 and done.stdout == ""


def test_each_kernel_that_is_asked_for_is_in_the_table(tmp_path):
    done = mixed(tmp_path, "--kernels", "demo*", "x*", "--")
    assert done.returncode == 1 and done.stderr == "instruction-mix: no kernel of these objects is called x*\n"


def test_the_committed_mix_is_of_the_kernels_in_direct_staging():
    mix = staging.load_mix(H200 / "instructions.csv")
    for name in ("gemm_staged", "conv2d_staged", "vector_seq_staged", "knn_staged", "lavamd_staged"):
        assert all(row["arguments"][0] == "0" for row in mix[name])
    gemm = staging.mix_of({"name": "gemm_staged", "registers": 128}, {"tile": "x"}, mix)
    nw = staging.mix_of({"name": "nw_staged", "registers": 0}, {}, mix)
    assert gemm["flops_per_shared"] > 20 and nw["flops_per_shared"] == 0, "whole numbers only"
