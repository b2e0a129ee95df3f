"""Faults that one session injects into its jobs, one per job: into the record, the program or its environment.

faulty_checks.py turns each fault into a check. test_many_faults.py runs them all and compares each with its row in
docs/slurm.md.
"""

import dataclasses
import os
import pathlib
import re
import shlex
import typing

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOST = pathlib.Path(
    os.environ.get("FAULTY_BENCH") or os.environ.get("ISTHMUS_TEST_BENCH") or ROOT / "build/host/bin/isthmus-bench"
)


@dataclasses.dataclass(frozen=True)
class Fault:
    """Fault in a job. The tables of docs/slurm.md say what the session must report, and how many records are kept."""

    real: bool = False  # whether the job runs the built program instead of the fake one
    before: tuple[str, ...] = ()  # lines of the job script before the program
    after: tuple[str, ...] = ()  # lines of the job script after the program's exit code has been noted
    through: str = ""  # shell command that runs the program, whose command line it receives as "$@"
    program: str = ""  # program to run instead of isthmus-bench
    workload: str = ""  # workload to run instead of saxpy
    processes: int = 1
    samples: str = "--samples 3"  # options of the built program
    environment: dict[str, str] = dataclasses.field(default_factory=dict)


class Row(typing.NamedTuple):
    """Row of a table in docs/slurm.md: a fault and its outcome."""

    fault: str
    says: str  # what the session reports, with … for variable parts; "green" if the fault is harmless
    kept: str
    test: str

    @property
    def sentence(self) -> re.Pattern:
        """Returns a pattern that matches the session's full sentence."""
        return re.compile(".*".join(map(re.escape, self.says.split("`")[1].split("…"))))


def rows() -> list[Row]:
    lines = (ROOT / "docs/slurm.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return [
        Row(*row[:3], row[3].strip("`"))
        for row in cells
        if len(row) == 4 and re.match("`(slurm|reframe|harness)/", row[3])
    ]


def edited(statement: str) -> tuple[str, ...]:
    """Returns a line of a job script that runs the Python `statement` on each record `r`, with number `i`."""
    script = (
        "import json; p = 'record.jsonl'; all = [json.loads(line) for line in open(p)]\n"
        f"for i, r in enumerate(all):\n    {statement}\n"
        "open(p, 'w').write(''.join(json.dumps(r) + '\\n' for r in all))"
    )
    return (f"python3 -c {shlex.quote(script)}",)


def replaced(command: str) -> tuple[str, ...]:
    """Returns lines of a job script that replace record.jsonl by the output of `command`."""
    return f"{command} > x", "mv x record.jsonl"


def copied(change: str) -> dict:
    """Returns the settings of a fault that runs a copy of the program, after the command `change`."""
    return {"real": True, "before": (f"cp {shlex.quote(str(HOST))} program", change), "program": "./program"}


RECORD = {
    "record is a folder": Fault(after=("rm record.jsonl", "mkdir record.jsonl")),
    "zeros after the record": Fault(after=("head -c 600 /dev/zero >> record.jsonl",)),
    "zeros in place of the record": Fault(after=("head -c 600 /dev/zero > record.jsonl",)),
    "two records on one line": Fault(processes=2, after=replaced("tr -d '\\n' < record.jsonl")),
    "record after half of one": Fault(after=replaced("{ head -c 700 record.jsonl; cat record.jsonl; }")),
    "half of a record in the middle": Fault(
        processes=2,
        after=replaced("{ head -n 1 record.jsonl; head -c 700 record.jsonl; echo; tail -n 1 record.jsonl; }"),
    ),
    "record of a newer version": Fault(after=("sed -i s,isthmus.record/3,isthmus.record/9, record.jsonl",)),
    "bytes that are no text": Fault(after=("printf '\\377\\n' >> record.jsonl",)),
    "empty line": Fault(after=("echo >> record.jsonl",)),
    "key is missing": Fault(after=edited("del r['verify']")),
    "NaN": Fault(after=edited("r['metrics'][0]['median'] = float('nan')")),
    "figure that overflows": Fault(
        after=(*edited("r['metrics'][0]['median'] = 1e300"), "sed -i s/1e+300/1e+999/ record.jsonl")
    ),
    "median of other samples": Fault(after=edited("r['metrics'][0]['median'] = 0.1")),
    "metric twice": Fault(after=edited("r['metrics'].append(r['metrics'][0])")),
    "record twice": Fault(after=replaced("cat record.jsonl record.jsonl")),
    "record of another run next to it": Fault(
        after=edited("all.append(r | {'run': r['run'] | {'id': '0badcafe'}}); break")
    ),
    "record of another run in place of a process": Fault(processes=2, after=edited("r['run']['id'] += str(i)")),
    "one process twice": Fault(
        processes=2,
        after=edited("r['run']['process'] = 1; r['seed'] = i"),
    ),
    "clock ahead": Fault(
        after=edited("r['run']['time'] = '2099-01-01T00:00:00Z'"),
    ),
    "exit code is empty": Fault(after=(": > exit_code",)),
    "stage folder is removed": Fault(before=('rm -rf "$PWD"',)),
}

