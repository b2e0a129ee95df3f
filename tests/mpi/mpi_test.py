"""Tests of the program with several ranks, started by mpirun.

The ranks must write one file of valid records, and any failure on one rank must end the case on all ranks in time.

ISTHMUS_BENCH is the program, ISTHMUS_MUTANT the same program with wrong messages, MPIEXEC the launcher of its MPI.
"""

import itertools
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

BENCH, MUTANT, MPIEXEC = (os.environ[name] for name in ("ISTHMUS_BENCH", "ISTHMUS_MUTANT", "MPIEXEC"))

# Without these settings, Open MPI refuses to run as root or with more ranks than cores. Ranks that share few cores must
# yield to each other.
ENVIRONMENT = {
    **os.environ,
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
}
TIME = 60  # seconds after which ranks that wait for each other count as hung

MESSAGES = [f"mpi/{m}-{m}/send{duplex}" for m in ("host", "pinned", "gpu", "managed") for duplex in ("", "-duplex")]
COPIES = ["mpi/pinned-gpus/ce", "mpi/gpus-pinned/ce", "mpi/pinned-gpus/ce-duplex"]


def problem(record):
    """Returns how the record breaks the schema, or None. Checks only required fields if no validator is installed."""
    from isthmus.records import validate

    try:
        return validate.problem(record)
    except ImportError:
        required = json.loads(validate.schema_path().read_text(encoding="utf-8"))["required"]
        return next((f"it lacks {name}" for name in required if name not in record), None)


