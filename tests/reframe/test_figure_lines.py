"""Tests of doubts about figures, which must be in ReFrame's line for the figure but not in ReFrame's reports."""

import json
import re

import pytest
from reframe.frontend.executors import policies

from isthmus_reframe.gates import figure_lines


def lines(outcome) -> list[str]:
    return re.findall(r"P: (\w+: .*)", outcome.output)


def test_emulated_figures_are_marked_in_their_lines(session, tmp_path):
    outcome = session("-r", "--report-file=report.json")
    assert outcome.green
    assert lines(outcome) and all("/s [emulated" in line or " s [emulated" in line for line in lines(outcome))
    [run] = json.loads((tmp_path / "report.json").read_text())["runs"]
    units = {name: values[4] for case in run["testcases"] for name, values in case["perfvalues"].items()}
    assert set(units.values()) == {"s", "B/s", "FLOP/s"}


def test_a_figure_beside_others_says_so(session):
    site = {"features": ["cuda"], "extras": {"isthmus": {"shared_nodes": True}}}
    outcome = session("-r", fake="gpu:cuda,company:stays", site=site)
    assert outcome.green
    assert all("[others on the GPU" in line for line in lines(outcome)) and lines(outcome)


def test_a_figure_far_below_its_reference_is_low(session):
    references = "- workload: microbench/saxpy\n  metrics: {kernel_rate: [9.0e+15, -0.9999999, null, B/s]}\n"
    outcome = session("-r", fake="gpu:cuda", site={"features": ["cuda"]}, references=references)
    [line] = [line for line in lines(outcome) if line.startswith("kernel_rate")]
    assert "B/s [low, 0% of its reference: the record does not say why, n=1] (r:9000000000000000.0, " in line


def test_a_reframe_without_the_function_is_refused(monkeypatch):
    figure_lines.install()
    once = policies._print_perf
    figure_lines.install()
    assert policies._print_perf is once
    monkeypatch.delattr(policies, "_print_perf")
    with pytest.raises(AttributeError):
        figure_lines.install()
