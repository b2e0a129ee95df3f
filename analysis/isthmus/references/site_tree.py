"""Tree of site configurations: finding it, and reading a site's file."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pathlib
import sys
from typing import NamedTuple

from isthmus import Error, inputs, spelling

#: Tree that contains this package.
OWN = pathlib.Path(__file__).resolve().parents[3]


def add_root(parser):
    parser.add_argument(
        "--root",
        type=pathlib.Path,
        metavar="DIR",
        help="tree with site-configs/ (default: the nearest above, else ours)",
    )


def root_of(given: pathlib.Path | None) -> pathlib.Path:
    """Returns the tree with site-configs/.

    It is `given`, else the nearest above the working directory, else this package's own. Raises Error where there is
    none.
    """
    here = pathlib.Path.cwd()
    for place in [given] if given else [here, *here.parents, OWN]:
        if (place / "site-configs").is_dir():
            return place.resolve()
    raise Error(f"no site-configs/ in {given or here}; name the tree with --root")


def sites(root: pathlib.Path) -> list[str]:
    return sorted(path.parent.name for path in (root / "site-configs").glob("*/reframe.py"))


def configuration_of(root: pathlib.Path, site: str) -> pathlib.Path:
    """Returns the path of a site's file. Raises Error for an unknown site."""
    path = root / "site-configs" / site / "reframe.py"
    if not path.is_file():
        known = sites(root)
        hint = spelling.did_you_mean(site, known) or f"; choose from {', '.join(known) or 'none'}"
        raise Error(f"there is no site {spelling.shorten(site, 40)!r} in {root / 'site-configs'}{hint}")
    return path


class Loaded(NamedTuple):
    """Result of executing a site's file once: its configuration, and what it registered with ReFrame."""

    configuration: dict
    backends: dict[str, dict]  #: registry of ReFrame → launchers or schedulers that the file itself defines


_MOST_VALUES = 1_000_000  # values in a configuration; that of a machine has some hundreds
_REGISTRIES = ("_launchers", "_schedulers")  # names in reframe.core.backends


def _registries() -> dict[str, dict]:
    backends = sys.modules.get("reframe.core.backends")
    return {name: getattr(backends, name, {}) for name in _REGISTRIES} if backends else {}


def load(path: pathlib.Path) -> dict:
    """Executes a file, as ReFrame does, and returns its `site_configuration`. Raises Error, in one sentence."""
    return execute(path).configuration


def execute(path: pathlib.Path) -> Loaded:
    """Executes a site's file and leaves no trace of it.

    What it registered with ReFrame, and the modules that it imported from its own folder, are removed again; a copy of
    the site could not be read otherwise. Raises Error, in one sentence.
    """
    path = path.resolve()
    added, modules = list(sys.path), set(sys.modules)
    name = f"isthmus_site_{path.parent.name}"
    own: dict[str, dict] = {}
    try:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError("no Python file")
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
        raise Error(f"{path}: site_configuration is no mapping with a list of systems")
    if why := unwieldy(configuration):
        raise Error(f"{path}: {why}")
    return Loaded(configuration, own)


def unwieldy(configuration: dict) -> str | None:
    """Returns why a configuration cannot be walked, and what to do; None where it can."""
    for section, content in configuration.items():
        if why := inputs.unwieldy(content, _MOST_VALUES):
            return f"{section!r} of site_configuration {why}; write out the plain values that ReFrame is to read"
    return None


def _of_folder(folder: pathlib.Path, names) -> set[str]:
    """Returns those of the modules that are files or packages in a folder, and what is in the packages."""
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
    """Returns site-configs/<site>, or the folder that `site` is the path of. Raises Error where it is neither."""
    named = pathlib.Path(site)
    if os.sep in site or site in (".", ".."):
        if (named / "reframe.py").is_file():
            return named
        raise Error(f"{site}: no reframe.py in there, so it is no site's folder")
    return configuration_of(root_of(None), site).parent


#: Features that imply a GPU.
_OF_GPUS = {"gpu", "cuda", "nvidia", "hip", "rocm", "amd"}


class Partition(NamedTuple):
    """Properties of a partition by which references can be selected."""

    name: str
    archs: frozenset[str]  #: architectures of the GPUs that it states
    is_known: bool  #: true if these are all: no GPU is stated without its architecture


def partitions(folder: pathlib.Path) -> list[Partition]:
    """Returns the partitions of a site's reframe.py. Raises Error where that is no configuration."""
    try:
        return partitions_of(load(folder / "reframe.py"))
    except (AttributeError, KeyError, TypeError) as error:
        raise Error(f"{folder / 'reframe.py'}: no configuration ({type(error).__name__}: {error})") from None


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
