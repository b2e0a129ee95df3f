"""Nodes among their equals, systems side by side, scores: on data whose truth is known."""

import json
import math
import re

import numpy as np
import pytest
from histories import record, tell, write

from isthmus import cli, compare, nodes, score, store

METRICS = [f"microbench/w{i}" for i in range(20)]


def machine(chance, count, *, spread=0.02, bad=None, worse=0.0, jobs=3, workloads=METRICS, better="lower", **where):
    """Records of nodes that differ by `spread`; node `bad` is worse by a share."""
    cases = []
    for workload in workloads:
        for node in range(count):
            own = float(np.exp(spread * chance.standard_normal())) * (1 + worse * (node == bad))
            for job in range(jobs):
                value = 0.001 * own * float(np.exp(0.005 * chance.standard_normal()))
                name = {"node": f"node{node:02}", "gpu": f"GPU-{node}", "job": f"{node}-{job}"}
                case = record(value, workload=workload, **name, **where)
                if better == "higher":
                    case["metrics"][0] |= {"name": "rate", "unit": "B/s", "better": "higher", "median": 1 / value}
                cases.append(case)
    return cases


# --- nodes ---


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_a_bad_node_is_found_with_its_reasons(tmp_path, capsys, better):
    cases = machine(np.random.default_rng(1), 12, spread=0.005, bad=7, worse=0.10, better=better)
    folder = write(tmp_path / "r", cases)
    assert cli.main(["nodes", str(folder)]) == 1
    said = capsys.readouterr().out
    assert int(re.search(r"^node07: worse than its equals in (\d+) series$", said, re.MULTILINE)[1]) >= 15
    assert "on GPU-7" in said and "1 of 12 nodes are outliers" in said
    assert cli.main(["nodes", str(folder), "--list"]) == 1
    assert capsys.readouterr().out == "node07\n"


def test_a_better_node_is_no_outlier(tmp_path):
    cases = machine(np.random.default_rng(1), 12, spread=0.005, bad=7, worse=-0.2)
    assert cli.main(["nodes", str(write(tmp_path / "r", cases))]) == 0


def test_half_speed_shows_among_four(tmp_path):
    cases = machine(np.random.default_rng(1), 4, spread=0.01, bad=2, worse=1.0)
    with store.open_store([write(tmp_path / "r", cases)]) as opened:
        reasons, count, metrics = nodes.outliers(opened)
    assert nodes.names(reasons) == ["node02"] and (count, metrics) == (4, 20)


def test_small_differences_are_of_no_interest_however_sure(tmp_path):
    cases = machine(np.random.default_rng(1), 20, spread=0.0005, bad=3, worse=0.02)
    folder = str(write(tmp_path / "r", cases))
    assert cli.main(["nodes", folder]) == 0
    assert cli.main(["nodes", folder, "--floor", "0.01"]) == 1


def test_other_hardware_is_no_equal(tmp_path):
    chance = np.random.default_rng(1)
    slow = machine(chance, 5, spread=0.01, host__cpu="old")
    for case in slow:
        case["run"]["node"] = "old-" + case["run"]["node"]
        case["metrics"][0]["median"] *= 3
    folder = write(tmp_path / "r", machine(chance, 8, spread=0.01) + slow)
    assert cli.main(["nodes", str(folder)]) == 0


def test_too_few_equals_are_said(tmp_path, capsys):
    assert cli.main(["nodes", str(write(tmp_path / "r", machine(np.random.default_rng(1), 3)))]) == 3
    assert "0 series with 4 equals or more" in capsys.readouterr().out


@pytest.mark.parametrize("equals", [6, 16, 64])
def test_sessions_with_a_false_outlier(equals, capsys, record_property):
    """2,000 sessions of 50 metrics on nodes that differ by 5%, by chance only."""
    chance = np.random.default_rng(equals)
    limit = nodes.threshold(equals, 50 * equals)
    logs = 0.05 * chance.standard_normal((2000, 50, equals))
    middle = np.median(logs, axis=-1, keepdims=True)
    scale = 1.4826 * np.median(np.abs(logs - middle), axis=-1, keepdims=True)
    z, worse = (middle - logs) / scale, 1 - np.exp(logs - middle)
    found = (worse >= nodes.FLOOR) & ((z >= limit) | ((worse >= nodes.GROSS) & (z >= nodes.GROSS_Z)))
    share = found.any(axis=(1, 2)).mean()
    tell(
        capsys,
        record_property,
        f"sessions with a false outlier, {equals} nodes: {share:.1%} ± {math.sqrt(share / 2000):.1%}",
    )
    assert share <= 0.05 + 3 * math.sqrt(0.05 / 2000)


