"""Tests of the report on memory counters: what each counter sees, and whether counters agree on touched memory."""

import copy
import functools
import json
import pathlib
import sys

import commands
import pytest

from isthmus.tables import accounting

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/reframe"))
import fake_bench  # noqa: E402


def record(workload, axes, seen, **changes):
    """Returns a record; `seen` maps each counter to its shares after allocating and after touching."""
    case = copy.deepcopy(fake_bench.record("microbench/saxpy", "pm", "tiny", "emulator"))
    like = case["metrics"][0] | {"unit": "1", "better": None, "timer": "none"}
    case["metrics"] = [
        like | {"name": f"{name}_{when}", "median": share, "samples": [share]}
        for name, shares in seen.items()
        for when, share in zip(("allocated", "touched"), shares, strict=True)
    ]
    return case | {"workload": workload, "axes": {"bytes": 2**28, **axes}, "emulated": False, "mode": None} | changes


ON_DEMAND = record("accounting/pageable/cpu", {"pages": "small"}, {"meminfo_free": (0.0, 1.02), "status_rss": (0, 1)})
OF_DEVICE = record(
    "accounting/device/gpu0", {"touch": "gpu"}, {"meminfo_free": (1, 1), "status_rss": (0, 0), "device_free": (1, 1)}
)


run = functools.partial(commands.run, "table", "--view", "accounting")


def write(path, cases):
    path.write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("share", "said"), [(1.0, "all"), (0.95, "all"), (0.0, "-"), (-0.02, "-"), (0.5, "50%"), (2.0, "200%")]
)
def test_shares_in_words(share, said):
    assert accounting.word(share) == said


def test_a_counter_agrees_when_it_sees_all_that_is_touched():
    def agreeing(case):
        return {row["counter"]: row["agrees"] for row in accounting.view([case]).rows}

    assert agreeing(ON_DEMAND) == {"MemFree": True, "VmRSS": True}
    assert agreeing(OF_DEVICE) == {"MemFree": True, "VmRSS": False, "device": True}


def test_what_casts_doubt_on_a_counter_stands_below_the_table():
    saving = {"code": "governor_powersave", "message": "x"}
    shown = accounting.view([ON_DEMAND, OF_DEVICE | {"warnings": [saving]}])
    [doubtful] = {row["doubts"] for row in shown.rows if row["workload"] == OF_DEVICE["workload"]}
    assert "CPU saves power" in doubtful
    assert "device gpu0/gpu device: CPU saves power, n=1" in " ".join(shown.text.split())


def test_the_table_tells_agreement_from_disagreement(tmp_path):
    shown = run(write(tmp_path / "r.jsonl", [ON_DEMAND, OF_DEVICE]))
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    rss = next(line for line in lines if line.startswith("VmRSS"))
    assert "- → all" in rss and "- → -" in rss
    assert "unknown" in next(line for line in lines if line.startswith("device"))
    assert lines[-2].split() == ["agree", "1", "differ"] and lines[-1] == "all figures: n=1"
    assert max(map(len, lines)) <= 80


def test_many_allocations_stay_within_80_columns(tmp_path):
    cases = [
        record(f"accounting/{way}/gpu{gpu}", {"touch": touch}, {"meminfo_free": (0.5, 1), "status_rss": (0, 1)})
        for way in ("pageable", "registered", "managed", "write_combined")
        for gpu in (0, 1)
        for touch in ("cpu", "gpu")
    ]
    shown = run(write(tmp_path / "r.jsonl", cases)).stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.count("MemFree") == shown.count("VmRSS") > 1
    for case in cases:
        assert case["workload"].split("/")[1] in shown


def test_several_records_of_one_are_summed_up(tmp_path):
    cases = [record("accounting/pageable/cpu", {}, {"status_rss": (0, share)}) for share in (0.2, 1.0, 1.0)]
    assert "all" in run(write(tmp_path / "r.jsonl", cases)).stdout


def test_emulated_and_unrelated_records_are_left_out_with_a_sentence(tmp_path):
    path = write(tmp_path / "r.jsonl", [OF_DEVICE | {"emulated": True}])
    refused = run(path)
    assert refused.returncode == 2 and "accounting/*" in refused.stderr
    assert run("--emulated", path).returncode == 0
    unrelated = write(tmp_path / "other.jsonl", [fake_bench.record("microbench/saxpy", "pm", "tiny", "emulator")])
    assert run("--emulated", unrelated).returncode == 2
