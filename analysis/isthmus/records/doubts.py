"""Doubts about a figure, in the few words that are shown next to it, and whether the figure is low.

`text(record, metric)` returns the words for one record. For many records, `say()` needs a Doubt for each:
`of_record()` makes it from a record, `of_row()` from a row of the table of records with the columns ROW.
schema/doubts.json lists the codes with their words, and schema/usual_shares.json the usual shares of limits.
isthmus-bench reads the same files, and tests/doubts.jsonl makes sure that both use the same words.
"""

from __future__ import annotations

import collections
import dataclasses
import fnmatch
import functools
import json
import re
import statistics
from collections.abc import Iterable, Sequence

from isthmus.records import validate

#: Values of `stop` for metrics whose sampling was ended by a rule; other metrics have all possible samples.
_SAMPLED = ("interval", "samples", "budget", "interrupted")


def _read(name: str) -> dict:
    """Returns the contents of a JSON file next to the schema."""
    return json.loads(validate.beside_schema(name).read_text(encoding="utf-8"))


@functools.cache
def _known() -> dict:
    return _read("doubts.json")


@functools.cache
def codes() -> dict[str, dict]:
    """Returns each code's `words` and the figures that it concerns (`of`), in the order in which codes are shown."""
    return {code: entry for code, entry in _known()["codes"].items() if isinstance(entry, dict)}


@functools.cache
def _ranges() -> dict[str, list[float]]:
    """Returns the minimum and maximum of each metric whose definition limits its values."""
    return {name: ends for name, ends in _known()["ranges"].items() if isinstance(ends, list)}


# --- one record ---


def _is_of(code: str, metric: dict, message: str, invalidates: bool) -> bool:
    """Returns whether a warning concerns this metric; an unknown code, from a newer program, concerns every metric."""
    scope = codes().get(code, {"of": "all"})["of"]
    if scope == "named":
        return message.split(" ", 1)[0] == metric["name"]
    if invalidates:
        return bool(metric.get("invalid"))
    return scope == "all" or (scope != "none" and metric["name"] in scope)


def valid_samples(metric: dict) -> int:
    return len(metric["samples"]) - len(metric.get("invalid") or [])


def out_of_range(name: str, value: float | None) -> bool:
    """Returns whether a figure is outside the range that the definition of its metric allows."""
    if value is None or name not in _ranges():
        return False
    (least, most), slack = _ranges()[name], _known()["ranges"]["slack"]
    return not least - slack <= value <= most + slack


def _is_sampled(record: dict, metric: dict) -> bool:
    """Returns whether a rule ended the sampling of a metric, or of the time from which the metric was derived."""
    is_rate = metric["stop"] == "derived" and metric["name"].endswith("_rate") and not record["emulated"]
    return metric["stop"] in _SAMPLED or is_rate


def _is_stolen(record: dict) -> bool:
    return (record["run"].get("stolen_share") or 0) > _known()["most_stolen"]


def _derived(record: dict, metric: dict) -> Iterable[str]:
    """Yields the codes that follow from the record's fields rather than from its warnings."""
    known = _known()
    if record["emulated"]:
        yield "emulated"
    if record.get("profiler"):
        yield "profiled"
    if record.get("fallback"):
        yield "fallback"
    if _is_stolen(record) and metric["timer"] == "clock":  # the device's own timers are not affected
        yield "stolen_time"
    if _is_sampled(record, metric) and 0 < valid_samples(metric) < known["fewest_samples"]:
        yield "few_samples"
    if out_of_range(metric["name"], metric["median"]):
        yield "out_of_range"
    if not record["emulated"] and (metric.get("share") or 0) > known["limit_slack"]:
        yield "above_limit"


def of_metric(record: dict, metric: dict) -> list[str]:
    """Returns the codes of all doubts about a figure of a record, in the order in which they are shown."""
    found = set(_derived(record, metric))
    for warning in record["warnings"]:
        code = warning["code"]
        if code == "foreign_processes" and "ranks" in record:  # ranks see each other on the device
            continue
        if _is_of(code, metric, warning["message"], warning.get("samples") is not None):
            found.add(code)
    return in_order(found)


def in_order(found: Iterable[str]) -> list[str]:
    """Returns the codes in the order of schema/doubts.json, with unknown codes at the end."""
    places = {code: place for place, code in enumerate(codes())}
    return sorted(set(found), key=lambda code: (places.get(code, len(places)), code))


