"""Access to the files and commands of the node that the probe examines."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil

from isthmus import tools

#: Placeholder for facts that the probe cannot know; `isthmus site check` and every session refuse it.
FILL_IN = "FILL_IN"


@dataclasses.dataclass
class Machine:
    """Node on which the probe runs."""

    bench: str | None = None
    root: pathlib.Path = pathlib.Path("/")
    environ: dict = dataclasses.field(default_factory=lambda: dict(os.environ))
    is_root: bool = dataclasses.field(default_factory=lambda: os.geteuid() == 0)

    def has(self, command: str) -> bool:
        return shutil.which(command, path=self.environ.get("PATH", os.defpath)) is not None

    def ask(self, *command: str, environ: dict | None = None) -> tools.Answer:
        return tools.ask(*command, environ=self.environ | (environ or {}))

    def read(self, path: str) -> str | None:
        try:
            return (self.root / path.lstrip("/")).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return None

    def folders(self, pattern: str) -> list[pathlib.Path]:
        return sorted(self.root.glob(pattern.lstrip("/")))
