"""Starts the command `isthmus`, so that Ctrl-C at any moment is one sentence and exit code 130.

Only built-in modules are imported before the handler is installed; what comes before is Python's own start. The handler
ends the process where it is: an exception would be swallowed by some libraries, abort others, or wait for workers. What
would be left behind is removed first: temporary folders, the processes that were started, and `unfinished`.
A command that is done ends with its own exit code: Python's own end takes no interrupts.
"""

import _thread
import atexit
import os
import sys

_signal = __import__("_signal")  # `signal` imports more, and Ctrl-C would be a traceback meanwhile

INTERRUPTED = 130  # the exit code of a program that SIGINT ended, as shells show it
_MOST = 2.0  # seconds that tidying may take
_process = os.getpid()
program = "isthmus"
unfinished: set[str] = set()  # files that are being written under another name than they will have


def _end() -> None:
    sentence = f"{program}: interrupted\n".encode()
    try:
        os.write(2, sentence) if _is_open(2) else None
    finally:  # where nothing can be written, too
        os._exit(INTERRUPTED)


def _is_open(descriptor: int) -> bool:
    return os.path.exists(f"/proc/self/fd/{descriptor}") or not os.path.isdir("/proc/self/fd")


def _end_later() -> None:
    import time

    time.sleep(_MOST)
    _end()


def _children() -> list[int]:
    """Processes that this one started and that have not ended."""
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else []:
        if name.isdigit() and os.path.exists(f"/proc/{name}/stat"):
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    state, parent = file.read().rpartition(b")")[2].split()[:2]
            except OSError:  # it has ended
                continue
            if int(parent) == os.getpid() and state != b"Z":
                found.append(int(name))
    return found


def _tidy() -> None:
    """Leaves nothing behind; what cannot be removed stays."""
    for child in _children():
        os.kill(child, _signal.SIGTERM)
    for path in unfinished:
        if os.path.exists(path):
            os.unlink(path)
    if weakref := sys.modules.get("weakref"):
        weakref.finalize._exitfunc()  # temporary folders


def _interrupt(_number, _frame) -> None:
    if os.getpid() != _process:  # a worker: the parent says it
        os._exit(INTERRUPTED)
    _signal.signal(_signal.SIGINT, lambda *_: _end())
    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, {_signal.SIGINT})
    _thread.start_new_thread(_end_later, ())
    _signal.pthread_sigmask(_signal.SIG_SETMASK, before)
    try:
        _tidy()
    finally:
        _end()


def listen() -> None:
    """Takes interrupts from now on, unless they are ignored, as in the background of a script."""
    if _signal.getsignal(_signal.SIGINT) not in (_signal.SIG_IGN, _interrupt):
        _signal.signal(_signal.SIGINT, _interrupt)
        # Python's own end restores the default, which would kill a command that is done. What is first here runs last.
        atexit.register(_signal.signal, _signal.SIGINT, _signal.SIG_IGN)


def in_utf8() -> None:
    """Starts the process anew with names, arguments and output in UTF-8 where the locale has another encoding.

    Records are UTF-8 and so are names for DuckDB, and a locale says nothing about the bytes that were typed. Names that
    are no UTF-8 keep their bytes. The process keeps its number, its signals and its exit code; where it cannot be
    started anew it goes on as it is.
    """
    asked = getattr(sys, "orig_argv", [])
    is_done = sys.getfilesystemencoding() == "utf-8" or "utf8" in sys._xoptions
    if is_done or not (sys.executable and asked):
        return
    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, {_signal.SIGINT})  # until the new start listens
    try:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *asked[1:]])
    except OSError:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)


def fault(error: BaseException) -> int:
    """Says on stderr what nobody foresaw, and returns its exit code."""
    import traceback

    from isthmus.exits import FAULT

    if isinstance(error, MemoryError):
        print(f"{program}: there is not enough memory; give it more, or fewer records at a time", file=sys.stderr)
    else:
        traceback.print_exception(error)
        print(f"{program}: a fault of the program, so nothing is known; please report the lines above", file=sys.stderr)
    return FAULT


def main() -> int:
    """Runs the command line of this process."""
    listen()
    if "utf8" in sys._xoptions:  # as in_utf8() starts it
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, {_signal.SIGINT})
    in_utf8()
    try:
        from isthmus import streams

        streams.guard()
        from isthmus import cli

        return cli.main()
    except Exception as error:
        return fault(error)