@dataclasses.dataclass(frozen=True)
class Doubt:
    """Doubts that one record casts on one of its figures."""

    codes: tuple[str, ...] = ()
    low: Low | None = None
    cause: str = ""  # likely cause of a low figure, if no code explains it
    valid: int = 0  # number of valid samples
    left_out: int = 0


def of_record(record: dict, metric: dict, reference: float | None = None) -> Doubt:
    """Returns the doubts about a figure of a record.

    `reference` is the value that equal machines reach, if it is known.
    """
    found = tuple(of_metric(record, metric))
    low = low_of(record, metric, reference)
    left_out = len(metric.get("invalid") or [])
    return Doubt(found, low, cause_of(record, found), valid_samples(metric), left_out)


def text(record: dict, metric: dict, reference: float | None = None) -> str:
    """Returns the words shown next to a figure of one record; empty without doubts."""
    return say([of_record(record, metric, reference)])


#: Figure of a record: the record and one of its metrics.
Figure = tuple[dict, dict]
_EQUALS = 4  # minimum number of records of a case for recognising an outlier among them


def say_of_equals(figures: Sequence[Figure], reference: float | None = None) -> str:
    """Returns the words shown next to a case's figure that was measured on equal machines."""
    return say(of_figures(figures, reference))


def of_figures(figures: Sequence[Figure], reference: float | None = None) -> list[Doubt]:
    """Returns the doubts of each record of a case that was measured on equal machines."""
    found = [of_record(*each, reference) for each in figures]
    values = [metric["median"] for _, metric in figures]
    return of_equals(found, values, figures[0][1]["better"] if figures else None)


def of_equals(found: Sequence[Doubt], values: Sequence[float], better: str | None) -> list[Doubt]:
    """Returns the doubts of records of one case on equal machines, given the doubts about each record alone.

    A value that is far worse than the median of all is low. Records are judged before they are pooled, because the
    median over them hides what affects less than half of them.
    """
    if len(found) < _EQUALS:
        return list(found)
    middle = statistics.median(values)
    lows = [low_value(value, middle, better, "the median of its equals") for value in values]
    return [
        dataclasses.replace(each, low=low) if low and not each.low and "emulated" not in each.codes else each
        for each, low in zip(found, lows, strict=True)
    ]


def say(found: Sequence[Doubt]) -> str:
    """Returns the words shown next to a figure of these records, with a count if only some records are affected."""
    counts = collections.Counter(code for each in found for code in set(each.codes))
    if len(found) > 1:
        counts.pop("few_samples", None)  # the spread over jobs shows the uncertainty instead
    lows = [each for each in found if each.low]
    explains = next((code for code in _known()["low"]["causes"] if any(code in each.codes for each in lows)), None)
    parts = []
    if lows:
        cause = codes()[explains]["words"] if explains else next(filter(None, (each.cause for each in lows)), "")
        worst = min((each.low for each in lows if each.low), key=lambda low: low.part)
        parts.append(f"{worst}{_of(len(lows), found)}: {cause or _known()['low']['unknown']}")
        if explains and counts[explains] == len(lows):
            del counts[explains]
    words = {code: _words(code, found) + _of(counts[code], found) for code in in_order(counts)}
    parts += dict.fromkeys(words.values())
    left_out = sum(each.left_out for each in found)
    if left_out:
        parts.append(f"{left_out} of {left_out + sum(each.valid for each in found)} samples left out")
    return ", ".join(parts)


def _of(number: int, found: Sequence[Doubt]) -> str:
    return f" ({number} of {len(found)})" if number < len(found) else ""


def _words(code: str, found: Sequence[Doubt]) -> str:
    if code == "few_samples" and found[0].valid:
        return f"n={found[0].valid}"
    return codes().get(code, {"words": code})["words"]


# --- many records ---


def _listed(words: Iterable[str]) -> str:
    return "(" + ", ".join(f"'{word}'" for word in (*words, "")) + ")"  # never empty, as SQL requires


