#!/usr/bin/env python3
"""Changes real records as a disk, an editor, another program or an attacker might, and runs every command on them.

`lines()` returns mutated lines, and `drive()` runs every command on a folder of them. To run 100,000 lines by hand,
which takes about half an hour on two cores:

  PYTHONPATH=analysis tests/python/mutants.py --lines 100000 --seed 7

It prints each failure with the seed of its folder, and how long the slowest command took. Exit codes: 0 without
failures, 1 with failures.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import os
import pathlib
import random
import re
import signal
import statistics
import sys
import tempfile
import time
import traceback
import warnings

from isthmus import Error, cli
from isthmus.records import compacted as compacted_
from isthmus.records import load, store, validate
from isthmus.references import lookup

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = (
    "h200/medium.jsonl", "h200/reference.jsonl", "h200/latency.jsonl.gz", "h200/transfer.jsonl.gz",
    "h200/interjob.jsonl.gz", "h200/alloc.jsonl.gz", "h200/driver.jsonl.gz", "h200/fault.jsonl.gz",
    "h200-x4/mpi.jsonl.gz", "cpu-only/accounting.jsonl.gz", "cpu-only/stream.jsonl.gz",
)  # fmt: skip
_EACH = 6  # number of records per source, which is small so that a series has several jobs
_HANG = 10  # seconds that a command may take


def bases() -> list[dict]:
    """Returns some real records of each kind."""
    found = []
    for source in SOURCES:
        every = load.read(ROOT / "papers/data" / source)
        found += every[:: max(1, len(every) // _EACH)][:_EACH]
    return found


DEEP = json.loads('{"a":' * 20 + "1" + "}" * 20)
DEEPER = json.loads("[" * 200 + "]" * 200)
TEXTS = (
    "", "x", "1.5", "no", "on", "~", "null", "1e3", "0x1f", "2026-01-01", "- a", "a: b", "a #b", "&a", "*a", "!!set {}",
    "[x", "{{7*7}}", "${7*7}",
    "<script>alert(1)</script>", "[bold red]x[/]", "[/x]", "'; DROP TABLE cases; --", '"', "\\",
    "%s%n", "../../etc/passwd", "/dev/zero", "a\nverdict: equivalent", "\x1b[2J\x1b]0;x\x07", "\x9b2J", "\x00", "\x7f",
    "\u202egnp", "\u2028", "\ufeff", "é" * 300, "𝄞", "n1,n2", "-n", "$(touch x)", "A", "a*", "[a-z]",
)  # fmt: skip
TIMES = (
    "2026-02-30T00:00:00Z", "2016-12-31T23:59:60Z", "2026-01-01T24:00:00Z", "0000-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2026-13-01T00:00:00Z", "2026-01-01T00:00:00Z\n", "now",
)  # fmt: skip
NUMBERS = (
    0, -1, 1, 2, 0.5, -0.0, 1e-9, 1e308, -1e308, 5e-324, 1e29, 1e-29, 2**31, 2**53 + 1, 2**63, -(2**63), 2**64, 10**30,
)  # fmt: skip
OTHERS = (None, True, False, [], {}, [None], [1, "a"], {"": 1}, DEEP, DEEPER)


def _places(value, found=None) -> list[tuple]:
    """Returns every pair (container, key) in a record."""
    found = [] if found is None else found
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        found.append((value, key))
        if not (isinstance(inner, list) and len(inner) > 4 and isinstance(inner[0], float)):
            _places(inner, found)
    return found


def _any(chance):
    return chance.choice(chance.choice((TEXTS, NUMBERS, OTHERS, TEXTS)))


def _replace(record, chance):
    holder, key = chance.choice(_places(record))
    holder[key] = copy.deepcopy(_any(chance))


def _replace_alike(record, chance):
    """Replaces a value by another value of the same type, which the schema may accept."""
    places = [place for place in _places(record) if isinstance(place[0][place[1]], (str, int, float))]
    holder, key = chance.choice(places)
    holder[key] = chance.choice(TEXTS if isinstance(holder[key], str) else NUMBERS)


def _retext(record, chance):
    """Replaces texts that the schema does not restrict."""
    for _ in range(chance.randint(1, 3)):
        part, key = chance.choice(
            [("run", "node"), ("run", "job"), ("run", "system"), ("run", "partition"), ("host", "cpu"),
             ("host", "kernel"), ("host", "os"), ("host", "boot_id"), ("build", "flags"),
             ("build", "code"), ("verify", "inputs"), ("verify", "detail")]
        )  # fmt: skip
        record[part][key] = chance.choice(TEXTS)
    record[chance.choice(["size", "preset", "placement", "mode", "fallback", "skipped", "error"])] = chance.choice(
        TEXTS
    )
    for device in record["devices"]:
        device[chance.choice(["name", "uuid", "arch", "driver", "runtime"])] = chance.choice(TEXTS)


def _rescale(record, chance):
    """Makes figures large, small, zero or negative, with medians that match."""
    factor = chance.choice((0, -1, 1e20, 1e-20, 1e29, 1e-25, 0.97, 1.03))
    for metric in record["metrics"]:
        if chance.random() < 0.7:
            metric["samples"] = [value * factor for value in metric["samples"]]
            metric["invalid"] = []
            metric["median"] = statistics.median(metric["samples"])


def _delete(record, chance):
    holder, key = chance.choice(_places(record))
    del holder[key]


def _add(record, chance):
    holder = chance.choice(
        [record, record["run"], record["host"], record["axes"], *record["devices"], *record["metrics"]]
    )
    holder[chance.choice(("x", "bytes", "{{7*7}}", "", "\x1b[1m", "no", "median", "a.b", "time"))] = copy.deepcopy(
        _any(chance)
    )


def _axes(record, chance):
    names = list(record["axes"]) or ["bytes"]
    for _ in range(chance.randint(1, 3)):
        record["axes"][chance.choice([*names, "bytes", "depth", "pages", "touch", *TEXTS])] = chance.choice(
            (*TEXTS, 0, -1, 1, 2**40, 2**62)
        )


def _metrics(record, chance):
    kind = chance.randrange(6)
    if kind == 0:
        record["metrics"] *= 2
    elif kind == 1:
        record["metrics"] = []
    elif record["metrics"]:
        metric = chance.choice(record["metrics"])
        if kind == 2:
            metric["median"] = chance.choice((None, "1.5", *NUMBERS))
        elif kind == 3:
            metric["invalid"] = list(range(len(metric["samples"])))
            metric["median"] = None
        elif kind == 4:
            metric["invalid"] = [chance.choice((0, 99, 2**70))]
        else:
            metric["name"] = chance.choice(("no", "on", "latency", "rate", "median", "x" * 500))


def _time(record, chance):
    record["run"]["time"] = chance.choice(TIMES)


def _nothing(record, chance):
    pass


SHAPES = (
    _replace, _replace_alike, _replace_alike, _retext, _retext, _rescale, _delete, _add, _axes, _axes, _metrics, _time,
    _nothing, _nothing,
)  # fmt: skip


def _double(text, chance):
    """Repeats a key in a JSON text, sometimes with white space before the colon."""
    found = list(re.finditer(r'"(\w+)":(-?[0-9.e+-]+|"\w*"|true|null)', text))
    if not found:
        return text
    each = chance.choice(found)
    space = chance.choice(("", "", " ", "\t"))
    value = chance.choice((each[2], "0", '"x"', "null"))
    return text[: each.start()] + f'"{each[1]}"{space}:{value},' + text[each.start() :]


def _garble(text, chance):
    data = bytearray(text.encode())
    for _ in range(chance.choice((1, 1, 1, 3, 40))):
        place = chance.randrange(len(data))
        kind = chance.randrange(3)
        if kind == 0:
            data[place] = chance.randrange(256)
        elif kind == 1:
            del data[place]
        else:
            data[place:place] = chance.choice(
                (b'"', b"{", b"]", b",", b":", b"0", b"e9", b"\xff", b"\\ud800", b" ", b"-")
            )
    return bytes(data).replace(b"\n", b"")


def _cut(text, chance):
    return text[: chance.randrange(len(text))]


def lines(number: int, seed: int) -> list[bytes]:
    """Returns `number` lines without newlines. About one in four is a valid record."""
    chance = random.Random(seed)
    every = bases()
    result = []
    for _ in range(number):
        record = copy.deepcopy(chance.choice(every))
        record["emulated"] = False
        job = chance.randrange(24)
        record["run"] |= {"job": str(job), "node": f"n{job % 5}", "system": "s", "partition": "local",
                          "id": f"{job:08}", "time": f"2026-01-{1 + job:02}T00:00:00Z"}  # fmt: skip
        for device in record["devices"]:
            device["driver"] = "A" if job < 12 else "B"
        record["host"]["kernel"] = "A" if job < 12 else "B"
        with contextlib.suppress(IndexError, KeyError, TypeError, AttributeError, OverflowError):
            for _ in range(chance.choice((1, 1, 2))):
                chance.choice(SHAPES)(record, chance)
        text = json.dumps(
            record, separators=chance.choice(((",", ":"), (", ", ": "))), ensure_ascii=chance.random() < 0.9
        )
        if chance.random() < 0.1:
            text = text.replace("\\u001b", "\\ud800")
        text = text.encode(errors="replace").decode()
        kind = chance.random()
        changed = _double(text, chance) if kind < 0.05 else _garble(text, chance) if kind < 0.12 else text
        changed = _cut(changed, chance) if 0.12 <= kind < 0.15 else changed
        result.append(changed if isinstance(changed, bytes) else changed.encode())
    return result


def accepted(line: bytes) -> bool:
    try:
        validate.line(line, where="x")
    except validate.RecordError:
        return False
    return True


def _place(line: bytes) -> str:
    """Returns the folder for a record: "machine" for one machine's records, "one" or "other" for two systems, "strange"
    if the partition was changed."""
    record = json.loads(line)
    if record["run"].get("partition") != "local":
        return "strange"
    names = {device["name"] for device in record["devices"]} | {record["host"]["cpu"]}
    if names == {"NVIDIA H200", "Intel(R) Xeon(R) Processor"}:
        return "machine"
    return "one" if str(record["run"]["job"]) < "2" else "other"


PLACES = ("machine", "one", "other", "strange")  # folders whose files have no bad lines


def spread(folder: pathlib.Path, every: list[bytes], chance: random.Random) -> int:
    """Writes lines to files: many records per file, but most refused lines alone. Returns the number of records."""
    good = [line for line in every if accepted(line)]
    bad = [line for line in every if not accepted(line)]
    places = {name: [] for name in PLACES}
    for line in good:
        places[_place(line)].append(line)
    for name, held in places.items():
        (folder / name).mkdir(parents=True)
        for i in range(0, len(held), 100):
            (folder / name / f"{i}.jsonl").write_bytes(b"".join(line + b"\n" for line in held[i : i + 100]))
    alone = min(len(bad), 60)
    for i, line in enumerate(bad[:alone]):
        (folder / f"bad{i}.jsonl").write_bytes(line)
    for i in range(alone, len(bad), 50):
        together = [*bad[i : i + 50], *chance.sample(good, min(3, len(good)))]
        chance.shuffle(together)
        (folder / f"worse{i}.jsonl").write_bytes(b"".join(line + b"\n" for line in together))
    return len(good)


# --- every command ---


def commands(folder: pathlib.Path, aside: pathlib.Path) -> list[list[str]]:
    """Returns command lines that read a folder and write their outputs to the folder `aside`."""
    where, out = str(folder), str(aside)
    (aside / "weights.json").write_text(
        '{"metrics": {"*/*/* rate": 1, "microbench/* kernel_rate": 2, "latency/*/chase latency": 1}}'
    )
    site = aside / "site"
    site.mkdir(exist_ok=True)
    (site / "reframe.py").write_text(
        'site_configuration = {"systems": [{"name": "s", "hostnames": [], "partitions": [{"name": "local"}]}]}\n'
    )
    known = [f"{where}/machine", f"{where}/one", f"{where}/other"]
    return [
        ["regress", where, "--from", "kernel=A", "--to", "kernel=B", "--all", "--json", f"{out}/r.json"],
        ["regress", where, "--from", "..2026-01-12", "--to", "2026-01-13..", "--workload", "*/*", "-o", f"{out}/r.csv"],
        ["noise", where, "-o", f"{out}/noise.json", "--all"],
        ["drift", where],
        ["drift", where, "-o", f"{out}/drift.parquet"],
        ["nodes", where],
        ["nodes", where, "-o", f"{out}/nodes.csv"],
        ["nodes", where, "--drain"],
        ["compare", where, "--by", "kernel"],
        ["compare", f"{where}/one", f"{where}/other", "-o", f"{out}/compare.parquet"],
        ["score", f"{where}/one", f"{where}/other", "--weights", f"{out}/weights.json", "--reference", "one"],
        ["report", where, "-o", f"{out}/report.html"],
        ["table", where],
        ["table", where, "--view", "levels"],
        ["table", where, "--view", "accounting"],
        ["advise", "interjob", where],
        ["advise", "paging", f"{where}/machine", "--check", "--format", "csv"],
        ["advise", "placement", f"{where}/machine", "--check", "--format", "csv"],
        ["advise", "staging", f"{where}/machine", "--format", "csv"],
        ["references", "update", *known, "--site", str(site), "--system", "s", "--write"],
        ["references", "check", where, "--site", str(site)],
    ]


class Hang(BaseException):
    """Error that is raised if a command takes too long."""


@contextlib.contextmanager
def limited(seconds: float):
    """Raises Hang if its block takes longer than `seconds`."""

    def stop(*_):
        raise Hang

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def called(command: list[str], seconds: float) -> tuple[int | None, str, str, str]:
    """Runs a command. Returns its exit code, stdout, stderr, and a description of the failure ("" without one)."""
    out, err = io.StringIO(), io.StringIO()
    code, wrong = None, ""
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        try:
            with limited(seconds):
                code = cli.main(command)
        except Hang:
            wrong = f"took more than {seconds:g} s"
        except BaseException:
            wrong = traceback.format_exc()
    said = out.getvalue() + err.getvalue()
    steering = sorted(
        {c for c in said if not c.isprintable() and c != "\n"}
        - ({"\t"} if command[0] == "references" or "--drain" in command else set())
    )
    if not wrong and steering:
        line = next(line for line in said.split("\n") if steering[0] in line)
        wrong = f"prints {steering} raw: {line[:200]!r}"
    if not wrong and code not in (0, 1, 2, 3):
        wrong = f"exit code {code}"
    if not wrong and code == 2 and sum(line.startswith("isthmus ") for line in err.getvalue().splitlines()) != 1:
        wrong = f"not one sentence: {err.getvalue()[-400:]}"
    if os.environ.get("MUTANTS_VERBOSE"):
        print(command[:2], code, err.getvalue().splitlines()[-1:], out.getvalue().splitlines()[-2:], file=sys.stderr)
    return code, out.getvalue(), err.getvalue(), wrong


def drive(
    folder: pathlib.Path, aside: pathlib.Path, *, seconds: float = _HANG
) -> tuple[list[str], dict[str, float], dict]:
    """Runs every command on a folder. Returns the failures, and each command's maximum seconds and exit codes."""
    wrongs, times, codes = [], {}, {}
    aside.mkdir(exist_ok=True)
    for command in commands(folder, aside):
        started = time.monotonic()
        code, _, _, wrong = called(command, seconds)
        name = " ".join(command[:2] if command[0] in ("advise", "references") else command[:1])
        name = command[-1] if "--view" in command else name
        times[name] = max(times.get(name, 0), time.monotonic() - started)
        codes.setdefault(name, []).append(code)
        if wrong:
            wrongs.append(f"isthmus {' '.join(command)}: {wrong}")
    return wrongs, times, codes


