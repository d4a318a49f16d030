"""Our rules against what torch and JAX were recorded to do (benchmarks/record_conventions.py); needs neither.

tests/gpu/test_torch_conventions.py and test_jax.py hold the tables, and gemmsmith itself, against the libraries.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gemmsmith
from gemmsmith.errors import MissingDeviceError
from gemmsmith.frameworks.jax_rules import COMPUTED, checked_shape, promoted
from gemmsmith.frameworks.products import library_named
from gemmsmith.frameworks.shapes import product_shape

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
Row = dict[str, Any]


def rows(library: str) -> list[Row]:
    found: list[Row] = json.loads((RESULTS / f"conventions_{library}.json").read_text(encoding="utf-8"))["rows"]
    assert len(found) > 500
    return found


def of_computed_types(row: Row) -> bool:
    return {row["a"][0], row["b"][0]} <= set(COMPUTED)


def shape_by(rule: Callable[..., Any], row: Row) -> list[int] | str:
    try:
        return list(rule(tuple(row["a"][1]), tuple(row["b"][1])).result)
    except TypeError:
        return "TypeError"
    except ValueError:
        return "ValueError"


def test_torchs_shapes_and_types() -> None:
    for row in rows("torch"):
        if "out" in row or not of_computed_types(row):
            continue
        found = shape_by(product_shape, row)
        same = row["a"][0] == row["b"][0]  # torch promotes nothing
        if "error" in row:
            assert found == "ValueError" or not same, row
        else:
            assert (found, row["a"][0], same) == (row["shape"], row["dtype"], True), row


def test_jaxs_shapes_types_and_exceptions() -> None:
    for row in rows("jax"):
        if not of_computed_types(row):
            continue
        found = shape_by(checked_shape, row)
        assert found == row.get("error", row.get("shape")), row
        if "error" not in row:
            assert promoted(row["a"][0], row["b"][0]) == row["dtype"], row


@pytest.mark.parametrize(("module", "expected"), [("torch", "torch"), ("torch.nn.parameter", "torch"),
                                                  ("jaxlib._jax", "jax"), ("jax._src.core", "jax"), ("cupy", "cupy"),
                                                  ("numpy", "numpy"), ("mine", "numpy")])  # fmt: skip
def test_the_library_of_a_type(module: str, expected: str) -> None:
    kind = type("Array", (), {"__module__": module})
    assert library_named(kind) == expected
    assert library_named(type("Mine", (kind,), {"__module__": "mine"})) == expected


def test_neither_library_is_imported_with_the_package() -> None:
    code = "import sys, gemmsmith; gemmsmith.matmul\nsys.exit(str([m for m in ('torch', 'jax') if m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize(("library", "name"), [("torch", "optimize"), ("jax", "matmul")])
def test_a_library_that_is_missing_is_named(library: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gemmsmith.frameworks.find_spec", lambda _: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.delitem(sys.modules, f"gemmsmith.{library}", raising=False)
    with pytest.raises(MissingDeviceError, match=rf"{library} is not installed\npip install 'gemmsmith\[{library}\]'"):
        getattr(getattr(gemmsmith, library), name)
    with pytest.raises(AttributeError):
        getattr(gemmsmith, library).nothing  # noqa: B018
    monkeypatch.delitem(sys.modules, f"gemmsmith.{library}", raising=False)
