"""Page faults of any CUDA program, as the NVIDIA driver tells them.

run     runs a program with libisthmus-uvm.so preloaded: each process leaves PREFIX.<pid>.uvm
report  faults, batches, blocks and bytes of such a file
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import shutil
import stat
import struct
import subprocess
import sys
import zlib

import numpy

from isthmus import Error, exits, records

_MAGIC = b"isthmus.uvm/1\n\0\0"
_HEAD, _CHUNK = struct.Struct("<16sII"), struct.Struct("<IIIIQQ")
_MARK, _END = 0x434D5655, 0x454D5655
_MOST_OF_CHUNK, _MOST_FACTS = 1 << 18, 1 << 20
_ENTRY_BYTES = 64
_PAGE, _BLOCK = 12, 21  # bits
_LONGEST = 60_000_000_000  # nanoseconds: nothing takes so long but a clock that jumped
_CPU_FAULT, _MIGRATION, _GPU_FAULT, _REPLAY, _THRASHING, _THROTTLING, _REMOTE = 1, 2, 3, 4, 10, 11, 13
_HUB = 2
CAUSES = {1: "asked", 2: "fault", 3: "prefetcher", 4: "eviction", 5: "access counter"}

_FAULT = numpy.dtype(
    {
        "names": ["gpu", "gpc", "client", "address", "time", "gpu_time", "batch", "kind"],
        "formats": ["u1", "<u2", "<u2", "<u8", "<u8", "<u8", "<u4", "u1"],
        "offsets": [3, 4, 6, 8, 16, 24, 32, 36],
        "itemsize": _ENTRY_BYTES,
    }
)
_REPLAYED = numpy.dtype(
    {
        "names": ["gpu", "kind", "batch", "time", "gpu_time"],
        "formats": ["u1", "u1", "<u4", "<u8", "<u8"],
        "offsets": [1, 2, 4, 8, 16],
        "itemsize": _ENTRY_BYTES,
    }
)
_MOVE = numpy.dtype(
    {
        "names": ["cause", "source", "destination", "bytes"],
        "formats": ["u1", "u1", "u1", "<u8"],
        "offsets": [1, 2, 3, 16],
        "itemsize": _ENTRY_BYTES,
    }
)


@dataclasses.dataclass
class Trace:
    """What a process left; `problem` says why there may be less than happened."""

    facts: dict[str, str]
    entries: numpy.ndarray  # a row of 64 bytes each
    dropped: int = 0
    foreign_replays: int = 0
    problem: str = ""


def read(path: pathlib.Path) -> Trace:
    """A file of libisthmus-uvm.so. Of one that is cut short or spoilt, what is whole. Raises Error for another file."""
    try:
        whole = path.read_bytes()
    except OSError as failure:
        raise Error(f"{path} cannot be read ({failure.strerror}); name a trace") from None
    not_one = Error(f"{path} is no trace of page faults, or its head is cut short; record it anew")
    if len(whole) < _HEAD.size:
        raise not_one
    magic, size, total = _HEAD.unpack_from(whole)
    text = whole[_HEAD.size : _HEAD.size + size]
    if magic != _MAGIC or size > _MOST_FACTS or len(text) != size or zlib.crc32(text) != total:
        raise not_one
    lines = text.decode(errors="replace").splitlines()
    trace = Trace({name: value for name, sign, value in (line.partition("=") for line in lines) if sign}, _rows(b""))
    pieces: list[bytes] = []
    why = _read_chunks(trace, whole, _HEAD.size + size, pieces)
    trace.entries = _rows(b"".join(pieces))
    if why:
        trace.problem = f"{path} {why}; {len(trace.entries)} events before that are whole"
    return trace


def _rows(data: bytes) -> numpy.ndarray:
    return numpy.frombuffer(data, "u1").reshape(-1, _ENTRY_BYTES)


def _read_chunks(trace: Trace, whole: bytes, at: int, pieces: list[bytes]) -> str:
    """Adds what is whole to the trace; why that may not be all, else nothing."""
    while True:
        if at == len(whole):
            return "has no end, since its process was killed or still runs"
        if len(whole) - at < _CHUNK.size:
            return "is cut short"
        mark, count, size, total, dropped, foreign = _CHUNK.unpack_from(whole, at)
        at += _CHUNK.size
        if mark == _END:
            return "" if at == len(whole) else "goes on behind its end"
        if mark != _MARK or count > _MOST_OF_CHUNK:
            return "is spoilt"
        packed = whole[at : at + size]
        if len(packed) != size:
            return "is cut short"
        at += size
        unpacker = zlib.decompressobj()
        try:
            data = unpacker.decompress(packed, count * _ENTRY_BYTES + 1)
        except zlib.error:
            return "is spoilt"
        if zlib.crc32(packed) != total or len(data) != count * _ENTRY_BYTES:
            return "is spoilt"
        pieces.append(data)
        trace.dropped += dropped
        trace.foreign_replays += foreign


@dataclasses.dataclass
class Spread:
    """Of counts; the deviation is the population's."""

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
    """docs/uvm.md says what each means."""

    faults: int
    pages: int
    batches: int
    replays: int
    cpu_faults: int
    throttlings: int
    thrashings: int
    remote_maps: int
    moved: dict[str, int]  # bytes by cause
    batch_faults: Spread | None
    batch_blocks: Spread | None
    block_faults: Spread | None
    service: float | None  # seconds; none where a clock jumped
    latency_p50: float | None
    latency_p95: float | None
    problems: list[str]


