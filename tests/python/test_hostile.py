"""Tests of broken and hostile input, from single lines to the output of every command.

Commands must not print a traceback or hang, and absent data must not pass.
"""

import contextlib
import copy
import gzip
import json
import os
import pathlib
import shutil
import socket
import tempfile

import mutants
import pytest
import yaml
from histories import History, jobs_of, record, write
from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus import Error, cli, exits, spelling
from isthmus.records import compact, compacted, load, measurements, reading, store, validate
from isthmus.references import measured

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIDES = ["--from", "driver=570", "--to", "driver=580"]
LINES = 1_000  # number of mutated lines; mutants.py can be run by hand with more


# --- all readers agree about a line ---


@contextlib.contextmanager
def slowly():
    """Disables msgspec, so that lines are validated by the slower Python code."""
    fast = validate._decoders
    validate._decoders = lambda: None
    try:
        yield
    finally:
        validate._decoders = fast


def test_lines_are_judged_alike_with_and_without_msgspec():
    pytest.importorskip("msgspec")
    every = mutants.lines(800, 3)
    shown = [validate.good(line) for line in every]
    with slowly():
        slow = [mutants.accepted(line) for line in every]
    wrong = [line[:3000] for line, fast, sure in zip(every, shown, slow) if fast and not sure]
    assert not wrong
    assert 100 < sum(slow) < 700, "both kinds are among them"
    missed = sum(sure and not fast for fast, sure in zip(shown, slow))
    assert missed < 0.1 * sum(slow), "the fast way is taken"


def test_every_committed_record_is_judged_the_fast_way():
    pytest.importorskip("msgspec")
    for path in (ROOT / "papers/data").rglob("*.jsonl*"):
        for number, line, _ in load.lines(path):
            assert validate.good(line), (path, number)


def keys_beyond(schema: dict, value, place: str = "") -> set[str]:
    """Returns the paths of keys in a record that the schema does not name."""
    if isinstance(value, list):
        return {each for inner in value for each in keys_beyond(schema.get("items", {}), inner, place)}
    if not isinstance(value, dict):
        return set()
    if "properties" not in schema:
        return set()
    found = {f"{place}/{key}" for key in value if key not in schema["properties"]}
    known = (key for key in value if key in schema["properties"])
    return found.union(*(keys_beyond(schema["properties"][key], value[key], f"{place}/{key}") for key in known))


def test_the_schema_names_every_key_of_the_committed_records():
    schema = validate._schema()
    beyond = set()
    for path in (ROOT / "papers/data").rglob("*.jsonl*"):
        beyond |= keys_beyond(schema, load.read(path)[0])
    assert beyond == set()


def _doubled(value, holder: str = "{}"):
    """Yields JSON texts of `value` that each have one key twice. Some lack another key of the same object, and some
    have white space before the colon."""
    if isinstance(value, list):
        for i, inner in enumerate(value[:2]):
            rest = [json.dumps(each, separators=(",", ":")) for each in value]
            for text in _doubled(inner):
                yield "[" + ",".join([*rest[:i], text, *rest[i + 1 :]]) + "]"
    if isinstance(value, dict):
        pairs = [f"{json.dumps(key)}:{json.dumps(inner, separators=(',', ':'))}" for key, inner in value.items()]
        for i, (key, inner) in enumerate(value.items()):
            for twice in (pairs[i], pairs[i].replace('":', '" :', 1), pairs[i].replace('":', '"\t:', 1)):
                yield "{" + ",".join([*pairs, twice]) + "}"
            if len(pairs) > 1:
                without = [pair for j, pair in enumerate(pairs) if j != (i + 1) % len(pairs)]
                yield "{" + ",".join([*without, pairs[i]]) + "}"
            for text in _doubled(inner):
                yield "{" + ",".join([*pairs[:i], f"{json.dumps(key)}:{text}", *pairs[i + 1 :]]) + "}"


