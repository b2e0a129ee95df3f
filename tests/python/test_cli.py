"""Tests of the command `isthmus`: one entry point, and one sentence for each error."""

import argparse
import gzip
import importlib
import itertools
import json
import os
import pathlib
import re
import select
import shlex
import signal
import subprocess
import sys
import time

import histories
import pytest
from commands import run

import isthmus
from isthmus import Error, cli, exits, plugins
from isthmus.records import load

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "papers/data/h200/medium.jsonl"


def test_help_names_every_command():
    shown = run("--help")
    assert shown.returncode == 0
    assert all(name in shown.stdout for name in cli.COMMANDS)


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_each_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert ended.value.code == 0
    assert f"usage: isthmus {command}" in capsys.readouterr().out


def parts_of(command):
    """Returns the subcommands of a command, from its parser."""
    parser = cli.Parser()
    importlib.import_module(cli.COMMANDS[command][0]).add_arguments(parser)
    parts = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return [[command, part] for choices in parts for part in choices]


BELOW = [part for command in cli.COMMANDS for part in parts_of(command)]


@pytest.mark.parametrize("command", [[], *([name] for name in cli.COMMANDS), *BELOW], ids=" ".join)
def test_help_fits_the_terminal(command, monkeypatch, capsys):
    """Checks that sentences fill the terminal's width and that commands to be copied stay on one line."""
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        cli.main([*command, "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    assert sum("exit codes:" in line for line in lines) <= 1


def test_the_programs_help_fits_the_terminal():
    if (bench := os.environ.get("ISTHMUS_TEST_BENCH")) is None:
        pytest.skip("needs the built program: set ISTHMUS_TEST_BENCH")
    for part in ([], ["list"], ["info"], ["run"]):
        shown = subprocess.run([bench, *part, "--help"], capture_output=True, text=True, check=True).stdout
        assert [line for line in shown.splitlines() if len(line) > 80] == [], part


def test_sentences_are_filled_and_commands_are_not(monkeypatch):
    source = (
        f"{'This sentence is one of several in a row. ' * 2}This one was broken,\nwhere the source ends.\n"
        "This one begins a line.\n\n"
        f"name    {'what it is, ' * 8}and\n        why\nother   what that is\n"
        f"  isthmus table {'x' * 80}\n"
    )
    monkeypatch.setenv("COLUMNS", "62")
    _, _, said = cli.Parser(prog="x", description=source, add_help=False).format_help().partition("\n\n")
    assert said.splitlines() == [
        "This sentence is one of several in a row. This sentence is",
        "one of several in a row. This one was broken, where the",
        "source ends.",
        "This one begins a line.",
        "",
        "name    what it is, what it is, what it is, what it is, what",
        "        it is, what it is, what it is, what it is, and why",
        "other   what that is",
        f"  isthmus table {'x' * 80}",
    ]


def test_plug_ins_are_looked_for_only_where_they_may_be_meant(monkeypatch, capsys, tmp_path):
    """Checks when plug-ins are looked up, which takes a large part of a second if many packages are installed."""

    def look(group):
        raise Error(f"looked for {group}")

    monkeypatch.setattr(plugins, "_entries", look)
    assert cli.main(["table", str(tmp_path)]) == exits.BAD_INPUT and "looked for" not in capsys.readouterr().err
    for words in (["--help"], ["model"], []):
        assert cli.main(words) == exits.BAD_INPUT and "looked for isthmus.commands" in capsys.readouterr().err


BREAKS = {
    "no_name": "import no_such_name_anywhere",
    "raises": "raise RuntimeError('made for another driver\\nand more')",
    "exits": "raise SystemExit(1)",
    "syntax": "def (",
    "other": "PART = 7",
}


@pytest.fixture(params=BREAKS)
def broken(request, tmp_path, monkeypatch):
    """Installs a plug-in that cannot be loaded: a command, a subcommand, and a module for `isthmus regress`."""
    (tmp_path / "own_part.py").write_text(BREAKS[request.param])
    (tmp_path / "own_lazy.py").write_text(
        "from isthmus.plugins import Command\nPART = Command('own_part', 'breaks when it runs')\n"
    )
    about = tmp_path / "own_part-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: own-part\nVersion: 1\n")
    (about / "entry_points.txt").write_text(
        "[isthmus.commands]\nown = own_part:PART\nfaults own = own_part:PART\nlazy = own_lazy:PART\n"
        "faults lazy = own_lazy:PART\n[isthmus.changes]\nown = own_part\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    plugins._entries.cache_clear()
    yield request.param
    plugins._entries.cache_clear()
    for name in ("own_part", "own_lazy"):
        sys.modules.pop(name, None)


def test_a_plug_in_that_cannot_be_loaded_costs_itself_alone(broken, tmp_path, capsys):
    for words in (["--help"], ["faults", "--help"]):
        with pytest.raises(SystemExit) as end:
            cli.main(words)
        said = capsys.readouterr()
        assert not end.value.code and said.out.startswith("usage: ")
        assert said.err.count("own-part cannot be loaded (") == 1 and "; install it again, or remove it" in said.err
    assert cli.main(["regres"]) == exits.BAD_INPUT
    assert "did you mean regress?" in capsys.readouterr().err
    assert refused(["own"], capsys).startswith("isthmus: own-part cannot be loaded (")
    why = "no_such_name_anywhere is not installed" if broken == "no_name" else "own_part cannot be loaded ("
    assert cli.main(["lazy"]) == exits.BAD_INPUT
    said = capsys.readouterr().err
    assert why in said and "Traceback" not in said


def test_a_change_is_judged_without_a_plug_in_that_cannot_be_loaded(broken, tmp_path, capsys):
    histories.write(tmp_path / "r", histories.jobs_of(histories.History(nodes=2), 4, 4))
    sides = ["--from", "driver=570", "--to", "driver=580"]
    cli.main(["regress", str(tmp_path / "r"), *sides, "--json", str(tmp_path / "j")])
    said = capsys.readouterr()
    assert "own-part cannot be loaded (" in said.out + said.err
    assert "Traceback" not in said.err and json.loads((tmp_path / "j").read_text())["own"] is None


@pytest.mark.parametrize("error", [RuntimeError("odd"), RecursionError("deep"), MemoryError(), SystemExit(1)])
def test_what_nobody_foresaw_is_no_verdict(monkeypatch, capsys, error):
    def breaks(_):
        raise error

    monkeypatch.setattr("isthmus.tables.medians.run", breaks)
    assert cli.main(["table", str(EXAMPLE)]) == exits.FAULT
    said = capsys.readouterr().err
    assert said.splitlines()[-1].startswith("isthmus table: ")
    assert ("Traceback" in said) != isinstance(error, MemoryError)


def test_a_command_that_does_not_start_is_no_verdict(tmp_path):
    """Runs the command without one of its modules, as in a damaged installation."""
    script = "import sys; sys.modules['isthmus.cli'] = None; from isthmus import start; sys.exit(start.main())"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "analysis")}
    words = [sys.executable, "-c", script, "--help"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == exits.FAULT and "an internal error" in done.stderr


def test_version():
    assert run("--version").stdout == f"isthmus {isthmus.__version__}\n"


def refused(arguments, capsys, code=exits.BAD_INPUT):
    """Checks that a command line is refused with a single sentence, and returns the sentence."""
    assert cli.main([str(word) for word in arguments]) == code
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("isthmus") and said.err.count("\n") == 1, said
    return said.err


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ([], "isthmus: the following arguments are required: COMMAND (see `isthmus --help`)"),
        (["regres"], "isthmus: there is no 'regres'; did you mean regress? (see `isthmus --help`)"),
        (["xyz"], "isthmus: there is no 'xyz': choose from compact, regress, noise"),
        (["--bogus"], "isthmus: there is no option --bogus"),
        (["table"], "isthmus table: the following arguments are required: FILE"),
        (["regress", "--fron", "driver=570"], "there is no option --fron; did you mean --from?"),
        (["regress", "x", "--form", "driver=570"], "there is no option --form; did you mean --from?"),
        (["site", "probe", "x", "--wirte"], "did you mean --write? (see `isthmus site probe --help`)"),
        (["regress", "x", "--from"], "isthmus regress: argument --from: expected one argument"),
        (["regress", "x", "--delta", "3"], "'3' is not a share between 0 and 1; 3% is written 0.03 or 3%"),
        (["trial", "pln"], "isthmus trial: there is no 'pln'; did you mean plan?"),
        (["trial", "read", "x", "--dleta=3%"], "there is no option --dleta; did you mean --delta?"),
        (["trial", "plan", "--form=x"], "did you mean --from? (see `isthmus trial plan --help`)"),
        (["site", "probe", "--wirte", "x"], "did you mean --write? (see `isthmus site probe --help`)"),
        (["site", "check", "--qiet"], "did you mean --quiet? (see `isthmus site check --help`)"),
        (["references", "check", "--sit", "x"], "did you mean --site? (see `isthmus references check --help`)"),
        (["trial", "plan", "--node=x"], "there is no option --node; did you mean --nodes?"),
        (["--vers"], "isthmus: there is no option --vers; did you mean --version?"),
        (["compact", "x", "--processes", "0"], "'0' is not a number of 1 or more"),
        (["profile", "nsis", "x"], "there is no 'nsis'; did you mean nsys?"),
        (["\x1b[31m"], "there is no '\\x1b[31m'"),
    ],
)
def test_wrong_use_is_one_sentence_that_names_what_was_meant(arguments, sentence, capsys):
    assert sentence in refused(arguments, capsys)


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_a_misspelt_option_is_told_by_every_command(command, capsys):
    assert "there is no option --no-such-option" in refused([command, "--no-such-option"], capsys)


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_no_command_takes_an_abbreviated_option(command, capsys):
    """Abbreviates every option, which is refused because a new option could change an abbreviation's meaning."""
    parser = cli.Parser()
    importlib.import_module(cli.COMMANDS[command][0]).add_arguments(parser)
    options = parser._options()
    short = {option[:-1] for option in options if option.startswith("--")} - set(options)
    assert "--hel" in short
    for option in short:
        assert f"there is no option {option}" in refused([command, option], capsys)


