"""Reading and keeping the records of a job."""

import itertools
import json
import pathlib

import reframe as rfm
import reframe.core.builtins as builtins
from reframe.core.exceptions import SanityError

from isthmus import inputs, spelling
from isthmus.records import load, validate
from isthmus_reframe import jobs, profilers
from isthmus_reframe.gates import retries, session_files
from isthmus_reframe.job_files import PROGRAM, WITHOUT_PROFILER, Run, said
from isthmus_reframe.store import MOST_RECORDS, keep_record, whole_records


class RecordKeeper(rfm.RegressionTestPlugin):
    """Mixin that keeps what was measured, even if the check fails."""

    def _read_record(self, run) -> list[dict]:
        path = pathlib.Path(self.stagedir) / run.record
        if not path.exists():
            code = jobs.exit_code_in_words(self._exit_code(run))
            raise SanityError(
                f"no record: isthmus-bench ended with exit code {code} and wrote none{self._complaint(run)}"
            )
        if (size := path.stat().st_size) > MOST_RECORDS:
            most = MOST_RECORDS // inputs.MIB
            raise SanityError(f"{path} has {size // inputs.MIB} MiB, more than the {most} MiB that records may have")
        try:
            cases = load.read(path) if size else []
        except validate.RecordError as error:
            kept = self.keep_what_is_left(run)
            code = self._exit_code(run)  # a killed job explains a truncated line
            if code and (end := jobs.abnormal_end(self.job)):
                raise (retries.Interrupted if jobs.was_interrupted(self.job) else SanityError)(f"{end}{kept}") from None
            why = f" ({why})" if (why := jobs.complaint(said(self, run.said).text)) else ""
            end = f"isthmus-bench ended with exit code {jobs.exit_code_in_words(code)}{why}, and " if code else ""
            raise SanityError(f"{end}the record cannot be taken: {error}{kept}") from None
        self.keep_fingerprint(cases)
        if cases:
            self._keep(run, path, cases)
        for table in itertools.chain.from_iterable(case["tables"] for case in cases):
            try:
                load.table_path(path, table)
            except validate.RecordError as error:
                raise SanityError(str(error)) from None
        return cases

    def _keep_record(self, path, contents=None) -> pathlib.Path:
        kept = keep_record(path, f"{self.current_partition.fullname}-{self.record_name()}", contents)
        session_files.mark_kept(path)
        self.kept = [*self.kept, str(kept.absolute())]
        return kept

    def _keep(self, run, path, cases):
        """Keeps the record, with a warning if other jobs ran on the node."""
        contents = None
        if message := jobs.company(self.job, self.stagedir):
            for case in cases:
                case["warnings"].append({"code": "shared_node", "message": message, "samples": None})
            contents = "".join(json.dumps(case, ensure_ascii=False) + "\n" for case in cases).encode()
        kept = self._keep_record(path, contents)
        if run is PROGRAM:
            profilers.keep(pathlib.Path(self.stagedir), kept)

    def keep_what_is_left(self, *runs: Run) -> str:
        """Keeps the records of a job that the check, or ReFrame, gave up. Returns a text with their number."""
        if self.is_dry_run() or not self.stagedir:
            return ""
        number = 0
        for path in (pathlib.Path(self.stagedir) / run.record for run in runs or (WITHOUT_PROFILER, PROGRAM)):
            if path.exists() and not session_files.is_kept(path) and (whole := whole_records(path)):
                self._keep_record(path, b"".join(whole))
                number += len(whole)
        return f"; {spelling.counted(number, 'whole record', 'are')} kept" if number else ""

    @builtins.run_before("cleanup")
    def keep_unjudged(self):
        """Keeps the records of a check that ReFrame did not judge, before it removes the stage folder."""
        self.keep_what_is_left()
