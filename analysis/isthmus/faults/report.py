"""Shows a program's page faults: figures, the busiest ranges, advice, and pictures.

Advice follows only from the rules in docs/uvm.md. The driver's events contain addresses but no allocations, so a range
consists of touched blocks of 2 MiB that are close together, with gaps of at most 8 MiB.
"""

from __future__ import annotations

import dataclasses
import pathlib
import sys

import numpy

from isthmus import Error, exits, options, spelling, streams, units
from isthmus.faults import charts, evictions, memory, tracefile
from isthmus.faults.tracefile import BLOCK, BLOCK_BYTES, BY_FAULT, EVICTION, PAGE, READ, blocks_of
from isthmus.figures import pages
from isthmus.statistics import series
from isthmus.tables import output

_RANGES, _MOST_RANGES = 10, 1000  # maximum numbers of ranges that are shown to people, and that are examined
_ADVICE = 12
_LARGE = 16 << 20  # minimum number of bytes for which advice is given
_DENSE, _SPARSE, _SPARSE_BLOCKS = 0.8, 0.25, 16

#: Condition of each rule, which is shown as the reason for its advice.
RULES = {
    "read-mostly": "at least 16 MiB and twice its bytes arrived, some went back, and every fault on it was a read",
    "to-and-fro": "at least 16 MiB and twice its bytes arrived at a GPU, and as much as its size went back or on to "
    "another GPU; or the driver detected thrashing",
    "evicted": "at least 16 MiB of it were moved to make room",
    "sparse": "at least 16 blocks of 2 MiB were touched, and less than a quarter of their bytes ever arrived or was "
    "faulted on",
    "prefetch": "at least 16 MiB, and 80% of the bytes of the touched blocks, arrived at a GPU because of faults",
    "first-touch": "at least 16 MiB, none of which ever moved, was touched by the host or was mapped remotely: a GPU "
    "was the first to touch it, fault by fault",
    "prefetch-host": "at least 16 MiB of it went back to the host because of the host's faults",
}


@dataclasses.dataclass
class Range:
    """Range of addresses whose touched blocks are close together."""

    base: int
    bytes: int
    touched: int = 0  # bytes of the touched blocks
    faults: int = 0
    cpu_faults: int = 0
    batches: int = 0
    distinct: int = 0  # bytes that arrived at a GPU, each counted once
    faulted: int = 0  # bytes of pages on which a GPU faulted, each counted once
    to_gpu: int = 0
    to_gpu_by_fault: int = 0
    to_host: int = 0
    to_host_by_fault: int = 0
    between: int = 0  # bytes moved from GPU to GPU
    evicted: int = 0
    gpu: int = 0  # driver's number of the GPU with the most faults
    thrashings: int = 0
    throttlings: int = 0
    remote_maps: int = 0
    only_read: bool = False
    seconds: float | None = None  # part of the service time that is due to this range

    @property
    def name(self) -> str:
        return f"{self.base:#x} ({units.byte_text(self.bytes)})"


@dataclasses.dataclass
class Content:
    """Content of the report on one trace."""

    path: str
    trace: tracefile.Trace
    events: tracefile.Events
    batches: tracefile.Batches
    figures: tracefile.Figures
    evictions: evictions.Evictions
    ranges: list[Range]  # the busiest first
    advice: list[tuple[str, str]]  # rule and sentence
    problems: list[str]


# --- ranges ---


def _distinct(place: numpy.ndarray, address: numpy.ndarray, size: numpy.ndarray, count: int) -> numpy.ndarray:
    """Returns, for each range, the bytes that are covered by at least one of its intervals."""
    if not len(address):
        return numpy.zeros(count, "i8")
    order = numpy.argsort(address, kind="stable")
    begin, end = address[order].astype("i8"), (address + size)[order].astype("i8")
    before = numpy.concatenate([[0], numpy.maximum.accumulate(end)[:-1]])
    fresh = numpy.maximum(end - numpy.maximum(begin, before), 0)
    return numpy.bincount(place[order], weights=fresh, minlength=count).astype("i8")


