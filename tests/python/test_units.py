"""Amounts, shares and numbers as a command line gives them."""

import argparse
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus import units


@pytest.mark.parametrize(
    "text, value", [("0", 0), ("1.5", 1.5), ("1e9", 1e9), ("4KiB", 4096), ("16GiB", 2**34), ("0.5TiB", 2**39)]
)
def test_amounts(text, value):
    assert units.amount(text) == value


@pytest.mark.parametrize("text, value", [("3%", 0.03), ("0.03", 0.03), ("99.9%", 0.999), ("1e-3", 0.001)])
def test_shares(text, value):
    assert units.share(text) == pytest.approx(value)


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
        assert "write 0.03 or 3%" in str(error)
    try:
        assert units.count(text) >= 1
    except argparse.ArgumentTypeError as error:
        assert "1 or more" in str(error)


@pytest.mark.parametrize(
    "seconds, text", [(0.012, "12 ms"), (3.5, "3.5 s"), (1234.0, "1.23e+03 s"), (9.999e-4, "1 ms"), (0.0, "0 s")]
)
def test_durations(seconds, text):
    assert units.duration(seconds) == text
