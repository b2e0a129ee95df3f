"""Summarises a night for other programs, from the reports of its ReFrame sessions: JSON, JUnit, or both.

Reports are the files that ReFrame writes (--report-file, or reports/run-report-N.json); `scripts/run-checks --summary
FOLDER` runs the checks and writes the summary. Each check is summarised with its verdict and reason, its figures and
their references, the software that it used, the people to contact, and the paths of its records. A night is red for any
of these reasons: a check failed, was given up or ended with an unknown result; a record that a report names is gone; a
session was told not to judge; or a session measured nothing, because none of its checks passed with a figure, as in a
dry run. A check that was interrupted at the end of a session with --duration is neither red nor green if an earlier
pass measured it; if no pass measured it, the night is red.

exit codes: 0 the night is green; 1 it is red; 2 bad input, such as a file that is not a report
"""

from __future__ import annotations

import itertools
import json
import os
import shlex
import sys
from xml.etree import ElementTree

from isthmus import Error, exits, inputs, spelling
from isthmus.grouping import grouped
from isthmus.tables import output

SCHEMA = "isthmus.night/1"
#: Results of ReFrame for a check that are green, and those that count as skipped; all other results are red.
GREEN, SKIPPED = ("pass", "xfail"), ("skip",)
#: Result of a case that was still running when a session ended after its --duration, as requested.
INTERRUPTED = "interrupted"
GONE = "gone"  # state of a record file that is missing or empty
_MOST_OF_REPORT = 256 * inputs.MIB  # maximum size of a report, which needs about 10 KiB per case
_SESSION_ENDED = "RunSessionTimeout"  # part of ReFrame's reason for an "abort"
#: Variables in a report that describe the hardware and software of a check.
RAN_WITH = ("device", "driver", "runtime", "compiler", "mpi", "spec", "git", "run_id")


def add_arguments(parser):
    parser.add_argument("reports", nargs="+", metavar="REPORT", help="JSON reports of ReFrame, one per session")
    parser.add_argument("--json", metavar="FILE", type=output.Destination,
                        help="write the summary there (default: to the terminal)")  # fmt: skip
    parser.add_argument("--junit", metavar="FILE", type=output.Destination,
                        help="write it as JUnit, a test suite for each partition")  # fmt: skip
    parser.set_defaults(check_output=output.check_destinations)


def run(arguments) -> int:
    reports = _sessions(arguments.reports)
    try:
        summary = summarise(reports)
        text = json.dumps(summary, indent=1, allow_nan=False) + "\n"
        drawn = junit(summary)
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        which = " ".join(map(str, arguments.reports))
        raise Error(f"{which}: a field of a report is not as ReFrame 4.10 writes it ({error})") from None
    if arguments.junit:
        output.deliver(drawn, arguments.junit)
    if arguments.json or not arguments.junit:
        output.deliver(text, arguments.json or "-")
    print(f"{summary['verdict']}: {summary['why']}", file=sys.stderr)
    return exits.PASSED if summary["verdict"] == "green" else exits.FOUND


def _sessions(paths) -> list[dict]:
    """Loads the reports, each session once. Raises Error if two reports of a session differ."""
    found: dict[str, tuple] = {}
    for path in paths:
        report = load(path)
        uuid = report["session_info"].get("uuid")
        first, known = found.setdefault(uuid if isinstance(uuid, str) else f"{path} {len(found)}", (path, report))
        if known is not report and known != report:
            raise Error(f"{path}: another report of the session that {first} has ({uuid}); name one of them")
        if known is not report:
            print(f"{path}: the same session as {first}, which is counted once", file=sys.stderr)
    return [report for _, report in found.values()]


def load(path) -> dict:
    """Loads a report of ReFrame. Raises Error, with the path, if the file is not a complete report."""
    try:
        report = inputs.json_of(inputs.read_small(path, _MOST_OF_REPORT))
        cases = [case for run in report["runs"] for case in run["testcases"]]
        if not isinstance(report["session_info"], dict) or not all(isinstance(case["result"], str) for case in cases):
            raise TypeError
    except OSError as error:
        raise Error(f"{path}: {error.strerror}; a session that ended early leaves no report") from None
    except (ValueError, LookupError, TypeError, RecursionError):
        raise Error(f"{path}: not a report of ReFrame; name a file that --report-file wrote") from None
    for run in report["runs"]:
        listed = len(run["testcases"])
        if run.get("num_cases", listed) != listed:
            raise Error(f"{path}: a run has {listed} of its {run['num_cases']} cases, as where they were filtered; "
                        "name the file that --report-file wrote")  # fmt: skip
    return report


