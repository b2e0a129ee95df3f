"""Commands that the study adds: they follow the same rules as those of `isthmus`."""

import os
import subprocess
import sys

import fault_streams
import pytest
from histories import record, write

from isthmus import cli, exits


def test_the_command_lists_what_the_study_adds(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    assert "a figure of the notebooks" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        cli.main(["faults", "--help"])
    assert "what a batch costs the driver" in capsys.readouterr().out


def test_what_would_never_end_is_refused(tmp_path):
    pipe, zeros = tmp_path / "pipe.uvm", tmp_path / "zeros.uvm"
    os.mkfifo(pipe)
    zeros.symlink_to("/dev/zero")
    for path, why in ((pipe, "a FIFO, not a file"), (zeros, "a device, not a file")):
        words = [sys.executable, "-m", "isthmus", "faults", "model", path]
        result = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        assert result.returncode == exits.BAD_INPUT and why in result.stderr


def test_emulated_batches_cost_nothing(tmp_path, capsys):
    stream = fault_streams.Stream()
    stream.faults(fault_streams.dense(1 << 40, 1 << 24))
    trace = fault_streams.write(tmp_path / "a.7.uvm", stream.rows(), facts={"driver": "580.0 (emulated)"})
    assert cli.main(["faults", "model", str(trace)]) == exits.BAD_INPUT
    assert "emulated" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("where", "why"), [("axes.width=", "--where axes.width= lacks"), ("device=", "'device=' lacks its value")]
)
def test_no_figure_takes_an_empty_value(tmp_path, capsys, where, why):
    write(tmp_path, [record(1.0)])
    words = ["figure", "transfer-managed", str(tmp_path), "-o", str(tmp_path / "x.png"), "--where", where]
    assert cli.main(words) == exits.BAD_INPUT and why in capsys.readouterr().err


def test_a_full_disk_keeps_no_list_of_figures_green():
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([sys.executable, "-m", "isthmus", "figure", "--list"], stdout=full, check=False)
    assert done.returncode == exits.LOST_OUTPUT


def test_a_figure_replaces_no_record(tmp_path, capsys):
    write(tmp_path, [record(1.0)])
    path = tmp_path / "records.jsonl"
    before = path.read_bytes()
    words = ["figure", "transfer-managed", str(tmp_path), "--format", "svg", "-o", str(path)]
    assert cli.main(words) == exits.BAD_INPUT and path.read_bytes() == before
    assert "name another" in capsys.readouterr().err
