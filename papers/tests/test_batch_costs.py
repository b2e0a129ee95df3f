"""`isthmus regress` on observed page faults: it names exactly the coefficient that a driver changed."""

import json

import numpy
import pytest
from histories import record
from test_fault_model import TRUE, observed, samples, stream

from isthmus import cli
from isthmus_papers.batches import costs as batch_costs
from isthmus_papers.batches import model
from isthmus_papers.batches.sampling import TERMS


def compared(before, after):
    return {each.term: each for each in batch_costs.of_samples({"A": before, "B": after}).costs}


@pytest.mark.parametrize("factor", [2, 3])
@pytest.mark.parametrize("term", range(len(TERMS)))
def test_a_planted_change_of_one_coefficient_is_named_and_no_other(term, factor):
    changed = TRUE.copy()
    changed[term] *= factor
    found = compared(samples(), samples(coefficients=changed, driver="590.2", seed=2))
    assert [name for name, each in found.items() if each.status == "changed"] == [TERMS[term]]
    one = found[TERMS[term]]
    assert one.low < factor < one.high and not one.low < 1 < one.high
    assert all(each.low < 1 < each.high for name, each in found.items() if name != TERMS[term])


def test_where_nothing_changed_nothing_is_named_at_the_stated_rate():
    false = inside = 0
    for seed in range(40):
        found = compared(samples(8, count=30, seed=seed), samples(8, count=30, seed=seed + 99, driver="590.2"))
        false += any(each.status == "changed" for each in found.values())
        inside += all(each.low < 1 < each.high for each in found.values() if each.ratio)
    assert false <= 5 and inside == 40 - false  # 5% are expected, which is 2 of 40; 6 or more occur once in 70 runs


def test_terms_that_go_together_on_both_sides_are_compared_together():
    patterns = ("regular", "random")  # patterns in which all moved pages are mapped on the host
    changed = TRUE * [1, 1, 1, 1, 3, 1]
    found = compared(samples(patterns=patterns), samples(patterns=patterns, coefficients=changed, driver="590.2"))
    assert found["bytes and host_pages"].status == "changed"
    assert found["host_pages"].status == "unknown" and "cannot distinguish it from bytes" in found["host_pages"].why
    assert "no batch with 580.1 has any pieces" in found["pieces"].why


def test_what_cannot_be_told_is_said():
    whole = samples(8)
    found = compared(whole, samples(8, patterns=("regular", "random"), driver="590.2"))
    assert found["pieces"].why == "no batch with 590.2 has any pieces"
    assert "different terms on the two sides" in found["bytes"].why
    few = batch_costs.of_samples({"A": whole, "B": samples(3, driver="590.2")})
    assert not few.costs and few.why.startswith("side B: intervals need 6 jobs")
    mixed = batch_costs.of_samples({"A": [*whole, *samples(8, driver="570.1")], "B": samples(8, driver="590.2")})
    assert "side A has batches of several drivers" in mixed.why and batch_costs.lines(mixed)
    assert batch_costs.of_samples({"A": whole, "B": samples(8, seed=5)}) is None  # both have the same driver
    assert batch_costs.of_samples({"A": whole}) is None
    weak = TRUE * [1e-3, 1, 1, 1, 1, 1]  # a fault alone costs next to nothing
    assert "has no bounds" in compared(samples(8, coefficients=weak), samples(8, driver="590.2"))["faults"].why


def test_a_ratios_bounds_are_those_of_fieller():
    chance = numpy.random.default_rng(1)
    a, b = chance.normal(10, 1, 400_000), chance.normal(20, 1, 400_000)
    low, high = model._bounds(10.0, 20.0, (1.0, 1.0), 1.96)
    assert numpy.quantile(b / a, [0.025, 0.975]) == pytest.approx([low, high], rel=0.02)
    assert model._bounds(1.0, 2.0, (1.0, 1.0), 1.96) is None


def write(folder, *, changed, jobs=6, profiler="uvm"):
    """Writes jobs of two patterns with each of two drivers; the second driver's coefficients are multiplied by
    `changed`."""
    for driver, coefficients in (("580.159.04", TRUE), ("590.10", TRUE * changed)):
        for job in range(jobs):
            for number, pattern in enumerate(("regular", "random")):
                part = folder / f"{driver}-{job}-{pattern}"
                part.mkdir(parents=True)
                case = observed(part, f"{driver}-{job}", stream(job, coefficients, pattern), driver=driver,
                                workload=f"faults/{pattern}")  # fmt: skip
                case["profiler"] = profiler
                (part / f"{driver}-{job}.jsonl").write_text(json.dumps(case) + "\n")
                plain = record(0.001 * (1 + job / 1e3), job=f"{driver}-{job}", driver=driver)
                if not number:
                    (part / "plain.jsonl").write_text(json.dumps(plain) + "\n")


def regress(folder, *more):
    return cli.main(["regress", str(folder), "--from", "driver=580.159.04", "--to", "driver=590.10", *more])


def test_regress_says_it_in_words_and_for_programs(tmp_path, capsys):
    folder = tmp_path / "records"
    write(folder, changed=[2, 1, 1, 1, 1, 1])
    kept = tmp_path / "all.json"
    assert regress(folder, "--json", str(kept)) in (0, 3)
    said = " ".join(capsys.readouterr().out.split())
    assert "cost of a batch of page faults, driver 580.159.04 to 590.10 (95% over all 6 terms)" in said
    assert " changed: faults, 400 ns/fault to 800 ns/fault, ratio 2 [" in said
    assert said.count(" changed: ") == 1
    assert "not known to differ: blocks" in said and "unknown: host_pages: the batches with 580.159.04" in said
    batches = json.loads(kept.read_text())["batches"]
    status = {each["term"]: each["status"] for each in batches["costs"]}
    assert batches["drivers"] == ["580.159.04", "590.10"] and status["faults"] == "changed"
    assert list(status.values()).count("changed") == 1
    regress(folder, "--format", "json")
    assert "ratio 2" in " ".join(capsys.readouterr().err.split())


def test_regress_without_watched_faults_says_nothing_of_them(tmp_path, capsys):
    write(tmp_path / "records", changed=[1] * 6, jobs=2, profiler="nsys")
    kept = tmp_path / "all.json"
    regress(tmp_path / "records", "--json", str(kept))
    assert "page faults" not in capsys.readouterr().out and json.loads(kept.read_text())["batches"] is None


def test_units_are_the_models():
    assert model.quantity(4e-7, model.UNITS["faults"]) == "400 ns/fault"
