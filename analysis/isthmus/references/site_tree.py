"""The tree that site configurations lie in, and reading them."""

from __future__ import annotations

import importlib.util
import pathlib
import sys

from isthmus import Error, spelling


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
    own = pathlib.Path(__file__).resolve().parents[3]
    for place in [given] if given else [here, *here.parents, own]:
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
        raise Error(f"there is no site {site!r} in {root / 'site-configs'}{hint}")
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
