"""Tree of site configurations: finding the tree, and reading a site's file."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pathlib
import stat
import sys
from typing import NamedTuple

from isthmus import Error, inputs, spelling

#: Tree that contains this package.
OWN = pathlib.Path(__file__).resolve().parents[3]
FILE = "reframe.py"  # name of the configuration in a site's folder


def add_root(parser):
    parser.add_argument(
        "--root",
        type=pathlib.Path,
        metavar="DIR",
        help="tree with site-configs/ (default: the nearest one above, else this one)",
    )


def root_of(given: pathlib.Path | None) -> pathlib.Path:
    """Returns the tree that contains site-configs/.

    It is `given`, else the nearest folder above the working directory that contains site-configs/, else the tree of
    this package. Raises Error if there is none.
    """
    here = pathlib.Path.cwd()
    for place in [given] if given else [here, *here.parents, OWN]:
        status = inputs.status_of(place / "site-configs")  # raises if it is a dangling link, instead of going on
        if status and stat.S_ISDIR(status.st_mode):
            return place.resolve()
    raise Error(f"no site-configs/ in {given or here}; name the tree with --root")


class NoSite(NamedTuple):
    """Entry of site-configs/ that is not a site."""

    path: pathlib.Path  #: path of the entry, or of what is wrong in it
    why: str
    is_error: bool  #: false if the entry does not look as if it were meant to be a site

    def __str__(self):
        return f"{self.path}: {self.why}"


#: Folders that are never meant as sites: those that Python creates when site_common.py is imported.
_OTHERS = ("__pycache__",)


def entries(root: pathlib.Path) -> dict[str, NoSite | None]:
    """Returns the sorted names in site-configs/ of sites, with None, and of entries that may be meant as sites.

    Raises OSError if site-configs/ cannot be listed.
    """
    found: dict[str, NoSite | None] = {}
    with os.scandir(root / "site-configs") as listed:
        for entry in sorted(listed, key=lambda entry: entry.name):
            what = _look_at(pathlib.Path(entry.path))
            if what is None or what.is_error or (entry.is_dir() and entry.name not in _OTHERS):
                found[entry.name] = what
    return found


def _look_at(folder: pathlib.Path) -> NoSite | None:
    """Returns why an entry of site-configs/ is not a site; None if it is a site."""
    path = folder / FILE
    try:
        status = inputs.status_of(folder)
        if not status or not stat.S_ISDIR(status.st_mode):
            return NoSite(folder, "not a folder, so not a site", is_error=False)
        if status := inputs.status_of(path):
            why = inputs.no_file(status)
            return NoSite(path, f"{why}; write the site's configuration there", is_error=True) if why else None
        slip = next((name for name in os.listdir(folder) if spelling.distance(name.lower(), FILE) <= 2), None)
    except OSError as error:
        why = f"{error.strerror}, so this site is not read; repair or remove it"
        return NoSite(pathlib.Path(error.filename), why, is_error=True)
    if slip:
        return NoSite(folder / slip, f"not read under this name; call it {FILE}", is_error=True)
    return NoSite(folder, f"no {FILE} in it, so it is not a site; write one, or move the folder away", is_error=False)


def sites(root: pathlib.Path) -> list[str]:
    return [name for name, why in entries(root).items() if why is None]


def configuration_of(root: pathlib.Path, site: str) -> pathlib.Path:
    """Returns the path of a site's file. Raises Error if the site is unknown or cannot be read."""
    folder = root / "site-configs"
    if site not in os.listdir(folder):
        known = sites(root)
        hint = spelling.did_you_mean(site, known) or f"; choose from {', '.join(known) or 'none'}"
        raise Error(f"there is no site {spelling.shorten(site, 40)!r} in {folder}{hint}")
    if what := _look_at(folder / site):
        raise Error(str(what))
    return folder / site / FILE


class Loaded(NamedTuple):
    """Result of executing a site's file: its configuration, and the backends that it registered with ReFrame."""

    configuration: dict
    backends: dict[str, dict]  #: registry of ReFrame → launchers or schedulers that the file defines


_MOST_VALUES = 1_000_000  # maximum number of values in a configuration; that of a real machine has a few hundred
_REGISTRIES = ("_launchers", "_schedulers")  # names in reframe.core.backends


def _registries() -> dict[str, dict]:
    backends = sys.modules.get("reframe.core.backends")
    return {name: getattr(backends, name, {}) for name in _REGISTRIES} if backends else {}