@pytest.mark.parametrize("source", ["h200/medium.jsonl", "h200-x4/mpi.jsonl.gz"])
def test_no_key_stands_twice_anywhere(source):
    pytest.importorskip("msgspec")
    case = load.read(ROOT / "papers/data" / source)[0]
    case["run"]["environment"] = {"A": "a:b", "B": "c:d"}
    for metric in case["metrics"]:
        metric |= {"samples": [1.5], "median": 1.5, "invalid": []}
    whole = json.dumps(case, separators=(",", ":")).encode()
    assert validate.good(whole)
    lines = [text.encode() for text in _doubled(case)]
    assert len(lines) > 500 and not any(map(validate.good, lines))
    backslash = whole.replace(b"a:b", b"a\\u003ab").replace(b'"B":', b'"A":"a\\u003ab","B":')
    assert backslash != whole and not validate.good(backslash), "an escaped colon does not hide one"


def test_what_is_too_deep_is_refused():
    pytest.importorskip("msgspec")
    case = load.read(ROOT / "papers/data/h200/medium.jsonl")[0]
    places = [(case["devices"][0]["state"], "foreign_processes"), (case["devices"][0], "further"), (case["run"], "x")]
    case["profile"] = {"phases": {"x": {"count": 1, "seconds": 1.0}}}
    places.append((case["profile"]["phases"]["x"], "further"))
    for holder, key in places:
        before = holder.get(key, ...)
        holder[key] = mutants.DEEPER
        text = json.dumps(case, separators=(",", ":")).encode()
        assert not validate.good(text) and not mutants.accepted(text), key
        if before is ...:
            del holder[key]
        else:
            holder[key] = before


def test_raw_and_compacted_agree_on_a_key_that_stands_twice(tmp_path):
    """Repeats a key that no command reads, in a line that lacks another key. Without a check, DuckDB would silently
    choose one of the two values."""
    case = record(1)
    first = json.dumps(case, separators=(",", ":"))
    device = json.dumps(case["devices"][0], separators=(",", ":"))
    further = device[:-1] + ',"note_1":0,"note_2":0}'
    twice = device[:-1] + ',"note_1":0,"note_1":0}'
    (tmp_path / "a.jsonl").write_text(first.replace(device, further) + "\n")
    (tmp_path / "b.jsonl").write_text(first.replace(device, twice) + "\n")
    with store.open_store([tmp_path]) as raw:
        assert [(each.path, each.why) for each in raw.skipped] == [
            (str(tmp_path / "b.jsonl"), "line 1: not JSON (the key 'note_1' appears twice)")
        ]
        rows = raw.sql("SELECT count(*) FROM measurements").fetchone()
    skipped = compact.compact(tmp_path)["skipped"]
    assert [each.path for each in skipped] == [str(tmp_path / "b.jsonl")]
    with store.open_store([tmp_path / compacted.COMPACTED]) as table:
        assert table.sql("SELECT count(*) FROM measurements").fetchone() == rows


def test_a_schema_that_types_cannot_say_is_refused_not_passed_over():
    pytest.importorskip("msgspec")
    for schema in ({"type": "string", "format": "date"}, {"type": "object", "patternProperties": {}}):
        with pytest.raises(KeyError, match="the schema of x has"):
            validate._type(schema, "x")


def test_every_field_that_is_read_has_a_type():
    """Checks that the schema gives every field a type, because DuckDB reads texts of fields without one as numbers."""
    properties = validate._schema()["properties"]
    for name, fields in measurements._READ.items():
        fields, known = (
            (fields[0], properties[name]["items"]) if isinstance(fields, list) else (fields, properties[name])
        )
        for field in fields if isinstance(fields, dict) else ():
            assert (
                "type" in known["properties"][field]
                or "enum" in known["properties"][field]
                or "oneOf" in known["properties"][field]
            ), (name, field)


def changed(path, value, base=None):
    case = copy.deepcopy(base or record(2.0))
    *outer, last = path.split("/")
    inner = case
    for name in outer:
        inner = inner[int(name) if name.isdigit() else name]
    inner[last] = value
    return case