def options_with_values():
    """Yields (words, action) for each option with a value, where `words` are the command and its subcommand."""

    def of(parser, words):
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for name, part in action.choices.items():
                    yield from of(part, [*words, name])
            elif action.option_strings and action.nargs != 0:
                yield words, action

    for command in cli.COMMANDS:
        parser = cli.Parser()
        importlib.import_module(cli.COMMANDS[command][0]).add_arguments(parser)
        yield from of(parser, [command])


def test_no_option_takes_a_second_value_instead_of_the_first(capsys):
    """Repeats every option, which is refused because a script that passes --delta twice contradicts itself."""
    values, seen = {"share": "0.5", "count": "1", "times": "1", "int": "1", "float": "1"}, set()
    for words, action in options_with_values():
        value = next(iter(action.choices)) if action.choices else values.get(getattr(action.type, "__name__", ""), "x")
        twice = [word for name in (action.option_strings[0], action.option_strings[-1]) for word in (name, value)]
        collects = isinstance(action, argparse._AppendAction)
        seen.add(collects)
        if not collects:
            why = f"{'/'.join(action.option_strings)}: takes one value, but was given several"
            assert why in refused([*words, *twice], capsys), words
    assert seen == {True, False}
    assert "takes one value" in refused(["regress", "--delta=1%", "--delta=30%", "x"], capsys)


