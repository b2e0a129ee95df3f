"""The results folder of a session, and the record files that it keeps there."""

import contextlib
import datetime
import errno
import json
import os
import pathlib
import re
import shutil
import tempfile

from reframe.core.exceptions import SanityError
from reframe.core.logging import getlogger

from isthmus import inputs
from isthmus.records import load, validate

#: Maximum size of a record file, in bytes; 300 records of long runs are 1 MiB.
MOST_RECORDS = 128 * inputs.MIB

kept = []  # record files of this session
_umask = os.umask(0)
os.umask(_umask)
_started_in = pathlib.Path.cwd()  # the check's folder if ReFrame is loading a check; begin() corrects it


def begin() -> None:
    """Notes the working directory as the folder that ReFrame was started in."""
    global _started_in
    _started_in = pathlib.Path.cwd()


def absolute(path) -> pathlib.Path:
    """Returns the absolute form of a path that is relative to the folder that ReFrame was started in."""
    return _started_in / path


def results_folder() -> pathlib.Path:
    return absolute(os.environ.get("ISTHMUS_RESULTS") or "results")


def keep_record(source: pathlib.Path, name: str, contents: bytes | None = None) -> pathlib.Path:
    """Copies a record file into the results folder under a unique name; never changes an existing file.

    The name contains the run and its job, so a file that was already kept is not kept again. The file appears with
    complete contents or not at all, because it is written under another name and then linked. Sessions on several hosts
    may write into one folder. If `contents` is given, it replaces the contents of `source`. Tables next to the record
    are kept before it. Raises SanityError if the file cannot be kept, for example if it has more than MOST_RECORDS
    bytes.
    """
    folder, tables = results_folder(), source.with_suffix(".tables")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        contents = _each_once(inputs.read_small(source, MOST_RECORDS) if contents is None else contents)
        base = _base_of(name, contents)
        for attempt in range(1, 1000):
            stem = base if attempt == 1 else f"{base}-{attempt}"
            target = folder / f"{stem}.jsonl"
            text = _naming_tables(contents, tables.name, f"{stem}.tables") if tables.is_dir() else contents
            try:
                if _has_lines(target, text):
                    return target
                _place(target, text, tables)
            except FileExistsError:
                continue
            kept.append(target)
            return target
    except OSError as error:
        why = error.strerror or error
        raise SanityError(f"the record could not be kept in {folder} ({why}); it is still in {source}") from None
    raise SanityError(f"no free name for {base} in {folder}; the record is still in {source}")


def _has_lines(target: pathlib.Path, text: bytes) -> bool:
    """Returns whether a kept file contains all these lines. An unreadable file counts as a different one."""
    try:
        return set(text.splitlines()) <= set(inputs.read_small(target, MOST_RECORDS).splitlines())
    except OSError:
        return False


def _base_of(name: str, contents: bytes) -> str:
    """Returns the beginning of a file's name: time, name, run and job of the first record, or time and number of this
    process if there is no record."""
    try:
        run = json.loads(contents.partition(b"\n")[0])["run"]
        words = [re.sub("[-:]", "", run["time"]), name, run["id"], *([f"job{run['job']}"] if run["job"] else [])]
    except (ValueError, KeyError, TypeError, RecursionError):
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        words = [now, name, str(os.getpid())]
    return re.sub(r"[^A-Za-z0-9._-]+", "_", "-".join(words))


def _each_once(contents: bytes) -> bytes:
    """Returns the contents without repeated lines."""
    return b"".join(dict.fromkeys(contents.splitlines(keepends=True)))


def _naming_tables(contents: bytes, old: str, new: str) -> bytes:
    """Returns the records with the folder of their tables renamed."""
    lines = []
    for line in contents.split(b"\n"):
        with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):  # a truncated line is not changed
            record = json.loads(line)
            for table in record["tables"]:
                table["file"] = re.sub(f"^{re.escape(old)}/", f"{new}/", table["file"])
            line = json.dumps(record, ensure_ascii=False).encode()
        lines.append(line)
    return b"\n".join(lines)


def _place(target: pathlib.Path, contents: bytes, tables: pathlib.Path) -> None:
    """Writes a record file and its folder of tables, either both or none. Raises FileExistsError if one of the names
    exists."""
    placed, aside = target.with_suffix(".tables"), None
    if target.exists():
        raise FileExistsError
    if tables.is_dir():
        placed.mkdir()
    try:
        if tables.is_dir():
            shutil.copytree(tables, placed, ignore=shutil.ignore_patterns(".*"), dirs_exist_ok=True)
        descriptor, aside = tempfile.mkstemp(prefix=f".{target.stem}.", suffix=".part", dir=target.parent)
        with os.fdopen(descriptor, "wb") as file:
            file.write(contents)
            os.fchmod(descriptor, 0o666 & ~_umask)
            os.fsync(descriptor)
        _name(aside, target)
    except OSError:
        if tables.is_dir():
            shutil.rmtree(placed, ignore_errors=True)
        raise
    finally:
        if aside:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(aside)


def _name(aside: str, target: pathlib.Path) -> None:
    """Gives a finished file its name. Raises FileExistsError if the name exists."""
    try:
        os.link(aside, target)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise
        # The file system has no hard links, so an empty file reserves the name until it is replaced.
        os.close(os.open(target, os.O_CREAT | os.O_EXCL, 0o666))
        os.replace(aside, target)


def whole_records(path: pathlib.Path) -> list[bytes]:
    """Returns the complete records of a damaged file; they were measured before the file was damaged.

    Raises SanityError if they have more than MOST_RECORDS bytes.
    """
    whole, size, bad = {}, 0, []
    try:
        for _, line, _ in load.lines(path, bad):
            for record in _records_within(line.decode("utf-8", errors="surrogateescape")):
                size += len(record) if record not in whole else 0
                whole[record] = None
            if size > MOST_RECORDS:
                most = f"{MOST_RECORDS // inputs.MIB} MiB"
                raise SanityError(f"{path} has more than {most} of records, the maximum that is kept: move it away")
    except validate.RecordError as error:  # same for a file that has no line or does not exist
        bad += [error] if path.is_file() and path.stat().st_size else []
    for error in bad:
        getlogger().warning(f"{error}; what cannot be read is not kept")
    return list(whole)


def _records_within(line: str) -> list[bytes]:
    """Returns the records on a line, each with a line end. A line that is not JSON may contain several records, or a
    record after half of another."""
    with contextlib.suppress(validate.RecordError, UnicodeError):
        load.parse(line, where="")
        return [line.encode() + b"\n"]
    with contextlib.suppress(ValueError, RecursionError):
        json.loads(line)
        return []
    found, decoder, start = [], json.JSONDecoder(), line.find("{")
    while start >= 0:
        end = start + 1
        with contextlib.suppress(ValueError, RecursionError, validate.RecordError):
            stop = decoder.raw_decode(line, start)[1]
            load.parse(line[start:stop], where="")
            found.append(line[start:stop].encode() + b"\n")
            end = stop
        start = line.find("{", end)
    return found