def load(path: pathlib.Path) -> dict:
    """Executes a site's file, as ReFrame does, and returns its `site_configuration`. Raises Error if it is invalid."""
    return execute(path).configuration


def execute(path: pathlib.Path) -> Loaded:
    """Executes a site's file without lasting effects.

    Everything that it registered with ReFrame, and modules that it imported from its own folder, are removed again;
    otherwise a copy of the site could not be read later. Raises Error, with one sentence, if the file is invalid.
    """
    path = path.resolve()
    added, modules = list(sys.path), set(sys.modules)
    name = f"isthmus_site_{path.parent.name}"
    own: dict[str, dict] = {}
    try:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError("not a Python file")
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        configuration = module.site_configuration
    except (Exception, SystemExit) as error:
        line = getattr(error, "lineno", None)
        where = f"{path}:{line}" if line else path
        raise Error(f"{where}: cannot be read ({type(error).__name__}: {error})") from None
    finally:
        sys.path[:] = added
        brought = _of_folder(path.parent, sys.modules.keys() - modules) | {name}
        for registry, entries in _registries().items():
            own[registry] = {key: each for key, each in entries.items() if each[0].__module__ in brought}
            for key in own[registry]:
                del entries[key]
        for new in brought:
            sys.modules.pop(new, None)
    if not isinstance(configuration, dict) or not isinstance(configuration.get("systems"), list):
        raise Error(f"{path}: site_configuration is not a mapping with a list of systems")
    if why := unwieldy(configuration):
        raise Error(f"{path}: {why}")
    return Loaded(configuration, own)


def unwieldy(configuration: dict) -> str | None:
    """Returns why a configuration cannot be walked through, and what to do; None if it can."""
    for section, content in configuration.items():
        if why := inputs.unwieldy(content, _MOST_VALUES):
            return f"{section!r} of site_configuration {why}; write out the plain values that ReFrame is to read"
    return None


def _of_folder(folder: pathlib.Path, names) -> set[str]:
    """Returns those of the modules that are files or packages in a folder, and the modules of these packages."""
    tops = {name for name in names if "." not in name and _place(name) in (folder / f"{name}.py", folder / name)}
    return {name for name in names if name.partition(".")[0] in tops}


def _place(name: str) -> pathlib.Path | None:
    """Returns the file of a module, or the folder of a package."""
    file = getattr(sys.modules[name], "__file__", None)
    place = pathlib.Path(file).resolve() if file else None
    return place.parent if place and place.name == "__init__.py" else place


@contextlib.contextmanager
def registered(loaded: Loaded):
    """Registers the launchers and schedulers of this site's file with ReFrame for the duration of the context."""
    registries = _registries()
    try:
        for name, entries in registries.items():
            entries.update(loaded.backends.get(name, {}))
        yield
    finally:
        for name, entries in registries.items():
            for key in loaded.backends.get(name, {}):
                entries.pop(key, None)


def site_folder(site: str) -> pathlib.Path:
    """Returns site-configs/<site>, or `site` if it is the path of a site's folder. Raises Error if it is neither."""
    named = pathlib.Path(site)
    if os.sep in site or site in (".", ".."):
        if what := _look_at(named):
            raise Error(str(what))
        return named
    return configuration_of(root_of(None), site).parent


#: Features that imply a GPU.
_OF_GPUS = {"gpu", "cuda", "nvidia", "hip", "rocm", "amd"}


class Partition(NamedTuple):
    """Properties of a partition that references can select."""

    name: str
    archs: frozenset[str]  #: architectures of the GPUs that the partition states
    is_known: bool  #: true if `archs` is complete, that is, all GPUs are stated with their architecture


def partitions(folder: pathlib.Path) -> list[Partition]:
    """Returns the partitions in a site's reframe.py. Raises Error if it is not a configuration."""
    try:
        return partitions_of(load(folder / "reframe.py"))
    except (AttributeError, KeyError, TypeError) as error:
        raise Error(f"{folder / 'reframe.py'}: not a configuration ({type(error).__name__}: {error})") from None


def partitions_of(configuration: dict) -> list[Partition]:
    """Returns the partitions of all systems of a configuration."""
    found = []
    for system in configuration["systems"]:
        for partition in system["partitions"]:
            gpus = [device.get("arch") for device in partition.get("devices", []) if device.get("type") == "gpu"]
            has_gpu = bool(gpus or _OF_GPUS & set(partition.get("features", [])))
            archs = frozenset(filter(None, gpus))
            found.append(Partition(partition["name"], archs, all(gpus) and bool(gpus) == has_gpu))
    return found
