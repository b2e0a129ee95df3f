"""Tests of the doubts shown next to a figure: the list of codes, the words for a record, and usual values."""

import copy
import json
import pathlib
import re

import pytest
from histories import record, write

from isthmus import cli
from isthmus.records import doubts, load, measurements, store, validate, withheld
from isthmus.references import usual

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORDS = [json.loads(line) for line in (ROOT / "tests/doubts.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("case", WORDS, ids=lambda case: case["words"] or "nothing")
def test_the_words_of_a_record_are_those_of_the_other_program(case):
    """Compares the words for a record with a file that the tests of isthmus-bench read as well."""
    [metric] = case["record"]["metrics"]
    assert doubts.text(case["record"], metric) == case["words"]


def codes_in_the_tree() -> set[str]:
    """Returns the codes of all warnings that the sources can write."""
    pattern = re.compile(
        r'(?:warn|invalidate)\(\s*"(\w+)"|Warning\{\s*"(\w+)"|push_back\(\s*\{"(\w+)", "|"code": "([a-z]\w+)"'
    )
    sources = [*(ROOT / "src").rglob("*.[ch]pp"), *(ROOT / "reframe").rglob("*.py")]
    found = (match for path in sources for match in pattern.finditer(path.read_text(encoding="utf-8")))
    return {code for match in found for code in match.groups() if code}


def test_every_warning_that_sources_write_has_words():
    found = codes_in_the_tree()
    assert {"foreign_processes", "latch_timeout", "shared_node", "uvm_dropped", "below_baseline"} <= found
    assert found <= set(doubts.codes())


def test_words_are_short_and_codes_that_explain_a_low_figure_are_known():
    known = json.loads((ROOT / "schema/doubts.json").read_text(encoding="utf-8"))
    assert all(len(entry["words"]) <= 24 for entry in doubts.codes().values())
    assert set(known["low"]["causes"]) <= set(doubts.codes())


def test_usual_shares_are_those_of_the_kept_records():
    """Checks that schema/usual_shares.json is what scripts/make-usual-shares would write."""
    files, skipped = load.find(ROOT / "papers/data")
    assert not skipped
    assert usual.text(usual.entries(files)) == (ROOT / "schema/usual_shares.json").read_text(encoding="utf-8")


def test_records_that_disagree_make_nothing_usual():
    def reached(*shares):
        return [usual._Reached(1 << 20, share, "here") for share in shares]

    assert usual._usual(reached(0.8, 0.85, 0.9))[:2] == (1 << 20, 0.85)
    assert usual._usual(reached(0.3, 0.85, 0.9)) is None
    assert usual._usual(reached(0.85, 0.9)) is None
    large = [usual._Reached(1 << 26, 0.8, "here")] * 3
    assert usual._usual([*reached(0.1), *large])[:2] == (1 << 23, 0.8)


def test_a_reference_of_equals_comes_before_what_is_usual():
    case = copy.deepcopy(WORDS[0]["record"])
    [metric] = case["metrics"]
    assert doubts.text(case, metric, reference=100e9) == "low, 55% of its reference: the record does not say why"
    metric |= {"median": 20e9, "share": 0.3}
    assert doubts.text(case, metric, reference=21e9) == ""
    metric |= {"better": "lower"}
    assert doubts.text(case, metric, reference=10e9) == "low, 50% of its reference: the record does not say why"


def test_the_table_of_records_has_the_codes_of_each_metric(tmp_path):
    """Compares the table's codes with those that of_metric() returns, for committed records of all kinds."""
    files = ["end_to_end/crowded.jsonl.gz", "h200/alloc.jsonl.gz", "h200-x2/mpi.jsonl.gz", "h100/paging.jsonl.gz"]
    paths = [ROOT / "papers/data" / name for name in files]
    wanted = sorted(
        (case["run"]["id"], case["workload"], metric["name"], doubts.of_metric(case, metric))
        for path in paths
        for case in load.iterate(path)
        for metric in case["metrics"]
    )
    columns = ("run_id", "workload", "metric", "doubts")
    with store.open_store(paths, wanted=columns, emulated=True, profiled=True) as opened:
        rows = opened.rows("SELECT run_id, workload, metric, doubts FROM measurements WHERE metric IS NOT NULL")
    found = sorted((row["run_id"], row["workload"], row["metric"], doubts.in_order(row["doubts"])) for row in rows)
    assert found == wanted
    assert {code for *_, codes in found for code in codes} >= {"foreign_processes", "timer_coarse", "below_baseline"}


# --- figures that are withheld ---


def phases(**medians) -> list[dict]:
    """Returns metrics with the given medians and three samples that are 0.1% apart, and a metric `overlap` of 80."""
    found = [
        {"name": name, "unit": "s", "timer": "event", "median": value, "samples": [value * 0.999, value, value * 1.001]}
        for name, value in medians.items()
    ]
    return [*found, {"name": "overlap", "unit": "1", "timer": "none", "median": 80.0, "samples": [80.0]}]


@pytest.mark.parametrize(
    ("found", "unsure"),
    [
        (phases(**{"in": 0.1, "kernel": 0.1, "out": 0.1, "overlapped": 0.12}), False),
        (phases(**{"in": 0.001, "kernel": 0.1, "out": 0.001, "overlapped": 0.12}), True),  # hardly any copies to hide
        (phases(kernel=0.1, out=0.1, overlapped=0.12), False),
        (phases(kernel=0.1, out=0.012, overlapped=0.12), True),  # 1% of 0.1 plus 1% of 0.12 exceeds a tenth of 0.012
        (phases(**{"in": 0.1, "kernel": 0.1, "out": 0.1}), True),  # the metric `overlapped` is missing
        (phases(kernel=0.1, overlapped=0.1), True),
    ],
)
def test_overlap_is_withheld_where_there_is_little_to_hide(found, unsure):
    assert withheld.has_unsure_overlap(found) is unsure


def test_overlap_is_withheld_of_single_samples():
    found = phases(**{"in": 0.1, "kernel": 0.1, "out": 0.1, "overlapped": 0.12})
    found[0]["samples"] = [0.1]
    assert withheld.has_unsure_overlap(found)


def test_kept_records_load_without_their_wild_overlaps():
    """Loads committed records without the overlaps that their samples do not support. All others must be between -1 and
    1.1."""
    paths = [ROOT / "papers/data/h200/apps.jsonl.gz", ROOT / "papers/data/h100/repetition.jsonl.gz"]
    read = sorted(
        metric["median"]
        for path in paths
        for case in load.iterate(path)
        for metric in case["metrics"]
        if metric["name"] == "overlap"
    )
    with store.open_store(paths, wanted=("metric", "median"), profiled=True) as opened:
        rows = opened.rows("SELECT median FROM measurements WHERE metric = 'overlap' ORDER BY median")
    assert [row["median"] for row in rows] == read
    assert len(read) > 20 and read[0] > -1 and read[-1] < 1.1


def test_a_table_says_them_below_each_figure(tmp_path, capsys):
    """Uses a committed record of a transfer that ran next to another process, of which the table must warn."""
    case = load.read(ROOT / "papers/data/h200/transfer.jsonl.gz")
    case = next(each for each in case if each["workload"] == "transfer/pinned-gpu0/ce" and not each["skipped"])
    case["axes"]["bytes"] = 1 << 30
    rate = next(metric for metric in case["metrics"] if metric["name"] == "rate")
    rate |= {"median": 29.1e9, "samples": [29.1e9] * 10, "invalid": [], "share": 0.462, "bytes_moved": 1 << 30}
    rate |= {"limit": {"value": 63e9, "unit": "B/s", "source": "PCIe 5 x16"}, "within_job": [29.0e9, 29.2e9]}
    case["warnings"] = [{"code": "foreign_processes", "message": "other processes (pid 7)", "samples": None}]
    file = write(tmp_path / "r", [case])
    words = "low, 53% of the usual 87% of PCIe: others on the GPU"
    assert cli.main(["table", str(file)]) == 0
    said = capsys.readouterr().out
    assert "29.1!" in said and f"! pinned→gpu0: {words}" in said and max(map(len, said.splitlines())) <= 80
    assert cli.main(["table", str(file), "--format", "json"]) == 0
    rows = {row["metric"]: row["doubts"] for row in json.loads(capsys.readouterr().out)}
    assert rows["rate"] == words and rows["time"] == "others on the GPU"


def test_a_record_far_below_its_equals_is_low_without_a_limit(tmp_path, capsys):
    cases = [record(0.001 * (3 if job == 5 else 1 + job / 1000), job=str(job)) for job in range(6)]
    for case in cases:
        case |= {"placement": None, "staging": None, "mode": None}
    folder = write(tmp_path / "r", cases)
    assert cli.main(["table", str(folder)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "low, 33% of the median of its equals (1 of 6): the record does not say why" in said


def of_six_jobs(folder, **last):
    """Writes records of six jobs with a rate whose share is usual for its path. The last has the fields `last`."""
    cases = [
        record(55e9 + job, job=str(job), workload="transfer/pinned-gpu0/ce", axes={"bytes": 1 << 30}, placement=None,
               staging=None, mode=None)
        for job in range(6)
    ]  # fmt: skip
    for case in cases:
        limit = {"value": 63e9, "unit": "B/s", "source": "PCIe 5 x16"}
        case["metrics"][0] |= {"name": "rate", "unit": "B/s", "better": "higher", "share": 0.87, "limit": limit}
        case["metrics"][0]["bytes_moved"] = 1 << 30
    warnings = last.pop("warnings", [])
    cases[-1]["metrics"][0] |= last
    cases[-1]["warnings"] = [{"code": code, "message": code, "samples": None} for code in warnings]
    return write(folder, cases)


@pytest.mark.parametrize(
    ("last", "words"),
    [
        ({"median": 28e9, "share": 0.44}, "low, 51% of the usual 87% of PCIe (1 of 6): the record does not say why"),
        ({"median": 28e9, "share": None, "limit": None},
         "low, 51% of the median of its equals (1 of 6): the record does not say why"),
        ({"median": 28e9, "share": 0.44, "warnings": ["clocks_held"]},
         "low, 51% of the usual 87% of PCIe (1 of 6): clocks held back"),
        ({"warnings": ["clocks_held"]}, "clocks held back (1 of 6)"),
    ],
)  # fmt: skip
def test_a_doubtful_record_stays_doubtful_among_good_ones(tmp_path, capsys, last, words):
    """Makes one of six jobs doubtful. The median over all is still good, so each job must be checked before the median
    is computed."""
    folder = of_six_jobs(tmp_path / "a", **last)
    assert cli.main(["table", str(folder)]) == 0
    assert words in " ".join(capsys.readouterr().out.split())
    assert cli.main(["report", str(folder), "-o", str(tmp_path / "page.html")]) == 0
    assert words in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert cli.main(["compare", str(folder), str(of_six_jobs(tmp_path / "b"))]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert words in said


def test_the_skipped_cases_that_a_table_counts_are_all_of_them(capsys):
    """Checks that all skipped cases are counted, including the thirty of 38 that have no bytes moved."""
    path = str(ROOT / "papers/data/h200/fault.jsonl.gz")
    assert cli.main(["table", path]) == 0
    found = re.search(r"Skipped: (\d+) of (\d+) cases", capsys.readouterr().out)
    assert cli.main(["table", path, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert int(found[1]) == sum((row["outcome"] or "").startswith("skipped") for row in rows) > 8


def test_a_folder_without_the_lists_says_so(tmp_path, monkeypatch):
    (tmp_path / "record.schema.json").write_text("{}")
    monkeypatch.setenv("ISTHMUS_SCHEMA", str(tmp_path))
    with pytest.raises(validate.RecordError, match=r"doubts\.json: no such file"):
        validate.beside_schema("doubts.json")


def test_columns_are_of_every_metric(tmp_path):
    assert {"doubts", "moved"} <= set(measurements.COLUMNS)
    folder = write(tmp_path / "r", [record(0.001)])
    with store.open_store([folder]) as opened:
        assert opened.rows("SELECT doubts FROM measurements WHERE metric IS NOT NULL")[0]["doubts"] is not None
