"""Where records were measured: hosts that share a node name, told apart by GPU and boot."""

import datetime
import json
import pathlib

import numpy as np
import pytest
from histories import record, write

from isthmus import cli
from isthmus.records import places, reading, store

ROOT = pathlib.Path(__file__).resolve().parents[2]
DAY = datetime.datetime(2026, 1, 1)


def measured(gpu="GPU-00000000-a", *, boot="b0", hour=0, node="vm", slot="0000:00:06.0", job=None, **changes):
    """A record of one GPU in a slot; without a GPU of the CPU alone."""
    case = record(
        0.001, node=node, gpu=gpu or "", job=job or f"{gpu}-{boot}-{hour}", time=DAY + datetime.timedelta(hours=hour),
        host__boot_id=boot, **changes,
    )  # fmt: skip
    case["devices"] = [case["devices"][0] | {"pci_bus": slot}] if gpu else []
    return case


def nodes_of(folder, cases):
    """Nodes of the cases in their order, as both readers name them."""
    path = write(folder, cases) / "records.jsonl"
    read, _ = reading.read_files([path])
    with store.open_store([path], wanted={"node", "job"}) as opened:
        by_job = dict(opened.sql("SELECT job, node FROM measurements WHERE metric_index = 0").fetchall())
    found = [case["run"]["node"] for case in read]
    assert found == [by_job[case["run"].get("job") or case["run"]["id"]] for case in read]
    return found


def test_hosts_of_one_name_are_told_apart_by_their_gpus(tmp_path):
    cases = [measured(f"GPU-{i:08x}-rest", boot=f"b{i}", hour=24 * i) for i in range(4)]
    assert nodes_of(tmp_path, cases) == [f"vm#{i:08x}" for i in range(4)]


def test_names_are_as_long_as_tells_them_apart(tmp_path):
    cases = [measured(f"GPU-00000000-{i}000", boot=f"b{i}", hour=24 * i) for i in range(2)]
    assert nodes_of(tmp_path, cases) == ["vm#00000000-0", "vm#00000000-1"]


def test_a_record_of_the_cpu_belongs_to_the_host_of_its_boot_or_job(tmp_path):
    cases = [
        measured("GPU-aaaaaaaa", boot="b1"), measured(None, boot="b1", hour=1),
        measured("GPU-bbbbbbbb", boot=None, hour=24, job="7"), measured(None, boot=None, hour=24, job="7"),
        measured(None, boot=None, hour=48, job="8"),
    ]  # fmt: skip
    path = write(tmp_path, cases) / "records.jsonl"
    with store.open_store([path], wanted={"node", "job"}) as opened:
        rows = opened.sql("SELECT DISTINCT job, node FROM measurements ORDER BY ALL").fetchall()
        assert opened.names == {"vm#aaaaaaaa": "vm", "vm#bbbbbbbb": "vm", "vm": "vm"}
    assert sorted(node for _, node in rows) == ["vm", "vm#aaaaaaaa", "vm#aaaaaaaa", "vm#bbbbbbbb"]
    assert [case["run"]["node"] for case in reading.read_files([path])[0]] == [
        "vm#aaaaaaaa", "vm#aaaaaaaa", "vm#bbbbbbbb", "vm#bbbbbbbb", "vm",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "how",
    [
        [{"gpu": "GPU-a", "boot": "b0"}, {"gpu": "GPU-a", "boot": "b1"}],  # started anew
        [{"gpu": "GPU-a", "slot": "1"}, {"gpu": "GPU-b", "slot": "2"}],  # two GPUs
        [{"gpu": "GPU-a", "slot": "1", "boot": "b0"}, {"gpu": "GPU-b", "slot": "2", "boot": "b1"}],  # one in each boot
        [{"gpu": None, "boot": "b0"}, {"gpu": None, "boot": "b1"}],  # no GPU
        [{"gpu": "GPU-a", "slot": "1", "boot": None}, {"gpu": "GPU-b", "slot": "2", "boot": None}],  # old records
        [  # a GPU was replaced, another stayed
            {"gpu": "GPU-a", "slot": "1", "boot": "b0"}, {"gpu": "GPU-b", "slot": "2", "boot": "b0"},
            {"gpu": "GPU-c", "slot": "1", "boot": "b1"}, {"gpu": "GPU-b", "slot": "2", "boot": "b1"},
        ],
    ],
    ids=["boots", "GPUs", "a GPU a boot", "no GPU", "no boot", "replaced"],
)  # fmt: skip
def test_one_host_keeps_its_name(tmp_path, how):
    cases = [measured(hour=24 * i, job=str(i), node="n1", **each) for i, each in enumerate(how)]
    assert {*nodes_of(tmp_path, cases)} == {"n1"}


def test_boots_at_the_same_time_are_of_two_hosts(tmp_path):
    times = {"GPU-aaaaaaaa": (0, 2, 4), "GPU-bbbbbbbb": (1, 3)}
    cases = [
        measured(gpu, boot=f"of {gpu}", hour=hour, slot=gpu) for gpu, hours in times.items() for hour in hours
    ]  # fmt: skip
    assert {*nodes_of(tmp_path, cases)} == {"vm#aaaaaaaa", "vm#bbbbbbbb"}


