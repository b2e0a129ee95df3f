"""Tests of the program as users run it: every kind of bad input, every injected failure, signals, resuming.

They run the binary named by ISTHMUS_BENCH (the harness with the tests' workloads) and check exit codes, the error
message on stderr, and the files on disk.
"""

import fcntl
import functools
import json
import os
import resource
import signal
import struct
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

BENCH = os.environ["ISTHMUS_BENCH"]
SCHEMA = json.loads(Path(os.environ["ISTHMUS_SCHEMA"]).read_text())
UNDER_UBSAN = b"__ubsan_handle" in Path(BENCH).read_bytes()


class CommandLine(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.record = self.folder / "record.jsonl"

    def run_bench(self, *arguments, **environment):
        env = {**os.environ, **environment}
        return subprocess.run(
            [BENCH, *arguments], capture_output=True, text=True, env=env, cwd=self.folder, timeout=120
        )

    def measure(self, *arguments, **environment):
        return self.run_bench("run", *arguments, "--record", str(self.record), **environment)

    def records(self):
        """Returns all records on disk, after checking that each has the fields that the schema requires."""
        if not self.record.exists():
            return []
        records = [json.loads(line) for line in self.record.read_text().splitlines()]
        for record in records:
            self.assertEqual(set(SCHEMA["required"]) - set(record), set())
        self.assertFalse(Path(f"{self.record}.invalid").exists(), "a record broke the schema")
        return records

    def assert_refused(self, done, *parts):
        """Checks that the program refused: exit code 2, a message of one line that contains `parts`, and no record."""
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stdout, "")
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        for part in parts:
            self.assertIn(part, lines[0])
        self.assertFalse(self.record.exists())

    # --- more managed memory than the device has ---------------------------------------------------

    BEYOND = ("fixture/beyond", "--oversubscribe", "1.25", "--allow-oversubscription", "--observe", "uvm")
    SHORT = {"ISTHMUS_EMULATOR": "memory=16MiB,workers=1"}

    def watchdogs(self):
        """Returns the processes that are watchdogs according to their environment and run in this test's folder."""
        found = []
        for process in Path("/proc").iterdir():
            try:
                watches = b"ISTHMUS_WATCHDOG=" in (process / "environ").read_bytes()
                if watches and (process / "cwd").resolve() == self.folder.resolve():
                    found.append(int(process.name))
            except (OSError, ValueError):
                continue
        return found

    def wait_until(self, is_so, seconds=20):
        deadline = time.monotonic() + seconds
        while not is_so():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def kept_events(self):
        """Returns the number of entries of 64 bytes in each file of events."""
        counts = {}
        for path in self.folder.glob("*.uvm"):
            data = path.read_bytes()
            self.assertEqual(data[:14], b"isthmus.uvm/1\n")
            at, count = 24 + struct.unpack_from("<I", data, 16)[0], 0
            while at < len(data):
                _, entries, packed = struct.unpack_from("<III", data, at)
                count += entries
                at += 32 + packed
            self.assertEqual(at, len(data), "each chunk is whole")
            counts[path] = count
        return counts

    def test_oversubscription_takes_a_ratio_of_what_is_free(self):
        done = self.measure(*self.BEYOND, **self.SHORT)
        self.assertEqual(done.returncode, 0, done.stderr)
        (record,) = self.records()
        self.assertEqual(record["axes"]["bytes"], 20 << 20)
        self.assertIsNone(record["size"])
        self.assertEqual(record["notes"]["oversubscribe"], "1.25 times the 16777216 bytes that were free on the device")
        self.assertEqual(self.watchdogs(), [])
        self.assertEqual(self.kept_events(), {}, "the record says it")

    def test_oversubscription_is_refused_in_a_sentence(self):
        allowed = self.BEYOND[:4]
        refused = {
            ("can hang the GPU and the host", "if nobody else uses this host"): self.BEYOND[:3],
            ("above 1 and at most 4",): (*self.BEYOND[:2], "5", "--allow-oversubscription"),
            ("takes a ratio such as 1.25, not 'half'",): (*self.BEYOND[:2], "half", "--allow-oversubscription"),
            ("fixture/saxpy does not support --oversubscribe; choose from fixture/beyond",): (
                "fixture/saxpy",
                *allowed[1:],
            ),
            ("has memory=pageable",): (*allowed, "--set", "memory=pageable"),
            ("--resume cannot recognise its cases",): (*allowed, "--resume"),
            ("omit --processes",): (*allowed, "--processes", "2"),
            ("omit --size",): (*allowed, "--size", "tiny"),
            ("has no effect without --oversubscribe",): ("fixture/beyond", "--allow-oversubscription"),
            ("--hang-after has no effect",): ("fixture/beyond", "--hang-after", "3"),
            ("--hang-after takes a number of seconds",): (*allowed, "--hang-after", "soon"),
        }
        for parts, arguments in refused.items():
            self.assert_refused(self.measure(*arguments, **self.SHORT), *parts)
        done = self.measure(*allowed, **self.SHORT, ISTHMUS_HOST_MEMORY="2GiB")
        self.assert_refused(done, "of host memory for 20 MiB", "2 GiB are available", "choose a smaller ratio")
        done = self.measure(*allowed, "--set", "driver_prefetch=off", ISTHMUS_EMULATOR="memory=4GiB")
        self.assert_refused(done, "driver_prefetch=off supports at most 2 GiB of managed memory")
        done = self.measure(*allowed, ISTHMUS_EMULATOR="memory=16MiB,others=2")
        self.assert_refused(done, "other processes use the GPU (1, 2); wait until they have ended")
        self.assertEqual(self.watchdogs(), [])

    @unittest.skipIf(UNDER_UBSAN, "UBSan opens a pipe to look at an object; without one it reports a fault")
    def test_oversubscription_without_a_watchdog_is_refused(self):
        def few_files():
            resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))

        done = subprocess.run(
            [BENCH, "run", *self.BEYOND, "--record", str(self.record)],
            capture_output=True, text=True, env={**os.environ, **self.SHORT}, cwd=self.folder, timeout=60,
            preexec_fn=few_files,
        )  # fmt: skip
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("the process that ends a hanging run could not be started", done.stderr)
        self.assertEqual(self.records(), [])

    def test_a_run_that_hangs_is_ended_and_what_it_drained_is_kept(self):
        begin = time.monotonic()
        done = self.measure(*self.BEYOND, "--set", "what=well,hangs", "--hang-after", "2", **self.SHORT)
        self.assertLess(time.monotonic() - begin, 30)
        self.assertEqual(done.returncode, -signal.SIGKILL, done.stderr)
        (sentence,) = done.stderr.splitlines()
        for part in ("what=hangs made no progress for 2 s", "SIGKILL after 1 s", str(self.record), "nvidia-smi"):
            self.assertIn(part, sentence)
        self.assertEqual([record["axes"]["what"] for record in self.records()], ["well"])
        ((path, count),) = self.kept_events().items()
        self.assertIn(str(path), sentence)
        self.assertGreater(count, 8, "512 pages make two batches at least, and their replays")
        self.assertIn(b"\ndriver=580.0 (emulated)\n", path.read_bytes()[:500])
        self.assertEqual(self.watchdogs(), [])

    def test_events_that_are_drained_are_progress(self):
        done = self.measure(*self.BEYOND, "--set", "what=slow", "--hang-after", "2", **self.SHORT)
        self.assertEqual(done.returncode, 0, done.stderr)
        (record,) = self.records()
        self.assertGreater(self.metrics(record)["touch"]["median"], 4)

    def begin_hanging(self, *arguments):
        process = subprocess.Popen(
            [BENCH, "run", *self.BEYOND, "--set", "what=hangs", *arguments, "--record", str(self.record)],
            env={**os.environ, **self.SHORT}, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, start_new_session=True,
        )  # fmt: skip
        self.addCleanup(lambda: process.poll() is None and process.kill())
        self.wait_until(lambda: self.watchdogs() and any(self.kept_events().values()))
        return process

    def test_a_run_that_is_killed_ends_its_watchdog(self):
        process = self.begin_hanging("--hang-after", "1000")
        (watchdog,) = self.watchdogs()
        self.assertEqual(os.stat(f"/proc/{watchdog}").st_uid, os.getuid())
        process.kill()
        process.communicate(timeout=20)  # returns when no process has the run's output streams open
        self.wait_until(lambda: not self.watchdogs())

    def test_a_signal_to_all_of_a_job_leaves_the_watchdog(self):
        process = self.begin_hanging("--hang-after", "3")
        os.killpg(process.pid, signal.SIGTERM)
        _, said = process.communicate(timeout=30)
        self.assertIn("made no progress for 3 s", said)
        self.assertEqual(process.returncode, -signal.SIGTERM, "a second one ends at once")

    def test_a_run_without_its_watchdog_does_not_go_on(self):
        process = subprocess.Popen(
            [BENCH, "run", *self.BEYOND, "--set", "what=slow", "--record", str(self.record)],
            env={**os.environ, **self.SHORT}, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        self.addCleanup(lambda: process.poll() is None and process.kill())
        self.wait_until(lambda: any(self.kept_events().values()))
        (watchdog,) = self.watchdogs()
        os.kill(watchdog, signal.SIGKILL)
        _, said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 3, said)
        self.assertIn("the process that watches this run was killed", said)

    # --- bodies -----------------------------------------------------------------------------------

    def metrics(self, record):
        return {metric["name"]: metric for metric in record["metrics"]}

    def test_a_body_that_waits_tells_its_turns(self):
        done = self.measure("fixture/steps", "--placement", "all", "--set", "body=waits")
        self.assertEqual(done.returncode, 0, done.stderr)
        measured = [record for record in self.records() if record["skipped"] is None]
        self.assertEqual(len(measured), 8)
        for record in measured:
            self.assertEqual(record["host_turns"], 5)
            self.assertEqual(record["submission"], "stream")
            kernels = {kernel["name"]: kernel for kernel in record["kernels"]}
            self.assertEqual(kernels["fixture_add_one"]["launches"], 5)
            self.assertEqual(kernels["fixture_look"]["launches"], 5)
            self.assertEqual(kernels["copy back"]["kind"], "library")
            self.assertGreater(kernels["fixture_add_one"]["seconds"], 0)
            self.assertEqual(self.metrics(record)["kernel"]["timer"], "clock")
            self.assertIn("turn_cost", self.metrics(record))
        skipped = [record["skipped"] for record in self.records() if record["placement"] == "streamed"]
        self.assertIn("reads results during a pass", skipped[0])

    def test_every_kernel_brings_its_geometry_and_traffic(self):
        self.assertEqual(self.measure("fixture/saxpy", "--placement", "pinned").returncode, 0)
        (kernel,) = self.records()[0]["kernels"]
        self.assertEqual((kernel["grid"], kernel["block"]), ([4, 1, 1], [64, 1, 1]))
        self.assertEqual((kernel["launches"], kernel["bytes_written"]), (1, 4.0 * 65536))
        self.assertGreater(kernel["seconds"], 0)

    def test_thousands_of_launches_go_as_one_graph(self):
        many = ("--set", "steps=3000", "--set", "n=64", "--placement", "pinned")
        self.assertEqual(self.measure("fixture/steps", *many).returncode, 0)
        self.assertEqual(self.measure("fixture/steps", *many, "--set", "submission=stream").returncode, 0)
        self.assertEqual(self.measure("fixture/steps", "--placement", "pinned").returncode, 0)
        graph, stream, few = self.records()
        self.assertEqual([r["submission"] for r in (graph, stream, few)], ["graph", "stream", "stream"])
        self.assertIn("graph_build", self.metrics(graph))
        self.assertEqual([w["code"] for w in stream["warnings"]], ["queue_full"])
        self.assertEqual(graph["kernels"][0]["launches"], 3000)

    def test_repeats_tell_the_first_from_the_later(self):
        self.assertEqual(self.measure("fixture/steps", "--placement", "managed", "--set", "body=repeats").returncode, 0)
        metrics = self.metrics(self.records()[0])
        self.assertGreater(metrics["first_repeat"]["median"], 0)
        self.assertGreater(metrics["later_repeat"]["median"], 0)
        parts = metrics["first_repeat"]["median"] + 4 * metrics["later_repeat"]["median"]
        self.assertAlmostEqual(parts / metrics["kernel"]["median"], 1, places=3)

    def test_what_is_wrong_with_a_body_fails_its_case_alone(self):
        sentences = {
            "reference": "values[0] is 47, expected 48",
            "read": "a queued body reads a result: measure it with Control::waits",
        }
        for fault, sentence in sentences.items():
            done = self.measure("fixture/steps", "--placement", "pinned", "--set", f"fault={fault}")
            self.assertEqual(done.returncode, 1)
            self.assertIn(sentence, done.stderr)
        done = self.measure("fixture/saxpy", "--placement", "pinned", "--set", "fault=early,none")
        self.assertEqual(done.returncode, 1)
        self.assertIn("buffer x has no address before measure()", done.stderr)
        self.assertIn("1 passed, 0 skipped, 1 failed", done.stdout)

    def test_misused_checks_and_inputs_fail_their_case_alone(self):
        sentences = {
            "beyond_a_double": "wrong result: out[0] is 1.152921504606847",
            "two_references": "two shared inputs are named serial reference of out",
            "shared_name": "two shared inputs are named number",
            "buffer_name": "two buffers are named out",
            "verify_scratch": "buffer scratch is on the device only, so no check can read it",
            "same_scratch": "buffer scratch is on the device only, so no check can read it",
            "host": "a queued body requests the host's copy of buffer out",
            "no_exception": "threw something that is not a std::exception",
            "read_far": "buffer out has 512 bytes, but 8 from byte 512 on are requested",
            "late_repeats": "repeats() comes before measure()",
            "metric_twice": "two metrics are named pages",
            "measures_twice": "measure() already reports metric kernel",
            "waits_and_awaits": "concurrent copies need a body that waits for nothing",
            "source_on_device": "buffer source is on the host only: copy parts of it into a scratch buffer",
            "source_travels": "buffer source is on the host only: copy parts of it into a scratch buffer",
            "brings_into_an_output": "not from source into out",
        }
        done = self.measure("misuse/checks", "--placement", "pinned", "--set", "what=all")
        self.assertEqual(done.returncode, 1, done.stderr)
        for what, sentence in sentences.items():
            (line,) = [line for line in done.stderr.splitlines() if f"what={what}:" in line]
            self.assertIn(sentence, line)
        self.assertIn("1 passed, 0 skipped, 16 failed", done.stdout)
        self.assertEqual(len(self.records()), 17)

    def test_a_case_whose_every_sample_is_invalid_fails(self):
        done = self.measure(
            "fixture/steps", "--placement", "pinned", "--set", "fault=waits", "--latch-timeout", "0.05",
            "--samples", "2",
        )  # fmt: skip
        self.assertEqual(done.returncode, 1)
        self.assertIn("every sample of", done.stderr)
        self.assertIn("latch_timeout", done.stderr)
        (record,) = self.records()
        for name in ("kernel", "wall", "paper_total"):
            self.assertIsNone(self.metrics(record)[name]["median"], name)

    def test_results_that_differ_between_placements_or_runs_fail(self):
        done = self.measure("unequal/results", "--placement", "pinned,pageable")
        self.assertEqual(done.returncode, 1)
        self.assertIn("out differs from the result of unequal/results pinned×none with the same inputs", done.stderr)
        done = self.measure("unequal/results", "--placement", "pageable")
        self.assertEqual(done.returncode, 1, "the file has a record of pinned")
        self.assertIn("differs from the result of the record of", done.stderr)

    def test_a_dry_run_makes_no_inputs(self):
        done = self.run_bench("run", "fixture/steps", "--placement", "pinned", "--dry-run")
        # The host has 400 bytes each of start values, input and reference; the device two buffers of 400 bytes, and 4.
        self.assertIn("host 1.17 KiB, device 804 B", done.stdout)
        done = self.run_bench("run", "fixture/steps", "--placement", "pinned", "--dry-run", "--set", "fault=peek")
        self.assertIn("used before measure()", done.stdout)

    # --- bad input ---------------------------------------------------------------------------------

    def test_unknown_names_are_refused_with_the_nearest(self):
        cases = {
            ("fixture/saxpi",): "did you mean 'fixture/saxpy'?",
            ("fixture/saxpy", "--mode", "umv"): "did you mean 'uvm'?",
            ("fixture/saxpy", "--placement", "pinned,pol"): "did you mean 'pool'?",
            ("fixture/saxpy", "--staging", "dirct"): "did you mean 'direct'?",
            ("fixture/saxpy", "--size", "smal"): "did you mean 'small'?",
            ("fixture/saxpy", "--preset", "fixture-fig"): "did you mean 'fixture-fig1'?",
            ("fixture/saxpy", "--set", "thraeds=64"): "did you mean 'threads'?",
            ("fixture/saxpy", "--set", "threads=65"): "choose one of 32, 64, 128",
            ("fixture/saxpy", "--device", "7"): "there is no device 7",
            ("fixture/saxpy", "--device", "GPU-none"): "there is no device 'GPU-none'",
            ("fixture/saxpy", "--numa", "900"): "NUMA node 900",
        }
        for arguments, part in cases.items():
            with self.subTest(arguments):
                self.assert_refused(self.measure(*arguments), part)

    def test_several_ranks_of_a_build_without_mpi_are_refused(self):
        for rank, size in (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")):
            with self.subTest(size):
                self.assert_refused(
                    self.measure("fixture/saxpy", **{rank: "0", size: "2"}),
                    "2 ranks of a build without MPI were started",
                )
                other = self.measure("fixture/saxpy", **{rank: "1", size: "2"})  # only rank 0 reports the error
                self.assertEqual((other.returncode, other.stdout + other.stderr), (0, ""))
                self.assertEqual(self.records(), [])
                done = self.measure("fixture/saxpy", "--size", "tiny", **{rank: "0", size: "1"})
                self.assertEqual(done.returncode, 0, done.stderr)
                self.record.unlink()

    def test_numbers_that_are_none_or_out_of_range_are_refused(self):
        for option in ("--samples", "--warmups", "--processes", "--seed", "--numa", "--chunks"):
            for value in ("many", "1.5", "99999999999999999999", "", "1 2"):
                with self.subTest(option=option, value=value):
                    self.assert_refused(self.measure("fixture/saxpy", f"{option}={value}"), option)
        for option, value in (("--samples", "0"), ("--processes", "0"), ("--samples", "-3"), ("--chunks", "0")):
            with self.subTest(option=option, value=value):
                self.assert_refused(self.measure("fixture/saxpy", f"{option}={value}"), "out of range")
        for value in ("soon", "nan", "inf", "0", "-1"):
            with self.subTest(budget=value):
                self.assert_refused(self.measure("fixture/saxpy", f"--budget={value}"), "--budget")
            with self.subTest(min_time=value):
                self.assert_refused(self.measure("fixture/saxpy", f"--min-time={value}"), "--min-time")
            with self.subTest(latch_timeout=value):
                done = self.measure("fixture/saxpy", f"--latch-timeout={value}")
                self.assert_refused(done, "--latch-timeout")
                self.assertLess(len(done.stderr), 120)  # does not print the largest double with all its digits
        self.assert_refused(self.measure("fixture/saxpy", "--min-time=1", "--samples=3"), "give one of them")
        done = self.measure("fixture/saxpy", "--no-latch", "--latch-timeout=9")
        self.assert_refused(done, "give one of them")
        self.assert_refused(self.measure("fixture/saxpy", "--placement=pinned", "--chunks=8"), "--chunks is for")
        done = self.measure("fixture/saxpy", "--placement=pinned,streamed", "--chunks=8", "--dry-run")
        self.assertEqual(done.returncode, 0, done.stderr)
        for value in ("n=x", "n=0", "n=-5", "n=", "n", "n=1e3"):
            with self.subTest(setting=value):
                self.assert_refused(self.measure("fixture/saxpy", "--set", value))

    def test_wrong_usage_is_refused(self):
        for arguments, answer in (
            ([], "isthmus-bench --help"),
            (["run"], "isthmus-bench --help"),
            (["--version-9"], "isthmus-bench --help"),
            (["measure"], "no command 'measure'; choose one of list, info, run"),
            (["run", "fixture/saxpy", "--colour"], "no option '--colour'; choose one of --size,"),
            (["rum", "fixture/saxpy"], "did you mean 'run'?"),
            (["run", "fixture/saxpy", "--sise", "tiny"], "did you mean '--size'?"),
            (["run", "fixture/saxpy", "--sise=tiny"], "did you mean '--size'?"),
            (["list", "--jsn"], "did you mean '--json'?"),
            (["run", "fixture/saxpy", "--samples"], "--samples takes a value, but was given none"),
            (["run", "fixture/saxpy", "--seed", "1", "--seed", "2"], "--seed takes one value, but was given several"),
        ):
            with self.subTest(arguments):
                self.assert_refused(self.run_bench(*arguments), answer)
        self.assert_refused(self.measure("fixture/saxpy", "--mode", "pm", "--placement", "pinned"), "--mode")
        self.assert_refused(self.measure("fixture/saxpy", "--mode", "pm,"), "empty name")
        self.assert_refused(self.run_bench("list", "nothing*"), "no workload matches")

    def test_unwritable_records_are_refused(self):
        for path in ("/nowhere/record.jsonl", str(self.folder), "/proc/record.jsonl"):
            with self.subTest(path):
                self.assert_refused(self.run_bench("run", "fixture/saxpy", "--record", path), "cannot be written")
        self.assert_refused(self.run_bench("run", "fixture/saxpy", ISTHMUS_RESULTS="/proc/results"), "ISTHMUS_RESULTS")
        self.assert_refused(self.run_bench("run", "fixture/saxpy", "--record", ""), "names no file")

    def test_records_are_not_added_to_what_is_none(self):
        notes = self.folder / "notes.jsonl"
        for text in (b"# notes\n", b"\n", b"[1, 2]\n", b'{"a": 1}\n', b"\xff\x00\x1b\n\n", b"no end"):
            for resume in ([], ["--resume"]):
                with self.subTest(text=text, resume=resume):
                    notes.write_bytes(text)
                    done = self.run_bench("run", "fixture/saxpy", "--size", "tiny", "--record", str(notes), *resume)
                    self.assert_refused(done, "begins with a line that is not a record")
                    self.assertEqual(notes.read_bytes(), text)
        self.measure("fixture/saxpy", "--size", "tiny")
        whole = self.record.read_text()
        unsorted = dict(reversed(json.loads(whole).items()))
        for text in ("", '{"ax', whole[:2000], whole, whole + whole[:2000], json.dumps(unsorted) + "\n"):
            with self.subTest(record=text[:60]):
                self.record.write_text(text)
                self.assertEqual(self.measure("fixture/saxpy", "--size", "tiny").returncode, 0)
                self.records()

    def run_into(self, stream, mode, *arguments):
        """Runs the program with standard output or standard error redirected to the record's file."""
        with self.record.open(mode) as file:
            streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: file}
            words = [BENCH, "run", "fixture/saxpy", "--size", "tiny", *arguments]
            return subprocess.run(words, **streams, text=True, cwd=self.folder, timeout=60)

    def test_a_record_that_is_also_a_standard_stream_is_refused(self):
        self.measure("fixture/saxpy", "--size", "tiny")
        before = self.record.read_text()
        link, hard = self.folder / "link.jsonl", self.folder / "hard.jsonl"
        link.symlink_to(self.record)
        hard.hardlink_to(self.record)
        for name in (self.record, link, hard, "/dev/stdout"):
            for more in ([], ["--table"], ["--table", "--quiet"], ["--processes", "2"]):
                with self.subTest(name=name, more=more):
                    done = self.run_into("stdout", "a", "--record", str(name), *more)
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertRegex(done.stderr, "^isthmus-bench: the record .* is also standard output, .*\n$")
                    self.assertEqual(self.record.read_text(), before)
        done = self.run_into("stderr", "a", "--record", str(self.record))
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("is also standard error", self.record.read_text().removeprefix(before))
        self.record.write_text(before)
        self.assertEqual(self.run_into("stdout", "w", "--record", str(self.record), "--table").returncode, 2)

    def test_a_record_goes_to_standard_output_where_nothing_else_does(self):
        done = self.run_bench("run", "fixture/saxpy", "--size", "tiny", "--quiet", "--record", "/dev/stdout")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([json.loads(line)["workload"] for line in done.stdout.splitlines()], ["fixture/saxpy"])
        done = self.run_bench("run", "fixture/saxpy", "--size", "tiny", "--record", "/dev/stdout")
        self.assert_refused(done, "is also standard output", "--quiet without --table")
        for stream in ("stdout", "stderr"):  # allowed, because /dev/null keeps no records that could be damaged
            words = [BENCH, "run", "fixture/saxpy", "--size", "tiny", "--record", "/dev/null"]
            streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: subprocess.DEVNULL}
            done = subprocess.run(words, **streams, cwd=self.folder, timeout=60)
            self.assertEqual(done.returncode, 0)

    def test_bad_environment_is_refused(self):
        self.assert_refused(self.measure("fixture/saxpy", ISTHMUS_INJECT="malloc_devise:1"), "ISTHMUS_INJECT")
        self.assert_refused(self.measure("fixture/saxpy", ISTHMUS_HOST_MEMORY="lots"), "ISTHMUS_HOST_MEMORY")
        self.assert_refused(self.measure("fixture/saxpy", ISTHMUS_NVML="/no/libnvml.so"), "ISTHMUS_NVML", "unset it")

    def test_a_variable_that_nothing_reads_is_named_once(self):
        run = ("fixture/saxpy", "--size", "tiny", "--samples", "1", "--set", "fault=none")
        for more in ([], ["--processes", "2"]):
            with self.subTest(more=more):
                done = self.measure(*run, *more, ISTHMUS_HOST_MEMROY="1KiB", ISTMUS_RESULT="x", ISTHMUS_ROOT="/opt")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(
                    done.stderr,
                    "isthmus-bench: nothing reads the environment variables ISTHMUS_HOST_MEMROY (did you mean "
                    "'ISTHMUS_HOST_MEMORY'?), ISTMUS_RESULT (did you mean 'ISTHMUS_RESULTS'?); correct or unset them\n",
                )
        done = self.measure(*run, ISTHMUS_SYSTEM="a", ISTHMUS_PARTITION="b", ISTHMUS_RESULTS="c")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("isthmus_inject", self.run_bench("list", isthmus_inject="x").stderr)

    def test_a_variable_of_one_run_that_it_does_not_use_is_named(self):
        numbers = ("fixture/numbers", "--placement", "pinned", "--samples", "1")
        unread = (
            "isthmus-bench: ISTHMUS_FIXTURE_NUMBERS is set, but no case of this run has source=file, so the file is "
            "not read; add --set source=file, or unset the variable\n"
        )
        for more in ([], ["--quiet"], ["--processes", "2"], ["--set", "source=made"]):
            with self.subTest(more=more):
                done = self.measure(*numbers, *more, ISTHMUS_FIXTURE_NUMBERS="/no/such")
                self.assertEqual((done.returncode, done.stderr), (0, unread))
        done = self.measure("fixture/host_loop", ISTHMUS_FIXTURE_NUMBERS="/no/such", ISTHMUS_UVM="force")
        self.assertIn("this run has no workload that reads it (as fixture/numbers does); unset it", done.stderr)
        self.assertIn("ISTHMUS_UVM is set, but nothing observes page faults in this run", done.stderr)
        self.assertEqual(self.measure(*numbers, ISTHMUS_FIXTURE_NUMBERS="").stderr, "")
        (self.folder / "numbers.bin").write_bytes(bytes(64))
        both = self.measure(*numbers, "--set", "source=made,file", ISTHMUS_FIXTURE_NUMBERS="numbers.bin")
        self.assertEqual((both.returncode, both.stderr), (0, ""))
        for quiet in (["list"], ["info"], ["--help"], ["--version"], ["run", "--help"], ["run", *numbers, "--dry-run"]):
            with self.subTest(quiet):
                self.assertEqual(self.run_bench(*quiet, ISTHMUS_FIXTURE_NUMBERS="x", ISTHMUS_UVM="force").stderr, "")

    def test_a_fault_that_was_asked_for_and_not_met_is_named(self):
        run = ("fixture/saxpy", "--size", "tiny")
        done = self.measure(*run, ISTHMUS_INJECT="launch:1000000,malloc_device:500000:oom")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("ISTHMUS_INJECT requests launch:1000000,malloc_device:500000, but this process made", done.stderr)
        self.assertNotIn("made fewer such calls", self.measure(*run, ISTHMUS_INJECT="launch:1").stderr)

    def test_an_option_that_nothing_reads_is_named_at_the_end(self):
        for arguments, said in (
            (["fixture/host_loop", "--seed", "7"], "--seed had no effect, because no case that ran uses it"),
            (
                ["fixture/host_loop", "--no-latch"],
                "--no-latch had no effect, because no case that ran uses the latch",
            ),
            (["fixture/host_loop", "--latch-timeout", "9"], "--latch-timeout had no effect"),
            (["unused/axis", "--samples", "4"], "--samples had no effect, because no case that ran takes samples"),
            (["unused/axis", "--warmups", "1"], "--warmups had no effect"),
            (["fixture/saxpy", "--size", "tiny", "--min-time", "1"], "--min-time had no effect"),
            (["unused/axis", "--set", "unread=3"], "--set unread=3 had no effect, because no case that ran uses"),
            (
                ["unused/axis", "--size", "tiny"],
                "--size had no effect, because other settings determine the size of unused/axis tiny",
            ),
        ):
            with self.subTest(arguments):
                done = self.measure(*arguments)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual([line.count(said) for line in done.stderr.splitlines()], [1], done.stderr)
        twice = self.measure("fixture/host_loop", "--seed", "7", "--processes", "2")
        self.assertEqual(twice.stderr.count("--seed had no effect"), 1, twice.stderr)
        used = (
            "--seed",
            "7",
            "--no-latch",
            "--samples",
            "2",
            "--warmups",
            "1",
            "--set",
            "threads=32",
            "--size",
            "tiny",
        )
        self.assertEqual(self.measure("fixture/saxpy", *used).stderr, "")
        self.assertEqual(self.measure("fixture/host_loop", "--seed", "7", "--quiet").stderr, "")
        self.assertEqual(self.run_bench("run", "fixture/host_loop", "--seed", "7", "--dry-run").stderr, "")

    def test_options_that_would_do_nothing_are_refused_or_noted_before_any_work(self):
        saxpy = ("fixture/saxpy", "--size", "tiny")
        self.assert_refused(self.run_bench("run", *saxpy, "--resume"), "--resume continues the file of --record")
        self.assert_refused(
            self.measure("unused/device", "--device", "1", ISTHMUS_EMULATOR="devices=2"),
            "--device chooses 1, but the name of unused/device determines its GPUs",
        )
        done = self.measure("unused/device", "fixture/host_loop", "--device", "1", ISTHMUS_EMULATOR="devices=2")
        self.assertIn("--device has no effect on 1 of 2 cases, such as unused/device", done.stderr)
        self.assertEqual(self.measure("unused/device", "--device", "0").stderr, "")
        done = self.measure("fixture/host_loop", "--device", "0", "--numa", "0")
        self.assertIn("--device has no effect, because no case of this run uses a GPU", done.stderr)
        self.record.unlink()
        self.assert_refused(self.measure(*saxpy, "--min-time", "200"), "--min-time 200 exceeds the 120 s")
        self.assert_refused(self.measure(*saxpy, "--min-time", "3", "--budget", "2"), "exceeds the 2 s", "by --budget")
        self.assert_refused(
            self.measure("fixture/saxpy", "fixture/stencil", "--preset", "fixture-fig1"),
            "fixture/stencil has no preset 'fixture-fig1'; omit the workload or the preset",
        )
        done = self.run_bench("run", "fixture/s*", "--preset", "fixture-fig1", "--dry-run")
        self.assertIn("preset fixture-fig1 exists in 1 of ", done.stderr)
        done = self.run_bench("run", "fixture/saxpy", "--size", "tiny,small", "--set", "n=99", "--dry-run")
        self.assertIn(
            "--size has no effect on fixture/saxpy, because --set sets everything that its sizes set", done.stderr
        )
        self.assertEqual(done.stdout.count("fixture/saxpy"), 1)

    def test_an_empty_name_of_a_profiler_is_none(self):
        self.measure("fixture/saxpy", "--size", "tiny", "--mode", "pm", "--samples", "3", ISTHMUS_PROFILER="")
        (record,) = self.records()
        self.assertNotIn("no_latch", {warning["code"] for warning in record["warnings"]})

    @unittest.skipIf(os.geteuid() != 0, "only root may limit another user's processes")
    def test_a_limit_of_processes_is_named(self):
        self.folder.chmod(0o777)
        words = ["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups", "bash", "-c", 'ulimit -u 1; exec "$@"',
                 "bash", BENCH, "run", "fixture/saxpy", "--size", "tiny", "--record", str(self.record)]  # fmt: skip
        if subprocess.run([*words[:4], BENCH, "--version"], capture_output=True).returncode != 0:
            self.skipTest("another user may not run the program here")
        done = subprocess.run(words, capture_output=True, text=True, cwd=self.folder, timeout=60)
        self.assertEqual(done.returncode, 1, done.stderr)
        for part in ("another thread could not be started", "of this user is 1;", "ulimit -u"):
            self.assertIn(part, done.stderr)

    def test_without_meminfo_the_host_is_not_unlimited(self):
        apart = ["unshare", "-m", "bash", "-c", 'mount --bind /dev/null /proc/meminfo && exec "$@"', "bash"]
        if subprocess.run([*apart, "true"], capture_output=True).returncode != 0:
            self.skipTest("no file can be mounted over here")
        done = subprocess.run([*apart, BENCH, "run", "fixture/saxpy", "--size", "mega", "--dry-run"],
                              capture_output=True, text=True, cwd=self.folder, timeout=60)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, "would be skipped: needs .* of host memory")
        self.assertIn("sysinfo(2) reports as free", done.stderr)

    def test_without_sysfs_no_node_and_core_is_made_up(self):
        apart = ["unshare", "-m", "bash", "-c", 'mount -t tmpfs none /sys && exec "$@"', "bash"]
        if subprocess.run([*apart, "true"], capture_output=True).returncode != 0:
            self.skipTest("no file system can be mounted over here")
        told = subprocess.run([*apart, BENCH, "info", "--json"], capture_output=True, text=True, timeout=60)
        host = json.loads(told.stdout)["host"]
        self.assertEqual((host["numa_nodes"], host["cores"]), (None, None))
        done = subprocess.run([*apart, BENCH, "run", "fixture/saxpy", "--numa", "0"],
                              capture_output=True, text=True, cwd=self.folder, timeout=60)  # fmt: skip
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--numa names a node, but the kernel does not list nodes", done.stderr)

    # --- successful runs ---------------------------------------------------------------------------

    def test_help_shows_examples(self):
        done = self.run_bench("--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("isthmus-bench run microbench/saxpy", done.stdout)

    def test_help_of_run_begins_with_examples_and_groups_its_options(self):
        done = self.run_bench("run", "--help")
        self.assertEqual(done.returncode, 0)
        titles = [line for line in done.stdout.splitlines() if line.endswith(":") and not line.startswith(" ")]
        groups = ["What to measure:", "Where:", "How long:", "Output:", "Diagnostics:"]
        self.assertEqual([title for title in titles if title in groups], groups)
        self.assertLess(titles.index("Examples:"), titles.index("What to measure:"))
        self.assertNotIn("Options:", titles)

    def test_version_says_what_it_was_built_from(self):
        done = self.run_bench("--version")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"^isthmus-bench \d+\.\d+\.\d+(, commit [0-9a-f]{40}(, changed)?)?\n$")

    def test_list_and_info_are_as_agreed(self):
        document = json.loads(self.run_bench("list", "--json").stdout)
        self.assertEqual(set(document), {"workloads", "modes", "placements", "stagings", "sizes"})
        self.assertEqual(document["modes"]["uvm"], {"placement": "managed_in", "staging": "direct"})
        saxpy = next(w for w in document["workloads"] if w["name"] == "fixture/saxpy")
        self.assertEqual(saxpy["sizes"]["tiny"], {"n": 4096})
        self.assertEqual(saxpy["version"], 3)
        self.assertIn("kernel", saxpy["metrics"])
        self.assertEqual(saxpy["presets"][0]["sweep"], [32, 128])
        axis = next(a for a in saxpy["axes"] if a["name"] == "n")
        self.assertEqual((axis["default"], axis["choices"], axis["minimum"]), (65536, None, 1))
        document = json.loads(self.run_bench("info", "--json").stdout)
        self.assertIsNone(document["build"]["package"])  # the tests are not built by a package manager
        self.assertEqual(document["backend"], "emulator")
        self.assertTrue(document["emulated"])
        self.assertIsNone(document["problem"])
        self.assertEqual(len(document["devices"]), 1)
        for text in (self.run_bench("list").stdout, self.run_bench("info").stdout):
            self.assertNotIn("{", text)

    def test_a_list_has_the_axes_of_placements_and_fits_80_columns(self):
        listed = json.loads(self.run_bench("list", "fixture/saxpy", "--json").stdout)["workloads"][0]
        axes = {placement: [axis["name"] for axis in of] for placement, of in listed["placement_axes"].items()}
        self.assertEqual(axes["managed"], ["driver_prefetch"])
        self.assertNotIn("driver_prefetch", [axis["name"] for axis in listed["axes"]])
        self.assertIn("    of managed driver_prefetch=default\n", self.run_bench("list", "fixture/saxpy").stdout)
        text = self.run_bench("list").stdout
        self.assertLessEqual(max(map(len, text.splitlines())), 80)

    def test_a_run_leaves_one_record_per_case_and_an_80_column_table(self):
        done = self.measure("fixture/*", "--placement", "all", "--size", "tiny", "--table")
        self.assertEqual(done.returncode, 0, done.stderr)
        records = self.records()
        self.assertGreater(len(records), 20)
        for line in done.stdout.splitlines()[:-1]:
            self.assertLessEqual(len(line), 80, line)
        self.assertNotIn("\r", done.stderr)
        for record in records:
            self.assertEqual(record["emulated"], record["workload"] != "fixture/host_loop")
            self.assertEqual(record["run"]["process"], 1)

    def test_the_default_record_goes_to_results(self):
        done = self.run_bench("run", "fixture/saxpy", "--size", "tiny")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(list((self.folder / "results").glob("*.jsonl"))), 1)

    def test_dry_run_measures_nothing(self):
        done = self.measure("fixture/saxpy", "--size", "tiny,mega", "--dry-run")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("32 KiB", done.stdout)
        self.assertIn("would be skipped", done.stdout)
        self.assertIn("2 cases, less than 1 s in all", done.stdout)
        self.assertFalse(self.record.exists())

    def test_a_run_says_first_how_much_it_is(self):
        def first(*arguments):
            return self.measure(*arguments).stdout.splitlines()[0]

        self.assertEqual(first("moves/gpu0-gpu0/ce", "--set", "bytes=1KiB,2KiB"), "2 cases, less than 1 s")
        self.assertEqual(first("moves/gpu0-gpu0/ce", "--set", "bytes=64GiB"), "1 case, about 2 min")
        self.assertIn("without 1 case of unknown length", first("moves/gpu0-gpu0/ce", "fixture/host_loop"))
        self.assertEqual(first("fixture/host_loop"), "1 case; --dry-run estimates how long they take")
        self.assertEqual(self.measure("fixture/host_loop", "--quiet").stdout, "")

    def test_a_wrong_result_fails_and_the_rest_still_runs(self):
        done = self.measure("fixture/saxpy", "--size", "tiny", "--set", "fault=wrong", "--mode", "pm,uvm")
        self.assertEqual(done.returncode, 1)
        self.assertEqual([r["verify"]["status"] for r in self.records()], ["fail", "fail"])
        self.assertIn("wrong result", done.stderr)

    def test_too_large_a_shape_is_skipped_with_the_reason(self):
        done = self.measure("fixture/saxpy", "--size", "mega")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(self.records()[0]["skip_kind"], "memory")
        self.record.unlink()
        self.measure("fixture/saxpy", "--size", "small", ISTHMUS_HOST_MEMORY="100KiB")
        self.assertIn("host memory", self.records()[0]["skipped"])
        self.record.unlink()
        self.measure("fixture/saxpy", "--size", "small", "--mode", "uvm", ISTHMUS_EMULATOR="memory=256KiB")
        self.assertIn("device memory", self.records()[0]["skipped"])

    def test_a_shape_that_fills_the_device_is_skipped_and_one_that_leaves_room_for_the_latch_runs(self):
        for memory, outcome in (("512KiB", "skipped"), ("576KiB", "pass")):  # x and y have 256 KiB each
            self.record.unlink(missing_ok=True)
            done = self.measure("fixture/saxpy", "--size", "small", "--mode", "pm", ISTHMUS_EMULATOR=f"memory={memory}")
            self.assertEqual(done.returncode, 0, done.stderr)
            (record,) = self.records()
            found = "skipped" if record["skipped"] else record["verify"]["status"]
            self.assertEqual(found, outcome, record["skipped"])

    def test_without_a_latch_the_record_says_so(self):
        for option, expected in (([], False), (["--no-latch"], True)):
            self.record.unlink(missing_ok=True)
            self.measure("fixture/saxpy", "--size", "tiny", "--mode", "pm", *option)
            (record,) = self.records()
            self.assertEqual("no_latch" in {w["code"] for w in record["warnings"]}, expected)

    def test_a_profiler_is_named_and_no_latch_waits_for_what_it_holds_back(self):
        self.measure("fixture/saxpy", "--size", "tiny", "--mode", "pm", "--samples", "3", ISTHMUS_PROFILER="ncu")
        (record,) = self.records()
        self.assertEqual(record["profiler"], "ncu")
        self.assertIn("no_latch", {w["code"] for w in record["warnings"]})
        self.assertEqual({m.get("batch", 1) for m in record["metrics"]}, {1})

    def test_an_observer_is_named_and_its_figures_are_in_the_record(self):
        observed = ("fixture/saxpy", "--size", "tiny", "--placement", "managed_demand", "--observe", "uvm")
        done = self.measure(*observed, "--samples", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        (record,) = self.records()
        self.assertEqual(record["profiler"], "uvm")
        self.assertIn("emulated", record["notes"]["uvm_source"])
        metrics = {metric["name"]: metric for metric in record["metrics"]}
        self.assertEqual(len(metrics["uvm_faults"]["samples"]), 2)
        self.assertEqual(metrics["uvm_replays"]["samples"], metrics["uvm_batches"]["samples"])
        self.assertEqual({table["name"] for table in record["tables"]}, {"uvm_batches", "uvm_migrations"})

    def test_an_observer_without_what_moved_leaves_it_out(self):
        observed = ("fixture/saxpy", "--size", "tiny", "--placement", "managed_demand", "--observe", "uvm_batches")
        self.assert_refused(self.measure(*observed, "--observe", "uvm"), "choose one of the two")
        done = self.measure(*observed, "--samples", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        (record,) = self.records()
        names = {metric["name"] for metric in record["metrics"]}
        self.assertLessEqual({"uvm_faults", "uvm_service_time"}, names)
        self.assertFalse({"uvm_fault_bytes", "uvm_prefetch_bytes", "uvm_transfer_time"} & names)
        self.assertEqual({table["name"] for table in record["tables"]}, {"uvm_batches"})

    def test_a_brief_observer_has_all_figures_and_no_table_of_moves(self):
        observed = ("fixture/saxpy", "--size", "tiny", "--placement", "managed_demand", "--observe", "uvm_brief")
        self.assert_refused(self.measure(*observed, "--observe", "uvm"), "uvm without the table of migrations")
        done = self.measure(*observed, "--samples", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        (record,) = self.records()
        metrics = {metric["name"]: metric for metric in record["metrics"]}
        self.assertGreater(metrics["uvm_fault_bytes"]["median"] + metrics["uvm_prefetch_bytes"]["median"], 0)
        (table,) = record["tables"]
        self.assertEqual(table["name"], "uvm_batches")
        self.assertEqual(table["rows"], sum(metrics["uvm_batches"]["samples"]))

    def test_an_observer_that_cannot_watch_is_refused_before_any_work(self):
        saxpy = ("fixture/saxpy", "--size", "tiny")
        self.assert_refused(self.measure(*saxpy, "--observe", "uwm"), "no observer 'uwm'", "did you mean 'uvm'?")
        self.assert_refused(self.measure(*saxpy, "--observe", "uvm", ISTHMUS_UVM="maybe"), "ISTHMUS_UVM is 'maybe'")
        self.assert_refused(self.measure("fixture/host_loop", "--observe", "uvm"), "no case of this run uses one")
        nothing = self.measure(*saxpy, "--observe", "uvm", ISTHMUS_EMULATOR="concurrent_managed=0")
        self.assertEqual(nothing.returncode, 1, nothing.stderr)
        self.assertIn("cannot be observed", nothing.stderr)
        self.assertEqual(len(nothing.stderr.splitlines()), 1, nothing.stderr)

    def test_the_drivers_prefetcher_is_off_for_a_case_and_the_record_proves_it(self):
        observed = ("fixture/saxpy", "--size", "tiny", "--placement", "managed_demand", "--observe", "uvm")
        done = self.measure(*observed, "--set", "driver_prefetch=off", "--samples", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        (record,) = self.records()
        metrics = {metric["name"]: metric for metric in record["metrics"]}
        self.assertEqual(record["axes"]["driver_prefetch"], "off")
        self.assertEqual(metrics["uvm_prefetch_bytes"]["samples"], [0.0, 0.0])
        self.assertGreater(metrics["driver_prefetch_setup"]["median"], 0)
        self.assertEqual([w for w in record["warnings"] if w["code"] == "driver_prefetch_on"], [])

    def test_what_a_workload_prepares_itself_is_no_overhead_of_the_harness(self):
        self.measure("fixture/host_loop")
        run = self.records()[0]["run"]
        self.assertGreater(run["wall"], 20e-3)
        self.assertLess(run["overhead"], run["wall"] - 20e-3)

    def test_processes_share_one_file_and_one_run(self):
        done = self.measure("fixture/saxpy", "--size", "tiny", "--processes", "3", "--table")
        self.assertEqual(done.returncode, 0, done.stderr)
        records = self.records()
        self.assertEqual([r["run"]["process"] for r in records], [1, 2, 3])
        self.assertEqual(len({r["run"]["id"] for r in records}), 1)
        self.assertEqual(done.stdout.count("fixture/saxpy"), 3)
        self.assertIn("3 passed, 0 skipped, 0 failed in 3 processes; records in ", done.stdout)

    def test_processes_that_fail_or_have_nothing_to_do_are_counted(self):
        done = self.measure("fixture/saxpy", "--size", "tiny", "--processes", "2", ISTHMUS_INJECT="launch:1:failure")
        self.assertIn("0 passed, 0 skipped, 2 failed in 2 processes", done.stdout)
        self.assertEqual(done.returncode, 1)

    def test_a_process_that_only_starts_others_asks_no_device_what_it_is(self):
        # Querying a GPU creates a context on it, so the measuring processes would report this process as foreign.
        done = self.measure("fixture/saxpy", "--size", "tiny", "--processes", "2", ISTHMUS_INJECT="info:1:failure")
        self.assertEqual((done.returncode, done.stderr.count("injected")), (1, 2), done.stderr)

    def test_what_no_process_could_take_is_said_by_the_first_of_them_alone(self):
        done = self.measure("fixture/saxpy", "--device", "7", "--processes", "3")
        self.assertEqual((done.returncode, done.stderr.count("there is no device 7")), (2, 1), done.stderr)
        self.assertFalse(self.record.exists())

    def test_a_preset_says_how_often_and_how_long_where_the_command_does_not(self):
        self.measure("fixture/host_loop", "--preset", "fixture-repeated")
        records = self.records()
        self.assertEqual([r["run"]["process"] for r in records], [1, 2])
        for record in records:
            self.assertGreater(record["run"]["wall"], 0.05)
        self.record.unlink()
        self.measure("fixture/host_loop", "--preset", "fixture-repeated", "--processes", "1", "--samples", "2")
        (record,) = self.records()
        self.assertEqual(len(record["metrics"][0]["samples"]), 2)

    # --- fresh processes -----------------------------------------------------------------------------

    def test_a_fresh_process_reports_what_it_measured(self):
        done = self.measure("fresh/process", "--processes", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        records = self.records()
        self.assertEqual([r["verify"]["status"] for r in records], ["pass", "pass"])
        metrics = {m["name"]: m for m in records[0]["metrics"]}
        self.assertEqual((metrics["first"]["samples"], metrics["first"]["stop"]), ([2.5], "single"))
        self.assertEqual(metrics["first"]["timer"], "clock")
        process = metrics["process"]
        self.assertEqual((len(process["samples"]), process["warmups"], process["stop"]), (3, 1, "samples"))
        self.assertEqual(metrics["processes"]["median"], 4)

    def test_a_case_that_limits_its_sampling_takes_as_many_samples_as_the_user_asks_for(self):
        self.measure("fresh/process", "--samples", "5", "--warmups", "0")
        process = next(m for m in self.records()[0]["metrics"] if m["name"] == "process")
        self.assertEqual((len(process["samples"]), process["warmups"]), (5, 0))

    def test_what_goes_wrong_in_a_fresh_process_is_said_in_one_sentence(self):
        for what, code, field, sentence in (
            (1, 0, "skipped", "there is nothing"),
            (2, 1, "error", "in a fresh process: it went wrong"),
            (3, 1, "error", "ended by signal 9"),
            (4, 1, "error", "ended with exit code 5"),
        ):
            with self.subTest(what):
                self.record.unlink(missing_ok=True)
                done = self.measure("fresh/process", "--set", f"what={what}")
                self.assertEqual(done.returncode, code)
                self.assertIn(sentence, self.records()[0][field])

    # --- families ------------------------------------------------------------------------------------

    def test_a_family_is_listed_briefly_and_said_to_be_one(self):
        text = self.run_bench("list", "moves/*gpu3*").stdout
        self.assertIn("moves/*: 7 workloads", text)
        self.assertNotIn("4KiB", text)
        for line in text.splitlines():
            self.assertLessEqual(len(line), 80)
        self.assertIn("bytes=4KiB", self.run_bench("list", "moves/gpu3-gpu2/ce").stdout)
        families = {w["name"]: w["family"] for w in json.loads(self.run_bench("list", "--json").stdout)["workloads"]}
        self.assertEqual(families["moves/gpu0-gpu0/ce"], "moves/")
        self.assertIsNone(families["fixture/saxpy"])

    def test_a_member_that_this_machine_lacks_is_skipped_with_the_reason(self):
        done = self.measure("moves/gpu40-gpu0/ce", "--size", "tiny")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([r["skipped"] for r in self.records()], ["there is no gpu40 here"])

    def test_resume_tells_cases_apart_by_every_axis(self):
        self.measure("moves/gpu0-gpu0/ce", "--set", "bytes=1KiB,2KiB", "--set", "streams=1")
        done = self.measure("moves/gpu0-gpu0/ce", "--set", "bytes=1KiB,2KiB,3KiB", "--set", "streams=all", "--resume")
        self.assertIn("4 passed, 0 skipped, 0 failed, 2 done before", done.stdout)
        axes = [(r["axes"]["bytes"], r["axes"]["streams"]) for r in self.records()]
        self.assertEqual(axes, [(1024, 1), (2048, 1), (1024, 2), (2048, 2), (3072, 1), (3072, 2)])

    def test_resume_says_which_cases_were_measured_otherwise(self):
        run = ("fixture/saxpy", "--size", "tiny", "--mode", "pm,uvm")
        self.measure(*run, "--samples", "2")
        self.assertEqual(self.measure(*run, "--resume", "--samples=2").stderr, "")
        for more, now in ((["--samples", "3"], "--samples 3"), (["--no-latch"], "--no-latch"), ([], "none of these")):
            with self.subTest(more=more):
                done = self.measure(*run, "--resume", *more)
                self.assertEqual(done.returncode, 0, done.stderr)
                said = f"2 of the cases in the record were measured with other options (--samples 2, now {now}"
                self.assertIn(said, done.stderr)
        self.assertEqual(len(self.records()), 2)

    def test_resume_says_which_cases_were_measured_elsewhere(self):
        run = ("fixture/host_loop", "--samples", "2")
        self.measure(*run)
        record = self.records()[0]
        for changed, said in (
            ({"run": {**record["run"], "node": "node07"}}, "(node node07, here "),
            ({"host": {**record["host"], "cpu": "Old CPU"}}, "(CPU Old CPU, here "),
            ({"run": {**record["run"], "git": "1234567"}}, "(commit 1234567, here "),
        ):
            with self.subTest(said=said):
                self.record.write_text(json.dumps({**record, **changed}) + "\n")
                done = self.measure(*run, "--resume", "--quiet")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(
                    "1 of the cases in the record was measured elsewhere or with other software " + said, done.stderr
                )

    def test_what_would_choose_nothing_is_refused(self):
        for option, value in (("--placement", "pinned"), ("--staging", "direct"), ("--mode", "pm")):
            with self.subTest(option=option):
                done = self.measure("fixture/host_loop", option, value)
                self.assert_refused(done, f"{option} has no effect on fixture/host_loop, which offers no choice")
        self.assertEqual(self.measure("fixture/host_loop", "--placement", "all").returncode, 0)
        done = self.run_bench("run", "fixture/*", "--placement", "pinned", "--dry-run")
        self.assertIn("workloads, which offer no choice", done.stderr)

    def test_a_slow_reader_of_a_pipe_that_does_not_block_gets_all(self):
        whole = self.run_bench("list", "--json").stdout.encode()
        ends = os.pipe()
        os.set_blocking(ends[1], False)
        fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, 4096)
        with subprocess.Popen([BENCH, "list", "--json"], stdout=ends[1]) as program:
            os.close(ends[1])
            time.sleep(0.1)
            with open(ends[0], "rb") as reader:
                self.assertEqual(reader.read(), whole)
        self.assertEqual(program.returncode, 0)
        self.assertGreater(len(whole), 4096)

    def test_a_file_that_is_not_used_is_not_hashed(self):
        """Skips a case that would use a file. Hashing the file would take minutes if it had hundreds of gigabytes."""
        numbers = self.folder / "numbers.bin"
        numbers.write_bytes(bytes(1024))
        run = ("fixture/numbers", "--set", "source=file", "--placement", "pinned", "--samples", "1")
        self.measure(*run, ISTHMUS_FIXTURE_NUMBERS=str(numbers), ISTHMUS_HOST_MEMORY="1KiB")
        self.measure(*run, ISTHMUS_FIXTURE_NUMBERS=str(numbers))
        skipped, measured = self.records()
        self.assertIn("of host memory", skipped["skipped"])
        self.assertNotIn("input_file", skipped)
        self.assertEqual(measured["input_file"]["bytes"], 1024)

    def test_settings_that_not_all_take_are_said_once(self):
        done = self.measure("moves/*", "--set", "streams=2", "--processes", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("workloads, which do not have it"), 1)
        self.assertEqual(self.measure("moves/*", "--set", "streams=2", "--quiet").stderr, "")

    def test_a_size_sweep_runs_the_workloads_own_list(self):
        self.measure("moves/gpu0-gpu0/ce", "--size-sweep")
        self.assertEqual([r["axes"]["bytes"] for r in self.records()], [4 << 10, 64 << 10, 1 << 20])

    def test_a_table_of_a_family_has_a_row_for_each_size_with_its_share_of_the_limit(self):
        done = self.measure("moves/*", "fixture/host_loop", "--size-sweep", "--table")
        self.assertRegex(done.stdout, r"(?m)^moves/gpu0-gpu0/ce +1MiB +rate +1\.00 GB/s +50% ")
        for line in done.stdout.splitlines()[:-1]:
            self.assertLessEqual(len(line), 80)

    def test_help_fits_80_columns(self):
        for arguments in (["--help"], ["run", "--help"], ["list", "--help"]):
            for line in self.run_bench(*arguments).stdout.splitlines():
                self.assertLessEqual(len(line), 80, line)

    def test_a_broken_driver_does_not_break_the_list(self):
        done = self.run_bench("list", "moves/*", ISTHMUS_INJECT="count:1")
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (0, 1), done.stderr)
        self.assertIn("isthmus-bench: the number of GPUs is unknown, so only workloads for one GPU", done.stderr)
        self.assertIn("count", done.stderr)
        self.assertIn("moves/gpu0-gpu0/ce", done.stdout)
        self.assertEqual(self.run_bench("list", "moves/*").stderr, "")

    # --- records that are already on disk ------------------------------------------------------------

    def test_half_a_record_at_the_end_is_taken_back_and_said(self):
        self.measure("fixture/saxpy", "--size", "tiny", "--mode", "pm")
        whole = self.record.read_text()
        half = whole[: len(whole) // 2]
        for processes in ("1", "2"):
            with self.subTest(processes=processes):
                self.record.write_text(whole + half)
                done = self.measure("fixture/saxpy", "--size", "tiny", "--mode", "uvm", "--processes", processes)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(
                    done.stderr.count(f"ended with an incomplete line ({len(half)} bytes)"), 1, done.stderr
                )
                self.assertEqual([r["mode"] for r in self.records()], ["pm"] + ["uvm"] * int(processes))

    def test_resume_goes_on_after_half_a_record_and_names_one_in_the_middle(self):
        self.measure("fixture/saxpy", "--size", "tiny", "--mode", "pm")
        whole = self.record.read_text()
        half = whole[: len(whole) // 2]
        self.record.write_text(half + "\n" + whole + half)
        resume = ("fixture/saxpy", "--size", "tiny", "--mode", "pm,uvm", "--resume")
        done = self.measure(*resume)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("ended with an incomplete line", done.stderr)
        self.assertIn(f"line 1 of the record {self.record} is not a complete record", done.stderr)
        lines = self.record.read_text().splitlines()
        self.assertEqual(lines[:2], [half, whole.strip()])
        self.assertEqual(json.loads(lines[2])["mode"], "uvm")
        done = self.measure(*resume, "--quiet")
        self.assertEqual(done.stderr, "")
        self.assertEqual(len(self.record.read_text().splitlines()), 3)
        self.record.write_text("".join(line + "\n" for line in lines[1:]))
        done = self.measure(*resume)
        self.assertIn("2 done before", done.stdout)
        self.assertEqual(done.stderr, "")

    def test_a_full_disk_is_an_error(self):
        done = self.run_bench("run", "fixture/saxpy", "--size", "tiny", "--record", "/dev/full")
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("/dev/full", done.stderr)

    def test_a_file_that_may_not_grow_is_an_error_with_its_sentence(self):
        self.measure("fixture/saxpy", "--size", "tiny")
        before = self.record.read_text()
        limits = (len(before) + 100,) * 2
        done = subprocess.run(
            [BENCH, "run", "fixture/saxpy", "--size", "tiny", "--record", str(self.record)],
            capture_output=True, text=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limits),
        )  # fmt: skip
        # The exit code is 1 instead of 2 because measured data are lost: the failure was not found before any work.
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("could not be written (File too large); its earlier contents are untouched", done.stderr)
        self.assertEqual(self.record.read_text(), before)
        self.assertEqual(self.measure("fixture/saxpy", "--size", "tiny", "--resume").returncode, 0)

    def test_a_record_is_given_no_name_of_a_packed_file(self):
        for name in ("x.jsonl.gz", "x.GZ", "x.bz2", "x.jsonl.Xz", "x.zst"):
            with self.subTest(name=name):
                done = self.run_bench("run", "fixture/saxpy", "--size", "tiny", "--record", str(self.folder / name))
                self.assert_refused(done, "plain text under the name of a compressed file")
                self.assertFalse((self.folder / name).exists())

    def test_output_that_goes_nowhere_is_an_error(self):
        run = ["run", "fixture/saxpy", "--size", "tiny", "--record", str(self.record)]
        for arguments in (["info"], ["list"], ["--help"], [*run, "--dry-run"], [*run, "--table"]):
            with self.subTest(arguments=arguments), open("/dev/full", "w") as full:
                done = subprocess.run([BENCH, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn("standard output could not be written", done.stderr)

    def test_a_dry_run_says_what_would_fail(self):
        numbers = ("run", "fixture/numbers", "--set", "source=file", "--placement", "pinned")
        cases = {"absent": "No such file", str(self.folder): "it is a folder"}
        for path, why in cases.items():
            with self.subTest(path=path):
                for way in ((), ("--dry-run",)):
                    done = self.run_bench(*numbers, *way, "--record", str(self.record), ISTHMUS_FIXTURE_NUMBERS=path)
                    self.assertEqual(done.returncode, 1, done.stdout)
                    self.assertIn(why, done.stdout + done.stderr)
                self.assertIn("would fail", done.stdout)
                self.assertIn("1 of 1 cases would fail", done.stderr)
        done = self.run_bench(*numbers, "--dry-run")  # the variable is unset, so the case is skipped as in a real run
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("would be skipped", done.stdout)

    def test_a_dry_run_that_resumes_prices_what_is_left(self):
        run = ("fixture/saxpy", "--size", "tiny", "--placement", "pinned,mapped", "--processes", "2")
        self.measure("fixture/saxpy", "--size", "tiny", "--placement", "pinned", "--processes", "2")
        self.assertTrue(self.measure(*run, "--dry-run").stdout.splitlines()[-1].startswith("4 cases, "))
        *cases, last = self.measure(*run, "--dry-run", "--resume").stdout.splitlines()
        self.assertEqual([case.endswith(": done before") for case in cases], [True, False])
        self.assertRegex(last, "^2 cases, .*, 2 done before$")
        lines = self.record.read_text().splitlines(keepends=True)
        self.record.write_text(lines[0])  # keeps only the record of the first process
        last = self.measure(*run, "--dry-run", "--resume").stdout.splitlines()[-1]
        self.assertRegex(last, "^3 cases, .*, 1 done before$")
        self.measure(*run, "--resume")
        last = self.measure(*run, "--dry-run", "--resume").stdout.splitlines()[-1]
        self.assertRegex(last, "^0 cases.*, 4 done before$")

    BROKEN_STREAMS = ("full", "closed", "a pipe that nobody reads")

    def run_with_broken(self, stream, how, *arguments):
        """Runs the program with stdout (stream 1) or stderr (2) broken; the result has the text of the other stream."""

        def invalidate():
            if how == "full":
                os.dup2(os.open("/dev/full", os.O_WRONLY), stream)
            elif how == "closed":
                os.close(stream)
            else:
                reading, writing = os.pipe()
                os.dup2(writing, stream)
                os.close(writing)
                os.close(reading)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as if a shell had started the program

        return subprocess.run(
            [BENCH, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=self.folder,
            timeout=120, preexec_fn=invalidate,
        )  # fmt: skip

    def test_diagnostics_that_go_nowhere_end_nothing(self):
        # This run reports both skipped cases and wrong results on stderr.
        run = ("run", "fixture/saxpy", "--placement", "all", "--size", "tiny",
               "--set", "fault=wrong", "--record", str(self.record))  # fmt: skip
        usual = self.run_bench(*run)
        self.assertEqual(usual.returncode, 1, usual.stderr)
        self.assertGreater(len(usual.stderr.splitlines()), 3)
        count = len(self.records())
        for how in self.BROKEN_STREAMS:
            with self.subTest(stderr=how):
                self.record.unlink(missing_ok=True)
                done = self.run_with_broken(2, how, *run)
                self.assertEqual((done.returncode, len(self.records())), (1, count))
                self.assertEqual(self.run_with_broken(2, how, "lisst").returncode, 2)
                self.assertEqual(self.run_with_broken(2, how, "run", "fixture/saxpy", "--dry-run").returncode, 0)
                self.record.unlink(missing_ok=True)
                done = self.run_with_broken(2, how, *run, "--processes", "2")
                self.assertEqual((done.returncode, len(self.records())), (1, 2 * count))

    def test_output_that_nobody_reads_loses_no_record(self):
        run = ("run", "fixture/saxpy", "--placement", "all", "--size", "tiny", "--table", "--record", str(self.record))
        self.run_bench(*run)
        count = len(self.records())
        for how in self.BROKEN_STREAMS:
            with self.subTest(stdout=how):
                self.record.unlink(missing_ok=True)
                done = self.run_with_broken(1, how, *run)
                self.assertEqual((done.returncode, len(self.records())), (1, count), done.stderr)
                self.assertIn("standard output could not be written", done.stderr)

    # --- record files that other programs change during a run -------------------------------------------

    def start_slow_run(self, *arguments):
        """Starts a run of six cases and returns once the first record is on disk."""
        child = subprocess.Popen(
            [BENCH, "run", "fixture/saxpy", "--size", "tiny", "--samples", "200", "--set", "threads=32,64,128",
             "--staging", "none,direct", "--record", str(self.record), *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
        )  # fmt: skip
        self.wait_until(lambda: self.record.exists() and self.record.read_text().count("\n") > 0, 60)
        return child

    def test_a_record_that_is_removed_or_cut_is_whole_at_the_end(self):
        for invalidate in (self.record.unlink, lambda: self.record.write_text("")):
            with self.subTest(invalidate=invalidate):
                self.record.unlink(missing_ok=True)
                child = self.start_slow_run()
                invalidate()
                errors = child.communicate(timeout=120)[1]
                self.assertEqual((child.returncode, len(self.records())), (0, 6), errors)
                self.assertRegex(errors, "was (removed|truncated) during the run")

    def test_a_record_that_is_moved_is_named(self):
        child = self.start_slow_run()
        moved = self.record.rename(self.folder / "moved.jsonl")
        errors = child.communicate(timeout=120)[1]
        self.assertEqual(child.returncode, 0, errors)
        self.assertIn(str(moved), errors)
        self.assertEqual(len(self.records()) + moved.read_text().count("\n"), 6)

    def test_a_folder_that_cannot_be_made_again_is_told_with_the_number_lost(self):
        folder = self.record = self.folder / "inner"
        folder.mkdir()
        self.record = folder / "record.jsonl"
        child = self.start_slow_run()
        self.record.unlink()
        folder.rmdir()
        folder.write_text("in the way")
        errors = child.communicate(timeout=120)[1]
        self.assertEqual(child.returncode, 1, errors)
        self.assertRegex(errors, "[1-6] of its records could not be kept")

    def test_records_that_earlier_processes_lose_are_counted(self):
        child = self.start_slow_run("--processes", "2")
        self.wait_until(lambda: self.record.read_text().count('"process":2') > 0, 60)
        lines = self.record.read_text().splitlines(keepends=True)
        self.record.write_text("".join(lines[3:]))
        errors = child.communicate(timeout=120)[1]
        self.assertEqual(child.returncode, 1, errors)
        self.assertIn("3 records of earlier processes are no longer in", errors)

    # --- signals while a process starts -----------------------------------------------------------------

    def test_a_signal_that_comes_as_a_process_starts_is_passed_on(self):
        source = self.folder / "raise.c"
        source.write_text(
            "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <signal.h>\n#include <spawn.h>\n"
            "int posix_spawn(pid_t* p, const char* f, const posix_spawn_file_actions_t* a, const posix_spawnattr_t* t,"
            " char* const v[], char* const e[]) {\n"
            '  int (*real)() = (int (*)())dlsym(RTLD_NEXT, "posix_spawn");\n'
            "  int result = ((int (*)(pid_t*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*,"
            " char* const[], char* const[]))real)(p, f, a, t, v, e);\n"
            "  raise(SIGTERM);\n  return result;\n}\n"
        )
        library = self.folder / "raise.so"
        built = subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"])
        if built.returncode != 0:
            self.skipTest("there is no C compiler")
        begin = time.monotonic()
        # Without this option, ASan's runtime refuses to run with another preloaded library.
        environment = {"LD_PRELOAD": str(library), "ASAN_OPTIONS": "verify_asan_link_order=0"}
        done = self.measure("fixture/saxpy", "--samples", "100000", "--processes", "2", **environment)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertLess(time.monotonic() - begin, 15)

    def test_a_table_goes_into_no_record(self):
        for stream in (0, 1, 2):
            with self.subTest(closed=stream):
                self.record.unlink(missing_ok=True)
                done = subprocess.run(
                    [BENCH, "run", "fixture/saxpy", "--size", "tiny", "--table", "--record", str(self.record)],
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    preexec_fn=functools.partial(os.close, stream),
                )
                self.assertEqual(done.returncode, 1 if stream == 1 else 0, done.stderr)
                self.assertEqual(len(self.records()), 1)

    def test_names_are_echoed_on_one_line(self):
        self.assert_refused(self.measure("no\nsuch\x1bworkload"), "no\\nsuch\\x1bworkload")

    def test_resume_does_not_wait_for_a_pipe_or_a_device(self):
        os.mkfifo(self.folder / "pipe")
        for path in ("/dev/full", str(self.folder / "pipe")):
            with self.subTest(path=path):
                done = self.run_bench("run", "fixture/saxpy", "--size", "tiny", "--record", path, "--resume")
                self.assertEqual(done.returncode, 1 if path == "/dev/full" else 2, done.stderr)

    def test_a_pipe_takes_the_records_or_is_refused(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        self.assert_refused(self.run_bench("run", "fixture/saxpy", "--record", str(pipe)), "nobody reads the pipe")
        with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True) as reader:
            for _ in range(100):  # repeats until cat reads from the pipe
                done = self.run_bench("run", "fixture/saxpy", "--size", "tiny", "--record", str(pipe))
                if done.returncode != 2:
                    break
            read = reader.communicate(timeout=60)[0]
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([json.loads(line)["workload"] for line in read.splitlines()], ["fixture/saxpy"])

    def test_a_signal_that_is_ignored_stays_so(self):
        child = subprocess.Popen(
            [BENCH, "run", "fixture/saxpy", "--size", "tiny", "--min-time", "2", "--record", str(self.record)],
            stdout=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        )  # fmt: skip
        child.stdout.readline()  # after the line "1 case", the program handles signals
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)
        self.assertEqual(child.returncode, 0)
        self.assertNotIn("interrupted", {m["stop"] for m in self.records()[0]["metrics"]})

    def run_that_is_sent(self, number, pause, processes):
        self.record.unlink(missing_ok=True)
        child = subprocess.Popen(
            [BENCH, "run", "fixture/saxpy", "--samples", "100000", "--record", str(self.record),
             "--processes", processes],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        child.stdout.readline()  # after the line "1 case", the program handles signals
        time.sleep(pause)
        child.send_signal(number)
        child.printed, errors = child.communicate(timeout=60)
        return child, errors

    def test_a_signal_ends_after_the_sample_with_valid_records(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            for processes in ("1", "2"):
                with self.subTest(signal=number, processes=processes):
                    # On a busy machine the case may not have started yet, so the next attempt sends the signal later.
                    for pause in (0.5, 2, 8):
                        child, errors = self.run_that_is_sent(number, pause, processes)
                        self.assertEqual(child.returncode, 3, errors)
                        if self.record.exists() and self.records():
                            break
                    (record,) = self.records()
                    self.assertIn("interrupted", {m["stop"] for m in record["metrics"]})
                    self.assertEqual(record["verify"]["status"], "pass")
                    self.assertIn("0 passed, 0 skipped, 0 failed, 1 interrupted", child.printed)

    def test_a_process_does_not_go_on_without_the_one_that_started_it(self):
        for number in (signal.SIGKILL, signal.SIGUSR1):
            with self.subTest(signal=number):
                self.record.unlink(missing_ok=True)
                parent = subprocess.Popen(
                    [BENCH, "run", "fixture/saxpy", "--samples", "100000", "--processes", "2", "--record",
                     str(self.record)],
                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                )  # fmt: skip
                parent.stdout.readline()
                children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
                while not (child := children.read_text().strip()):
                    time.sleep(0.05)
                time.sleep(2)
                parent.send_signal(number)
                parent.communicate(timeout=60)
                stat = Path(f"/proc/{child}/stat")
                for _ in range(400):
                    if not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z":
                        break
                    time.sleep(0.05)
                else:
                    self.fail("it goes on")
                self.assertIn("interrupted", {m["stop"] for m in self.records()[0]["metrics"]})

    def run_in_its_own_group(self, *arguments):
        self.record.unlink(missing_ok=True)
        child = subprocess.Popen(
            [BENCH, "run", *arguments, "--record", str(self.record)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        child.stdout.readline()  # after the line "1 case", the program handles signals
        time.sleep(1)
        return child

    def test_a_signal_that_comes_twice_at_once_ends_as_one_does_and_a_later_one_at_once(self):
        child = self.run_in_its_own_group("fixture/saxpy", "--samples", "100000")
        child.send_signal(signal.SIGINT)
        os.killpg(child.pid, signal.SIGINT)  # timeout(1) also signals both the process and its group
        errors = child.communicate(timeout=60)[1]
        self.assertEqual((child.returncode, len(self.records())), (3, 1), errors)
        child = self.run_in_its_own_group("fixture/beyond", "--set", "what=slow")
        child.send_signal(signal.SIGINT)
        time.sleep(1)
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)
        self.assertEqual(child.returncode, -signal.SIGINT)

    # --- injected failures ---------------------------------------------------------------------------

    def test_every_injected_failure_is_one_sentence_and_loses_nothing(self):
        calls = json.loads(self.run_bench("info", "--json").stdout)["injectable_calls"]
        self.assertGreater(len(calls), 30)
        placements = "pageable,pinned,streamed,pool,mapped,managed,managed_advise"
        self.measure("fixture/saxpy", "--size", "tiny")
        before = self.record.read_text()
        met = set()
        for call in calls:
            for occurrence, kind in ((1, "failure"), (2, "lost"), (5, "failure"), (3, "unsupported")):
                with self.subTest(call=call, occurrence=occurrence, kind=kind):
                    self.record.write_text(before)
                    done = self.measure(
                        *("fixture/saxpy", "--placement", placements, "--size", "tiny"),
                        ISTHMUS_INJECT=f"{call}:{occurrence}:{kind}",
                    )
                    self.assertTrue(self.record.read_text().startswith(before))
                    records = self.records()[1:]
                    usual = ("made fewer such calls", "so only workloads for one GPU are listed")
                    sentences = [s for s in done.stderr.splitlines() if not any(each in s for each in usual)]
                    for sentence in sentences:
                        self.assertTrue(sentence.startswith("isthmus-bench: "), done.stderr)
                    hurt = [r for r in records if r["error"] or r["skip_kind"] == "unsupported"]
                    for record in hurt:
                        self.assertIn(call, record["error"] or record["skipped"])
                    if sentences:
                        met.add(call)
                    if not sentences:  # the call was made fewer times, or failed in cleaning up, which loses nothing
                        self.assertEqual(done.returncode, 0)
                        self.assertEqual(len(records), 7)
                    elif not records:  # the call failed before the first case
                        self.assertEqual((done.returncode, len(sentences)), (1, 1), done.stderr)
                    elif kind == "unsupported":
                        self.assertEqual((done.returncode, len(hurt)), (0, 1), done.stderr)
                    elif kind == "lost":
                        self.assertEqual((done.returncode, len(hurt)), (3, 1), done.stderr)
                        self.assertIs(hurt[0], records[-1])
                    else:
                        self.assertEqual((done.returncode, len(hurt), len(records)), (1, 1, 7), done.stderr)
        unmet = set(calls) - met
        # Measuring in these placements does not make these calls, or makes them only for cleaning up (synchronize).
        for call in (
            "synchronize",
            "register_host",
            "unregister_host",
            "malloc_static_managed",
            "free_static_managed",
            "memory_granularity",
            "reserve_addresses",
            "release_addresses",
            "create_memory",
            "release_memory",
            "map_memory",
            "unmap_memory",
            "set_access",
            "stream_idle",
            "event_synchronize",
            "event_done",
            "copy_to_symbol",
            "copy_from_symbol",
            "blas_create",
            "blas_sgemm",
            "blas_sgemv",
            "blas_strsm",
            "convolutions_create",
            "convolutions_plan",
            "convolutions_run",
            "fft_create",
            "fft_set_workspace",
            "fft_run",
            "peer_info",
            "enable_peer_access",
            "disable_peer_access",
            "copy_strided_async",
            "copy_batch_async",
            "write_values_async",
            "prefetch_batch",
            "discard_batch",
            "discard_and_prefetch_batch",
            "graph_create",
            "graph_nodes",
            "executable_graph_create",
            "executable_graph_launch",
        ):
            unmet.discard(call)
        self.assertEqual(unmet, set())


if __name__ == "__main__":
    unittest.main()
