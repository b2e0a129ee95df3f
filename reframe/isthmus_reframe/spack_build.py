"""Build of isthmus-bench with Spack, in a copy of the site's environment, if it has one or build_with=spack is set.

The environment is the one that the programming environment's extras name ('spack_environment':
'environments/<site>'), otherwise the one with the system's name. If build_with=spack is set and the site has no
environment, environments/generic is used. ReFrame's own Spack build system adds specs to its environment, so it gets a
copy in the stage folder (scripts/spack-environment).
"""

import pathlib
import re
import shutil

from reframe.core.exceptions import ReframeError

from isthmus import inputs
from isthmus.references import lookup
from isthmus_reframe import ROOT

VARIANTS = {"cuda": ("cuda", "cuda_arch"), "hip": ("rocm", "amdgpu_target")}

#: Names in the stage folder: of the copy, and of a link to what Spack installed.
COPY, INSTALLED = "spack-tree", "installed"


def has_environment(environ, system: str) -> bool:
    """Returns whether the site has a Spack environment for this programming environment."""
    return "spack_environment" in environ.extras or environment_of(environ, system).name == system != "generic"


def environment_of(environ, system: str) -> pathlib.Path:
    """Returns the folder of the Spack environment for a programming environment on a system."""
    named = environ.extras.get("spack_environment")
    folder = ROOT / named if named else ROOT / "environments" / system
    there = _is_there(folder / "spack.yaml")
    if named and not there:
        raise ReframeError(
            f"{environ.name} names the Spack environment {named}, but there is no {named}/spack.yaml: "
            "correct extras['spack_environment'], or write one (docs/spack.md)"
        )
    return folder if there else ROOT / "environments/generic"


def _is_there(path: pathlib.Path) -> bool:
    """Returns whether an environment has this file.

    Raises ReframeError for a dangling link and for an inaccessible file, because another environment would be built.
    """
    try:
        return inputs.status_of(path) is not None
    except OSError as error:
        raise ReframeError(f"{path}: {error.strerror}: repair or remove it") from None


def may_use_mpi(environment: pathlib.Path) -> bool:
    """Returns whether the environment names an MPI in packages.yaml, or leaves it to the user's own Spack configuration
    by not having that file.

    Otherwise Spack would build an MPI that the site's launcher does not support. The program is then built without MPI,
    and reports that, so the checks of several ranks are skipped.
    """
    path = environment / "packages.yaml"
    return not _is_there(path) or "mpi" in _section(path, ["packages"], dict)


def _section(path: pathlib.Path, keys: list[str], kind: type):
    """Returns the part of a Spack environment's file under these nested keys.

    Raises ReframeError if the file is not YAML, or does not have a value of this kind there.
    """
    try:
        found = lookup.read_yaml(path)
    except lookup.BadReference as error:
        raise ReframeError(f"{path.parent}: {error}: correct it, because Spack would refuse it as well") from None
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    if not isinstance(found, kind):
        raise ReframeError(f"{path} has no {' of '.join(reversed(keys))}: write it as docs/spack.md says")
    return found


def _has(spec: str, variant: str) -> bool:
    return re.search(rf"\+{variant}\b", spec) is not None


def spec_for(specs: list[str], backend: str | None, architectures: list[str], mpi: bool) -> str:
    """Returns the environment's spec for this backend. If there is none, returns its spec without a backend, completed
    with what the site states.

    >>> spec_for(["isthmus +mpi +cuda cuda_arch=80 target=zen3", "isthmus ~cuda"], "cuda", ["80"], True)
    'isthmus +mpi +cuda cuda_arch=80 target=zen3'
    >>> spec_for(["isthmus"], "hip", ["gfx90a", "gfx942"], False)
    'isthmus +rocm amdgpu_target=gfx90a,gfx942'
    """
    ours = [s for s in specs if re.match(r"isthmus\b(?!-)", s)]
    if not ours:
        raise ReframeError("the Spack environment has no spec of isthmus: add one to its spack.yaml")
    plain = [s for s in ours if not _has(s, "cuda") and not _has(s, "rocm")]
    if backend not in VARIANTS:
        spec = (plain or ["isthmus"])[0]
    else:
        variant, architecture = VARIANTS[backend]
        fitting = [s for s in ours if _has(s, variant)]
        if fitting:
            spec = fitting[0]
            built = re.search(rf"\b{architecture}:?=([\w,]+)", spec)
            missing = set(architectures) - set(built.group(1).split(",") if built else ())
            if missing:
                raise ReframeError(
                    f"the Spack environment builds '{spec}', but the partition states {', '.join(sorted(missing))}: "
                    f"name it in {architecture}="
                )
        elif not architectures:
            raise ReframeError(
                f"the partition states a GPU ({backend}) but not which: give its devices an 'arch' (sm_90, gfx90a)"
            )
        else:
            spec = f"{(plain or ['isthmus'])[0]} +{variant} {architecture}={','.join(architectures)}"
    return f"{spec} +mpi" if mpi and not _has(spec, "mpi") else spec


def prepare(build, backend: str | None, architectures: list[str]):
    """Makes a build fixture install isthmus with Spack, and links the installation as INSTALLED."""
    environment = environment_of(build.current_environ, build.current_system.name)
    if not shutil.which("spack"):
        raise ReframeError(
            f"environments/{environment.name} is to be built, but no spack command is on PATH: source its "
            "share/spack/setup-env.sh, or choose -S build_with=cmake"
        )
    specs = _section(environment / "spack.yaml", ["spack", "specs"], list)
    mpi = "mpi" in build.current_environ.features and may_use_mpi(environment)
    spec = spec_for(specs, backend, architectures, mpi)
    copy = f"{COPY}/environments/{environment.name}"
    build.prebuild_cmds = [
        f"{ROOT}/scripts/spack-environment {environment.name} {COPY}",
        f"spack -e {copy} remove --all",
    ]
    build.build_system = "Spack"
    build.build_system.environment = copy
    build.build_system.specs = [spec]
    build.build_system.emit_load_cmds = False
    build.build_system.install_opts = ["--fail-fast"]
    build.postbuild_cmds = [f'ln -sfn "$(spack -e {copy} location --install-dir isthmus)" {INSTALLED}']
