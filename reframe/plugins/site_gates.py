"""Gates on what a site's configuration and references say, which `isthmus site check` would show beforehand."""

import contextlib
import pathlib

import reframe.core.runtime as runtime
from reframe.core.exceptions import ReframeError

from isthmus.references import lookup, site_tree
from isthmus.site import settings


def refuse_settings(testcases, printer) -> None:
    """Raises ReframeError for settings without effect: what they were written for would be unmeasured, and unmissed."""
    config = runtime.runtime().site_config  # as a whole: --system leaves out partitions that are looked at, too
    found = [str(each) for each in settings.problems(config._site_config, runtime.runtime().system.name)]
    if _is_dry(testcases):  # it submits nothing, and may be away from the machine
        for each in found:
            printer.warning(each)
    elif found:
        more = f" ({len(found) - 1} more like this)" if found[1:] else ""
        raise ReframeError(f"{found[0]}{more}; `isthmus site check` shows all that is wrong")


def idle_references(folder: pathlib.Path | None, printer) -> list[str]:
    """References that can hold nothing at this site. They end a session red, but measured: see refuse_idle()."""
    if folder is None:
        return []
    config = runtime.runtime().site_config
    files = config._definitions["systems"]
    own = [each for each in config._site_config["systems"] if pathlib.Path(files[each["name"]]).parent == folder.parent]
    found = []
    with contextlib.suppress(lookup.BadReference):  # of which each check says so
        found = lookup.idle(lookup.load(folder), site_tree.partitions_of({"systems": own}))
    for each in found:
        printer.warning(each)
    return found


def refuse_idle(found: list[str], testcases) -> None:
    """Raises ReframeError, once everything is measured, where idle_references() found some."""
    if found and not _is_dry(testcases):
        which = "it" if len(found) == 1 else f"all {len(found)} such entries"
        raise ReframeError(f"{found[0]}; mend or remove {which}")


def _is_dry(testcases) -> bool:
    return all(case.check.is_dry_run() for case in testcases)
