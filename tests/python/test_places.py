"""Tests that GPUs and boots distinguish hosts that share a node name."""

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
    """Returns a record of one GPU in a slot, or of the CPU only if `gpu` is None."""
    case = record(
        0.001, node=node, gpu=gpu or "", job=job or f"{gpu}-{boot}-{hour}", time=DAY + datetime.timedelta(hours=hour),
        host__boot_id=boot, **changes,
    )  # fmt: skip
    case["devices"] = [case["devices"][0] | {"pci_bus": slot}] if gpu else []
    return case


def nodes_of(folder, cases):
    """Returns the node of each case, in order, after checking that both readers name it alike."""
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
        [{"gpu": "GPU-a", "boot": "b0"}, {"gpu": "GPU-a", "boot": "b1"}],  # the host was restarted
        [{"gpu": "GPU-a", "slot": "1"}, {"gpu": "GPU-b", "slot": "2"}],  # the host has two GPUs
        [{"gpu": "GPU-a", "slot": "1", "boot": "b0"}, {"gpu": "GPU-b", "slot": "2", "boot": "b1"}],  # one GPU per boot
        [{"gpu": None, "boot": "b0"}, {"gpu": None, "boot": "b1"}],  # the host has no GPU
        [{"gpu": "GPU-a", "slot": "1", "boot": None}, {"gpu": "GPU-b", "slot": "2", "boot": None}],  # old records
        [  # one GPU was replaced, and another stayed
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
        measured(f"GPU-{driver}0000{i}", boot=f"{node}{i}", hour=24 * i, node=node, job=f"{node}{i}", driver=driver)
        for node, driver in (("vm", "570"), ("other", "580"))
        for i in range(2)
    ]  # fmt: skip
    folder = str(write(tmp_path, cases))
    assert cli.main(["regress", folder, "--from", "node=vm", "--to", "node=other"]) != 2, capsys.readouterr().err


def test_the_kept_records_are_of_many_hosts():
    """Checks that the committed records of H200 hosts, which were all named vm, are assigned to different hosts."""
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
    assert places.hosts(traces).of == {}


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
                    continue  # this node vanished, while the node of the same name in the other system continued
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


def test_containers_of_one_boot_are_one_host_called_by_its_first_name(tmp_path):
    cases = [measured(f"GPU-{i % 2}", slot=f"{i % 2}", node=f"pod{i}", hour=i, job=f"{i}") for i in (2, 0, 3, 1)]
    assert nodes_of(tmp_path / "r", cases) == ["pod0"] * 4
    cases = [measured(None, node=f"pod{i}", hour=i, job=f"{i}") for i in range(3)]
    assert nodes_of(tmp_path / "cpu", cases) == ["pod0"] * 3


def test_a_host_is_called_by_the_name_that_it_had_for_most_days(tmp_path):
    days = [("pod0", 0), ("n1", 1), ("n1", 4), ("pod1", 5)]
    cases = [measured(node=node, hour=24 * day, job=f"{day}") for node, day in days]
    assert nodes_of(tmp_path, cases) == ["n1"] * 4


def test_a_host_that_shares_one_of_its_names_is_called_by_another(tmp_path):
    names = [("vm", "a"), ("vm", "b"), ("n1", "a")]
    cases = [measured(f"GPU-{gpu * 8}", boot=gpu, node=n, hour=i, job=f"{i}") for i, (n, gpu) in enumerate(names)]
    assert nodes_of(tmp_path, cases) == ["n1", "vm#bbbbbbbb", "n1"]


def test_a_host_that_was_restarted_under_another_name_is_told_by_its_gpu(tmp_path):
    cases = [measured("GPU-a", boot=f"b{i}", node=f"pod{i}", hour=24 * i) for i in range(3)]
    assert nodes_of(tmp_path, cases) == ["pod0"] * 3


