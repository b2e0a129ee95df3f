"""Batches of page faults and the work of each, read from traces and from the tables next to records: the input of the
model.

A batch counts if its service has a plausible begin and end. Faults of copy engines are left out, because they are
served differently.
"""

from __future__ import annotations

import dataclasses
import pathlib

import numpy

from isthmus import Error, inputs
from isthmus.faults import tracefile
from isthmus.faults.tracefile import BLOCK, EVICTION, FAULT, PAGE, PREFETCH
from isthmus.records import copies, fields, jobs, load, validate

#: Terms of a batch's service. If terms cannot be separated, the first of them gets the coefficient.
TERMS = ("faults", "blocks", "bytes", "first_visits", "host_pages", "pieces")
_PIECES = {"off": 1 << (BLOCK - PAGE), "64KiB": 32, "2MiB": 1}  # pieces per block, keyed by driver_prefetch
_LONGEST = 60.0  # seconds
_EMULATED = "emulated, so its times mean nothing"
_SIZES = ("bytes", "size")  # axes that do not distinguish patterns


@dataclasses.dataclass
class Sample:
    """Batches of one trace, or of one record's samples."""

    driver: str
    unit: str  # job or trace, the unit of resampling
    pattern: str  # program and its axes except the size; patterns are left out as a whole
    features: numpy.ndarray  # one row per batch, one column per term of TERMS
    service: numpy.ndarray  # seconds
    transfer: numpy.ndarray  # total seconds of each batch's moves by the GPU's clock; 0 if unknown
    moves: numpy.ndarray  # number of moves of each batch
    between: float = 0.0  # total seconds from each batch's replay to the first fault of the next batch
    kernel: float | None = None  # seconds of the kernel that caused the batches, if the sample is one kernel


#: Migrations as columns: cause, source, destination, address, bytes, and begin and seconds, in the unit of the batches'
#: times.
_Moves = dict[str, numpy.ndarray]


def _mapped_on_host(moves: _Moves) -> numpy.ndarray:
    """Returns the number of pages of each move that the host had mapped: all that come from the host, except pages that
    had been evicted to it.

    The host maps the pages that it touches. Whether the host touched a page again after an eviction is not recorded and
    is ignored here.
    """
    pages = numpy.where(moves["source"] == 0, moves["bytes"] >> PAGE, 0).astype("f8")
    evictions = numpy.flatnonzero(moves["cause"] == EVICTION)
    if not len(evictions):
        return pages
    block = moves["address"] >> BLOCK
    concerned = numpy.flatnonzero(numpy.isin(block, numpy.unique(block[evictions])))
    evicted: dict[int, numpy.ndarray] = {}
    per_block = 1 << (BLOCK - PAGE)
    for row in concerned[numpy.argsort(moves["begin"][concerned], kind="stable")]:
        state = evicted.setdefault(int(block[row]), numpy.zeros(per_block, bool))
        first = int(moves["address"][row] >> PAGE) % per_block
        part = slice(first, first + max(int(moves["bytes"][row]) >> PAGE, 1))
        if moves["cause"][row] == EVICTION:
            state[part] = True
        elif moves["source"][row] == 0:
            pages[row] -= float(state[part].sum())
            state[part] = False
    return numpy.maximum(pages, 0)


def _sums(of_move: numpy.ndarray, weights: numpy.ndarray, count: int) -> numpy.ndarray:
    ours = of_move >= 0
    return numpy.bincount(of_move[ours], weights=weights[ours].astype("f8"), minlength=count)[:count]


def _first_by(key: numpy.ndarray, when: numpy.ndarray) -> numpy.ndarray:
    """Returns a mask of the rows in which a key occurs for the first time, in the order of `when`."""
    order = numpy.argsort(when, kind="stable")
    _, first = numpy.unique(key[order], return_index=True)
    fresh = numpy.zeros(len(key), bool)
    fresh[order[first]] = True
    return fresh


def _blocks_served(moves: _Moves, of_move: numpy.ndarray, count: int) -> numpy.ndarray:
    """Returns, for each batch, the number of blocks that received faulted pages."""
    coming = numpy.flatnonzero((of_move >= 0) & (moves["cause"] == FAULT))
    blocks = numpy.unique(numpy.stack([of_move[coming], moves["address"][coming] >> BLOCK]), axis=1)
    return numpy.bincount(blocks[0], minlength=count)


