"""Figures of papers beside ours: the files, what a comparison comes to, and bad input."""

import pathlib
import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus import Error
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


@pytest.mark.parametrize(
    ("theirs", "ours", "verdict"),
    [
        (figure(0.5), 0.5, "holds"),
        (figure(0.5), 0.6, "holds"),  # an effect of 50%, ours 40%
        (figure(0.5), 0.8, "same direction"),
        (figure(0.5), 0.97, "no effect here"),
        (figure(0.5), 1.3, "the opposite"),
        (figure(1.02), 1.04, "holds"),  # within 0.03
        (figure(1.02), 1.5, "another value"),
        (figure(1.6, 2.0), 1.8, "holds"),
        (figure(0.95, neutral=None), 0.9, "holds"),
        (figure(0.95, neutral=None), 0.8, "another value"),
        (figure(expect="more"), 1.2, "holds"),
        (figure(expect="more"), 1.01, "no effect here"),
        (figure(expect="more"), 0.5, "the opposite"),
        (figure(expect="less"), 0.5, "holds"),
        (figure(expect="equal"), 1.08, "holds"),
        (figure(expect="equal"), 2.0, "another value"),
        (figure(expect="at most"), 0.2, "holds"),
        (figure(expect="at most"), 1.2, "the opposite"),
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
def test_every_comparison_comes_to_something(low, ours, expect, neutral):
    if expect not in ("value", "context"):
        neutral = 1.0
    theirs = figure(low, expect=expect, neutral=neutral)
    assert published.judge(theirs, ours) in published.VERDICTS
    if expect == "value":
        assert published.judge(theirs, low) == "holds"


def test_the_sentence_follows_the_rows():
    figures = {"a": figure(0.5), "b": figure(0.5), "c": figure(2e9, expect="context", unit="B/s"), "d": figure(2.0)}
    rows = published.beside(figures, {"a": 0.5, "b": 1.5, "c": 1e9, "d": None})
    said = published.sentence(rows)
    assert "Of 2 statements that can be compared, 1 hold" in said and "0.5, here 1.5: the opposite" in said
    assert "1 figures only stand" in said and "1 figures have no record" in said
    assert "None contradicts" in published.sentence(published.beside(figures, {"a": 0.51}))
    assert published.sentence(published.beside(figures, {"d": None})).startswith("Nothing here can be judged.")
    assert published.markdown(rows).count("\n") == 7 and published.MEANING in published.markdown(rows)
    assert "2.00 GB/s (M) | 1.00 GB/s | not judged" in published.markdown(rows)
    with pytest.raises(Error, match="no published figure is called 'z'"):
        published.beside(figures, {"z": 1.0})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the first line is"),
        ("id,what\n", "the first line is"),
        (HEAD + "a,1,p,m,w,1,,1,1\n", "10 values are wanted"),
        (HEAD + "a,1,p,m,w,x,,1,1,value\n", "low is 'x', no number"),
        (HEAD + "a,1,p,m,w,nan,,1,1,value\n", "no number"),
        (HEAD + "a,1,p,m,w,1,,1,1,maybe\n", "expect is 'maybe'"),
        (HEAD + "a,1,p,m,w,1,,W,1,value\n", "the unit is 'W'"),
        (HEAD + "a,1,p,m,w,,,1,1,value\n", "there is none"),
        (HEAD + "a,1,p,m,w,,,1,,more\n", "neutral is empty"),
        (HEAD + "a,1,p,m,w,2,1,1,1,value\n", "high is below low"),
        (HEAD + "a,1,p,m,w,1,,1,1,value\n" * 2, "stands twice"),
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
