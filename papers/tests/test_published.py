"""Comparison of papers' figures with ours: the files, the verdicts, and invalid input."""

import math
import pathlib
import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus import Error
from isthmus.statistics import spread
from isthmus.tables import readings
from isthmus_papers import published

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "papers/data/published").glob("*.csv"))
HEAD = "id,figure,place,machine,what,low,high,unit,neutral,expect\n"


def figure(low=None, high=None, neutral=1.0, expect="value", unit="1"):
    return published.Figure("x", "4", "section 1", "M", "what", low, high, unit, neutral, expect)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_committed_files_are_whole(path):
    found = published.load(path)
    assert len(found) >= 15
    for each in found.values():
        assert each.place and each.machine and each.what and each.text()


def test_five_papers():
    assert [path.stem for path in FILES] == ["commscope", "gpuvm", "mi300a", "pipelining", "uvm-batches"]


def ours(value, low=None, high=None, kind="jobs"):
    return readings.Value(value, spread.Spread(low or value, high or value, kind, 6))


@pytest.mark.parametrize(
    ("theirs", "ours", "verdict"),
    [
        (figure(0.5), 0.5, "agrees"),
        (figure(0.5), ours(0.57, 0.56, 0.58), "agrees"),
        (figure(0.5), 0.8, "same direction"),
        (figure(0.434), ours(0.297, 0.295, 0.299), "same direction"),
        (figure(1 / 0.434), ours(1 / 0.297, 1 / 0.299, 1 / 0.295), "same direction"),
        (figure(0.5), 0.97, "cannot tell"),  # of one process, so it may be 1
        (figure(0.5), ours(0.97, 0.96, 0.98), "same direction"),
        (figure(0.5), 1.3, "contradicts"),
        (figure(0.9), ours(1.06, 0.99, 1.13), "cannot tell"),
        (figure(0.0872), ours(0.0872, 0.011, 0.163), "same direction"),  # too uncertain to agree
        (figure(0.5), ours(0.5, 0.2, 1.2), "cannot tell"),
        (figure(1.02), ours(1.04), "agrees"),  # a ratio below 1.03
        (figure(1.02), 1.5, "contradicts"),
        (figure(1.6, 2.0), 1.8, "agrees"),
        (figure(0.56, 0.90), ours(1.0), "contradicts"),
        (figure(0.56, 0.90), 1.0, "cannot tell"),
        (figure(0.56, 0.90), 0.8, "agrees"),
        (figure(0.95, neutral=None), ours(0.9), "agrees"),
        (figure(0.95, neutral=None), 0.8, "contradicts"),
        (figure(0.95, neutral=None), 0, "contradicts"),
        (figure(expect="more"), 1.2, "agrees"),
        (figure(expect="more"), 1.01, "cannot tell"),
        (figure(expect="more"), 0.5, "contradicts"),
        (figure(expect="less"), 0.5, "agrees"),
        (figure(expect="equal"), 1.08, "agrees"),
        (figure(expect="equal"), 2.0, "contradicts"),
        (figure(expect="at most"), 0.2, "agrees"),
        (figure(expect="at most"), 1.2, "contradicts"),
        (figure(5e9, expect="context", unit="B/s"), 1e9, "not judged"),
        (figure(0.5), None, "no record"),
        (figure(0.5), float("nan"), "no record"),
    ],
)
def test_what_a_comparison_comes_to(theirs, ours, verdict):
    assert published.judge(theirs, ours) == verdict


@given(
    st.floats(0.01, 100), st.floats(0.01, 100), st.sampled_from(published.EXPECT), st.one_of(st.none(), st.just(1.0))
)
def test_every_comparison_comes_to_something(low, value, expect, neutral):
    if expect not in ("value", "context"):
        neutral = 1.0
    theirs = figure(low, expect=expect, neutral=neutral)
    assert published.judge(theirs, value) in published.VERDICTS
    if expect == "value":
        assert published.judge(theirs, ours(low)) == "agrees"


RATIO = st.floats(0.02, 50)
WIDTH = st.floats(1, 2)  # of an interval, as a factor to either side


@given(RATIO, st.floats(1, 1.5), RATIO, WIDTH, st.one_of(st.none(), st.just(1.0)))
def test_a_ratio_and_its_inverse_have_the_same_verdict(low, range_, value, width, neutral):
    one = published.judge(figure(low, low * range_, neutral), ours(value, value / width, value * width))
    value = 1 / value
    other = published.judge(figure(1 / (low * range_), 1 / low, neutral), ours(value, value / width, value * width))
    assert one == other


