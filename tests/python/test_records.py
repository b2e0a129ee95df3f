"""Tests of the record reader, which reads a whole file or refuses it with the number of the wrong line."""

import copy
import csv
import gzip
import hashlib
import json
import pathlib
import sys

import commands
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus import units
from isthmus.records import load, validate
from isthmus.tables import medians

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/reframe"))
import fake_bench  # noqa: E402

GOOD = fake_bench.record("microbench/saxpy", "pm", "tiny", "emulator")
LINE = json.dumps(GOOD)


def write(path, *lines, end="\n"):
    path.write_text("\n".join(lines) + end, encoding="utf-8")
    return path


def test_reads_in_order(tmp_path):
    other = {**GOOD, "seed": 7}
    path = write(tmp_path / "r.jsonl", LINE, json.dumps(other))
    assert load.read(path) == [GOOD, other]


def test_what_a_record_may_say_of_its_host_and_file(tmp_path):
    said = copy.deepcopy(GOOD)
    said["run"]["stolen_share"] = 0.25
    said["host"]["speed"] = {"integer_rate": 3e9, "touch_rate": 1.5e9, "copy_rate": None}
    said["input_file"] = {"name": "road.wsg", "bytes": 7, "sha256": "0" * 64}
    line = json.dumps(said)
    assert load.read(write(tmp_path / "r.jsonl", line)) == [said]
    assert validate.good(line.replace(", ", ",").replace(": ", ":").encode())


def test_an_empty_file_is_one_whose_run_was_killed(tmp_path):
    with pytest.raises(load.RecordError, match="has no record, because its run was killed"):
        load.read(write(tmp_path / "r.jsonl", end=""))


def test_last_line_without_newline_is_taken_if_it_is_whole(tmp_path):
    assert load.read(write(tmp_path / "r.jsonl", LINE, end="")) == [GOOD]


