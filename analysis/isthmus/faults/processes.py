"""Runs a program and finds out which of its processes loaded the preloaded library, and why others did not.

A look is a walk through /proc. Looks miss processes that live for less than two looks, a few hundredths of a second;
creating a CUDA context takes longer than that. Linux makes this process the parent of the program's orphans, so none is
lost.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
import pathlib
import signal
import stat
import struct
import subprocess
import time
from typing import NamedTuple

MEMORY_NODE = "/dev/nvidia-uvm"
_EVERY = 0.02  # seconds between looks
_SHARE = 0.2  # maximum share of a core that looks may use
_ELF_ENTRY = 56  # bytes of a 64-bit program header
_ELF_MOST = 1 << 16  # maximum total bytes of program headers that Linux accepts
_ELF_INTERPRETER = 3  # PT_INTERP
_SUBREAPER = 36  # prctl's PR_SET_CHILD_SUBREAPER
# Largest si_code of a signal sent by kill(). Signals from the terminal have a larger si_code, and need not be passed
# on, because the terminal also sends them to the program.
_FROM_A_PROGRAM = 0

#: Programs whose work is done by processes that are not their descendants: on other nodes, or started by a daemon.
ELSEWHERE = frozenset(
    ("srun", "ssh", "rsh", "qrsh", "blaunch", "jsrun", "lrun", "aprun", "pbsdsh", "pdsh", "flux", "docker",
     "systemd-run")
)  # fmt: skip


def is_static(program: str | pathlib.Path) -> bool:
    """Returns whether the kernel starts a program without a dynamic loader, so that nothing can be preloaded.

    Returns false for files that the kernel does not start as a 64-bit program: a script, whose interpreter has a
    loader, an object file, or a truncated file. Raises OSError.
    """
    with open(program, "rb") as file:
        head = file.read(64)
        if len(head) < 64 or head[:4] != b"\x7fELF" or head[4] != 2:
            return False
        (at,), (size, count) = struct.unpack_from("<Q", head, 32), struct.unpack_from("<HH", head, 54)
        # The kernel checks the same conditions. They limit how much is read here.
        if (
            size != _ELF_ENTRY
            or not 0 < size * count <= _ELF_MOST
            or at + size * count > os.fstat(file.fileno()).st_size
        ):
            return False
        file.seek(at)
        table = file.read(size * count)
    kinds = [kind for (kind,) in struct.iter_unpack(f"<I{_ELF_ENTRY - 4}x", table[: len(table) // size * size])]
    return _ELF_INTERPRETER not in kinds


def has_privileges(program: str | pathlib.Path) -> bool:
    """Returns whether a program runs as another user or group, or with capabilities, so that nothing is preloaded."""
    facts = os.stat(program)
    if facts.st_mode & stat.S_ISUID and facts.st_uid != os.geteuid():
        return True
    if facts.st_mode & stat.S_ISGID and facts.st_gid != os.getegid():
        return True
    try:
        return os.geteuid() != 0 and bool(os.getxattr(program, "security.capability"))
    except OSError:  # the file has no such attribute
        return False


@dataclasses.dataclass
class Process:
    """Process during the time that it runs one program, that is, until it calls exec."""

    pid: int
    inner: int  # number of the process within its container
    name: str
    command: str
    looks: int = 0
    is_watched: bool = False
    reason: str = ""  # reason why the process is not watched
    uses_memory: bool = False  # true if the process has the driver's node open, so it uses CUDA's memory
    inherits_memory: bool = False  # true if forked from a process with that node open, so an open node may be inherited


@dataclasses.dataclass
class Run:
    """Result of running a program."""

    code: int  # exit code as in subprocess: negative for a signal
    interrupted_by: str = ""  # name of a signal
    processes: list[Process] = dataclasses.field(default_factory=list)
    left: list[int] = dataclasses.field(default_factory=list)  # processes that are still running
    seen_all: bool = True  # false if /proc does not show other processes

    def unwatched(self) -> list[Process]:
        """Returns processes that lack the library for a known reason. A process that is about to end has no reason."""
        return [each for each in self.processes if not each.is_watched and each.reason and each.looks > 1]

    def elsewhere(self) -> list[str]:
        return sorted({each.name for each in self.processes} & ELSEWHERE)


class _Looker:
    """Finder of all descendants of this process."""

    def __init__(self, library: str):
        self.library = library
        self.found: dict[tuple, Process] = {}

    def look(self) -> list[int]:
        """Looks at every descendant once; returns the numbers of those that are running."""
        stats = _stats()
        below: set[int] = set()
        more = {os.getpid()}
        children: dict[int, list[int]] = {}
        for pid, each in stats.items():
            children.setdefault(each.parent, []).append(pid)
        while more:
            more = {child for pid in more for child in children.get(pid, [])} - below
            below |= more
        for pid in sorted(below):
            key = (pid, stats[pid].begin, stats[pid].stack)
            try:
                if key not in self.found:
                    self.found[key] = _process(pid)
                    self.found[key].inherits_memory = self._is_forked_from_user(stats, pid)
                self._look_at(self.found[key])
            except OSError:  # the process has ended
                continue
        return sorted(below)

    def _is_forked_from_user(self, stats: dict[int, _Stat], pid: int) -> bool:
        """Returns whether a process was forked, without exec, from a parent that used CUDA's memory."""
        above = stats.get(stats[pid].parent)
        if above is None or above.stack != stats[pid].stack:
            return False
        known = self.found.get((stats[pid].parent, above.begin, above.stack))
        return known is not None and (known.uses_memory or known.inherits_memory)

    def _look_at(self, process: Process) -> None:
        process.looks += 1
        if not process.is_watched:
            process.is_watched, process.reason = _watched(process.pid, self.library)
        if not process.uses_memory and not process.inherits_memory:
            process.uses_memory = _has_open(process.pid, MEMORY_NODE)


