"""Agreement of docs/uvm.md's statements on page faults of the second host with its records."""

import pathlib

import numpy
import pytest

from isthmus.records import fields, load
from isthmus_papers.batches import model, sampling

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "papers/data/h200/faults-second.jsonl.gz"
TEXT = " ".join((ROOT / "docs/uvm.md").read_text(encoding="utf-8").partition("## On a second host")[2].split())
PAPER = {"stream": ("3.93", "15.37"), "sgemm": ("6.96", "9.81")}
PAGES = 3 * 64 * 2**20 // 4096


@pytest.fixture(scope="module")
def found():
    return load.read(DATA)


def test_every_count_is_whole_and_no_record_is_emulated_or_wrong(found):
    assert len(found) == 90 and not any(each["emulated"] for each in found)
    assert {each["verify"]["status"] for each in found} == {"pass"}
    codes = {warning["code"] for each in found for warning in each["warnings"]}
    assert not codes & {"uvm_dropped", "uvm_clock", "driver_prefetch_on", "faults_wrong"}


def test_table_3_is_what_the_page_says(found):
    blocks, faults, shares, samples = [], [], [], 0
    for name, theirs in PAPER.items():
        [record] = [each for each in found if each["workload"] == f"faults/{name}" and each["preset"]]
        assert set(fields.samples(record, "uvm_pages")) == {PAGES}
        assert set(fields.samples(record, "uvm_fault_bytes")) == {256 * 2**20}
        assert set(fields.samples(record, "uvm_prefetch_bytes")) == {0}
        samples += len(fields.samples(record, "uvm_pages"))
        blocks.append(f"{name} {numpy.mean(fields.samples(record, 'uvm_batch_blocks')):.2f} ({theirs[0]})")
        faults.append(f"{name} {numpy.mean(fields.samples(record, 'uvm_block_faults')):.2f} ({theirs[1]})")
        service = numpy.median(fields.samples(record, "uvm_service_time")) / numpy.median(
            fields.samples(record, "kernel")
        )
        shares.append(f"{name} {service:.0%}")
    assert samples == 4 and "49,152 of 49,152 in each of four samples" in TEXT and PAGES == 49_152
    assert ", ".join(blocks) in TEXT and ", ".join(faults) in TEXT and ", ".join(shares) in TEXT


def test_the_model_says_what_the_page_says():
    samples, _, _ = sampling.read([DATA], emulated=False, absent=[])
    [fit] = model.fits(samples)
    assert fit.explained_left >= 0.9
    assert f"what is kept, {fit.batches:,} of {fit.jobs} |" in TEXT
    assert f"| {fit.explained:.1%} | |" in TEXT and f"| {fit.explained_left:.1%} | |" in TEXT
    terms = (("faults", 1e9, "ns"), ("blocks", 1e6, "µs"), ("first_visits", 1e6, "µs"), ("pieces", 1e9, "ns"))
    for name, scale, unit in terms:
        term = sampling.TERMS.index(name)
        assert fit.status(term) == "identified" and fit.low[term] > 0
        value, low, high = (f"{each[term] * scale:#.3g}".rstrip(".") for each in (fit.values, fit.low, fit.high))
        assert f"| {value} {unit} | {low} to {high} |" in TEXT, name
    errors = [abs(kernel.error) for kernel in fit.kernels]
    assert numpy.median(errors) <= 0.25
    assert f"{numpy.median(errors):.1%} of {len(errors)} |" in TEXT
    assert f"{max(errors):.0%} to 46% too long" in TEXT


def test_solvers_and_fft_are_what_the_page_says():
    section = (ROOT / "docs/uvm.md").read_text(encoding="utf-8").partition("## Solvers and FFT on an H100 host")[2]
    found = load.read(DATA.parents[1] / "h100-x2/faults.jsonl.gz")
    records = {each["workload"]: each for each in found if each["workload"] != "faults/peers"}
    rows = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("| `")]
    assert len(rows) == len(records) == 3
    for row in rows:
        name, *figures = [cell.strip(" `") for cell in row.strip("|").split("|")]
        found = {metric: numpy.median(fields.samples(records[name], f"uvm_{metric}")) for metric in (
            "batches", "batch_faults", "batch_blocks", "block_faults", "service_time", "between_time",
            "fault_bytes", "prefetch_bytes",
        )}  # fmt: skip
        milliseconds = [f"{1000 * found[metric]:.1f}" for metric in ("service_time", "between_time")]
        counts = [f"{found[metric]:.{digits}f}" for metric, digits in zip(
            ("batches", "batch_faults", "batch_blocks", "block_faults"), (0, 0, 1, 0), strict=True
        )]  # fmt: skip
        assert figures == [*counts, *milliseconds], name
        assert "brings 403 MB" in section and round((found["fault_bytes"] + found["prefetch_bytes"]) / 1e6) == 403