def _result(case: dict) -> str:
    """Returns ReFrame's result of a case, or INTERRUPTED."""
    if case["result"] == "abort" and _SESSION_ENDED in str(case.get("fail_reason")):
        return INTERRUPTED
    return case["result"]


def summarise(reports: list[dict]) -> dict:
    """Summarises the night of these sessions: verdict, reason, counts, sessions, and checks, with red ones first."""
    sessions, checks, named = [], [], []
    for report in reports:
        info = report["session_info"]
        found = [_check(case, info.get("uuid")) for case in _cases_that_count(report)]
        named.append((_session_name(info), found))
        sessions.append({key: info.get(key) for key in ("uuid", "hostname", "cmdline", "version")})
        sessions[-1] |= {"began": info.get("time_start"), "ended": info.get("time_end")}
        checks += found
    checks.sort(key=lambda check: not _is_red(check))
    counts = {
        "green": sum(check["result"] in GREEN for check in checks),
        "unmeasured": sum(map(_is_unmeasured, checks)),
        "red": sum(map(_is_red, checks)),
        "skipped": sum(check["result"] in SKIPPED for check in checks),
        "interrupted": sum(check["result"] == INTERRUPTED for check in checks),
        "skipped_cases": sum(len(check["skipped_cases"]) for check in checks),
        "records": sum(len(check["records"]) for check in checks),
    }
    why = _why_red(checks, counts["red"]) or _why_unjudged(named) or _why_empty(named) or _why_unfinished(named)
    return {
        "schema": SCHEMA,
        "verdict": "red" if why else "green",
        "why": why or _why_green(counts, checks),
        "counts": counts,
        "sessions": sessions,
        "checks": checks,
    }


def _is_red(case: dict) -> bool:
    return _result(case) not in (*GREEN, *SKIPPED, INTERRUPTED)


def _is_unmeasured(check: dict) -> bool:
    """Returns whether a check passed without a figure, for instance in a dry run, or because nothing was judged."""
    return check["result"] in GREEN and not check["figures"]


def _why_green(counts: dict, checks: list[dict]) -> str:
    without = f" ({counts['unmeasured']} without a figure)" if counts["unmeasured"] else ""
    ended = f", {counts['interrupted']} interrupted by the end of the session" if counts["interrupted"] else ""
    skipped = f", {counts['skipped']} skipped"
    if partly := [check for check in checks if check["skipped_cases"]]:
        first = f"{partly[0]['name']}: {partly[0]['skipped_cases'][0]}"
        cases = spelling.counted(counts["skipped_cases"], "case", "were")
        skipped += f", and {cases} skipped in {len(partly)} that measured others, the first in {first}"
    return f"{spelling.counted(counts['green'], 'check', 'are')} green{without}{skipped}{ended}"


def _option(report: dict, name: str) -> str:
    """Returns the last value of an option in ReFrame's command line (--x=1, --x 1, or abbreviated as in argparse)."""
    given = ""
    words = shlex.split(str(report["session_info"].get("cmdline") or ""))
    for word, following in zip(words, [*words[1:], ""]):
        option, equals, value = word.partition("=")
        if len(option) > 2 and name.startswith(option):
            given = value if equals else following
    return given


def _case_name(case: dict) -> tuple[str, ...]:
    return tuple(str(case.get(key)) for key in ("unique_name", "system", "partition", "environ"))


def _only_last_try_counts(report: dict) -> bool:
    """Returns whether all later runs are retries of failures (--max-retries), so that ReFrame judges only the last one.

    In a session that repeats everything (--reruns, --duration), ReFrame judges every run, including retries. Options
    may also come from its configuration (--mode), so the runs are examined: a retry contains only checks that failed.
    """
    tries, repeated, lasts = (_option(report, f"--{name}") for name in ("max-retries", "reruns", "duration"))
    if not tries or lasts or repeated.strip() not in ("", "0"):
        return False
    runs = [{_case_name(case): case for case in run["testcases"]} for run in report["runs"]]
    return len(runs) - 1 <= int(tries) and all(
        name in before and before[name]["result"] not in GREEN
        for before, run in itertools.pairwise(runs)
        for name in run
    )


