"""Lookup of references: reading site-configs/<site>/references/ and finding the bounds of a case.

`load(folder)` reads and checks a site's files, `find(entries, case, axes)` returns the bounds of one case, and
`problems()` checks entries against the catalogue of workloads. docs/references.md describes the files. Anything invalid
is refused, since a skipped entry would leave a figure without bounds. The command is in isthmus.references.command.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
import os
import pathlib
import re
from collections.abc import Iterable
from typing import Any, NamedTuple, NoReturn

import yaml

from isthmus import Error, inputs, spelling
from isthmus import units as amounts
from isthmus.profiles.profile import PROFILED
from isthmus.records import doubts, validate
from isthmus.records import load as load_records
from isthmus.references import selectors

#: Fields, besides `axes`, that select cases in an entry; each is a regular expression for the whole string.
SELECTORS = (
    "workload", "version", "mode", "placement", "staging", "size", "preset", "ranks", "partition", "arch", "driver",
    "compiler", "profiler",
)  # fmt: skip
_SHARES_ONLY = ("limit", "bytes_least")
#: Fields that state how a reference was made; they do not select cases.
_PROVENANCE = ("n", "nodes", "interval", "date", "fingerprint", "left_out")
# Maximum number of bounds in a file and the files that it names; a machine has about 1,000 per driver and compiler.
_MOST_BOUNDS = 50_000
_MOST_NAMED = 2_000  # maximum number of uses of $ref in a file and the files that it names
_MOST_SHARE = 2  # shares from here on were meant as percentages; all records with a share above 1.05 fail anyway
_MOST_NESTED = 20  # maximum length of a chain of files that name each other
_MOST_MOVED = 2**44  # maximum bytes of one sample; memories are smaller
_MOST_UNFOLDED = 100_000  # maximum number of values that a file's aliases may add to the written values


class BadReference(Error):
    """Error for an invalid reference file, or for two references for the same figure."""


class _Loader(yaml.SafeLoader):
    """YAML loader that parses 55.5e9 as a number and refuses duplicate keys."""

    def construct_mapping(self, node, deep=False):
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, (str, int, float, bool, type(None))):
                raise yaml.constructor.ConstructorError(None, None, "a key is not a word", key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} appears twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {key: list(value) for key, value in yaml.SafeLoader.yaml_implicit_resolvers.items()}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)[eE][-+]?\d+"), list("-+.0123456789")
)


class Bound(NamedTuple):
    """Value and tolerances of a metric; `lower` and `upper` are fractions of the value, and None means unlimited."""

    value: float
    lower: float | None
    upper: float | None
    unit: str


@dataclasses.dataclass(frozen=True)
class Entry:
    """Entry of a file, including the selectors of the `$index` levels above it."""

    where: str  # file and number of the entry, for messages
    path: pathlib.Path
    selectors: dict[str, str]  # field of SELECTORS → pattern
    axes: dict
    metrics: dict[str, Bound]
    shares: dict[str, tuple[float, float | None] | None]
    limit: str | None = None
    bytes_least: float = 0

    def holds(self, case: dict[str, str | None]) -> bool:
        """Returns whether the selectors match `case`; a field that `case` lacks is unknown and matches any selector."""
        return all(
            field not in case or re.fullmatch(pattern, case[field] or "") for field, pattern in self.selectors.items()
        )


# --- reading ---


@functools.cache
def units() -> tuple[str, ...]:
    """Returns the units that metrics of records may have."""
    with validate.schema_path().open(encoding="utf-8") as file:
        schema = json.load(file)
    return tuple(schema["properties"]["metrics"]["items"]["properties"]["unit"]["enum"])


def folders(configuration: pathlib.Path) -> list[pathlib.Path]:
    """Returns the folders references/ next to a site's configuration file and, for a link, next to its target."""
    places = (configuration.parent.resolve(), configuration.resolve().parent)
    return [place / "references" for place in dict.fromkeys(places)]


