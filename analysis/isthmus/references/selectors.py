"""Selectors of references, and checks that they can match, since a selector that never matches has no effect.

The possible values of a field are a list of names (placements, profilers) or have a known form. Versions and rates may
contain any number, so a pattern is also tried after each of its numbers was replaced by a pattern for any number.
"""

from __future__ import annotations

import functools
import itertools
import re

from isthmus import spelling
from isthmus.records import doubts

#: Family whose workloads differ between machines, so that the catalogue does not list them → pattern of its metrics.
MADE = {
    "accounting": r"ballast|[a-z_]+_(allocated|touched)",
    "atomics": "pairs|latency|rate|nearest|farthest|[cg]pu_(alone|rate|relative)",
    "fault": r"((faulting_|present_)?p\d+)|rate|faults_per_touch|pages_moved|time(_[a-z]+)?",
    "latency": "latency|huge_page_share|pages_on_host|processor",
    "stream": "rate|time|(init_|first_pass_)?page_faults|page_faults_per_pass|first_pass_page_faults",
    "transfer": r"time|first_time|latency(_to_host|_with_submission)?|pages_moved|((forward|backward)_)?rate|rate_\w+",
}
_OBSERVED = r"|uvm_\w+"

#: First part of the names of files that `isthmus references update` wrote; their selectors come from records, so they
#: match.
MEASURED = "measured-"

#: Kinds of limits that the field `limit` may name.
LIMITS = ("PCIe", "NVLink", "xGMI", "peak device memory bandwidth", "peak fp32 rate")

_COMPILERS = ("GNU", "Clang", "Intel", "IntelLLVM", "NVHPC", "ROCMClang", "Cray", "CrayClang", "FujitsuClang",
              "ARMClang", "AppleClang", "IBMClang", "XLClang", "PGI", "LCC")  # fmt: skip
_DEVICES = ("sm_90", "sm_100", "sm_90a", "sm_103f", "gfx942", "gfx90a", "gfx1100", "gfx942:sramecc+:xnack-",
            "gfx90a:sramecc+:xnack-", "")  # fmt: skip


@functools.cache
def _limits() -> tuple[list[str], list[str]]:
    """Returns sources of limits as two lists: those known literally, and those with numbers that machines differ in."""
    pcie = [f"PCIe {generation} x{lanes}" for generation in doubts.PCIE for lanes in (1, 2, 4, 8, 12, 16, 32)]
    whole = [*pcie, "peak device memory bandwidth", "peak fp32 rate", "PCIe 5 x16 and PCIe 5 x16",
             "peak device memory bandwidth, half of it to read and half to write"]  # fmt: skip
    links = ["NVLink of 26.56 GB/s", "18 NVLinks of 26.56 GB/s", "18 NVLinks, 478.08 GB/s together",
             "xGMI of 50.00 GB/s", "4 xGMI links, 200.00 GB/s together"]  # fmt: skip
    ends = (", each byte once", *(f", {count} transfers at once" for count in range(2, 33)))
    more = [source + end for source in whole for end in ends]
    return [*whole, *more], [*links, *(source + end for source in links for end in ends)]


def meets_limit(pattern: str, source: str) -> bool:
    """Returns whether `limit: pattern` matches the beginning of a limit's source, or of the limit's kind."""
    return bool(re.match(pattern, source) or re.match(pattern, doubts.limit_kind(source)))


def wrong_limit(pattern: str) -> str | None:
    """Returns why `limit: pattern` cannot match any limit of a record; None if it can."""
    whole, forms = _limits()
    if any(meets_limit(pattern, source) for source in (*whole, *forms)):
        return None
    if any(meets_limit(_loosened(pattern), source) for source in forms):
        return None
    begun = re.sub(r"\W", "", pattern.lower())[:3]
    near = [kind for kind in LIMITS if len(begun) == 3 and kind.lower().startswith(begun)]
    hint = f"; did you mean {near[0]!r}?" if near else f"; a limit begins with one of {', '.join(LIMITS)}"
    return f"limit {pattern!r} matches no limit that a record has{hint}"


