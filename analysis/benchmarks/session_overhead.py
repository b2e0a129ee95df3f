"""Time per case that a session spends outside its jobs, with cases bundled into jobs and with one check per case.

    python analysis/benchmarks/session_overhead.py

The program is the fake isthmus-bench of ReFrame's tests, which measures nothing. A job's time runs from the writing of
its script to the writing of its exit code, which is its last action. The rest of a session is spent in ReFrame, in
the checks, and in reading and storing records. Jobs are local and run one after another. The site states a GPU, so that
every size counts.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
    import own_python

    own_python.start(__doc__, "reframe")

ROOT = pathlib.Path(__file__).resolve().parents[2]
SITE = """
site_configuration = {
    "systems": [{"name": "s", "hostnames": [".*"], "modules_system": "nomod", "partitions": [{
        "name": "p", "scheduler": "local", "launcher": "local", "environs": ["builtin"], "max_jobs": 1,
        "features": ["gpu", "cuda"]}]}],
    "environments": [{"name": "builtin"}],
}
"""


def session(folder, checks, *options):
    """Returns the seconds of a session, the seconds of its jobs, and the number of cases that it measured."""
    folder.mkdir()
    (folder / "site.py").write_text(SITE)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("RFM_", "ISTHMUS_", "FAKE_", "SLURM_"))}
    environment = {"ISTHMUS_BENCH": str(ROOT / "tests/reframe/fake_bench.py"), "FAKE_BENCH": "gpu:cuda"}
    command = [
        pathlib.Path(sys.executable).with_name("reframe"), "-C", "site.py", "-c", ROOT / checks, "--keep-stage-files",
        "--prefix=.", "-r", *options,
    ]  # fmt: skip
    started = time.monotonic()
    done = subprocess.run(
        command, cwd=folder, env=clean | environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False,
    )  # fmt: skip
    seconds = time.monotonic() - started
    if done.returncode:
        sys.exit(done.stdout)
    in_jobs = 0
    for script in folder.glob("stage/**/rfm_job.sh"):
        in_jobs += (script.parent / "exit_code").stat().st_mtime - script.stat().st_mtime
    files = list((folder / "results").glob("*.jsonl"))
    for path in files:
        json.loads(path.read_text().splitlines()[0])
    return seconds, in_jobs, sum(path.read_text().count("\n") for path in files)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--bundle", default="modes,driver,interjob,memory tiny,memory default", help="selections of tags"
    )
    parser.add_argument("--checks", default="TransferModes.*gemm", help="checks to run one by one next to it")
    arguments = parser.parse_args()
    sessions = {
        "bundled": ("reframe/bundles", "-n", "NodeBundle", "-S", f"checks={arguments.bundle}"),
        "a check for each": ("reframe/checks", "-n", arguments.checks),
    }
    with tempfile.TemporaryDirectory() as work:
        for name, options in sessions.items():
            seconds, in_jobs, cases = session(pathlib.Path(work) / name.replace(" ", "_"), *options)
            each = 1000 * (seconds - in_jobs) / cases
            print(f"{name:<18}{cases:>5} cases {seconds:>7.1f} s, {in_jobs:>6.1f} s of it jobs: {each:>6.1f} ms a case")


if __name__ == "__main__":
    main()