def ranges_of(events: tracefile.Events, batches: tracefile.Batches, times: bool) -> list[Range]:
    """Returns the ranges, the busiest first: by time in service if `times`, then by faults, then by bytes moved."""
    first, blocks, touched = tracefile.spans_of(events)
    count = len(first)
    if not count:
        return []

    def place(addresses):
        return numpy.clip(numpy.searchsorted(first, blocks_of(addresses), side="right") - 1, 0, count - 1)

    def total(where, weights=None):
        return numpy.bincount(where, weights=weights, minlength=count).astype("i8")

    faults, moves = events.faults, events.moves
    of_fault, of_move, of_cpu = place(faults["address"]), place(moves["address"]), place(events.cpu_faults["address"])
    size = moves["bytes"].astype("i8")
    to_gpu, from_gpu = moves["destination"] > 0, moves["source"] > 0
    by_fault = numpy.isin(moves["cause"], BY_FAULT)
    wrote = total(of_fault, faults["access"] != READ) + total(of_cpu, events.cpu_faults["access"] != READ)
    page = faults["address"] >> numpy.uint64(PAGE) << numpy.uint64(PAGE)
    columns = {
        "touched": touched << BLOCK,
        "faults": total(of_fault),
        "cpu_faults": total(of_cpu),
        "batches": total(tracefile.pairs(batches.of_fault, of_fault)[1]),
        "distinct": _distinct(of_move[to_gpu], moves["address"][to_gpu], moves["bytes"][to_gpu], count),
        "faulted": _distinct(of_fault, page, numpy.full(len(page), 1 << PAGE, "u8"), count),
        "to_gpu": total(of_move, size * to_gpu),
        "to_gpu_by_fault": total(of_move, size * (to_gpu & by_fault)),
        "to_host": total(of_move, size * ~to_gpu),
        "to_host_by_fault": total(of_move, size * (~to_gpu & by_fault)),
        "between": total(of_move, size * (to_gpu & from_gpu)),
        "evicted": total(of_move, size * (moves["cause"] == EVICTION)),
        "gpu": _commonest(of_fault, faults["gpu"], count),
        "thrashings": total(place(events.thrashings["address"])),
        "throttlings": total(place(events.throttlings["address"])),
        "remote_maps": total(place(events.remote_maps["address"])),
    }
    seconds = _seconds(batches, first, count) if times else numpy.zeros(count)
    busiest = numpy.lexsort((first, -columns["to_gpu"] - columns["to_host"], -columns["faults"], -seconds))
    found = []
    for i in busiest[:_MOST_RANGES]:
        values = {name: int(column[i]) for name, column in columns.items()}
        only_read = bool(wrote[i] == 0 and values["faults"] > 0)
        base, length = int(first[i]) << BLOCK, int(blocks[i]) << BLOCK
        share = float(seconds[i]) if times else None
        found.append(Range(base, length, only_read=only_read, seconds=share, **values))
    return found


def _commonest(where: numpy.ndarray, values: numpy.ndarray, count: int) -> numpy.ndarray:
    names, which = numpy.unique(values, return_inverse=True)
    if not len(names):
        return numpy.zeros(count, "i8")
    counts = numpy.bincount(where.astype("i8") * len(names) + which, minlength=len(names) * count)
    return names[counts.reshape(count, len(names)).argmax(axis=1)]


def _seconds(batches: tracefile.Batches, first: numpy.ndarray, count: int) -> numpy.ndarray:
    """Returns the service time of each range; a batch's time is split over its ranges in proportion to their faults."""
    service = numpy.where(batches.timed, batches.replay - batches.begin, 0) * 1e-9
    part = batches.block_faults / batches.faults[batches.block_batch] * service[batches.block_batch]
    where = numpy.clip(numpy.searchsorted(first, batches.block.astype("i8"), side="right") - 1, 0, count - 1)
    return numpy.bincount(where, weights=part, minlength=count)