@pytest.mark.parametrize("empty", ["", " "])
def test_no_option_takes_an_empty_value(capsys, empty):
    """Passes empty values, such as unset variables of a script. Otherwise, they would select all, nothing or the
    default."""
    for words, action in options_with_values():
        option = action.option_strings[-1]
        why = f"{'/'.join(action.option_strings)}: was given an empty value; write one, or leave the option out"
        assert why in refused([*words, option, empty], capsys), words
        if not empty and option.startswith("--"):
            assert why in refused([*words, f"{option}="], capsys), words
    assert "was given an empty value" in refused(["table", empty], capsys)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["regress", EXAMPLE, "--from", "driver=", "--to", "driver=580"], "'driver=' lacks its value"),
        (["regress", EXAMPLE, "--from", "", "--to", "driver=580"], "was given an empty value"),
        (["regress", EXAMPLE, "--from", "driver=570,", "--to", "driver=580"], "'' selects nothing"),
        (["noise", EXAMPLE, "--from", "driver=570,uvm.x="], "'uvm.x=' lacks its value"),
        (["nodes", EXAMPLE, "--without", "node="], "--without 'node=' selects nothing"),
        (["nodes", EXAMPLE, "--without", "node=n1,node=n2"], "names node twice"),
        (["nodes", EXAMPLE, "--expect", "n1,,n2"], "--expect 'n1,,n2' has an empty element"),
        (["advise", "staging", EXAMPLE, "--where", "device="], "--where 'device=' selects nothing"),
        (
            ["trial", "plan", "x", "--from", "driver=1", "--to", "driver=2", "--nodes", "n1,,n2", "--command", "x"],
            "has an empty element",
        ),
    ],
)
def test_no_selection_takes_an_empty_value(capsys, tmp_path, monkeypatch, command, why):
    monkeypatch.chdir(tmp_path)
    assert why in refused(command, capsys)