def test_a_hostile_name_reaches_no_command_line(tmp_path, capsys):
    cases = machine(np.random.default_rng(1), 8, spread=0.005, bad=7, worse=0.5)
    for case in cases:
        if case["run"]["node"] == "node07":
            case["run"]["node"] = "x; rm -rf \x1b[1m/"
    folder = str(write(tmp_path / "r", cases))
    assert cli.main(["nodes", folder, "--list"]) == 1
    said = capsys.readouterr()
    assert said.out == "" and "no name for a scheduler" in said.err and "\x1b" not in said.err
    assert cli.main(["nodes", folder]) == 1
    assert "\x1b" not in capsys.readouterr().out


# --- comparing ---


@pytest.fixture
def systems(tmp_path):
    """old; new, 1.5 times as fast; odd, 0.8 times as fast, which lacks one workload."""
    chance = np.random.default_rng(2)
    folders = []
    for name, speed, workloads in (("old", 1, METRICS), ("new", 1.5, METRICS), ("odd", 0.8, METRICS[1:])):
        cases = machine(chance, 1, spread=0, jobs=8, workloads=workloads)
        for case in cases:
            case["metrics"][0]["median"] /= speed
            case["metrics"][0] |= {"share": 0.5 * speed, "limit": {"value": 1.0, "unit": "s", "source": "link"}}
            case["run"]["system"] = name
        folders.append(str(write(tmp_path / name, cases)))
    return folders


def test_ratios_have_intervals_that_hold_the_truth(systems):
    class Asked:
        paths, by, workload, metric, system, since, until, emulated, profiled = systems, *[None] * 6, False, False

    loaded = compare.load(Asked)
    rows = [compare.cells(loaded, key) for key in loaded[2].series]
    held = [row[1].low <= 1 / 1.5 <= row[1].high for row in rows]
    assert np.mean(held) >= 0.8 and all(row[0].ratio is None for row in rows)
    assert [system.name for system in loaded] == ["old", "new", "odd"]


def test_the_table_has_values_shares_ratios_and_what_is_missing(systems, capsys):
    assert cli.main(["compare", *systems]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].split() == ["series", "old", "new", "odd"]
    assert "(50%)" in said[1] and "(75%) ×0.66" in said[1]
    assert said[1].startswith("microbench/w0 pm tiny time") and said[1].endswith("-")