# --- advice ---


def _bytes(size: float) -> str:
    return f"{size / 2**20:.2f} MiB"


def _cost(each: Range) -> str:
    took = f" and {units.quantity(each.seconds, 's')} of service" if each.seconds else ""
    return f"{each.faults} faults in {each.batches} batches{took}"


def _arrives_again(each: Range) -> bool:
    return each.to_gpu >= _LARGE and each.distinct > 0 and each.to_gpu >= 2 * each.distinct


def _of_moving(each: Range) -> tuple[str, str] | None:
    """Returns (rule, sentence) if a range moves too often, or None."""
    back = each.to_host - each.evicted
    if _arrives_again(each) and back > 0 and each.only_read and each.evicted < _LARGE:
        return "read-mostly", (
            f"{each.name} arrived {each.to_gpu / each.distinct:.1f} times and every fault on it was a read: if nothing "
            "writes it, use cudaMemAdviseSetReadMostly, so that each side keeps a copy"
        )
    if each.evicted >= _LARGE:
        return "evicted", (
            f"{_bytes(each.evicted)} of {each.name} were moved to make room: use less memory at once, or "
            "prefetch a part, work on it, and go on to the next"
        )
    if (_arrives_again(each) and back + each.between >= each.distinct) or each.thrashings:
        times = f"arrived {each.to_gpu / each.distinct:.1f} times" if each.distinct else "is fought over"
        seen = f", and the driver saw it thrash {each.thrashings} times" if each.thrashings else ""
        return "to-and-fro", (
            f"{each.name} thrashes: it {times}{seen}; keep it in one place with "
            "cudaMemAdviseSetPreferredLocation, or prefetch it between the phases that use it"
        )
    return None


def _of_arriving(each: Range, gpu: str) -> tuple[str, str] | None:
    used = max(each.distinct, each.faulted)
    # If nothing moved and the host touched nothing, the driver created the pages in GPU memory, together with adjacent
    # pages that have no event. Reading in place also moves nothing, so ranges with remote maps are excluded.
    if each.faults and each.to_gpu + each.to_host == 0:
        if each.touched < _LARGE or each.cpu_faults or each.remote_maps:
            return None
        return "first-touch", (
            f"{each.name} is first touched by {gpu}, and none of it ever moved: {_cost(each)} created its pages there; "
            f"prefetch it to {gpu} (cudaMemPrefetchAsync) before its first kernel, or use cudaMalloc if the host "
            "does not need it"
        )
    if each.faults and each.touched >= _SPARSE_BLOCKS * BLOCK_BYTES and used < _SPARSE * each.touched:
        return "sparse", (
            f"{each.name} is used sparsely, {used / each.touched:.0%} of the bytes of its blocks: leave it on the host "
            f"and use cudaMemAdviseSetAccessedBy for {gpu}, so that single pages are read in place"
        )
    if each.to_gpu_by_fault >= _LARGE and each.distinct >= _DENSE * each.touched:
        return "prefetch", (
            f"prefetch {each.name} to {gpu} (cudaMemPrefetchAsync) before the kernel that uses it: "
            f"{_cost(each)} brought {_bytes(each.to_gpu_by_fault)}"
        )
    return None


def advice_of(found: list[Range]) -> list[tuple[str, str]]:
    """Returns (rule, sentence) pairs, the busiest ranges first."""
    said: list[tuple[str, str]] = []
    alone = len({each.gpu for each in found if each.faults}) < 2
    for each in found:
        # The driver numbers GPUs differently from CUDA.
        gpu = "the GPU" if alone else f"the GPU that the driver calls {each.gpu}"
        first = _of_moving(each) or _of_arriving(each, gpu)
        if first:
            said.append(first)
        if each.to_host_by_fault >= _LARGE and (first is None or first[0] not in ("read-mostly", "to-and-fro")):
            said.append(
                (
                    "prefetch-host",
                    f"prefetch {each.name} to the host (cudaMemPrefetchAsync to cudaCpuDeviceId) before it reads "
                    f"there: {each.cpu_faults} faults of the host brought {_bytes(each.to_host_by_fault)}",
                )
            )
    return said[:_ADVICE]