def test_options_may_be_given_again_where_that_means_something(capsys):
    assert "nosuch: no such file" in refused(["nodes", "--metric", "a", "--metric", "b", "nosuch"], capsys)
    assert cli.main(["site", "check", "--quiet", "--quiet", "--root", str(ROOT)]) == exits.PASSED


def test_a_text_that_is_not_utf_8_is_refused_by_every_option_but_those_of_paths(capsys):
    paths = set()
    for words, action in options_with_values():
        option = action.option_strings[-1]
        if cli._is_path(action):
            paths.add(option)
        elif not action.choices:
            said = refused([*words, option, "a\udcff"], capsys)
            assert f"{option}: a\\xdcff is not UTF-8, as all records are" in said, words
    assert paths == {"--bench", "--catalogue", "--instructions", "--json", "--junit", "--library", "--like", "--noise",
                     "--output", "--records", "--root", "--select", "--timeline", "--weights"}  # fmt: skip


@pytest.mark.parametrize("words", [["site", "check"], ["site", "probe"]], ids=" ".join)
def test_a_positional_text_that_is_not_utf_8_is_one_sentence(words, capsys):
    assert "\\xdcff" in refused([*words, "a\udcff"], capsys)


def test_paths_may_have_any_bytes(tmp_path, capsys):
    page = os.path.join(os.fsencode(tmp_path), b"t\xff.csv")
    assert cli.main(["table", str(EXAMPLE), "-o", os.fsdecode(page)]) == exits.PASSED
    assert os.path.exists(page)
    assert "a\\xdcff: no such file or folder" in refused(["nodes", "a\udcff"], capsys)
    assert "a\\xdcff: no such program" in refused(["faults", "run", "--", "a\udcff", "\udcff"], capsys)