def one_folder(number: int, seed: int, *, seconds: float = _HANG) -> tuple[list[str], dict[str, float], int, dict]:
    """Makes a folder of `number` lines and runs the commands on it before and after compacting.

    Returns the failures, the maximum seconds of each command, the number of records, and the exit codes.
    """
    with tempfile.TemporaryDirectory() as name:
        folder, aside = pathlib.Path(name) / "records", pathlib.Path(name) / "aside"
        every = lines(number, seed)
        good = spread(folder, every, random.Random(seed))
        wrongs, times, codes = drive(folder, aside, seconds=seconds)
        raw = _table(*(folder / name for name in PLACES))  # only these, because compact omits files with a bad line
        _, _, _, wrong = called(["compact", str(folder), "--processes", "1"], 6 * seconds)
        compacted = _table(folder / compacted_.COMPACTED)
        if not good / 2 < raw[0] <= good or raw != compacted:  # equal mutants count as one record
            wrong = f"{good} lines are records; raw gives {raw}, compacted {compacted}"
        for path in sorted((aside / "site/references").glob("*.yaml")):
            try:
                lookup.load_file(path)
            except Error as error:
                wrong = f"references update wrote what it cannot read: {error}"
        wrongs += [wrong] if wrong else []
        for path in ("regress", "nodes"):
            code, _, _, wrong = called(next(c for c in commands(folder, aside) if c[0] == path), seconds)
            codes.setdefault(f"{path} compacted", []).append(code)
            wrongs += [f"compacted, {path}: {wrong}"] if wrong else []
    return [f"seed {seed}: {each}" for each in wrongs], times, good, codes


