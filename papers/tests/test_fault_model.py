"""`isthmus faults model`: known coefficients are recovered, a planted change is named, inseparable terms are
refused."""

import csv
import gzip
import hashlib
import json
import os
import subprocess

import fault_streams
import numpy
import pytest
from histories import record

from isthmus import cli, exits
from isthmus.faults import tracefile
from isthmus.records import load
from isthmus_papers.batches import model, sampling
from isthmus_papers.batches.sampling import TERMS, Sample

# Seconds per fault, block, byte, first visit, page that the host had mapped, and piece of a range group.
TRUE = numpy.array([0.4e-6, 3e-6, 20e-12, 25e-6, 0.15e-6, 0.05e-6])
# Amounts of each pattern: faults per batch, faults per block, bytes per fault, share of blocks visited for the first
# time, share of mapped pages, pieces per block.
PATTERNS = {
    "regular": (256, 6, 40_000, 0.3, 1.0, 0), "random": (220, 1.05, 4096, 0.9, 1.0, 0),
    "stream": (120, 15, 60_000, 0.1, 0.5, 0), "sgemm": (80, 10, 9000, 0.05, 0.9, 0),
    "peer": (150, 4, 20_000, 0.2, 0.0, 0), "within groups": (200, 5, 4096, 0.2, 1.0, 512),
    "within wide groups": (200, 5, 30_000, 0.2, 1.0, 64),
}  # fmt: skip


def sample(pattern, job, coefficients=TRUE, *, driver="580.1", noise=0.03, count=60, seed=1):
    chance = numpy.random.default_rng([seed, job, sorted(PATTERNS).index(pattern)])
    faults, of_block, size, first, mapped, pieces = PATTERNS[pattern]
    faults = numpy.maximum(chance.poisson(faults, count), 1)
    blocks = numpy.maximum(numpy.round(faults / of_block * chance.uniform(0.8, 1.2, count)), 1)
    moved = numpy.round(faults * size * chance.uniform(0.7, 1.3, count) / 4096) * 4096
    features = numpy.stack(
        [faults, blocks, moved, chance.binomial(blocks.astype(int), first), numpy.round(moved / 4096 * mapped),
         blocks * pieces], axis=1
    ).astype("f8")  # fmt: skip
    scale = numpy.exp(0.01 * chance.standard_normal()) * numpy.exp(noise * chance.standard_normal(count))
    service = features @ coefficients * scale
    known = moved / 50e9
    return Sample(driver, f"job {job}", pattern, features, service, known, numpy.full(count, 4.0))


def samples(jobs=10, patterns=tuple(PATTERNS), **how):
    return [sample(pattern, job, **how) for job in range(jobs) for pattern in patterns]


def test_known_coefficients_come_back_within_their_intervals():
    [fit] = model.fits(samples())
    assert fit.found.kept == [0, 1, 2, 3, 4, 5] and not fit.found.together
    numpy.testing.assert_allclose(fit.values, TRUE, rtol=0.15)
    assert ((fit.low < TRUE) & (fit.high > TRUE)).all()
    assert fit.explained > 0.9 and fit.explained_left > 0.9
    assert {each.pattern for each in fit.left} == set(PATTERNS)
    assert all(abs(each.predicted / each.measured - 1) < 0.25 for each in fit.left)


def test_without_noise_they_come_back_exactly():
    [fit] = model.fits([
        Sample(s.driver, s.unit, s.pattern, s.features, s.features @ TRUE, s.transfer, s.moves) for s in samples(2)
    ])  # fmt: skip
    numpy.testing.assert_allclose(fit.values, TRUE, rtol=1e-6)
    assert fit.low is None and "intervals need 6 jobs" in fit.why_no_interval


def test_intervals_hold_the_truth_in_most_of_many_trials():
    inside = []
    for seed in range(40):
        [fit] = model.fits(samples(8, seed=seed, count=30))
        inside.append((fit.low < TRUE) & (fit.high > TRUE))
    assert 0.85 <= numpy.mean(inside) <= 1


