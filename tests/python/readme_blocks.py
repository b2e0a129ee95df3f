"""Prints README's code blocks as one shell script, which runs every command in order and stops at the first failure.

python3 tests/python/readme_blocks.py | bash      at the root of a clone; `make run` builds the program first
"""

import pathlib
import re
import shlex

ROOT = pathlib.Path(__file__).resolve().parents[2]


def commands(text: str) -> list[str]:
    """Returns the commands on indented lines. A line that ends with a backslash continues on the next one."""
    found, before = [], ""
    for line in text.splitlines():
        if not line.startswith("    "):
            continue
        before += re.sub(r"\s+#.*", "", line[4:])
        if before.endswith("\\"):
            before = before[:-1]
            continue
        found.append(re.sub(" {2,}", " ", before))
        before = ""
    return found


def is_verdict(command: str) -> bool:
    """Returns whether the command's exit codes 1 (something was found) and 3 (undecided) are answers, not failures."""
    words = command.split()
    return words[0] == "isthmus" and words[1] not in ("site",)


def script(listed: list[str]) -> str:
    lines = ["set -uo pipefail"]
    for command in listed:
        good = "0|1|3" if is_verdict(command) else "0"
        broken = shlex.quote(f"README: this does not work: {command}")
        lines += [
            f"echo {shlex.quote(f'== {command}')}",
            command,
            f"case $? in {good}) ;; *) echo {broken} >&2; exit 1 ;; esac",
        ]
    return "\n".join([*lines, "echo 'README: every block works'", ""])


if __name__ == "__main__":
    print(script(commands((ROOT / "README.md").read_text(encoding="utf-8"))))
