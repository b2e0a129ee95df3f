"""Tests that the rank test is exact and agrees with its interval, and that rates of wrong verdicts are as stated.

The Monte Carlo tests print their rates with standard errors: pytest -s tests/python/test_statistics.py
"""

import itertools
import math

import numpy as np
import pytest
from histories import History, medians, p_values, tell
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from isthmus.statistics import rank_test

TRIALS = 20_000


def rate(found):
    share = float(np.mean(found))
    return share, math.sqrt(max(share * (1 - share), 1e-9) / found.size)


# --- exactness ---


@pytest.mark.parametrize("sizes", [(3, 3), (4, 7), (9, 5), (12, 12)])
def test_without_strata_and_ties_it_is_the_test_of_mann_and_whitney(sizes):
    chance = np.random.default_rng(3)
    for _ in range(50):
        a, b = (chance.permutation(sum(sizes))[:size] + chance.random(size) for size in sizes)
        known = stats.mannwhitneyu(a, b, method="exact").pvalue
        assert rank_test.p_value([(a, b)]) == pytest.approx(known, rel=1e-9)


def by_counting(strata):
    """Returns the p-value by enumerating every assignment of each stratum's values to the sides."""
    everything = []
    for a, b in strata:
        together, n = np.concatenate([a, b]), len(a)
        wins = []
        for chosen in itertools.combinations(range(len(together)), n):
            x, y = together[list(chosen)], np.delete(together, chosen)
            wins.append((x[:, None] < y).sum() + 0.5 * (x[:, None] == y).sum())
        everything.append(np.array(wins))
    sums = everything[0]
    for other in everything[1:]:
        sums = (sums[:, None] + other).ravel()
    seen = sum((a[:, None] < b).sum() + 0.5 * (a[:, None] == b).sum() for a, b in strata)
    return min(1, 2 * min((sums <= seen + 1e-9).mean(), (sums >= seen - 1e-9).mean()))


values = st.lists(st.integers(0, 5), min_size=2, max_size=4)


@given(st.lists(st.tuples(values, values), min_size=1, max_size=2))
@settings(max_examples=60, deadline=None)
def test_p_is_what_counting_every_arrangement_gives(strata):
    strata = [(np.array(a, float), np.array(b, float)) for a, b in strata]
    assert rank_test.p_value(strata) == pytest.approx(by_counting(strata), abs=1e-9)


def test_smallest_p_by_jobs():
    smallest = {n: rank_test.p_value([(np.arange(n), np.arange(n) + 100.0)]) for n in (3, 4, 5, 6, 8)}
    assert smallest == pytest.approx({3: 0.10, 4: 0.0286, 5: 0.0079, 6: 0.0022, 8: 0.000155}, abs=5e-5)


def test_many_jobs_agree_with_counting():
    chance = np.random.default_rng(3)
    a, b = chance.standard_normal(33), chance.standard_normal(33) + 0.9
    normal = rank_test.p_value([(a, b)])
    exact = p_values(((33, 33),))[(a[:, None] < b).sum()]
    assert normal == pytest.approx(exact, rel=0.2) and exact < 0.01


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_interval_and_p_never_disagree(data):
    """Checks that without ties, the 95% interval contains zero exactly if p is above 5%."""
    n, m, strata = (data.draw(st.integers(low, high)) for low, high in ((2, 9), (2, 9), (1, 3)))
    chance = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    shift = data.draw(st.floats(-3, 3))
    pairs = [(chance.standard_normal(n), chance.standard_normal(m) + shift) for _ in range(strata)]
    found = rank_test.compare(pairs)
    assert (found.low <= 0 <= found.high) == (found.p > 0.05)
    assert found.low <= found.estimate <= found.high


@given(st.integers(0, 2**32), st.floats(-10, 10))
@settings(max_examples=20, deadline=None)
def test_a_shift_of_one_side_is_a_shift_of_the_estimate(seed, shift):
    chance = np.random.default_rng(seed)
    a, b = chance.standard_normal((2, 7))
    one, other = rank_test.compare([(a, b)]), rank_test.compare([(a, b + shift)])
    assert other.estimate == pytest.approx(one.estimate + shift, abs=1e-9)
    assert (other.low, other.high) == pytest.approx((one.low + shift, one.high + shift), abs=1e-9)


def test_all_alike_is_no_difference():
    found = rank_test.compare([(np.full(8, 16.0), np.full(8, 16.0))])
    assert (found.estimate, found.low, found.high, found.p) == (0, 0, 0, 1)


def test_correction_is_benjamini_and_hochbergs():
    assert rank_test.adjusted(np.array([0.01, 0.04, 0.03, 0.5])) == pytest.approx([0.04, 0.0533, 0.0533, 0.5], abs=1e-4)


def test_spread_is_robust():
    chance = np.random.default_rng(1)
    groups = [chance.standard_normal(50) + 10 * node for node in range(4)]
    groups[0][:4] = 1e6
    assert rank_test.spread(groups) == pytest.approx(1, abs=0.15)
    assert math.isnan(rank_test.spread([np.array([1.0])]))