def listed(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the sorted contents of a folder of references, or an empty list if it does not exist.

    Raises BadReference for a dangling link, for anything that is not a folder, and for a folder that cannot be read.
    """
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        if not folder.is_symlink():
            return []
        why = "a link that leads nowhere"
    except OSError as error:
        why = error.strerror or str(error)
    raise BadReference(f"{folder}: {why}, so no reference in it would apply; correct or remove it")


def load(*places: pathlib.Path, opened: set[pathlib.Path] | None = None) -> tuple[Entry, ...]:
    """Reads all entries in the files of these folders; files in subfolders are read only through `$ref`.

    Adds the files that it reads to `opened`, for never_read(). Raises BadReference.
    """
    entries: list[Entry] = []
    for path in (path for folder in places for path in listed(folder)):
        if path.suffix.lower() in (".yml", ".yaml") and path.suffix != ".yaml":
            raise BadReference(f"{path}: not read under this name; call it {path.stem}.yaml")
        if path.suffix == ".yaml":
            entries += load_file(path, opened)
    return tuple(entries)


def load_file(path: pathlib.Path, opened: set[pathlib.Path] | None = None) -> list[Entry]:
    """Reads the entries of a file and of the files that it names; adds the resolved paths of these files to `opened`.

    Raises BadReference.
    """
    reader = _Reader()
    entries = reader.file(pathlib.Path(path), {}, ())
    if opened is not None:
        opened |= reader.files()
    return entries


def never_read(places: Iterable[pathlib.Path], opened: set[pathlib.Path]) -> list[str]:
    """Returns a sentence for each file below these folders that is not in `opened` or cannot be examined."""
    found: dict[str, None] = {}
    for place in places:
        unseen: list[load_records.Skipped] = []
        below = list(load_records.walk(place, unseen, compacted=True)) if place.is_dir() else []
        for folder, name in ((folder, name) for folder, names in below[1:] for name in names):
            path = pathlib.Path(folder, name)
            shown = path.relative_to(place.parent)
            if path.suffix.lower() in (".yml", ".yaml") and path.resolve() not in opened:
                found[f"{shown}: nothing in it applies, because no file that is read names it by $ref"] = None
            elif path.is_symlink() and not os.path.exists(path):  # the link may have led to a folder of references
                found[f"{shown}: {inputs.DANGLING}, so no reference in it would apply"] = None
        for each in unseen:
            shown = pathlib.Path(each.path).relative_to(place.parent)
            found[f"{shown}: {each.why}, so no reference in it would apply"] = None
    return list(found)


def read_yaml(path: pathlib.Path):
    """Returns the contents of a YAML file without checking them.

    Raises BadReference for invalid YAML and for aliases that expand to more than _MOST_UNFOLDED values.
    """
    try:
        data = inputs.read_small(path)
        content = yaml.load(data.decode(), Loader=_Loader)
    except (OSError, UnicodeDecodeError) as error:
        raise BadReference(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or str(error)
        why = spelling.shorten(" ".join(f"{what}{f', line {mark.line + 1}' if mark else ''}".split()))
        raise BadReference(f"{path.name}: not YAML ({why})") from None
    if unwieldy := inputs.unwieldy(content, len(data) + _MOST_UNFOLDED):
        raise BadReference(f"{path.name}: it {unwieldy}; write it flatter, and without aliases (*NAME)")
    return content


class _Reader:
    """Reader of a file and the files that it names by $ref; parses each once, and counts uses of $ref and bounds."""

    def __init__(self) -> None:
        self._contents: dict[pathlib.Path, Any] = {}
        self._named = self._bounds = 0

    def files(self) -> set[pathlib.Path]:
        return set(self._contents)

    def _content(self, path: pathlib.Path, within: tuple[pathlib.Path, ...]):
        """Returns the contents of a file.

        `within` is the chain of files that name each other by $ref; this file is the last.
        """
        *above, real = within
        if real in above:
            raise BadReference(f"{path.name}: it names itself by $ref, directly or through another file")
        if len(above) >= _MOST_NESTED:
            raise BadReference(f"{path.name}: the last of more than {_MOST_NESTED} files that name each other in a "
                               "row; name it in the first")  # fmt: skip
        self._named += len(within) > 1
        if self._named > _MOST_NAMED:
            raise BadReference(f"{within[0].name}: names files by $ref more than {_MOST_NAMED} times, including "
                               "what these name; name each where it is needed")  # fmt: skip
        if real not in self._contents:
            self._contents[real] = read_yaml(path)
        return self._contents[real]

    def file(self, path: pathlib.Path, above: dict[str, list[str]], within: tuple) -> list[Entry]:
        """Returns the entries of a file, below the selectors `above`; `within` is the chain of files that led to it."""
        within = (*within, path.resolve())
        content = self._content(path, within)
        index, fingerprints = [], None
        if isinstance(content, dict):
            content = dict(content)
            if "$ref" in content and "$index" not in content:
                content = [content]
            else:
                index = _index(content.pop("$index", None), path.name)
                fingerprints = content.pop("$fingerprints", {})
                if not isinstance(fingerprints, dict):
                    raise BadReference(f"{path.name}: $fingerprints does not map names to what they mean")
                for key in (key for key in content if str(key).startswith("$")):
                    near = spelling.did_you_mean(key, ["$index", "$fingerprints", "$ref"])
                    raise BadReference(f"{path.name}: {key!r} is not known here{near}")
        if not content:
            _refuse_nothing(path.name)
        return self._walk(content, index, above, path, itertools.count(1), fingerprints, within)

    def _walk(self, content, index, above, path, numbers, fingerprints, within) -> list[Entry]:
        if index:
            if not isinstance(content, dict):
                raise BadReference(f"{path.name}: the level of {index[0]!r} is not a mapping, although $index says so")
            entries = []
            for key, below in content.items():
                pattern = _pattern(key, f"{path.name}, {index[0]}")
                if below is None or below == {} or (below == [] and not index[1:]):
                    _refuse_nothing(f"{path.name}, {index[0]} {key!r}")
                chosen = {**above, index[0]: [*above.get(index[0], []), pattern]}
                entries += self._walk(below, index[1:], chosen, path, numbers, fingerprints, within)
            return entries
        if isinstance(content, dict) and "$ref" in content:
            content = [content]
        if not isinstance(content, list):
            raise BadReference(f"{path.name}: not a list of entries")
        entries = []
        for item in content:
            where = f"{path.name}, entry {next(numbers)}"
            if isinstance(item, dict) and "$ref" in item:
                entries += self.file(_referred(item, path, where), above, within)
            else:
                entries.append(_entry(item, above, path, where, fingerprints))
                self._bounds += len(entries[-1].metrics) + len(entries[-1].shares)
            if self._bounds > _MOST_BOUNDS:
                raise BadReference(f"{where}: more than {_MOST_BOUNDS} bounds, counting a file each time that $ref "
                                   "names it; name each where it is needed")  # fmt: skip
        return entries


def _index(index, where: str) -> list[str]:
    if not isinstance(index, list) or not index:
        raise BadReference(f"{where}: a mapping needs $index, the list of the fields that its levels select by")
    for field in index:
        if field not in SELECTORS:
            raise BadReference(f"{where}: $index names {field!r}; choose from {', '.join(SELECTORS)}")
        if index.count(field) > 1:
            raise BadReference(f"{where}: $index names {field!r} twice; write both patterns as one")
    return index


def _refuse_nothing(where: str) -> NoReturn:
    """Raises BadReference for an empty level, as in a file that was cut short; it would silently have no effect."""
    raise BadReference(f"{where}: empty, like a file that was cut short; write its content, or remove it")


def _referred(item, path: pathlib.Path, where: str) -> pathlib.Path:
    if set(item) != {"$ref"} or not isinstance(item["$ref"], str):
        raise BadReference(f"{where}: $ref must be the only key and name a file")
    named = path.parent / item["$ref"]
    if not named.is_file():
        raise BadReference(f"{where}: $ref names {item['$ref']!r}, which is not a file next to {path.name}")
    return named


def _pattern(value, where: str) -> str:
    """Returns a selector as a regular expression; null selects cases without a value."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float, type(None))):
        raise BadReference(f"{where}: {value!r} is neither a word nor a regular expression")
    text = "" if value is None else str(value)
    try:
        re.compile(text)
    except re.error as error:
        raise BadReference(f"{where}: {text!r} is not a regular expression ({error})") from None
    return text


def _entry(item, above, path, where, fingerprints) -> Entry:
    kinds = ("metrics", "shares")
    given = [item[kind] for kind in kinds if kind in item] if isinstance(item, dict) else []
    if len(given) != 1 or not isinstance(given[0], dict):
        raise BadReference(f"{where}: not a mapping with 'metrics'")
    is_share = "shares" in item
    unknown = set(item) - {*SELECTORS, "axes", *kinds, *(_SHARES_ONLY if is_share else ())}
    if unknown:
        choices = ", ".join([*SELECTORS, "axes", *(_SHARES_ONLY if is_share else ())])
        raise BadReference(f"{where}: unknown key {sorted(map(str, unknown))[0]!r}; choose from {choices}")
    if not given[0]:
        _refuse_nothing(f"{where}, {'shares' if is_share else 'metrics'}")
    if not isinstance(item.get("axes", {}), dict):
        raise BadReference(f"{where}: 'axes' is not a mapping of an axis to its value")
    for axis, value in item.get("axes", {}).items():
        if isinstance(value, (dict, list, set)):
            raise BadReference(f"{where}: axis {axis} is neither a word nor a number")
    chosen = {field: _pattern(item[field], f"{where}, {field}") for field in SELECTORS if field in item}
    axes = item.get("axes", {})
    for field, patterns in above.items():
        # A string must match the patterns of all levels.
        terms = [*patterns, *([chosen[field]] if field in chosen else [])]
        chosen[field] = terms[0] if len(terms) == 1 else "".join(f"(?=(?:{t})\\Z)" for t in terms) + ".*"
    metrics = {name: _bound(name, bound, where, fingerprints or {}) for name, bound in item.get("metrics", {}).items()}
    shares = {name: _share(name, share, where) for name, share in item.get("shares", {}).items()}
    return Entry(
        where, path, chosen, axes, metrics, shares,
        _limit(item.get("limit"), where), _bytes_least(item.get("bytes_least", 0), where),
    )  # fmt: skip


def _limit(given, where: str) -> str | None:
    """Returns `limit` as a regular expression.

    Raises BadReference if it matches no limit, since another share would then silently apply.
    """
    if given is None:
        return None
    pattern = _pattern(given, f"{where}, limit")
    if why := selectors.wrong_limit(pattern):
        raise BadReference(f"{where}: {why}")
    return pattern


def _bytes_least(given, where: str) -> float:
    number = _number(given, f"{where}: bytes_least")
    if not 0 <= number <= _MOST_MOVED:
        raise BadReference(
            f"{where}: bytes_least is {given!r}, but no figure moves that much; write bytes, such as 67108864"
        )
    return number


def _number(value, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise BadReference(f"{where} is {value!r}, not a number")
    return value


def _metric_name(name, where: str):
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise BadReference(f"{where}: {name!r} is not the name of a metric")


def _bound(name, given, where: str, fingerprints: dict) -> Bound:
    """Parses [value, lower, upper, unit], or a mapping with these keys and those of _PROVENANCE."""
    _metric_name(name, where)
    is_measured = isinstance(given, dict) and "n" in given  # made from jobs, which can vary by more than the value
    if isinstance(given, dict):
        given = _listed(name, given, where, fingerprints)
    if not isinstance(given, list) or len(given) != 4 or not isinstance(given[0], (int, float)):
        raise BadReference(f"{where}: {name} is not [value, lower, upper, unit]")
    value, lower, upper, unit = given
    _number(value, f"{where}: {name}'s value")
    _refuse_tolerances(name, value, lower, upper, where)
    if not is_measured:
        _refuse_percent(name, lower, upper, where)
    unit = "1" if unit == 1 else unit  # YAML parses 1 as a number
    if unit not in units():
        raise BadReference(f"{where}: {name} is in {unit!r}, which no metric has; choose from {', '.join(units())}")
    return Bound(value, lower, upper, unit)


def _listed(name, given: dict, where: str, fingerprints: dict) -> list:
    """Returns [value, lower, upper, unit] of a bound that is a mapping."""
    unknown, lacking = set(given) - {*Bound._fields, *_PROVENANCE}, set(Bound._fields) - set(given)
    if unknown or lacking:
        word = sorted(map(str, unknown or lacking))[0]
        what = "unknown key" if unknown else "lacks"
        raise BadReference(f"{where}: {name}: {what} {word!r}; write value, lower, upper, unit")
    named = given.get("fingerprint")
    if named is not None and str(named) not in map(str, fingerprints):
        raise BadReference(f"{where}: {name}'s fingerprint {named!r} is not in $fingerprints")
    return [given[key] for key in Bound._fields]


def _refuse_tolerances(name, value: float, lower, upper, where: str) -> None:
    """Raises BadReference for tolerances that have no effect, or certainly another effect than intended."""
    for what, fraction, sign in (("lower", lower, -1), ("upper", upper, 1)):
        if fraction is not None and sign * _number(fraction, f"{where}: {name}'s {what} tolerance") < 0:
            wanted = "at most 0, such as -0.05" if sign < 0 else "at least 0, such as 0.05"
            raise BadReference(f"{where}: {name}'s {what} tolerance is {fraction}; it must be {wanted}")
    if lower is not None and lower < -1 and value >= 0:
        raise BadReference(f"{where}: {name}'s lower tolerance is {lower}; {amounts.no_margin(lower)}")
    if lower is None and upper is None:
        raise BadReference(f"{where}: {name} has no tolerance, so it bounds nothing; give one, such as -0.05")
    if value == 0 and (lower or upper):
        raise BadReference(f"{where}: {name}'s value is 0, which has no fractions; write 0 as tolerance")


def _refuse_percent(name, lower, upper, where: str) -> None:
    """Raises BadReference for tolerances that were written in percent and would allow almost anything."""
    for what, fraction in (("lower", lower), ("upper", upper)):
        if fraction is not None and (why := amounts.no_margin(fraction)):
            raise BadReference(f"{where}: {name}'s {what} tolerance is {fraction}; {why}")


def _share(name, given, where: str):
    _metric_name(name, where)
    if given is None:  # explicitly without bounds
        return None
    low, high = given if isinstance(given, list) and len(given) == 2 else (given, None)
    _number(low, f"{where}: {name}'s share")
    if high is not None:
        _number(high, f"{where}: {name}'s largest share")
        if high >= _MOST_SHARE and (why := amounts.no_margin(high)):
            raise BadReference(f"{where}: {name}'s largest share is {high}; {why}")
    if low >= _MOST_SHARE and (why := amounts.no_margin(low)):
        raise BadReference(f"{where}: {name}'s share is {low}; {why}")
    if not 0 <= low <= (1 if high is None else high):
        raise BadReference(f"{where}: {name}'s share is {given!r}; write 0.7, or [0.7, 1.05]")
    return low, high


# --- finding ---


def case_of(record: dict, partition: str) -> dict[str, str]:
    """Returns the fields of a record that select its references."""
    device = record["devices"][0] if record["devices"] else {}
    fields = {field: record.get(field) for field in ("workload", "mode", "placement", "staging", "size", "preset")}
    fields |= {"version": record["version"], "ranks": record.get("ranks", {}).get("count", 1), "partition": partition}
    fields |= {"arch": device.get("arch"), "driver": device.get("driver"), "compiler": record["build"]["compiler"]}
    fields |= {"profiler": record.get("profiler")}
    return {field: "" if value is None else str(value) for field, value in fields.items()}


def find(entries, case: dict[str, str], axes: dict | None = None) -> dict[str, Bound]:
    """Returns the bounds of a case's metrics, keyed by metric; axes are compared by value.

    Raises BadReference if two entries have the same metric, since it would be arbitrary which one applies.
    """
    found: dict[str, Bound] = {}
    origin: dict[str, str] = {}
    for entry in entries:
        if not entry.metrics or not entry.holds(case) or not _at_axes(entry, axes or {}):
            continue
        for metric, bound in entry.metrics.items():
            if metric in found:
                raise BadReference(f"two references for {metric}: {origin[metric]} and {entry.where}")
            found[metric], origin[metric] = bound, entry.where
    return found


def _at_axes(entry: Entry, axes: dict) -> bool:
    """Returns whether a case's axes have the values that an entry selects.

    Raises BadReference for an axis or a type of value that the case cannot have.
    """
    for axis, value in entry.axes.items():
        if axis not in axes:
            choices = ", ".join(axes) or "none"
            raise BadReference(f"{entry.where}: there is no axis {axis!r} here; choose from {choices}")
        if type(value) is not type(axes[axis]):
            raise BadReference(f"{entry.where}: axis {axis} is {value!r}, but a record has values like {axes[axis]!r}")
    return all(axes[axis] == value for axis, value in entry.axes.items())


# --- figures without a reference: plausible share of the nominal limit ---

_LINKS = re.compile(r"^(\d+) (NVLink|xGMI)")


@functools.cache
def default_shares() -> tuple[Entry, ...]:
    """Returns the shares of limits that any machine should reach, from shares.yaml in this package."""
    return tuple(load_file(pathlib.Path(__file__).with_name("shares.yaml")))


def nominal(metric: dict, record: dict, stated: dict | None = None) -> tuple[float, str] | None:
    """Returns a figure's share of its nominal limit, and this limit in words; None for a figure without a limit.

    A record's limit is that of the link as it was trained at the time. The nominal limit is the best that device and
    slot support, or the one that the site states: {'pcie': '5 x16', 'links': 18}.
    """
    limit, share = metric.get("limit"), metric.get("share")
    if not limit or share is None:
        return None
    source, stated = limit["source"], stated or {}
    if now := doubts.trained_link(source):
        best = _nominal_pcie(record, stated, now)
        share *= doubts.part_of_link(now, best)
        if best != now and best[0] in doubts.PCIE:
            source = f"PCIe {best[0]} x{best[1]} (it runs as PCIe {now[0]} x{now[1]})"
    elif (found := _LINKS.search(source)) and stated.get("links") and int(found[1]) != stated["links"]:
        if not isinstance(stated["links"], int):
            raise BadReference(f"the site states links {stated['links']!r}; write their number, such as 18")
        share *= int(found[1]) / stated["links"]
        source = f"{stated['links']} {found[2]}s ({found[1]} are up)"
    return share, source


def _nominal_pcie(record: dict, stated: dict, now: tuple[int, int]) -> tuple[int, int]:
    if "pcie" in stated:
        if not (link := pcie_of(str(stated["pcie"]))):
            raise BadReference(f"the site states pcie {stated['pcie']!r}; write generation and lanes, such as '5 x16'")
        return link
    return doubts.best_link(record, now)


def pcie_of(text: str) -> tuple[int, int] | None:
    """Parses "5 x16" into generation and lanes; returns None for any other text."""
    match = re.fullmatch(r"([0-9]+) x([0-9]+)", text)
    return (int(match[1]), int(match[2])) if match and int(match[1]) in doubts.PCIE and int(match[2]) else None


def insane(entries, metric: dict, record: dict, case: dict, stated: dict | None = None) -> str | None:
    """Returns why a figure without a reference cannot be right; None if it is plausible or cannot be judged.

    A figure is implausible if its share of the nominal limit is below what any machine reaches, or above what a site
    allows. The site's `shares` have precedence over those of this package. Emulated figures are not judged.
    """
    found = nominal(metric, record, stated)
    if found is None or record["emulated"]:
        return None
    share, source = found
    moved = doubts.moved(record, metric)
    for entry in (*entries, *default_shares()):
        if (
            metric["name"] not in entry.shares
            or not entry.holds(case)
            or (entry.limit is not None and not selectors.meets_limit(entry.limit, metric["limit"]["source"]))
            or moved < entry.bytes_least
            or not _at_axes(entry, record["axes"])
        ):
            continue
        if entry.shares[metric["name"]] is None:
            return None
        low, high = entry.shares[metric["name"]]
        if share < low:
            return (
                f"{metric['name']} is {share:.0%} of what {source} allows, less than the {low:.0%} that any such "
                "machine reaches; look at the link, or state another share in the site's references"
            )
        if high is not None and share > high:
            return f"{metric['name']} is {share:.0%} of what {source} allows, more than {high:.0%}"
        return None
    return None


def passed_over(entries, metric: dict, record: dict, case: dict) -> list[Entry]:
    """Returns the entries with a share for a figure that only their `limit` keeps from applying.

    Their limit has another generation or number of links than this machine's, or is a mistake. Returns an empty list if
    another entry applies, if the case is emulated, or if the figure's share of its limit is unknown.
    """
    if record["emulated"] or not metric.get("limit") or metric.get("share") is None:
        return []
    source, moved = metric["limit"]["source"], doubts.moved(record, metric)
    fitting = [
        entry
        for entry in entries
        if metric["name"] in entry.shares and entry.holds(case) and moved >= entry.bytes_least
    ]
    if any(entry.limit is None or selectors.meets_limit(entry.limit, source) for entry in fitting):
        return []
    return fitting


# --- checking against the catalogue ---


def problems(entries, catalogue: dict) -> list[str]:
    """Returns a sentence for each part of these entries that can never match, such as a misspelt name.

    `catalogue` is reframe/checks/catalogue.json. It lacks families whose workloads differ between machines
    (transfer/*); their entries are checked only for selectors and metrics that no record can have.
    """
    families = {workload["name"].partition("/")[0] for workload in catalogue["workloads"]}
    return [sentence for entry in entries for sentence in _problems_of(entry, catalogue, families)]


def _problems_of(entry: Entry, catalogue: dict, families: set[str]) -> list[str]:
    pattern = entry.selectors.get("workload")
    family = re.match(r"[a-z0-9_]+(?=/)", pattern or "")
    known = family is not None and family[0] in families
    if family is not None and not known and family[0] not in selectors.MADE:
        hint = spelling.did_you_mean(family[0], {*families, *selectors.MADE})
        return [f"{entry.where}: there is no family of workloads called {family[0]!r}{hint}"]
    fitting = [w for w in catalogue["workloads"] if pattern is None or re.fullmatch(pattern, w["name"])]
    if known and not fitting:
        return [f"{entry.where}: no workload of the catalogue matches {pattern!r}"]
    sentences = []
    for field, values in (("mode", catalogue["modes"]), ("size", catalogue["sizes"])):
        chosen = entry.selectors.get(field)
        if chosen is not None and not any(re.fullmatch(chosen, value) for value in [*values, ""]):
            sentences.append(
                f"{entry.where}: no {field} matches {chosen!r}; there are {', '.join(filter(None, values))}"
            )
    for field in () if entry.path.name.startswith(selectors.MEASURED) else (*selectors.FIELDS, "driver"):
        chosen = entry.selectors.get(field)
        if chosen is not None and (why := selectors.wrong(field, chosen)):
            sentences.append(f"{entry.where}: {why}")
    if known:
        sentences += [f"{entry.where}: {why}" for why in _wrong_axes(entry, fitting)]
    elif family is not None:
        unreported = selectors.unknown_metrics(family[0], [*entry.metrics, *entry.shares])
        sentences += [f"{entry.where}: no workload of {family[0]}/ reports {name!r}" for name in unreported]
    if known:
        unreported = _unreported([*entry.metrics, *entry.shares], fitting)
        sentences += [f"{entry.where}: no workload that matches {pattern!r} reports {name!r}" for name in unreported]
    return sentences


def _wrong_axes(entry: Entry, fitting: list[dict]) -> list[str]:
    """Returns what is wrong with an entry's axes, or types of their values, if none of these workloads has them."""
    axes = [workload["axes"] for workload in fitting if isinstance(workload.get("axes"), dict)]
    if not entry.axes or len(axes) < len(fitting):  # lists from the program are checked elsewhere, in more detail
        return []
    found = [selectors.wrong_kinds(entry.axes, known) for known in axes]
    return [] if [] in found else found[0]


def reported(workload: dict) -> set[str] | None:
    """Returns the metrics that a workload of the catalogue reports; None if they are unknown."""
    # Workloads that measure themselves report the metrics that they list; the harness measures all other workloads.
    names = {*workload["metrics"], *workload.get("observed", ())}
    return names if names and "observed" in workload else None


def _unreported(metrics: list[str], workloads: list[dict]) -> list[str]:
    """Returns the metrics that none of the workloads reports; empty if the metrics of one workload are unknown."""
    known = [names for w in workloads if (names := reported(w)) is not None]
    if len(known) < len(workloads):
        return []
    every = set().union(*known)
    return [name for name in metrics if name not in every and not name.startswith(PROFILED)]


def idle(entries, partitions) -> list[str]:
    """Returns a sentence for each entry that can never apply at a site with these partitions (partitions_of()).

    No partition has the name that such an entry selects, or no partition has its GPU.
    """
    return [sentence for entry in entries if (sentence := _idle(entry, partitions))]


def _idle(entry: Entry, partitions) -> str | None:
    chosen = entry.selectors.get("partition")
    fitting = [p for p in partitions if chosen is None or re.fullmatch(chosen, p.name)]
    if not fitting:
        names = [p.name for p in partitions]
        hint = spelling.did_you_mean(chosen or "", names) or f"; there are {', '.join(names)}"
        return f"{entry.where}: no partition is called {chosen!r}{hint}"
    arch = entry.selectors.get("arch")
    if arch is None or not all(p.is_known for p in fitting):
        return None
    # Figures of a CPU have an empty architecture. Records may be more specific than a site: gfx90a:sramecc+:xnack-.
    archs = sorted({name for p in fitting for name in p.archs})
    if re.fullmatch(arch, "") or any(re.fullmatch(arch, name) or arch.startswith(f"{name}:") for name in archs):
        return None
    where = ", ".join(sorted(p.name for p in fitting))
    return f"{entry.where}: never applies: it is for arch {arch!r}, but {where} states {', '.join(archs) or 'no GPU'}"