def test_by_a_field(systems, capsys):
    assert cli.main(["compare", *systems, "--by", "system"]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["series", "new", "odd", "old"]


@pytest.mark.parametrize(
    "arguments, why",
    [
        (["compare", "{0}"], "comparing needs two systems, but one folder was named"),
        (["compare", "{0}", "{0}"], "a folder is named twice"),
        (["compare", "{0}", "--by", "system"], "but system is old in all records"),
        (["compare", "{0}", "--by", "colour"], "--by colour is no field"),
        (["compare", "{0}", "/none"], "/none: no such file or folder"),
    ],
)
def test_what_cannot_be_compared(systems, capsys, arguments, why):
    assert cli.main([argument.format(*systems) for argument in arguments]) == 2
    said = capsys.readouterr().err
    assert why in said and said.count("\n") == 1


# --- scores ---


def weights(tmp_path, text, name="w.toml"):
    (tmp_path / name).write_text(text)
    return str(tmp_path / name)


def test_scores_are_weighted_geometric_means(systems, tmp_path, capsys):
    file = weights(tmp_path, '[metrics]\n"microbench/w1 time" = 3\n"microbench/w2 time mode=pm size=tiny" = 1\n')
    assert cli.main(["score", *systems, "--weights", file, "--reference", "old"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split()[1]: line.split() for line in lines[1:4]}
    assert [row[0] for row in rows.values()] == ["1", "2", "3"] and list(rows) == ["new", "old", "odd"]
    for name, truth in (("new", 1.5), ("odd", 0.8)):
        low, high = (float(word.strip("[],")) for word in rows[name][3:5])
        assert float(rows[name][2]) == pytest.approx(truth, rel=0.02) and low <= float(rows[name][2]) <= high
        assert rows[name][5:] == ["100%,", "100%"]
    assert rows["old"][2] == "1.000"
    assert any(line.split()[0] == "75.0%" for line in lines)


def test_a_wildcard_divides_its_weight_and_what_one_lacks_counts_for_none(systems, tmp_path, capsys):
    file = weights(tmp_path, json.dumps({"metrics": {"microbench/w* time": 1}}), "w.json")
    assert cli.main(["score", *systems, "--weights", file, "--reference", "old"]) == 3
    said = capsys.readouterr().out
    assert "does not count: microbench/w0 pm tiny time: missing in odd" in said
    assert "over 19 series" in said and said.count(" 5.3% ") == 19


def test_uncertain_ranks_are_said(tmp_path):
    chance = np.random.default_rng(3)
    loaded = []
    for name in ("a", "b"):
        folder = write(tmp_path / name, machine(chance, 1, spread=0.0, jobs=6, workloads=METRICS[:2]))
        with store.open_store([folder]) as opened:
            loaded.append(compare._load(opened, "'A'", name))
    counted, _ = score.terms({"microbench/* time": 1}, loaded)
    first, second = score.scores(loaded, counted, "a")
    assert sum(first.ranks_jobs) == pytest.approx(1) and first.ranks_jobs[0] < 1
    again = score.scores(loaded, counted, "a")
    assert [first, second] == again


@pytest.mark.parametrize(
    "text, why",
    [
        ('[metrics]\n"microbench/w1 speed" = 1', "names no metric that any of the systems has measured"),
        ('[metrics]\n"nothing/at/all time" = 1', "names no metric that any"),
        ('[metrics]\n"microbench/w1" = 1', "names no metric; write"),
        ('[metrics]\n"microbench/w1 time" = 0', "is above zero"),
        ('[metrics]\n"microbench/w1 time" = nan', "is above zero"),
        ('[metrics]\n"microbench/w1 time" = 1\n"microbench/* time" = 1', "is named by two patterns"),
        ("[metrics]\n", "no weight is above zero"),
        ("metrics = 1", "no weights"),
        ("[[[", "no weights"),
        ('[metrics]\n"microbench/w0 time" = 1', "nothing counts: microbench/w0 pm tiny time: missing in odd"),
    ],
)
def test_bad_weights_are_one_sentence(systems, tmp_path, capsys, text, why):
    file = weights(tmp_path, text)
    assert cli.main(["score", *systems, "--weights", file, "--reference", "old"]) == 2
    said = capsys.readouterr().err
    assert why in said and said.count("\n") == 1


def test_an_unknown_reference_is_named(systems, tmp_path, capsys):
    file = weights(tmp_path, '[metrics]\n"microbench/w1 time" = 1')
    assert cli.main(["score", *systems, "--weights", file, "--reference", "x"]) == 2
    assert "no system is called 'x'; there are old, new, odd" in capsys.readouterr().err
    assert cli.main(["score", *systems, "--weights", "/none", "--reference", "old"]) == 2


@pytest.mark.parametrize("spoilt", [{"warnings": [{"code": "foreign_processes", "message": "x", "samples": None}]}, {}])
def test_figures_beside_foreign_processes_are_in_no_ratio_and_no_score(tmp_path, capsys, spoilt):
    chance = np.random.default_rng(3)
    a = write(tmp_path / "a", machine(chance, 2, jobs=8, workloads=METRICS[:2]))
    b = machine(chance, 2, jobs=8, workloads=METRICS[:1]) + machine(chance, 2, jobs=8, workloads=METRICS[1:2], **spoilt)
    weights = tmp_path / "weights.toml"
    weights.write_text("".join(["[metrics]\n", *(f'"{name} time" = 1\n' for name in METRICS[:2])]))
    b = write(tmp_path / "b", b)
    cli.main(["compare", str(a), str(b)])
    compared = capsys.readouterr()
    cli.main(["score", str(a), str(b), "--reference", "a", "--weights", str(weights)])
    scored = capsys.readouterr().out
    assert ("only in a: 1 series" in compared.out) == bool(spoilt)
    assert ("16 records are spoilt" in compared.err) == bool(spoilt)
    assert ("microbench/w1 pm tiny time: missing in b" in scored) == bool(spoilt)
