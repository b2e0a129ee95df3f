"""Tests of a session's folders.

Only one session may use them at a time, nothing in them is lost, and a session that cannot write its output is red.
"""

import fcntl
import json
import os
import signal
import subprocess
import threading
import time
import types

import pytest
from reframe.core.exceptions import ReframeError

import isthmus_reframe.check  # noqa: F401, must be imported before the modules that it uses
from conftest import FAKE, ONE_CHECK, ROOT, environment
from isthmus.records import load
from isthmus_reframe.gates import session_files

CHECKS = "transfer_modes.py"


def wait_for(condition, seconds=120):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return found


@pytest.fixture
def begin(tmp_path, reframe):
    """Returns begin(fake), which starts a session in the folder of session() and with its check."""
    processes = []

    def run(fake):
        command = [reframe, "-c", ROOT / "reframe/checks" / CHECKS, "--nocolor", "-n", ONE_CHECK, "-r"]
        processes.append(subprocess.Popen(
            command, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=environment(ISTHMUS_BENCH=FAKE, FAKE_BENCH=fake, TMPDIR=tmp_path), start_new_session=True,
        ))  # fmt: skip
        return processes[-1]

    yield run
    for process in processes:
        process.kill()
        process.wait()


def records(tmp_path):
    return list((tmp_path / "stage").rglob("record.jsonl"))


def test_records_below_many_folders_are_kept(tmp_path):
    """Nests 1,100 folders next to a record, as a program might. The record must still be found and kept."""
    (tmp_path / "check").mkdir()
    (tmp_path / "check/record.jsonl").write_text("{}\n")
    folders = [str(tmp_path / "check")]
    for _ in range(1100):
        folders.append(f"{folders[-1]}/a")
        os.mkdir(folders[-1])
    found = []
    printer = types.SimpleNamespace(info=found.append)
    try:
        session_files.keep_leftovers(tmp_path, lambda path: found.append(path) or 1, printer)
    finally:
        for folder in reversed(folders[1:]):
            os.rmdir(folder)
    assert found == [tmp_path / "check/record.jsonl", f"Kept 1 record that an earlier session left in {tmp_path}"]


def kept(tmp_path):
    return [case for path in (tmp_path / "results").glob("*.jsonl") for case in load.read(path)]


# --- leftovers of a session that was killed ---


def test_records_of_a_killed_session_are_kept_before_their_folder_is_emptied(session, begin, tmp_path):
    """Kills a session when its record is complete."""
    process = begin("stays:1")
    [record] = wait_for(lambda: records(tmp_path))
    os.kill(process.pid, signal.SIGKILL)
    first = json.loads(wait_for(record.read_text).splitlines()[0])
    outcome = session()
    assert outcome.green
    assert "Kept 1 record that an earlier session left in" in outcome.output
    found = kept(tmp_path)
    assert len(found) == 2 and first["run"]["id"] in {case["run"]["id"] for case in found}
    # A record is stored only once, even if it stays in the stage folder.
    outcome = session("-r", "--keep-stage-files", fake="wrong_result")
    assert len(kept(tmp_path)) == 3
    outcome = session(ISTHMUS_RESULTS=tmp_path / "others")
    assert outcome.green and "Kept" not in outcome.output and len(list((tmp_path / "others").glob("*.jsonl"))) == 1


def test_a_job_that_goes_on_where_its_session_was_killed_is_waited_for(tmp_path, capsys):
    folder = tmp_path / "stage"
    folder.mkdir()
    printer = types.SimpleNamespace(info=print)
    for limit, ends in (("60", True), ("1", False)):
        process = subprocess.Popen(["sleep", "2" if ends else "60"], cwd=folder)
        (folder / session_files.JOB).write_text(f"local {process.pid} {limit}\n")
        reaper = threading.Thread(target=process.wait)  # otherwise the process, a child of this one, becomes a zombie
        reaper.start()
        if ends:
            session_files.wait_for_leftover_jobs([folder], printer)
            assert process.returncode == 0 and not (folder / session_files.JOB).exists()
        else:
            with pytest.raises(ReframeError, match=f"process {process.pid} of an earlier session is still in"):
                session_files.wait_for_leftover_jobs([folder], printer)
            process.kill()
        reaper.join()
    assert "of an earlier session, which is still in" in capsys.readouterr().out
    # The process id of the job may have been reused, here by this process, which does not run in the folder.
    (folder / session_files.JOB).write_text(f"local {os.getpid()} 0\n")
    session_files.wait_for_leftover_jobs([folder], printer)


