"""What casts doubt on a figure, in the few words that stand next to it, and whether the figure is low.

`text(record, metric)` gives the words for one record. For many, `say()` takes a Doubt of each: `of_record()` makes it
of a record, `of_row()` of a row of the table of records, whose columns are ROW. schema/doubts.json lists the codes with
their words, schema/usual_shares.json says what is usual. isthmus-bench reads the same files, and tests/doubts.jsonl
holds both to the same words.
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

#: Stops of metrics that were sampled until a rule ended it; others have as many samples as there can be.
_SAMPLED = ("interval", "samples", "budget", "interrupted")


def _read(name: str) -> dict:
    """One of the files beside the schema."""
    return json.loads(validate.beside_schema(name).read_text(encoding="utf-8"))


@functools.cache
def _known() -> dict:
    return _read("doubts.json")


@functools.cache
def codes() -> dict[str, dict]:
    """Each code with its `words` and the figures that it is `of`, in the order in which they are said."""
    return {code: entry for code, entry in _known()["codes"].items() if isinstance(entry, dict)}


@functools.cache
def _ranges() -> dict[str, list[float]]:
    """Least and most of the metrics whose definition bounds them."""
    return {name: ends for name, ends in _known()["ranges"].items() if isinstance(ends, list)}


# --- one record ---


def _is_of(code: str, metric: dict, message: str, spoils: bool) -> bool:
    """Whether a warning speaks of this metric; an unknown code, of a newer program, speaks of all."""
    scope = codes().get(code, {"of": "all"})["of"]
    if scope == "named":
        return message.split(" ", 1)[0] == metric["name"]
    if spoils:
        return bool(metric.get("invalid"))
    return scope == "all" or (scope != "none" and metric["name"] in scope)


def valid_samples(metric: dict) -> int:
    return len(metric["samples"]) - len(metric.get("invalid") or [])


def out_of_range(name: str, value: float | None) -> bool:
    """Whether a figure is outside what the definition of its metric allows."""
    if value is None or name not in _ranges():
        return False
    (least, most), slack = _ranges()[name], _known()["ranges"]["slack"]
    return not least - slack <= value <= most + slack


def _is_sampled(record: dict, metric: dict) -> bool:
    """Whether a rule ended the sampling of a metric, or of the time that a rate comes from."""
    is_rate = metric["stop"] == "derived" and metric["name"].endswith("_rate") and not record["emulated"]
    return metric["stop"] in _SAMPLED or is_rate


def _is_stolen(record: dict) -> bool:
    return (record["run"].get("stolen_share") or 0) > _known()["most_stolen"]


def _derived(record: dict, metric: dict) -> Iterable[str]:
    """Codes that follow from the record without a warning of it."""
    known = _known()
    if record["emulated"]:
        yield "emulated"
    if record.get("profiler"):
        yield "profiled"
    if record.get("fallback"):
        yield "fallback"
    if _is_stolen(record) and metric["timer"] == "clock":  # what the device times by itself goes on
        yield "stolen_time"
    if _is_sampled(record, metric) and 0 < valid_samples(metric) < known["fewest_samples"]:
        yield "few_samples"
    if out_of_range(metric["name"], metric["median"]):
        yield "out_of_range"
    if not record["emulated"] and (metric.get("share") or 0) > known["limit_slack"]:
        yield "above_limit"


def of_metric(record: dict, metric: dict) -> list[str]:
    """Codes of what casts doubt on a figure of a record, in the order in which they are said."""
    found = set(_derived(record, metric))
    for warning in record["warnings"]:
        code = warning["code"]
        if code == "foreign_processes" and "ranks" in record:  # ranks see each other on the device
            continue
        if _is_of(code, metric, warning["message"], warning.get("samples") is not None):
            found.add(code)
    return in_order(found)


def in_order(found: Iterable[str]) -> list[str]:
    """Codes in the order of the list, unknown ones last."""
    places = {code: place for place, code in enumerate(codes())}
    return sorted(set(found), key=lambda code: (places.get(code, len(places)), code))


@dataclasses.dataclass(frozen=True)
class Doubt:
    """What one record says against one of its figures."""

    codes: tuple[str, ...] = ()
    low: Low | None = None
    cause: str = ""  # of a low figure, where no code explains it
    valid: int = 0  # samples that count
    left_out: int = 0


def of_record(record: dict, metric: dict, reference: float | None = None) -> Doubt:
    """What a record says against a figure; `reference`: what equals reach, where that is known."""
    found = tuple(of_metric(record, metric))
    low = low_of(record, metric, reference)
    left_out = len(metric.get("invalid") or [])
    return Doubt(found, low, cause_of(record, found), valid_samples(metric), left_out)


def text(record: dict, metric: dict, reference: float | None = None) -> str:
    """What stands next to a figure of one record; empty where nothing casts doubt on it."""
    return say([of_record(record, metric, reference)])


#: A record and one of its metrics.
Figure = tuple[dict, dict]
_EQUALS = 4  # records of one case, from which on one that is far from the others stands out


def say_of_equals(figures: Sequence[Figure], reference: float | None = None) -> str:
    """What stands next to the figure of one case on equal machines."""
    return say(of_figures(figures, reference))


def of_figures(figures: Sequence[Figure], reference: float | None = None) -> list[Doubt]:
    """What records of one case on equal machines say against their figures."""
    found = [of_record(*each, reference) for each in figures]
    values = [metric["median"] for _, metric in figures]
    return of_equals(found, values, figures[0][1]["better"] if figures else None)


def of_equals(found: Sequence[Doubt], values: Sequence[float], better: str | None) -> list[Doubt]:
    """Doubts of equal records, each judged alone; a value far worse than the median of its equals is low, too.

    Records are judged before they are pooled: the median over them hides what holds for less than half.
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
    """What stands next to a figure of these records; what holds for some of them says for how many."""
    counts = collections.Counter(code for each in found for code in set(each.codes))
    if len(found) > 1:
        counts.pop("few_samples", None)  # other jobs say how far samples can be off
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
    return "(" + ", ".join(f"'{word}'" for word in (*words, "")) + ")"  # SQL knows no empty list here


