"""Fingerprint of a check's records, which ReFrame stores in its own results database with the performance variables.

Each field is a loggable variable of the check, so it is in the report, in the database and in the performance log,
and ReFrame can show, group and filter by it. The names are those of `isthmus regress`. This compares two drivers
whose sessions ran with RFM_ENABLE_RESULTS_STORAGE=1 (polars must be installed, which ReFrame needs only for this
purpose):

  reframe --performance-compare='now-30d:now/now-30d:now/mean:/+driver' \\
      -E "driver == '580.159.04'" -E "driver == '570.86.10'"

Two more fields are `spec`, the specification of the program if Spack built it, and `kept`, the paths of the records.
"""

import json
import pathlib

import reframe as rfm
import reframe.core.builtins as builtins
import reframe.utility.typecheck as typ

from isthmus import inputs


def _device(*path):
    """Returns a function that reads a field of each device, given its path in the record."""

    def read(case):
        for device in case["devices"]:
            for name in path:
                device = device.get(name) if isinstance(device, dict) else None
            yield device

    return read


def _pcie(name):
    """Returns a function that reads a field of the PCIe link while it was in use, because its generation falls when it
    is idle."""

    def read(case):
        for device in case["devices"]:
            states = [device, device.get("state") or {}, device.get("state_after") or {}]
            known = [pcie[name] for state in states if (pcie := state.get("pcie")) and pcie.get(name)]
            yield max(known, default=None)

    return read


def _field(room, name):
    return lambda case: [(case.get(room) or {}).get(name)]


#: Functions that read a record's values, keyed by variable.
FINGERPRINT = {
    "device": _device("name"),
    "arch": _device("arch"),
    "driver": _device("driver"),
    "runtime": _device("runtime"),
    "vbios": _device("state", "vbios"),
    "gsp_firmware": _device("state", "gsp_firmware"),
    "pcie_gen": _pcie("gen"),
    "pcie_width": _pcie("width"),
    "cpu": _field("host", "cpu"),
    "kernel": _field("host", "kernel"),
    "os": _field("host", "os"),
    "governor": _field("host", "governor"),
    "thp": _field("host", "thp"),
    "iommu": _field("host", "iommu"),
    "boot": _field("host", "boot_id"),
    "git": _field("run", "git"),
    "compiler": _field("build", "compiler"),
    "code": _field("build", "code"),
    "mpi": _field("ranks", "library"),
    "run_id": _field("run", "id"),
    "emulated": lambda case: [str(case["emulated"]).lower()],
    "profiled_by": lambda case: [case.get("profiler")],
}


def fingerprint(cases: list[dict]) -> dict[str, str]:
    """Returns the fields of one check's records as text. Different values are joined by +; unknown values are empty."""
    result = {}
    for name, read in FINGERPRINT.items():
        found = {str(value) for case in cases for value in read(case) if value not in (None, "")}
        result[name] = "+".join(sorted(found))
    return result


def spack_spec(program) -> str:
    """Returns Spack's description of a program that it built: the root's version, variants, MPI, compilers and hash.

    The description is empty if Spack did not build the program or did not write its notes there.

    >>> spack_spec("/no/such/bin/isthmus-bench")
    ''
    """
    notes = pathlib.Path(program).resolve().parent.parent / ".spack/spec.json"
    try:
        nodes = json.loads(inputs.read_small(notes))["spec"]["nodes"]
        root = nodes[0]
        words = [f"{root['name']}@{root['version']}", *_variants(root["parameters"])]
        direct = {dependency["name"] for dependency in root.get("dependencies", [])}
        words += [f"^{node['name']}@{node['version']}" for node in nodes[1:] if node["name"] in direct & _TOLD]
        return " ".join([*words, f"/{root['hash'][:7]}"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return ""


#: Direct dependencies of isthmus that the description includes: compilers, toolkits and MPIs.
_TOLD = {
    *("gcc", "llvm", "llvm-amdgpu", "nvhpc", "cuda", "hip"),
    *("openmpi", "mpich", "mvapich", "mvapich2", "mvapich-plus", "cray-mpich", "intel-oneapi-mpi"),
}


def _variants(parameters: dict) -> list[str]:
    """Returns variants as a person would write them, such as `+cuda` and `cuda_arch=90`, without compiler flags and
    variants that are off."""
    found = [f"+{name}" for name, value in parameters.items() if value is True]
    for name in ("cuda_arch", "amdgpu_target"):
        if chosen := [str(each) for each in parameters.get(name, []) if each != "none"]:
            found.append(f"{name}={','.join(chosen)}")
    return found


#: Variables that are results, so that -S must not set them.
RESULTS = (*FINGERPRINT, "spec", "unjudged", "kept", "skipped_cases")


class Fingerprinted(rfm.RegressionTestPlugin):
    """Mixin with the variables for the database, which are empty until the record has been read."""

    device = builtins.variable(str, value="", loggable=True)
    arch = builtins.variable(str, value="", loggable=True)
    driver = builtins.variable(str, value="", loggable=True)
    runtime = builtins.variable(str, value="", loggable=True)
    vbios = builtins.variable(str, value="", loggable=True)
    gsp_firmware = builtins.variable(str, value="", loggable=True)
    pcie_gen = builtins.variable(str, value="", loggable=True)
    pcie_width = builtins.variable(str, value="", loggable=True)
    cpu = builtins.variable(str, value="", loggable=True)
    kernel = builtins.variable(str, value="", loggable=True)
    os = builtins.variable(str, value="", loggable=True)
    governor = builtins.variable(str, value="", loggable=True)
    thp = builtins.variable(str, value="", loggable=True)
    iommu = builtins.variable(str, value="", loggable=True)
    boot = builtins.variable(str, value="", loggable=True)
    git = builtins.variable(str, value="", loggable=True)
    compiler = builtins.variable(str, value="", loggable=True)
    code = builtins.variable(str, value="", loggable=True)
    mpi = builtins.variable(str, value="", loggable=True)
    run_id = builtins.variable(str, value="", loggable=True)
    emulated = builtins.variable(str, value="", loggable=True)
    profiled_by = builtins.variable(str, value="", loggable=True)
    spec = builtins.variable(str, value="", loggable=True)
    #: Option that kept this session from judging; empty if it judged.
    unjudged = builtins.variable(str, value="", loggable=True)
    #: Paths of the record files that were kept for this check, whether it passed or failed.
    kept = builtins.variable(typ.List[str], value=[], loggable=True)
    #: Cases that this check skipped although it measured others, each with the reason.
    skipped_cases = builtins.variable(typ.List[str], value=[], loggable=True)

    def keep_fingerprint(self, cases: list[dict]) -> None:
        for name, value in fingerprint(cases).items():
            setattr(self, name, value)
        self.spec = spack_spec(self.executable)

    def keep_fingerprints_of(self, checks) -> None:
        """Sets the fingerprint of several checks that shared a job. Different values are joined by +."""
        for name in FINGERPRINT:
            found = {part for check in checks for part in getattr(check, name).split("+")}
            setattr(self, name, "+".join(sorted(found - {""})))
        self.spec = next((check.spec for check in checks if check.spec), "")
        self.kept = [path for check in checks for path in check.kept]
