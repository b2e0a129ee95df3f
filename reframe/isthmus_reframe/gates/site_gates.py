"""Gates for errors in a site's configuration and references, which `isthmus site check` shows beforehand."""

import contextlib
import functools
import pathlib

import reframe.core.runtime as runtime
from reframe.core.exceptions import ReframeError

from isthmus import spelling
from isthmus.references import lookup, site_tree
from isthmus.site import settings
from isthmus_reframe import catalogue


def refuse_settings(testcases, printer) -> None:
    """Raises ReframeError for settings without effect, because what they were written for would silently not be
    measured."""
    config = runtime.runtime().site_config  # --system makes ReFrame leave out partitions to check
    if why := site_tree.unwieldy(config._site_config):
        raise ReframeError(why)
    found = [str(each) for each in settings.problems(config._site_config, runtime.runtime().system.name)]
    if _is_dry(testcases):  # a dry run submits nothing, and may be on another machine
        for each in found:
            printer.warning(each)
    elif found:
        more = f" ({len(found) - 1} more like this)" if found[1:] else ""
        raise ReframeError(f"{found[0]}{more}; `isthmus site check` shows everything that is wrong")


def refuse_job_options(testcases, job_options: list[str]) -> None:
    """Raises ReframeError for a -J option that a scheduler of the chosen checks does not support. The scheduler `local`
    counts only if it is the only one."""
    schedulers = {case.partition.scheduler.registered_name for case in testcases}
    takers = schedulers - {"local"} or schedulers
    for option in job_options:
        for scheduler in sorted(takers):
            if why := settings.wrong_option(scheduler, _as_job_option(option), f"-J {option}"):
                raise ReframeError(f"{why}: leave it out" if scheduler == "local" else why)


def _as_job_option(option: str) -> str:
    """Returns the job option that ReFrame creates from a -J value."""
    name, _, value = option.partition("=")
    if option.startswith(("-", "#")):
        return option
    return f"-{name} {value}" if len(name) == 1 else f"--{name}={value}"


def configuration_files() -> list[str]:
    """Returns the files that this session's configuration was read from, excluding ReFrame's own."""
    return [source for source in runtime.runtime().site_config.sources if source and source != "<builtin>"]


def _files_of_system() -> list[str]:
    """Returns the configuration files whose references apply here: all but those that define only other systems."""
    config, name = runtime.runtime().site_config, runtime.runtime().system.name
    defined = config._definitions["systems"]
    if [system["name"] for system in config._site_config["systems"]].count(name) > 1:  # defined in two files
        return configuration_files()
    others = set(defined.values()) - {defined[name]}
    return [file for file in configuration_files() if file not in others]


@functools.cache  # called for each figure
def _references() -> tuple[tuple[lookup.Entry, ...], list[str]]:
    """Returns the references of the current system, and a sentence for each file that is next to them but never
    read."""
    places = dict.fromkeys(folder for file in _files_of_system() for folder in lookup.folders(pathlib.Path(file)))
    opened: set[pathlib.Path] = set()
    return lookup.load(*places, opened=opened), lookup.never_read(places, opened)


def references() -> tuple[lookup.Entry, ...]:
    """Returns the references of the current system, which are next to its configuration files. Raises BadReference."""
    return _references()[0]


def idle_references(printer) -> list[str]:
    """Returns a sentence for each reference that cannot apply to any figure of this site. Such references make a
    session fail, but only after it has measured; see refuse_idle()."""
    config = runtime.runtime().site_config
    defined, files = config._definitions["systems"], _files_of_system()
    own = [system for system in config._site_config["systems"] if defined[system["name"]] in files]
    found = []
    with contextlib.suppress(lookup.BadReference):  # each check reports it
        found = lookup.problems(references(), catalogue.load())
        found += lookup.idle(references(), site_tree.partitions_of({"systems": own}))
        found += _references()[1]
    for each in found:
        printer.warning(each)
    return found


def refuse_idle(found: list[str], testcases) -> None:
    """Raises ReframeError if idle_references() found any. It is called after everything has been measured."""
    if found and not _is_dry(testcases):
        which = "it" if len(found) == 1 else f"all {len(found)} such entries"
        raise ReframeError(f"{found[0]}; correct or remove {which}")


_passed_over: dict[str, list[tuple]] = {}  # (limit of entry, limit of figure), keyed by entry's line


def note_limits(metric: dict, case: dict, selectors: dict) -> None:
    """Notes the site's share references that would apply to a figure without a reference if their `limit` matched the
    figure's."""
    for entry in lookup.passed_over(references(), metric, case, selectors):
        _passed_over.setdefault(entry.where, []).append((entry.limit, metric["limit"]["source"]))


def report_limits(printer) -> None:
    """Shows the site's share references that did not apply to figures of this session only because of their `limit`."""
    for where, noted in _passed_over.items():
        sources = ", ".join(dict.fromkeys(source for _, source in noted))
        figures = spelling.counted(len(noted), "figure")
        printer.warning(
            f"{where}: its limit {noted[0][0]!r} does not match the limit of the {figures} that it otherwise selects "
            f"({sources}), so the usual share was used: correct the limit, or leave it out"
        )
    _passed_over.clear()


def _is_dry(testcases) -> bool:
    return all(case.check.is_dry_run() for case in testcases)