PROGRAM = {
    "program is gone": Fault(**copied("rm program")),
    "program is not executable": Fault(**copied("chmod a-x program")),
    "program for another machine": Fault(
        **copied("printf '\\377' | dd of=program bs=1 seek=18 conv=notrunc"),
    ),
    "program is empty": Fault(**copied(": > program")),
    "program cut short": Fault(**copied("truncate -s 5000 program")),
    "library is missing": Fault(**copied("sed -i s/libnuma.so.1/libnumb.so.1/ program")),
    "another program": Fault(program="/bin/true"),
    "program without the workload": Fault(real=True, workload="microbench/saxpyy"),
    "segmentation fault": Fault(through='"$@"; kill -SEGV $$'),
    "terminated": Fault(
        real=True,
        samples="--samples 100000",
        through='"$@" > said & until grep -q case said; do sleep 0.1; done; sleep 1; kill -TERM $!; wait $!',
    ),
    "device is lost": Fault(real=True, environment={"ISTHMUS_INJECT": "launch:3:lost"}),
    "device memory runs out": Fault(real=True, environment={"ISTHMUS_INJECT": "malloc_device:1"}),
}

ENVIRONMENT = {
    "file may not grow": Fault(real=True, through='ulimit -f 1; "$@"'),
    "no more open files": Fault(real=True, through='ulimit -n 3; "$@"'),
    "address space is limited": Fault(real=True, through='ulimit -v 300000; "$@"'),
    "standard output is closed": Fault(real=True, through='"$@" >&-'),
    "standard output is full": Fault(real=True, through='"$@" > /dev/full'),
    "launcher is missing": Fault(before=("PATH=/nonexistent",)),
    "launcher without its MPI plugin": Fault(before=("export SLURM_MPI_TYPE=none_such",)),
    "environment module is missing": Fault(before=("module load none_such",)),
    "script fails after the program": Fault(after=("exit 5",)),
}

HARMLESS = {
    "standard input is closed": Fault(real=True, through='"$@" <&-'),
    "much output": Fault(real=True, through='head -c 3000000 /dev/zero | tr "\\0" x; "$@"'),
    "home folder cannot be written": Fault(real=True, environment={"HOME": "/proc/none"}),
    "no folder for temporary files": Fault(real=True, environment={"TMPDIR": "/nonexistent"}),
    "locale with decimal commas": Fault(
        real=True, before=('localedef -i de_DE -f UTF-8 ./de_DE.UTF-8; export LOCPATH="$PWD" LC_ALL=de_DE.UTF-8',)
    ),
    "clock of another time zone": Fault(real=True, environment={"TZ": "Pacific/Kiritimati"}),
    "files for their owner only": Fault(real=True, before=("umask 077",)),
    "process that outlives the program": Fault(real=True, through='sleep 300 > /dev/null 2>&1 & "$@"'),
}

FAULTS = RECORD | PROGRAM | ENVIRONMENT | HARMLESS