GOOD = json.dumps(record(2.0))
REFUSED = [
    (json.dumps(changed("run/time", "2026-02-30T00:00:00Z")), "2026-02-30T00:00:00Z is not a valid time"),
    (json.dumps(changed("run/time", "2016-12-31T23:59:60Z")), "2016-12-31T23:59:60Z is not a valid time"),
    (json.dumps(changed("run/time", "2026-01-01T00:00:00Z\n")), "run/time"),
    (json.dumps(changed("workload", "a/b\n")), "workload"),
    (json.dumps(changed("metrics/0/median", "2.0")), "'2.0' is not"),
    (json.dumps(changed("metrics/0/median", 2.1)), "the median is 2.1, but that of the samples is 2"),
    (json.dumps(changed("metrics/0/median", None)), "the median is null, but 5 samples are valid"),
    (json.dumps(changed("metrics/0/invalid", [0, 1, 2, 3, 4])), "but every sample is invalid"),
    (json.dumps(changed("metrics/0/invalid", [5])), "sample 5 is invalid, but there are only 5"),
    (json.dumps(changed("metrics/0/samples", [1e308])), "maximum of 1e+30"),
    (json.dumps(changed("axes", {"bytes": "big"})), "axes/bytes: 'big' is not a number of bytes"),
    (json.dumps(changed("version", 2**63)), "maximum"),
    (json.dumps(changed("devices/0/state", {"vbios": 5})), "devices/0/state/vbios"),
    (json.dumps(changed("host/uvm_parameters", {"x": {}})), "host/uvm_parameters/x"),
    (json.dumps(changed("host/extra", mutants.DEEPER)), "within each other"),
    (json.dumps(changed("run/node", "\ud800")), "half of a surrogate pair"),
    (GOOD.replace('"median": 2.0', '"median": 3.0, "median": 2.0'), "the key 'median' appears twice"),
    (GOOD.replace('"median": 2.0', '"median" : 3.0, "median": 2.0'), "the key 'median' appears twice"),
    (GOOD.replace('"median": 2.0', '"median": 2e999'), "2e999 is not a finite number"),
    (" " * (9 << 20), "longer than 8 MiB"),
]  # fmt: skip


@pytest.mark.parametrize("line, why", REFUSED, ids=[why[:40] for _, why in REFUSED])
@pytest.mark.parametrize("way", ["with msgspec", "without"])
def test_what_is_refused_is_refused_by_every_reader_in_the_same_words(tmp_path, capsys, line, why, way):
    """Reads a bad line alone, so that nothing is left to use, and after a good line, which is used. The bad line is
    named in both cases."""
    alone, after = tmp_path / "alone/r.jsonl", tmp_path / "after/r.jsonl"
    for path, text in ((alone, f"{line}\n"), (after, f"{GOOD}\n{line}\n")):
        path.parent.mkdir()
        path.write_text(text, encoding="utf-8")
    with slowly() if way == "without" else contextlib.nullcontext():
        with pytest.raises(Error) as refused:
            load.read(alone)
        words = str(refused.value).removeprefix(f"{alone}:1: ")
        assert why in words and words != str(refused.value)
        for reader in (reading.read_files, store.open_store):
            with pytest.raises(Error) as refused:
                reader([alone])
            assert str(refused.value) == f"{alone}: line 1: {words}; name files that isthmus-bench wrote"

        with pytest.raises(Error) as refused:
            load.read(after)
        assert str(refused.value) == f"{after}:2: {words}"
        cases, code = reading.read_files([after])
        assert (len(cases), code) == (1, exits.UNDECIDED)
        named = f"used in part {spelling.shorten(str(after))}: line 2: {spelling.printable(words)}\n"
        assert capsys.readouterr().err == f"{named}1 of 1 file skipped or used in part\n"
        with store.open_store([after]) as opened:
            rows = opened.sql("SELECT count(*) FROM measurements WHERE metric_index = 0").fetchone()
        assert rows == (1,) and opened.skipped == [load.Skipped(str(after), f"line 2: {words}", has_part=True)]

        for path, number in ((alone, 1), (after, 2)):
            skipped = compact.compact(path.parent, processes=1)["skipped"]
            assert [(each.path, each.why) for each in skipped] == [(str(path), f"line {number}: {words}")]


@given(st.lists(st.floats(-1e20, 1e20).filter(lambda x: x == 0 or abs(x) > 1e-20), min_size=1, max_size=9), st.data())
@settings(max_examples=100, deadline=None)
def test_the_median_that_is_asked_for_is_that_of_the_valid_samples(samples, data):
    import statistics

    invalid = data.draw(st.lists(st.integers(0, len(samples) - 1), unique=True, max_size=3))
    valid = [value for i, value in enumerate(samples) if i not in invalid]
    median = statistics.median(valid) if valid else None
    assert validate._wrong_figures(samples, median, invalid) is None
    if median is not None:
        assert validate._wrong_figures(samples, median * 1.001 + 1e-10, invalid) is not None


