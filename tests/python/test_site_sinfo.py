"""Tests of reading Slurm's GRES and time limits: every entry of a node counts, and parts of words are not matched."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.site import sinfo

# Outputs of sinfo for one node, from gres_lines and reports of sites, with the number of the node's GPUs.
GRES = [
    ("(null)", 0),
    ("", 0),
    ("N/A", 0),
    ("gpu:a100:4(S:0-1)", 4),
    ("gpu:8", 8),
    ("gpu:8(S:0-1)", 8),
    ("gpu:v100:2(S:0-1),tmpfs:100G", 2),
    ("gpu:tesla:2,gpu:kepler:2", 4),
    ("gpu:1g.5gb:14(S:0),gpu:3g.20gb:2(S:1)", 16),
    ("gpu:nvidia_a100_1g.5gb:7", 7),
    ("mps:400,gpu:rtx:2", 2),
    ("gpu_mem:80000", 0),
    ("gpumem:80000,mygpu:3", 0),
    ("shard:32,gpu:8(S:0-1)", 8),
    ("shard:gpu:4", 0),
    ("gpu:a100:no_consume:4", 4),
    ("gpu:no_consume:4", 4),
    ("gpu:gh200:1(IDX:0),craynetwork:4", 1),
    ("gpu:a100:4(S:0,2)", 4),
    ("gpu:a100:3(IDX:0-1,3),gpu:v100:1(S:1,3)", 4),
    ("gpu", 1),
    ("gpu:tesla", 1),
    ("gpu:1080:2", 2),
    ("gpu:a100:0", 0),
    ("gres/gpu:a100=4", 4),
    ("gres:gpu:2", 2),
    ("craynetwork:4,hbm:16G", 0),
]


@pytest.mark.parametrize("text, count", GRES)
def test_gpus_of_a_node(text, count):
    found, unreadable = sinfo.gpus_of(text)
    assert sum(gpus.count for gpus in found) == count
    assert not unreadable


@pytest.mark.parametrize("text", ["gpu:a:b:2", "gpu::2", "gpu:a100:2(S:0", "gpu:a 100:2", "gpu:-1"])
def test_what_cannot_be_read_is_no_default(text):
    found, unreadable = sinfo.gpus_of(f"shard:1,{text}")
    assert not found and unreadable == [text]


TYPES = st.from_regex(r"[a-z][a-z0-9_.-]{0,10}", fullmatch=True).filter(lambda word: word != "no_consume")
SOCKETS = st.sampled_from(["", "(S:0-1)", "(S:0,2)", "(IDX:0-1,3)"])
GPU_ENTRIES = st.tuples(st.none() | TYPES, st.booleans(), st.integers(0, 64), SOCKETS)
OTHER_ENTRIES = st.tuples(
    st.sampled_from(["shard", "mps", "gpu_mem", "gpumem", "craynetwork", "tmpfs", "vgpu"]),
    st.integers(0, 10**6),
    st.sampled_from(["", "G", "M"]),
    SOCKETS,
)


@given(st.lists(GPU_ENTRIES | OTHER_ENTRIES, max_size=6))
def test_every_gpu_entry_counts_and_no_other(entries):
    words, total = [], 0
    for entry in entries:
        if isinstance(entry[2], int):
            kind, is_free, count, sockets = entry
            parts = ["gpu", *([kind] if kind else []), *(["no_consume"] if is_free else []), str(count)]
            words.append(":".join(parts) + sockets)
            total += count
        else:
            words.append(f"{entry[0]}:{entry[1]}{entry[2]}{entry[3]}")
    found, unreadable = sinfo.gpus_of(",".join(words))
    assert sum(gpus.count for gpus in found) == total
    assert not unreadable


@given(st.text())
def test_any_gres_is_read_or_named(text):
    found, unreadable = sinfo.gpus_of(text)
    assert all(gpus.count > 0 for gpus in found)
    assert all("gpu" in entry for entry in unreadable)


@pytest.mark.parametrize(
    "text, seconds",
    [
        ("infinite", None), ("UNLIMITED", None), ("", None),
        ("30", 1800), ("0:30", 30), ("30:00", 1800), ("90:00", 5400), ("1:30:00", 5400), ("12:00:00", 43200),
        ("1-12", 129600), ("1-12:30", 131400), ("1-00:00:00", 86400), ("7-00:00:01", 604801),
    ],
)  # fmt: skip
def test_time_limits(text, seconds):
    assert sinfo.seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["odd", "1h", "-1", "1:2:3:4", "1-", "1-2:3:4:5", "½", "١:٣", "n/a", "1.5"])
def test_no_time_limit(text):
    with pytest.raises(ValueError, match="is not a time limit"):
        sinfo.seconds_of(text)


@given(st.integers(0, 10**7), st.booleans())
def test_a_limit_as_slurm_writes_it_is_the_same_again(seconds, with_days):
    """Reads limits as Slurm's secs2time_str() writes them: [D-]HH:MM:SS, or MM:SS below an hour."""
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    text = (
        f"{days}-{hour:02}:{minute:02}:{second:02}"
        if days or with_days
        else (f"{hour}:{minute:02}:{second:02}" if hour else f"{minute}:{second:02}")
    )
    assert sinfo.seconds_of(text) == seconds


@given(st.text())
def test_any_text_is_a_limit_or_refused(text):
    try:
        seconds = sinfo.seconds_of(text)
    except ValueError:
        return
    assert seconds is None or seconds >= 0
