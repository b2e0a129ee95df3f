"""Tests of scripts/compare-builds: a slower build is found, an equal one passes, and a failed measurement does not."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/compare-builds"

# Program that measures `factor` with a scatter of 0.1%, which is drawn with the number of earlier runs as the seed.
PROGRAM = """#!{python} -SE
import json, pathlib, random, sys
runs = pathlib.Path(__file__).with_suffix(".runs")
seen = int(runs.read_text()) if runs.exists() else 0
runs.write_text(str(seen + 1))
{before}
record = {{"metrics": [{{"name": "kernel", "median": {factor} * random.Random(seen).gauss(1, 1e-3)}}]}}
record |= {{"skipped": None, "error": None, "emulated": False, "verify": {{"status": "pass"}}, "warnings": []}}
record.update({more})
if "two" in sys.argv:
    print(json.dumps(record), file=open(sys.argv[-1], "w"))
print(json.dumps(record), file=open(sys.argv[-1], "a"))
sys.exit({code})
"""


@pytest.fixture
def build(tmp_path):
    def write(name, factor=1.0, more="{}", code=0, before=""):
        path = tmp_path / name
        path.write_text(PROGRAM.format(python=sys.executable, factor=factor, more=more, code=code, before=before))
        path.chmod(0o755)
        return path

    return write


def compare(tmp_path, old, new, rows="1% kernel a/b --size medium\n", *options, pairs=6):
    (tmp_path / "rows").write_bytes(rows if isinstance(rows, bytes) else rows.encode())
    done = subprocess.run(
        [SCRIPT, old, new, tmp_path / "rows", "--pairs", str(pairs), *options], capture_output=True, text=True
    )
    assert "Traceback" not in done.stderr
    return done


def test_an_equal_build_holds(tmp_path, build):
    done = compare(
        tmp_path, build("old"), build("new"), "1% kernel a\n1% kernel b # said\n\n", "--json", tmp_path / "j"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((tmp_path / "j").read_text())
    assert [(row["verdict"], len(row["ratios"])) for row in rows] == [("holds", 6)] * 2
    assert rows[0]["interval"][1] <= rows[0]["interval"][0] <= rows[0]["interval"][2]


@pytest.mark.parametrize("factor", [0.98, 1.02])
def test_another_speed_is_seen(tmp_path, build, factor):
    done = compare(tmp_path, build("old"), build("new", factor))
    assert done.returncode == 1 and "kernel a/b --size medium  DIFFERS" in done.stdout
    assert compare(tmp_path, build("old"), build("new", factor), "3% kernel a\n").returncode == 0


def test_what_the_pairs_cannot_tell_is_undecided_and_more_of_them_may(tmp_path, build):
    programs = build("old"), build("new", "(1 + 0.02 * (seen % 2))")
    first = compare(tmp_path, *programs, "1% kernel a\n", "--json", tmp_path / "j")
    assert first.returncode == 3 and "kernel a  undecided" in first.stdout
    more = compare(tmp_path, *programs, "1% kernel a\n", "--add", tmp_path / "j", "--json", tmp_path / "k", pairs=2)
    rows = [json.loads((tmp_path / name).read_text())[0]["ratios"] for name in "jk"]
    assert more.returncode == 3 and len(rows[1]) == 8 and rows[1][:6] == rows[0]


def earlier(tmp_path, *rows, ratios=(1.0,) * 4):
    path = tmp_path / "earlier"
    path.write_text(
        json.dumps([{"metric": "kernel", "arguments": row.split(), "ratios": list(ratios)} for row in rows])
    )
    return path


def test_pairs_are_added_to_a_row_whose_options_stand_in_another_order(tmp_path, build):
    add = earlier(tmp_path, "a --placement pinned --size=medium")
    rows = "1% kernel a --size medium --placement pinned\n"
    done = compare(tmp_path, build("old"), build("new"), rows, "--add", add, pairs=2)
    assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr


@pytest.mark.parametrize("row", ["b", "a --size small", "a --set y=1 --set x=2", "--fast a"])
def test_pairs_of_none_of_the_rows_are_refused(tmp_path, build, row):
    old = build("old")
    done = compare(tmp_path, old, build("new"), "1% kernel a --set x=2 --set y=1\n", "--add", earlier(tmp_path, row))
    assert done.returncode == 2 and "has none of the requested rows" in done.stderr
    assert not old.with_suffix(".runs").exists()


def test_rows_in_one_of_the_files_only_are_named(tmp_path, build):
    done = compare(
        tmp_path, build("old"), build("new"), "1% kernel a\n1% kernel b\n", "--add", earlier(tmp_path, "a", "c")
    )
    assert "has no pairs of 'kernel b'" in done.stderr and "'kernel c' of" in done.stderr


@pytest.mark.parametrize("name", ["none/j", "."])
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_measured(tmp_path, build, name):
    old = build("old")
    done = compare(tmp_path, old, build("new"), "1% kernel a\n", "--json", tmp_path / name)
    assert done.returncode == 2 and "cannot be written" in done.stderr and len(done.stderr.splitlines()) == 1
    assert not old.with_suffix(".runs").exists()


NO_RATIO = '[{"metric": "kernel", "arguments": ["a"], "ratios": [0.0]}]'


@pytest.mark.parametrize("text", ["", "[1]", '[{"metric": "kernel"}]', NO_RATIO])
def test_pairs_to_add_that_are_none_are_one_sentence(tmp_path, build, text):
    (tmp_path / "j").write_text(text)
    done = compare(tmp_path, build("old"), build("new"), "1% kernel a\n", "--add", tmp_path / "j")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("broken", "rows", "why"),
    [
        ({"code": 1}, "1% kernel a\n", "ended with 1: no word"),
        ({"more": "{'skipped': 'no GPU'}"}, "1% kernel a\n", "skipped the case: no GPU"),
        ({}, "1% wall a\n", "no metric 'wall' there"),
        ({"more": "{'emulated': True}"}, "1% kernel a\n", "the record is emulated"),
        (
            {"more": "{'warnings': [{'code': 'xid_errors', 'message': 'Xid 31'}]}"},
            "1% kernel a\n",
            "invalid by xid_errors: Xid 31",
        ),
        ({"more": "{'verify': {'status': 'fail'}}"}, "1% kernel a\n", "made an invalid measurement: wrong result"),
        ({"more": "{'metrics': 1}"}, "1% kernel a\n", "wrote no record of this version"),
        ({}, "1% kernel two\n", "wrote 2 records: the arguments must select one case"),
        ({"factor": -1.0}, "1% kernel a\n", "which is not a positive number"),
        ({"more": "{'metrics': [{'name': 'kernel', 'median': 'x'}]}"}, "1% kernel a\n", "'x', which is not a positive"),
        ({"before": "sys.stderr.buffer.write(b'caf\\xe9'); sys.exit(1)"}, "1% kernel a\n", "ended with 1: caf\ufffd"),
        ({"before": "open(sys.argv[-1], 'wb').write(b'caf\\xe9'); sys.exit()"}, "1% kernel a\n", "no record of this"),
        ({"before": "open(sys.argv[-1], 'w').write('[' * 100000); sys.exit()"}, "1% kernel a\n", "no record of this"),
    ],
)
def test_what_could_not_be_measured_is_no_success(tmp_path, build, broken, rows, why):
    done = compare(tmp_path, build("old"), build("new", **broken), rows)
    assert done.returncode == 3 and why in done.stdout


def test_too_few_pairs_are_no_success(tmp_path, build):
    done = compare(tmp_path, build("old"), build("new"), "1% kernel a\n", pairs=5)
    assert done.returncode == 3 and "5 pairs: at least 6 are needed" in done.stdout


@pytest.mark.parametrize(
    "rows",
    [
        "",
        "kernel a\n",
        "1 kernel a\n",
        "x% kernel a\n",
        "1% kernel\n",
        "nan% kernel a\n",
        "100% kernel a\n",
        "1% kernel a\n2% kernel a\n",
        "1% kernel a --set 'x\n",
        b"1% kernel caf\xe9\n",
    ],
)
def test_wrong_rows_are_one_sentence(tmp_path, build, rows):
    done = compare(tmp_path, build("old"), build("new"), rows)
    assert done.returncode == 2 and done.stderr.startswith("compare-builds: ") and len(done.stderr.splitlines()) == 1


def test_a_run_that_hangs_is_ended_and_the_pairs_before_it_are_kept(tmp_path, build):
    new = build("new", before="if seen == 7: import time; time.sleep(100)")
    begin = time.monotonic()
    rows = "1% kernel a\n1% kernel b\n"
    done = compare(tmp_path, build("old"), new, rows, "--json", tmp_path / "j", "--limit", "2", pairs=8)
    assert done.returncode == 3 and time.monotonic() - begin < 60
    assert "does not answer within 2 s, so it was ended: fix it, or give its runs more time" in done.stdout
    assert [len(row["ratios"]) for row in json.loads((tmp_path / "j").read_text())] == [8, 3]


@pytest.mark.parametrize("limit", ["0", "-1", "nan", "inf"])
def test_a_limit_that_is_no_time_is_one_sentence(tmp_path, build, limit):
    done = compare(tmp_path, build("old"), build("new"), "1% kernel a\n", "--limit", limit)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_what_was_measured_and_leaves_no_program(tmp_path, build, number):
    new = build("new", before="if seen == 3: import time; runs.with_suffix('.hangs').touch(); time.sleep(100)")
    (tmp_path / "rows").write_text("1% kernel a\n")
    command = [SCRIPT, build("old"), new, tmp_path / "rows", "--json", tmp_path / "j"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while not (tmp_path / "new.hangs").exists() and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130 and len(err.splitlines()) == 1, err
    assert f"interrupted: the pairs so far are written to {tmp_path / 'j'}" in err
    assert "3 pairs: at least 6 are needed" in out
    assert len(json.loads((tmp_path / "j").read_text())[0]["ratios"]) == 3
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert str(new) not in running


def test_a_program_that_cannot_be_started_is_one_sentence(tmp_path, build):
    new = build("new")
    new.chmod(0o644)
    done = compare(tmp_path, build("old"), new)
    assert done.returncode == 2 and "is not executable" in done.stderr and len(done.stderr.splitlines()) == 1
    done = compare(tmp_path, build("old"), tmp_path / "none")
    assert done.returncode == 2 and "is not a file" in done.stderr and len(done.stderr.splitlines()) == 1
    new.write_text("no program")
    new.chmod(0o755)
    done = compare(tmp_path, build("old"), new, "1% kernel a\n")
    assert done.returncode == 3 and "does not start" in done.stdout


def test_names_that_are_no_utf_8_are_shown_and_written(tmp_path, build):
    name = os.fsdecode(b"caf\xe9")
    done = compare(tmp_path, build("old"), build(name, code=1), "1% kernel a\n", "--json", tmp_path / "j")
    assert done.returncode == 3 and "caf\\xdce9 ended with 1" in done.stdout
    assert json.loads((tmp_path / "j").read_text())[0]["verdict"] == "unmeasured"
    done = compare(tmp_path, build("old"), tmp_path / f"no-{name}")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1


def test_what_was_measured_is_written_though_nobody_reads_the_table(tmp_path, build):
    (tmp_path / "rows").write_text("1% kernel a\n")
    command = [SCRIPT, build("old"), build("new"), tmp_path / "rows", "--pairs", "2", "--json", tmp_path / "j"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 3 and "Traceback" not in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    assert len(json.loads((tmp_path / "j").read_text())[0]["ratios"]) == 2


def test_an_output_that_can_no_longer_be_written_is_no_success(tmp_path, build):
    new = build("new", before="runs.with_name('j').mkdir(exist_ok=True)")
    done = compare(tmp_path, build("old"), new, "1% kernel a\n", "--json", tmp_path / "j")
    assert done.returncode == 3 and len(done.stderr.splitlines()) == 1
    assert "could not write the results" in done.stderr and "6  kernel a" in done.stdout


def test_the_tree_s_own_rows_are_one_case_each():
    bench = os.environ.get("ISTHMUS_TEST_BENCH")
    if not bench:
        pytest.skip("needs the built program: set ISTHMUS_TEST_BENCH")
    rows = (SCRIPT.parent / "compare-builds.rows").read_text().splitlines()
    arguments = [row.split()[2:] for row in rows if not row.startswith("#")]
    assert len(arguments) == 40
    for row in arguments:
        done = subprocess.run([bench, "run", *row, "--dry-run"], capture_output=True, text=True)
        assert done.returncode == 0 and len(done.stdout.splitlines()) == 2, (row, done.stdout, done.stderr)