# --- rates ---

NOTHING_HAPPENED = {
    "normal": History(),
    "heavy tails": History(tails="heavy"),
    "skewed": History(tails="skewed"),
    "4 unlike nodes": History(nodes=4, node_effect=0.1),
    "noisy within": History(between=0.002, within=0.03),
}


@pytest.mark.parametrize("name", NOTHING_HAPPENED)
@pytest.mark.parametrize("jobs", [5, 8])
def test_false_alarms_of_one_metric_stay_below_one_percent(name, jobs, capsys, record_property):
    history = NOTHING_HAPPENED[name]
    a, b = medians(np.random.default_rng(7), history, TRIALS, jobs)
    p = p_values(((jobs, jobs),) * history.nodes)[rank_test.wins(a, b)]
    share, error = rate(p <= rank_test.ALPHA)
    tell(capsys, record_property, f"false alarms, {name}, {jobs} jobs a side and node: {share:.2%} ± {error:.2%}")
    assert share <= 0.01 + 3 * error


def test_vectorised_and_single_comparisons_are_the_same():
    a, b = medians(np.random.default_rng(2), History(nodes=2, step=0.01), 200, 5)
    p = p_values(((5, 5),) * 2)[rank_test.wins(a, b)]
    assert [rank_test.compare(list(zip(x, y))).p for x, y in zip(a, b)] == pytest.approx(list(p))


@pytest.mark.parametrize("jobs, aim", [(8, 0.90)])
def test_power_for_one_metric(jobs, aim, capsys, record_property):
    a, b = medians(np.random.default_rng(8), History(step=0.03), TRIALS, jobs)
    share, error = rate(p_values(((jobs, jobs),))[rank_test.wins(a, b)] <= rank_test.ALPHA)
    tell(capsys, record_property, f"power for a 3% step at 1% noise, {jobs} jobs a side: {share:.2%} ± {error:.2%}")
    assert share - 3 * error >= aim


def test_three_jobs_never_alarm():
    a, b = medians(np.random.default_rng(9), History(step=1.0), 1000, 3)
    assert (p_values(((3, 3),))[rank_test.wins(a, b)] > rank_test.ALPHA).all()


@pytest.mark.parametrize("strata", [1, 4])
def test_a_session_of_500_metrics(strata, capsys, record_property):
    """Simulates sessions with the planned number of jobs. At most 5% may raise an alarm if nothing changed, and a
    change of 3% in one of 500 metrics must be found in 90% of sessions."""
    metrics, sessions = 500, 10_000
    jobs = rank_test.jobs_needed(3, strata=strata, metrics=metrics)
    by_wins = p_values(((jobs, jobs),) * strata)
    chance = np.random.default_rng(10)
    false, found = np.zeros(sessions, bool), np.zeros(sessions, bool)
    for first in range(0, sessions, 200):
        a, b = medians(chance, History(nodes=strata), 200 * metrics, jobs)
        p = by_wins[rank_test.wins(a, b)].reshape(200, metrics)
        a, b = medians(chance, History(nodes=strata, step=0.03), 200, jobs)
        changed = by_wins[rank_test.wins(a, b)]
        for session in range(200):
            alarmed = (rank_test.adjusted(p[session]) <= rank_test.SESSION) & (p[session] <= rank_test.ALPHA)
            false[first + session] = alarmed.any()
            p[session, 0] = changed[session]
            adjusted = rank_test.adjusted(p[session])[0]
            found[first + session] = adjusted <= rank_test.SESSION and changed[session] <= rank_test.ALPHA
    alarms, error = rate(false)
    power, power_error = rate(found)
    tell(
        capsys,
        record_property,
        f"500 metrics, {strata} × {jobs} jobs a side: sessions with a false alarm {alarms:.2%} ± {error:.2%}, "
        f"power for a 3% step of one {power:.2%} ± {power_error:.2%}",
    )
    assert alarms <= 0.05 + 3 * error
    assert power >= 0.90 - 3 * power_error


