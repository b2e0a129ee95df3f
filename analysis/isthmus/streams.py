"""Standard streams of the command `isthmus`: losing part of the answer is an error, losing a note is not.

A verdict is an exit code. By default, if a note cannot be written, Python exits with 1, which would be read as a
verdict. If standard error is closed, it prints notes to standard output. Its error for a full disk names no file.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import select
import sys


class LostOutput(OSError):
    """Failure to write standard output."""


class Patient(io.FileIO):
    """File that waits until everything is written, even to a pipe that does not block.

    Python would write only a part to such a pipe. ssh, node.js and some CI runners connect programs to them.
    """

    def write(self, data):
        while (written := super().write(data)) is None:
            wanted = select.poll()
            wanted.register(self.fileno(), select.POLLOUT)
            wanted.poll()  # also returns if the reader is gone
        return written


class _Output(Patient):
    """Standard output, whose errors have the type LostOutput, to tell them from errors of other files."""

    def write(self, data):
        try:
            return super().write(data)
        except OSError as error:
            raise LostOutput(error.errno, error.strerror) from None


class _Closed(io.TextIOBase):
    """Standard output that `>&-` closed. sys.stdout is None then, and Python would silently lose what is printed."""

    def writable(self):
        return True

    def write(self, text):
        if text:
            raise LostOutput(errno.EBADF, os.strerror(errno.EBADF))
        return 0

    @property
    def buffer(self):
        return self


class _Notes:
    """Standard error that never fails, since a note that nobody can read must not change an exit code."""

    def __init__(self, stream):
        self._stream = stream

    def write(self, text):
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def writelines(self, lines):
        self.write("".join(lines))

    def flush(self):
        with contextlib.suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name):
        return getattr(self._stream, name)


def _occupy() -> None:
    """Opens the standard streams that are closed.

    Otherwise the next file to be opened would get a closed stream's number, and notes would be written into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # uses the lowest free number


def guard() -> None:
    """Replaces sys.stdout and sys.stderr of this process."""
    _occupy()
    if sys.stdout is None:
        sys.stdout = _Closed()
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout = _replaced(sys.stdout, _Output)
    if sys.stderr is None:
        sys.stderr = _Notes(open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    else:
        sys.stderr = _Notes(_replaced(sys.stderr, Patient) if isinstance(sys.stderr, io.TextIOWrapper) else sys.stderr)


def _replaced(stream: io.TextIOWrapper, kind: type[io.FileIO]) -> io.TextIOWrapper:
    """Returns the same stream, written through another kind of file."""
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(kind(stream.fileno(), "wb", closefd=False)),
        encoding=stream.encoding,
        errors=stream.errors,
        newline="\n",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


_LINKS = 40  # maximum number of links in a row, as in Linux


def open_file_of(where) -> tuple[int, int] | None:
    """Returns the process and descriptor of the open file that a path in /proc names, or None for other paths.

    Symbolic links are followed, such as /dev/stdout.
    """
    path = os.fspath(where)
    for _ in range(_LINKS):
        folder, name = os.path.split(path)
        folder = os.path.realpath(folder or ".")
        if (found := re.fullmatch(r"/proc/([0-9]+)(?:/task/[0-9]+)?/fd", folder)) and name.isdecimal():
            return int(found[1]), int(name)
        try:
            path = os.path.join(folder, os.readlink(os.path.join(folder, name)))
        except (OSError, ValueError):  # not a link
            return None
    return None


def descriptor(where) -> int | None:
    """Returns the descriptor of this process that a destination names: 1 for `-` and /dev/stdout; None for files."""
    if where == "-":
        return 1
    found = open_file_of(where)
    return found[1] if found and found[0] == os.getpid() else None


def drop_output() -> None:
    """Discards buffered output, so that Python does not try to write it again at exit and report an error."""
    with contextlib.suppress(OSError):  # a closed stream has no number
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