# --- every command, on folders of such lines ---


def test_no_command_fails_or_hangs_on_mutated_records():
    wrongs, _, good, codes = mutants.one_folder(LINES, 100, seconds=300)
    assert not wrongs, "\n".join(wrongs)[:5000]
    assert good > LINES / 5
    for command in ("regress", "noise", "drift", "compare", "report", "table", "levels"):
        assert 2 not in codes[command], f"{command} looked at nothing"
        assert 0 not in codes[command][:1], f"{command} passes, though files were refused"


def test_the_driver_of_mutants_sees_what_it_looks_for(monkeypatch, tmp_path):
    def called(run):
        monkeypatch.setattr(mutants.cli, "main", run)
        return mutants.called(["table", "x"], 0.2)[3]

    def fails(_):
        raise KeyError("x")

    def hangs(_):
        while True:
            pass

    assert "KeyError" in called(fails)
    assert "took more than" in called(hangs)
    assert "raw" in called(lambda _: print("\x1b[2J") or 0)
    assert "exit code 7" in called(lambda _: 7)
    assert "not one sentence" in called(lambda _: 2)
    assert called(lambda _: print("fine") or 0) == ""


# --- absence ---


def history(folder):
    """Writes jobs before and after a change, each in a separate file, that `isthmus regress` finds equivalent."""
    for i, case in enumerate(jobs_of(History(nodes=4), 8, 8)):
        write(folder, [case], f"{i:03}.jsonl")
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return history(tmp_path_factory.mktemp("whole") / "r")


@pytest.fixture
def folder(whole, tmp_path):
    return pathlib.Path(shutil.copytree(whole, tmp_path / "r"))


def run(capsys, *command):
    code = cli.main([str(word) for word in command])
    said = capsys.readouterr()
    return code, said.out, said.err


def half_cut(folder):
    for path in sorted(folder.glob("*.jsonl"))[::2]:
        path.write_bytes(path.read_bytes()[:-40])
    return "line 1: cut short"


def one_fifo(folder):
    os.mkfifo(folder / "fifo.jsonl")
    return "fifo.jsonl: a FIFO, not a file"


def one_socket(folder):
    before = os.getcwd()
    os.chdir(folder)  # because the path of a socket must be short
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind("s.jsonl.gz")
    finally:
        os.chdir(before)
    return "s.jsonl.gz: a socket, not a file"


def one_device(folder):
    (folder / "null.jsonl").symlink_to("/dev/zero")
    return "null.jsonl: a device, not a file"


def one_dangling(folder):
    (folder / "gone.jsonl").symlink_to(folder / "nowhere")
    return "gone.jsonl: No such file or directory"


def one_loop(folder):
    (folder / "loop.jsonl").symlink_to(folder / "loop.jsonl")
    return "loop.jsonl: Too many levels of symbolic links"


def one_name(folder):
    name = os.fsencode(str(folder)) + b"/\xff\x1b[2J.jsonl"
    with open(name, "wb") as file:
        file.write(GOOD.encode() + b"\n")
    return "\\xdcff\\x1b[2J.jsonl: its name is not UTF-8"


def one_archive(folder):
    (folder / "r.jsonl.gz").write_bytes(gzip.compress(GOOD.encode())[:-9])
    return "r.jsonl.gz: "


def one_vanished(folder):
    compact.compact(folder, processes=1)
    (folder / "003.jsonl").unlink()
    return "003.jsonl: compacted, but gone since then"


def one_shortened(folder):
    path = folder / "003.jsonl"
    path.write_text(f"{path.read_text()}{path.read_text()}")
    compact.compact(folder, processes=1)
    path.write_text(path.read_text().splitlines(keepends=True)[0])
    return "003.jsonl: its records differ from the compacted ones"


def test_of_a_compacted_table_alone_no_samples_are_read(folder):
    compact.compact(folder, processes=1)
    with pytest.raises(Error, match="a compacted table, which lacks the samples"):
        reading.read_files([folder / "compacted"])


