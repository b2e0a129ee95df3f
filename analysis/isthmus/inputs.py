"""Files that others write: opened without waiting, read up to a limit, and parsed without losing a key.

Every command and every session reads such files with these functions. A FIFO, a device or a sparse file of many
gigabytes then causes one sentence instead of a hang or a MemoryError. Files that were read are remembered, so that no
output overwrites them.
"""

from __future__ import annotations

import codecs
import collections
import contextlib
import gzip
import hashlib
import importlib
import json
import os
import re
import stat
import sys
import zlib
from typing import Any, NamedTuple

MIB = 1 << 20
_LONGEST_LINE = 4096  # maximum bytes per line of TOML; a key of 100,000 parts keeps tomllib busy for minutes
_MOST_SAID = 2 * MIB  # maximum number of bytes that are read from a program's output
_DEEPEST = 100  # maximum levels of nesting in a file; Python's own functions fail at a few hundred
_HEAD = 1 << 23  # bytes that are searched to tell what a file contains; records are shorter

_KINDS = {stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
          stat.S_IFDIR: "a directory"}  # fmt: skip
_read: set[tuple[int, int]] = set()  # device and inode of each file that was opened for reading
_answer: set[tuple[int, int]] = set()  # device and inode of standard output, if it is a file that receives the answer


def no_file(status: os.stat_result) -> str | None:
    """Returns a description such as "a FIFO, not a file", or None for a regular file.

    Opening a FIFO waits, and reading a device may never end.
    """
    if stat.S_ISREG(status.st_mode):
        return None
    return f"{_KINDS.get(stat.S_IFMT(status.st_mode), 'something else')}, not a file"


DANGLING = "a link whose target is missing"


def status_of(path) -> os.stat_result | None:
    """Returns the status of the file that a path leads to, or None if nothing has this name.

    Raises OSError for a dangling link and for a path that cannot be examined. Python's `exists()`, `is_file()` and
    `glob()` report both as absent.
    """
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        if not os.path.islink(path):
            return None
    raise OSError(0, DANGLING, os.fspath(path))


def names_in(folder) -> list[str]:
    """Returns the sorted names in a folder, or an empty list if it is missing. Raises OSError as status_of() does."""
    return sorted(os.listdir(folder)) if status_of(folder) else []


def open_file(path):
    """Opens a file for reading bytes. Raises OSError unless it is a regular file, and never waits for it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    status = os.fstat(descriptor)
    why = no_file(status)
    if (status.st_dev, status.st_ino) in _answer:
        why = "also standard output, which receives the answer; send the answer to another file"
    if why:
        os.close(descriptor)
        raise OSError(0, why, os.fspath(path))
    _read.add((status.st_dev, status.st_ino))
    return open(descriptor, "rb", buffering=MIB)


def read_small(path, most: int = 16 * MIB) -> bytes:
    """Returns the bytes of a file.

    Raises OSError, with a clause as `strerror`, unless it is a regular file of at most `most` bytes.
    """
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(size + 1) if size <= most else None  # read() allocates the full size requested
        if data is not None and len(data) > size:  # the file grew, or reports no size, as in /proc
            data += file.read(most - size)
    if data is None or len(data) > most:
        raise OSError(0, f"larger than {most // MIB} MiB, the limit for this file", os.fspath(path))
    return data


def read_note(path) -> str:
    """Returns the text of a small file, such as one that a job's script wrote. Raises OSError as read_small() does."""
    return read_small(path, MIB).decode("utf-8", errors="replace")


class Ends(NamedTuple):
    """Whole lines from the beginning and the end of a text; `left_out` is the number of bytes between the two."""

    head: str
    tail: str = ""
    left_out: int = 0

    @property
    def text(self) -> str:
        return self.head + self.tail

    @property
    def gap(self) -> str:
        """Clause that ends a sentence about the file with the amount left out; empty if nothing was left out."""
        return f", of which {max(self.left_out // MIB, 1)} MiB in the middle were not read" if self.left_out else ""


def read_ends(path, most: int = _MOST_SAID) -> Ends:
    """Reads a program's output: all of it, or its beginning and end if it has more than `most` bytes.

    Bytes that are not UTF-8 are replaced. Raises OSError unless it is a regular file.
    """
    half = most // 2
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size <= most:
            return Ends(file.read(most).decode("utf-8", errors="replace"))
        head = file.read(half)
        file.seek(size - half)
        tail = file.read(half)
    head = head[: head.rfind(b"\n") + 1] or head + b"\n"
    tail = tail[tail.find(b"\n") + 1 :] or tail
    left_out = size - len(head) - len(tail)
    return Ends(head.decode("utf-8", errors="replace"), tail.decode("utf-8", errors="replace"), left_out)


def sha256(path, first: int | None = None) -> str:
    """Returns the hexadecimal digest of a file, or of its `first` bytes.

    Raises OSError unless it is a regular file.
    """
    digest = hashlib.sha256()
    with open_file(path) as file:
        while block := file.read(MIB if first is None else min(MIB, first)):
            digest.update(block)
            first = None if first is None else first - len(block)
    return digest.hexdigest()


# --- contents ---