def _keys(events: numpy.ndarray) -> numpy.ndarray:
    """A number for each batch: of a GPU, a kind of client, and the driver's own."""
    hub = (events["kind"] == _HUB).astype("u8")
    return (events["gpu"].astype("u8") << numpy.uint64(40)) | (hub << numpy.uint64(32)) | events["batch"]


def figures(entries: numpy.ndarray) -> Figures:
    """The order of the entries says nothing: their times do."""
    kinds = entries[:, 0]
    seen = {kind: int(count) for kind, count in zip(*numpy.unique(kinds, return_counts=True), strict=True)}
    faults = numpy.ascontiguousarray(entries[kinds == _GPU_FAULT]).view(_FAULT).ravel()
    replays = numpy.ascontiguousarray(entries[kinds == _REPLAY]).view(_REPLAYED).ravel()
    moves = numpy.ascontiguousarray(entries[kinds == _MIGRATION]).view(_MOVE).ravel()
    keys, batch_of = numpy.unique(_keys(faults), return_inverse=True)
    blocks = numpy.unique(
        numpy.stack([batch_of.astype("u8"), faults["address"] >> numpy.uint64(_BLOCK)]), axis=1, return_counts=True
    )
    replayed = numpy.isin(_keys(replays), keys)
    found = Figures(
        faults=len(faults),
        pages=len(numpy.unique(faults["address"] >> numpy.uint64(_PAGE))),
        batches=len(keys),
        replays=int(replayed.sum()),
        cpu_faults=seen.get(_CPU_FAULT, 0),
        throttlings=seen.get(_THROTTLING, 0),
        thrashings=seen.get(_THRASHING, 0),
        remote_maps=seen.get(_REMOTE, 0),
        moved={name: int(moves["bytes"][moves["cause"] == cause].sum()) for cause, name in CAUSES.items()},
        batch_faults=Spread.of(numpy.bincount(batch_of) if len(faults) else batch_of),
        batch_blocks=Spread.of(numpy.bincount(blocks[0][0].astype("i8")) if len(faults) else batch_of),
        block_faults=Spread.of(blocks[1]),
        service=None, latency_p50=None, latency_p95=None, problems=[],
    )  # fmt: skip
    _add_times(found, faults, batch_of, replays[replayed], keys)
    return found


