"""Tests of what one side of `isthmus regress` lacks: a node, GPU, partition, workload or metric, or half its jobs."""

import datetime
import itertools

import numpy as np
import pytest
from histories import record, write

from isthmus import cli, exits
from isthmus.verdicts import missing

SIDES = ["--from", "driver=570", "--to", "driver=580"]


def suite(nodes=4, jobs=6, gpus=2, together=False):
    """Returns records of three workloads on each GPU of each node, in separate jobs as in ReFrame, or in one job."""
    chance, cases = np.random.default_rng(1), []
    for side, driver in enumerate(("570.1", "580.1")):
        for job, node, gpu, number in itertools.product(range(jobs), range(nodes), range(gpus), range(3)):
            name = f"{side}-{job}-{node}" + ("" if together else f"-{gpu}-{number}")
            time = datetime.datetime(2026, 1, 1 + side * jobs + job)
            where = {"node": f"n{node}", "gpu": f"G{node}{gpu}", "job": name, "time": time, "driver": driver}
            value = 1e-3 * float(np.exp(0.001 * chance.standard_normal()))
            partition = "old" if node == 3 else "new"
            case = record(value, **where, workload=f"microbench/w{number}", run__system="s", run__partition=partition)
            case["metrics"].append(case["metrics"][0] | {"name": "rate", "unit": "B/s", "better": "higher"})
            cases.append(case)
    return cases


def cut(cases, *, node="", gpu="", workload="", metric="", jobs=range(99), side="1"):
    """Returns the records without those that match all arguments. With `metric`, removes only that metric from them."""
    kept = []
    for case in cases:
        of_side, job = case["run"]["job"].split("-")[:2]
        applies = (
            of_side == side and int(job) in jobs and case["run"]["node"].endswith(node)
            and case["devices"][0]["uuid"].endswith(gpu) and case["workload"].endswith(workload)
        )  # fmt: skip
        if applies and metric:
            case = case | {"metrics": [each for each in case["metrics"] if each["name"] != metric]}
        if metric or not applies:
            kept.append(case)
    return kept


ABSENT = [
    ({"node": "n1"}, "no job of B ran on n1, where A did", "n1"),
    ({"node": "n3"}, "no job of B ran on partition s:old, where A did", "s:old"),
    ({"gpu": "G21"}, "no job of B ran on G21 of n2, where A did", "G21 of n2"),
    ({"node": "n1", "jobs": range(3)}, "half of the jobs or more are absent: B ran 18 jobs on n1, A 36", "n1"),
    ({"gpu": "G21", "jobs": range(3)}, "half of the jobs or more are absent: B ran 9 jobs on G21 of n2, A 18", "G21"),
    ({"node": "n1", "workload": "w1"}, "absent: 0 of 12 jobs of B on n1 have it", "n1"),
    ({"gpu": "G21", "workload": "w1"}, "absent: 0 of 6 jobs of B on G21 of n2 have it", "G21 of n2"),
    ({"node": "n1", "metric": "time"}, "absent: 0 of 12 jobs of B on n1 have it", "n1"),
    ({"gpu": "G21", "metric": "time"}, "absent: 0 of 6 jobs of B on G21 of n2 have it", "G21 of n2"),
    ({"gpu": "G21", "metric": "time", "workload": "w1"}, "absent: 0 of 6 jobs of B on G21 of n2 have it", "G21"),
    ({"workload": "w1"}, "only A has it", "only A has it"),
    ({"workload": "w1", "jobs": range(3)}, "absent: 24 of 48 jobs of B have it", "jobs of B have it"),
    ({"node": "n1", "workload": "w1", "jobs": range(3)}, "absent: 6 of 12 jobs of B on n1 have it", "n1 have it"),
]


CASES = [(*each, False) for each in ABSENT] + [(*ABSENT[i], True) for i in (0, 2, 3, 5, 7, 11, 12)]


@pytest.mark.parametrize(
    "of, said, where, together", CASES, ids=[f"{'-'.join(map(str, of.values()))}-{one}" for of, *_, one in CASES]
)
def test_what_is_absent_from_a_part_fails_and_is_named(tmp_path, capsys, of, said, where, together):
    folder = str(write(tmp_path / "r", cut(suite(together=together), **of)))
    assert cli.main(["regress", folder, *SIDES, "--delta", "5%", "--all"]) == exits.UNDECIDED
    assert (where if together else said) in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "of",
    [
        {"side": "none"},
        {"side": "0", "node": "n1"},  # the node is new in B
        {"side": "0", "gpu": "G21"},
        {"side": "0", "node": "n1", "workload": "w1"},
        {"jobs": [5]},  # B has fewer jobs
        {"jobs": [1, 2, 3, 4, 5], "side": "0"},  # A has fewer jobs
    ],
    ids=lambda of: "-".join(map(str, of.values())),
)
def test_what_is_new_or_was_never_there_is_no_loss(tmp_path, of):
    folder = str(write(tmp_path / "r", cut(suite(), **of)))
    out = tmp_path / "out.json"
    code = cli.main(["regress", folder, *SIDES, "--delta", "5%", "--json", str(out)])
    assert "absent" not in out.read_text() and "no job of B ran" not in out.read_text()
    assert code == exits.PASSED or (of.get("side") == "0" and of.get("jobs"))


@pytest.mark.parametrize(
    "of, without",
    [
        ({"node": "n1"}, "node=n1"),
        ({"gpu": "G21"}, "gpus=G21"),
        ({"workload": "w1"}, "workload=*w1"),
        ({"node": "n1", "metric": "time"}, "node=n1,metric=time"),
        ({"node": "n3"}, "partition=old"),
    ],
)
def test_what_is_gone_on_purpose_can_be_said(tmp_path, capsys, of, without):
    folder = str(write(tmp_path / "r", cut(suite(), **of)))
    asked = ["regress", folder, *SIDES, "--delta", "5%", "--without"]
    assert cli.main([*asked, without]) == exits.PASSED, capsys.readouterr().out
    for wrong, why in (
        ("node=n9", "no record has the node 'n9'"),
        ("nod=n1", "did you mean 'node'?"),
        ("node=", "none"),
    ):
        capsys.readouterr()
        assert cli.main([*asked, wrong]) == exits.BAD_INPUT
        said = capsys.readouterr().err
        assert why in said or "selects nothing" in said


def test_places_that_jobs_reach_by_chance_are_not_missed(tmp_path):
    """Runs jobs on random nodes of a fleet, so that neither side uses all nodes. At most 3 of 60 such comparisons may
    report a missing node."""
    false = 0
    for seed in range(60):
        chance = np.random.default_rng(seed)
        ran = {side: {} for side in "AB"}
        for side, count in (("A", 60), ("B", 20)):
            for job in range(count):
                ran[side].setdefault((f"n{chance.integers(30)}", ""), set()).add(f"{side}{job}")
        result = missing.Lacking()
        missing._gone_places(ran["A"], ran["B"], result)
        false += bool(result.sentences)
    assert false <= 3
