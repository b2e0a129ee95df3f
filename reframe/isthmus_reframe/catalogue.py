"""The part of `isthmus-bench list --json` that checks are made from, kept in reframe/checks/catalogue.json.

`reframe -l` must work before anything is built, so the list is generated once and committed:

    scripts/make-catalogue build/host/bin/isthmus-bench

A test compares it with what the binary lists.
"""

import functools
import json
import pathlib
import sys

PATH = pathlib.Path(__file__).resolve().parents[1] / "checks" / "catalogue.json"


def varied(workload: dict, size: str) -> dict:
    """Axes of which a run at this size measures the whole default sweep, since the size settles none."""
    settled = workload["sizes"][size]
    return {a["name"]: a["default_sweep"] for a in workload["axes"] if a["default_sweep"] and a["name"] not in settled}


def own_readings(workload: dict, sizes: list[str]) -> dict:
    """Of a workload that measures by itself: metrics of some records only, and the records of each size."""
    if workload["placements"]:
        return {}
    return {
        "observed": workload["observed"],
        "varied": {size: axes for size in sizes if (axes := varied(workload, size))},
    }


def essence(listing: dict) -> dict:
    """What a check needs of the binary's list; a pure function of it, in a fixed order.

    What a family made depends on the machine that was asked, so it has no place in a file that is the same everywhere.
    """
    sizes = listing["sizes"]
    workloads = [
        {
            "name": w["name"],
            "summary": w["summary"],
            "tags": sorted(w["tags"]),
            "placements": w["placements"],
            "stagings": w["stagings"],
            "axes": {axis["name"]: axis["default"] for axis in w["axes"]},
            "sizes": {size: w["sizes"][size] for size in sizes if size in w["sizes"]},
            "metrics": w["metrics"],
            "cpu_only": w["cpu_only"],
            **own_readings(w, [size for size in sizes if size in w["sizes"]]),
        }
        for w in sorted(listing["workloads"], key=lambda w: w["name"])
        if not w.get("family")
    ]
    placements, stagings = listing["placements"], listing["stagings"]
    modes = sorted(
        listing["modes"].items(),
        key=lambda item: (placements.index(item[1]["placement"]), stagings.index(item[1]["staging"])),
    )
    return {"sizes": sizes, "modes": dict(modes), "workloads": workloads}


def text(listing: dict) -> str:
    return json.dumps(essence(listing), indent=1, ensure_ascii=False) + "\n"


@functools.cache
def load() -> dict:
    return json.loads(PATH.read_text(encoding="utf-8"))  # border: a file of this tree


def find(workload: str) -> dict:
    """The catalogue's entry; an empty one for a workload that a machine makes for itself."""
    return next((w for w in load()["workloads"] if w["name"] == workload), {})


def family(prefix: str) -> dict[str, dict]:
    """The workloads whose names begin so, by name, in alphabetical order."""
    return {w["name"]: w for w in load()["workloads"] if w["name"].startswith(prefix)}


def sizes(workloads: dict[str, dict]) -> list[str]:
    """Sizes that any of these has, the smallest first."""
    return [size for size in load()["sizes"] if any(size in w["sizes"] for w in workloads.values())]


if __name__ == "__main__":
    sys.stdout.write(text(json.load(sys.stdin)))