def test_a_packed_file_is_unpacked(tmp_path):
    packed = gzip.compress(f"{LINE}\n{LINE}\n".encode())
    path = tmp_path / "r.jsonl.gz"
    path.write_bytes(packed)
    assert load.read(path) == [GOOD, GOOD]
    for broken in (packed[:-9], packed[: len(packed) // 2], packed[:40] + b"?" + packed[41:], LINE.encode()):
        path.write_bytes(broken)
        with pytest.raises(validate.RecordError, match=r"r\.jsonl\.gz: not written by gzip"):
            load.read(path)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(validate.RecordError, match="No such file"):
        load.read(tmp_path / "none.jsonl")


def test_folder_is_no_file(tmp_path):
    with pytest.raises(validate.RecordError, match="directory"):
        load.read(tmp_path)


@given(st.integers(1, len(LINE) - 1))
def test_every_cut_is_noticed_and_named(tmp_path_factory, length):
    path = write(tmp_path_factory.mktemp("cut") / "r.jsonl", LINE, LINE[:length], end="")
    with pytest.raises(validate.RecordError, match=r"r\.jsonl:2: cut short .*: run it again with --resume"):
        load.read(path)


def test_cut_line_in_the_middle_is_named(tmp_path):
    path = write(tmp_path / "r.jsonl", LINE, LINE[:100], LINE)
    with pytest.raises(validate.RecordError, match=r"r\.jsonl:2: not JSON .*: delete the line, and run"):
        load.read(path)


@pytest.mark.parametrize(
    "line, why",
    [
        ("", "not JSON"),
        ("null", "a JSON NoneType"),
        ("[1]", "a JSON list"),
        ("{}", "another schema"),
        ('{"schema": "isthmus.record/4"}', "another schema ('isthmus.record/4'), not isthmus.record/3"),
        ('{"schema": "isthmus.record/2"}', "another schema ('isthmus.record/2'), not isthmus.record/3"),
        ('{"schema": "isthmus.record/3"}', "required property"),
        ('{"schema": ["isthmus.record/1"]}', "another schema"),
        (LINE.replace("0.25", "NaN", 1), "NaN is not JSON"),
        (LINE.replace("0.25", "Infinity", 1), "Infinity is not JSON"),
        (LINE.replace('"seed": 42', '"seed": 42, "seed": 43'), "appears twice"),
        (LINE.replace('"seed": 42', '"seed": "42"'), "seed"),
        (LINE.replace('"seed": 42', '"seed": 42, "grain": 1'), "grain"),
        (LINE.replace('"samples": [0.25]', '"samples": []'), "samples"),
        (json.dumps(GOOD | {"input_file": {"name": "a", "bytes": 1, "sha256": "x"}}), "input_file/sha256"),
        (json.dumps(GOOD | {"input_file": {"name": "a", "bytes": 1}}), "'sha256' is a required property"),
        (json.dumps(GOOD | {"run": GOOD["run"] | {"stolen_share": 1.5}}), "run/stolen_share"),
        (json.dumps(GOOD | {"host": GOOD["host"] | {"speed": {"copy_rate": 1.0}}}), "host/speed"),
        (LINE.replace('"unit": "s"', '"unit": "ms"'), "unit"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_foreign_line_is_refused(tmp_path, line, why):
    path = write(tmp_path / "r.jsonl", LINE, line)
    with pytest.raises(validate.RecordError) as refused:
        load.read(path)
    assert str(refused.value).startswith(f"{path}:2: ")
    assert why in str(refused.value)
    assert len(str(refused.value)) < len(str(path)) + 500


def test_two_records_on_one_line_are_named(tmp_path):
    path = write(tmp_path / "r.jsonl", LINE + LINE, end="")
    with pytest.raises(validate.RecordError, match=r"r\.jsonl:1: not JSON \(Extra data: .*: put each record"):
        load.read(path)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_bytes(LINE.encode() + b"\n\xff\xfe\n")
    with pytest.raises(validate.RecordError, match=r":2: not UTF-8"):
        load.read(path)


@given(st.binary(max_size=400))
def test_garbage_never_crashes_the_reader(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("garbage") / "r.jsonl"
    path.write_bytes(data)
    try:
        assert load.read(path) == []
        assert data == b""
    except validate.RecordError:
        pass


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)


@given(json_values)
def test_foreign_json_is_never_a_record(value):
    assert validate.problem(value) is not None


@given(st.sampled_from(sorted(GOOD)), json_values)
@settings(max_examples=150)
def test_field_of_any_shape_is_judged_not_crashed_on(field, value):
    problem = validate.problem({**copy.deepcopy(GOOD), field: value})
    assert problem is None or isinstance(problem, str)


@given(st.text(max_size=60))
def test_hostile_strings_survive(tmp_path_factory, text):
    """Uses names with line separators, quotes, escapes and right-to-left marks, which must be read unchanged."""
    if any(0xD800 <= ord(c) <= 0xDFFF for c in text):
        return  # lone surrogates are not Unicode text, and the writer replaces them
    hostile = copy.deepcopy(GOOD)
    hostile["host"]["cpu"] = text
    hostile["verify"]["detail"] = text
    hostile["run"]["command"] = [text]
    path = write(tmp_path_factory.mktemp("hostile") / "r.jsonl", json.dumps(hostile, ensure_ascii=False))
    assert load.read(path) == [hostile]


def test_two_metrics_of_one_name_are_refused():
    doubled = {**GOOD, "metrics": GOOD["metrics"] * 2}
    assert "two metrics have the same name" in validate.problem(doubled)


def test_schema_is_a_schema():
    import jsonschema

    jsonschema.Draft202012Validator.check_schema(json.loads(validate.schema_path().read_text()))


def test_every_committed_record_is_of_this_version():
    for path in (ROOT / "papers/data").rglob("*.jsonl*"):
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8") as file:
            assert validate.problem(json.loads(file.readline())) is None, path


def test_what_version_2_brought_is_held_to_the_schema():
    kernel = {"name": "k", "registers": None, "shared_bytes": None, "occupancy": None}
    told = {"kind": "library", "launches": 3, "seconds": 1e-3, "timed": 30, "bytes_read": 8, "flops": None}
    entry = {"name": "batches", "columns": ["a"], "file": "r.tables/a.csv.gz", "rows": 0, "sha256": "0" * 64}
    verify = {**GOOD["verify"], "inputs": "n=1024", "checksums": {"y": "0123456789abcdef"}}
    full = {**GOOD, "submission": "graph", "host_turns": 7, "kernels": [kernel, kernel | told], "tables": [entry]}
    full["verify"] = verify
    assert validate.problem(full) is None
    wrong = [
        {"submission": "queue"}, {"host_turns": -1}, {"tables": None}, {"tables": [entry | {"sha256": "0" * 63}]},
        {"tables": [entry | {"file": "/etc/passwd"}]}, {"tables": [entry | {"rows": 1.5}]},
        {"tables": [entry | {"size": 1}]}, {"kernels": [kernel | {"launches": 0}]},
        {"kernels": [kernel | {"kind": "copy"}]}, {"kernels": [kernel | {"seconds": -1}]},
        {"verify": verify | {"checksums": {"y": "123"}}}, {"verify": verify | {"inputs": 1}},
    ]  # fmt: skip
    for change in wrong:
        assert validate.problem({**full, **change}), change
    for name in ("submission", "host_turns", "tables"):
        assert f"'{name}' is a required property" in validate.problem({k: v for k, v in full.items() if k != name})


# --- tables next to a record file ---


def with_table(folder, text="time,bytes\n0.5,4096\n1e-3,\n", rows=2, columns=("time", "bytes"), packed=None):
    """Writes a record file with one table next to it."""
    folder.mkdir(exist_ok=True)
    data = gzip.compress(text.encode(), mtime=0) if packed is None else packed
    (folder / "r.tables").mkdir(exist_ok=True)
    (folder / "r.tables/0-batches.csv.gz").write_bytes(data)
    entry = {
        "name": "batches", "columns": list(columns), "file": "r.tables/0-batches.csv.gz", "rows": rows,
        "sha256": hashlib.sha256(data).hexdigest(),
    }  # fmt: skip
    record = {**GOOD, "tables": [entry]}
    return write(folder / "r.jsonl", json.dumps(record)), record


def test_a_table_is_read(tmp_path):
    path, record = with_table(tmp_path)
    [read] = load.read(path)
    assert load.read_table(path, read, "batches") == [{"time": 0.5, "bytes": 4096}, {"time": 1e-3, "bytes": None}]
    path, record = with_table(tmp_path, '"a ""b"", c"\n""\n1\n', columns=['a "b", c'])
    assert load.read_table(path, record, "batches") == [{'a "b", c': None}, {'a "b", c': 1}]
    path, record = with_table(tmp_path, "time,bytes\n", rows=0)
    assert load.read_table(path, record, "batches") == []


@pytest.mark.parametrize(
    "given, why",
    [
        ({"rows": 3}, "it has 2 rows instead of 3"),
        ({"columns": ("time", "size")}, "its columns are time, bytes"),
        ({"text": ""}, "its columns are "),
        ({"text": "time,bytes\n1\n", "rows": 1}, "not the table that r.jsonl describes"),
        ({"text": "time,bytes\n1,x\n", "rows": 1}, "could not convert"),
        ({"text": "time,bytes\n1,nan\n", "rows": 1}, "not a finite number"),
        ({"packed": b"time,bytes\n1,2\n"}, "not the table that r.jsonl describes"),
        ({"packed": gzip.compress(b"time,bytes\n" * 100, mtime=0)[:-9]}, "not the table that r.jsonl describes"),
    ],
)
def test_a_table_that_is_not_what_the_record_says_is_a_sentence(tmp_path, given, why):
    path, record = with_table(tmp_path, **given)
    with pytest.raises(validate.RecordError) as refused:
        load.read_table(path, record, "batches")
    said = str(refused.value)
    assert said.startswith(str(tmp_path / "r.tables/0-batches.csv.gz")) and why in said and "\n" not in said


def test_no_more_rows_are_read_than_a_table_can_have(tmp_path):
    path, record = with_table(tmp_path)
    record["tables"][0]["rows"] = 10**8
    with pytest.raises(validate.RecordError, match="it has 100000000 rows, but at most 1000000 are read"):
        load.read_table(path, record, "batches")


def test_a_table_that_is_missing_or_altered_is_named(tmp_path):
    path, record = with_table(tmp_path)
    with pytest.raises(validate.RecordError, match="has no tables 'other'; its tables: batches"):
        load.read_table(path, record, "other")
    with pytest.raises(validate.RecordError, match="has 2 tables 'batches'"):
        load.read_table(path, {**record, "tables": record["tables"] * 2}, "batches")
    side = tmp_path / "r.tables/0-batches.csv.gz"
    side.write_bytes(gzip.compress(b"time,bytes\n1,2\n3,4\n"))
    why = r"0-batches.csv.gz: the table 'batches' of r.jsonl has been altered"
    with pytest.raises(validate.RecordError, match=why):
        load.read_table(path, record, "batches")
    side.unlink()
    with pytest.raises(validate.RecordError, match=r"0-batches.csv.gz: the table 'batches' of r.jsonl is missing"):
        load.read_table(path, record, "batches")
    side.mkdir()
    with pytest.raises(validate.RecordError, match="cannot be read"):
        load.read_table(path, record, "batches")
    for outside in ("../r.tables/x", "/etc/hostname"):
        entry = {**record["tables"][0], "file": outside}
        with pytest.raises(validate.RecordError, match="outside the record's folder"):
            load.read_table(path, {**record, "tables": [entry]}, "batches")


# --- the table ---


QUANTITIES = list(csv.DictReader((ROOT / "tests/quantities.csv").read_text(encoding="utf-8").splitlines()))


@pytest.mark.parametrize("case", QUANTITIES, ids=lambda case: f"{case['value']}{case['unit'].replace('/', ' per ')}")
def test_quantities_are_spelt_as_by_the_other_program(case):
    assert units.quantity(float(case["value"]), case["unit"]) == case["text"]


def test_no_quantity_is_a_dash():
    assert units.quantity(None, "s") == "-" and len(QUANTITIES) > 15


def test_table_fits_80_columns_and_says_what_is_emulated():
    failed = {**GOOD, "error": "x" * 200}
    skipped = {**GOOD, "skipped": "y" * 200, "workload": "microbench/a_workload_of_a_long_name"}
    warned = {**GOOD, "warnings": [{"code": "clocks", "message": "z" * 200}]}
    text = medians.table([GOOD, failed, skipped, warned])
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in medians.table([GOOD])
    assert "Emulated" in text and "saxpy pm: 1 of 3 FAILED: x" in text and "Warning clocks in 1 of 4 records: z" in text
    assert "Skipped: 1 of 2 cases\n   1 × y" in text
    assert "    in, kernel, out, together, wall, in rate: emulated, clocks (1 of 2)\n" in text


def routed(workload, size, metric, unit, median, limit=None, **axes):
    """Returns a record of a transfer or latency workload on a GPU, with enough samples that no doubts are shown."""
    entry = {**GOOD["metrics"][0], "name": metric, "unit": unit, "median": median, "limit": None, "share": None}
    entry["samples"] = [median] * 3
    if limit:
        entry |= {"limit": {"value": limit, "unit": unit, "source": "this test"}, "share": median / limit}
    record = {**GOOD, "workload": workload, "placement": None, "staging": None, "mode": None, "size": None}
    record["emulated"] = False
    return {**record, "axes": {"bytes": size, **axes}, "metrics": [entry]}


def machine(gpus):
    cases = []
    for size in (4 << 10, 1 << 20, 1 << 30):
        rate = 55.5e9 * size / (size + 5e5)
        for a in range(gpus):
            cases.append(routed(f"transfer/pinned-gpu{a}/ce", size, "rate", "B/s", rate, 63e9))
            cases.append(routed(f"transfer/pinned-gpu{a}/ce-duplex", size, "rate", "B/s", 2 * rate))
            cases += [
                {**routed(f"transfer/gpu{a}-gpu{b}/sm-read", size, "rate", "B/s", 1.0), "metrics": [],
                 "skipped": "there is no peer access between the two, so the driver would go by way of host memory"}
                for b in range(gpus) if a != b
            ]  # fmt: skip
    cases.append(routed("transfer/gpu0-pinned/chase", 1 << 20, "latency", "s", 1.2e-6))
    return cases


def test_matrices_of_one_gpu():
    lines = medians.table(machine(1)).splitlines()
    assert "transfer/ce at 1GiB: rate in GB/s (share of its limit)" in lines
    assert "pinned     55.5 (88%)" in lines
    assert "transfer/ce-duplex at 1GiB: rate of both directions in GB/s" in lines
    assert "transfer/chase at 1MiB: latency in µs" in lines
    assert any(line.split() == ["pinned→gpu0/ce-duplex", "0.902", "75.2", "111"] for line in lines)
    assert not any(line.endswith(" ") for line in lines)


@pytest.mark.parametrize("gpus", [1, 4, 12])
def test_matrices_fit_80_columns(gpus):
    text = medians.table(machine(gpus))
    assert max(map(len, text.splitlines())) <= 80 and "…" not in text
    if gpus > 1:
        pairs = 3 * gpus * (gpus - 1)
        assert f"Skipped: {pairs} of" in text
        assert text.count("there is no peer access") == 1, "each reason once"
    if gpus > 10:
        assert text.index("  gpu2") < text.index("  gpu10"), "numbers are ordered as numbers"


def test_matrices_of_several_axes_and_processes():
    cases = [
        routed("transfer/pinned-gpu0/ce", 1 << 20, "rate", "B/s", rate * streams, streams=streams, order="same")
        for streams in (1, 2)
        for rate in (40e9, 50e9, 60e9)
    ]
    cases.append({**cases[0], "error": "the cable was pulled", "axes": {**cases[0]["axes"], "bytes": 1 << 21}})
    text = medians.table(cases)
    assert "transfer/ce streams=2 at 1MiB: rate in GB/s" in text and "order" not in text
    assert "pinned     100 ±20%" in text.splitlines(), "three processes of one run: their range"
    assert "FAILED" in text and "   1 × the cable was pulled" in text


def test_matrices_keep_numbers_of_ranks_apart():
    cases = []
    for count, rate in ((2, 40e9), (4, 80e9)):
        each = [{"node": "n1", "local_rank": rank, "device": None} for rank in range(count)]
        case = routed("mpi/pinned-gpus/ce", 1 << 20, "rate", "B/s", rate)
        cases.append({**case, "ranks": {"count": count, "library": "Open MPI 4.1.4", "each": each}})
    assert "ranks" not in medians.table(cases[:1])
    lines = medians.table(cases).splitlines()
    for count, rate in ((2, "40.0"), (4, "80.0")):
        assert lines[lines.index(f"mpi/ce ranks={count} at 1MiB: rate in GB/s") + 2].split() == ["pinned", rate]


def test_table_names_a_file_that_cannot_be_read(tmp_path):
    path = write(tmp_path / "r.jsonl", LINE[:50], end="")
    result = commands.run("table", path)
    assert result.returncode == 2
    assert "cut short" in result.stderr


def test_ranks_are_optional_and_whole():
    each = {"node": "n1", "local_rank": 0, "device": None}
    ranks = {"count": 2, "library": "Open MPI 4.1.4", "each": [each, {**each, "local_rank": 1, "device": "GPU-1"}]}
    assert validate.problem({**GOOD, "ranks": ranks}) is None
    for wrong in ({**ranks, "count": 1}, {**ranks, "each": [each]}, {"count": 2}, None):
        assert validate.problem({**GOOD, "ranks": wrong})


# --- committed records ---


#: Files measured with a tree whose changes were committed later, as papers/data/README.md states. Further such files
#: must not be added.
CHANGED = ("apps-modes.jsonl.gz", "apps-mega.jsonl.gz")
CHANGED_IN = ("h200-ac574039", "h200-x2-8590ff01", "h200-x2-b8d34e37", "h200-6ec2326f")  # folders of such files
CHANGED_ON = "GPU-dce55965"  # GPU of further such records, which are in files with records of other hosts


def test_the_readme_says_what_was_changed_where_a_record_is_of_no_commit():
    text = (ROOT / "papers/data/README.md").read_text(encoding="utf-8")
    sentence = text[text.index("Where `run.dirty` says") :].partition("\n\n")[0]
    assert all(f"`{name.partition('.')[0]}`" in sentence for name in CHANGED)
    assert CHANGED_ON.removeprefix("GPU-") in sentence and all(f"`{folder}`" in sentence for folder in CHANGED_IN)


@pytest.mark.parametrize(
    "path",
    sorted((ROOT / "papers/data").rglob("*.jsonl*")),
    ids=lambda path: f"{path.parent.name}-{path.name.partition('.')[0]}",
)
def test_committed_records_are_whole_and_carry_no_path(path):
    cases = load.read(path)
    assert cases
    for case in cases:
        assert not case["error"] and not case["emulated"]
        # Older Spack builds recorded only the package, because they did not read the commit from next to the sources.
        clean = case["run"]["dirty"] is False or (case["build"].get("package") and case["run"]["dirty"] is None)
        known = path.name in CHANGED or path.parent.name in CHANGED_IN
        assert clean or known or case["devices"][0]["uuid"].startswith(CHANGED_ON)
        assert not any(word.startswith("/") for word in case["run"]["command"])
    assert max(map(len, medians.table(cases).splitlines())) <= 80
