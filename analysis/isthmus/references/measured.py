"""Reference files that `isthmus references update` writes: measured-<partition>.yaml, keyed by KEYS, then case."""

from __future__ import annotations

import datetime
import json
import pathlib
import re

import yaml

from isthmus import Error
from isthmus.references import lookup, selectors

PREFIX = selectors.MEASURED  # first part of the names of files that `update` writes
KEYS = ("partition", "arch", "driver", "compiler")  # levels of these files, which their $index names
# Fields that identify an entry below these levels.
CASE = ("workload", "version", "placement", "staging", "size", "preset", "ranks", "profiler")


def case_key(entry: dict) -> tuple:
    axes = json.dumps(entry.get("axes", {}), sort_keys=True)
    return (*(str(entry.get(field, "")) for field in CASE), axes)


def read(path: pathlib.Path) -> tuple[dict, dict]:
    """Returns the entries of a file that `update` wrote, keyed by KEYS and then by case, and its fingerprints.

    Raises Error for other files.
    """
    if not path.exists():
        return {}, {}
    lookup.load_file(path)  # raises a sentence for every mistake
    content = lookup.read_yaml(path)
    if not isinstance(content, dict) or content.get("$index") != list(KEYS):
        raise Error(f"{path}: not written by `isthmus references update`; rename it, since this name is reserved")
    tree: dict[tuple, dict] = {}

    def walk(level, keys):
        if len(keys) < len(KEYS):
            for key, below in level.items():
                walk(below, (*keys, "" if key is None else str(key)))
            return
        for entry in level:
            if "metrics" not in entry:
                raise Error(
                    f"{path}: this file may contain only entries with metrics; write other entries into your own file"
                )
            tree.setdefault(keys, {})[case_key(entry)] = entry

    walk({key: value for key, value in content.items() if not key.startswith("$")}, ())
    return tree, dict(content.get("$fingerprints") or {})


def _word(value) -> str:
    if value is None:
        return "null"
    if isinstance(value, float):
        text = f"{value:.6g}"
        return text if re.search("[.e]", text) else text + ".0"
    if not isinstance(value, str):
        return json.dumps(value)
    if re.fullmatch(r"[A-Za-z][\w/.-]{2,}|s|B/s|B|W|Hz", value, re.ASCII) and yaml.safe_load(value) == value:
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'


def _name(key: str) -> str:
    """Returns the name of a metric, axis or field as YAML, quoted if YAML would misinterpret it (`no`, `on`)."""
    plain = re.fullmatch(r"[A-Za-z_][\w.-]*", key, re.ASCII) and yaml.safe_load(key) == key
    return key if plain else _word(key) if _word(key) != key else f'"{key}"'


def _flow(mapping: dict) -> str:
    def text(value):
        if isinstance(value, list):
            return f"[{', '.join(map(_word, value))}]"
        return _word(str(value) if isinstance(value, datetime.date) else value)

    return "{" + ", ".join(f"{_name(key)}: {text(value)}" for key, value in mapping.items()) + "}"


def render(tree: dict, fingerprints: dict) -> str:
    """Returns the text of a file; equal references always have the same text."""
    used = {
        str(bound["fingerprint"])
        for cases in tree.values() for entry in cases.values() for bound in entry["metrics"].values()
        if isinstance(bound, dict) and "fingerprint" in bound
    }  # fmt: skip
    lines = [
        "# Written by `isthmus references update` from kept records, reviewed by a person; docs/references.md.",
        "# Write your own entries into other files next to this one.",
        f"$index: [{', '.join(KEYS)}]",
        "$fingerprints:" + ("" if used else " {}"),
    ]
    for name in sorted(used & set(map(str, fingerprints))):
        lines.append(f"  {_word(name)}: {_flow(fingerprints[name])}")
    shown: tuple = ()
    for keys in sorted(tree):
        same = next((i for i, (a, b) in enumerate(zip(shown, keys)) if a != b), len(shown))
        for depth in range(same, len(keys)):
            lines.append(f"{'  ' * depth}{_word(keys[depth])}:")
        shown = keys
        indent = "  " * len(keys)
        for _, entry in sorted(tree[keys].items()):
            first = True
            for field in (*CASE, "axes"):
                if field in entry:
                    value = entry[field]
                    text = _flow(dict(sorted(value.items()))) if field == "axes" else _word(value)
                    lines.append(f"{indent}{'- ' if first else '  '}{field}: {text}")
                    first = False
            lines.append(f"{indent}  metrics:")
            for metric, bound in sorted(entry["metrics"].items()):
                text = _flow(bound) if isinstance(bound, dict) else f"[{', '.join(map(_word, bound))}]"
                lines.append(f"{indent}    {_name(metric)}: {text}")
    return "\n".join(lines) + "\n"


def exactly(text: str) -> str:
    """Returns a regular expression that matches exactly this text, with as few backslashes as possible."""
    return re.sub(r"[.*+?{}|()$]", lambda match: f"[{match[0]}]", re.sub(r"([\\^\[\]])", r"\\\1", text))


def merged(path: pathlib.Path, tree: dict, fingerprints: dict) -> str:
    """Returns the text of a file with these references added; keeps the file's other cases and metrics."""
    old, known = read(path)
    for keys, cases in tree.items():
        for key, entry in cases.items():
            before = old.setdefault(keys, {}).setdefault(key, {**entry, "metrics": {}})
            before["metrics"] = {**before["metrics"], **entry["metrics"]}
    return render(old, {**known, **fingerprints})
