"""Tests of the cost model behind advice: it reproduces measured costs and derives the costs of other sizes."""

import pytest

from isthmus.advise.costs import Costs

MIB = 2**20


@pytest.fixture
def costs():
    """Returns costs of copies at 10 GB/s, of calls that take 5 µs + 2 µs per MiB, and of kernels with several rates."""
    made = Costs()
    for size in (16 * MIB, 64 * MIB, 256 * MIB):
        made.add("copy", size, size / 10e9)
    for size in (MIB, 4 * MIB, 8 * MIB):
        made.add("call", size, 5e-6 + 2e-6 * size / MIB)
    for rate in (3e12, 7e12, 5e12):
        made.add("arithmetic", rate, 1.0)
    return made


def test_a_curve_gives_back_what_was_measured_and_follows_the_rate_beyond(costs):
    curve = costs.curve("copy")
    assert [curve(size) for size in (16 * MIB, 32 * MIB, 2**32)] == pytest.approx(
        [size / 10e9 for size in (16 * MIB, 32 * MIB, 2**32)]
    )
    assert curve(1) == pytest.approx(16 * MIB / 10e9)  # smaller sizes take as long as the smallest measured size


def test_a_line_has_a_latency_and_a_rate(costs):
    line = costs.line("call")
    assert line(2 * MIB) == pytest.approx(9e-6) and line(0) == pytest.approx(5e-6)


def test_the_best_rate_is_the_fastest_that_was_seen(costs):
    assert costs.best_rate("arithmetic") == 7e12


def test_what_was_never_measured_costs_nothing_that_is_known(costs):
    assert costs.curve("prefetch") is None and costs.best_rate("prefetch") is None
    assert costs.curve("prefetch", "copy") is not None  # falls back to the second kind


def test_a_point_that_comes_later_counts(costs):
    before = costs.curve("copy")(64 * MIB)
    for _ in range(4):
        costs.add("copy", 64 * MIB, 64 * MIB / 5e9)
    assert costs.curve("copy")(64 * MIB) == pytest.approx(2 * before)
