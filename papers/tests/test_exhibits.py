"""Reproduction of the papers: the page agrees with the records, and each invalid table is refused with one sentence."""

import json
import pathlib
import re
import subprocess
import sys

import pytest
from histories import record, write

from isthmus import Error
from isthmus_papers import exhibits, published
from isthmus_papers.figures.command import FIGURES

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "papers/data/published/exhibits.yaml"
PART = """
papers:
  - name: P
    title: A paper
    exhibits:
      - exhibit: Figure 1
        what: something
        drawn: a-figure
        parts:
          - {what: sizes, records: {workload: transfer/*, metric: time, bytes: [1, 2], streams: [1, 2]}%s}
"""


def test_the_page_is_made_of_the_records():
    done = subprocess.run([sys.executable, ROOT / "papers/exhibits", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_five_papers_and_all_their_exhibits():
    papers = exhibits.load(TABLE)
    assert {paper.name: len(paper.exhibits) for paper in papers} == {
        "Comm|Scope": 9, "MI300A": 10, "pipelining": 13, "UVM batches": 15, "GPUVM": 10,
    }  # fmt: skip
    notebooks = {path.stem for path in (ROOT / "papers/notebooks").glob("*.py")}
    assert {e.notebook for paper in papers for e in paper.exhibits} - {None} <= notebooks


@pytest.fixture(scope="module")
def committed():
    return exhibits.measured([ROOT / "papers/data"])


def unknown(papers, rows):
    """Yields workloads, axes, metrics and presets of the table that exist neither in a record nor in the program."""
    catalogue = json.loads((ROOT / "reframe/checks/catalogue.json").read_text(encoding="utf-8"))
    fields = {entry["name"]: set(entry["axes"]) for entry in catalogue["workloads"]}
    metrics = {exhibits.EVERY_BATCH, *(row["metric"] for row in rows)}
    metrics = metrics.union(*(entry["metrics"] for entry in catalogue["workloads"]))
    pages = [*(ROOT / "analysis/isthmus/profiles").glob("*.py"), ROOT / "docs/profiling.md"]
    profiled = "".join(path.read_text("utf-8") for path in pages)
    for row in rows:
        fields.setdefault(row["workload"], set()).update(json.loads(row["axes"] or "{}"))
    series = {"workload", "metric", "placement", "staging", "mode", "size", "preset"}
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.[ch]pp"))
    parts = [part for paper in papers for exhibit in paper.exhibits for part in exhibit.parts]
    for wanted in (dict(part.wanted) for part in parts if part.wanted):
        for workload in wanted["workload"]:
            yield from {workload} - set(fields)
            yield from set(wanted) - series - fields.get(workload, set())
        for metric in set(wanted["metric"]) - metrics:
            if f'"{metric}"' in sources:  # metric of a workload that depends on the machine, so the catalogue lacks it
                continue
            if not metric.startswith("profiled_") or not re.search(rf"[\"`](profiled_)?{metric[9:]}[\"`]", profiled):
                yield metric
        yield from (preset for preset in wanted.get("preset", ()) if f'"{preset}"' not in sources)


def test_what_is_looked_for_exists_somewhere(tmp_path, committed):
    """A mistyped workload, axis, metric or preset would be reported as missing forever."""
    assert not list(unknown(exhibits.load(TABLE), committed))
    text = TABLE.read_text(encoding="utf-8")
    for right, wrong in (
        ("gpu_threads:", "threads_gpu:"), ("apps/lud", "apps/lude"), ("paper-fig6,", "paper-fig60,"),
        ("gpu_relative", "gpu_relation"), ("profiled_global_rate", "profiled_local_rate"),
    ):  # fmt: skip
        assert set(unknown(read(tmp_path, text.replace(right, wrong)), committed)) == {wrong.rstrip(":,")}


def drawn_by(notebook):
    """Returns the figures and tables that the headings of a notebook name."""
    lines = (ROOT / f"papers/notebooks/{notebook}.py").read_text(encoding="utf-8").splitlines()
    heads = (re.match(r"# ## (Figure|Table)s? ([\d, and]+)", line) for line in lines)
    return {f"{head[1]} {number}" for head in heads if head for number in re.findall(r"\d+", head[2])}


def test_a_linked_notebook_draws_the_exhibit(committed):
    page = (ROOT / "papers/exhibits.md").read_text(encoding="utf-8")
    linked = re.findall(r"\| (\w+ \d+) \|.*\(notebooks/([\w-]+)\.ipynb", page)
    assert len(linked) > 15
    assert not [(exhibit, notebook) for exhibit, notebook in linked if exhibit not in drawn_by(notebook)]


def read(tmp_path, text):
    path = tmp_path / "table.yaml"
    path.write_text(text)
    return exhibits.load(path)


def measured(tmp_path, pairs, jobs=1, **changes):
    cases = [
        record(0.001, job=str(job), workload="transfer/a-b/ce", axes={"bytes": b, "streams": s}, **changes)
        for b, s in pairs for job in range(jobs)
    ]  # fmt: skip
    return exhibits.measured([write(tmp_path / "r", cases)])


ALL = [(1, 1), (1, 2), (2, 1), (2, 2)]


@pytest.mark.parametrize(
    "pairs, verdict", [(ALL, "in full"), (ALL[:3], "in part"), ([(1, 1)], "in part"), ([(3, 1)], "not yet")]
)
def test_every_combination_must_be_there(tmp_path, pairs, verdict):
    papers = read(tmp_path, PART % "")
    rows = measured(tmp_path, pairs)
    found = exhibits.find(papers[0].exhibits[0].parts[0], rows)
    assert exhibits.verdict([found]) == verdict and found.there == len(set(pairs) & set(ALL))
    assert f"| Figure 1 | something | {verdict} |" in exhibits.page(papers, exhibits.Sources(rows))


@pytest.mark.parametrize("pairs, verdict", [(ALL, "as far as possible"), (ALL[:3], "in part"), ([(3, 1)], "not yet")])
def test_what_is_impossible_here_keeps_no_exhibit_from_being_done(tmp_path, pairs, verdict):
    (paper,) = read(tmp_path, PART % "" + "          - {what: the rest, impossible: no such machine}\n")
    rows = measured(tmp_path, pairs)
    assert exhibits.verdict([exhibits.find(part, rows) for part in paper.exhibits[0].parts]) == verdict


def test_the_missing_half_is_named(tmp_path):
    page = exhibits.page(read(tmp_path, PART % ""), exhibits.Sources(measured(tmp_path, [(1, 1), (1, 2)])))
    assert "◐ sizes: 2 of 4 cases; no record of bytes 2 | ✓ host n1; " in page


NINE = [(b, s) for b in (1, 2, 3) for s in (1, 2, 3)]


@pytest.mark.parametrize("without, said", [
    ([(2, 1), (2, 2), (2, 3)], "bytes 2"),
    ([(2, 1), (2, 2), (2, 3), (1, 1)], "bytes 2; bytes 1 with streams 1"),
    ([(1, 3), (2, 3), (3, 3), (2, 1), (2, 2), (2, 3)], "bytes 2; streams 3"),
    ([(1, 2), (1, 3)], "bytes 1 with streams 2, 3"),
    ([(1, 2), (2, 3)], "some of bytes 1, 2 with streams 2, 3"),
    ([(1, 1), (2, 2), (3, 3)], "some of the others"),
])  # fmt: skip
def test_what_is_missing_is_said_without_what_is_there(tmp_path, without, said):
    papers = read(tmp_path, (PART % "").replace("[1, 2]", "[1, 2, 3]"))
    rows = measured(tmp_path, [pair for pair in NINE if pair not in without])
    assert exhibits.find(papers[0].exhibits[0].parts[0], rows).lacking == said


def test_few_files_are_named(tmp_path):
    """Files that cover most come first; a file whose records are also in another file is omitted."""
    for name, pairs in (("a", ALL[:1]), ("b", ALL[:3]), ("c", ALL[3:])):
        cases = [record(0.001, job=name, workload="transfer/a-b/ce", axes={"bytes": b, "streams": s}) for b, s in pairs]
        write(tmp_path / "r", cases, f"{name}.jsonl")
    papers, rows = read(tmp_path, PART % ""), exhibits.measured([tmp_path / "r"])
    assert exhibits.find(papers[0].exhibits[0].parts[0], rows).files == {"r/b.jsonl", "r/c.jsonl"}


def test_runs_are_processes(tmp_path):
    papers = read(tmp_path, PART % ", runs: 3")
    [part] = papers[0].exhibits[0].parts
    few = measured(tmp_path, ALL, jobs=2)
    assert not exhibits.find(part, few).there
    assert "✗ sizes: no record of 3 runs |" in exhibits.page(papers, exhibits.Sources(few))
    assert exhibits.find(part, measured(tmp_path, ALL, jobs=3)).whole


def on_hosts(tmp_path, hosts, jobs=1):
    """Returns the rows of the four cases, each on the host of its name."""
    cases = [
        record(0.001, job=f"{job} on {host}", run__node=host, host__boot_id=host, workload="transfer/a-b/ce",
               axes={"bytes": b, "streams": s})
        for (b, s), host in zip(ALL, hosts, strict=True) for job in range(jobs)
    ]  # fmt: skip
    return exhibits.measured([write(tmp_path / "r", cases)])


STATED = published.Figure("an-id", "1b", "section 1", "M", "what", 2.0, None, "1", 1.0, "value")


@pytest.mark.parametrize("hosts, more, verdicts, lacking", [
    (["n1"] * 4, "", {"an-id": "contradicts"}, ""),
    (["n1"] * 3 + ["n2"], "", {"an-id": "agrees"}, "✗ 2 hosts, none of which has all of these cases"),
    (["n1"] * 3 + ["n2"], "\n        any_host: it is a count", {"an-id": "agrees"}, ""),
    (["n1"] * 4, "\n        processes: 2", {"an-id": "agrees"}, "2 processes and 1 sample are required"),
    (["n1"] * 4, "\n        samples: 99", {"an-id": "agrees"}, "1 process and 99 samples are required"),
    (["n1"] * 4, "\n        drawn: ''", {"an-id": "agrees"}, "✗ not drawn on the paper's axes"),
    (["n1"] * 4, "", {"an-id": "no record"}, "✗ stated: 1 no record (an-id)"),
    (["n1"] * 4, "", {}, "✗ stated: 1 no record (an-id)"),
])  # fmt: skip
def test_in_full_needs_one_host_samples_a_figure_and_verdicts(tmp_path, hosts, more, verdicts, lacking):
    text = (PART % "").replace("\n        drawn: a-figure", more if "drawn" in more else f"\n        drawn: f{more}")
    text = text.replace("title: A paper", "title: A paper\n    stated: p\n    notebook: book")
    papers = read(tmp_path, text)
    sources = exhibits.Sources(on_hosts(tmp_path, hosts), {"p": {"an-id": STATED}}, {"book": verdicts})
    page = exhibits.page(papers, sources)
    assert f"| something | [{'in part' if lacking else 'in full'}](notebooks/book.ipynb) |" in page
    assert lacking in page and page.count("✗ ") == bool(lacking)


def test_the_host_with_most_processes_is_shown(tmp_path):
    rows = on_hosts(tmp_path, ["n1"] * 4) + on_hosts(tmp_path / "more", ["n2"] * 4, jobs=2)
    page = exhibits.page(read(tmp_path, PART % ""), exhibits.Sources(rows))
    assert "✓ host n2; " in page and "✓ at least 2 processes and " in page and "r/" in page


def test_what_draws_an_exhibit_exists():
    """A mistyped figure would count as drawn forever."""
    for paper in exhibits.load(TABLE):
        for exhibit in filter(lambda each: each.drawn, paper.exhibits):
            own = exhibit.drawn == exhibit.notebook and exhibit.name in drawn_by(exhibit.notebook)
            assert exhibit.drawn in FIGURES or own, f"{paper.name}, {exhibit.name}"


def test_every_stated_value_belongs_to_an_exhibit():
    for paper in exhibits.load(TABLE):
        names = {exhibit.name.removeprefix("Figure ") for exhibit in paper.exhibits}
        stated = published.load(TABLE.with_name(f"{paper.stated}.csv")).values()
        assert {each.figure.rstrip("abcdef") for each in stated} - names <= {"-"}


def test_a_notebook_without_output_is_one_sentence(tmp_path):
    (tmp_path / "n.ipynb").write_text("{}")
    with pytest.raises(Error, match=r"n\.ipynb: not a notebook"):
        exhibits.verdicts_of(tmp_path / "n.ipynb")


@pytest.mark.parametrize("changes", [{"error": "it broke"}, {"verify__status": "fail"}, {"emulated": True}])
def test_what_failed_or_is_emulated_reproduces_nothing(tmp_path, changes):
    kept = record(0.001, workload="test/other")
    bad = [record(0.001, workload="transfer/a-b/ce", axes={"bytes": b, "streams": s}, **changes) for b, s in ALL]
    rows = exhibits.measured([write(tmp_path / "r", [kept, *bad])])
    assert not exhibits.find(read(tmp_path, PART % "")[0].exhibits[0].parts[0], rows).there


def test_impossible_is_only_what_is_impossible_in_all_parts():
    impossible, missing = (exhibits.find(exhibits.Part("x", kind, "why"), []) for kind in ("impossible", "missing"))
    assert exhibits.verdict([impossible, impossible]) == "impossible here"
    assert exhibits.verdict([impossible, missing]) == "not yet"


@pytest.mark.parametrize("text, why", [
    ("papers: 3", "not a table of exhibits"),
    ("papers: [", "not YAML"),
    (PART % ", missing: x", "one of records, missing, impossible"),
    (PART % ", notes: x", "not notes"),
    ((PART % "").replace("metric: time, ", ""), "chosen by workload and metric"),
    ((PART % "").replace("records: {", "records_of: {"), "one of records"),
])  # fmt: skip
def test_a_wrong_table_is_one_sentence(tmp_path, text, why):
    with pytest.raises(Error, match=why):
        read(tmp_path, text)


def test_a_stale_page_fails(tmp_path):
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers/exhibits").write_bytes((ROOT / "papers/exhibits").read_bytes())
    for name in ("analysis", "schema", "scripts", "papers/isthmus_papers", "papers/data", "papers/notebooks"):
        (tmp_path / name).symlink_to(ROOT / name)
    kept = (ROOT / "papers/exhibits.md").read_text(encoding="utf-8")
    (tmp_path / "papers/exhibits.md").write_text(kept.replace("in full", "in part", 3), encoding="utf-8")
    done = subprocess.run([sys.executable, tmp_path / "papers/exhibits", "--check"], capture_output=True, text=True)
    assert done.returncode == 1 and "stale" in done.stderr


@pytest.mark.parametrize("rows, columns, invalid, whole", [
    (30, ["transfer"], [], True),  # rows of the first sample
    (90, ["begin", "transfer"], [], True),  # rows of all tabled samples
    (20, ["transfer"], [], False),  # cut short
    (40, ["transfer"], [], False),
    (120, ["transfer"], [], False),  # programs write tables for at most three samples
    (30, ["begin"], [], False),  # from an earlier version, with moved bytes in another table, which may be truncated
    (30, ["transfer"], [0], False),  # the driver dropped events
])  # fmt: skip
def test_every_batch_is_there_where_the_table_has_as_many_rows(tmp_path, rows, columns, invalid, whole):
    case = record(0.001, workload="faults/sgemm", profiler="uvm")
    [time] = case["metrics"]
    case["metrics"] = [
        time | {"name": "uvm_batches", "unit": "1", "samples": [30] * 4, "median": 30, "invalid": invalid}
    ]
    for name in ("uvm_migrations", "uvm_batches"):
        table = {"name": name, "columns": columns, "file": f"{name}.csv.gz", "rows": rows, "sha256": "0" * 64}
        case["tables"] = [*case.get("tables", []), table]
    found = exhibits.measured([write(tmp_path / "r", [case])])
    names = sorted(row["metric"] for row in found)
    assert names == (["uvm_batches", exhibits.EVERY_BATCH] if whole else ["uvm_batches"])
