#!/usr/bin/env python3
"""False-alarm rate of `isthmus regress`, measured by splitting unchanged jobs at random many times.

Each split marks half of each node's jobs as another build (in `build.package` of a copy) and compares the two halves.
With --shift, every sample of one half is multiplied by 1 + SHARE; this measures how often such a change is found.
Usage: aa_splits.py [--splits 20] [--seed 1] [--shift SHARE] RECORDS…     RECORDS are files or folders
Prints one line per split, then the totals of all splits.
"""

import argparse
import collections
import contextlib
import io
import json
import pathlib
import random
import sys
import tempfile

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
    import own_python

    own_python.start(__doc__, "jsonschema")

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from isthmus import cli
from isthmus.records import reading


def halves(jobs: list[tuple[str, str]], dice: random.Random) -> set[tuple[str, str]]:
    """Returns a random half of each node's jobs, as (node, job)."""
    chosen: set[tuple[str, str]] = set()
    for node in sorted({node for node, _ in jobs}):
        of_node = sorted(job for job in jobs if job[0] == node)
        chosen.update(dice.sample(of_node, len(of_node) // 2))
    return chosen


def shifted(case: dict, share: float) -> dict:
    """Multiplies the case's samples, and every figure derived from them, by (1 + share); returns the case."""
    for metric in case["metrics"]:
        metric["samples"] = [sample * (1 + share) for sample in metric["samples"]]
        for name in ("median", "mad", "value"):
            if isinstance(metric.get(name), float | int):
                metric[name] *= 1 + share
        for name in ("within_job", "interval", "ci"):
            if isinstance(metric.get(name), list):
                metric[name] = [bound * (1 + share) for bound in metric[name]]
    return case


def compare(cases: list[dict], chosen: set[tuple[str, str]], share: float) -> dict:
    """Returns the output of `regress --format json` for the chosen jobs against the others."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        with (path / "records.jsonl").open("w", encoding="utf-8") as out:
            for case in cases:
                mine = (case["run"]["node"], case["run"]["job"]) in chosen
                copy = json.loads(json.dumps(case))
                copy["build"]["package"] = "b" if mine else "a"
                out.write(json.dumps(shifted(copy, share) if mine and share else copy) + "\n")
        said = path / "said.json"
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            sides = ["--from", "package=a", "--to", "package=b"]
            code = cli.main(["regress", str(path / "records.jsonl"), *sides, "--json", str(said)])
        if not said.exists():
            raise SystemExit(f"aa_splits: regress ended with exit code {code} and said nothing")
        return json.loads(said.read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], allow_abbrev=False)
    parser.add_argument("records", nargs="+", type=pathlib.Path)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shift", type=float, default=0.0, help="added to one half, as a share")
    arguments = parser.parse_args()
    cases = reading.read_files(arguments.records)[0]
    if any(not case["run"]["job"] for case in cases):
        raise SystemExit("aa_splits: records without a job cannot be split by jobs; name records of a scheduler's jobs")
    jobs = sorted({(case["run"]["node"], case["run"]["job"]) for case in cases})
    dice = random.Random(arguments.seed)
    verdicts: collections.Counter[str] = collections.Counter()
    alarmed = 0
    for number in range(1, arguments.splits + 1):
        said = compare(cases, halves(jobs, dice), arguments.shift)
        found = collections.Counter(row["verdict"] for row in said["results"])
        verdicts += found
        alarms = [row["label"] for row in said["results"] if row["verdict"] in ("regressed", "improved")]
        alarmed += bool(alarms)
        told = ", ".join(f"{count} {verdict}" for verdict, count in sorted(found.items()))
        print(f"split {number}: {said['verdict']}; {told}{''.join(f'; {name}' for name in alarms[:3])}", flush=True)
    total = sum(verdicts.values())
    called = verdicts["regressed"] + verdicts["improved"]
    print(
        f"{len(jobs)} jobs, {arguments.splits} splits of {total // arguments.splits} series: a change was called in "
        f"{called} of {total} ({called / total:.2%}), in {alarmed} splits"
    )


if __name__ == "__main__":
    main()
