"""Comparison of the cost of a batch of page faults between two sides: which coefficients differ. Both sides need
observed faults/* records (tables of `--observe uvm`) with different drivers. Each side's batches are fitted as by
`isthmus faults model`; see docs/uvm.md."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

from isthmus.records import copies, load, store, validate
from isthmus.tables import output
from isthmus_papers.batches import model, sampling
from isthmus_papers.batches.sampling import TERMS, Sample

#: Columns that select the records, in addition to those that define the sides.
WANTED = ("file", "job", "driver", "workload", "profiler")


@dataclasses.dataclass
class BatchCosts:
    """Result for all terms; if there is none, `why` is a sentence with the reason."""

    drivers: tuple[str, str]
    costs: list[model.Cost]
    why: str = ""


def of_samples(sides: dict[str, list[Sample]]) -> BatchCosts | None:
    """Compares the samples of sides A and B. Returns None if there is nothing to compare, because a side has no samples
    or both sides have the same drivers."""
    sides = {side: [each for each in sides.get(side, []) if len(each.service)] for side in "AB"}
    names = [sorted({each.driver for each in sides[side]}) for side in "AB"]
    if not all(names) or names[0] == names[1]:
        return None
    found = BatchCosts((", ".join(names[0]), ", ".join(names[1])), [])
    mixed = [side for side, drivers in zip("AB", names) if len(drivers) > 1]
    if mixed:
        found.why = f"side {mixed[0]} has batches of several drivers; choose jobs with one driver"
        return found
    fits = [model.fit(driver, sides[side]) for side, [driver] in zip("AB", names)]
    for side, fit in zip("AB", fits):
        if fit.error is None:
            found.why = f"side {side}: {fit.why_no_interval}"
            return found
    found.costs = model.costs(fits[0], fits[1])
    return found


# --- from records ---


def of_store(opened: store.Store, side: str, *, emulated: bool) -> tuple[BatchCosts | None, list[str]]:
    """Compares the observed faults/* records of a store; `side` is SQL for a row's side. Also returns sentences on
    records that could not be read."""
    rows = opened.sql(
        f"SELECT DISTINCT file, run_id, job, {side} AS side FROM watched WHERE profiler = 'uvm' "
        "AND workload GLOB 'faults/*'"
    ).fetchall()
    of_run = {run: (job, where) for _, run, job, where in rows if where in ("A", "B")}
    if {where for _, where in of_run.values()} != {"A", "B"}:
        return None, []
    samples: dict[str, list[Sample]] = collections.defaultdict(list)
    notes = []
    seen = copies.Seen()
    for file in sorted({file for file, run, *_ in rows if run in of_run}):
        try:
            for record in load.read(file):
                job, where = of_run.get(record["run"]["id"], ("", None))
                watched = record["workload"].startswith("faults/") and record["profiler"] == "uvm"
                if where and watched and (emulated or not record["emulated"]) and not seen.is_copy(record, file):
                    found = sampling.of_record(file, record)[0]
                    samples[where] += [dataclasses.replace(each, unit=job) for each in found]
        except validate.RecordError as error:
            notes.append(f"the batches of {file} are not compared: {error}")
    return of_samples(samples), notes


# --- for people and programs ---


def lines(found: BatchCosts) -> list[str]:
    """Returns the lines of the report, one sentence each."""
    a, b = found.drivers
    head = f"cost of a batch of page faults, driver {a} to {b} (95% over all {len(TERMS)} terms)"
    if found.why:
        return output.fold(f"{head} is unknown: {found.why}")
    said = [f"{head}:"]
    for status, words in (("changed", "changed"), ("alike", "not known to differ"), ("unknown", "unknown")):
        for each in found.costs:
            if each.status != status:
                continue
            sentence = f"  {words}: {each.term}"
            if each.a is not None and each.b is not None:
                sentence += f", {model.quantity(each.a, each.unit)} to {model.quantity(each.b, each.unit)}"
            if each.ratio is not None:
                sentence += f", ratio {each.ratio:.3g} [{each.low:.3g}, {each.high:.3g}]"
            said.append(sentence + (f": {each.why}" if each.why else ""))
    return [line for sentence in said for line in output.fold(sentence)]


def as_json(found: BatchCosts) -> dict[str, Any]:
    return output.plain(dataclasses.asdict(found))