def _sample(facts: tuple[str, str, str], columns: dict, moves: _Moves, of_move, chosen, *, pieces: int = 0) -> Sample:
    count = len(columns["faults"])
    # The fault buffer still contains faults on pages that have already arrived, whose blocks cost next to nothing. So
    # only blocks that receive pages count, unless nothing moves at all: then the GPU creates the pages, and each block
    # is work.
    if (of_move >= 0).any():
        columns["blocks"] = _blocks_served(moves, of_move, count)
    columns["pieces"] = columns["blocks"] * pieces
    columns["bytes"] = _sums(of_move, moves["bytes"], count)
    columns["host_pages"] = _sums(of_move, _mapped_on_host(moves), count)
    features = numpy.stack([columns[name].astype("f8") for name in TERMS], axis=1)
    known = numpy.where(numpy.isfinite(moves["seconds"]), moves["seconds"], 0)
    return Sample(
        *facts, features=features[chosen], service=columns["service"][chosen],
        transfer=_sums(of_move, known, count)[chosen], moves=_sums(of_move, numpy.ones(len(known)), count)[chosen],
    )  # fmt: skip


# --- traces ---


def of_trace(path: pathlib.Path, trace: tracefile.Trace, *, emulated: bool = False) -> tuple[Sample | None, str]:
    """Returns the batches of a trace, or None and the reason why none of them counts."""
    if tracefile.is_emulated(trace.facts) and not emulated:
        return None, f"{path}: {_EMULATED}"
    events = tracefile.decode(trace.entries)
    batches = tracefile.batches_of(events)
    if trace.dropped:
        return None, f"{path}: the driver dropped {trace.dropped} events, so it is unknown what its batches did"
    if problems := tracefile.figures_of(events, batches).problems:
        return None, f"{path}: {problems[0]}"
    until = numpy.where(batches.timed, batches.replay, 0)
    of_move = tracefile.batch_of_moves(events.moves, batches.gpu, batches.begin, until)
    took, has = tracefile.transfers(events.moves)
    seconds = numpy.full(len(events.moves), numpy.nan)
    seconds[has] = took * 1e-9
    names = ("cause", "source", "destination", "address", "bytes", "begin")
    moves = {name: events.moves[name].astype("i8") for name in names} | {"seconds": seconds}
    of_block = batches.block_batch
    fresh = _first_by(batches.block.astype("i8") * 256 + batches.gpu[of_block], batches.begin[of_block])
    columns = {
        "faults": batches.faults, "blocks": batches.blocks, "service": (batches.replay - batches.begin) * 1e-9,
        "first_visits": numpy.bincount(of_block[fresh], minlength=len(batches.faults)),
    }  # fmt: skip
    facts = (trace.facts.get("driver", "unknown"), str(path), trace.facts.get("command", path.name))
    return _sample(facts, columns, moves, of_move, batches.timed & ~batches.hub), ""


# --- records ---


def _columns(rows: list[dict], names: tuple[str, ...]) -> dict[str, numpy.ndarray]:
    return {name: numpy.array([numpy.nan if (v := row.get(name)) is None else v for row in rows]) for name in names}


_BATCH = ("group", "sample", "gpu", "client_kind", "faults", "blocks", "begin", "last_fault", "replay", "bytes")
_MOVE = ("group", "sample", "cause", "source", "destination", "address", "bytes", "begin", "seconds")


