"""Says when overlapping a batch of GPU jobs is worth it, and how: `isthmus advise interjob FILE…`.

A batch is predicted from the phases of one job that ran alone (interjob/* records), by simulating how its jobs use
shared resources: the threads that allocate, the thread that queues, the device's streams, the thread that releases, and
the driver, whose calls wait for each other. Each resource serves jobs in order, and at most `depth` jobs have memory at
once. Measurements of the study are shown next to the predictions.

    isthmus advise interjob FILE…
        advice for each record, and the error of the prediction
    isthmus advise interjob FILE… --job in=64MiB out=16KiB flops=33.5e6
                                        [jobs=16 allocation=pool host=pinned]
        advice for a job declared by its bytes and flops
    isthmus advise interjob FILE… --timeline PICTURE.svg [--mode overlap_all]
        a picture of the first record's last batch
"""

from __future__ import annotations

import argparse
from typing import Any

from isthmus import Error, options, streams, units
from isthmus.advise import batches, measured
from isthmus.advise.overlap import MODES, Advice, Batch, advise
from isthmus.advise.timeline import svg
from isthmus.records import fields, reading
from isthmus.tables import output


def sentence(name: str, advice: Advice) -> str:
    gain = advice.serial.seconds / advice.best.seconds
    if not advice.worth:
        return f"{name}: not worth it, {units.quantity(advice.serial.seconds, 's')} serially ({advice.reason})"
    return (
        f"{name}: {advice.best.mode}, depth {advice.best.depth}, {units.quantity(advice.best.seconds, 's')} instead of"
        f" {units.quantity(advice.serial.seconds, 's')}, {gain:.2f}× ({advice.reason})"
    )


def table_of_errors(rows: list[batches.Miss]) -> list[str]:
    """Returns the lines of a table of predicted and measured times."""
    if not rows:
        return []
    columns = [output.Column("jobs", right=False), output.Column("mode", right=False), output.Column("measured"),
               output.Column("predicted"), output.Column("error")]  # fmt: skip
    cells = [
        [
            row.case,
            row.mode,
            units.quantity(row.measured, "s"),
            units.quantity(row.predicted, "s"),
            f"{row.relative:+.0%}",
        ]
        for row in rows
    ]
    return output.lay_out(columns, cells)


def summary_of_errors(rows: list[batches.Miss], losses: list[float]) -> list[str]:
    """Returns lines that state how many predictions are within 15%, and how well modes were picked."""
    if not rows:
        return ["no record has a forced batch without a cap, so predictions cannot be checked"]
    near = sum(row.near for row in rows)
    lines = [f"within {batches.NEAR:.0%}: {near} of {len(rows)} ({near / len(rows):.0%})"]
    if losses:
        good = sum(loss <= batches.WELL_PICKED for loss in losses)
        lines.append(
            f"mode picked within {batches.WELL_PICKED:.0%} of the best: {good} of {len(losses)}, "
            f"worst {max(losses):+.0%}"
        )
    return lines


_COLUMNS = {
    "says": "VARCHAR", "batch": "VARCHAR", "at_depth": "BIGINT", "predicted": "DOUBLE", "serial": "DOUBLE",
    "measured": "DOUBLE", "error": "DOUBLE", "worth": "BOOLEAN", "reason": "VARCHAR",
}  # fmt: skip


def _row(name: str, advice: Advice) -> dict[str, Any]:
    best = advice.best
    return {"says": "advice", "batch": name, "mode": best.mode, "at_depth": best.depth, "predicted": best.seconds,
            "serial": advice.serial.seconds, "worth": advice.worth, "reason": advice.reason, "axes": {}}  # fmt: skip


