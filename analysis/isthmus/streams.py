"""Standard streams of the command `isthmus`: what is lost of the answer is an error, what is lost of the notes is not.

A verdict is an exit code. Python itself ends with 1 where a note cannot be written, which reads as a verdict; it prints
notes to standard output where standard error is closed; and the error of a full disk does not say which file it is of.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys


class LostOutput(OSError):
    """Standard output could not be written."""


class _Output(io.FileIO):
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
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(_Output(sys.stdout.fileno(), "wb", closefd=False)),
            encoding=sys.stdout.encoding,
            errors=sys.stdout.errors,
            newline="\n",
            line_buffering=sys.stdout.line_buffering,
            write_through=sys.stdout.write_through,
        )
    stream = open(os.devnull, "w", encoding="utf-8") if sys.stderr is None else sys.stderr  # noqa: SIM115
    sys.stderr = _Notes(stream)


def drop_output() -> None:
    """Sends what is still to be written nowhere, so that Python does not try again at its end, and complain."""
    with contextlib.suppress(OSError):  # a closed one has no number
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