@given(RATIO, st.floats(1, 10), st.floats(1, 10), st.booleans(), st.one_of(st.none(), st.just(1.0)))
def test_a_figure_that_is_farther_off_never_has_a_better_verdict(low, near, more, above, neutral):
    theirs, sign = figure(low, neutral=neutral), 1 if above else -1
    verdicts = [published.judge(theirs, ours(low * factor**sign)) for factor in (near, near * more)]
    assert published.VERDICTS.index(verdicts[0]) <= published.VERDICTS.index(verdicts[1])


@given(RATIO, RATIO, WIDTH, st.one_of(st.none(), st.just(1.0)))
def test_an_interval_that_excludes_the_paper_never_agrees(low, value, width, neutral):
    effect = published.EFFECT * abs(math.log(low)) if neutral else math.log(1 + published.SAME)
    margin = max(effect, math.log(1 + published.CLOSE))
    verdict = published.judge(figure(low, neutral=neutral), ours(value, value / width, value * width))
    if abs(math.log(value / low)) - math.log(width) > margin * (1 + 1e-9):
        assert verdict != "agrees"
    if width > 1 and math.log(width) > 2 * margin * (1 + 1e-9):
        assert verdict != "agrees"


def test_the_sentence_follows_the_rows():
    figures = {"a": figure(0.5), "b": figure(0.5), "c": figure(2e9, expect="context", unit="B/s"), "d": figure(2.0)}
    rows = published.compared(figures, {"a": 0.5, "b": 1.5, "c": 1e9, "d": None})
    said = published.sentence(rows)
    assert (
        "Of 2 statements, ours agree with 1 and contradict 1." in said and "Contradicted: what (0.5, here 1.5)." in said
    )
    assert "1 figure is specific to the paper's" in said and "1 figure has no record" in said
    assert "None is contradicted" in published.sentence(published.compared(figures, {"a": 0.51}))
    assert published.sentence(published.compared(figures, {"d": None})).startswith("Nothing here can be judged.")
    assert published.markdown(rows).count("\n") == 7 and published.MEANING in published.markdown(rows)
    assert "2.00 GB/s (M) | 1.00 GB/s | not judged" in published.markdown(rows)
    with pytest.raises(Error, match="no published figure is called 'z'"):
        published.compared(figures, {"z": 1.0})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the first line is"),
        ("id,what\n", "the first line is"),
        (HEAD + "a,1,p,m,w,1,,1,1\n", "10 values are expected"),
        (HEAD + "a,1,p,m,w,x,,1,1,value\n", "low is 'x', not a number"),
        (HEAD + "a,1,p,m,w,nan,,1,1,value\n", "not a number"),
        (HEAD + "a,1,p,m,w,1,,1,1,maybe\n", "expect is 'maybe'"),
        (HEAD + "a,1,p,m,w,1,,W,1,value\n", "the unit is 'W'"),
        (HEAD + "a,1,p,m,w,,,1,1,value\n", "low is empty"),
        (HEAD + "a,1,p,m,w,0,,1,1,value\n", "low is not above zero"),
        (HEAD + "a,1,p,m,w,1,,1,0,value\n", "neutral is not above zero"),
        (HEAD + "a,1,p,m,w,,,1,,more\n", "neutral is empty"),
        (HEAD + "a,1,p,m,w,2,1,1,1,value\n", "high is below low"),
        (HEAD + "a,1,p,m,w,1,,1,1,value\n" * 2, "appears twice"),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path, text, why):
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(Error, match=why):
        published.load(path)


def test_a_file_that_is_not_there_and_one_that_is_not_text(tmp_path):
    with pytest.raises(Error, match="No such file"):
        published.load(tmp_path / "none.csv")
    (tmp_path / "x.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(Error):
        published.load(tmp_path / "x.csv")


@given(st.text(max_size=200))
def test_any_text_is_refused_or_read(text):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "x.csv"
        path.write_text(HEAD + text, encoding="utf-8")
        try:
            found = published.load(path)
        except Error as error:
            assert str(error).startswith(str(path))
        else:
            assert all(each.expect in published.EXPECT for each in found.values())
