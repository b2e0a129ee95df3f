"""Tests of job ids that a scheduler uses twice.

Time and boot distinguish jobs with the same id, and the records of one job must stay together.
"""

import datetime
import json

import pytest
from histories import record, write

from isthmus import cli
from isthmus.records import jobs, reading, store
from isthmus.statistics import series

DAY = datetime.datetime(2026, 6, 1, 10)


def measured(day, job="100", *, node="n1", boot="b0", value=0.001, **changes):
    time = DAY + datetime.timedelta(days=day)
    made = {"gpu": f"GPU-{node}", "time": time, "host__boot_id": boot, "run__system": "alpha"}
    case = record(value, node=node, job=job, **(made | changes))
    case["run"]["id"] = f"run-{job}-{day}-{node}"
    return case


def names(folder, cases):
    """Returns the job of each case, in order, after checking that both readers and a compacted table name it alike."""
    path = write(folder, cases)
    read, _ = reading.read_files([path])
    found = [jobs.id_of(case) for case in read]
    for compacted in (False, True):
        if compacted:
            assert cli.main(["compact", str(path), "--processes", "1"]) == 0
        with store.open_store([path], wanted={"job", "run_id"}) as opened:
            by_run = dict(opened.sql("SELECT run_id, job FROM measurements WHERE metric_index = 0").fetchall())
        assert found == [by_run[case["run"]["id"]] for case in read]
    return found


def case_of(day, node, boot, other=0):
    """Returns a record of one of two cases, which `other` selects."""
    case = measured(day, node=node, boot=boot, size=("tiny", "small")[other])
    case["run"]["id"] += str(other)
    return case


@pytest.mark.parametrize(
    "records, jobs_of",
    [
        ([(0, "n1", "b0"), (150, "n1", "b1")], "ab"),  # ids restarted months later, node rebooted
        ([(0, "n1", "b0"), (150, "n1", "b0")], "ab"),  # ids restarted months later, node not rebooted
        ([(0, "n1", None), (150, "n1", None)], "ab"),  # ids restarted months later, boots unknown
        ([(0, "n1", "b0"), (150, "n2", "b1")], "ab"),  # ids restarted months later, second job on another node
        ([(0, "n1", "b0"), (3, "n1", "b1")], "ab"),  # ids restarted: scheduler's database was reset during maintenance
        ([(0, "n1", "b0"), (8, "n1", "b0"), (16, "n1", "b0")], "abc"),
        ([(0, "n1", "b0"), (0.5, "n1", "b1", 1)], "aa"),  # requeued after its node failed
        ([(0, "n1", "b0", 1), (0, "n1", "b0"), (0.5, "n1", "b1")], "aab"),  # job finished, then ids restarted
        ([(0, "n1", "b0"), (3, "n1", "b0")], "aa"),  # one job that runs for days
        ([(0, "n1", None), (3, "n1", None)], "aa"),
        ([(0, "n1", "b0"), (0, "n2", "c0"), (0.1, "n1", "b0")], "aaa"),  # one job with steps on two nodes
        ([(0, "n1", "b0"), (0, "n2", "c0"), (3, "n1", "b1"), (3, "n2", "c0")], "aaaa"),  # requeued: a node failed
        ([(0, "n1", "b0"), (2, "n2", "c0")], "aa"),
        ([(day, "n1", "b0") for day in range(0, 30, 3)], "a" * 10),
    ],
)
def test_jobs_of_one_id_are_told_apart(tmp_path, records, jobs_of):
    found = names(tmp_path, [case_of(*each) for each in records])
    first = [next(day for (day, *_), name in zip(records, jobs_of) if name == own) for own in jobs_of]
    days = [f"alpha#100@{DAY + datetime.timedelta(days=day):%Y-%m-%dT%H:%M}" for day in first]
    assert found == (days if len(set(jobs_of)) > 1 else ["alpha#100"] * len(records))


def test_a_system_with_an_empty_name_is_alike_for_both_readers(tmp_path):
    assert names(tmp_path, [measured(0), measured(1, job="7", run__system="")]) == ["alpha#100", "#7"]


def twice(folder, slower=1.1):
    """Writes records of ten jobs in June, and of ten slower jobs with the same ids in November, in another boot."""
    june = [measured(day, str(100 + day), boot="b0", value=0.001 * (1 + day % 3 / 1000)) for day in range(10)]
    november = [
        measured(150 + day, str(100 + day), boot="b1", value=0.001 * slower * (1 + day % 3 / 1000))
        for day in range(10)
    ]  # fmt: skip
    return write(folder, [*june, *november])


def test_drift_sees_a_change_between_jobs_of_the_same_ids(tmp_path, capsys):
    folder = str(twice(tmp_path / "r"))
    assert cli.main(["drift", folder]) == 1
    assert "since alpha#100@2026-10-29T10:00" in capsys.readouterr().out.replace("\n  ", " ")
    assert cli.main(["noise", folder, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["jobs"] == 20


def test_a_baseline_means_its_jobs_and_no_later_ones_of_the_same_ids(tmp_path, capsys):
    folder = twice(tmp_path / "r")
    asked = ["regress", str(folder), "--baseline", "june"]
    lines = (folder / "records.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "records.jsonl").write_text("".join(lines[:10]), encoding="utf-8")
    assert cli.main(["regress", str(folder), "--save-baseline", "june"]) == 0  # at that time, each id had one job
    (folder / "records.jsonl").write_text("".join(lines), encoding="utf-8")
    capsys.readouterr()
    assert cli.main(asked) != 2
    assert "10 jobs against 10" in capsys.readouterr().out
    (folder / "records.jsonl").write_text("".join(lines[10:]), encoding="utf-8")
    assert cli.main(asked) == 2
    assert "no job of the baseline" in capsys.readouterr().err


def test_an_earlier_baseline_that_does_not_say_which_job_is_refused(tmp_path, capsys):
    folder = twice(tmp_path / "r")
    (folder / "baselines").mkdir()
    kept = {"made": "2027-01-01T00:00:00Z", "jobs": ["alpha#100", "alpha#101"]}
    (folder / "baselines/old.json").write_text(json.dumps(kept), encoding="utf-8")
    assert cli.main(["regress", str(folder), "--baseline", "old"]) == 2
    assert "is one of 2 that had this id" in capsys.readouterr().err
    (folder / "baselines/old.json").write_text(json.dumps(kept | {"made": "2026-07-01T00:00:00Z"}), encoding="utf-8")
    assert cli.main(["regress", str(folder), "--baseline", "old"]) != 2
    assert "2 jobs against 18" in capsys.readouterr().out


def test_an_id_names_all_jobs_that_had_it(tmp_path):
    with store.open_store([twice(tmp_path / "r")]) as opened:
        for text, count in (("job=alpha#100", 2), ("job=alpha#100@2026-06-01T10:00", 1), ("job=alpha#10", 0)):
            condition = series.condition(text)
            [[found]] = opened.sql(f"SELECT count(DISTINCT job) FROM measurements WHERE {condition}").fetchall()
            assert found == count, text
        numbers = opened.sql(f"SELECT DISTINCT {jobs.NUMBER} AS number FROM measurements ORDER BY 1").fetchall()
        assert [number for [number] in numbers] == [str(100 + i) for i in range(10)]
