"""Reader of libisthmus-uvm.so's files: returns the driver's events as arrays, their batches, and their figures.

docs/uvm.md explains each figure. The order of entries has no meaning; only their times do. Files are not trusted:
impossible entries are counted and left out.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
import struct
import zlib
from typing import NamedTuple

import numpy

from isthmus import Error
from isthmus.faults import memory
from isthmus.inputs import open_file

_MAGIC = b"isthmus.uvm/1\n\0\0"
_HEAD, _CHUNK = struct.Struct("<16sII"), struct.Struct("<IIIIQQ")
_MARK, _END = 0x434D5655, 0x454D5655
_MOST_OF_CHUNK, _MOST_FACTS = 1 << 18, 1 << 20
_ENTRY_BYTES = 64
_MOST_PACKED = 2 * _MOST_OF_CHUNK * _ENTRY_BYTES  # generous, since incompressible data hardly grows
PAGE, BLOCK = 12, 21  # page and block size as powers of two
BLOCK_BYTES = 1 << BLOCK
_LONGEST = 60_000_000_000  # longest possible duration in nanoseconds; anything longer means that a clock jumped
# Limits that no machine's addresses, sizes and times reach; sums of 10^6 sizes below the limit fit in 63 bits.
_MOST_ADDRESS, _MOST_BYTES, _MOST_TIME = 1 << 57, 1 << 40, 1 << 62
_CPU_FAULT, _MIGRATION, _GPU_FAULT, _REPLAY, _THRASHING, _THROTTLING, _REMOTE = 1, 2, 3, 4, 10, 11, 13
_HUB = 2
READ = 1  # code of a read access
FAULT, PREFETCH, EVICTION = 2, 3, 4  # causes of moves
BY_FAULT = (FAULT, PREFETCH)  # causes that follow from a fault, since the prefetcher moves neighbours of a fault
CAUSES = {1: "asked", 2: "fault", 3: "prefetcher", 4: "eviction", 5: "access counter"}
#: Driver branches whose events were examined; src/trace/uvm/driver.cpp has the same list.
KNOWN_BRANCHES = (515, 520, 525, 530, 535, 545, 550, 555, 560, 565, 570, 575, 580, 590, 595)


def _layout(**fields: tuple[str, int]) -> numpy.dtype:
    """Makes the layout of an entry from the type and offset of each field."""
    return numpy.dtype(
        {
            "names": list(fields),
            "formats": [kind for kind, _ in fields.values()],
            "offsets": [at for _, at in fields.values()],
            "itemsize": _ENTRY_BYTES,
        }
    )


_LAYOUTS = {
    _CPU_FAULT: _layout(access=("u1", 1), address=("<u8", 8), time=("<u8", 16)),
    _MIGRATION: _layout(
        cause=("u1", 1), source=("u1", 2), destination=("u1", 3), address=("<u8", 8), bytes=("<u8", 16),
        begin=("<u8", 24), gpu_begin=("<u8", 48), gpu_end=("<u8", 56),
    ),
    _GPU_FAULT: _layout(
        access=("u1", 2), gpu=("u1", 3), gpc=("<u2", 4), client=("<u2", 6), address=("<u8", 8), time=("<u8", 16),
        gpu_time=("<u8", 24), batch=("<u4", 32), kind=("u1", 36),
    ),
    _REPLAY: _layout(gpu=("u1", 1), kind=("u1", 2), batch=("<u4", 4), time=("<u8", 8), gpu_time=("<u8", 16)),
    _THRASHING: _layout(address=("<u8", 16), bytes=("<u8", 24), time=("<u8", 32)),
    _THROTTLING: _layout(address=("<u8", 8), time=("<u8", 16)),
    _REMOTE: _layout(address=("<u8", 8), bytes=("<u8", 16), time=("<u8", 24), gpu_time=("<u8", 32)),
}  # fmt: skip
_LIMITS = {
    "address": _MOST_ADDRESS, "bytes": _MOST_BYTES, "time": _MOST_TIME, "gpu_time": _MOST_TIME, "begin": _MOST_TIME,
    "gpu_begin": _MOST_TIME, "gpu_end": _MOST_TIME,
}  # fmt: skip


@dataclasses.dataclass
class Trace:
    """Trace of a process; `problem` states why it may be incomplete."""

    facts: dict[str, str]
    entries: numpy.ndarray  # rows of 64 bytes
    dropped: int = 0
    foreign_replays: int = 0
    problem: str = ""


def read(path: pathlib.Path, most: int | None = None) -> Trace:
    """Reads a file of libisthmus-uvm.so, up to `most` events; by default as many as memory allows (memory.py).

    If the file is truncated, corrupt or has more events, returns its intact part. Raises Error if it is not a trace.
    """
    pieces: list[bytes] = []
    try:
        with open_file(path) as file:
            trace = Trace(_facts(file, path), _rows(b""))
            why = _read_chunks(trace, file, pieces, memory.most_events() if most is None else most)
    except OSError as failure:
        raise Error(f"{path} cannot be read ({failure.strerror}); name a trace") from None
    trace.entries = _rows(b"".join(pieces))
    if why:
        trace.problem = f"{path} {why}; {len(trace.entries)} events before that are complete"
    return trace


def _facts(file, path: pathlib.Path) -> dict[str, str]:
    """Reads the facts of the process from the head of a trace. Raises Error if the file is not a trace."""
    head = file.read(_HEAD.size)
    magic, size, total = _HEAD.unpack(head) if len(head) == _HEAD.size else (b"", 0, 0)
    text = file.read(size) if magic == _MAGIC and size <= _MOST_FACTS else b""
    if magic != _MAGIC or len(text) != size or zlib.crc32(text) != total:
        raise Error(f"{path} is not a trace of page faults, or its head is cut short; record it again")
    lines = text.decode(errors="replace").splitlines()
    return {name: value for name, sign, value in (line.partition("=") for line in lines) if sign}


def _rows(data: bytes) -> numpy.ndarray:
    return numpy.frombuffer(data, "u1").reshape(-1, _ENTRY_BYTES)


def _read_chunks(trace: Trace, file, pieces: list[bytes], most: int) -> str:
    """Adds the intact chunks to the trace; returns why there may be more events, or an empty string."""
    left = most
    while head := file.read(_CHUNK.size):
        if len(head) < _CHUNK.size:
            return "is cut short"
        mark, count, size, total, dropped, foreign = _CHUNK.unpack(head)
        if mark == _END:
            return "continues past its end" if file.read(1) else ""
        if mark != _MARK or count > _MOST_OF_CHUNK or size > _MOST_PACKED:
            return "is corrupt"
        if count > left:
            return f"has more events than the {most} that fit in half of the free memory, so record a shorter run"
        packed = file.read(size)
        if len(packed) != size:
            return "is cut short"
        data = _unpacked(packed, count, total)
        if data is None:
            return "is corrupt"
        pieces.append(data)
        left -= count
        trace.dropped += dropped
        trace.foreign_replays += foreign
    return "has no end, since its process was killed or still runs"


def _unpacked(packed: bytes, count: int, total: int) -> bytes | None:
    """Decompresses the entries of a chunk; returns None if their number or checksum is wrong."""
    try:
        data = zlib.decompressobj().decompress(packed, count * _ENTRY_BYTES + 1)
    except zlib.error:
        return None
    return data if zlib.crc32(packed) == total and len(data) == count * _ENTRY_BYTES else None


def is_emulated(facts: dict[str, str]) -> bool:
    return "(emulated)" in facts.get("driver", "")


def branch_problem(facts: dict[str, str]) -> str:
    """Returns a sentence if this driver's events were not examined, or an empty string."""
    driver = facts.get("driver", "")
    found = re.search(r"(?<![\d.])(\d{3,4})\.\d", driver)
    if found and int(found[1]) in KNOWN_BRANCHES:
        return ""
    name = f"driver branch {found[1]}" if found else f"a driver of unknown version ('{driver[:40]}')"
    return (
        f"the events of {name} were not examined, so they may have another meaning: before trusting them, compare the "
        "bytes that moved with those that the program needs"
    )


