"""Tests of rates of wrong verdicts about unkind histories.

The committed rates must be within the promised limits, and the code must still reproduce them.
"""

import dataclasses
import json
import math
import pathlib

import numpy as np
import pytest
import unkind
from histories import tell, write

from isthmus import cli

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMITTED = json.loads(unkind.RATES.read_text(encoding="utf-8"))
RATES = {each["kind"]["name"]: each for each in COMMITTED["rates"]}
UNCHANGED = [kind for kind in unkind.KINDS if not (kind.step or kind.part)]
# Kinds in which jobs are correlated, but a single metric cannot show it. For these, the command reports "not testable",
# and the page states how often the verdict is wrong.
UNTESTABLE = [kind.name for kind in UNCHANGED if kind.follows and not kind.turns]


def test_the_committed_run_is_large_enough_and_of_these_kinds():
    assert COMMITTED["trials"] >= 5000 and COMMITTED["sessions"] >= 300 and COMMITTED["metrics"] == 500
    assert [each["kind"] for each in COMMITTED["rates"]] == [dataclasses.asdict(kind) for kind in unkind.KINDS]
    assert [each["margin"] for each in COMMITTED["rates"]] == [unkind.margin(kind) for kind in unkind.KINDS]


@pytest.mark.parametrize("kind", UNCHANGED, ids=lambda kind: kind.name)
def test_false_alarms_are_as_rare_as_promised(kind):
    """Checks the committed run: at most 1% of metrics and, within a standard error, 5% of sessions raise an alarm."""
    alone, together = RATES[kind.name]["alone"], RATES[kind.name]["together"]
    if kind.name in UNTESTABLE:
        assert alone["order testable"][0] < 0.05
    else:
        assert alone["alarms"][0] <= 0.01
    assert together["alarms"][0] <= 0.01
    assert together["with an alarm"][0] <= 0.05 + together["with an alarm"][1]


@pytest.mark.parametrize("kind", [kind for kind in UNCHANGED if kind.margin == "noise"], ids=lambda kind: kind.name)
def test_independent_histories_are_seldom_inconclusive(kind):
    assert RATES[kind.name]["alone"]["inconclusive"][0] <= 0.10
    assert RATES[kind.name]["together"]["inconclusive"][0] <= 0.10


@pytest.mark.parametrize(
    "name, least",
    [
        ("a step of 5%, 5 jobs", 0.99),
        ("a step of 3%, 8 jobs", 0.95),
        ("a step of 5%, 4 nodes, 4 nights", 0.99),
        ("one node of 8 slower by 10%, 4 nights", 0.95),
        ("one node of 8 slower by 10%, 8 nights", 0.95),
        ("one GPU of 8 slower by 10%, 8 jobs", 0.95),
    ],
)
def test_what_is_to_be_found_is_found(name, least):
    together = RATES[name]["together"]["regressed"]
    assert together[0] >= least


@pytest.mark.parametrize("kind", unkind.KINDS, ids=lambda kind: kind.name)
def test_the_code_has_the_committed_rates(kind, capsys, record_property):
    """Runs 40 trials of one metric, with random numbers that differ from those of the committed run."""
    found = unkind.rates(kind, trials=40, sessions=0, seed=1)
    for part, trials in (("alone", 40),):
        for what in ("alarms", "inconclusive"):
            share, expected = found[part][what][0], RATES[kind.name][part][what]
            spread = expected[1] * math.sqrt(COMMITTED["trials" if part == "alone" else "sessions"] / trials)
            spread += 3 / COMMITTED["trials"]  # rule of three: a committed rate of 0 or 1 may be off by this much
            assert abs(share - expected[0]) <= 4 * spread + 2.5 / trials, (part, what)
    tell(capsys, record_property, f"{kind.name}: {found['alone']['alarms'][0]:.1%} called changed")


@pytest.mark.parametrize(
    "kind",
    [
        kind
        for kind in unkind.KINDS
        if not (kind.turns or kind.known or kind.jobs > 10) and kind.nodes * kind.jobs * kind.gpus <= 64
    ],
    ids=lambda kind: kind.name,
)
def test_the_command_gives_the_same_verdicts(kind, tmp_path):
    a, b = unkind.values(np.random.default_rng(3), kind, 1, 3)
    verdicts, orders = unkind.verdicts(kind, a, b)
    folder, out = write(tmp_path / "r", unkind.records(kind, a[0], b[0])), tmp_path / "out.json"
    asked = ["--from", "driver=570", "--to", "driver=580", "--delta", str(unkind.margin(kind)), "--json", str(out)]
    cli.main(["regress", str(folder), *asked])
    found = json.loads(out.read_text())
    by_label = {each["label"]: each["verdict"] for each in found["results"]}
    assert [by_label[f"microbench/w{i:03} pm tiny time"] for i in range(3)] == [unkind.VERDICTS[i] for i in verdicts[0]]
    seen = found["order"]["autocorrelation"]  # not p, which depends on the random orders drawn for a stratum
    assert (math.nan if seen is None else seen) == pytest.approx(orders[0].autocorrelation, nan_ok=True)


def test_the_pages_have_the_committed_rates():
    assert unkind.table(COMMITTED) in (ROOT / "docs/false-alarms.md").read_text(encoding="utf-8")
    assert unkind.table(COMMITTED, unkind.CHOSEN) in (ROOT / "docs/statistics.md").read_text(encoding="utf-8")
