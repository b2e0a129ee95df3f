"""Tests of amounts, shares and numbers as they are written on a command line."""

import argparse
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus import spelling, units


@pytest.mark.parametrize(
    "text, value", [("0", 0), ("1.5", 1.5), ("1e9", 1e9), ("4KiB", 4096), ("16GiB", 2**34), ("0.5TiB", 2**39)]
)
def test_amounts(text, value):
    assert units.amount(text) == value


@pytest.mark.parametrize("text, value", [("3%", 0.03), ("0.03", 0.03), ("99.9%", 0.999), ("1e-3", 0.001)])
def test_shares(text, value):
    assert units.share(text) == pytest.approx(value)


@pytest.mark.parametrize("text, why", [("5", "5% is written 0.05 or 5%"), ("150%", "write 0.03 or 3%")])
def test_a_percentage_without_its_sign_is_refused_as_one(text, why):
    with pytest.raises(argparse.ArgumentTypeError, match=re.escape(why)):
        units.share(text)


@given(st.text() | st.floats().map(str) | st.from_regex(r"-?[0-9]{1,12}(\.[0-9]*)?(%|[KMG]iB|)", fullmatch=True))
def test_anything_else_is_refused(text):
    try:
        value = units.amount(text)
        assert math.isfinite(value) and value >= 0
    except ValueError:
        pass
    try:
        assert 0 < units.share(text) < 1
    except argparse.ArgumentTypeError as error:
        assert "is not a share between 0 and 1; " in str(error)
    try:
        assert units.count(text) >= 1
    except argparse.ArgumentTypeError as error:
        assert "1 or more" in str(error)


@pytest.mark.parametrize(
    "value, unit, text",
    [(0.012, "s", "12 ms"), (3.5, "s", "3.5 s"), (1234.0, "s", "1234 s"), (9.999e-4, "s", "1 ms"), (0.0, "s", "0 s"),
     (0.5, "1/s", "0.5 /s"), (2e6, "1/s", "2 M/s"), (0.02, "1", "0.02"), (4096, "1", "4096")],
)  # fmt: skip
def test_ticks(value, unit, text):
    assert units.short(value, unit) == text


@pytest.mark.parametrize(
    "value, unit, scale",
    [(0.02, "1", (1, "")), (2e9, "B/s", (1e9, "GB/s")), (0.02, "1/s", (1, "/s")), (2e4, "s", (1, "s")),
     (0.0, "B", (1, "B"))],
)  # fmt: skip
def test_scales(value, unit, scale):
    assert units.scale_of(value, unit) == scale


@pytest.mark.parametrize(
    "words, text",
    [((1, "record"), "1 record"), ((0, "record"), "0 records"), ((1, "file", "are"), "1 file is"),
     ((2, "node", "have"), "2 nodes have"), ((1, "node", "have"), "1 node has"), ((1, "file", "were"), "1 file was")],
)  # fmt: skip
def test_counted(words, text):
    assert spelling.counted(*words) == text
