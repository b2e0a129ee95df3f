"""Asking the tools of a machine: what nvidia-smi, sinfo or sacct print, and why there is no answer.

`ask()` never raises for what a tool does. No tool, a tool that failed, and a tool that printed nothing are three
different answers: only the caller knows what each of them means.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import signal
import subprocess
import threading

from isthmus import spelling

LONGEST = 60  # seconds
MOST = 16 * 2**20  # bytes of each stream


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a tool printed, or why it did not answer."""

    command: str
    out: str = ""
    err: str = ""
    is_here: bool = True
    code: int | None = None  #: its exit code, negative for a signal; None where it did not end by itself
    failure: str | None = None  #: how it failed: "ends with exit code 9 (No devices were found)"

    @property
    def ok(self) -> bool:
        return self.is_here and self.failure is None

    @property
    def is_empty(self) -> bool:
        return self.ok and not self.out.strip()

    @property
    def why(self) -> str:
        """Why there is nothing to read, as a sentence; empty where there is something."""
        if not self.is_here:
            return f"there is no {self.command.split()[0]}"
        if self.failure:
            return f"{self.command} {self.failure}"
        return "" if self.out.strip() else f"{self.command} prints nothing"


def in_c_locale(environ=None) -> dict[str, str]:
    """The environment for a tool whose output is read: numbers and messages as the C locale writes them."""
    return {**(os.environ if environ is None else environ), "LC_ALL": "C"}


def ask(*command: str, timeout: float = LONGEST, environ=None, c_locale: bool = True) -> Answer:
    """Runs a tool, in the C locale unless told otherwise. `environ` takes the place of this process's environment,
    PATH included."""
    environ = in_c_locale(environ) if c_locale else dict(os.environ if environ is None else environ)
    shown = " ".join([os.path.basename(command[0]), *command[1:]])
    where = shutil.which(command[0], path=environ.get("PATH", os.defpath))
    if where is None:
        return Answer(shown, is_here=False)
    try:
        process = subprocess.Popen(
            [where, *command[1:]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environ, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return Answer(shown, failure=f"does not start ({error.strerror or error})")
    try:
        out, err, failure = _read(process, timeout)
    except BaseException:  # as an interrupt, which a process group of its own does not get
        _kill(process)
        raise
    code = process.returncode if failure is None else None
    if code:
        failure = _failure(code, err or out)
    return Answer(shown, out, err, code=code, failure=failure)


def _read(process, timeout: float) -> tuple[str, str, str | None]:
    """Both streams, at most MOST of each, and why the tool was ended where it was."""
    read: dict[str, bytes] = {}

    def drain(name, stream):
        with stream:
            read[name] = stream.read(MOST + 1)
        if len(read[name]) > MOST:
            _kill(process)

    streams = {"out": process.stdout, "err": process.stderr}
    threads = [threading.Thread(target=drain, args=each, daemon=True) for each in streams.items()]
    for thread in threads:
        thread.start()
    failure = None
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        failure = f"does not answer within {timeout:g} s"
        _kill(process)
        with contextlib.suppress(subprocess.TimeoutExpired):  # one that waits for a device cannot be ended
            process.wait(5)
    for thread in threads:
        thread.join(1)
    if any(thread.is_alive() for thread in threads):
        _kill(process)  # what the tool left running holds the streams open
        for thread in threads:
            thread.join(5)
    if any(len(text) > MOST for text in read.values()):
        failure = f"prints more than {MOST // 2**20} MiB"
    texts = (read.get(name, b"") for name in streams)
    if failure:  # the tool was ended in the middle of a line, and half of one says something else
        texts = (text[: text.rfind(b"\n") + 1] for text in texts)
    out, err = (text.decode("utf-8", errors="replace") for text in texts)
    return out, err, failure


def _kill(process) -> None:
    """Ends the tool and all that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _failure(code: int, said: str) -> str:
    line = next(filter(None, map(str.strip, said.splitlines())), "")
    ended = f"ends by signal {-code}" if code < 0 else f"ends with exit code {code}"
    return f"{ended} ({spelling.printable(spelling.shorten(line, 120))})" if line else ended
