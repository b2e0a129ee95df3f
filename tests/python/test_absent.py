"""Tests of nodes, GPUs and series that have records before --since but none after it."""

import datetime

import numpy as np
import pytest
from histories import record, write

from isthmus import cli

START = datetime.datetime(2026, 3, 1)


def fleet(folder, *, nodes=6, days=20, gpus=1, there=lambda node, gpu, day: True):
    """Writes records of one job per day on each node, with each GPU for which `there` returns true."""
    chance, cases = np.random.default_rng(5), []
    for day in range(days):
        for node in range(nodes):
            for gpu in range(gpus):
                if there(node, gpu, day):
                    value = 0.001 * (1 + 0.003 * chance.standard_normal())
                    where = {"node": f"n{node}", "gpu": f"GPU-{node}{gpu}", "job": f"{100 * day + node}"}
                    time = START + datetime.timedelta(days=day, minutes=node)
                    cases.append(record(value, **where, time=time))
    return str(write(folder, cases))


def test_a_node_that_vanished_before_since_is_named(tmp_path, capsys):
    folder = fleet(tmp_path, there=lambda node, gpu, day: node != 3 or day < 12)
    for since in ("2026-03-14", "2026-03-20"):
        assert cli.main(["nodes", folder, "--since", since, "--expect", "n3"]) == 1
        said = " ".join(capsys.readouterr().out.split())
        assert said.startswith("1 of 6 nodes are named: 1 vanished;")
        assert (
            "n3 is gone: last record 2026-03-12, before --since; leave it out with --without node=n3 if that is on "
            "purpose n3: vanished" in said
        )
    assert cli.main(["nodes", folder, "--since", "2026-03-14", "--drain"]) == 1
    assert capsys.readouterr().out.startswith("n3\tvanished: last record 2026-03-12")
    assert cli.main(["nodes", folder, "--since", "2026-03-14", "--without", "node=n3"]) == 0
    assert capsys.readouterr().out.startswith("0 of 5 nodes are named")


def test_a_node_that_came_later_did_not_vanish(tmp_path):
    folder = fleet(tmp_path, there=lambda node, gpu, day: node != 3 or day >= 12)
    assert cli.main(["nodes", folder, "--since", "2026-03-05", "--until", "2026-03-10"]) == 0


def test_a_node_with_a_single_record_before_since_is_named(tmp_path, capsys):
    folder = fleet(tmp_path, there=lambda node, gpu, day: node != 3 or day == 0)
    assert cli.main(["nodes", folder, "--since", "2026-03-20"]) == 1
    assert "n3 is gone: last record 2026-03-01" in capsys.readouterr().out


def test_a_node_that_was_absent_for_as_long_before_is_a_note(tmp_path, capsys):
    folder = fleet(tmp_path, there=lambda node, gpu, day: node != 3 or day in (0, 4, 9, 10, 16))
    assert cli.main(["nodes", folder, "--since", "2026-03-19"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "note: n3 has no record since --since (the last is of 2026-03-17); it was absent for as long" in said
    folder = fleet(tmp_path, days=30, there=lambda node, gpu, day: node != 3 or day in (0, 4, 9, 10, 16))
    assert cli.main(["nodes", folder, "--since", "2026-03-19"]) == 1


@pytest.mark.parametrize("replaced", [False, True])
def test_a_gpu_that_vanished_before_since_is_named(tmp_path, capsys, replaced):
    def there(node, gpu, day):
        return gpu < 2 or (replaced and node == 1 and day >= 12) if (node, gpu) != (1, 1) else day < 12

    folder = fleet(tmp_path, gpus=3 if replaced else 2, there=there)
    assert cli.main(["nodes", folder, "--since", "2026-03-14"]) == (0 if replaced else 1)
    said = " ".join(capsys.readouterr().out.split())
    assert ("n1 is without a GPU: last record 2026-03-12, before --since" in said) != replaced
    if not replaced:
        assert "(--without gpus=GPU-11 if that is on purpose), on GPU-11" in said
        # The node still lacks a GPU that equal nodes have.
        assert cli.main(["nodes", folder, "--since", "2026-03-14", "--without", "gpus=GPU-11"]) == 1
        assert "vanished" not in capsys.readouterr().out


def test_a_host_that_another_has_followed_under_its_name_did_not_vanish(tmp_path):
    cases = [
        record(0.001, node="vm" if node == 3 else f"n{node}", gpu=gpu, job=f"{day}-{node}", host__boot_id=f"of {gpu}",
               time=START + datetime.timedelta(days=day))
        for day in range(20) for node in range(6) for gpu in [f"GPU-{node}{day >= 12 and node == 3}"]
    ]  # fmt: skip
    for case in cases:
        case["devices"][0]["pci_bus"] = "0000:01:00.0"
    assert cli.main(["nodes", str(write(tmp_path, cases)), "--since", "2026-03-14"]) == 0


def test_drift_names_what_vanished_before_since(tmp_path, capsys):
    folder = fleet(tmp_path, there=lambda node, gpu, day: node != 3 or day < 12)
    assert cli.main(["drift", folder, "--since", "2026-03-14"]) == 1
    assert "gone for 8 days: all that it measured on n3, after 1103 of 2026-03-12" in capsys.readouterr().out
    assert cli.main(["drift", folder, "--since", "2026-03-14", "--without", "node=n3"]) == 0


def test_drift_names_a_series_that_vanished_before_since(tmp_path, capsys):
    cases = [
        record(0.001, job=f"{day}", time=START + datetime.timedelta(days=day), workload=workload)
        for day in range(30)
        for workload in ("microbench/saxpy", "microbench/gemv")
        if workload != "microbench/gemv" or day < 12
    ]
    folder = str(write(tmp_path, cases))
    assert cli.main(["drift", folder, "--since", "2026-03-14"]) == 1
    assert "gone for 18 days: microbench/gemv" in capsys.readouterr().out
    assert cli.main(["drift", folder, "--since", "2026-03-14", "--without", "workload=microbench/gemv"]) == 0