def sql() -> str:
    """SQL: the codes of what casts doubt on a metric `m` of a record, as of_metric() has them; in no order."""
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


#: Columns of the table of records that of_row() reads.
ROW = (
    "workload", "placement", "metric", "limit_source", "share", "moved", "doubts", "n_samples", "n_invalid", "median",
    "better",
)  # fmt: skip
#: SQL: the columns ROW as one value, of which of_rows() reads many.
ROW_STRUCT = f"struct_pack({', '.join(f'{name} := {chr(34)}{name}{chr(34)}' for name in ROW)})"


def of_row(row: dict) -> Doubt:
    """What a row of the table of records says against its figure."""
    found = tuple(in_order(row["doubts"] or ()))
    low = None
    if "emulated" not in found:
        names = ("workload", "placement", "metric", "limit_source", "share", "moved")
        low = low_share(*(row[name] for name in names))
    left_out = row["n_invalid"] or 0
    cause = _known()["low"]["pageable"] if "pageable" in (row["placement"] or row["workload"]) else ""
    return Doubt(found, low, cause, (row["n_samples"] or 0) - left_out, left_out)


def of_rows(rows: Sequence[dict]) -> list[Doubt]:
    """What rows of one series on equal machines say against their figures."""
    return of_equals([of_row(row) for row in rows], [row["median"] for row in rows], rows[0]["better"])


# --- low figures ---


@dataclasses.dataclass(frozen=True)
class Low:
    """A figure far below what it should be: the part of `usual` that it reaches, and what `usual` is."""

    part: float
    usual: str

    def __str__(self) -> str:
        return f"low, {self.part:.0%} of {self.usual}"


@functools.cache
def _usual_shares() -> list[dict]:
    return _read("usual_shares.json")["paths"]


def limit_kind(source: str) -> str:
    """What a limit is of, without the numbers of this machine: PCIe, NVLink, xGMI, peak device memory bandwidth."""
    found = re.match(r"(?:\d+ )?(PCIe|NVLink|xGMI)", source)
    return found[1] if found else source


def usual_share(workload: str, placement: str | None, metric: str, limit: str, moved: float) -> float | None:
    """Share of the limit that kept records of this path reach; None where none says it."""
    entries = _entries_of(workload, placement, metric, limit_kind(limit))
    return next((entry["share"] for entry in entries if moved >= entry["bytes_least"]), None)


@functools.lru_cache(maxsize=4096)
def _entries_of(workload: str, placement: str | None, metric: str, limit: str) -> list[dict]:
    """Entries of usual_shares.json for a path."""
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
    """Whether a share of a limit is far below what is usual."""
    if share is None or limit is None:
        return None
    usual = usual_share(workload, placement, metric, limit, moved or 0)
    if usual is None or share >= _known()["low"]["part"] * usual:
        return None
    return Low(share / usual, f"the usual {usual:.0%} of {limit_kind(limit)}")


def low_value(value: float, reference: float, better: str | None, what: str) -> Low | None:
    """Whether a figure is far worse than a reference of equals; `what` names the reference."""
    if better is None or value <= 0 or reference <= 0:
        return None
    part = value / reference if better == "higher" else reference / value
    return Low(part, what) if part < _known()["low"]["part"] else None


def low_of(record: dict, metric: dict, reference: float | None = None) -> Low | None:
    """Whether a figure of a record is low; of an emulated one nothing is known."""
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
    """Bytes that one operation moved; 0 where that is not known."""
    bytes_moved = metric.get("bytes_moved") or record["axes"].get("bytes") or 0
    return bytes_moved if isinstance(bytes_moved, (int, float)) else 0


def cause_of(record: dict, found: Iterable[str]) -> str:
    """What may have made a figure low that no code explains; empty where nothing in the record does."""
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

#: Gigatransfers per second and share of payload of a PCIe lane, by generation; only their ratios are used.
PCIE = {1: 2.5 * 0.8, 2: 5 * 0.8, 3: 8 * 128 / 130, 4: 16 * 128 / 130, 5: 32 * 128 / 130, 6: 64 * 242 / 256}
_LINK = re.compile(r"PCIe (\d+) x(\d+)")


def trained_link(source: str) -> tuple[int, int] | None:
    """Generation and lanes that a limit's source names: those of the link as it was trained."""
    found = _LINK.search(source)
    return (int(found[1]), int(found[2])) if found else None


def best_link(record: dict, now: tuple[int, int]) -> tuple[int, int]:
    """Generation and lanes that device and slot support."""
    links = [device.get("pcie") or {} for device in record["devices"]]
    generation = max([now[0], *(link.get("gen_max") or 0 for link in links)])
    width = max([now[1], *(link.get("width_max") or 0 for link in links)])
    return generation, width


def part_of_link(now: tuple[int, int], best: tuple[int, int]) -> float:
    """Rate of a link over that of another; 1 where a generation is not known."""
    if now[0] not in PCIE or best[0] not in PCIE:
        return 1.0
    return PCIE[now[0]] * now[1] / (PCIE[best[0]] * best[1])


def part_of_best_link(record: dict, source: str) -> float:
    """What the link is trained to, of what it could be; a record's limit is of the link as it is trained."""
    now = trained_link(source)
    return part_of_link(now, best_link(record, now)) if now else 1.0