def programs_with_options():
    command = ["git", "ls-files", "analysis", "papers", "reframe", "scripts"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.split():
        if (
            "notebooks/" not in name
            and (ROOT / name).suffix in ("", ".py")
            and "argparse.ArgumentParser(" in (ROOT / name).read_text(errors="replace")
        ):
            yield name


def test_no_other_program_takes_an_abbreviated_option():
    names = list(programs_with_options())
    assert "papers/exhibits" in names
    names.remove("reframe/isthmus_reframe/gates/options.py")  # reads ReFrame's options, which may be abbreviated
    for name in names:
        made = (ROOT / name).read_text().count("argparse.ArgumentParser(")
        assert (ROOT / name).read_text().count("allow_abbrev=False") == made, name
    refusal = subprocess.run([sys.executable, ROOT / "papers/exhibits", "--chec"], capture_output=True, text=True)
    assert refusal.returncode == 2 and "unrecognized arguments: --chec" in refusal.stderr


TAKE_RECORDS = [
    ["regress", "--from=driver=1", "--to=driver=2"], ["noise"], ["drift"], ["nodes"], ["compare"],
    ["score", "--reference=x", f"--weights={ROOT}/weights.toml"], ["report"], ["table"],
    ["advise", "interjob"], ["advise", "paging", "--check"], ["advise", "placement", "--check"], ["advise", "staging"],
    ["references", "update", "--site=example-slurm"],
]  # fmt: skip


@pytest.mark.parametrize("command", TAKE_RECORDS, ids=lambda words: "-".join(words[:2]))
@pytest.mark.parametrize(
    "name, contents", [("none", None), ("empty.jsonl", b""), ("text.jsonl", b"text\n"), ("binary.jsonl", b"\0\xff\n")]
)
def test_a_folder_without_a_record_is_one_sentence(command, name, contents, tmp_path, capsys):
    if contents is not None:
        (tmp_path / name).write_bytes(contents)
    weights = tmp_path / "weights.toml"
    weights.write_text('[metrics]\n"x y" = 1\n')
    words = [f"--weights={weights}" if word.startswith("--weights") else word for word in command]
    assert str(tmp_path) in refused([*words, tmp_path], capsys)


@pytest.mark.parametrize("command", [["faults", "report"], ["nightly"]])
def test_what_would_never_end_is_refused(tmp_path, command):
    pipe, zeros = tmp_path / "pipe.uvm", tmp_path / "zeros.uvm"
    os.mkfifo(pipe)
    zeros.symlink_to("/dev/zero")
    for path, why in ((pipe, "a FIFO, not a file"), (zeros, "a device, not a file")):
        words = [sys.executable, "-m", "isthmus", *command, path]
        result = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        assert result.returncode == exits.BAD_INPUT and why in result.stderr


def test_records_from_a_pipe_and_of_an_empty_file(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    assert "a FIFO, not a file; records are read from files and folders" in refused(
        ["table", tmp_path / "pipe"], capsys
    )
    for name in ("empty.jsonl", "other.jsonl"):
        (tmp_path / name).touch()
    for command in ("table", "noise"):
        for paths in (["empty.jsonl"], ["empty.jsonl", "other.jsonl"], [""]):
            assert "empty.jsonl: has no record, because" in refused([command, *(tmp_path / p for p in paths)], capsys)


@pytest.mark.parametrize("name, content", [
    ("b.jsonl", b""), ("b.jsonl.gz", gzip.compress(b"", mtime=0)), ("b.jsonl", b"\n\n"), ("b.jsonl.bz2", b"BZh9"),
])  # fmt: skip
@pytest.mark.parametrize("command", ["table", "noise", "report", "nodes", "compact"])
def test_a_file_without_a_record_is_named_and_nothing_passes(tmp_path, capsys, command, name, content):
    histories.write(tmp_path, histories.jobs_of(histories.History(), 1, 6), "a.jsonl")
    (tmp_path / name).write_bytes(content)
    more = {"report": ["-o", str(tmp_path / "x.html")]}.get(command, [])
    code = cli.main([command, str(tmp_path), *more])
    err = capsys.readouterr().err
    assert code == (exits.FOUND if command == "compact" else exits.UNDECIDED)
    assert f"{name}: " in err and "1 of 2 files skipped" in err
    assert "bz2" not in name or "compressed by bzip2, which is not read; decompress it" in err
    if command == "compact":  # a later command reads the table, and then the file again
        assert cli.main(["noise", str(tmp_path)]) == exits.UNDECIDED
        assert f"{name}: " in capsys.readouterr().err


def test_a_folder_without_a_record_among_others_is_named(tmp_path, capsys):
    histories.write(tmp_path, histories.jobs_of(histories.History(), 1, 6), "a.jsonl")
    (tmp_path / "none").mkdir()
    for command in ("table", "noise"):
        assert cli.main([command, str(tmp_path / "a.jsonl"), str(tmp_path / "none")]) == exits.UNDECIDED
        assert "none: a folder without any .jsonl or .jsonl.gz file" in capsys.readouterr().err


def test_compacting_no_record(tmp_path, capsys):
    assert str(tmp_path) in refused(["compact", tmp_path], capsys)
    (tmp_path / "empty.jsonl").touch()  # as left by a job that ended early
    assert cli.main(["compact", str(tmp_path)]) == 1
    assert "empty.jsonl: has no record" in capsys.readouterr().err
    (tmp_path / "text.jsonl").write_text("text\n")
    assert cli.main(["compact", str(tmp_path)]) == 1
    assert "text.jsonl" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["report", "-o", "{}/x"],
        ["compact", "-o", "{}/x"],
        ["regress", "--from=2026-01-01..2026-11-21T12:00", "--to=2026-11-21T12:00..", "--json", "{}/x"],
        ["noise", "-o", "{}/x"],
    ],
    ids=lambda words: words[0],
)
def test_output_that_cannot_be_written_is_one_sentence(arguments, tmp_path, capsys):
    (tmp_path / "file").touch()
    where = EXAMPLE.parent if arguments[0] in ("noise", "regress") else EXAMPLE
    if arguments[0] == "compact":
        (tmp_path / "records").mkdir()
        where = tmp_path / "records"
        (where / EXAMPLE.name).write_bytes(EXAMPLE.read_bytes())
    words = [word.format(tmp_path / "file") for word in arguments]
    assert cli.main([*words, str(where)]) == exits.BAD_INPUT
    said = capsys.readouterr().err
    assert said.splitlines()[-1] == f"isthmus {words[0]}: {tmp_path}/file/x: Not a directory"