def test_another_processor_is_another_host(tmp_path):
    cases = [measured("GPU-aaaaaaaa", boot="b0", slot="1")]
    cases.append(measured("GPU-bbbbbbbb", boot="b1", slot="2", hour=24, host__cpu="another"))
    assert {*nodes_of(tmp_path, cases)} == {"vm#aaaaaaaa", "vm#bbbbbbbb"}


def test_other_nodes_keep_their_names(tmp_path):
    cases = [measured(f"GPU-{i:08x}", boot=f"b{i}", hour=24 * i) for i in range(2)]
    cases.append(measured("GPU-cccccccc", node="n1", boot="b9"))
    assert nodes_of(tmp_path, cases) == ["vm#00000000", "vm#00000001", "n1"]


def test_a_name_selects_all_hosts_that_have_it(tmp_path, capsys):
    cases = [
        measured(f"GPU-{i:08x}", boot=f"b{i}", hour=24 * i, node=node, job=f"{node}{i}", driver=driver)
        for node, driver in (("vm", "570"), ("other", "580"))
        for i in range(2)
    ]  # fmt: skip
    folder = str(write(tmp_path, cases))
    assert cli.main(["regress", folder, "--from", "node=vm", "--to", "node=other"]) != 2, capsys.readouterr().err


def test_the_kept_records_are_of_many_hosts():
    """Of H200 hosts, one after the other, all named vm."""
    paths = sorted((ROOT / "papers/data/h200").glob("*.jsonl*"))
    with store.open_store(paths, wanted={"node", "gpus"}) as opened:
        rows = opened.sql("SELECT DISTINCT node, gpus FROM measurements WHERE gpus <> ''").fetchall()
    assert len(rows) == len({node for node, _ in rows}) == len({gpus for _, gpus in rows}) >= 22
    assert all(node == f"vm#{gpus[4:12]}" for node, gpus in rows)


def test_the_report_counts_hosts(tmp_path, capsys):
    cases = [measured(f"GPU-{i:08x}", boot=f"b{i}", hour=24 * i) for i in range(3)]
    assert cli.main(["report", str(write(tmp_path, cases)), "--format", "json"]) == 0
    assert [row["nodes"] for row in json.loads(capsys.readouterr().out)] == [3]


def test_many_boots_are_looked_through_quickly():
    chance = np.random.default_rng(1)
    traces = [
        places.Trace("n1", f"G{g}", f"G{g}@{g}", f"b{b}", None, "cpu", "s", DAY, DAY + datetime.timedelta(hours=int(t)))
        for b in range(300)
        for g, t in enumerate(chance.integers(1, 9, 8))
    ]  # fmt: skip
    assert places.hosts(traces) == {}


def test_hosts_that_follow_each_other_under_a_name_did_not_vanish(tmp_path, capsys):
    cases = [
        measured(f"GPU-{gpu:>08}", boot=f"{node}-{day}", hour=24 * day, node=node)
        for day in range(14)
        for node in ("n0", "n1", "n2", "n3", "n4")
        for gpu in [str(day) if node == "n0" and day > 4 else node]
    ]  # fmt: skip
    folder = str(write(tmp_path, cases))
    assert cli.main(["nodes", folder, "--drain", "--expect", "n0,n1"]) != 2
    assert "vanished" not in capsys.readouterr().out
    slow = [case for case in cases if case["run"]["node"] == "n0"][-1]
    slow["verify"] = slow["verify"] | {"status": "fail"}
    assert cli.main(["nodes", str(write(tmp_path, cases)), "--drain"]) == 1
    assert capsys.readouterr().out.startswith("n0\tfailing: ")


def test_nodes_of_one_name_on_two_systems_are_two(tmp_path, capsys):
    cases = []
    for system in ("alpha", "beta"):
        for day in range(20):
            for node in ("n1", "n2", "n3", "n4", "n5"):
                if (system, node) == ("alpha", "n3") and day >= 10:
                    continue  # it vanished, and the other system's went on
                case = measured("", boot=None, node=node, hour=24 * day, job=f"{system}-{node}-{day}")
                case["run"]["system"] = system
                cases.append(case)
    path = write(tmp_path / "r", cases) / "records.jsonl"
    wanted = {f"n{i}@{system}" for i in range(1, 6) for system in ("alpha", "beta")}
    assert {case["run"]["node"] for case in reading.read_files([path])[0]} == wanted
    with store.open_store([path], wanted={"node"}) as opened:
        assert {node for (node,) in opened.sql("SELECT DISTINCT node FROM measurements").fetchall()} == wanted
    assert cli.main(["nodes", str(tmp_path / "r")]) == 1
    said = capsys.readouterr().out
    assert said.startswith("1 of 10 nodes are named: 1 vanished") and "n3@alpha is gone" in said


def test_a_node_that_some_records_give_no_system_is_one(tmp_path):
    cases = [measured("", boot=None, hour=24 * day, job=f"j{day}") for day in range(4)]
    for day, case in enumerate(cases):
        case["run"]["system"] = "alpha" if day < 2 else None
    path = write(tmp_path, cases) / "records.jsonl"
    assert {case["run"]["node"] for case in reading.read_files([path])[0]} == {"vm"}
