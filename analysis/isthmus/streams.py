"""Standard streams of the command `isthmus`: what is lost of the answer is an error, what is lost of the notes is not.

A verdict is an exit code. Python itself ends with 1 where a note cannot be written, which reads as a verdict; it prints
notes to standard output where standard error is closed; and the error of a full disk does not say which file it is of.
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
    """Standard output could not be written."""


class Patient(io.FileIO):
    """A file that waits until it takes what is written: one that does not block would take a part, and lose the rest.

    Such are the pipes that ssh, node.js and some CI runners give to a program.
    """

    def write(self, data):
        while (written := super().write(data)) is None:
            wanted = select.poll()
            wanted.register(self.fileno(), select.POLLOUT)
            wanted.poll()  # returns, too, where the reader is gone
        return written


class _Output(Patient):
    """Standard output, whose errors are told from those of other files."""

    def write(self, data):
        try:
            return super().write(data)
        except OSError as error:
            raise LostOutput(error.errno, error.strerror) from None


class _Closed(io.TextIOBase):
    """Standard output that `>&-` closed: Python has none then, and what is printed would be lost without a word."""

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
    """Standard error that never fails: a note that nobody can read changes no exit code."""

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
    """Opens the standard streams that are closed, or the next file would get one's number, and notes with it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free


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
    """The same stream, written by way of another kind of file."""
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(kind(stream.fileno(), "wb", closefd=False)),
        encoding=stream.encoding,
        errors=stream.errors,
        newline="\n",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


_LINKS = 40  # in a row, the most that Linux follows


def open_file_of(where) -> tuple[int, int] | None:
    """Process and number of the open file that a path names by /proc, as /dev/stdout does by links; None of others."""
    path = os.fspath(where)
    for _ in range(_LINKS):
        folder, name = os.path.split(path)
        folder = os.path.realpath(folder or ".")
        if (found := re.fullmatch(r"/proc/([0-9]+)(?:/task/[0-9]+)?/fd", folder)) and name.isdecimal():
            return int(found[1]), int(name)
        try:
            path = os.path.join(folder, os.readlink(os.path.join(folder, name)))
        except (OSError, ValueError):  # no link
            return None
    return None


def descriptor(where) -> int | None:
    """Number of this process's descriptor that a destination names: 1 of `-` and /dev/stdout; None of a file."""
    if where == "-":
        return 1
    found = open_file_of(where)
    return found[1] if found and found[0] == os.getpid() else None


def drop_output() -> None:
    """Sends what is still to be written nowhere, so that Python does not try again at its end, and complain."""
    with contextlib.suppress(OSError):  # a closed one has no number
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