# --- content ---


def content(path: str, trace: tracefile.Trace) -> Content:
    events = tracefile.decode(trace.entries)
    batches = tracefile.batches_of(events)
    figures = tracefile.figures_of(events, batches)
    found = ranges_of(events, batches, figures.has_times)
    problems = [trace.problem] if trace.problem else []
    if trace.dropped:
        problems.append(f"the driver dropped {trace.dropped} events, so no count is complete; record a shorter run")
    if branch := tracefile.branch_problem(trace.facts):
        problems.append(branch)
    problems += figures.problems
    gone = evictions.evictions_of(events)
    return Content(path, trace, events, batches, figures, gone, found, advice_of(found), problems)


_EMULATED = "Emulated: no GPU ran, and times mean nothing."
_COUNTS = ("faults", "pages", "batches", "replays", "cpu_faults", "throttlings", "thrashings", "remote_maps")
_TABLE_3 = (("faults / batch", "batch_faults"), ("blocks / batch", "batch_blocks"), ("faults / block", "block_faults"))
_TIMES = (("service", "service"), ("latency p50", "latency_p50"), ("latency p95", "latency_p95"))


def _eviction_lines(found: evictions.Evictions) -> list[str]:
    if not found.bytes:
        return []
    order = "" if found.age is None else f", age {found.age:.2f} (0: oldest first, 0.5: unordered)"
    lines = [f"evicted: {found.blocks} blocks, {_bytes(found.bytes)}{order}"]
    if found.returned:
        after = units.quantity(found.away, "s")
        lines.append(f"came back: {found.returned} blocks, {_bytes(found.returned_bytes)}, after {after} (median)")
    if found.dropped_bytes:
        lines.append(
            f"not written back: {_bytes(found.dropped_bytes)} arrived again without having left, so they were dropped"
        )
    return lines


def _range_cells(each: Range) -> list[str]:
    return [
        f"{each.base:#x}", units.byte_text(each.bytes), str(each.faults), str(each.batches), str(each.cpu_faults),
        units.quantity(each.seconds, "s"), _bytes(each.to_gpu), _bytes(each.to_host), _bytes(each.evicted),
    ]  # fmt: skip


_RANGE_HEADS = (
    "range", "size", "faults", "batches", "host faults", "service", "to GPUs", "to the host", "evicted",
)  # fmt: skip


def _spread(name: str, spread: tracefile.Spread | None) -> str:
    if spread is None:
        return f"{name:<18} -"
    return f"{name:<18} {spread.mean:>9.2f} {spread.deviation:>9.2f} {spread.least:>6} {spread.most:>6}"


def names_of(paths: list[str]) -> list[str]:
    """Returns each path's shortest ending that no other path has, or the whole path if no such ending exists."""
    parts = [pathlib.PurePath(path).parts for path in paths]
    names = []
    for path, own in zip(paths, parts):
        others = [each for each in parts if each != own]
        count = next((n for n in range(1, len(own)) if all(each[-n:] != own[-n:] for each in others)), len(own))
        names.append(str(pathlib.PurePath(*own[-count:])) if count < len(own) else path)
    return names


def texts(found: list[Content]) -> str:
    """Returns the reports for a terminal. If there are several, each begins with the name of its file."""
    names = names_of([each.path for each in found])
    heads = [f"file     {spelling.printable(name)}\n" if len(found) > 1 else "" for name in names]
    return "\n\n".join(head + text(each) for head, each in zip(heads, found))