def sql() -> str:
    """Returns SQL for the codes of the doubts about a metric `m` of a record, as of_metric() does, but unordered."""
    known, scopes = _known(), {code: entry["of"] for code, entry in codes().items()}
    few = " ".join(
        f"WHEN w.code = '{code}' THEN m.name IN {_listed(of)}" for code, of in scopes.items() if isinstance(of, list)
    )
    speaks = (
        "(w.code <> 'foreign_processes' OR ranks IS NULL) AND CASE "
        f"WHEN w.code IN {_listed(code for code, of in scopes.items() if of == 'named')} "
        "THEN split_part(w.message, ' ', 1) = m.name "
        'WHEN w.samples IS NOT NULL THEN coalesce(len(m."invalid"), 0) > 0 '
        f"WHEN w.code IN {_listed(code for code, of in scopes.items() if of == 'none')} THEN false {few} ELSE true END"
    )
    stolen = f"coalesce(run.stolen_share, 0) > {known['most_stolen']} AND m.timer = 'clock'"
    sampled = (
        f"(m.stop IN {_listed(_SAMPLED)} OR (m.stop = 'derived' AND ends_with(m.name, '_rate') AND NOT emulated)) "
        'AND len(m.samples) > coalesce(len(m."invalid"), 0) '
        f'AND len(m.samples) - coalesce(len(m."invalid"), 0) < {known["fewest_samples"]}'
    )
    slack = known["ranges"]["slack"]
    outside = " OR ".join(
        f"(m.name = '{name}' AND m.median NOT BETWEEN {least - slack} AND {most + slack})"
        for name, (least, most) in _ranges().items()
    )
    derived = {
        "emulated": "emulated", "profiled": "profiler IS NOT NULL", "fallback": "fallback IS NOT NULL",
        "stolen_time": stolen, "few_samples": sampled, "out_of_range": outside,
        "above_limit": f"NOT emulated AND m.share > {known['limit_slack']}",
    }  # fmt: skip
    own = ", ".join(f"CASE WHEN {condition} THEN '{code}' END" for code, condition in derived.items())
    return (
        f"list_filter(list_distinct(list_concat(list_transform(list_filter(coalesce(warnings, []), "
        f"lambda w: {speaks}), lambda w: w.code), [{own}])), lambda c: c IS NOT NULL)"
    )


#: Columns of the table of records that of_row() needs.
ROW = (
    "workload", "placement", "metric", "limit_source", "share", "moved", "doubts", "n_samples", "n_invalid", "median",
    "better",
)  # fmt: skip
#: SQL for the columns ROW as one value, so that a list of such values has the rows for of_rows().
ROW_STRUCT = f"struct_pack({', '.join(f'{name} := {chr(34)}{name}{chr(34)}' for name in ROW)})"


def of_row(row: dict) -> Doubt:
    """Returns the doubts about the figure in a row of the table of records (columns ROW)."""
    found = tuple(in_order(row["doubts"] or ()))
    low = None
    if "emulated" not in found:
        names = ("workload", "placement", "metric", "limit_source", "share", "moved")
        low = low_share(*(row[name] for name in names))
    left_out = row["n_invalid"] or 0
    cause = _known()["low"]["pageable"] if "pageable" in (row["placement"] or row["workload"]) else ""
    return Doubt(found, low, cause, (row["n_samples"] or 0) - left_out, left_out)


def of_rows(rows: Sequence[dict]) -> list[Doubt]:
    """Returns the doubts of each row of a series that was measured on equal machines."""
    return of_equals([of_row(row) for row in rows], [row["median"] for row in rows], rows[0]["better"])


# --- low figures ---


@dataclasses.dataclass(frozen=True)
class Low:
    """Statement that a figure is low: it is only `part` of what `usual` describes."""

    part: float  # ratio below 1
    usual: str  # words such as "the median of its equals"

    def __str__(self) -> str:
        return f"low, {self.part:.0%} of {self.usual}"


@functools.cache
def _usual_shares() -> list[dict]:
    return _read("usual_shares.json")["paths"]


def limit_kind(source: str) -> str:
    """Returns a limit's source without this machine's numbers: PCIe, NVLink, xGMI, peak device memory bandwidth."""
    found = re.match(r"(?:\d+ )?(PCIe|NVLink|xGMI)", source)
    return found[1] if found else source


def usual_share(workload: str, placement: str | None, metric: str, limit: str, moved: float) -> float | None:
    """Returns the usual share of the limit for this path and number of bytes per operation; None if it is unknown."""
    entries = _entries_of(workload, placement, metric, limit_kind(limit))
    return next((entry["share"] for entry in entries if moved >= entry["bytes_least"]), None)