def table_of(cases: list[dict]) -> output.Table:
    """Makes a table of the advice for each record without a cap on memory, and of predicted and measured times."""
    rows, lines, misses = [], [], []
    for case in cases:
        of = {name: case.get(name) for name in output.CASE if name != "ranks"} | {"axes": case["axes"]}
        if not case["axes"]["cap"]:
            name, advice = batches.label(case), advise(batches.phases_of(case), batches.batch_of(case))
            rows.append(_row(name, advice) | of | {"mode": advice.best.mode})
            lines += output.fold(sentence(name, advice))
        found = batches.errors(case)
        misses += found
        rows += [
            of | {"says": "check", "batch": miss.case, "mode": miss.mode, "at_depth": case["axes"]["depth"],
                  "predicted": miss.predicted, "measured": miss.measured, "error": miss.relative}
            for miss in found
        ]  # fmt: skip
    summary = summary_of_errors(misses, batches.picked_losses(cases))
    return output.of_cases(rows, _COLUMNS, "\n".join([*lines, "", *table_of_errors(misses), *summary]), summary)


# --- the command ---


def _declaration(words: list[str]) -> tuple[Batch, dict[str, float]]:
    """Parses `in=64MiB out=0 flops=1e9 jobs=16 …` into a batch and its jobs' bytes and flops. Raises ValueError."""
    given = {"in": 0.0, "out": 0.0, "flops": 0.0}
    numbers, words_of = {"jobs": 16, "threads": 1}, {"allocation": "pool", "host": "pinned"}
    for word in words:
        key, _, value = word.partition("=")
        try:
            if key in given:
                given[key] = units.amount(value)
            elif key in numbers:
                numbers[key] = int(value)
                if numbers[key] < 1:
                    raise ValueError
            elif key in words_of and value:
                words_of[key] = value
            else:
                raise ValueError
        except ValueError:
            raise ValueError(
                f"--job {word!r} is not understood; write in=64MiB out=16KiB flops=1e9 jobs=16 threads=1"
                " allocation=pool host=pinned"
            ) from None
    return Batch(numbers["jobs"], words_of["allocation"], words_of["host"], numbers["threads"]), given


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--job", nargs="+", metavar="KEY=VALUE", help="job to predict, declared by its bytes in, bytes out and flops"
    )
    parser.add_argument("--timeline", metavar="SVG", type=output.Destination,
                        help="draw the jobs of the first record over time")  # fmt: skip
    parser.add_argument(
        "--mode",
        nargs="+",
        choices=("serial", *MODES),
        metavar="MODE",
        help=f"the modes to draw: serial, {', '.join(MODES)} (default: all)",
    )
    measured.add_arguments(parser, "machine, with interjob/*")


def run(asked: argparse.Namespace) -> int:
    if not asked.timeline:
        options.refuse_idle({"--mode": asked.mode}, "with --timeline, whose modes it chooses")
    elif asked.job:
        options.refuse_idle({"--job": asked.job}, "without --timeline, which draws records")
    if asked.timeline and streams.descriptor(asked.timeline) is None:
        output.by_ending(asked.timeline, ("svg",))
    cases, status = reading.read_files(asked.records, asked)
    cases = fields.that_count(batches.of_study(measured.chosen(cases, asked)), emulated=asked.emulated)
    if not cases:
        raise Error("these files have no valid record of interjob/*; run 'interjob/*' on the GPU")
    if not asked.timeline:
        measured.refuse_several_kinds(cases)
        measured.refuse_unlike_places(cases, learnt=batches.LEARNT)
    try:
        if asked.timeline:
            notes = cases[0].get("notes", {})
            modes = asked.mode or [mode for mode in ("serial", *MODES) if f"{mode}_timeline" in notes]
            if not modes:
                raise Error(f"{batches.label(cases[0])} has no timeline")
            output.deliver(svg(cases[0], modes), asked.timeline)
        elif asked.job:
            batch, given = _declaration(asked.job)
            phases = batches.declared(cases, batch, given["in"], given["out"], given["flops"])
            name, advice = f"{batch.jobs} such jobs in {batch.allocation} memory", advise(phases, batch)
            output.write(
                asked, output.of_cases([_row(name, advice)], _COLUMNS, "\n".join(output.fold(sentence(name, advice))))
            )
        else:
            output.write(asked, table_of(cases))
    except ValueError as error:
        raise Error(str(error)) from None
    return status