def text(found: Content) -> str:
    """Returns the report of one trace for a terminal."""
    figures = found.figures
    # The reader's problem with the file is not repeated here, because run() prints it on stderr.
    said = [problem for problem in found.problems if problem != found.trace.problem]
    lines = [line for problem in said for line in output.fold(problem)]
    lines += [f"{name:<8} {spelling.printable(value)}" for name, value in found.trace.facts.items()]
    lines += ["", f"{'':<18} {'mean':>9} {'deviation':>9} {'least':>6} {'most':>6}"]
    lines += [_spread(name, getattr(figures, field)) for name, field in _TABLE_3]
    lines.append("")
    lines += [f"{name.replace('_', ' '):<18} {getattr(figures, name):>12}" for name in _COUNTS]
    lines += [f"{'moved, ' + name:<22} {size / 2**20:>12.2f} MiB" for name, size in figures.moved.items() if size]
    for name, field in _TIMES:
        if (value := getattr(figures, field)) is not None:
            lines.append(f"{name:<18} {value * 1e3:>12.3f} ms")
    lines += [line for sentence in _eviction_lines(found.evictions) for line in output.fold(sentence)]
    if figures.has_times and len(found.trace.entries):
        lines += ["", *charts.sketch(found.events, tracefile.spans_of(found.events))]
    if found.ranges:
        columns = [output.Column(head, i > 0, drop) for i, (head, drop) in enumerate(zip(_RANGE_HEADS, _DROP))]
        lines += ["", "the busiest ranges", *output.lay_out(columns, [_range_cells(r) for r in found.ranges[:_RANGES]])]
        if len(found.ranges) > _RANGES:
            lines.append(f"{len(found.ranges) - _RANGES} more ranges: --format csv has them")
    if found.advice:
        lines += ["", "advice", *(line for _, sentence in found.advice for line in output.fold(f"- {sentence}"))]
    if tracefile.is_emulated(found.trace.facts):
        lines.append(_EMULATED)
    if found.trace.foreign_replays:
        lines.append(
            f"{spelling.counted(found.trace.foreign_replays, 'replay')} of other processes' faults seen and left out"
        )
    return "\n".join(lines)


_DROP = (0, 0, 0, 2, 3, 0, 0, 1, 4)  # order in which columns are dropped on a narrow terminal; 0 means never

# --- for programs ---

_COLUMNS = {
    "file": "VARCHAR", "says": "VARCHAR", "name": "VARCHAR", "value": "DOUBLE", "unit": "VARCHAR",
    "address": "BIGINT", "bytes": "BIGINT", "faults": "BIGINT", "batches": "BIGINT", "cpu_faults": "BIGINT",
    "to_gpu": "BIGINT", "to_host": "BIGINT", "evicted": "BIGINT", "service": "DOUBLE", "text": "VARCHAR",
}  # fmt: skip


def _rows(found: Content) -> list[dict]:
    """Returns a row for each figure, range, piece of advice and problem."""
    figures = found.figures
    rows: list[dict] = [{"says": "figure", "name": n, "value": getattr(figures, n), "unit": "1"} for n in _COUNTS]
    for _, field in _TABLE_3:
        if (spread := getattr(figures, field)) is not None:
            for part, value in dataclasses.asdict(spread).items():
                rows.append({"says": "figure", "name": f"{field}_{part}", "value": value, "unit": "1"})
    for name, size in figures.moved.items():
        rows.append({"says": "figure", "name": f"moved_{name.replace(' ', '_')}", "value": size, "unit": "B"})
    for _, field in _TIMES:
        rows.append({"says": "figure", "name": field, "value": getattr(figures, field), "unit": "s"})
    if found.evictions.bytes:
        for name, value in dataclasses.asdict(found.evictions).items():
            unit = "B" if name.endswith("bytes") else "s" if name == "away" else "1"
            rows.append({"says": "figure", "name": f"evictions_{name}", "value": value, "unit": unit})
    for each in found.ranges:
        row = {name: getattr(each, name) for name in _COLUMNS if hasattr(each, name) and name != "name"}
        rows.append(row | {"says": "range", "name": each.name, "address": each.base, "service": each.seconds})
    rows += [{"says": "advice", "name": rule, "text": sentence} for rule, sentence in found.advice]
    rows += [{"says": "problem", "text": problem} for problem in found.problems]
    return [{"file": found.path} | row for row in rows]