class Mpi(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def command(self, ranks, *arguments, bench=BENCH, odd_rank=None, **odd):
        """Returns the command; only rank `odd_rank` has the environment variables `odd`."""
        program = [bench, "run", *arguments, "--size", "tiny", "--record", "record.jsonl"]
        parts = []
        for rank in range(ranks):
            settings = [f"{name}={value}" for name, value in odd.items()] if rank == odd_rank else []
            parts += [":"] if rank else []
            parts += ["-n", "1", "env", *settings, *program]
        return [MPIEXEC, *parts]

    def run_ranks(self, ranks, *arguments, **options):
        started = time.monotonic()
        done = subprocess.run(
            self.command(ranks, *arguments, **options),
            capture_output=True, text=True, env=ENVIRONMENT, cwd=self.folder, timeout=TIME,
        )  # fmt: skip
        self.assertLess(time.monotonic() - started, TIME)
        return done

    def records(self):
        """Returns all records on disk, after checking that they are valid and in one file."""
        files = sorted(path.name for path in self.folder.iterdir())
        self.assertLessEqual(set(files), {"record.jsonl"})
        records = [json.loads(line) for path in files for line in (self.folder / path).read_text().splitlines()]
        for record in records:
            self.assertIsNone(problem(record))
        return records

    def test_every_workload_with_two_and_three_ranks(self):
        for ranks in (2, 3):
            with self.subTest(ranks=ranks):
                (self.folder / "record.jsonl").unlink(missing_ok=True)
                done = self.run_ranks(ranks, "mpi/*")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("7 passed, 4 skipped, 0 failed", done.stdout)
                self.assertEqual(done.stdout.count("passed"), 1)
                records = {record["workload"]: record for record in self.records()}
                self.assertEqual(set(records), {*MESSAGES, *COPIES})
                for name, record in records.items():
                    self.check_record(name, record, ranks)

    def check_record(self, name, record, ranks):
        self.assertEqual(record["ranks"]["count"], ranks)
        self.assertEqual([each["local_rank"] for each in record["ranks"]["each"]], list(range(ranks)))
        self.assertIn("MPI", record["ranks"]["library"])
        self.assertEqual(record["emulated"], "host" not in name)
        if "gpu-" in name or "managed" in name:
            self.assertIn("MPI cannot access", record["skipped"])
            self.assertEqual(record["skip_kind"], "unsupported")
            return
        self.assertEqual(record["verify"]["status"], "pass")
        metrics = {metric["name"]: metric["median"] for metric in record["metrics"]}
        if name in MESSAGES:
            self.assertEqual(set(metrics), {"first_latency", "latency", "rate"})
            return
        own = [metrics[f"{kind}_rank{rank}"] for kind in ("rate", "alone") for rank in range(ranks)]
        self.assertAlmostEqual(metrics["alone"], sum(own[ranks:]), delta=1e-6 * metrics["alone"])
        self.assertLessEqual(metrics["rate"], sum(own[:ranks]) * (1 + 1e-6))
        self.assertAlmostEqual(metrics["contention_share"], metrics["rate"] / metrics["alone"])

    def test_four_ranks_are_two_pairs(self):
        done = self.run_ranks(4, "mpi/host-host/send", "--samples", "3")
        self.assertEqual(done.returncode, 0, done.stderr)
        [record] = self.records()
        self.assertEqual(record["verify"]["status"], "pass")
        metrics = {metric["name"]: metric["median"] for metric in record["metrics"]}
        self.assertLessEqual(2 * metrics["rate_slowest"], metrics["rate"] * (1 + 1e-6))

    def test_a_failure_on_one_rank_ends_the_case_on_all(self):
        names = ("mpi/pinned-gpus/ce", "mpi/pinned-pinned/send")
        faults = ("malloc_pinned:1", "malloc_device:1", "copy_async:9", "stream_synchronize:3", "copy:1")
        for rank, fault in itertools.product((0, 1), faults):
            with self.subTest(fault=fault, rank=rank):
                (self.folder / "record.jsonl").unlink(missing_ok=True)
                done = self.run_ranks(2, *names, "--samples", "4", odd_rank=rank, ISTHMUS_INJECT=fault)
                self.assertEqual(done.returncode, 1, done.stderr)
                first, second = self.records()
                call = fault.partition(":")[0]
                self.assertTrue(first["error"].startswith(f"rank {rank}: {call}"), first["error"])
                self.assertEqual(first["verify"]["status"], "not_run")
                self.assertEqual(second["verify"]["status"], "pass")  # later cases still run

    def test_a_lost_device_of_one_rank_ends_the_run(self):
        done = self.run_ranks(2, *COPIES, odd_rank=1, ISTHMUS_INJECT="copy_async:2:lost")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(len(self.records()), 1)
        self.assertIn("the device is lost", done.stderr)

    def test_what_one_rank_cannot_is_skipped_with_its_reason(self):
        self.run_ranks(2, COPIES[0], odd_rank=1, ISTHMUS_INJECT="malloc_device:1:unsupported")
        [record] = self.records()
        self.assertTrue(record["skipped"].startswith("rank 1: malloc_device"), record["skipped"])

    def test_what_fails_before_any_work_is_said_once(self):
        cases = {
            ("mpi/host-host/snd",): (2, "mpi/host-host/send"),
            ("microbench/saxpy",): (2, "is measured by one process, but 2 ranks were started"),
            ("mpi/host-host/send", "--processes", "2"): (2, "--processes"),
        }
        for arguments, (code, part) in cases.items():
            with self.subTest(arguments):
                done = self.run_ranks(2, *arguments)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertEqual(done.stderr.count("isthmus-bench: "), 1, done.stderr)
                self.assertIn(part, done.stderr)
                self.assertEqual(self.records(), [])

    def test_what_one_rank_lacks_before_any_work_ends_all(self):
        done = self.run_ranks(2, COPIES[0], odd_rank=1, ISTHMUS_INJECT="count:1")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("isthmus-bench: rank 1: count", done.stderr)
        self.assertEqual(self.records(), [])

    def test_a_file_that_cannot_be_written_ends_all(self):
        done = self.run_ranks(2, "mpi/host-host/send", "--record", "/dev/full")
        self.assertNotEqual(done.returncode, 0)

    def test_a_wrong_message_fails_verification(self):
        for rank in (0, 1):
            for name in ("mpi/host-host/send", "mpi/pinned-pinned/send-duplex"):
                with self.subTest(rank=rank, name=name):
                    (self.folder / "record.jsonl").unlink(missing_ok=True)
                    done = self.run_ranks(2, name, bench=MUTANT, odd_rank=rank, ISTHMUS_WRONG_RANK=rank)
                    self.assertEqual(done.returncode, 1, done.stderr)
                    [record] = self.records()
                    self.assertEqual(record["verify"]["status"], "fail")
                    self.assertTrue(record["verify"]["detail"].startswith(f"rank {rank}: every byte arrived"))
        (self.folder / "record.jsonl").unlink()
        self.assertEqual(self.run_ranks(2, "mpi/host-host/send", bench=MUTANT).returncode, 0)

    def test_resume_counts_ranks(self):
        self.run_ranks(2, "mpi/host-host/send")
        again = self.run_ranks(2, "mpi/host-host/send", "--resume")
        self.assertIn("1 done before", again.stdout)
        more = self.run_ranks(3, "mpi/host-host/send", "--resume")
        self.assertIn("1 passed", more.stdout)
        self.assertEqual([record["ranks"]["count"] for record in self.records()], [2, 3])

    def test_a_signal_ends_with_valid_records(self):
        # Open MPI waits 10 s between SIGTERM and SIGKILL, and another 10 s after a rank has failed.
        patient = {**ENVIRONMENT, "OMPI_MCA_odls_base_sigkill_timeout": "10"}
        child = subprocess.Popen(
            self.command(2, "mpi/host-host/send", "--samples", "1000000"),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=patient, cwd=self.folder,
        )  # fmt: skip
        time.sleep(2)
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=TIME)
        [record] = self.records()
        self.assertIn("interrupted", {metric["stop"] for metric in record["metrics"]})
        self.assertEqual(record["verify"]["status"], "pass")

    def test_a_plain_start_needs_no_launcher(self):
        environment = {key: value for key, value in ENVIRONMENT.items() if not key.startswith("OMPI_")}
        environment["PATH"] = ""
        done = subprocess.run(
            [BENCH, "run", "microbench/saxpy", "mpi/host-host/send", "--size", "tiny", "--record", "record.jsonl"],
            capture_output=True, text=True, env=environment, cwd=self.folder, timeout=TIME,
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        records = {record["workload"]: record for record in self.records()}
        self.assertEqual(records["microbench/saxpy"]["verify"]["status"], "pass")
        self.assertIn("start them with mpirun or srun", records["mpi/host-host/send"]["skipped"])
        self.assertFalse(any("ranks" in record for record in records.values()))


if __name__ == "__main__":
    unittest.main()
