"""Tests of readings and their charts: a reading must be of one case, and a chart must contain the given values."""

import math
import pathlib

import pytest
from histories import record, write

from isthmus import Error
from isthmus.figures import plots
from isthmus.statistics import spread
from isthmus.tables import readings

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def found(tmp_path):
    cases = [
        record(value, job=str(job), workload="transfer/a-b/ce", axes={"bytes": size, "node": node})
        for job, factor in enumerate((0.9, 1.0, 1.3))
        for size, value in ((1024, factor), (4096, 4 * factor))
        for node in (0, 1)
    ]
    cases.append(record(7.0, workload="transfer/a-b/ce", axes={"bytes": 1024, "node": 0}, error="lost"))
    return readings.load(write(tmp_path / "r", cases))


def test_a_value_is_the_median_over_jobs_of_what_counts(found):
    assert found.value(metric="time", bytes=1024, node=0) == 1.0
    assert found.by("bytes", metric="time", node=1) == {1024: 1.0, 4096: 4.0}
    assert len(found.samples(metric="time", bytes=1024, node=0)) == 15
    assert found.value(metric="time", bytes=1) is None and found.by("bytes", metric="none") == {}
    assert found.values("bytes") == [1024, 4096]


def test_two_cases_are_never_mixed(found):
    with pytest.raises(Error, match="several cases: node differ"):
        found.value(metric="time", bytes=1024)
    with pytest.raises(Error, match="several cases: node differ"):
        found.by("bytes", metric="time")
    with pytest.raises(Error, match="several cases: bytes"):
        found.samples(metric="time", node=0)


def test_patterns_and_lists(found):
    assert len(found.where(workload="transfer/*", bytes=[1024])) == len(found.where(bytes=1024)) == 6
    assert len(found.where(workload="stream/*")) == 0 and len(found.where(nothing=None)) == len(found)


def test_no_figure_that_counts_is_a_sentence(tmp_path):
    folder = write(tmp_path / "r", [record(1.0, error="lost")])
    with pytest.raises(Error, match="no record has a figure that counts"):
        readings.load(folder)
    with pytest.raises(Error):
        readings.load(tmp_path / "none")


def test_the_committed_records_say_what_their_readme_says():
    one = readings.load(ROOT / "papers/data/h200/transfer.jsonl.gz").where(metric="rate", bytes=1 << 30)
    assert one.value(workload="transfer/pinned-gpu0/ce") == pytest.approx(55.2e9, rel=0.002)
    assert 0.8 < one.share(workload="transfer/pinned-gpu0/ce") < 0.95


def test_bars_curves_and_boxes_have_what_they_were_given():
    figure, axes = plots.panels(3)
    plots.bars(axes[0], {"a": {"x": 1.0, "y": 2.0}, "b": {"y": 3.0}}, "B/s", line=1)
    assert sorted(patch.get_height() for patch in axes[0].patches) == [1.0, 2.0, 3.0]
    assert [text.get_text() for text in axes[0].get_xticklabels()] == ["a", "b"]
    plots.curves(axes[1], {"x": {1024: 1e9, 1 << 20: 2e9}}, "B/s", log=True)
    assert [text.get_text() for text in axes[1].get_xticklabels()] == ["1KiB", "1MiB"]
    assert list(axes[1].lines[0].get_ydata()) == [1e9, 2e9] and axes[1].get_legend() is None
    assert axes[1].yaxis.get_major_formatter()(2e9, 0) == "2 GB/s"
    plots.boxes(axes[2], {"x": [1.0, 2.0, 3.0]}, "s")
    assert len(axes[2].lines) >= 5
    figure.canvas.draw()
    plots.pyplot.close(figure)


