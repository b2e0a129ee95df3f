"""Running of a machine's tools, such as nvidia-smi, sinfo and sacct, for their output or the reason for having none.

`ask()` never raises because of a tool. A missing tool, a tool that failed, and a tool that printed nothing are three
different answers, because only the caller knows what each of them means.
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

LONGEST = 60  # default time limit of a tool, in seconds
MOST = 16 * 2**20  # maximum bytes read from each stream


@dataclasses.dataclass(frozen=True)
class Answer:
    """Output of a tool, or the reason for having none."""

    command: str
    out: str = ""
    err: str = ""
    is_here: bool = True
    code: int | None = None  #: exit code, negative for a signal; None if the tool did not end by itself
    failure: str | None = None  #: such as "ends with exit code 9 (No devices were found)"

    @property
    def ok(self) -> bool:
        return self.is_here and self.failure is None

    @property
    def is_empty(self) -> bool:
        return self.ok and not self.out.strip()

    @property
    def why(self) -> str:
        """Reason for having no output, as a sentence; empty if there is output."""
        if not self.is_here:
            return f"there is no {self.command.split()[0]}"
        if self.failure:
            return f"{self.command} {self.failure}"
        return "" if self.out.strip() else f"{self.command} prints nothing"


def in_c_locale(environ=None) -> dict[str, str]:
    """Returns an environment in which a tool formats numbers and messages as in the C locale."""
    return {**(os.environ if environ is None else environ), "LC_ALL": "C"}


def ask(*command: str, timeout: float = LONGEST, environ=None, c_locale: bool = True) -> Answer:
    """Runs a tool, by default in the C locale, for at most `timeout` seconds. Never raises because of the tool.

    `environ` replaces the environment of this process, PATH included.
    """
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
    except BaseException:  # such as an interrupt, which the tool does not receive because it has its own process group
        _kill(process)
        raise
    code = process.returncode if failure is None else None
    if code:
        failure = _failure(code, err or out)
    return Answer(shown, out, err, code=code, failure=failure)


def _read(process, timeout: float) -> tuple[str, str, str | None]:
    """Returns stdout and stderr, at most MOST bytes of each, and why the tool was killed, if it was."""
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
        with contextlib.suppress(subprocess.TimeoutExpired):  # a process that waits for a device cannot be killed
            process.wait(5)
    for thread in threads:
        thread.join(1)
    if any(thread.is_alive() for thread in threads):
        _kill(process)  # processes that the tool left running keep the streams open
        for thread in threads:
            thread.join(5)
    if any(len(text) > MOST for text in read.values()):
        failure = f"prints more than {MOST // 2**20} MiB"
    texts = (read.get(name, b"") for name in streams)
    if failure:  # the last line may be cut short, and could then be misread
        texts = (text[: text.rfind(b"\n") + 1] for text in texts)
    out, err = (text.decode("utf-8", errors="replace") for text in texts)
    return out, err, failure


def _kill(process) -> None:
    """Kills the tool and everything that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _failure(code: int, said: str) -> str:
    line = next(filter(None, map(str.strip, said.splitlines())), "")
    ended = f"ends by signal {-code}" if code < 0 else f"ends with exit code {code}"
    return f"{ended} ({spelling.printable(spelling.shorten(line, 120))})" if line else ended
