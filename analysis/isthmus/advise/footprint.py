"""Footprint of a program: the bytes that it moves and its flops, declared or taken from a record."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

from isthmus import Error, inputs, spelling, units
from isthmus.advise.measured import counts, medians
from isthmus.records import fields, validate

PREFIX = "microbench/"
#: Flops per access to shared memory of the seven kernels when they stage tiles. All accesses for one output are
#: counted, including the store of the tile. For gemm, each thread computes a patch of 8 × 8 values. Multiply by
#: `iterations` if a value stays in a register.
FLOPS_PER_SHARED = {
    "vector_seq": 1.0, "vector_rand": 1.0, "saxpy": 0.5, "gemv": 2 / 3, "gemm": 8.0, "conv2d": 1.7, "conv3d": 1.9,
}  # fmt: skip
IN_PLACE = {"vector_seq", "vector_rand", "saxpy"}  # kernels that write their results into an input


@dataclasses.dataclass(frozen=True)
class Footprint:
    """Bytes that a program moves and flops that it computes; placing.py explains the fields."""

    bytes_in: float
    bytes_out: float
    touched: float
    flops: float
    flops_per_shared: float | None = None
    reuse: float = 1
    passes: float = 1
    allocations: float = 1
    buffers: float = 0
    blocks: int = 0
    random: bool = False


# --- from a record ---


def of_program(case: dict) -> bool:
    """Returns whether a record counts and has the phases of a program."""
    return counts(case) and {"in", "kernel", "out", "kernel_rate"} <= medians(case).keys()


def footprint_of(case: dict) -> Footprint:
    """Returns the footprint of a record's program. Raises RecordError for a record without phases."""
    if not of_program(case):
        raise validate.RecordError(
            f"{case['workload']} has no phases in, kernel and out, so a footprint cannot be derived from it"
        )
    found, metrics, name = medians(case), fields.metrics(case), case["workload"].removeprefix(PREFIX)
    moved_in, moved_out = (float(metrics[phase].get("bytes_needed") or 0) for phase in ("in", "out"))
    per_shared = FLOPS_PER_SHARED.get(name)
    if per_shared and case["axes"].get("reuse") == "register":
        per_shared *= case["axes"].get("iterations", 1)
    return Footprint(
        moved_in,
        moved_out,
        found["kernel_rate"] * found["kernel"],
        found.get("kernel_flop_rate", 0.0) * found["kernel"],
        per_shared,
        buffers=moved_in if name in IN_PLACE else moved_in + moved_out,
        blocks=case["axes"].get("blocks", 0),
        random=name == "vector_rand",
    )


# --- declared ---

#: Maps the key that declares a field of a footprint to the field; the last field is declared by `order`.
_KEYS = {field.name.removeprefix("bytes_"): field.name for field in dataclasses.fields(Footprint)[:-1]}


def declared(words: list[str]) -> Footprint:
    """Parses `in=4GiB out=0 flops=1e9 …`, or a TOML file with the same keys. Raises Error."""
    if len(words) == 1 and "=" not in words[0]:
        pairs = _from_file(pathlib.Path(words[0]))
    else:
        pairs = [word.partition("=")[::2] for word in words]
    given: dict[str, float] = {}
    random = False
    for key, value in pairs:
        if key == "order" and value in ("sequential", "random"):
            random = value == "random"
            continue
        try:
            if key not in _KEYS or key in given:
                raise ValueError
            amount = units.amount(str(value))
        except ValueError:
            shown = spelling.printable(spelling.shorten(f"{key}={value}", 60))
            raise Error(
                f"{shown!r} is not understood; a program is {' '.join(f'{k}=N' for k in _KEYS)} "
                "order=sequential|random, with N such as 3, 2e9 or 4GiB"
            ) from None
        given[key] = amount
    low = [key for key in ("reuse", "passes", "allocations") if given.get(key, 1) < 1]
    if low:
        raise Error(f"{low[0]} is {given[low[0]]:g}; the minimum is 1")
    if not given.get("in", 0) and not given.get("out", 0):
        raise Error("the program moves no data; declare in=BYTES or out=BYTES")
    moved = given.get("in", 0) + given.get("out", 0)
    given = {"in": 0.0, "out": 0.0, "flops": 0.0, "touched": moved, "buffers": moved} | given
    if not given["touched"]:
        raise Error("touched=0: a kernel that reads and writes nothing needs no advice")
    fields: dict[str, Any] = {_KEYS[key]: value for key, value in given.items()}
    return Footprint(**fields, random=random)


def _from_file(path: pathlib.Path) -> list[tuple[str, object]]:
    try:
        return list(inputs.toml_of(inputs.read_small(path, inputs.MIB)).items())
    except OSError as error:
        raise Error(f"{path}: {error.strerror}; declare a program as KEY=VALUE …, or name a TOML file") from None
    except (ValueError, RecursionError) as error:
        raise Error(f"{path}: not TOML ({spelling.shorten(str(error), 80)})") from None