ABSENCES = [half_cut, one_fifo, one_socket, one_device, one_dangling, one_loop, one_name, one_archive]


@pytest.mark.parametrize("absence", [*ABSENCES, one_vanished, one_shortened])
def test_a_gate_does_not_pass_over_what_it_could_not_read(folder, capsys, absence):
    assert run(capsys, "regress", folder, *SIDES)[0] == exits.PASSED
    why = absence(folder)
    code, out, err = run(capsys, "regress", folder, *SIDES)
    assert code == exits.UNDECIDED
    assert why in err and " could not be read" in out.splitlines()[0]
    assert "\nverdict: inconclusive\n" in out and "is unknown" in " ".join(out.split())
    assert not any(c in out + err for c in "\x1b\udcff")


def gates(folder, tmp_path):
    """Returns each command that reads records, with arguments for which it passes, or gives its usual verdict, as long
    as every record can be read."""
    weights = tmp_path / "w.json"
    weights.write_text('{"metrics": {"* time": 1}}')
    other = tmp_path / "other"
    if not other.exists():
        shutil.copytree(folder, other)
    site = ["--site", str(ROOT / "site-configs/generic")]
    return [
        ["regress", folder, *SIDES], ["noise", folder, "--from", "driver=570"], ["drift", folder], ["nodes", folder],
        ["compare", other, folder], ["score", other, folder, "--weights", weights, "--reference", "other"],
        ["report", folder, "-o", tmp_path / "x.html"], ["table", folder], ["references", "check", folder, *site],
        ["nodes", folder, "--drain"],
    ]  # fmt: skip


@pytest.mark.parametrize("absence, said", [(half_cut, "line 1: cut short"), (one_vanished, "gone since")])
def test_every_command_says_first_what_it_could_not_read_and_does_not_pass(folder, tmp_path, capsys, absence, said):
    before = [run(capsys, *command)[0] for command in gates(folder, tmp_path)]
    absence(folder)
    for command, code in zip(gates(folder, tmp_path), before):
        now, out, err = run(capsys, *command)
        assert now != exits.PASSED, command
        assert now == (code or exits.UNDECIDED) or code == exits.UNDECIDED, command
        assert said in err and " files skipped" in err, command
        if "--drain" not in command:
            assert " could not be read, the first" in out.splitlines()[0], command
            assert max(map(len, out.splitlines()[:3])) <= 80, command


def test_a_trial_is_not_read_as_complete_where_files_are_absent(tmp_path, capsys):
    plan = [
        "trial",
        "plan",
        tmp_path / "t",
        "--from",
        "driver=570",
        "--to",
        "driver=580",
        "--nodes",
        "n1",
        "--jobs",
        "8",
    ]
    assert run(capsys, *plan, "--command", "true")[0] == 0
    for i, case in enumerate(jobs_of(History(between=0.002), 8, 8)):
        side = "before" if case["devices"][0]["driver"].startswith("570") else "after"
        case["run"]["node"] = "n1"
        write(tmp_path / "t/records" / side, [case], f"{i:03}.jsonl")
    assert run(capsys, "trial", "read", tmp_path / "t")[0] == exits.PASSED
    one_fifo(tmp_path / "t/records")
    code, out, _ = run(capsys, "trial", "read", tmp_path / "t")
    assert code == exits.UNDECIDED and " could not be read" in out.splitlines()[0]


@contextlib.contextmanager
def as_nobody():
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_an_unreadable_subfolder_is_named_and_the_rest_is_read(whole, capsys):
    with tempfile.TemporaryDirectory() as name:  # not tmp_path, which only its owner may read
        folder = pathlib.Path(shutil.copytree(whole, pathlib.Path(name) / "r"))
        shutil.copytree(whole, folder / "closed")
        compact.compact(folder, processes=1)
        pathlib.Path(name).chmod(0o755)
        (folder / "closed").chmod(0)
        try:
            with as_nobody():
                code, _, err = run(capsys, "regress", folder, *SIDES)
                shown, _, _ = run(capsys, "table", folder)
            if not os.geteuid():
                (folder / "compacted/manifests").chmod(0o777)
                (folder / "compacted").chmod(0o777)
                with as_nobody():
                    again = compact.compact(folder, processes=1)
        finally:
            (folder / "closed").chmod(0o755)
        assert "closed: a folder that cannot be read (Permission denied)" in err
        assert code == shown == exits.UNDECIDED and err.count("skipped ") == 1
        if not os.geteuid():
            assert again["gone"] == [] and again["moved"] == {}, "what cannot be looked at is not forgotten"