@pytest.mark.parametrize(
    "command, name",
    [
        (["table", "--view", "levels"], "latency.jsonl.gz"),
        (["table", "--view", "accounting"], "accounting.jsonl.gz"),
        (["advise", "interjob"], "interjob.jsonl.gz"),
        (["advise", "placement", "--program", "in=1GiB", "flops=1e9"], "medium.jsonl"),
        (["advise", "staging"], "super.jsonl"),
    ],
    ids=lambda words: words[-1] if isinstance(words, str) else words[0],
)
def test_invalid_records_make_no_table_and_no_advice(command, name, tmp_path, capsys):
    cases = list(itertools.islice(load.iterate(EXAMPLE.with_name(name)), 40))
    for case in cases:
        case["warnings"] = [{"code": "foreign_processes", "message": "others", "samples": None}]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases))
    topic = command[:2] if command[0] == "advise" else command[:1]
    assert cli.main([*topic, str(tmp_path / "r.jsonl"), *command[len(topic) :]]) == exits.BAD_INPUT
    said = capsys.readouterr()
    assert said.out == "" and "invalid and left out; the warnings of each say why" in said.err


def test_tables_are_made_of_folders_too(tmp_path, capsys):
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / EXAMPLE.name).write_bytes(EXAMPLE.read_bytes())
    assert cli.main(["table", str(tmp_path)]) == 0
    assert "vector_seq" in capsys.readouterr().out
    (tmp_path / "wrong.jsonl").write_text("text\n")
    assert cli.main(["table", str(tmp_path)]) == exits.UNDECIDED
    said = capsys.readouterr()
    assert "vector_seq" in said.out and "wrong.jsonl: line 1: not JSON" in said.err


def test_a_file_that_is_not_there_is_one_sentence(tmp_path, capsys):
    assert "none.jsonl: no such file or folder" in refused(["table", tmp_path / "none.jsonl"], capsys)


def piped(command):
    """Runs `isthmus` followed by `command` in a shell. Returns the exit code and stderr."""
    line = f"set -o pipefail; {shlex.quote(sys.executable)} -m isthmus {command}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "analysis")}
    done = subprocess.run(["bash", "-c", line], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          env=environment, check=False)  # fmt: skip
    return done.returncode, done.stderr


def test_a_closed_pipe_is_silent_and_passes_no_gate():
    assert piped(f"table {EXAMPLE} | exec 0<&-") == (exits.CLOSED_PIPE, "")
    assert piped(f"table {EXAMPLE} | head -n 1")[1] == ""


OUTPUTS = [f"table {EXAMPLE}", f"report {EXAMPLE}",
           f"table {EXAMPLE} --format parquet", "--version", "--help", "table --help"]  # fmt: skip


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize("command", OUTPUTS)
@pytest.mark.parametrize("to", [">/dev/full", ">&-"])
def test_output_that_is_lost_passes_no_gate(command, to):
    """Checks that lost output results in exit code LOST_OUTPUT and one sentence, as with isthmus-bench."""
    code, said = piped(f"{command} {to}")
    assert code == exits.LOST_OUTPUT
    assert re.fullmatch(r"isthmus.*: standard output could not be written \(.*\); send it elsewhere\n", said), said


NEEDS_FULL = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
NO_NOTES = [pytest.param("2>/dev/full", marks=NEEDS_FULL), "2>&-", "<&- 2>&-", "2> >(exec 0<&-)"]


@pytest.mark.parametrize("to", NO_NOTES)
def test_a_note_that_is_lost_changes_neither_exit_code_nor_answer(to, tmp_path):
    """Makes stderr unusable. The exit code must not become 1, which would mean that something regressed, and notes must
    not be written to stdout."""
    (tmp_path / "a.jsonl").write_bytes(EXAMPLE.read_bytes())
    (tmp_path / "b.jsonl").write_text("text\n")
    folder, answer = shlex.quote(str(tmp_path)), tmp_path / "answer"
    command = f"table {folder} --format json >{shlex.quote(str(answer))}"
    code, said = piped(command)
    whole = answer.read_text()
    assert code == exits.UNDECIDED and "b.jsonl" in said and json.loads(whole)
    assert piped(f"{command} {to}") == (exits.UNDECIDED, "") and answer.read_text() == whole
    for refused_one in (
        "nodes nosuch",
        "regress nosuch --from a=1 --to a=2",
        "nightly nosuch",
        "table --bogus",
        "bogus",
    ):
        assert piped(f"{refused_one} {to}") == (exits.BAD_INPUT, ""), refused_one


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_reader_that_is_slow_gets_all(stream):
    """Writes to a non-blocking pipe, such as those of ssh and Node.js, which does not accept all output at once."""
    script = (
        "import sys; from isthmus import streams; streams.guard(); "
        f"print('x' * 3_000_000, file=sys.{stream}); sys.stdout.buffer.write(b'end')"
    )
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    other = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} | {stream: writer}
    with subprocess.Popen([sys.executable, "-c", script], **other) as program:
        os.close(writer)
        time.sleep(0.5)
        with open(reader, "rb") as file:
            said = file.read()
    assert program.returncode == 0 and said == b"x" * 3_000_000 + b"\n" + (b"end" if stream == "stdout" else b"")


