"""Notebooks: each runs from the committed records, and its committed output is up to date."""

import importlib.machinery
import importlib.util
import pathlib
import subprocess
import sys

import nbformat
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/notebooks"
FOLDERS = (ROOT / "analysis/notebooks", ROOT / "papers/notebooks")
PATHS = {path.stem: path for folder in FOLDERS for path in sorted(folder.glob("*.py"))}
NAMES = sorted(PATHS)


@pytest.fixture(scope="module")
def script():
    loader = importlib.machinery.SourceFileLoader("notebooks_script", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def test_there_are_eleven_and_none_without_its_text():
    assert len(NAMES) == 11
    assert {path.stem for folder in FOLDERS for path in folder.glob("*.ipynb")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_it_runs_and_shows_what_is_kept(name):
    done = subprocess.run([sys.executable, SCRIPT, "--check", name], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_what_is_kept_has_pictures_and_is_small(name):
    path = PATHS[name].with_suffix(".ipynb")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert path.stat().st_size < 400_000
    assert str(ROOT) not in path.read_text()


def test_an_error_and_a_stale_output_fail(script, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(script, "FOLDERS", [tmp_path])
    monkeypatch.setattr(script, "ROOT", tmp_path)
    text = tmp_path / "short.py"
    text.write_text("# %%\nprint(6 * 7)\n")
    monkeypatch.setattr(sys, "argv", ["notebooks"])
    assert script.main() == 0 and "short.ipynb" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["notebooks", "--check"])
    assert script.main() == 0
    text.write_text("# %%\nprint(6 * 8)\n")
    assert script.main() == 1 and "kept 'print(6 * 7)'" in capsys.readouterr().err
    kept = tmp_path / "short.ipynb"
    kept.write_text(kept.read_text().replace("6 * 7", "6 * 8"))
    assert script.main() == 1 and "kept '42', now '48'" in capsys.readouterr().err
    text.write_text("# %%\nraise ValueError('no')\n")
    assert script.main() == 1 and "ValueError" in capsys.readouterr().err
    text.unlink()
    monkeypatch.setattr(sys, "argv", ["notebooks", "short"])
    assert script.main() == 2


def test_a_warning_of_some_version_makes_nothing_stale(script):
    def notebook(*texts):
        outputs = [nbformat.v4.new_output("stream", name=name, text=text) for name, text in texts]
        return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x", outputs=outputs)])

    kept = script.shown(notebook(("stdout", "42")))
    assert kept == script.shown(notebook(("stderr", "MatplotlibDeprecationWarning: gone in 3.12"), ("stdout", "42")))
    assert kept != script.shown(notebook(("stdout", "43")))


def test_notebooks_of_another_folder_say_what_they_leave_out(tmp_path):
    """The folder has only the committed transfers, so the notebook omits what needs two GPUs or the pitfalls, and draws
    the rest."""
    folder = tmp_path / "records"
    folder.mkdir()
    name = "transfer.jsonl.gz"
    (folder / name).write_bytes((ROOT / "papers/data/h200" / name).read_bytes())
    done = subprocess.run(
        [sys.executable, SCRIPT, "--data", folder, "-o", tmp_path / "out", "transfer-bandwidth"],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "out/transfer-bandwidth.ipynb").read_text()
    assert "Left out: " in text and "Traceback" not in text and '"image/png"' in text
    assert "cells left out" in done.stdout and not (ROOT / "notebooks-of-yours").exists()


def test_a_folder_that_is_not_there_is_a_sentence(tmp_path):
    done = subprocess.run([sys.executable, SCRIPT, "--data", tmp_path / "none"], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "no such file or folder" in done.stderr
