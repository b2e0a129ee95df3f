"""Judges the effect of a change of driver, kernel or any part of the fingerprint, or of time.

Compares jobs of a boot, or boots of a node, metric by metric. The margin, the largest change of no interest, is fixed
beforehand. The verdict on each metric is regressed or improved (the whole interval is beyond the margin), equivalent or
changed-but-small (within the margin), or inconclusive, with the reason and the number of jobs that would decide.
docs/statistics.md explains the method. Plug-ins (isthmus.plugins) may add more, such as the cost of a batch of page
faults before and after the change.
"""
# judging.judge() decides; this module handles the arguments and the output.

from __future__ import annotations

import json
import pathlib
import sys

from isthmus import Error, exits, plugins, spelling, units
from isthmus.records import selection, store
from isthmus.records.measurements import literal
from isthmus.statistics import series
from isthmus.tables import output
from isthmus.verdicts import baselines, comparison, comparison_text, outlying


def add_arguments(parser) -> None:
    parser.epilog = (
        "examples:\n"
        "  isthmus regress results --from driver=570 --to driver=580\n"
        "  isthmus regress results --from ..2026-11-01 --to 2026-11-01.. --metric rate\n"
        "  isthmus regress results --save-baseline autumn --from driver=570\n"
        "  isthmus regress results --baseline autumn\n\n"
        "exit codes: 0 nothing regressed; 1 something did; 2 bad input; 3 no regression was seen, but some\n"
        "series are inconclusive, with the reason shown next to them"
    )
    selection.add_arguments(parser)
    parser.add_argument("--from", dest="a", metavar="WHAT", help="side A: FIELD=VALUE,… or a day or FROM..TO")
    parser.add_argument("--to", dest="b", metavar="WHAT", help="side B, likewise")
    parser.add_argument(
        "--baseline", metavar="NAME", help="side A is this baseline; B, without --to, all jobs after it"
    )
    parser.add_argument("--save-baseline", metavar="NAME", help="only store the jobs of --from under this name")
    parser.add_argument("--delta", **units.SHARE, help="the margin, such as 2%%: smaller changes are of no interest")
    parser.add_argument(
        "--noise", metavar="FILE", help="file of `isthmus noise -o FILE.json` on earlier jobs: delta is 2.25 sd of each"
    )
    parser.add_argument("--all", action="store_true", help="show every series")
    parser.add_argument("--json", metavar="FILE", type=output.Destination,
                        help="also write JSON there, with the overall results")  # fmt: skip
    output.add_arguments(parser)


def _refuse_contradictions(asked) -> None:
    if asked.baseline and asked.a:
        raise Error("--baseline says which jobs are side A: leave out --from")
    if not asked.save_baseline:
        return
    output_file = asked.output if asked.output != "-" else None
    others = {
        "--baseline": asked.baseline, "--to": asked.b, "--delta": asked.delta, "--noise": asked.noise,
        "--all": asked.all, "--json": asked.json, "--format": asked.format, "--output": output_file,
    }  # fmt: skip
    if given := [option for option, value in others.items() if value]:
        raise Error(f"--save-baseline only keeps the jobs of --from and compares nothing: leave out {', '.join(given)}")


def _sides_asked(asked, baseline: list[str]) -> tuple[str, str]:
    if asked.baseline:
        a = f"job IN ({', '.join(map(literal, baseline))})"
        after = f"time > (SELECT max(time) FROM measurements WHERE {a})"
        return a, f"(NOT {a} AND {series.condition(asked.b) if asked.b else after})"
    if not (asked.a and asked.b):
        raise Error("nothing says what to compare: give --from and --to, or --baseline")
    return series.condition(asked.a), series.condition(asked.b)


def _doubts_of_baseline(opened: store.Store, condition: str) -> list[str]:
    """Returns sentences on nodes, GPUs and jobs of a baseline that differ from their equals and so would distort it."""
    every = series.load(opened, f"CASE WHEN {condition} THEN 'A' END")
    labels = series.labels(every)
    stray, _ = outlying.stray_in_words([(each, labels[each.key]) for each in every])
    return [said for said in (outlying.slow_in_words(opened, condition), stray) if said]


def run(asked) -> int:
    _refuse_contradictions(asked)
    folder = next((path for path in asked.paths if pathlib.Path(path).is_dir()), ".")
    if asked.save_baseline:
        condition = series.condition(asked.a) if asked.a else "true"
        with selection.from_arguments(asked, wanted=comparison.WANTED, agreeing=True) as opened:
            count = baselines.save_baseline(opened, folder, asked.save_baseline, condition)
            doubts = _doubts_of_baseline(opened, condition)
        print(f"baseline {asked.save_baseline}: {spelling.counted(count, 'job')}")
        for doubt in doubts:
            print(f"note: {doubt}; remove the baseline and save another one, unless that is usual", file=sys.stderr)
        return exits.PASSED
    baseline = baselines.load_baseline(folder, asked.baseline) if asked.baseline else []
    _sides_asked(asked, [each.name for each in baseline])  # reports errors before records are read
    noise, boots, _ = baselines.load_noise(asked.noise) if asked.noise else (None, None, None)
    words = ",".join(filter(None, (asked.a, asked.b)))
    more, failed = plugins.of_changes()
    wanted = {*comparison.WANTED, *(column for each in more.values() for column in each.WANTED)}
    with selection.from_arguments(asked, wanted=wanted, agreeing=True) as opened:
        present = baselines.present(opened, baseline) if baseline else []
        gone = len(baseline) - len(present)
        if baseline and gone == len(baseline):
            raise Error(
                f"no job of the baseline {asked.baseline} has records any more; restore them, or save another baseline"
            )
        side = comparison.sides(*_sides_asked(asked, present))
        found = comparison.outcome(opened, side, asked=words, delta=asked.delta, noise=noise, boots=boots)
        answers = {name: each.of_store(opened, side, emulated=asked.emulated) for name, each in more.items()}
    found.notes += [*failed.values(), *(note for _, unread in answers.values() for note in unread)]
    if gone:
        found.absent += gone
        found.notes.insert(
            0,
            f"{gone} of {spelling.counted(len(baseline), 'job')} of the baseline {asked.baseline} have no records any "
            "more, so it is unknown what they would show; restore them, or save another baseline",
        )
    rows = [comparison_text.row_of(each) for each in found.results]
    said = [line for name, (answer, _) in answers.items() if answer for line in more[name].lines(answer)]
    text = comparison_text.text(found, everything=asked.all, more=said)
    output.write(asked, output.of_cases(rows, comparison_text.COLUMNS, text, [*said, *comparison_text.of_all(found)]))
    if asked.json:
        others = dict.fromkeys(failed)
        others |= {name: more[name].as_json(answer) if answer else None for name, (answer, _) in answers.items()}
        output.deliver(json.dumps(comparison_text.as_json(found) | others, indent=1), asked.json)
    return found.exit_code