def _add_times(found: Figures, faults, batch_of, replays, keys) -> None:
    if not len(replays):
        return
    place = numpy.searchsorted(keys, _keys(replays))
    begin = numpy.full(len(keys), numpy.iinfo("i8").max)
    last, until, gpu_until = (numpy.zeros(len(keys), "i8") for _ in range(3))
    times, gpu_times = faults["time"].astype("i8"), faults["gpu_time"].astype("i8")
    numpy.minimum.at(begin, batch_of, times)
    numpy.maximum.at(last, batch_of, times)
    numpy.maximum.at(until, place, replays["time"].astype("i8"))
    numpy.maximum.at(gpu_until, place, replays["gpu_time"].astype("i8"))
    has = numpy.zeros(len(keys), bool)
    has[place] = True
    wrong = has & ((until < last) | (until - begin > _LONGEST))
    right = has & ~wrong
    timed = right[batch_of]
    latencies = gpu_until[batch_of[timed]] - gpu_times[timed]
    early = (latencies < 0) | (latencies > _LONGEST)
    for count, of, what in ((wrong.sum(), has.sum(), "batches"), (early.sum(), len(latencies), "faults")):
        if count:
            found.problems.append(f"{count} of {of} {what} are replayed at a time that cannot be: a clock jumped")
    if found.problems:
        return
    found.service = float((until - begin)[right].sum()) * 1e-9
    found.latency_p50, found.latency_p95 = (float(v) * 1e-9 for v in numpy.quantile(latencies, (0.5, 0.95)))


def _spread(name: str, spread: Spread | None) -> str:
    if spread is None:
        return f"{name:<18} -"
    return f"{name:<18} {spread.mean:>9.2f} {spread.deviation:>9.2f} {spread.least:>6} {spread.most:>6}"


def text(trace: Trace) -> str:
    found = figures(trace.entries)
    lines = [f"{name:<8} {records.printable(value)}" for name, value in trace.facts.items()]
    lines += ["", f"{'':<18} {'mean':>9} {'deviation':>9} {'least':>6} {'most':>6}"]
    lines.append(_spread("faults / batch", found.batch_faults))
    lines.append(_spread("blocks / batch", found.batch_blocks))
    lines.append(_spread("faults / block", found.block_faults))
    lines.append("")
    counts = ("faults", "pages", "batches", "replays", "cpu_faults", "throttlings", "thrashings", "remote_maps")
    lines += [f"{name.replace('_', ' '):<18} {getattr(found, name):>12}" for name in counts]
    lines += [f"{'moved, ' + name:<22} {size / 2**20:>12.2f} MiB" for name, size in found.moved.items() if size]
    for name, value in (("service", found.service), ("latency p50", found.latency_p50), ("p95", found.latency_p95)):
        if value is not None:
            lines.append(f"{name:<18} {value * 1e3:>12.3f} ms")
    if trace.foreign_replays:
        lines.append(f"{trace.foreign_replays} replays of other processes' faults were seen and left out")
    if trace.dropped:
        lines.append(f"the driver dropped {trace.dropped} events, so no count is whole")
    return "\n".join([*lines, *found.problems])


# --- recording ---


