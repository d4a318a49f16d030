"""The example notebook runs from top to bottom without a GPU, and its results have forms of their own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from pages import ROOT

NOTEBOOK = ROOT / "docs" / "examples" / "first_steps.ipynb"


def executed(notebook: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The notebook after a run in its own folder, in a process of its own that imports this source tree."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(ROOT / "src"), os.environ.get("PYTHONPATH", ""))))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "jupyter"))
    client = NotebookClient(notebook, timeout=60, kernel_name="python3",
                            resources={"metadata": {"path": str(NOTEBOOK.parent)}})  # fmt: skip
    return client.execute()


def shown(notebook: Any) -> list[str]:
    """The HTML of each cell that has one."""
    return [
        output["data"]["text/html"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "text/html" in output.get("data", {})
    ]


def test_the_notebook_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done = executed(nbformat.read(NOTEBOOK, as_version=4), monkeypatch, tmp_path)
    plan, wrong, right, profile, view, comparison, launch = shown(done)
    assert "Plan for 96x96x96 fp32" in plan
    assert "RACE: tile.cu" in wrong
    assert "race: thread" in wrong
    assert "ok: tile_fixed.cu" in right
    assert "simulated on simulator" in profile
    assert view.startswith("<iframe srcdoc=")
    assert "times as fast as tile_fixed.cu" in comparison
    assert "scale: no race" in launch


def test_a_notebook_that_fails_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("import gemmsmith\ngemmsmith.no_such_name")])
    with pytest.raises(CellExecutionError, match="no_such_name"):
        executed(broken, monkeypatch, tmp_path)


def test_the_notebook_is_kept_without_results() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in notebook.cells)
