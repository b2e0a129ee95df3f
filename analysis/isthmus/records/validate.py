"""Validation of records, which is the same for all commands and `isthmus compact`.

The schema defines a record; `_beyond()` adds rules that a schema cannot express. A line that msgspec accepts, with
types made from the schema, is valid. Any other line is checked by jsonschema, which is slow but states what is wrong.
Without msgspec, every line is checked by jsonschema. tests/python/test_hostile.py shows that both agree.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import json
import math
import operator
import os
import pathlib
import re
import typing

from isthmus import Error
from isthmus.records import withheld
from isthmus.spelling import shorten

SCHEMA = "isthmus.record/3"

LARGEST = 1e30  # largest valid figure; real figures are smaller, and arithmetic on larger ones would overflow
SMALLEST = 1e-30  # smallest valid figure other than zero
_WHOLE = 2**63 - 1  # largest integer of a table
_SEED = 2**64 - 1
_DEEPEST = 32  # maximum levels of nested objects and lists; a record has six


class RecordError(Error):
    """Error for an invalid record file or an invalid line in it; the message states which line and why."""


def schema_path() -> pathlib.Path:
    """Returns the path of the record's schema.

    It is $ISTHMUS_SCHEMA, else in schema/ of the source tree, else next to this module. Raises RecordError if it does
    not exist.
    """
    given = os.environ.get("ISTHMUS_SCHEMA")
    here = pathlib.Path(__file__).resolve()
    places = [pathlib.Path(given)] if given else [here.parents[3] / "schema", here.parent]
    for place in places:
        path = place if place.suffix == ".json" else place / "record.schema.json"
        if path.is_file():
            return path
    raise RecordError(f"record.schema.json is not in {' nor '.join(map(str, places))}; set ISTHMUS_SCHEMA to its path")


def beside_schema(name: str) -> pathlib.Path:
    """Returns the path of a file in the schema's folder. Raises RecordError if it does not exist."""
    path = schema_path().with_name(name)
    if not path.is_file():
        raise RecordError(f"{path}: no such file; keep the files of the folder schema together")
    return path


# --- the schema with bounds ---