def of_record(path: str, record: dict) -> tuple[list[Sample], str]:
    """Returns the batches of those samples of a record that are in its tables, one Sample each, or the reason why none
    of them counts."""
    where = f"{path}: {record['workload']}"
    if not any(table["name"] == "uvm_batches" for table in record["tables"]):
        return [], f"{where}: no table of batches; measure with --observe uvm"
    if fields.invalidating(record) or fields.failure(record):
        return [], f"{where}: the record is invalid, or its case failed"
    if record["notes"].get("uvm_source", "").endswith("without what moved"):
        return [], f"{where}: moves were not recorded; measure with --observe uvm"
    if any(warning["code"] == "uvm_clock" for warning in record["warnings"]):
        return [], f"{where}: a clock jumped"
    samples = {metric["name"]: metric["samples"] for metric in record["metrics"]}
    dropped = [warning.get("samples") or [] for warning in record["warnings"] if warning["code"] == "uvm_dropped"]
    batches = _columns(load.read_table(path, record, "uvm_batches"), _BATCH)
    has_moves = any(table["name"] == "uvm_migrations" for table in record["tables"])
    if not has_moves and numpy.nansum(batches["bytes"]) > 0:
        return [], f"{where}: no table of moves; measure with --observe uvm"
    moved = _columns(load.read_table(path, record, "uvm_migrations") if has_moves else [], _MOVE)
    driver = next((device["driver"] for device in record["devices"] if device.get("driver")), "unknown")
    axes = [f"{name}={value}" for name, value in sorted(record["axes"].items()) if name not in _SIZES]
    pattern = " ".join(filter(None, [record["workload"], record["placement"], *axes]))
    facts = (driver, jobs.id_of(record), pattern)
    found = []
    for group, number in sorted(set(zip(batches["group"].tolist(), batches["sample"].tolist()))):
        if not any(number in each for each in dropped):
            parts = [
                {
                    name: values[(table["group"] == group) & (table["sample"] == number)]
                    for name, values in table.items()
                }
                for table in (batches, moved)
            ]
            one = _of_sample(facts, *parts, pieces=_PIECES.get(record["axes"].get("driver_prefetch"), 0))
            one.kernel = _kernel_of(samples, int(number), len(parts[0]["sample"])) if group == 1 else None
            found.append(one)
    return found, "" if found else f"{where}: the driver dropped events of every sample"


def _kernel_of(samples: dict[str, list[float]], number: int, batches: int) -> float | None:
    """Returns the kernel's time, or None if the table does not have all of the kernel's batches."""
    times, counts = samples.get("kernel", []), samples.get("uvm_batches", [])
    return times[number] if number < min(len(times), len(counts)) and counts[number] == batches else None