@pytest.mark.parametrize("term", range(len(TERMS)))
def test_a_planted_change_of_one_coefficient_is_named(term):
    changed = TRUE.copy()
    changed[term] *= 2
    found = model.fits(samples() + samples(coefficients=changed, driver="590.2", seed=2))
    named, notes = model.changes(found)
    assert [each.term for *_, each in named] == [TERMS[term]] and not notes
    [(before, after, change)] = named
    assert (before, after) == ("580.1", "590.2")
    assert change.difference[0] < TRUE[term] < change.difference[1]


def test_no_change_is_named_where_there_is_none():
    false = 0
    for seed in range(30):
        found = model.fits(samples(8, count=30, seed=seed) + samples(8, count=30, seed=seed + 99, driver="590.2"))
        false += bool(model.changes(found)[0])
    assert false <= 4  # 5% of the comparisons are expected


def test_what_goes_together_with_both_drivers_is_compared_together():
    patterns = ("regular", "random")  # patterns in which all moved pages are mapped on the host
    changed = TRUE * [1, 1, 1, 1, 3, 1]
    later = samples(patterns=patterns, coefficients=changed, driver="590.2", seed=2)
    named, notes = model.changes(model.fits(samples(patterns=patterns) + later))
    assert [each.term for *_, each in named] == ["bytes and host_pages"]
    said = "580.1 and 590.2 are not compared in host_pages: the batches with 580.1 cannot distinguish it from bytes"
    assert said in notes


def test_what_goes_together_is_refused_with_its_partner():
    patterns = ("regular", "random")  # patterns in which all moved pages are mapped on the host
    [fit] = model.fits(samples(patterns=patterns))
    assert fit.status(2) == fit.status(4) == "together"
    assert fit.partners(4) == "bytes" and fit.partners(2) == "host_pages"
    assert fit.values[2] == pytest.approx(TRUE[2] + TRUE[4] / 4096, rel=0.15)
    assert [fit.status(term) for term in (0, 1, 3)] == ["identified"] * 3
    text = model._text([fit], [], [], [])
    assert text.count("not identifiable") == 2 and "cannot be distinguished from bytes" in text
    rows = {row["term"]: row for row in model._rows_of_fit(fit) if row["says"] == "coefficient"}
    assert "value" not in rows["bytes"] and "value" not in rows["host_pages"] and rows["faults"]["value"] > 0


def test_what_no_batch_has_is_said_and_not_called_zero():
    found = [sample("peer", job) for job in range(8)]
    [fit] = model.fits(found)
    assert fit.status(4) == "absent" and fit.left == []
    text = model._text([fit], [], [], [])
    assert "not there" in text and "nothing is known about its coefficient" in text and "only one pattern" in text


def test_a_pattern_that_alone_has_a_term_is_not_predicted():
    found = samples(patterns=("peer", "random"))
    [fit] = model.fits(found)
    [random] = [each for each in fit.left if each.pattern == "random"]
    assert "no other pattern has host_pages" in random.note


def test_a_coefficient_below_zero_is_doubted():
    [fit] = model.fits(samples(2, coefficients=TRUE * [1, 1, 1, -1, 1, 1]))
    assert fit.values[3] < 0 and "first_visits is estimated below 0" in model._text([fit], [], [], [])
    [fit] = model.fits(samples(2))
    assert "below 0" not in model._text([fit], [], [], [])


def test_kernels_of_programs_are_predicted_from_the_simple_patterns():
    found = []
    for each in samples(6):
        simple = each.pattern in ("regular", "random", "within groups", "peer", "stream")
        each.pattern = f"faults/{'regular' if simple else 'sgemm'} {each.pattern}"
        each.between = (len(each.service) - 1) * 1e-4
        each.kernel = None if simple else float(each.service.sum()) + each.between
        found.append(each)
    [fit] = model.fits(found)
    assert len(fit.kernels) == 12 and {each.batches for each in fit.kernels} == {60}
    assert all(abs(each.error) < 0.15 for each in fit.kernels)
    apart = [each for each in found if each.kernel]
    for each in apart:  # the model does not know the kernel's own work
        each.kernel *= 2
    [fit] = model.fits(found)
    assert all(-0.6 < each.error < -0.4 for each in fit.kernels)
    text = model._text([fit], [], [], [])
    assert "faults/sgemm sgemm" in text and "the median of 12 errors is" in text
    assert sum(row["says"] == "kernel" for row in model._rows_of_fit(fit)) == 12
    assert model.fits(apart)[0].kernels == []  # nothing to predict from