def _bounded(schema, name: str = ""):
    """Returns the schema with bounds for every number, and with patterns translated to Python's syntax."""
    if isinstance(schema, list):
        return [_bounded(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: _bounded(value, key) for key, value in schema.items()}
    kinds = schema.get("type", ())
    kinds = (kinds,) if isinstance(kinds, str) else kinds
    if "number" in kinds:
        result = {"minimum": -LARGEST, "maximum": LARGEST, **result}
    elif "integer" in kinds:
        result = {"minimum": -_WHOLE, "maximum": _SEED if name == "seed" else _WHOLE, **result}
    if isinstance(schema.get("pattern"), str):  # in Python, `$` would also accept a line feed
        result["pattern"] = re.sub(r"\$\Z", r"\\Z", schema["pattern"])
    return result


@functools.lru_cache(maxsize=1)
def _schema() -> dict:
    return _bounded(json.loads(schema_path().read_text(encoding="utf-8")))


@functools.lru_cache(maxsize=1)
def _validator():
    import jsonschema  # imported here so that reading names needs no third-party package

    return jsonschema.Draft202012Validator(_schema())


# --- the same schema as types ---


def _either(kinds):
    return functools.reduce(operator.or_, kinds)


def _type(schema: dict, name: str):
    """Returns a type for msgspec whose values all fulfil the schema.

    Raises KeyError for keywords of the schema that are not supported.
    """
    import msgspec

    known = {"type", "description", "enum", "const", "oneOf", "pattern", "minLength", "minimum", "exclusiveMinimum",
             "maximum", "items", "minItems", "maxItems", "properties", "required", "additionalProperties"}  # fmt: skip
    if strange := set(schema) - known - {"$schema", "$id", "title"}:
        raise KeyError(f"the schema of {name} has {sorted(strange)}")
    if "oneOf" in schema:  # a union is equivalent, since no value fulfils two alternatives in this schema
        return _either(_type(each, f"{name}_{i}") for i, each in enumerate(schema["oneOf"]))
    if "const" in schema or "enum" in schema:
        return typing.Literal[tuple(schema.get("enum", [schema.get("const")]))]

    def meta(kind, **words):
        given = {word: schema[key] for word, key in words.items() if key in schema}
        given = {word: value for word, value in given.items() if not isinstance(value, int) or abs(value) <= _WHOLE}
        return typing.Annotated[kind, msgspec.Meta(**given)] if given else kind

    def one(kind: str):
        bounds = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum"}
        if "exclusiveMinimum" in schema:
            del bounds["ge"]
        if kind == "object":
            return _object(schema, name)
        if kind == "array":
            items: typing.Any = _type(schema["items"], f"{name}_item") if "items" in schema else typing.Any
            return meta(list[items], min_length="minItems", max_length="maxItems")
        if kind == "string":
            return meta(str, pattern="pattern", min_length="minLength")
        if kind in ("integer", "number"):
            return meta(int if kind == "integer" else float, **bounds)
        return {"boolean": bool, "null": None}[kind]

    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return _either(map(one, kinds))


def _object(schema: dict, name: str):
    import msgspec

    others = schema.get("additionalProperties", True)
    if "properties" not in schema:
        value: typing.Any = typing.Any if others is True else _type(others, f"{name}_value")
        return dict[str, value]
    if not isinstance(others, bool):
        raise KeyError(f"the schema of {name} has properties and additionalProperties")
    required = set(schema.get("required", ()))
    if required - set(schema["properties"]):
        raise KeyError(f"the schema of {name} requires what it does not describe")
    fields = []
    for field, own in schema["properties"].items():
        kind = _type(own, f"{name}_{field}")
        fields.append((field, kind) if field in required else (field, kind | msgspec.UnsetType, msgspec.UNSET))
    return msgspec.defstruct(f"record_{name}", fields, kw_only=True, gc=False, forbid_unknown_fields=not others)


@dataclasses.dataclass
class _Decoders:
    """Decoders of msgspec for a line; both raise one of `refusals` if they cannot decode it."""

    anything: typing.Callable  # decodes any JSON to dictionaries and lists
    whole: typing.Callable  # decodes a line that fulfils the schema
    refusals: tuple


@functools.lru_cache(maxsize=1)
def _decoders() -> _Decoders | None:
    """Returns the decoders, or None if msgspec is not installed."""
    try:
        import msgspec
    except ModuleNotFoundError:
        return None
    refusals = (msgspec.MsgspecError, UnicodeError, RecursionError)
    return _Decoders(
        msgspec.json.Decoder(typing.Any).decode, msgspec.json.Decoder(_object(_schema(), "record")).decode, refusals
    )


# --- rules that a schema cannot express ---


def _wrong_figures(samples: list, median, invalid) -> str | None:
    """Returns what is wrong with a metric's median, or None; `invalid` contains the indices of invalid samples."""
    if invalid:
        if max(invalid) >= len(samples):
            return f"sample {max(invalid)} is invalid, but there are only {len(samples)}"
        left = set(invalid)
        samples = [value for i, value in enumerate(samples) if i not in left]
        if not samples:
            return None if median is None else f"the median is {median:g}, but every sample is invalid"
    if median is None:
        return f"the median is null, but {len(samples)} samples are valid"
    ordered = sorted(samples)
    middle = len(ordered) >> 1
    own = ordered[middle] if len(ordered) & 1 else (ordered[middle - 1] + ordered[middle]) / 2
    if own != median and abs(own - median) > 1e-9 * max(abs(own), abs(median)):
        return f"the median is {median:g}, but that of the samples is {own:g}"
    if -SMALLEST < median < SMALLEST and median:
        return f"{median:g} is too near to zero for a figure"
    return None


def _beyond(time: str, axes: dict, metrics: list[tuple]) -> str | None:
    """Returns what is wrong with a record that fulfils the schema, or None.

    `metrics` contains (name, samples, median, invalid) of each metric.
    """
    try:
        datetime.datetime.fromisoformat(time[:-1])
    except ValueError as error:
        return f"run/time: {time} is not a valid time ({error})"
    size = axes.get("bytes", 1)
    if isinstance(size, str) or size < 1:
        return f"axes/bytes: {shorten(repr(size), 40)} is not a number of bytes"
    names = set()
    for name, *figures in metrics:
        if name in names:
            return f"metrics: two metrics have the same name, {name}"
        names.add(name)
        if why := _wrong_figures(*figures):
            return f"metrics/{name}: {why}"
    return None


def _beyond_of(record: dict) -> str | None:
    metrics = [(m["name"], m["samples"], m["median"], m.get("invalid")) for m in record["metrics"]]
    return _beyond(record["run"]["time"], record["axes"], metrics)


def problem(record) -> str | None:
    """Returns one sentence that states why `record` (parsed JSON) is invalid, or None if it is valid."""
    if not isinstance(record, dict):
        return f"a JSON {type(record).__name__}, not a record"
    if record.get("schema") != SCHEMA:
        return f"another schema ({shorten(repr(record.get('schema')), 40)}), not {SCHEMA}"
    try:
        _keys(record)
        errors = sorted(_validator().iter_errors(record), key=lambda e: list(map(str, e.absolute_path)))
    except RecursionError:
        return f"more than {_DEEPEST} objects and lists within each other"
    if not errors:
        return _beyond_of(record)
    first = errors[0]
    where = "/".join(map(str, first.absolute_path)) or "the record"
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{shorten(where, 80)}: {shorten(first.message)}{more}"


# --- lines ---


def _keys(value, left: int = _DEEPEST) -> int:
    """Counts the keys in an object or list at all levels. Raises RecursionError if it has more than _DEEPEST levels."""
    if not left:
        raise RecursionError
    if type(value) is list:
        number = 0
    else:
        number = len(value)
        value = value.values()
    for each in value:
        kind = type(each)
        # Lists that begin with a figure are skipped. If one contained an object, the count would be too low, and
        # jsonschema would check the line.
        if kind is dict or (kind is list and each and type(each[0]) is not float):
            number += _keys(each, left - 1)
    return number


def _once(data: bytes, keys: int) -> bool:
    """Returns whether JSON text certainly has no duplicate keys, given the number of keys after parsing.

    Parsing keeps only one of two equal keys, so that the text contains `":` more often than there are keys. Strings can
    only increase the number of `":`. White space before a colon would decrease it, so text with such white space is not
    certain.
    """
    return data.count(b'":') == keys and not (b" :" in data or b"\t" in data or b"\r" in data or b"\n" in data)


def _shown_good(data: bytes) -> dict | None:
    """Returns the record in a line that is certainly valid; None if the line must be checked by jsonschema."""
    decoders = _decoders()
    if decoders is None:
        return None
    try:
        record = decoders.anything(data)
        decoders.whole(data)
        if not _once(data, _keys(record)) or _beyond_of(record):
            return None
    except (*decoders.refusals, KeyError, TypeError):
        return None
    return record


def good(data: bytes, *, tables: bool = True) -> bool:
    """Returns whether a line is certainly a record and, unless `tables`, names no tables. Faster than line()."""
    record = _shown_good(data)
    return record is not None and (tables or not record.get("tables"))


def _refuse_constant(name: str):
    raise ValueError(f"{name} is not JSON")


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{shorten(text, 40)} is not a finite number")
    return value


def _no_duplicates(pairs):
    result = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"the key {shorten(repr(key), 40)} appears twice")
        result[key] = value
    return result