# --- events ---


@dataclasses.dataclass
class Events:
    """Entries of a trace, one array per kind; `strange` counts impossible entries, which are left out."""

    strange: int
    cpu_faults: numpy.ndarray
    moves: numpy.ndarray
    faults: numpy.ndarray
    replays: numpy.ndarray
    thrashings: numpy.ndarray
    throttlings: numpy.ndarray
    remote_maps: numpy.ndarray


def decode(entries: numpy.ndarray) -> Events:
    kinds = entries[:, 0]
    strange = 0
    found = []
    for kind, layout in _LAYOUTS.items():
        events = numpy.ascontiguousarray(entries[kinds == kind]).view(layout).ravel()
        good = numpy.ones(len(events), bool)
        for name in layout.names or ():
            if name in _LIMITS:
                good &= events[name] < numpy.uint64(_LIMITS[name])
        strange += int(len(events) - good.sum())
        found.append(events[good])
    return Events(strange, *found)


def distinct(values: numpy.ndarray) -> numpy.ndarray:
    """Returns the distinct values, sorted. numpy.unique() uses a hash, which is ten times as slow on page addresses."""
    found = numpy.sort(values)
    return found[numpy.append(True, found[1:] != found[:-1])[: len(found)]]


def signed(times: numpy.ndarray) -> numpy.ndarray:
    """Returns times as signed numbers, so that differences may be negative."""
    return times.astype("i8")


