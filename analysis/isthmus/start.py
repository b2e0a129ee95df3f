"""Start of the command `isthmus`, which makes Ctrl-C at any moment print one sentence and return exit code 130.

Only built-in modules are imported before the handler is installed, so only Python's own startup is not covered. The
handler ends the process at once, since some libraries would swallow an exception, abort on it, or wait for workers.
It first cleans up: it removes temporary folders and `unfinished` files and ends the processes that this one started.
A finished command exits with its usual code, because interrupts are ignored during Python's shutdown.
"""

import _thread
import atexit
import os
import sys

_signal = __import__("_signal")  # `signal` imports more modules, during which Ctrl-C would be a traceback

INTERRUPTED = 130  # exit code that shells show for a program ended by SIGINT
_MOST = 2.0  # maximum seconds for _tidy()
_process = os.getpid()
program = "isthmus"
unfinished: set[str] = set()  # files being written under a temporary name


def _end() -> None:
    sentence = f"{program}: interrupted\n".encode()
    try:
        os.write(2, sentence) if _is_open(2) else None
    finally:  # even if the sentence cannot be written
        os._exit(INTERRUPTED)


def _is_open(descriptor: int) -> bool:
    return os.path.exists(f"/proc/self/fd/{descriptor}") or not os.path.isdir("/proc/self/fd")


def _end_later() -> None:
    import time

    time.sleep(_MOST)
    _end()


def _children() -> list[int]:
    """Returns the child processes of this process that have not ended."""
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else []:
        if name.isdigit() and os.path.exists(f"/proc/{name}/stat"):
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    state, parent = file.read().rpartition(b")")[2].split()[:2]
            except OSError:  # the process has ended
                continue
            if int(parent) == os.getpid() and state != b"Z":
                found.append(int(name))
    return found


def _tidy() -> None:
    """Ends child processes and removes unfinished files and temporary folders, as far as possible."""
    for child in _children():
        os.kill(child, _signal.SIGTERM)
    for path in unfinished:
        if os.path.exists(path):
            os.unlink(path)
    if weakref := sys.modules.get("weakref"):
        weakref.finalize._exitfunc()  # removes temporary folders


def _interrupt(_number, _frame) -> None:
    if os.getpid() != _process:  # a worker, whose parent reports it
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
    """Installs the handler of interrupts, unless they are ignored, as in a script's background process."""
    if _signal.getsignal(_signal.SIGINT) not in (_signal.SIG_IGN, _interrupt):
        _signal.signal(_signal.SIGINT, _interrupt)
        # Python's shutdown restores the default handler, which would kill a command that is done. The function that
        # atexit registers first runs last.
        atexit.register(_signal.signal, _signal.SIGINT, _signal.SIG_IGN)


def in_utf8() -> None:
    """Restarts the process with names, arguments and output in UTF-8 if the locale has another encoding.

    Records and DuckDB's file names are UTF-8, and the locale does not prove that typed bytes have its encoding. Names
    that are not UTF-8 keep their bytes. The process keeps its number, signals and exit code. If it cannot be restarted,
    it continues unchanged.
    """
    asked = getattr(sys, "orig_argv", [])
    is_done = sys.getfilesystemencoding() == "utf-8" or "utf8" in sys._xoptions
    if is_done or not (sys.executable and asked):
        return
    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, {_signal.SIGINT})  # until the restarted process calls main()
    try:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *asked[1:]])
    except OSError:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)


def fault(error: BaseException) -> int:
    """Prints an unexpected error on stderr and returns its exit code."""
    import traceback

    from isthmus.exits import FAULT

    if isinstance(error, MemoryError):
        print(f"{program}: there is not enough memory; give it more, or fewer records at a time", file=sys.stderr)
    else:
        traceback.print_exception(error)
        print(f"{program}: an internal error, so nothing is known; please report the lines above", file=sys.stderr)
    return FAULT


def main() -> int:
    """Runs the command line of this process and returns its exit code."""
    listen()
    if "utf8" in sys._xoptions:  # set by in_utf8()
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, {_signal.SIGINT})
    in_utf8()
    try:
        from isthmus import streams

        streams.guard()
        from isthmus import cli

        return cli.main()
    except Exception as error:
        return fault(error)