def _no_json(text: str, error: Exception, last: bool) -> str:
    """Returns why a line is not JSON and, if it is part of a record, what to do."""
    why = shorten(str(error))
    if not isinstance(error, json.JSONDecodeError) or not text.lstrip().startswith("{"):
        return f"not JSON ({why})"
    if error.msg == "Extra data":
        return f"not JSON ({why}): put each record on its own line"
    if last:
        return f"cut short ({why}), by a full disk or a killed run: run it again with --resume, or delete the line"
    return f"not JSON ({why}), perhaps half of a record: delete the line, and run it again with --resume"


def line(data: bytes, *, where: str, last: bool = False) -> dict:
    """Parses the record in a line; `where` names the line in errors, and `last` means that it may have been cut short.

    Raises RecordError if the line is not a valid record.
    """
    record = _shown_good(data)
    if record is None:
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise RecordError(f"{where}: not UTF-8 ({error.reason})") from None
        try:
            record = json.loads(
                text, parse_constant=_refuse_constant, parse_float=_float, object_pairs_hook=_no_duplicates
            )
            if "\\u" in text:
                json.dumps(record, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise RecordError(f"{where}: not text (half of a surrogate pair)") from None
        except (ValueError, RecursionError) as error:
            raise RecordError(f"{where}: {_no_json(text, error, last)}") from None
        if why := problem(record):
            raise RecordError(f"{where}: {why}")
    return withheld.without_unsure(record)