@functools.lru_cache(maxsize=4096)
def _entries_of(workload: str, placement: str | None, metric: str, limit: str) -> list[dict]:
    """Returns the entries of usual_shares.json for a path."""
    return [
        entry
        for entry in _usual_shares()
        if metric in entry["metrics"]
        and (entry["placement"], entry["limit"]) == (placement, limit)
        and fnmatch.fnmatchcase(workload, entry["workload"])
    ]


def low_share(
    workload: str, placement: str | None, metric: str, limit: str | None, share: float | None, moved: float | None
) -> Low | None:
    """Returns a Low if a figure's share of its limit is far below the usual share, otherwise None.

    `moved` is in bytes per operation.
    """
    if share is None or limit is None:
        return None
    usual = usual_share(workload, placement, metric, limit, moved or 0)
    if usual is None or share >= _known()["low"]["part"] * usual:
        return None
    return Low(share / usual, f"the usual {usual:.0%} of {limit_kind(limit)}")


def low_value(value: float, reference: float, better: str | None, what: str) -> Low | None:
    """Returns a Low if a figure is far worse than its reference, which `what` describes, otherwise None."""
    if better is None or value <= 0 or reference <= 0:
        return None
    part = value / reference if better == "higher" else reference / value
    return Low(part, what) if part < _known()["low"]["part"] else None


def low_of(record: dict, metric: dict, reference: float | None = None) -> Low | None:
    """Returns a Low if a figure of a record is low, otherwise None; emulated figures are never judged."""
    if record["emulated"] or metric["median"] is None:
        return None
    if reference is not None:
        return low_value(metric["median"], reference, metric["better"], "its reference")
    limit = metric.get("limit")
    if not limit or metric.get("share") is None:
        return None
    share = metric["share"] * part_of_best_link(record, limit["source"])
    return low_share(
        record["workload"], record["placement"], metric["name"], limit["source"], share, moved(record, metric)
    )


def moved(record: dict, metric: dict) -> float:
    """Returns the bytes that one operation moved; 0 if unknown."""
    bytes_moved = metric.get("bytes_moved") or record["axes"].get("bytes") or 0
    return bytes_moved if isinstance(bytes_moved, (int, float)) else 0


def cause_of(record: dict, found: Iterable[str]) -> str:
    """Returns a likely cause of a low figure, in words; empty if a code explains it or the record shows no cause."""
    words = _known()["low"]
    if set(found) & set(words["causes"]):
        return ""
    node = record["host"].get("numa_node")
    near = {device.get("numa_node", -1) for device in record["devices"]} - {-1, None}
    if node is not None and near and node not in near:
        return words["far_memory"]
    if _is_stolen(record):
        return codes()["stolen_time"]["words"]
    if "pageable" in (record["placement"] or record["workload"]):
        return words["pageable"]
    return ""


# --- links ---

#: Rate of a PCIe lane for each generation: gigatransfers per second times the share of payload. Only ratios are used.
PCIE = {1: 2.5 * 0.8, 2: 5 * 0.8, 3: 8 * 128 / 130, 4: 16 * 128 / 130, 5: 32 * 128 / 130, 6: 64 * 242 / 256}
_LINK = re.compile(r"PCIe (\d+) x(\d+)")


def trained_link(source: str) -> tuple[int, int] | None:
    """Returns the generation and number of lanes of the trained link that a limit's source names.

    Returns None if it names no link.
    """
    found = _LINK.search(source)
    return (int(found[1]), int(found[2])) if found else None


def best_link(record: dict, now: tuple[int, int]) -> tuple[int, int]:
    """Returns the generation and lanes that devices and slots support, and at least those of the trained link `now`."""
    links = [device.get("pcie") or {} for device in record["devices"]]
    generation = max([now[0], *(link.get("gen_max") or 0 for link in links)])
    width = max([now[1], *(link.get("width_max") or 0 for link in links)])
    return generation, width


def part_of_link(now: tuple[int, int], best: tuple[int, int]) -> float:
    """Returns the rate of link `now` divided by that of link `best`; 1 if a generation is unknown."""
    if now[0] not in PCIE or best[0] not in PCIE:
        return 1.0
    return PCIE[now[0]] * now[1] / (PCIE[best[0]] * best[1])


def part_of_best_link(record: dict, source: str) -> float:
    """Returns the rate of the trained link divided by the best possible rate.

    A record's limit applies to the trained link.
    """
    now = trained_link(source)
    return part_of_link(now, best_link(record, now)) if now else 1.0