def test_a_file_that_changes_while_it_is_read_is_no_part_of_the_answer(folder, monkeypatch, capsys):
    real, seen = load.signature, []

    def moving(path):
        seen.append(path)
        grown = str(path).endswith("003.jsonl") and seen.count(path) > 1
        return [value + grown for value in real(path)]

    monkeypatch.setattr(load, "signature", moving)
    code, _, err = run(capsys, "regress", folder, *SIDES)
    assert code == exits.UNDECIDED and "003.jsonl: changed while it was read" in err


# --- compacting files that were edited, removed or copied ---


def medians(folder):
    with store.open_store([folder]) as opened:
        return sorted(row[0] for row in opened.sql("SELECT median FROM measurements").fetchall()), opened.skipped


def test_an_edit_of_equal_length_is_seen(tmp_path):
    path = write(tmp_path / "r", [record(2.0)]) / "records.jsonl"
    compact.compact(tmp_path / "r", processes=1)
    path.write_text(path.read_text().replace("2.0", "3.0"))
    found, [named] = medians(tmp_path / "r")
    assert found == [3.0] and "its records differ from the compacted ones" in named.why, "by a question"
    assert compact.compact(tmp_path / "r", processes=1)["records"] == 1, "and by compacting again"
    assert medians(tmp_path / "r/compacted")[0] == [3.0]


def test_what_is_removed_is_gone_after_compacting_and_missed_before(tmp_path, capsys):
    for i in (1.0, 2.0, 3.0):
        write(tmp_path / "r", [record(i)], f"{i}.jsonl")
    compact.compact(tmp_path / "r", processes=1)
    (tmp_path / "r/2.0.jsonl").unlink()
    found, skipped = medians(tmp_path / "r")
    assert found == [1.0, 3.0] and "gone since" in skipped[0].why
    code, out, _ = run(capsys, "compact", tmp_path / "r")
    assert code == exits.UNDECIDED and "1 file is gone with their records (2.0.jsonl)" in out
    assert medians(tmp_path / "r") == ([1.0, 3.0], [])
    assert medians(tmp_path / "r/compacted")[0] == [1.0, 3.0]
    write(tmp_path / "r", [record(2.0)], "2.0.jsonl")
    assert medians(tmp_path / "r") == ([1.0, 2.0, 3.0], []), "and it may come back"
    compact.compact(tmp_path / "r", processes=1)
    assert medians(tmp_path / "r/compacted")[0] == [1.0, 2.0, 3.0]


def test_a_copy_of_a_folder_is_the_same_by_its_hashes(tmp_path):
    write(tmp_path / "r", [record(2.0)])
    compact.compact(tmp_path / "r", processes=1)
    # Copies have different inodes and times.
    shutil.copytree(tmp_path / "r", tmp_path / "copy", copy_function=shutil.copy)
    assert compact.compact(tmp_path / "copy", processes=1)["before"] == 1


