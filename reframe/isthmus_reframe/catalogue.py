"""The part of `isthmus-bench list --json` that checks are created from, stored in reframe/checks/catalogue.json.

`reframe -l` must work before anything is built, so the list is generated once and committed:

  scripts/make-catalogue build/host/bin/isthmus-bench

A test compares the file with the binary's list.
"""

import functools
import json
import pathlib
import sys

PATH = pathlib.Path(__file__).resolve().parents[1] / "checks" / "catalogue.json"


def varied(workload: dict, size: str) -> dict:
    """Returns the axes that the size does not set, each with its default sweep, which a run at this size measures in
    full."""
    settled = workload["sizes"][size]
    return {a["name"]: a["default_sweep"] for a in workload["axes"] if a["default_sweep"] and a["name"] not in settled}


def own_readings(workload: dict, sizes: list[str]) -> dict:
    """Returns the metrics that only some records of a workload have, and the axes that it varies at each size. Returns
    an empty dict for a workload with placements, because it does not take its own measurements."""
    if workload["placements"]:
        return {}
    return {
        "observed": workload["observed"],
        "varied": {size: axes for size in sizes if (axes := varied(workload, size))},
    }


def essence(listing: dict) -> dict:
    """Returns the parts of the binary's list that checks need, in a fixed order. The result depends only on the list.

    Workloads that a family lists depending on the machine are omitted, because the file must be the same everywhere.
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
    """Returns the catalogue's entry for a workload, or an empty entry if only the machine's own list has the
    workload."""
    return next((w for w in load()["workloads"] if w["name"] == workload), {})


def family(prefix: str) -> dict[str, dict]:
    """Returns the workloads whose names begin with the prefix, keyed by name, in alphabetical order."""
    return {w["name"]: w for w in load()["workloads"] if w["name"].startswith(prefix)}


def sizes(workloads: dict[str, dict]) -> list[str]:
    """Returns the sizes that at least one of these workloads has, smallest first."""
    return [size for size in load()["sizes"] if any(size in w["sizes"] for w in workloads.values())]


if __name__ == "__main__":
    sys.stdout.write(text(json.load(sys.stdin)))