@pytest.mark.parametrize(
    "moved",
    [
        # Both nodes ran at the same time, before and after the exchange.
        [("n1", "a1", "GPU-x", 0), ("n2", "b1", "GPU-y", 1), ("n1", "a1", "GPU-x", 2), ("n2", "b2", "GPU-x", 5),
         ("n1", "a2", "GPU-z", 6), ("n2", "b2", "GPU-x", 7)],
        # The first node of GPU-x has had another GPU in that slot since then.
        [("n1", "a1", "GPU-x", 0), ("n1", "a2", "GPU-z", 2), ("n2", "b1", "GPU-x", 5)],
        # The GPU appears on both nodes in turns, without a restart.
        [("n1", "a1", "GPU-x", 0), ("n2", "b1", "GPU-x", 1), ("n1", "a1", "GPU-x", 2)],
        # The GPU appears on both nodes in the same second.
        [("n1", "a1", "GPU-x", 0), ("n2", "b1", "GPU-x", 0)],
        # The boots are unknown.
        [("n1", None, "GPU-x", 0), ("n2", None, "GPU-x", 1)],
        # The device has no UUID of a vendor's GPU, as with an emulated device.
        [("n1", "a1", "", 0), ("n2", "b1", "", 1)], [("n1", "a1", "emulator", 0), ("n2", "b1", "emulator", 1)],
    ],
    ids=["exchanged", "replaced", "in turns", "at once", "no boot", "no UUID", "emulated"],
)  # fmt: skip
def test_a_gpu_that_moved_joins_no_nodes(tmp_path, moved):
    cases = [
        measured(gpu, boot=boot, node=node, hour=hour, job=f"{i}") for i, (node, boot, gpu, hour) in enumerate(moved)
    ]
    for (*_, gpu, _), case in zip(moved, cases):
        case["devices"] = case["devices"] or [measured()["devices"][0] | {"uuid": gpu or None}]
    found = nodes_of(tmp_path, cases)
    assert [node.partition("#")[0] for node in found] == [node for node, *_ in moved]


@pytest.mark.parametrize("unlike", [{"gpu": "GPU-b"}, {"host__cpu": "another"}], ids=["slot", "CPU"])
def test_copies_of_a_running_machine_are_several_hosts(tmp_path, unlike):
    cases = [measured("GPU-a", node="n1", job="1"), measured(**{"gpu": "GPU-a", **unlike}, node="n2", job="2")]
    assert nodes_of(tmp_path, cases) == ["n1", "n2"]


def test_names_that_hosts_use_in_turn_do_not_join_them(tmp_path):
    """Uses two hosts without GPUs that run containers with two names in turn. Only the records of both names together
    show that the hosts overlap."""
    uses = [("pod0", "a", 0), ("pod1", "b", 1), ("pod1", "a", 3), ("pod0", "b", 5)]
    cases = [measured(None, boot=boot, node=node, hour=hour, job=f"{hour}") for node, boot, hour in uses]
    assert nodes_of(tmp_path, cases) == ["pod0", "pod1", "pod0", "pod1"]


def test_instances_of_one_gpu_are_of_one_host(tmp_path):
    cases = [measured(f"MIG-{i}", boot=f"b{i}", hour=24 * i, node="n1") for i in range(2)]
    assert nodes_of(tmp_path / "r", cases) == ["n1"] * 2
    cases = [measured(f"MIG-{i}", hour=i, node=f"pod{i}") for i in range(2)]
    assert nodes_of(tmp_path / "pods", cases) == ["pod0"] * 2


def pods(folder, *, slow=3):
    """Writes records of ten hosts that have a different node name in each job. One host is slow and ran more jobs."""
    chance, cases = np.random.default_rng(1), []
    for host in range(10):
        for job in range(12 if host == slow else 3):
            value = 0.001 * (1.14 if host == slow else 1) * (1 + 0.002 * chance.standard_normal())
            time = DAY + datetime.timedelta(days=job, minutes=host)
            where = {"node": f"pod-{host}-{job}", "gpu": f"GPU-{host}", "job": f"{100 * host + job}"}
            cases.append(record(value, **where, time=time, host__boot_id=f"b{host}"))
    return str(write(folder, cases))


def test_a_slow_host_is_found_under_all_its_names(tmp_path, capsys):
    folder = pods(tmp_path)
    assert cli.main(["nodes", folder]) == 1
    said = capsys.readouterr()
    assert said.out.startswith("1 of 10 nodes are named: 1 slow") and "pod-3-0 is slow: 1" in said.out
    assert (
        said.err.count("other names") == 1 and "pod-3-0 has 11 other names (pod-3-1, pod-3-2, pod-3-3, …)" in said.err
    )


def test_any_name_of_a_host_selects_it(tmp_path, capsys):
    folder = pods(tmp_path)
    assert cli.main(["nodes", folder, "--without", "node=pod-3-7", "--expect", "pod-2-2"]) == 0
    assert capsys.readouterr().out.startswith("0 of 9 nodes are named")
    # Undecided, because each side has only one node.
    assert cli.main(["regress", folder, "--from", "node=pod-2-2", "--to", "node=pod-3-7"]) == 3
    assert "3 jobs against 12" in capsys.readouterr().out