def _loosened(pattern: str) -> str:
    """Returns a pattern in which each literal number is replaced by any number."""
    parts = re.compile(r"\\.|\{[\d,]+\}|\[[^\]]*\]|\d+")
    loose = parts.sub(lambda part: r"\d+" if part[0].isdigit() else _any_digit(part[0]), pattern)
    try:
        re.compile(loose)
    except re.error:
        return pattern
    return loose


def _any_digit(part: str) -> str:
    is_class = part.startswith("[") and not part.startswith("[^") and re.search(r"\d", part)
    return rf"{part[:-1]}\d]" if is_class else part


@functools.cache
def _values(field: str) -> list[str]:
    """Returns values of a field that represent all values that a record may have."""
    if field == "compiler":
        versions = ("13.3.0", "13.0", "17.0.0.1")
        hosts = [f"{name} {version}" for name, version in itertools.product(_COMPILERS, versions)]
        return [*hosts, *(f"{device} 13.0.88, {host}" for device in ("NVIDIA", "Clang") for host in hosts)]
    return {
        "version": [str(number) for number in range(1, 100)],
        "ranks": [str(number) for number in range(1, 4097)],
        "profiler": ["", "nsys", "ncu", "rocprofv3", "cupti", "perf", "uvm"],
        "staging": ["", "none", "direct", "async", "bulk"],
        "placement": ["", "pageable", "pinned", "streamed", "pool", "mapped", "managed_in", "managed", "managed_demand",
                      "managed_advise", "system", "unified", "paged"],
        "arch": list(_DEVICES),
    }[field]  # fmt: skip


#: Fields whose values contain arbitrary numbers.
_FORMS = ("compiler", "arch")
FIELDS = ("version", "placement", "staging", "ranks", "profiler", "compiler", "arch")


def wrong(field: str, pattern: str) -> str | None:
    """Returns why a selector cannot match any value that a record may have; None if it may match."""
    if field == "driver":
        return _wrong_driver(pattern)
    values = _values(field)
    tried = (pattern, _loosened(pattern)) if field in _FORMS else (pattern,)
    if any(re.fullmatch(each, value) for each in tried for value in values):
        return None
    hint = (re.search("[a-z]", pattern) and spelling.did_you_mean(pattern, values)) or _such_as(values)
    return f"no {field} matches {pattern!r}{hint}"


#: Examples of `driver`: its version, the kernel's version if the driver is part of the kernel, or the API's version if
#: neither is known.
_DRIVERS = ("580.159.04", "580.82", "6.12.12", "kernel 6.8.0-45-generic", "kernel 5.14.0-427.13.1.el9_4.x86_64",
            "CUDA 13.0", "HIP 6.4.43484")  # fmt: skip


def _wrong_driver(pattern: str) -> str | None:
    """Returns why a selector cannot match any driver, or None.

    Patterns for kernels are always accepted, since kernel releases have many endings.
    """
    tried = (pattern, _loosened(pattern))
    known = any(re.fullmatch(each, value) for each in tried for value in _DRIVERS)
    if not pattern or known or re.match(r"[\^(]*kernel\b", pattern):
        return None
    hint = f": write '{pattern}[.].*'" if re.fullmatch(r"\d+", pattern) else ""
    return f"no driver matches {pattern!r}; a record's is a version such as '580.159.04'{hint}"


def _such_as(values: list[str]) -> str:
    shown = [repr(value) for value in values if value]
    return f"; there are {', '.join(shown)}" if len(shown) <= 12 else f"; an example is {shown[0]}"


def unknown_metrics(family: str, names) -> list[str]:
    """Returns those of the metrics that workloads of a family in MADE never report."""
    return [name for name in names if not re.fullmatch(MADE[family] + _OBSERVED, name)]


def wrong_kinds(axes: dict, known: dict) -> list[str]:
    """Returns what is wrong with the `axes` that an entry selects; `known` maps a workload's axes to example values."""
    found = []
    for axis, value in axes.items():
        if axis not in known:
            found.append(f"no axis {axis!r} here{spelling.did_you_mean(axis, known)}")
        elif type(value) is not type(known[axis]):
            found.append(f"axis {axis} is {value!r}, but a record has values such as {known[axis]!r}")
    return found
