"""Tests of error rates of `isthmus drift` and `isthmus nodes`.

The committed rates must be within the promised limits, and the code must still reproduce them.
"""

import dataclasses
import json
import math
import pathlib

import pytest
import unkind_places

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMITTED = json.loads(unkind_places.RATES.read_text(encoding="utf-8"))
RATES = {(each["kind"]["command"], each["kind"]["name"]): each for each in COMMITTED["rates"]}
STAYS = "two clock states that stay (90%)"  # not a false alarm, because a level that lasts is a change


def test_the_committed_run_is_large_enough_and_of_these_kinds():
    assert COMMITTED["trials"] >= 400
    assert [each["kind"] for each in COMMITTED["rates"]] == [dataclasses.asdict(kind) for kind in unkind_places.KINDS]


@pytest.mark.parametrize("kind", unkind_places.KINDS, ids=lambda kind: f"{kind.command}: {kind.name}")
def test_the_committed_rates_are_as_promised(kind):
    rates = RATES[kind.command, kind.name]
    found, error = rates["found"]
    if kind.command == "nodes":
        assert found >= 0.9 if kind.step else found <= 0.05 + 2 * error
    elif kind.truth:
        assert rates["right"][0] >= 0.92
        if kind.jobs >= 50 and not kind.follows:
            assert found >= 0.98
    elif kind.name != STAYS:
        assert found <= 0.02


@pytest.mark.parametrize(
    "kind", [kind for kind in unkind_places.KINDS if kind.trials == 1], ids=lambda kind: f"{kind.command}: {kind.name}"
)
def test_the_code_has_the_committed_rates(kind):
    """Runs 20 trials, with random numbers that differ from those of the committed run."""
    found = unkind_places.rates(kind, 20, seed=1)["found"][0]
    expected = RATES[kind.command, kind.name]["found"][0]
    assert abs(found - expected) <= 4 * math.sqrt(max(expected * (1 - expected), 0.02) / 20)


@pytest.mark.parametrize("command", ["drift", "nodes"])
def test_the_page_has_the_committed_rates(command):
    page = (ROOT / "docs/false-alarms.md").read_text(encoding="utf-8")
    assert unkind_places.table(COMMITTED, command) in page