def test_service_over_transfer_by_the_size_of_moves():
    [fit] = model.fits(samples(2))
    sizes = {size for size, *_ in fit.sizes}
    assert sizes <= {1 << power for power in range(12, 24)} and len(sizes) > 2
    whole = sum(len(each.service) for each in samples(2))
    assert sum(count for _, count, _, _ in fit.sizes) == whole


# --- from files ---


def stream(job, coefficients=TRUE, pattern="regular"):
    """Returns a trace of a dense sweep or of scattered pages, in which some pages of a batch fault twice. The service
    time of each batch follows from `coefficients`."""
    chance = numpy.random.default_rng(job)
    made, seen = fault_streams.Stream(), set()
    for number in range(30):
        base = 0x7F0000000000 + (number // 2 << 26)  # each address twice
        neighbours = int(chance.integers(0, 16))
        if pattern == "regular":
            pages = fault_streams.dense(base, int(chance.integers(2, 9)) << 20)
        else:
            pages = base + numpy.sort(chance.choice(1 << 14, int(chance.integers(5, 60)), False)).astype("u8") * 4096
        again = numpy.concatenate([pages, pages[: chance.integers(0, len(pages))]])
        there = set((again >> numpy.uint64(21)).tolist())
        moved = len(again) * (1 + neighbours) * 4096
        work = numpy.array([len(again), len(there), moved, len(there - seen), moved / 4096, 0])
        seen |= there
        made.faults(again, of_batch=1000, nearby=neighbours, service=int(work @ coefficients * 1e9))
    return made.rows()


def batches_of(path):
    return sampling.of_trace(path, tracefile.read(path))


def test_traces_are_taken_apart_as_they_were_made(tmp_path):
    path = fault_streams.write(tmp_path / "a.1.uvm", stream(1))
    found, why = batches_of(path)
    assert not why and len(found.service) == 30
    features = found.features
    assert (features[:, 4] == features[:, 2] / 4096).all()
    assert features[::2, 3].tolist() == features[::2, 1].tolist()  # each block is new at its first visit
    assert 0 < features[1::2, 3].sum() < features[1::2, 1].sum()
    numpy.testing.assert_allclose(found.service, features @ TRUE, atol=2e-9)


def test_host_pages_are_not_those_that_were_evicted(tmp_path):
    base = 0x7F0000000000
    made = fault_streams.Stream()
    made.faults(fault_streams.dense(base, 2 << 20), of_batch=100)
    made.host(base, 2 << 20, evicted=True)
    made.faults(fault_streams.dense(base, 2 << 20), of_batch=100)
    found, _ = batches_of(fault_streams.write(tmp_path / "a.1.uvm", made.rows()))
    assert found.features[:, TERMS.index("host_pages")].tolist() == [512, 0]
    assert found.features[:, TERMS.index("first_visits")].tolist() == [1, 0]


def test_a_block_whose_pages_have_come_meanwhile_is_none_of_the_blocks_served(tmp_path):
    base = 0x7F0000000000
    made = fault_streams.Stream()
    made.faults(fault_streams.dense(base, 4 << 20), of_batch=100)
    late = fault_streams.Stream(now=made.now, batch=made.batch)
    late.faults(fault_streams.dense(base, 6 << 20), of_batch=1000)
    moves_of_new = [part for part in late.parts if part[0, 0] == fault_streams.TYPES["move"]]
    for part in moves_of_new:  # drops the moves of the first two blocks, which have already arrived
        late.parts[[part is each for each in late.parts].index(True)] = part[64:]
    rows = numpy.concatenate([made.rows(), late.rows()])
    found, _ = batches_of(fault_streams.write(tmp_path / "a.1.uvm", rows))
    assert found.features[:, TERMS.index("blocks")].tolist() == [2, 1]
    assert found.features[:, TERMS.index("faults")].tolist() == [64, 96]
    still = numpy.concatenate([part for part in late.parts if part[0, 0] != fault_streams.TYPES["move"]])
    found, _ = batches_of(fault_streams.write(tmp_path / "b.1.uvm", still))
    assert found.features[:, TERMS.index("blocks")].tolist() == [3]  # nothing moves: the GPU creates the pages


@pytest.mark.parametrize("choice, pieces", [("off", 512), ("64KiB", 32), ("2MiB", 1), ("default", 0), (None, 0)])
def test_range_groups_cut_the_blocks_served_into_pieces(tmp_path, choice, pieces):
    observed(tmp_path, 1, stream(3), axes={} if choice is None else {"driver_prefetch": choice})
    [one], _, _ = sampling.read([tmp_path], emulated=False, absent=[])
    blocks = one.features[:, TERMS.index("blocks")]
    assert blocks.sum() > 0 and (one.features[:, TERMS.index("pieces")] == pieces * blocks).all()


def test_the_command_says_which_coefficient_a_driver_changed(tmp_path, capsys):
    changed = TRUE * [2, 1, 1, 1, 1, 1]
    for driver, coefficients in (("580.159.04", TRUE), ("590.10", changed)):
        for job in range(7):
            for pattern in ("regular", "random"):
                facts = {"driver": driver, "command": pattern}
                rows = stream(job, coefficients, pattern)
                fault_streams.write(tmp_path / f"{driver}-{pattern}.{job}.uvm", rows, facts=facts)
    assert cli.main(["faults", "model", str(tmp_path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "driver 580.159.04: 420 batches of 14 jobs" in said and "driver 590.10" in said
    assert "service/transfer" in said and said.count("not identifiable") == 4  # bytes and host_pages, twice
    assert "faults changed from driver 580.159.04 to 590.10: 400 ns/fault to 800 ns/fault" in said
    assert (
        "are not compared in host_pages: the batches with 580.159.04 cannot distinguish it from bytes" in said
        and said.count("changed from") == 1
    )
    assert cli.main(["faults", "model", str(tmp_path), "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    together = {row["term"] for row in rows if row["says"] == "coefficient" and row["status"] == "together"}
    assert together == {"bytes", "host_pages"}
    [change] = [row for row in rows if row["says"] == "change"]
    assert change["term"] == "faults" and change["low"] < TRUE[0] < change["high"]


@pytest.mark.parametrize("change, why, is_used", [
    (lambda whole: whole[:-10], "is cut short; 1000 events before that are complete", True),
    (lambda whole: whole + b"more", "continues past its end; 1000 events before that are complete", True),
    (lambda whole: whole[:-60] + b"?" + whole[-59:], "is corrupt; 0 events before that are complete", False),
])  # fmt: skip
def test_what_is_whole_of_a_invalid_trace_counts_and_the_rest_is_missing(tmp_path, capsys, change, why, is_used):
    fault_streams.write(tmp_path / "a.1.uvm", stream(1))
    invalid = fault_streams.write(tmp_path / "b.2.uvm", stream(2))
    events = len(tracefile.read(invalid).entries)
    invalid.write_bytes(change(invalid.read_bytes()))
    assert cli.main(["faults", "model", str(tmp_path)]) == exits.UNDECIDED
    said = capsys.readouterr()
    how, lost = ("used in part", "lacks the rest") if is_used else ("skipped", "lacks their jobs")
    assert f"{how} {invalid}: {why.replace('1000', str(events))}\n" in said.err
    out = " ".join(said.out.split())
    assert out.startswith("1 of 2 files could not be read") and lost in out
    assert (f"{60 if is_used else 30} batches of {2 if is_used else 1} job") in out


def observed(
    folder, job, rows, *, driver="580.1", emulated=False, warnings=(), workload="fault/gpu0/migration", axes=None,
    notes=None,
):  # fmt: skip
    """Returns a record with the tables that the observer writes for a stream of events."""
    path = fault_streams.write(folder / "stream.1.uvm", rows)
    events = tracefile.decode(tracefile.read(path).entries)
    path.unlink()
    batches = tracefile.batches_of(events)
    since = int(min(events.faults["time"].min(), events.moves["begin"].min()))
    seconds = lambda times: [(int(time) - since) * 1e-9 for time in times]  # noqa: E731
    count, moves = len(batches.faults), events.moves
    tables = {
        "uvm_batches": {
            "group": [1] * count, "sample": [0] * count, "gpu": batches.gpu, "client_kind": [1] * count,
            "batch": batches.number, "faults": batches.faults, "pages": batches.pages, "blocks": batches.blocks,
            "clients": [1] * count, "gpcs": [1] * count, "begin": seconds(batches.begin),
            "last_fault": seconds(batches.last), "replay": seconds(batches.replay),
        },
        "uvm_migrations": {
            "group": [1] * len(moves), "sample": [0] * len(moves), "cause": moves["cause"], "source": moves["source"],
            "destination": moves["destination"], "address": moves["address"], "bytes": moves["bytes"],
            "begin": seconds(moves["begin"]),
            "seconds": (moves["gpu_end"] - moves["gpu_begin"]) * 1e-9,
        },
    }  # fmt: skip
    case = record(0.001, job=str(job), workload=workload, driver=driver)
    case["axes"] |= axes or {}
    case |= {"emulated": emulated, "warnings": list(warnings), "tables": [], "notes": notes or {}}
    for name, columns in tables.items():
        file = folder / f"{job}-{name}.csv.gz"
        with gzip.open(file, "wt", newline="") as out:
            lines = csv.writer(out)
            lines.writerow(columns)
            lines.writerows(zip(*columns.values()))
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        entry = {"name": name, "columns": list(columns), "file": file.name, "rows": len(columns["group"])}
        case["tables"].append(entry | {"sha256": digest})
    (folder / f"{job}.jsonl").write_text(json.dumps(case) + "\n")
    return case


def test_records_say_the_same_as_traces(tmp_path):
    rows = stream(3, pattern="random")
    trace, _ = batches_of(fault_streams.write(tmp_path / "a.1.uvm", rows))
    (tmp_path / "records").mkdir()
    observed(tmp_path / "records", 1, rows)
    found, left_out, total = sampling.read([tmp_path / "records"], emulated=False, absent=[])
    [one] = found
    assert (left_out, total) == ([], 1) and one.driver == "580.1" and one.unit == "1"
    numpy.testing.assert_array_equal(one.features, trace.features)
    numpy.testing.assert_allclose(one.service, trace.service, atol=1e-9)
    numpy.testing.assert_allclose(one.transfer, trace.transfer, rtol=1e-6)
    assert one.kernel is None and one.between > 0


@pytest.mark.parametrize("words", [
    ["faults/random", "--set", "bytes=8MiB"], ["faults/regular", "--set", "bytes=8MiB", "--set", "driver_prefetch=off"],
    ["faults/stream", "--set", "n=700000", "--placement", "managed_demand"],
])  # fmt: skip
def test_a_batch_says_what_its_moves_say(tmp_path, words):
    """The program's sums per batch equal the sums computed here from the table of moves."""
    if (bench := os.environ.get("ISTHMUS_TEST_BENCH")) is None:
        pytest.skip("needs the built program: set ISTHMUS_TEST_BENCH")
    path = tmp_path / "r.jsonl"
    run = [bench, "run", *words, "--samples", "2", "--observe", "uvm", "--record", path]
    subprocess.run(run, check=True, capture_output=True)
    [record] = load.read(path)
    samples, why = sampling.of_record(str(path), record)
    assert len(samples) == 2, why
    rows = load.read_table(path, record, "uvm_batches")
    there = numpy.array([[row[name] for name in ("bytes", "transfer", "moves")] for row in rows])
    made = [numpy.stack([s.features[:, sampling.TERMS.index("bytes")], s.transfer, s.moves], 1) for s in samples]
    numpy.testing.assert_allclose(there, numpy.concatenate(made), atol=1e-12)
    assert there[:, 0].min() > 0 and there[:, 1].max() > 0
    said = sampling.moved(path, record)
    entries = {table["name"]: table for table in record["tables"]}
    batches, moves = entries["uvm_batches"], entries["uvm_migrations"]
    older = record | {"tables": [batches | without_column(tmp_path / batches["file"], "transfer"), moves]}
    brief = record | {"tables": [batches]}
    for each in (older, brief):
        again = sampling.moved(path, each)
        for name in ("bytes", "service", "transfer"):
            numpy.testing.assert_allclose(getattr(again, name), getattr(said, name), atol=1e-12)
    assert sampling.of_record(str(path), brief) == (
        [], f"{path}: {words[0]}: no table of moves; measure with --observe uvm"
    )  # fmt: skip


def without_column(path, name):
    """Writes a copy of the table without a column into a file next to it, and returns the record's entry for that
    file."""
    with gzip.open(path, "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    columns = [each for each in rows[0] if each != name]
    cut = path.with_name(f"without-{name}.csv.gz")
    with gzip.open(cut, "wt", newline="") as file:
        lines = csv.DictWriter(file, columns, extrasaction="ignore")
        lines.writeheader()
        lines.writerows(rows)
    file = f"{path.parent.name}/{cut.name}"
    return {"columns": columns, "file": file, "sha256": hashlib.sha256(cut.read_bytes()).hexdigest()}


def test_the_kernel_of_a_sample_is_that_of_its_batches(tmp_path):
    case = observed(tmp_path, 1, stream(3), workload="faults/stream")
    kernel = case["metrics"][0]
    kernel["name"] = "kernel"
    for batches, has in ((30, True), (31, False)):  # a truncated table does not have the complete kernel
        count = kernel | {"name": "uvm_batches", "unit": "1", "samples": [batches] * 5, "median": batches}
        (tmp_path / "1.jsonl").write_text(json.dumps(case | {"metrics": [kernel, count]}) + "\n")
        [[one], _, _] = sampling.read([tmp_path], emulated=False, absent=[])
        assert one.kernel == (kernel["samples"][0] if has else None) and one.pattern.startswith("faults/stream ")


def test_what_does_not_count_is_left_out_with_a_reason(tmp_path, capsys):
    rows = stream(3)
    dropped = {"code": "uvm_dropped", "message": "m", "samples": [0]}
    jumped = {"code": "uvm_clock", "message": "m", "samples": None}
    for name, how in (("emulated", {"emulated": True}), ("dropped", {"warnings": [dropped]}),
                      ("clock", {"warnings": [jumped]}),
                      ("moved", {"notes": {"uvm_source": "a queue, without what moved"}})):  # fmt: skip
        folder = tmp_path / name
        folder.mkdir()
        observed(folder, 1, rows, **how)
        assert cli.main(["faults", "model", str(folder)]) == exits.BAD_INPUT
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and "no batch of page faults" in said and name in said.replace("jumped", "clock")
    assert cli.main(["faults", "model", str(tmp_path / "emulated"), "--emulated"]) == 0
    invalid = fault_streams.write(tmp_path / "d.1.uvm", rows, dropped=5)
    assert cli.main(["faults", "model", str(invalid)]) == exits.BAD_INPUT
    assert "dropped" in capsys.readouterr().err


def test_a_file_that_cannot_be_read_is_told_and_changes_the_exit_code(tmp_path, capsys):
    fault_streams.write(tmp_path / "a.1.uvm", stream(1))
    (tmp_path / "b.1.uvm").write_bytes(b"no trace")
    assert cli.main(["faults", "model", str(tmp_path)]) == exits.UNDECIDED
    said = capsys.readouterr()
    assert "b.1.uvm" in said.err and "1 of 2 files" in said.out