@dataclasses.dataclass
class Batches:
    """Batches that contain faults of this process, one row each, sorted by _keys(); times are in nanoseconds."""

    gpu: numpy.ndarray
    hub: numpy.ndarray  # true if the batch's faults come from copy engines
    number: numpy.ndarray
    faults: numpy.ndarray
    pages: numpy.ndarray
    blocks: numpy.ndarray
    begin: numpy.ndarray
    last: numpy.ndarray
    replay: numpy.ndarray  # time of the batch's last replay; 0 without a replay
    gpu_replay: numpy.ndarray
    timed: numpy.ndarray  # true if the batch has a replay at a possible time
    wrong: int  # number of replays at impossible times
    replays: int
    of_fault: numpy.ndarray  # row of each fault's batch
    block_faults: numpy.ndarray  # number of faults for each pair of a batch and a block
    block_batch: numpy.ndarray  # row of the batch in each of these pairs
    block: numpy.ndarray  # index of the block in each of these pairs: its address divided by the block size

    @property
    def service(self) -> numpy.ndarray:
        """Nanoseconds from the first fault to the replay of each timed batch."""
        return (self.replay - self.begin)[self.timed]


def _keys(events: numpy.ndarray) -> numpy.ndarray:
    """Returns a number that identifies each event's batch, from its GPU, kind of client and the driver's number."""
    hub = (events["kind"] == _HUB).astype("u8")
    return (events["gpu"].astype("u8") << numpy.uint64(40)) | (hub << numpy.uint64(32)) | events["batch"]


def pairs(first: numpy.ndarray, second: numpy.ndarray) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    """Returns the distinct pairs of values (two arrays), and how often each pair occurs."""
    names, place = numpy.unique(second, return_inverse=True)
    width = max(len(names), 1)
    found, counts = numpy.unique(first.astype("i8") * width + place, return_counts=True)
    return found // width, names[found % width] if len(names) else names, counts