def test_a_reader_that_leaves_is_not_waited_for():
    script = "from isthmus import streams; streams.guard(); print('x' * 3_000_000)"
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with subprocess.Popen([sys.executable, "-c", script], stdout=writer, stderr=subprocess.PIPE) as program:
        os.close(writer)
        os.read(reader, 10)
        os.close(reader)
        assert b"LostOutput" in program.communicate(timeout=60)[1]


@NEEDS_FULL
@pytest.mark.parametrize("to", [">/dev/full", ">&-"])
def test_bad_input_stays_bad_input_where_nothing_can_be_written(to, tmp_path):
    script = (
        "import isthmus.start as s, isthmus.cli as c, isthmus\ndef run(_): print('x'); raise isthmus.Error('why')\n"
    )
    script += "c._run = run; raise SystemExit(s.main())"
    line = f"{shlex.quote(sys.executable)} -c {shlex.quote(script)} {to}"
    assert piped(f"--version; {line} 2>/dev/full") == (exits.BAD_INPUT if "full" in to else exits.LOST_OUTPUT, "")


def test_a_folder_that_is_gone_is_not_the_outputs_fault(tmp_path):
    gone = shlex.quote(str(tmp_path / "gone"))
    gone = f"--version; mkdir {gone}; cd {gone}; rmdir {gone}; {shlex.quote(sys.executable)} -m isthmus"
    for command in ("site check", "references check --site x"):
        code, said = piped(f"{gone} {command}")
        assert code == exits.BAD_INPUT, command
        expected = (
            f"isthmus {command.split()[0]}: the current folder no longer exists; change to another one, and run the "
            "command again"
        )
        assert said.splitlines()[-1] == expected


def test_an_error_without_a_file_is_not_the_outputs_fault(monkeypatch, capsys):
    def fails(_):
        raise OSError(24, os.strerror(24))

    monkeypatch.setattr(cli, "_run", fails)
    assert refused(["table"], capsys) == "isthmus: Too many open files\n"


def test_a_closed_output_that_nothing_goes_to_is_no_fault(tmp_path):
    assert piped(f"table {EXAMPLE} -o {shlex.quote(str(tmp_path / 't.csv'))} >&-") == (exits.PASSED, "")
    assert (tmp_path / "t.csv").read_text().startswith("workload,")


def test_a_disk_that_is_full_for_compact_is_told_by_the_systems_word(tmp_path):
    (tmp_path / EXAMPLE.name).write_bytes(EXAMPLE.read_bytes())
    command = f"{shlex.quote(sys.executable)} -m isthmus compact {shlex.quote(str(tmp_path))}"
    code, said = piped(f"--version; ulimit -f 1; {command}")
    assert code == exits.BAD_INPUT
    assert said.endswith("(File too large); no record is lost: correct that, and run the command again\n"), said
    assert piped(f"compact {shlex.quote(str(tmp_path))}")[0] == exits.PASSED


def test_a_terminal_without_such_letters_gets_no_traceback():
    shown = run("table", EXAMPLE, PYTHONIOENCODING="ascii")
    assert shown.returncode == 0 and shown.stderr == ""
    assert "\\xb5s" in shown.stdout and "\\xb1" in shown.stdout


#: Python program that starts a command like the script `isthmus`, and writes to a pipe when Python has started and when
#: it ends.
STARTED = (
    "import atexit, os, sys, isthmus.start as s; told = int(sys.argv.pop(1)); s.listen(); "
    "atexit.register(os.write, told, b'.'); os.write(told, b'x'); sys.exit(s.main())"
)


def interrupted(words, delay, whole_group):
    """Sends SIGINT to a command, alone or with its workers, `delay` seconds after it began.

    Returns the exit code and stderr, or None if the command had ended before.
    """
    ready, begun = os.pipe()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "analysis")}
    command = [sys.executable, "-c", STARTED, str(begun), *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment,
                          pass_fds=[begun], start_new_session=True) as process:  # fmt: skip
        os.close(begun)
        assert os.read(ready, 1) == b"x"
        time.sleep(delay)
        if process.poll() is None:
            (os.killpg if whole_group else os.kill)(process.pid, signal.SIGINT)
        is_done = bool(select.select([ready], [], [], 0)[0])
        _, said = process.communicate(timeout=60)
        os.close(ready)
        if is_done and process.returncode != 130:
            assert (process.returncode, said) == (exits.PASSED, ""), said
            return None
        return process.returncode, said


