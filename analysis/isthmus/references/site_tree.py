"""The tree that site configurations lie in, and reading them."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import sys

from isthmus import Error, spelling

#: The tree that this package lies in.
OWN = pathlib.Path(__file__).resolve().parents[3]


def add_root(parser):
    parser.add_argument(
        "--root",
        type=pathlib.Path,
        metavar="DIR",
        help="tree with site-configs/ (default: the nearest above, else ours)",
    )


def root_of(given: pathlib.Path | None) -> pathlib.Path:
    """The tree with site-configs/: as given, else the nearest above the working directory, else this package's own."""
    here = pathlib.Path.cwd()
    for place in [given] if given else [here, *here.parents, OWN]:
        if (place / "site-configs").is_dir():
            return place.resolve()
    raise Error(f"no site-configs/ in {given or here}; name the tree with --root")


def sites(root: pathlib.Path) -> list[str]:
    return sorted(path.parent.name for path in (root / "site-configs").glob("*/reframe.py"))


def configuration_of(root: pathlib.Path, site: str) -> pathlib.Path:
    """The site's file. Raises Error for an unknown site."""
    path = root / "site-configs" / site / "reframe.py"
    if not path.is_file():
        known = sites(root)
        hint = spelling.did_you_mean(site, known) or f"; choose from {', '.join(known) or 'none'}"
        raise Error(f"there is no site {spelling.shorten(site, 40)!r} in {root / 'site-configs'}{hint}")
    return path


def load(path: pathlib.Path) -> dict:
    """`site_configuration` of a file, which is executed, as ReFrame does. Raises Error, in one sentence."""
    added = list(sys.path)
    try:
        spec = importlib.util.spec_from_file_location(f"isthmus_site_{path.parent.name}", path)
        if spec is None or spec.loader is None:
            raise ImportError("no Python file")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        configuration = module.site_configuration
    except Exception as error:
        line = getattr(error, "lineno", None)
        where = f"{path}:{line}" if line else path
        raise Error(f"{where}: cannot be read ({type(error).__name__}: {error})") from None
    finally:
        sys.path[:] = added
    if not isinstance(configuration, dict) or not isinstance(configuration.get("systems"), list):
        raise Error(f"{path}: site_configuration is no mapping with a list of systems")
    return configuration


def site_folder(site: str) -> pathlib.Path:
    """site-configs/<site>, or the folder that is named. Raises Error for what is neither."""
    named = pathlib.Path(site)
    if os.sep in site or site in (".", ".."):
        if (named / "reframe.py").is_file():
            return named
        raise Error(f"{site}: no reframe.py in there, so it is no site's folder")
    return configuration_of(root_of(None), site).parent


def partitions(folder: pathlib.Path) -> list[dict]:
    """Partitions of a site's reframe.py: {name, arch}, arch null where no GPU is stated."""
    found = []
    try:
        for system in load(folder / "reframe.py")["systems"]:
            for partition in system["partitions"]:
                archs = [d.get("arch") for d in partition.get("devices", []) if d.get("type") == "gpu"]
                found.append({"name": partition["name"], "arch": next(filter(None, archs), None)})
    except (AttributeError, KeyError, TypeError) as error:
        raise Error(f"{folder / 'reframe.py'}: no configuration ({type(error).__name__}: {error})") from None
    return found
