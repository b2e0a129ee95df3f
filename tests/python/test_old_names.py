"""Old names of memories: the examples that the program is held to as well, and every reader of what earlier versions
wrote."""

import gzip
import json
import pathlib

import pytest
from test_records import GOOD

from isthmus import Error, cli, exits
from isthmus.records import compact, compacted, load, measurements, old_names, store, validate
from isthmus.references import lookup, measured
from isthmus.verdicts import earlier, score

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = json.loads((ROOT / "tests/data/old_names.json").read_text(encoding="utf-8"))
# Beside the examples, what has memories in its name, too, and what only looks like it.
FURTHER = [
    ("latency/malloc-cpu/chase", "latency/pageable-cpu/chase"),
    ("latency/wc-gpu10/chase", "latency/write_combined-gpu10/chase"),
    ("accounting/malloc/gpu0", "accounting/pageable/gpu0"),
    ("accounting/wc/gpu0", "accounting/write_combined/gpu0"),
    ("transfer/wc-gpu0/ce-duplex", "transfer/write_combined-gpu0/ce-duplex"),
    ("transfer/gpu0-system/fault-latency", "transfer/gpu0-pageable/fault-latency"),
    ("transfer/pageable-pageable/runtime", "transfer/pageable-pageable/runtime"),
    ("alloc/wcx-touched", "alloc/wcx-touched"),
    ("alloc/page_malloc", "alloc/page_malloc"),
    ("driver/malloc", "driver/malloc"),
    ("apps/system", "apps/system"),
]
EXAMPLES += [{"old": {"workload": old}, "new": {"workload": new}} for old, new in FURTHER]


def cases(which):
    """Of each example the workload and the axes."""
    return [(each[which]["workload"], each[which].get("parameters", {})) for each in EXAMPLES]


def records(which="old", version="isthmus.record/2"):
    return [
        {**GOOD, "schema": version, "workload": workload, "axes": axes, "seed": number}
        for number, (workload, axes) in enumerate(cases(which))
    ]


def write(path, each):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(case, separators=(",", ":"), sort_keys=True) + "\n" for case in each), "utf-8")
    return path


def named(paths):
    with store.open_store(paths, emulated=True, profiled=True) as opened:
        return sorted(opened.sql("SELECT workload, axes FROM measurements").fetchall())


def expected(which="new"):
    found = [(workload, json.dumps(axes, separators=(",", ":"), sort_keys=True)) for workload, axes in cases(which)]
    return sorted(found * len(GOOD["metrics"]))


@pytest.mark.parametrize("version", validate.VERSIONS[:2])
def test_records_of_earlier_versions_are_read_with_the_names_of_this_one(tmp_path, version):
    path = write(tmp_path / "r.jsonl", records(version=version))
    found = load.read(path)
    assert [(each["workload"], each["axes"]) for each in found] == cases("new")
    assert found == records("new", validate.SCHEMA), "nothing else changes"
    assert named([path]) == expected()


def test_a_record_of_this_version_is_left_as_it_is(tmp_path):
    path = write(tmp_path / "r.jsonl", records("old", validate.SCHEMA))
    assert load.read(path) == records("old", validate.SCHEMA)
    assert named([path]) == expected("old")


@pytest.mark.parametrize("which", ["old", "new"])
def test_names_of_this_version_stay(which):
    """So what says no version, as references, may be converted each time."""
    for (workload, axes), (new, values) in zip(cases(which), cases("new")):
        assert (old_names.workload(workload), old_names.axes(workload, axes)) == (new, values)
        assert old_names.axes(new, values) is values
        assert old_names.pattern(workload) == new


def test_records_tables_and_python_agree_on_all_committed_records():
    """Of each committed file, read as a table and one by one."""
    changed = 0
    for path in sorted((ROOT / "analysis/data").rglob("*.jsonl*")):
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rb") as file:
            lines = list(file)
        own = {(case["workload"], json.dumps(case["axes"])) for case in map(validate.upgrade, map(json.loads, lines))}
        with store.open_store([path], emulated=True, profiled=True) as sql:
            found = {(name, json.dumps(json.loads(text))) for name, text in
                     sql.sql("SELECT DISTINCT workload, axes FROM measurements").fetchall()}  # fmt: skip
        assert found == own, path
        assert not [name for name, _ in found if {"wc", "malloc", "system"} & set(name.replace("/", "-").split("-"))]
        changed += found != {(case["workload"], json.dumps(case["axes"])) for case in map(json.loads, lines)}
    assert changed > 5


# --- compacted tables ---


def test_compacting_converts(tmp_path):
    write(tmp_path / "r.jsonl", records())
    compact.compact(tmp_path)
    assert named([tmp_path]) == named([tmp_path / "compacted"]) == expected()


def test_a_table_that_an_earlier_version_compacted_is_refused(tmp_path):
    write(tmp_path / "r.jsonl", records())
    compact.compact(tmp_path)
    [manifest] = compacted.manifests(tmp_path / "compacted")
    manifest.write_text(manifest.read_text("utf-8").replace(validate.SCHEMA, validate.VERSIONS[1]), "utf-8")
    for read in (lambda: named([tmp_path]), lambda: compact.compact(tmp_path)):
        with pytest.raises(Error, match="another version of Isthmus; remove this folder and compact again"):
            read()


# --- what chooses records ---


