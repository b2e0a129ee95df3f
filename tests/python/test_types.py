"""Tests that the type checker checks every module of the analysis and all function bodies, without exceptions."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_no_module_and_no_line_is_hidden_from_the_type_checker():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    _, _, settings = text.partition("[tool.mypy]")
    assert 'files = ["analysis/isthmus", ' in settings and "check_untyped_defs = true" in settings
    assert not re.search("ignore_errors|exclude|follow_imports|disable_error_code", settings)
    modules = list((ROOT / "analysis/isthmus").rglob("*.py"))
    assert len(modules) > 40
    assert not [path.name for path in modules if re.search(r"#\s*(type: ignore|mypy:)", path.read_text("utf-8"))]