def test_metrics_that_hang_together_alarm_no_oftener(capsys, record_property):
    """Simulates metrics of which half mirror another one, as the rate and the time of a copy do."""
    metrics, sessions, jobs = 100, 10_000, 8
    chance = np.random.default_rng(11)
    by_wins = p_values(((jobs, jobs),))
    a, b = medians(chance, History(), sessions * metrics // 2, jobs)
    wins = rank_test.wins(a, b).reshape(sessions, -1)
    p = by_wins[np.concatenate([wins, jobs * jobs - wins], axis=1)]
    false = [((rank_test.adjusted(row) <= rank_test.SESSION) & (row <= rank_test.ALPHA)).any() for row in p]
    share, error = rate(np.array(false))
    tell(
        capsys, record_property, f"100 metrics in mirrored pairs: sessions with a false alarm {share:.2%} ± {error:.2%}"
    )
    assert share <= 0.05 + 3 * error


def test_coverage_of_the_interval(capsys, record_property):
    """Measures the interval's coverage, and for comparison that of a percentile bootstrap of the ratio of medians
    (docs/decisions/0006-comparing.md)."""
    chance = np.random.default_rng(12)
    for tails, jobs in itertools.product(("normal", "heavy"), (5, 8)):
        a, b = medians(chance, History(tails=tails, step=0.03), 1000, jobs)
        found = [rank_test.compare([(x[0], y[0])]) for x, y in zip(a, b)]
        ours, error = rate(np.array([each.low <= np.log(1.03) <= each.high for each in found]))
        picks = chance.integers(0, jobs, (2, 500, jobs))
        drawn = np.median(b[:, 0][:, picks[1]], axis=2) - np.median(a[:, 0][:, picks[0]], axis=2)
        low, high = np.percentile(drawn, [2.5, 97.5], axis=1)
        bootstrap, _ = rate((low <= np.log(1.03)) & (np.log(1.03) <= high))
        tell(
            capsys,
            record_property,
            f"coverage, {tails}, {jobs} jobs a side: {ours:.1%} ± {error:.1%}; bootstrap {bootstrap:.1%}",
        )
        assert ours >= 0.95 - 3 * error


# --- the order in time ---


@pytest.mark.parametrize("shared", [0.0, 0.8])
@pytest.mark.parametrize("phi, least, most", [(0.0, 0, 0.02), (0.6, 0.99, 1)])
def test_order_matters_as_rarely_as_stated_and_is_seen(shared, phi, least, most, capsys, record_property):
    """Simulates two sides of 8 units and 50 metrics. Noise that metrics share may reduce the power but must not cause
    false alarms."""
    chance, trials = np.random.default_rng(13), 400
    noise = math.sqrt(1 - shared) * chance.standard_normal((trials, 50, 16))
    noise += math.sqrt(shared) * chance.standard_normal((trials, 1, 16))
    for i in range(1, 16):
        noise[..., i] = phi * noise[..., i - 1] + math.sqrt(1 - phi**2) * noise[..., i]
    found = [rank_test.order([each[:, :8], each[:, 8:]]) for each in noise]
    share = np.mean([each.autocorrelated or each.drifts for each in found])
    tell(capsys, record_property, f"order matters, autocorrelation {phi}, {shared:.0%} shared: {share:.1%}")
    assert share <= most + 3 * math.sqrt(0.01 / trials)
    assert shared or share >= least
    assert all(each.testable != bool(shared) for each in found if not phi)


def test_ties_gaps_and_short_sequences_are_no_order():
    chance = np.random.default_rng(14)
    tied = np.round(chance.standard_normal((30, 9)))
    tied[:, 4] = np.nan
    found = rank_test.order([tied, np.ones((30, 9)), chance.standard_normal((30, 2))])
    assert (found.units, found.metrics) == (18, 30) and not found.bars
    nothing = rank_test.order([np.ones((1, 5))])
    assert (nothing.p, nothing.trend_p, nothing.testable, nothing.bars) == (1, 1, False, False)


def test_a_margin_asks_for_more_jobs():
    assert rank_test.jobs_needed(3, margin=1) > rank_test.jobs_needed(3) > 3
    assert [rank_test.jobs_needed(3, strata=strata, margin=1) for strata in (1, 2, 4, 8)] == [7, 4, 3, 2]
    assert [rank_test.jobs_needed(3, strata=n, margin=1, metrics=500) for n in (1, 2, 4, 8)] == [11, 6, 4, 2]
    assert rank_test.power(3, 8, margin=1) == pytest.approx(0.964, abs=0.006)
    with pytest.raises(ValueError, match="above the margin"):
        rank_test.jobs_needed(1, margin=1)


# --- planning ---


@pytest.mark.parametrize("strata", [1, 2, 4, 8])
@pytest.mark.parametrize("metrics", [1, 500])
def test_planned_jobs_are_enough_and_one_less_is_not(strata, metrics):
    jobs = rank_test.jobs_needed(3, strata=strata, metrics=metrics)
    assert rank_test.power(3, jobs, strata=strata, metrics=metrics) >= 0.9
    assert jobs == 1 or rank_test.power(3, jobs - 1, strata=strata, metrics=metrics) < 0.905


def test_small_steps_need_many_jobs():
    assert [rank_test.jobs_needed(step) for step in (3, 2, 1)] == sorted(rank_test.jobs_needed(s) for s in (3, 2, 1))
    assert rank_test.jobs_needed(0.1) > 2000
    with pytest.raises(ValueError, match="above 0"):
        rank_test.jobs_needed(0)


@pytest.mark.parametrize("sizes", [(3,), (8,), (4, 4)])
def test_the_interval_of_a_spread_holds_the_truth_as_often_as_it_says(sizes):
    low, high = rank_test.spread_factors(sizes)
    chance = np.random.default_rng(5)
    found = [rank_test.spread([chance.standard_normal(size) for size in sizes]) for _ in range(2000)]
    assert np.mean([low * each <= 1 <= high * each for each in found]) == pytest.approx(0.95, abs=0.02)