class _Stat(NamedTuple):
    """Summary of a process. The stack's address distinguishes the current program from the one before exec."""

    parent: int
    begin: str
    stack: str


def _stats() -> dict[int, _Stat]:
    """Returns all processes that have not ended."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            file = os.open(f"/proc/{name}/stat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fields = os.read(file, 4096).rpartition(b")")[2].split()
        except OSError:  # the process has ended
            continue
        finally:
            os.close(file)
        if len(fields) > 25 and fields[0] not in (b"Z", b"X"):
            found[int(name)] = _Stat(int(fields[1]), fields[19].decode(), fields[25].decode())
    return found


def _process(pid: int) -> Process:
    words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    status = pathlib.Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    inner = next((line.split()[-1] for line in status if line.startswith("NSpid:")), str(pid))
    name = status[0].partition(":")[2].strip()
    return Process(pid, int(inner), name, " ".join(words).strip() or name)


def _watched(pid: int, library: str) -> tuple[bool, str]:
    """Returns whether a process has loaded the library, and if not, why."""
    exe = f"/proc/{pid}/exe"
    try:
        if os.path.basename(library) in pathlib.Path(f"/proc/{pid}/maps").read_text(errors="replace"):
            return True, ""
        if has_privileges(exe):
            return False, "runs with privileges, so its loader preloads nothing"
        if is_static(exe):
            return False, "is fully static, so nothing can be preloaded"
        environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        if not any(word.startswith(b"LD_PRELOAD=") and library.encode() in word for word in environment):
            return False, "was started without LD_PRELOAD in its environment"
        if not os.path.exists(f"/proc/{pid}/root{library}"):
            return False, f"runs in a container without {library}: bind its folder"
        return False, "did not load the library: its loader or its word size differs"
    except PermissionError:
        return False, "runs as another user, so nothing is preloaded"


def _has_open(pid: int, path: str) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        return any(_link(f"{folder}/{name}") == path for name in os.listdir(folder))
    except PermissionError:
        return False


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _reap(program: subprocess.Popen) -> None:
    """Reaps orphans that this process inherited, and the program by `program.poll()`, which keeps its exit code."""
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None:
            return
        if ended.si_pid == program.pid:
            program.poll()
        else:
            os.waitpid(ended.si_pid, 0)


def _has_terminal() -> bool:
    """Returns whether a terminal's Ctrl-C reaches this process and its program."""
    try:
        with open("/dev/tty", "rb") as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False


def run(words: list[str], where: str, environment: dict[str, str], library: str) -> Run:
    """Runs a program to its end. Signals that request this process to end are passed to the program, which decides.

    Raises OSError if the program cannot be started.
    """
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    asks = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*asks, signal.SIGCHLD})
    # Signals are blocked here, but a library's thread may receive one. Then the sender is unknown, but the program must
    # still be ended.
    stray: list[int] = []
    handlers = {ask: signal.signal(ask, lambda number, _: stray.append(number)) for ask in asks}
    looker = _Looker(library)
    done = Run(0)
    try:
        program = subprocess.Popen(
            words,
            executable=where,
            env=environment,
            close_fds=False,  # the program inherits all descriptors, as `cat <(…)` needs
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before) and None,
        )
        pause = 0.0
        while program.poll() is None:
            came = signal.sigtimedwait({*asks, signal.SIGCHLD}, pause)
            if came is not None and came.si_signo != signal.SIGCHLD:
                done.interrupted_by = signal.Signals(came.si_signo).name
                if came.si_code <= _FROM_A_PROGRAM:
                    program.send_signal(came.si_signo)
            while stray:
                number = stray.pop()
                done.interrupted_by = signal.Signals(number).name
                if number != signal.SIGINT or not _has_terminal():
                    program.send_signal(number)
            _reap(program)
            begin = time.monotonic()
            running = looker.look()
            pause = max(_EVERY, (time.monotonic() - begin) / _SHARE)
            # The program may be absent from `running` although it exists: if its first thread has ended, it is a zombie
            # until all other threads have ended.
            there = program.pid in running or os.path.exists(f"/proc/{program.pid}") or program.poll() is not None
            done.seen_all = done.seen_all and there
        done.code = program.returncode
        done.left = looker.look()
        while (came := signal.sigtimedwait(asks, 0)) is not None:  # signals that arrived while the program ended
            done.interrupted_by = signal.Signals(came.si_signo).name
    finally:
        for ask, handler in handlers.items():
            signal.signal(ask, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    done.processes = list(looker.found.values())
    return done