@pytest.mark.parametrize("words", [["drift", ROOT / "papers/data"], ["report", EXAMPLE, "-o", "page.html"]],
                         ids=lambda words: words[0])  # fmt: skip
def test_an_interrupt_at_any_moment_is_one_sentence(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ends = [interrupted(words, 0.002 + i * 0.12, i % 2) for i in range(16)]
    ends = [end for end in ends if end]
    assert len(ends) > 6
    for code, said in ends:
        assert code == 130 and re.fullmatch(rf"isthmus( {words[0]})?: interrupted\n", said), said


def test_an_interrupt_in_pythons_own_end_leaves_the_commands_exit_code():
    script = (
        "import os, signal, isthmus.start as s; s.listen()\n"
        "class Last:\n"
        "    def __del__(self, kill=os.kill, pid=os.getpid(), number=signal.SIGINT): kill(pid, number)\n"
        "last = Last(); raise SystemExit(7)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "analysis")}
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, timeout=60)
    assert (ended.returncode, ended.stderr) == (7, "")


@NEEDS_FULL
def test_an_interrupt_that_cannot_be_told_has_its_exit_code():
    script = (
        "import os, signal, isthmus.start as s; s.listen(); os.kill(os.getpid(), signal.SIGINT); raise SystemExit(7)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "analysis")}
    with open("/dev/full", "w") as full:
        ended = subprocess.run([sys.executable, "-c", script], stderr=full, env=environment, timeout=60)
    assert ended.returncode == 130


def runs(pid):
    """Returns whether a process still runs after five seconds. A zombie that waits for its new parent does not run."""
    for _ in range(100):
        try:
            if pathlib.Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z":
                return False
        except OSError:
            return False
        time.sleep(0.05)
    return True


def test_an_interrupted_command_leaves_nothing_behind(tmp_path):
    """Interrupts a command that swallows exceptions. Temporary folders, half-written files and child processes must not
    remain."""
    script = (
        "import subprocess, tempfile, time, isthmus.start as start, isthmus.cli as cli\n"
        "def main():\n"
        f"    folder = tempfile.TemporaryDirectory(dir={str(tmp_path)!r})\n"
        f"    start.unfinished.add({str(tmp_path / 'half')!r})\n"
        f"    open({str(tmp_path / 'half')!r}, 'w').close()\n"
        "    child = subprocess.Popen(['sleep', '1000'])\n"
        "    while True:\n"
        "        try:\n"
        "            print(child.pid, flush=True), time.sleep(60)\n"
        "        except BaseException:\n"
        "            pass\n"
        "cli.main = main\nstart.main()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "analysis")}
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=environment) as process:  # fmt: skip
        child = int(process.stdout.readline())
        assert len(list(tmp_path.iterdir())) == 2
        process.send_signal(signal.SIGINT)
        try:
            _, said = process.communicate(timeout=30)
        finally:
            process.kill()  # otherwise leaving the `with` block would wait for the process
    assert (process.returncode, said) == (130, "isthmus: interrupted\n")
    assert not list(tmp_path.iterdir())
    assert not runs(child)


def test_records_are_read_and_judged_without_numpy_and_duckdb(tmp_path):
    for name in ("numpy", "duckdb", "msgspec"):
        (tmp_path / f"{name}.py").write_text(f"raise ModuleNotFoundError('no {name}', name='{name}')\n")
    path = os.pathsep.join([str(tmp_path), str(ROOT / "analysis")])
    shown = run("table", EXAMPLE, PYTHONPATH=path)
    assert shown.returncode == 0, shown.stderr
    assert "vector_seq" in shown.stdout


def test_a_missing_package_is_named(monkeypatch, capsys):
    def missing(module):
        raise ModuleNotFoundError("No module named 'numpy'", name="numpy")

    monkeypatch.setattr(plugins.importlib, "import_module", missing)
    assert cli.main(["table", "x"]) == exits.BAD_INPUT
    assert capsys.readouterr().err == (
        "isthmus table: numpy is not installed; install it with `pip install 'isthmus[analysis]'`\n"
    )