def _is_static(program: pathlib.Path) -> bool:
    """Whether the kernel starts it without a loader, which is what preloads."""
    with program.open("rb") as file:
        head = file.read(64)
        if len(head) < 64 or head[:4] != b"\x7fELF" or head[4] != 2:
            return False  # a script: its interpreter is loaded
        (at,), (size, count) = struct.unpack_from("<Q", head, 32), struct.unpack_from("<HH", head, 54)
        file.seek(at)
        table = file.read(size * count)
    interpreter = 3
    return not any(
        struct.unpack_from("<I", table, i * size)[0] == interpreter for i in range(min(count, len(table) // size))
    )


def _library(asked: pathlib.Path | None) -> pathlib.Path:
    name = "libisthmus-uvm.so"
    bench = shutil.which("isthmus-bench")
    beside = pathlib.Path(bench).resolve().parent if bench else None
    told = os.environ.get("ISTHMUS_UVM_LIBRARY")
    candidates = [asked] if asked else [pathlib.Path(told)] if told else []
    if not candidates and beside:
        candidates = [beside / name, beside.parent / "lib" / name]
    for candidate in candidates:
        if candidate.is_file():
            return candidate.resolve()
    where = ", ".join(map(str, candidates)) or "isthmus-bench, which is not in $PATH"
    raise Error(f"{name} is not there ({where}); name it with --library or $ISTHMUS_UVM_LIBRARY")


def record(asked) -> int:
    words = asked.program[1:] if asked.program[:1] == ["--"] else asked.program
    if not words:
        raise Error("no program is named; write `isthmus faults run -- ./program its arguments`")
    where = shutil.which(words[0])
    if where is None:
        raise Error(f"{words[0]}: no such program; give its path")
    program = pathlib.Path(where)
    if _is_static(program):
        raise Error(f"{where} is fully static, so no library can be preloaded; link its C library dynamically")
    if program.stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
        raise Error(f"{where} runs as another user, so no library is preloaded; run it as that user")
    preload = " ".join(filter(None, [str(_library(asked.library)), os.environ.get("LD_PRELOAD")]))
    before = set(_traces(asked.output))
    environment = {**os.environ, "LD_PRELOAD": preload, "ISTHMUS_UVM_TRACE": asked.output}
    code = subprocess.run([where, *words[1:]], env=environment, check=False).returncode
    left = [path for path in _traces(asked.output) if path not in before]
    for path in left:
        print(f"isthmus faults: page faults are in {path}; `isthmus faults report` shows them", file=sys.stderr)
    if not left:
        print(f"isthmus faults: {words[0]} used no unified memory that could be watched", file=sys.stderr)
    return 128 - code if code < 0 else code or (exits.PASSED if left else exits.UNDECIDED)


def _traces(prefix: str) -> list[pathlib.Path]:
    base = pathlib.Path(prefix)
    return sorted(base.parent.glob(f"{base.name}.*.uvm")) if base.parent.is_dir() else []


def report(asked) -> int:
    code = exits.PASSED
    for number, path in enumerate(asked.files):
        trace = read(path)
        if number:
            print()
        print(text(trace))
        if trace.problem:
            print(f"isthmus faults: {trace.problem}", file=sys.stderr)
        if trace.problem or trace.dropped:
            code = exits.UNDECIDED
    return code


def add_arguments(parser) -> None:
    parts = parser.add_subparsers(dest="part", required=True, metavar="run|report")
    form = argparse.RawDescriptionHelpFormatter
    running = parts.add_parser(
        "run", help="run a program and record its page faults", formatter_class=form,
        epilog="example: isthmus faults run -o solver -- ./solver --steps 10\n\n"
        "Ends with the program's exit code; 3 where that is 0 and nothing was recorded.",
    )  # fmt: skip
    running.add_argument("-o", "--output", metavar="PREFIX", default="faults", help="of the files (default: faults)")
    running.add_argument("--library", type=pathlib.Path, help="libisthmus-uvm.so (default: beside isthmus-bench)")
    running.add_argument("program", nargs=argparse.REMAINDER, help="after --, with its arguments")
    reporting = parts.add_parser(
        "report", help="show what was recorded", formatter_class=form,
        epilog="example: isthmus faults report faults.4711.uvm\n\nexit code 3: events are missing",
    )  # fmt: skip
    reporting.add_argument("files", nargs="+", type=pathlib.Path, metavar="FILE", help="PREFIX.<pid>.uvm")


def run(asked) -> int:
    return {"run": record, "report": report}[asked.part](asked)