def _cases_that_count(report: dict) -> list[dict]:
    """Returns the last try of each case, or every case of every run: see _only_last_try_counts().

    Builds are left out unless they are red, because the checks that use them show whether they work.
    """
    only_last = _only_last_try_counts(report)
    last = {}
    for number, run in enumerate(report["runs"]):
        for place, case in enumerate(run["testcases"]):
            if case.get("fixture") and not _is_red(case):
                continue
            last[_case_name(case) if only_last else (number, place)] = case
    return list(last.values())


def _check(case: dict, session: str | None) -> dict:
    kept = case.get("kept") or []
    states = [(path, _state_of(path)) for path in kept]
    ran_with = {name: case[name] for name in RAN_WITH if case.get(name)}
    return {
        "name": case.get("display_name") or case.get("name"),
        "system": case.get("system"),
        "partition": case.get("partition"),
        "environment": case.get("environ"),
        "result": _result(case),
        "phase": case.get("fail_phase"),
        "reason": _reason(case),
        "job": case.get("jobid"),
        "nodes": case.get("job_nodelist") or [],
        "seconds": case.get("time_total"),
        "records": kept,
        "missing": [path for path, state in states if state == GONE],
        "unseen": [f"{path} ({state})" for path, state in states if state and state != GONE],
        "figures": _figures(case.get("perfvalues") or {}),
        "ran_with": ran_with,
        "ask": case.get("maintainers") or [],
        "skipped_cases": [spelling.printable(str(each)) for each in case.get("skipped_cases") or []],
        "unjudged": case.get("unjudged") or None,
        "session": session,
    }


def _state_of(path: str) -> str:
    """Returns GONE for a record file that is missing or empty, as on a full disk.

    Returns the system's reason for a file that cannot be examined, and an empty text for any other file.
    """
    try:
        return "" if os.stat(path).st_size > 0 else GONE
    except (FileNotFoundError, NotADirectoryError):
        return GONE
    except OSError as error:
        return error.strerror or str(error)


def _reason(case: dict) -> str | None:
    """Returns ReFrame's reason without its prefix for the phase."""
    reason = case.get("fail_reason") or case.get("skip_reason")
    return spelling.printable(str(reason).removeprefix("sanity error: ")) if reason else None


def _why(check: dict) -> str:
    """Returns the best explanation of a check's result that the report contains."""
    return check["reason"] or check["phase"] or check["result"] or "the report gives no result"


def _figures(values: dict) -> dict:
    """Returns figures keyed by name; `values` maps names to ReFrame's [value, reference, lower, upper, unit, …]."""
    found = {}
    for name, entry in values.items():
        value, reference, lower, upper, unit = entry[:5]
        figure = {"value": output.plain(value), "unit": unit}
        if reference:
            figure |= {"reference": output.plain(reference), "lower": output.plain(lower), "upper": output.plain(upper)}
        found[name.split(":")[-1]] = figure
    return found


def _why_red(checks: list[dict], red: int) -> str:
    """Returns a clause that explains why checks make the night red; empty if none does."""
    if red:
        first = checks[0]
        return f"{red} of {len(checks)} checks are red, the first is {first['name']}: {_why(first)}"
    if gone := [path for check in checks for path in check["missing"]]:
        return f"{spelling.counted(len(gone), 'record', 'are')} gone or empty, the first is {gone[0]}"
    if unseen := [path for check in checks for path in check["unseen"]]:
        count = spelling.counted(len(unseen), "record")
        return f"{count} cannot be examined, so it is unknown whether they exist: make {unseen[0]} readable"
    return ""


def _session_name(info: dict) -> str:
    """Returns a session's name: its begin and command line, as far as the report contains them."""
    said = [str(info[key]) for key in ("time_start", "cmdline") if info.get(key)]
    return spelling.printable(spelling.shorten(", ".join(said) or str(info.get("uuid")), 120))