def batches_of(events: Events) -> Batches:
    faults = events.faults
    keys, of_fault = numpy.unique(_keys(faults), return_inverse=True)
    of_replay = _keys(events.replays)
    ours = numpy.isin(of_replay, keys)
    replays, place = events.replays[ours], numpy.searchsorted(keys, of_replay[ours])
    count = len(keys)
    begin = numpy.full(count, numpy.iinfo("i8").max)
    last, replay, gpu_replay = (numpy.zeros(count, "i8") for _ in range(3))
    times = signed(faults["time"])
    numpy.minimum.at(begin, of_fault, times)
    numpy.maximum.at(last, of_fault, times)
    numpy.maximum.at(replay, place, signed(replays["time"]))
    numpy.maximum.at(gpu_replay, place, signed(replays["gpu_time"]))
    has = numpy.zeros(count, bool)
    has[place] = True
    wrong = has & ((replay < last) | (replay - begin > _LONGEST))
    page_batch, _, _ = pairs(of_fault, faults["address"] >> numpy.uint64(PAGE))
    block_batch, block, block_faults = pairs(of_fault, faults["address"] >> numpy.uint64(BLOCK))
    return Batches(
        gpu=(keys >> numpy.uint64(40)).astype("i8"), hub=(keys >> numpy.uint64(32)) & numpy.uint64(1) == 1,
        number=(keys & numpy.uint64(0xFFFFFFFF)).astype("i8"),
        faults=numpy.bincount(of_fault, minlength=count), pages=numpy.bincount(page_batch, minlength=count),
        blocks=numpy.bincount(block_batch, minlength=count), begin=begin, last=last, replay=replay,
        gpu_replay=gpu_replay, timed=has & ~wrong, wrong=int(wrong.sum()), replays=len(replays), of_fault=of_fault,
        block_faults=block_faults, block_batch=block_batch, block=block,
    )  # fmt: skip


