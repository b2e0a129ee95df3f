"""Gate against modules that cannot be loaded for lack of a modules system. ReFrame would only warn, and measure without
them."""

import reframe.core.runtime as runtime
from reframe.core.exceptions import ReframeError

_WHAT_TO_DO = "set modules_system to 'lmod' or 'tmod4' in the site's file, or leave them out"


def refuse_idle(testcases, options: list[str]) -> None:
    """Raises ReframeError for modules of checks, and for options about modules, if modules_system is 'nomod'."""
    if runtime.runtime().modules_system.name != "nomod":
        return
    for case in testcases:
        if names := [_name(module) for module in case.check.modules]:
            raise ReframeError(
                f"modules of {case.check.display_name} ({', '.join(names)}) are never loaded, because modules_system "
                f"is 'nomod': {_WHAT_TO_DO}"
            )
    if names := [_name(module) for module in runtime.runtime().get_option("general/0/user_modules")]:
        raise ReframeError(
            f"modules of -m ({', '.join(names)}) are never loaded, because modules_system is 'nomod': {_WHAT_TO_DO}"
        )
    if options:
        raise ReframeError(
            f"{options[0]} has no effect, because modules_system is 'nomod', which has no modules: leave it out, or "
            "set modules_system to 'lmod' or 'tmod4' in the site's file"
        )


def _name(module) -> str:
    return str(module["name"] if isinstance(module, dict) else module)
