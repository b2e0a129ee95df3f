"""Tests of evictions on a GPU with too little memory, with handmade streams of known programs."""

import json

import fault_streams
import numpy
import pytest
from fault_streams import BLOCK, PAGE, dense

from isthmus import cli
from isthmus.faults import tracefile
from isthmus.faults.evictions import evictions_of

BASE = 0x7F0000000000
ROOM = 8  # number of blocks that fit into the GPU's memory


def found_in(stream):
    return evictions_of(tracefile.decode(stream.rows()))


def oversubscribed(order, choose):
    """Returns the stream of a GPU that touches blocks in this order. If memory is full, `choose` selects the block to
    evict."""
    stream, there = fault_streams.Stream(), []
    for block in order:
        if block in there:
            continue
        if len(there) == ROOM:
            gone = there.pop(choose(len(there)))
            stream.host(BASE + gone * BLOCK, BLOCK, evicted=True)
        stream.faults(dense(BASE + block * BLOCK, BLOCK))
        there.append(block)
    return stream


SWEEPS = [*range(12), *range(12)]  # if the oldest blocks are evicted first, the second sweep finds none of its blocks


@pytest.mark.parametrize("choose, age", [(lambda count: 0, 0), (lambda count: count - 1, 1)])
def test_the_order_is_the_oldest_or_the_youngest_first(choose, age):
    found = found_in(oversubscribed(SWEEPS, choose))
    assert found.age == pytest.approx(age)
    assert found.bytes == found.blocks * BLOCK and found.dropped_bytes == 0


def test_no_order_is_a_half():
    chance = numpy.random.default_rng(1)
    order = chance.integers(0, 40, 600).tolist()
    assert found_in(oversubscribed(order, lambda count: int(chance.integers(count)))).age == pytest.approx(
        0.5, abs=0.05
    )


def test_what_comes_back_is_thrashing_and_has_a_time():
    found = found_in(oversubscribed(SWEEPS, lambda count: 0))
    # The first 8 of 24 touches evict nothing. In the second sweep, all 12 blocks have been evicted and must return.
    assert (found.blocks, found.returned, found.returned_bytes) == (16, 12, 12 * BLOCK)
    assert 0 < found.away < 1
    once = found_in(oversubscribed(range(12), lambda count: 0))
    assert (once.blocks, once.returned, once.returned_bytes, once.away) == (4, 0, 0, None)


def test_a_block_that_leaves_in_pieces_is_evicted_once():
    stream = fault_streams.Stream()
    stream.faults(dense(BASE, 2 * BLOCK))
    for piece in range(0, BLOCK, BLOCK // 4):
        when = fault_streams.BASE + stream.now + piece
        stream.add("move", cause=4, source=1, destination=0, address=BASE + piece, bytes=BLOCK // 4, begin=when)
    found = found_in(stream)
    assert (found.blocks, found.bytes, found.age) == (1, BLOCK, 0)


def test_what_arrives_again_without_having_left_was_dropped():
    stream = oversubscribed(range(9), lambda count: 0)
    stream.faults(dense(BASE + 5 * BLOCK, BLOCK // 2))
    assert found_in(stream).dropped_bytes == BLOCK // 2
    stream.add("cpu_fault", access=1, address=BASE + 6 * BLOCK, time=fault_streams.BASE + stream.now)
    stream.now += 1000
    stream.faults(dense(BASE + 6 * BLOCK, BLOCK))  # the host's access may have removed a read-only copy on the GPU
    assert found_in(stream).dropped_bytes == BLOCK // 2


def test_each_gpu_has_its_own_memory():
    stream = fault_streams.Stream()
    stream.faults(dense(BASE, BLOCK))
    stream.faults(dense(BASE, BLOCK), gpu=2, source=1)  # a move to another GPU is not an eviction
    stream.faults(dense(BASE, BLOCK), gpu=1, source=2)
    stream.host(BASE, BLOCK, evicted=True)
    found = found_in(stream)
    assert (found.blocks, found.dropped_bytes) == (1, 0)


def test_a_move_over_blocks_is_that_of_each():
    stream = fault_streams.Stream()
    stream.add("move", cause=1, source=0, destination=1, address=BASE + BLOCK - PAGE, bytes=2 * PAGE, begin=10)
    stream.add("move", cause=4, source=1, destination=0, address=BASE + BLOCK - PAGE, bytes=2 * PAGE, begin=20)
    found = found_in(stream)
    assert (found.blocks, found.bytes) == (2, 2 * PAGE)


def test_the_report_says_it_only_where_something_was_evicted(tmp_path, capsys):
    path = fault_streams.write(tmp_path / "a.1.uvm", oversubscribed(SWEEPS, lambda count: 0).rows())
    cli.main(["faults", "report", str(path)])
    said = capsys.readouterr().out
    assert "evicted: 16 blocks, 32.00 MiB, age 0.00 (0: oldest first" in said
    assert "came back: 12 blocks, 24.00 MiB, after" in said and "not written back" not in said
    cli.main(["faults", "report", str(path), "--format", "json"])
    rows = {row["name"]: row.get("value") for row in json.loads(capsys.readouterr().out) if row["says"] == "figure"}
    assert (rows["evictions_blocks"], rows["evictions_returned_bytes"]) == (16, 12 * BLOCK)
    cli.main(["faults", "report", str(path), "-o", str(tmp_path / "page.html")])
    assert "evicted: 16 blocks" in (tmp_path / "page.html").read_text()
    whole = fault_streams.write(tmp_path / "b.1.uvm", oversubscribed(range(4), lambda count: 0).rows())
    cli.main(["faults", "report", str(whole)])
    assert "evicted:" not in capsys.readouterr().out