def test_stacked_bars_stand_on_each_other_and_a_matrix_has_its_places():
    figure, axes = plots.panels(1, rows=2)
    plots.stacked(axes[0], {"a": {"k": 1.0, "c": 2.0}, "b": {"c": 1.0}}, "1")
    assert [(p.get_y(), p.get_height()) for p in axes[0].patches] == [(0, 1.0), (0, 0.0), (1.0, 2.0), (0.0, 1.0)]
    plots.heat(axes[1], {("gpu10", "gpu2"): 1e9, ("gpu2", "gpu10"): 2e9}, "B/s")
    assert [text.get_text() for text in axes[1].get_yticklabels()] == ["gpu2", "gpu10"]
    image = axes[1].images[0].get_array()
    assert math.isclose(image[0][1], 2e9) and {t.get_text() for t in axes[1].texts} == {"1.00 GB/s", "2.00 GB/s"}
    figure.canvas.draw()
    plots.pyplot.close(figure)


def test_ratios_start_at_one_and_lying_bars_are_grouped():
    figure, axes = plots.panels(2)
    plots.ratios(axes[0], {"a": 2.0, "b": 0.5, "c": 1.0})
    assert [(bar.get_x(), bar.get_width()) for bar in axes[0].patches] == [(1, -0.5), (1, 0.0), (1, 1.0)]
    assert [text.get_text() for text in axes[0].get_yticklabels()] == ["b", "c", "a"]
    plots.lying(axes[1], {"a": {"x": 1.0, "y": 2.0}, "b": {"y": 3.0}})
    assert sorted(bar.get_width() for bar in axes[1].patches) == [1.0, 2.0, 3.0] and axes[1].get_legend()
    figure.canvas.draw()
    plots.pyplot.close(figure)


def test_nothing_can_be_drawn():
    figure, axes = plots.panels()
    for draw in (plots.bars, plots.curves, plots.stacked, plots.heat):
        draw(axes[0], {}, "s")
    for draw in (plots.ratios, plots.lying):
        draw(axes[0], {})
    plots.pyplot.close(figure)


# --- values with intervals ---


def value(x, low, high, kind="range", jobs=3):
    return readings.Value(x, spread.Spread(low, high, kind, jobs))


def test_a_value_is_a_number_and_keeps_its_interval():
    a, b = value(4.0, 3.0, 5.0), value(2.0, 1.0, 4.0, "jobs", 6)
    assert a == 4.0 and f"{a:.1f}" == "4.0" and readings.ends(1.5) == (1.5, 1.5)
    assert readings.ends(a / b) == (0.75, 5.0) and (a / b).spread.jobs == 3
    assert readings.ends(a + b) == (4.0, 9.0) and readings.ends(sum([a, b])) == (4.0, 9.0)
    assert readings.ends(2 * a) == (6.0, 10.0) and readings.ends(a / 2) == (1.5, 2.5)
    assert readings.ends(8 / b) == (2.0, 8.0)


@pytest.mark.parametrize("other", [value(0.0, -1.0, 1.0), value(-2.0, -3.0, -1.0)])
def test_a_ratio_that_has_no_interval_claims_none(other):
    assert (value(4.0, 3.0, 5.0) * other).spread is None
    assert (other / value(4.0, 3.0, 5.0)).spread is None


def test_by_has_the_interval_over_jobs(tmp_path):
    cases = [record(0.001 * (1 + n / 10), job=str(n), axes={"n": 1}) for n in range(3)]
    found = readings.load(write(tmp_path, cases)).by("n", metric="time")
    assert found[1] == pytest.approx(0.0011) and found[1].spread.kind == "range"
    assert readings.ends(found[1]) == pytest.approx((0.001, 0.0012))


def test_notebooks_take_another_folder(tmp_path, monkeypatch):
    folder = write(tmp_path / "r", [record(0.5, job="1"), record(0.7, job="2", node="n2")])
    monkeypatch.setenv(readings.DATA, str(folder))
    assert len(readings.example("none/such.jsonl")) == 2
    monkeypatch.setenv(readings.WHERE, "node=n2")
    assert readings.example("none/such.jsonl").value(metric="time") == pytest.approx(0.7)
    monkeypatch.delenv(readings.DATA)
    with pytest.raises(Error):
        readings.example(tmp_path / "none.jsonl")
