"""Tests of the check of programs: which programs run first, in which modes, and that a wrong result is red."""

import pytest

from isthmus_reframe import catalogue

CHECKS = "applications.py"
PROGRAMS = {w["name"].removeprefix("apps/"): w for w in catalogue.load()["workloads"] if w["name"].startswith("apps/")}
GPU = {"features": ["gpu", "cuda"]}


def listed(session, *options, **site):
    output = session("-l", *options, select="Application", **site).output
    lines = [line for line in output.splitlines() if line.startswith("- Application")]
    return [dict(word.split("=") for word in line.split() if "=" in word) for line in lines]


def test_smoke_has_every_program_in_two_memories(session):
    found = listed(session, "-t", "smoke")
    assert {each["%size"] for each in found} == {"tiny"}
    modes = {name: {each["%mode"] for each in found if each["%workload"] == name} for name in PROGRAMS}
    for name, program in PROGRAMS.items():
        assert modes[name] == ({"pm_async", "uvm"} if "async" in program["stagings"] else {"pm", "uvm"})


def test_a_program_with_stagings_has_six_modes_and_another_three_memories(session):
    found = listed(session, "-t", "default", site=GPU)
    modes = {name: {each["%mode"] for each in found if each["%workload"] == name} for name in PROGRAMS}
    assert len(modes["srad"]) == 6
    assert modes["va"] == {"baseline", "pm", "uvm"}
    assert {each["%workload"] for each in listed(session, "-t", "gpuvm", "-t", "mega", site=GPU)} >= {"va", "atax"}


@pytest.mark.parametrize("name, mode", [("srad", "pm_async"), ("va", "pm"), ("bfs", "uvm")])
def test_what_was_asked_for_is_green(session, name, mode):
    outcome = session(select=f"Application.*{name}.*mode={mode}%.*tiny")
    assert outcome.green
    assert "P: kernel" in outcome.output


@pytest.mark.parametrize(
    "fake, why",
    [
        ("missing_metric:kernel_flop_rate", "lacks the metric 'kernel_flop_rate'"),
        ("wrong_result", "wrong result"),
        ("error", "cudaMalloc: out of memory"),
    ],
)
@pytest.mark.parametrize("name, mode", [("srad", "pm_async"), ("va", "pm")])
def test_red(session, name, mode, fake, why):
    outcome = session(select=f"Application.*{name}.*mode={mode}%.*tiny", fake=fake)
    assert not outcome.green
    assert why in outcome.output


@pytest.mark.parametrize("name", ["bayesian", "bfs"])
def test_programs_without_floating_point_need_no_rate_of_it(session, name):
    assert "kernel_flop_rate" not in catalogue.find(f"apps/{name}")["metrics"]
    assert session(select=f"Application.*{name}.*mode=uvm%.*tiny").green


def test_programs_with_floating_point_need_a_rate_of_it(session):
    outcome = session(select="Application.*hotspot.*mode=uvm%.*tiny", fake="missing_metric:kernel_flop_rate")
    assert not outcome.green
    assert "the record lacks the metric 'kernel_flop_rate'" in outcome.output