def _service(batches: dict[str, numpy.ndarray]) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Returns the seconds of service of each batch, and a mask of the plausible ones."""
    service = batches["replay"] - batches["begin"]
    with numpy.errstate(invalid="ignore"):
        timed = (batches["replay"] >= batches["last_fault"]) & (service <= _LONGEST) & (batches["client_kind"] != 2)
    return service, timed


def _of_sample(facts: tuple[str, str, str], batches: dict, moved: dict, *, pieces: int) -> Sample:
    service, timed = _service(batches)
    whole = {
        name: numpy.nan_to_num(moved[name]).astype("i8")
        for name in ("cause", "source", "destination", "address", "bytes")
    }
    moves = moved | whole
    until = numpy.where(numpy.isfinite(batches["replay"]), batches["replay"], -1.0)
    of_move = tracefile.batch_of_moves(moves, batches["gpu"].astype("i8"), batches["begin"], until)
    # The table does not contain blocks, so the first move into a block counts as the block's first visit.
    coming = numpy.flatnonzero((of_move >= 0) & (moves["destination"] > 0))
    place = (moves["address"][coming] >> BLOCK) * 256 + moves["destination"][coming]
    fresh = coming[_first_by(place, moves["begin"][coming])]
    columns = {
        "faults": batches["faults"], "blocks": batches["blocks"], "service": service,
        "first_visits": numpy.bincount(of_move[fresh], minlength=len(service)),
    }  # fmt: skip
    sample = _sample(facts, columns, moves, of_move, timed, pieces=pieces)
    order = numpy.argsort(batches["begin"], kind="stable")
    gaps = batches["begin"][order][1:] - batches["replay"][order][:-1]
    sample.between = float(numpy.nansum(numpy.maximum(gaps, 0)))
    return sample


# --- all ---


def read(paths, *, emulated: bool, absent: list[load.Skipped]) -> tuple[list[Sample], list[str], int]:
    """Reads files and folders. Returns samples, the reasons why others do not count, and the number of files. Adds
    files that cannot be read, or only in part, to `absent`."""
    found: list[Sample] = []
    left_out: list[str] = []
    total = 0
    seen, digests = copies.Seen(), dict[str, pathlib.Path]()
    for path in map(pathlib.Path, paths):
        traces = _traces(path) if path.is_dir() else [path] if path.suffix == ".uvm" else []
        names, skipped = ([], []) if path.suffix == ".uvm" and not path.is_dir() else load.find(path)
        absent += skipped
        total += len(traces) + len(names) + len(skipped)
        for trace in traces:
            if (first := digests.setdefault(_digest(trace), trace)) is not trace:
                left_out.append(f"{trace}: the same trace as {first}, which counts once")
                continue
            _add_trace(trace, emulated, found, left_out, absent)
        for name in names:
            _add_records(name, emulated, found, left_out, absent, seen)
    copies.say(seen.pairs)
    return found, left_out, total


def _traces(folder: pathlib.Path) -> list[pathlib.Path]:
    every = [pathlib.Path(place, name) for place, names in load.walk(folder, []) for name in names]
    return sorted(path for path in every if path.suffix == ".uvm")


def _digest(path: pathlib.Path) -> str:
    """Returns the SHA-256 of a trace, or its path if it cannot be read."""
    try:
        return inputs.sha256(path)
    except OSError:
        return str(path)


def _add_trace(path: pathlib.Path, emulated: bool, found: list, left_out: list, absent: list) -> None:
    try:
        trace = tracefile.read(path)
    except Error as error:
        absent.append(load.Skipped(str(path), str(error).removeprefix(f"{path} ")))
        return
    if trace.problem:
        why = trace.problem.removeprefix(f"{path} ")
        absent.append(load.Skipped(str(path), why, has_part=len(trace.entries) > 0))
    sample, why = of_trace(path, trace, emulated=emulated)
    found += [sample] if sample else []
    left_out += [why] if why else []


def _add_records(name: str, emulated: bool, found: list, left_out: list, absent: list, seen: copies.Seen) -> None:
    try:
        for record in load.read(name):
            if seen.is_copy(record, name):
                continue
            if record["emulated"] and not emulated:
                left_out.append(f"{name}: {record['workload']}: {_EMULATED}")
                continue
            samples, why = of_record(name, record)
            found += samples
            left_out += [why] if why else []
    except validate.RecordError as error:
        absent.append(load.skipped_for(name, error))


def prefetched(path, record: dict, piece: int = 1 << 16) -> tuple[int, int]:
    """Returns the bytes that the prefetcher moved in the batches of the table, and how many of them are in pieces
    without a fault."""
    begins = numpy.sort(_columns(load.read_table(path, record, "uvm_batches"), ("begin",))["begin"])
    moves = _columns(load.read_table(path, record, "uvm_migrations"), ("cause", "address", "bytes", "begin"))
    of_batch = numpy.searchsorted(begins, moves["begin"], side="right") - 1

    def parts(cause: int):
        """Yields batch, piece and bytes of the moves with this cause."""
        for row in numpy.flatnonzero(moves["cause"] == cause):
            first, last = int(moves["address"][row]), int(moves["address"][row] + moves["bytes"][row])
            for number in range(first // piece, (last - 1) // piece + 1):
                yield of_batch[row], number, min(last, (number + 1) * piece) - max(first, number * piece)

    faulted = {(batch, number) for batch, number, _ in parts(FAULT)}
    brought = list(parts(PREFETCH))
    return (
        sum(size for _, _, size in brought),
        sum(size for batch, number, size in brought if (batch, number) not in faulted),
    )


@dataclasses.dataclass
class Moved:
    """Moves in the batches of a record's table, one row per batch with a plausible service."""

    bytes: numpy.ndarray  # bytes moved during a batch's service
    service: numpy.ndarray  # seconds
    transfer: numpy.ndarray  # total seconds of a batch's moves by the GPU's clock


def moved(path, record: dict) -> Moved:
    """Returns the moves from the table of batches if it contains them, otherwise from the table of moves. Raises Error
    if there is no table."""
    rows = _columns(load.read_table(path, record, "uvm_batches"), (*_BATCH, "transfer"))
    if numpy.isfinite(rows["transfer"]).all():
        service, timed = _service(rows)
        return Moved(rows["bytes"][timed], service[timed], rows["transfer"][timed])
    samples, why = of_record(str(path), record)
    if not samples:
        raise Error(why)
    of_bytes = numpy.concatenate([each.features[:, TERMS.index("bytes")] for each in samples])
    return Moved(
        of_bytes, *(numpy.concatenate([getattr(s, name) for s in samples]) for name in ("service", "transfer"))
    )