@pytest.mark.parametrize("how", ["a bit", "another store's", "cut"])
def test_a_part_that_was_altered_is_refused_not_believed(tmp_path, capsys, how):
    """Alters a Parquet file. Parquet has no checksums of figures, so without a check, a changed figure would be read
    as measured."""
    for name, value in (("r", 2.0), ("other", 4.0)):
        write(tmp_path / name, [record(value)])
        compact.compact(tmp_path / name, processes=1)
    [part] = (tmp_path / "r" / compacted.COMPACTED).rglob("*.parquet")
    [others] = (tmp_path / "other" / compacted.COMPACTED).rglob("*.parquet")
    data = bytearray(part.read_bytes())
    data[len(data) // 3] ^= 1
    part.write_bytes(others.read_bytes() if how == "another store's" else data if how == "a bit" else data[:100])
    for path in (tmp_path / "r", tmp_path / "r" / compacted.COMPACTED):
        assert cli.main(["noise", str(path)]) == 2
        said = capsys.readouterr().err
        assert "this part of the compacted table has been altered since it was written" in said
    shutil.rmtree(tmp_path / "r" / compacted.COMPACTED)
    assert compact.compact(tmp_path / "r", processes=1)["files"] == 1


def test_where_all_that_was_compacted_is_gone_a_sentence_names_the_table(tmp_path):
    path = write(tmp_path / "r", [record(2.0)]) / "records.jsonl"
    compact.compact(tmp_path / "r", processes=1)
    path.unlink()
    with pytest.raises(Error, match=r"all 1 files that were compacted are gone; name .*compacted to read what it has"):
        medians(tmp_path / "r")


# --- texts ---


@pytest.mark.parametrize(
    "view, source",
    [("", "medium.jsonl"), ("--view=levels", "latency.jsonl.gz"), ("--view=accounting", "accounting.jsonl.gz")],
)
def test_escapes_in_a_record_do_not_reach_the_terminal(tmp_path, capsys, view, source):
    cases = load.read(ROOT / "papers/data/h200" / source)
    for case in cases:
        case["run"]["node"] = "n\x1b[2J\nverdict: fine"
        case["host"]["cpu"] = "\x9b2J\u202e"
        case["axes"]["\x1b]0;x\x07"] = "\x1b[31m"
        for device in case["devices"]:
            device["name"] = "H\x1b[2J\nverdict: fine"
        case["warnings"] = [{"code": "x", "message": "\x1b[2J", "samples": None}]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases))
    code, out, _ = run(capsys, "table", tmp_path, *filter(None, [view]))
    assert code == 0 and all(c.isprintable() or c == "\n" for c in out)
    assert "\nverdict: fine" not in out


words = st.sampled_from(mutants.TEXTS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(words, words, st.dictionaries(words, words, max_size=3), st.dictionaries(words, words, min_size=1, max_size=3))
@settings(max_examples=200, deadline=None)
def test_references_are_written_so_that_yaml_reads_them_back(key, text, axes, fingerprint):
    bound = {"value": 1.5, "unit": "B/s", "fingerprint": key}
    entry = {"workload": text, "axes": axes, "metrics": {key: bound}}
    tree = {(text, key, key, text, key)[: len(measured.KEYS)]: {"x": entry}}
    read = yaml.safe_load(measured.render(tree, {key: fingerprint}))
    assert read["$fingerprints"] == {key: fingerprint}
    inner = read
    for each in next(iter(tree)):
        inner = inner[each]
    assert inner[0]["workload"] == text and inner[0].get("axes", {}) == axes and list(inner[0]["metrics"]) == [key]


# --- files that people write ---


@pytest.mark.parametrize(
    "change",
    [{"nodes": 5}, {"nodes": [5]}, {"jobs": "8"}, {"control": "no"}, {"from": None}, {"to": ["x"]}, {"format": 2}],
)
def test_a_mistyped_plan_is_one_sentence(tmp_path, capsys, change):
    plan = {"format": 1, "from": "driver=570", "to": "driver=580", "nodes": ["n1"], "jobs": 8, "control": False}
    write(tmp_path / "t/records/before", [record(1.0)])
    (tmp_path / "t/plan.json").write_text(json.dumps({**plan, **change}))
    (tmp_path / "t/plan.tsv").touch()
    code, _, err = run(capsys, "trial", "read", tmp_path / "t")
    assert code == exits.BAD_INPUT and err.count("\n") == 1 and "plan.json: " in err


@pytest.mark.parametrize(
    "text", ['{"a":' * 100_000, "[" * 100_000, "5", "null", '{"series": 5}', '{"metrics": {"x": []}}']
)
def test_deep_or_foreign_files_are_one_sentence(folder, tmp_path, capsys, text):
    path = tmp_path / "x.json"
    path.write_text(text)
    (folder / "baselines").mkdir()
    (folder / "baselines/x.json").write_text(text)
    for command in (
        ["score", folder, folder, "--weights", path, "--reference", "r"], ["regress", folder, *SIDES, "--noise", path],
        ["regress", folder, "--baseline", "x"],
    ):  # fmt: skip
        code, _, err = run(capsys, *command)
        assert code == exits.BAD_INPUT and err.count("\n") == 1 and "x.json: " in err, command
