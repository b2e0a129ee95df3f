"""Makes streams of the driver's events as known kinds of programs produce them, and files with such streams."""

import dataclasses
import struct
import zlib

import numpy

PAGE, BLOCK = 4096, 2 << 20
BASE = 5_000_000_000  # time of the first event in nanoseconds
KINDS = {
    "fault": [("type", "u1", 0), ("access", "u1", 2), ("gpu", "u1", 3), ("gpc", "<u2", 4), ("client", "<u2", 6),
              ("address", "<u8", 8), ("time", "<u8", 16), ("gpu_time", "<u8", 24), ("batch", "<u4", 32),
              ("kind", "u1", 36)],
    "replay": [("type", "u1", 0), ("gpu", "u1", 1), ("kind", "u1", 2), ("batch", "<u4", 4), ("time", "<u8", 8),
               ("gpu_time", "<u8", 16)],
    "move": [("type", "u1", 0), ("cause", "u1", 1), ("source", "u1", 2), ("destination", "u1", 3),
             ("address", "<u8", 8), ("bytes", "<u8", 16), ("begin", "<u8", 24), ("end", "<u8", 32),
             ("gpu_begin", "<u8", 48), ("gpu_end", "<u8", 56)],
    "cpu_fault": [("type", "u1", 0), ("access", "u1", 1), ("address", "<u8", 8), ("time", "<u8", 16)],
    "thrashing": [("type", "u1", 0), ("address", "<u8", 16), ("bytes", "<u8", 24), ("time", "<u8", 32)],
    "remote_map": [("type", "u1", 0), ("address", "<u8", 8), ("bytes", "<u8", 16), ("time", "<u8", 24),
                   ("gpu_time", "<u8", 32)],
}  # fmt: skip
TYPES = {"fault": 3, "replay": 4, "move": 2, "cpu_fault": 1, "thrashing": 10, "remote_map": 13}


def events(what, **fields):
    """Returns entries of one kind as rows of 64 bytes. A field is a single value, or one value per entry."""
    names, forms, offsets = zip(*KINDS[what])
    layout = numpy.dtype({"names": names, "formats": forms, "offsets": offsets, "itemsize": 64})
    count = max(numpy.size(value) for value in fields.values())
    data = numpy.zeros(count, layout)
    data["type"] = TYPES[what]
    for name, value in fields.items():
        data[name] = value
    return data.view("u1").reshape(-1, 64)


@dataclasses.dataclass
class Stream:
    """Simulated program. Its next action begins at `now`, in nanoseconds since its first event."""

    now: int = 0
    batch: int = 0
    parts: list = dataclasses.field(default_factory=list)

    def add(self, what, **fields):
        self.parts.append(events(what, **fields))

    def faults(self, pages, *, of_batch=256, access=1, gpu=1, service=400_000, nearby=15, source=0):
        """Adds page faults of a GPU at the addresses `pages`. Each batch moves its pages one by one, and with each page
        the `nearby` pages after it."""
        pages = numpy.asarray(pages, "u8")
        number = numpy.arange(len(pages)) // of_batch
        begin = BASE + self.now + number * service * 5 // 4
        inside = numpy.arange(len(pages)) % of_batch
        self.add("fault", gpu=gpu, access=access, address=pages, time=begin + inside * 10, gpu_time=begin - 2000,
                 batch=self.batch + number, kind=1, gpc=inside % 7, client=inside % 18)  # fmt: skip
        for cause, size, late in ((2, PAGE, 10_000), (3, nearby * PAGE, 20_000)):
            if size:
                begun = begin + of_batch * 10 + late
                at = pages if cause == 2 else pages + numpy.uint64(PAGE)
                self.add("move", cause=cause, source=source, destination=gpu, address=at, bytes=size, begin=begun,
                         end=begun + 5000, gpu_begin=begun + 100, gpu_end=begun + 100 + size // 50)  # fmt: skip
        batches = numpy.unique(number)
        ends = BASE + self.now + batches * service * 5 // 4 + service
        self.add("replay", gpu=gpu, kind=1, batch=self.batch + batches, time=ends, gpu_time=ends + 3000)
        self.batch += len(batches)
        self.now += len(batches) * service * 5 // 4

    def host(self, base, size, *, access=1, evicted=False, service=60_000):
        """Adds accesses of the host to a whole range, one page fault per block, or the range's eviction from a GPU."""
        blocks = base + numpy.arange(size // BLOCK, dtype="u8") * numpy.uint64(BLOCK)
        when = BASE + self.now + numpy.arange(len(blocks)) * service
        if not evicted:
            self.add("cpu_fault", access=access, address=blocks, time=when)
        cause = 4 if evicted else 2
        self.add("move", cause=cause, source=1, destination=0, address=blocks, bytes=BLOCK, begin=when + 100,
                 end=when + 50_000, gpu_begin=when + 200, gpu_end=when + 45_000)  # fmt: skip
        self.now += len(blocks) * service

    def rows(self):
        return numpy.concatenate(self.parts) if self.parts else numpy.zeros((0, 64), "u1")


def dense(base, size):
    """Returns the address of the first page of each 64 KiB of a range, which has 15 more pages after each of them."""
    return base + numpy.arange(size // (16 * PAGE), dtype="u8") * numpy.uint64(16 * PAGE)


def program(scale=1):
    """Returns the stream of a program with a dense sweep, four sweeps over a range that the host takes back each time,
    a sparse sweep, and accesses of the host."""
    chance = numpy.random.default_rng(1)
    big, sparse, shared = 0x7F0000000000, 0x7F2000000000, 0x7F4000000000
    size = scale * (64 << 20)
    stream = Stream()
    stream.faults(dense(big, 4 * size))
    for _ in range(4):
        stream.faults(dense(shared, size), access=2)
        stream.host(shared, size, access=2)
    pages = sparse + chance.integers(0, 16 * size // PAGE, 1000 * scale).astype("u8") * numpy.uint64(PAGE)
    stream.faults(pages, of_batch=200, service=1_500_000)
    stream.host(big, 4 * size)
    return stream


def packed(chunks, facts=None, end=True, dropped=0, foreign=0):
    """Returns the contents of a trace file in the format of libisthmus-uvm.so."""
    facts = {"driver": "580.159.04", "process": "7", "command": "./solver --steps 10"} if facts is None else facts
    text = "".join(f"{name}={value}\n" for name, value in facts.items()).encode()
    data = struct.pack("<16sII", b"isthmus.uvm/1\n", len(text), zlib.crc32(text)) + text
    for rows in chunks:
        body = zlib.compress(rows.tobytes(), 1)
        data += struct.pack("<IIIIQQ", 0x434D5655, len(rows), len(body), zlib.crc32(body), dropped, foreign) + body
    return data + (struct.pack("<IIIIQQ", 0x454D5655, 0, 0, 0, 0, 0) if end else b"")


def write(path, rows, **how):
    path.write_bytes(packed([rows[first : first + 100_000] for first in range(0, len(rows), 100_000)], **how))
    return path