def _table(*folders) -> tuple:
    """Returns the numbers of records, rows, medians and nodes in folders, and a sum over all medians."""
    with store.open_store(folders, emulated=True, profiled=True) as opened:
        return opened.sql(
            "SELECT count(*) FILTER (metric_index = 0), count(*), count(median), "
            "round(sum(log10(abs(median))) FILTER (median <> 0), 6), count(DISTINCT node) FROM measurements"
        ).fetchone()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--lines", type=int, default=100_000, metavar="N")
    parser.add_argument("--each", type=int, default=2_000, metavar="N", help="lines of a folder")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    parser.add_argument("--seconds", type=float, default=_HANG, metavar="N", help="that a command may take")
    asked = parser.parse_args()
    failed, slowest, total = False, {}, 0
    for i in range(-(-asked.lines // asked.each)):
        wrongs, times, good, codes = one_folder(asked.each, asked.seed + i, seconds=asked.seconds)
        for wrong in wrongs:
            failed = True
            print(wrong, flush=True)
        for command, seconds in times.items():
            slowest[command] = max(slowest.get(command, 0), seconds)
        total += good
        print(f"folder {i + 1}: {asked.each} lines, {good} records, exit codes {codes}", file=sys.stderr, flush=True)
    worst = max(slowest, key=slowest.get)
    print(f"{asked.lines} lines, {total} of them records; the slowest command: {worst}, {slowest[worst]:.1f} s")
    return int(failed)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
