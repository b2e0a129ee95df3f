"""Gate for sessions that are told not to judge. A session that would switch off a single gate is refused; any other is
reported as unjudged.

In ReFrame, such a session passes as soon as its programs have been started.
"""

import inspect
import pathlib

from reframe.core.exceptions import ReframeError

from isthmus import spelling

_OURS = pathlib.Path(__file__).resolve().parents[1]


def _own_hooks(check) -> dict[str, bool]:
    """Returns the names of a check's hooks, and whether each is part of this tree, which makes it a gate."""
    return {
        hook.__name__: _OURS in pathlib.Path(inspect.unwrap(hook.fn).__code__.co_filename).resolve().parents
        for hook in type(check)._rfm_hook_registry
    }


def refuse_switched_off(testcases, kind: type) -> None:
    """Raises ReframeError if an option switches off a gate of checks of this kind, or a hook that none of them has."""
    checks = [case.check for case in testcases if isinstance(case.check, kind)]
    for check in checks:
        hooks = _own_hooks(check)
        for name in sorted(check.disabled_hooks):
            if hooks.get(name):
                raise ReframeError(
                    f"--disable-hook={name} would leave {check.display_name} unjudged, because that hook is part "
                    "of every verdict: leave the option out"
                )
        if not check.strict_check:
            raise ReframeError(
                f"{check.display_name} is not strict, so figures outside their references would pass: leave out "
                "-S strict_check=…"
            )
    known = {name for case in testcases for name in _own_hooks(case.check)}
    for name in sorted({name for check in checks for name in check.disabled_hooks} - known):
        raise ReframeError(f"--disable-hook={name}: no chosen check has such a hook; check the spelling")


def reason(policy) -> str:
    """Returns the option that keeps a session from judging its measurements, or an empty string if it judges them."""
    if policy.dry_run_mode:
        return "--dry-run"
    if policy.skip_sanity_check:
        return "--skip-sanity-check"
    return "--skip-performance-check" if policy.skip_performance_check else ""


def note(policy, testcases, kind: type) -> None:
    """Makes the checks of this kind report the option that reason() returns, for `isthmus nightly`."""
    for case in testcases:
        if isinstance(case.check, kind):
            case.check.unjudged = reason(policy)


def report(policy, testcases, printer) -> None:
    """Shows at the end of a session what it did not judge. Raises ReframeError if results were not verified."""
    why = reason(policy)
    hooks = sorted({name for case in testcases for name in case.check.disabled_hooks})
    if hooks:
        printer.warning(f"without {spelling.counted(len(hooks), 'hook')} of the checks: {', '.join(hooks)}")
    if policy.dry_run_mode:
        printer.info(f"Nothing was measured, and nothing judged ({why})")
    elif policy.skip_sanity_check:
        raise ReframeError(f"nothing was judged ({why}): the records are kept, but no result in them was verified")
    elif why:
        printer.warning(f"no figure was judged ({why}): results were verified, but no reference was applied")