def _once(pairs: list[tuple]) -> dict:
    found = dict(pairs)
    if len(found) < len(pairs):
        [(twice, _)] = collections.Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {twice!r} appears twice")
    return found


def json_of(data: bytes):
    """Parses JSON. Raises ValueError for invalid JSON or a repeated key, and RecursionError if nested too deeply."""
    return json.loads(data, object_pairs_hook=_once)


def toml_of(data: bytes) -> dict:
    """Parses TOML. Raises ValueError for invalid TOML or an overlong line, and RecursionError if nested too deeply."""
    if any(len(line) > _LONGEST_LINE for line in data.split(b"\n")):
        raise ValueError(f"a line is longer than {_LONGEST_LINE} bytes")
    tomllib = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    return tomllib.loads(data.decode())


def unwieldy(content: Any, most: int) -> str | None:
    """Returns why walking through a value would fail: it contains itself, is too deep, or has more than `most` values.

    Returns None if it can be walked. Only dictionaries, lists, tuples and sets count as containers.
    """
    found = 0
    above: list[int] = []  # ids of the containers that are being walked, whose iterators are in `pending`
    pending = [iter((content,))]
    while pending:
        for value in pending[-1]:
            found += 1
            if found > most:
                return f"unfolds to more than {most} values"
            if not isinstance(value, (dict, list, tuple, set, frozenset)):
                continue
            if id(value) in above:
                return "contains itself"
            if len(above) == _DEEPEST:
                return f"has more than {_DEEPEST} levels"
            above.append(id(value))
            pending.append(iter(value.values() if isinstance(value, dict) else value))
            break
        else:
            pending.pop()
            del above[-1:]
    return None


# --- names ---

_PACKED = {".gz": "gzip", ".tgz": "gzip", ".zst": "zstd", ".bz2": "bzip2", ".xz": "xz", ".lz4": "lz4", ".zip": "zip",
           ".7z": "7-Zip"}  # fmt: skip


def packer(name: str) -> str | None:
    """Returns the program that compressed a file, according to its name's ending; None if the name does not tell."""
    return next((packer for end, packer in _PACKED.items() if name.lower().endswith(end)), None)


def unread_because(name: str, wanted: str, or_else: str) -> str:
    """Returns why a file is not read whose name does not end in `wanted`, and what to do about it."""
    if by := packer(name):
        return f"compressed by {by}, which is not read; decompress it to a name that ends in {wanted}{or_else}"
    return f"not read under this name; rename it to end in {wanted}{or_else}"


# --- what must not be overwritten ---


def forget() -> None:
    """Forgets the files that an earlier command of this process read."""
    _read.clear()
    _answer.clear()


def answer_on(descriptor: int) -> None:
    """Makes open_file() refuse the file of this descriptor, since output would otherwise be written into an input."""
    with contextlib.suppress(OSError):  # the descriptor may be closed
        status = os.fstat(descriptor)
        if not no_file(status):
            _answer.add((status.st_dev, status.st_ino))


def was_read(status: os.stat_result) -> bool:
    return (status.st_dev, status.st_ino) in _read


def _json_head(path) -> bytes:
    """Returns the decompressed beginning of a file that begins like JSON, at most _HEAD bytes.

    Returns nothing for a file that cannot be read and for other files, of which only a few bytes are read.
    """
    head = b""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if no_file(os.fstat(file.fileno())):
                return b""
            packed = file.peek(2)[:2] == b"\x1f\x8b"
            with gzip.GzipFile(fileobj=file) if packed else file as whole:
                begins = whole.peek(1).removeprefix(codecs.BOM_UTF8).lstrip()
                while begins.startswith((b"{", b"[")) and len(head) < _HEAD and (block := whole.read1(MIB)):
                    head += block
    except (OSError, EOFError, zlib.error):  # whatever was read so far counts
        pass
    return head


def first_bytes(path, most: int) -> bytes:
    """Returns the first bytes of a file without decompressing it; empty if it cannot be read."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            return b"" if no_file(os.fstat(file.fileno())) else file.read(most)
    except OSError:
        return b""


LINES, DOCUMENT = "lines", "document"
_SCHEMA = re.compile(rb'"schema"\s*:\s*"isthmus[.]record/')


def form_of_records(path) -> str | None:
    """Returns the form of the records in a file, or None if it has none. Records may be incomplete and of any version.

    LINES is one record per line; DOCUMENT is any other JSON.
    """
    head = _json_head(path)
    if not _SCHEMA.search(head):
        return None
    line = head.partition(b"\n")[0]
    return LINES if line.startswith(b"{") and _SCHEMA.search(line) else DOCUMENT


def holds(path) -> str | None:
    """Returns the kind of measured data in a file (records, a trace, or a report of ReFrame), or None if it has none.

    Measured data is never overwritten. A file that cannot be read may contain any of these.
    """
    name = os.path.basename(os.path.realpath(path)).lower()
    if name.endswith((".jsonl", ".jsonl.gz")) or form_of_records(path):
        return "records"
    if name.endswith(".uvm"):
        return "a trace of page faults"
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD)
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"contents that cannot be read ({error.strerror})"
    if head.lstrip().startswith(b"{") and re.search(rb'"(session_info|testcases)"\s*:', head):
        return "a report of ReFrame"
    return None