# --- the page ---


def _section(found: Content, title: str) -> dict:
    """Returns the template's values for one trace."""
    figures = found.figures
    by_cause = {name: size for name, size in figures.moved.items() if size}
    return {
        "title": title,
        "facts": found.trace.facts,
        "cards": [
            (f"{figures.faults:,}", "faults of GPUs"), (f"{figures.batches:,}", "batches"),
            (_bytes(sum(by_cause.values())), "moved"), (f"{figures.cpu_faults:,}", "faults of the host"),
            (units.quantity(figures.service, "s"), "in service"),
            (units.quantity(figures.latency_p50, "s"), "median latency of a fault"),
        ],
        "table3": [(name, getattr(figures, field)) for name, field in _TABLE_3],
        "counts": [(name.replace("_", " "), f"{getattr(figures, name):,}") for name in _COUNTS],
        "moved": [(name, _bytes(size)) for name, size in by_cause.items()],
        "evictions": _eviction_lines(found.evictions),
        "heads": _RANGE_HEADS,
        "ranges": [_range_cells(each) for each in found.ranges[:_RANGES]],
        "more_ranges": max(len(found.ranges) - _RANGES, 0),
        "advice": [(rule, sentence, RULES[rule]) for rule, sentence in found.advice],
        "problems": found.problems,
        "emulated": _EMULATED if tracefile.is_emulated(found.trace.facts) else "",
        "foreign": found.trace.foreign_replays,
        "plots": charts.all_of(
            found.events, found.batches, tracefile.spans_of(found.events), times=figures.has_times
        ),
    }  # fmt: skip


def page(found: list[Content], title: str) -> str:
    sections = [_section(each, name) for each, name in zip(found, names_of([each.path for each in found]))]
    plots = [plot for section in sections for plot in section["plots"]]
    return pages.render("faults/faults.html.jinja", plots, title=title, made=series.now(), sections=sections)


# --- the command ---


def add_arguments(parser) -> None:
    parser.add_argument("files", nargs="+", type=pathlib.Path, metavar="FILE", help="PREFIX.<pid>.uvm")
    output.add_arguments(parser, output.PAGE_FORMATS)
    parser.add_argument("--title", metavar="TEXT", help="title of the page (default: Page faults)")


def run(asked) -> int:
    kind = output.chosen_format(asked, output.PAGE_FORMATS)
    if kind != "html":
        options.refuse_idle({"--title": asked.title}, "on a page, which -o FILE.html writes")
    found: list[Content] = []
    most = memory.most_events()
    for path in asked.files:
        try:
            held = sum(len(each.trace.entries) for each in found)
            found.append(content(str(path), tracefile.read(path, most - held)))
        except MemoryError:
            raise Error(f"{path} has more events than fit in memory; record a shorter run") from None
    for problem in (problem for each in found for problem in each.problems):
        if kind != "text" or any(problem == each.trace.problem for each in found):
            print(f"isthmus faults: {spelling.printable(problem)}", file=sys.stderr)
    if kind == "html":
        text_of_page = page(found, asked.title or "Page faults")
        output.deliver(text_of_page, asked.output)
        if streams.descriptor(asked.output) is None:
            events = sum(len(each.trace.entries) for each in found)
            print(f"{asked.output}: {len(text_of_page.encode()) / 1e6:.1f} MB, {events} events")
    else:
        shown = output.Table(_COLUMNS, [row for each in found for row in _rows(each)], texts(found))
        asked.format = kind
        output.write(asked, shown)
    return exits.UNDECIDED if any(each.problems for each in found) else exits.PASSED