def transfers(moves: numpy.ndarray) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Returns the durations of moves (nanoseconds of the GPU's clock), and a mask of the moves that have one.

    Other moves have no duration, because the driver did not wait for their end.
    """
    begin, end = signed(moves["gpu_begin"]), signed(moves["gpu_end"])
    has = (begin != 0) & (end != 0)
    return (end - begin)[has], has


def batch_of_moves(moves, gpu, begin, until) -> numpy.ndarray:
    """Returns, for each move, the row of the batch during whose service it was queued, or -1.

    A GPU has one batch in service at a time; moves to it and evictions from it during that time belong to that batch.
    `moves` contains cause, source, destination and begin; `gpu`, `begin` and `until` are the GPU of each batch and the
    begin and end of its service.
    """
    found = numpy.full(len(moves["begin"]), -1)
    evicted = moves["cause"] == EVICTION
    own = numpy.where(evicted, moves["source"], moves["destination"]).astype("i8")
    served = numpy.isin(moves["cause"], [*BY_FAULT, EVICTION])
    when = moves["begin"] if moves["begin"].dtype.kind == "f" else signed(moves["begin"])
    for each in numpy.unique(gpu):
        rows = numpy.flatnonzero(gpu == each)
        rows = rows[numpy.argsort(begin[rows], kind="stable")]
        mine = numpy.flatnonzero((own == each) & served)
        place = numpy.searchsorted(begin[rows], when[mine], side="right") - 1
        row = rows[numpy.maximum(place, 0)]
        found[mine] = numpy.where((place >= 0) & (when[mine] <= until[row]), row, -1)
    return found


# --- ranges ---

_GAP = 4  # largest number of untouched blocks between touched ones of a range


def blocks_of(addresses: numpy.ndarray) -> numpy.ndarray:
    return (addresses >> numpy.uint64(BLOCK)).astype("i8")


class Spans(NamedTuple):
    """Ranges of blocks, sorted by address; each array has one value per range."""

    first: numpy.ndarray  # first block
    blocks: numpy.ndarray  # number of blocks from first to last
    touched: numpy.ndarray  # number of touched blocks


def spans_of(events: Events) -> Spans:
    touched = [blocks_of(each["address"]) for each in (events.faults, events.cpu_faults, events.moves)]
    ends = events.moves["address"] + numpy.maximum(events.moves["bytes"], numpy.uint64(1)) - numpy.uint64(1)
    small = events.moves["bytes"] <= BLOCK_BYTES  # moves of more than a block are not from a driver
    found = distinct(numpy.concatenate([*touched, blocks_of(ends[small])]))
    starts = numpy.flatnonzero(numpy.diff(found, prepend=-_GAP - 2) > _GAP + 1)
    ends = numpy.append(starts[1:], len(found))[: len(starts)]
    return Spans(found[starts], found[ends - 1] - found[starts] + 1, ends - starts)


# --- figures ---


@dataclasses.dataclass
class Spread:
    """Distribution of counts; `deviation` is the population's standard deviation."""

    mean: float
    deviation: float
    least: int
    most: int

    @classmethod
    def of(cls, counts: numpy.ndarray) -> Spread | None:
        if not len(counts):
            return None
        return cls(float(counts.mean()), float(counts.std()), int(counts.min()), int(counts.max()))


@dataclasses.dataclass
class Figures:
    """Figures of a trace, as docs/uvm.md explains them."""

    faults: int
    pages: int
    batches: int
    replays: int
    cpu_faults: int
    throttlings: int
    thrashings: int
    remote_maps: int
    moved: dict[str, int]  # bytes moved for each cause
    batch_faults: Spread | None
    batch_blocks: Spread | None
    block_faults: Spread | None
    service: float | None  # total seconds in service; None if a clock jumped
    latency_p50: float | None
    latency_p95: float | None
    problems: list[str]
    has_times: bool = True  # false if a clock jumped


def figures_of(events: Events, batches: Batches) -> Figures:
    moves = events.moves
    found = Figures(
        faults=len(events.faults),
        pages=len(distinct(events.faults["address"] >> numpy.uint64(PAGE))),
        batches=len(batches.faults),
        replays=batches.replays,
        cpu_faults=len(events.cpu_faults),
        throttlings=len(events.throttlings),
        thrashings=len(events.thrashings),
        remote_maps=len(events.remote_maps),
        moved={name: int(moves["bytes"][moves["cause"] == cause].sum()) for cause, name in CAUSES.items()},
        batch_faults=Spread.of(batches.faults),
        batch_blocks=Spread.of(batches.blocks),
        block_faults=Spread.of(batches.block_faults),
        service=None, latency_p50=None, latency_p95=None, problems=[],
    )  # fmt: skip
    if events.strange:
        found.problems.append(
            f"{events.strange} events have an impossible address, size or time, so they are left out of all counts"
        )
    _add_times(found, events, batches)
    return found


def _add_times(found: Figures, events: Events, batches: Batches) -> None:
    has = int(batches.timed.sum()) + batches.wrong
    if not has:
        return
    timed = batches.timed[batches.of_fault]
    latencies = batches.gpu_replay[batches.of_fault[timed]] - signed(events.faults["gpu_time"][timed])
    early = (latencies < 0) | (latencies > _LONGEST)
    took, _ = transfers(events.moves)
    back = (took < 0) | (took > _LONGEST)
    jumps = (
        (batches.wrong, has, "batches are replayed"),
        (int(early.sum()), len(latencies), "faults are replayed"),
        (int(back.sum()), len(took), "moves end"),
    )
    for count, of, what in jumps:
        if count:
            found.has_times = False
            found.problems.append(f"{count} of {of} {what} at impossible times: a clock jumped, so no time is shown")
    if not found.has_times:
        return
    found.service = float(batches.service.sum()) * 1e-9
    found.latency_p50, found.latency_p95 = (float(v) * 1e-9 for v in numpy.quantile(latencies, (0.5, 0.95)))