def _why_unjudged(sessions: list[tuple[str, list[dict]]]) -> str:
    """Returns a clause if the night is red because a session was told not to judge; otherwise an empty text."""
    for name, checks in sessions:
        for check in checks:
            if check["unjudged"]:
                return f"the session {name} was run without judging ({check['unjudged']})"
    return ""


def _why_empty(sessions: list[tuple[str, list[dict]]]) -> str:
    """Returns a clause if the night is red because a session measured nothing, even if others did; otherwise ""."""
    empty = [
        (name, checks)
        for name, checks in sessions
        if not any(check["result"] in GREEN and not _is_unmeasured(check) for check in checks)
    ]
    if not empty:
        return ""
    name, checks = empty[0]
    skipped, ended = (sum(c["result"] == word for c in checks) for word in (SKIPPED[0], INTERRUPTED))
    counts = f"{spelling.counted(skipped, 'check', 'were')} skipped{f' and {ended} interrupted' if ended else ''}"
    if without := sum(map(_is_unmeasured, checks)):
        counts += f", {without} passed without a figure (as in a dry run)"
    if len(sessions) == 1:
        return f"nothing was measured, {counts}"
    more = f" (and in {spelling.counted(len(empty) - 1, 'more session')})" if len(empty) > 1 else ""
    return f"nothing was measured in the session {name}, {counts}{more}"


def _why_unfinished(sessions: list[tuple[str, list[dict]]]) -> str:
    """Explains that the night is red because a session ended before each check had its turn; empty otherwise."""
    for name, checks in sessions:
        done = {_place(check) for check in checks if check["result"] != INTERRUPTED}
        left = {_place(check): check["name"] for check in checks if _place(check) not in done}
        if left:
            every = len(done) + len(left)
            return (
                f"{len(left)} of {every} checks were not measured before the session {name} ended, the first is "
                f"{next(iter(left.values()))}: make --duration longer, or choose fewer"
            )
    return ""


def _place(check: dict) -> tuple:
    """Returns a key of a check that is the same in every pass of a session."""
    return tuple(check[key] for key in ("name", "system", "partition", "environment"))


def junit(summary: dict) -> str:
    """Returns the summary as JUnit, for CI servers; each test has the paths of its records as property and output."""
    suites = ElementTree.Element("testsuites", name="isthmus")
    by_partition = grouped((f"{check['system']}:{check['partition']}", check) for check in summary["checks"])
    for place, checks in by_partition.items():
        suite = ElementTree.SubElement(
            suites,
            "testsuite",
            name=place,
            tests=str(len(checks)),
            failures=str(sum(_is_red(check) and check["result"] != "abort" for check in checks)),
            errors=str(sum(check["result"] == "abort" for check in checks)),
            skipped=str(sum(check["result"] in (*SKIPPED, INTERRUPTED) for check in checks)),
            time=f"{sum(check['seconds'] or 0 for check in checks):.3f}",
        )
        for check in checks:
            _add_test(suite, f"{place}+{check['environment']}", check)
    ElementTree.indent(suites, " ")
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _add_test(suite, place: str, check: dict) -> None:
    test = ElementTree.SubElement(
        suite, "testcase", classname=place, name=_text(check["name"] or "?"), time=f"{check['seconds'] or 0:.3f}"
    )
    properties = ElementTree.SubElement(test, "properties")
    known = [("job", check["job"]), ("nodes", ",".join(check["nodes"])), ("ask", ", ".join(check["ask"]))]
    for name, value in [*known, *check["ran_with"].items(), *(("record", path) for path in check["records"])]:
        if value:
            ElementTree.SubElement(properties, "property", name=name, value=_text(value))
    reason = _text(_why(check))
    if check["result"] in (*SKIPPED, INTERRUPTED):
        ElementTree.SubElement(test, "skipped", message=reason)
    elif _is_red(check):
        kind = "error" if check["result"] == "abort" else "failure"
        ElementTree.SubElement(test, kind, message=reason, type=check["phase"] or check["result"]).text = reason
    if check["records"]:
        ElementTree.SubElement(test, "system-out").text = "\n".join(map(_text, check["records"]))


def _text(value) -> str:
    """Returns a value as text that XML allows, that is, without control characters and unpaired surrogates."""
    return spelling.printable(value).encode("utf-8", "backslashreplace").decode("utf-8")