@pytest.mark.parametrize(
    "old, new",
    [
        (r"transfer/(pinned|wc)-gpu\d+/ce(-batch)?", r"transfer/(pinned|write_combined)-gpu\d+/ce(-batch)?"),
        (r"transfer/gpu0-(system|managed)/fault", r"transfer/gpu0-(pageable|managed)/fault"),
        ("alloc/malloc*", "alloc/pageable*"),
        ("(alloc|latency)/malloc.*", "(alloc|latency)/pageable.*"),
        (r"alloc/\wc", r"alloc/\wc"),
        ("driver/malloc.*", "driver/malloc.*"),
        ("stream/gpu0/triad|latency/malloc-cpu/chase", "stream/gpu0/triad|latency/pageable-cpu/chase"),
        ("alloc/m*-touched", "alloc/m*-touched"),
    ],
)
def test_patterns(old, new):
    assert old_names.pattern(old) == new and old_names.pattern(new) == new


def test_an_old_name_on_the_command_line_is_refused_with_the_new_one(tmp_path, capsys):
    write(tmp_path / "r.jsonl", records())
    assert cli.main(["nodes", str(tmp_path), "--workload", "latency/wc-*"]) == exits.BAD_INPUT
    said = capsys.readouterr().err
    assert "'latency/wc-*' is an earlier version's name; write 'latency/write_combined-*'" in said


REFERENCES = """
- workload: transfer/(wc|pinned)-gpu0/ce
  metrics: {rate: [1.0, -0.1, 0.1, B/s]}
- workload: stream/gpu0/triad
  axes: {bytes: 1024, memory: malloc}
  metrics: {rate: [2.0, -0.1, 0.1, B/s]}
- workload: faults/random
  axes: {memory: huge}
  metrics: {rate: [3.0, -0.1, 0.1, B/s]}
- workload: faults/(random|strided)
  axes: {memory: small}
  metrics: {rate: [4.0, -0.1, 0.1, B/s]}
"""


def test_references_with_old_names_hold_for_new_records(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text(REFERENCES, encoding="utf-8")
    entries = lookup.load_file(path)

    def value(workload, **axes):
        found = lookup.find(entries, {"workload": workload}, axes)
        return found["rate"].value if found else None

    assert value("transfer/write_combined-gpu0/ce") == 1
    assert value("stream/gpu0/triad", bytes=1024, memory="pageable") == 2
    assert value("stream/gpu0/triad", bytes=1024, memory="device") is None
    assert value("faults/random", memory="pageable", pages="huge") == 3
    assert value("faults/strided", memory="pageable", pages="small") == 4
    assert value("faults/strided", memory="managed", pages="small") is None


INDEXED = """
$index: [partition, arch, driver, compiler]
$fingerprints: {}
p:
  sm_90:
    "1":
      gcc:
        - {workload: %s, version: 1, axes: {memory: %s}, metrics: {rate: [1.0, -0.1, 0.1, B/s]}}
"""


def test_what_update_wrote_earlier_is_replaced_and_not_doubled(tmp_path):
    path = tmp_path / "measured-p.yaml"
    path.write_text(INDEXED % ("alloc/malloc-touched", "wc"), encoding="utf-8")
    tree, _ = measured.read(path)
    [(key, entry)] = tree["p", "sm_90", "1", "gcc"].items()
    assert (entry["workload"], entry["axes"]) == ("alloc/pageable-touched", {"memory": "write_combined"})
    assert key == measured.case_key(entry)
    assert "malloc" not in measured.merged(path, {}, {})


def test_levels_of_an_index_may_be_workloads(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text("$index: [workload]\nalloc/malloc:\n- metrics: {alloc: [1.0, -0.1, 0.1, s]}\n", encoding="utf-8")
    assert lookup.find(lookup.load_file(path), {"workload": "alloc/pageable"}, {})


def test_weights_with_old_names(tmp_path):
    path = tmp_path / "w.json"
    weights = {
        "transfer/wc-gpu0/ce rate": 1,
        "stream/* rate memory=malloc size=small": 2,
        "faults/random time memory=huge": 3,
    }
    path.write_text(json.dumps({"metrics": weights}), encoding="utf-8")
    assert score.load_weights(path) == {
        "transfer/write_combined-gpu0/ce rate": 1, "stream/* rate memory=pageable size=small": 2,
        "faults/random time memory=pageable pages=huge": 3,
    }  # fmt: skip


def test_two_weights_that_become_one_name_are_refused(tmp_path):
    path = tmp_path / "w.json"
    path.write_text(json.dumps({"metrics": {"alloc/wc alloc": 1, "alloc/write_combined alloc": 2}}), encoding="utf-8")
    with pytest.raises(Error, match=r"alloc/write_combined alloc.*twice"):
        score.load_weights(path)


def test_noise_that_an_earlier_version_wrote(tmp_path):
    path = tmp_path / "noise.json"
    series = dict.fromkeys(measurements.SERIES) | {
        "workload": "faults/random",
        earlier.AXES: '{"bytes":1,"memory":"huge"}',
    }
    path.write_text(json.dumps([series | {"between": 0.1}]), encoding="utf-8")
    [key] = earlier.load_noise(path)[0]
    assert key[measurements.SERIES.index("axes")] == '{"bytes":1,"memory":"pageable","pages":"huge"}'