@pytest.mark.parametrize(
    "squeue", ["echo 'Unable to contact slurm controller' >&2; exit 1", None], ids=["fails", "gone"]
)
def test_a_job_that_nobody_can_be_asked_for_is_not_one_that_has_ended(tmp_path, monkeypatch, capsys, squeue):
    if squeue:
        (tmp_path / "squeue").write_text(f"#!/bin/bash\n{squeue}\n")
        (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin" if squeue else str(tmp_path))
    monkeypatch.setattr(session_files.jobs.time, "sleep", lambda _: None)
    note, printer = tmp_path / session_files.JOB, types.SimpleNamespace(info=print)
    note.write_text("slurm 4711 600\n")
    with pytest.raises(
        ReframeError, match=r"whether job 4711 of an earlier session still writes into .* \(squeue failed: "
    ):
        session_files.wait_for_leftover_jobs([tmp_path], printer)
    assert note.exists() and "Waiting for job 4711" in capsys.readouterr().out


def test_a_note_of_a_job_that_was_cut_is_not_one_of_none(tmp_path):
    (tmp_path / session_files.JOB).touch()
    with pytest.raises(
        ReframeError, match="it was cut short, so it is not known which job of an earlier session works there"
    ):
        session_files.wait_for_leftover_jobs([tmp_path], None)


# --- one session at a time ---


def test_a_second_session_in_one_folder_is_refused_and_names_the_first(session, begin, tmp_path):
    process = begin("stays:60")
    wait_for(lambda: records(tmp_path))
    outcome = session()
    assert outcome.returncode == 1 and not outcome.ran
    assert f"another session (process {process.pid} on " in outcome.output and "works in" in outcome.output
    # A session in another folder is allowed, and so is a session that only lists.
    assert session("-r", f"--prefix={tmp_path}/elsewhere").green
    assert session("-l").returncode == 0


def test_a_folder_of_a_session_that_has_ended_is_free(session, tmp_path):
    (tmp_path / "stage").mkdir()
    (tmp_path / "stage/.isthmus-session").write_text(f"{os.getpid()} nowhere 2026-01-01T00:00:00\n")
    assert session().green


def test_two_summaries_in_one_folder_do_not_overwrite_each_other(tree, wrapper):
    folder = tree / "night"
    assert wrapper("-n", "saxpy%mode=pm%", "--summary", folder, FAKE_BENCH="wrong_result").returncode == 1
    red = json.loads((folder / "night.json").read_text())
    assert red["verdict"] == "red"
    assert wrapper("-n", "saxpy%mode=pm%", "--summary", folder).returncode == 0
    [earlier] = folder.glob("earlier/*/night.json")
    assert json.loads(earlier.read_text()) == red
    assert json.loads((folder / "night.json").read_text())["verdict"] == "green"
    with (folder / ".session").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        result = wrapper("-n", "saxpy%mode=pm%", "--summary", folder)
    assert result.returncode == 1 and "writes its summary into" in result.stdout and "Ran" not in result.stdout
    assert json.loads((folder / "night.json").read_text())["verdict"] == "green"


# --- output that cannot be written ---

PERFLOG = """
site_configuration["logging"] = [{{
    "handlers": [{{"type": "stream", "name": "stdout", "level": "info", "format": "%(message)s"}}],
    "handlers_perflog": [{{"type": "filelog", "prefix": "%(check_system)s", "level": "info", "basedir": {basedir!r},
                          "format": "%(check_result)s|%(check_perfvalues)s",
                          "format_perfvars": "%(check_perf_value)s|"}}],
}}]
"""


def with_perflogs(session, tmp_path, basedir, *options, **settings):
    session("-l", site={})  # writes the site configuration
    file = tmp_path / "site/with_logs.py"
    file.write_text((tmp_path / "site/reframe.py").read_text() + PERFLOG.format(basedir=str(basedir)))
    return session("-C", str(file), "-r", *options, **settings)


def test_a_performance_log_that_cannot_be_written_is_red_before_anything_is_measured(session, tmp_path):
    (tmp_path / "file").touch()
    outcome = with_perflogs(session, tmp_path, tmp_path / "file/perflogs")
    assert outcome.returncode == 1 and not outcome.ran
    assert "file/perflogs cannot be written (Not a directory), so the results would be lost" in outcome.output


def test_a_line_of_the_performance_log_that_is_lost_meanwhile_is_red(session, tmp_path):
    outcome = with_perflogs(session, tmp_path, tmp_path / "perflogs")
    assert outcome.green and len(list((tmp_path / "perflogs/s").iterdir())) == 1
    # The log's folder exists, but a folder has the name of the log file.
    [log] = (tmp_path / "perflogs/s").iterdir()
    log.unlink()
    log.mkdir()
    outcome = with_perflogs(session, tmp_path, tmp_path / "perflogs")
    assert outcome.returncode == 1
    assert "in the performance log was lost (Is a directory): make its folder writable" in outcome.output
    assert len(kept(tmp_path)) == 2


@pytest.mark.parametrize("option", ["--report-file", "--report-junit"])
def test_a_report_that_cannot_be_written_is_red(session, tmp_path, option):
    (tmp_path / "folder").mkdir()
    outcome = session("-r", f"{option}={tmp_path}/folder")
    assert outcome.returncode == 1 and len(kept(tmp_path)) == 1
    assert "report was lost (Is a directory): make its folder writable, and run again" in outcome.output


def test_a_report_that_another_session_wrote_meanwhile_is_not_overwritten(session, tmp_path):
    report = tmp_path / "report.json"
    report.write_text("of an earlier night\n")
    os.utime(report, (1, 1))
    # The prepared command simulates the other session, which ends while this one measures.
    other = f"echo of the other session > {report}"
    session("-l", site={})
    file = tmp_path / "site/reframe.py"
    file.write_text(f"{file.read_text()}site_configuration['environments'][0]['prepare_cmds'] = [{other!r}]\n")
    assert session("-C", str(file), "-r", f"--report-file={report}").green
    [aside] = tmp_path.glob("report.*.json")
    assert aside.read_text() == "of the other session\n"
    assert json.loads(report.read_text())["runs"]


def test_a_user_without_a_name_has_a_number_in_the_log():
    assert session_files._naming_users(lambda: None)() == str(os.getuid())
    assert session_files._naming_users(lambda: "me")() == "me"


def test_a_stage_or_output_folder_that_cannot_be_made_is_red(session, tmp_path):
    (tmp_path / "file").touch()
    for option in ("--stage", "--output"):
        outcome = session("-r", f"{option}={tmp_path}/file/x")
        assert outcome.returncode == 1 and not outcome.ran
