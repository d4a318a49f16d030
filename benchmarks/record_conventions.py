"""What a library's ``matmul`` does with each signature: the result's type and shape, or the exception it raises.

    python benchmarks/record_conventions.py torch [benchmarks/results/conventions_torch.json] [--kind cpu|cuda]
    python benchmarks/record_conventions.py jax   [benchmarks/results/conventions_jax.json]

CI installs neither library. Tests of ``make test`` hold our rules against the recorded table; a test on the GPU holds
the table, and what gemmsmith does, against the library itself.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

SHAPES: tuple[tuple[int, ...], ...] = (
    (), (5,), (1,), (0,), (6, 5), (5, 7), (1, 5), (5, 1), (0, 5), (5, 0), (6, 0), (0, 7), (2, 6, 5), (2, 5, 7),
    (1, 5, 7), (3, 5, 7), (0, 6, 5), (0, 5, 7), (4, 1, 6, 5), (3, 2, 5, 7), (4, 3, 5, 7), (2, 1, 1, 6, 5),
)  # fmt: skip
TYPES = ("float32", "float16", "bfloat16", "int8", "float64", "int32", "uint8", "int64", "complex64", "bool")
COMPUTED = ("float32", "float16", "bfloat16", "int8")
Row = dict[str, Any]


def signatures() -> Iterator[Row]:
    """All pairs of shapes in float32, and all pairs of types at one shape and for vectors."""
    for a, b in product(SHAPES, SHAPES):
        yield {"a": ["float32", list(a)], "b": ["float32", list(b)]}
    for x, y in product(TYPES, TYPES):
        yield {"a": [x, [6, 5]], "b": [y, [5, 7]]}
        yield {"a": [x, [5]], "b": [y, [5, 7]]}
    for kind, shape in product(TYPES, ([6, 7], [7, 6], [0], [2, 6, 7])):
        yield {"a": ["float32", [6, 5]], "b": ["float32", [5, 7]], "out": [kind, shape]}


def outcome(call: Callable[[], Any], name_of: Callable[[Any], str]) -> Row:
    """The type and shape of the result, or the class of the exception."""
    try:
        result = call()
    except Exception as error:
        return {"error": type(error).__name__}
    return {"dtype": name_of(result.dtype), "shape": [int(extent) for extent in result.shape]}


def of_torch(row: Row, kind: str, matmul: Any = None, **options: Any) -> Row:
    """What ``torch.matmul``, or another function in its place, does with a signature."""
    import warnings

    import torch

    def tensor(described: list[Any]) -> Any:
        return torch.ones(described[1], dtype=getattr(torch, described[0]), device=kind)

    a, b = tensor(row["a"]), tensor(row["b"])
    if "out" in row:
        options["out"] = tensor(row["out"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return outcome(lambda: (matmul or torch.matmul)(a, b, **options), lambda each: str(each).removeprefix("torch."))


def of_jax(row: Row, matmul: Any = None, **options: Any) -> Row:
    """What ``jax.numpy.matmul``, or another function in its place, does with a signature."""
    import jax.numpy as jnp

    def array(described: list[Any]) -> Any:
        return jnp.ones(described[1], dtype="bool" if described[0] == "bool" else described[0])

    a, b = array(row["a"]), array(row["b"])
    return outcome(lambda: (matmul or jnp.matmul)(a, b, **options), lambda each: each.name)


def rows_of(library: str, kind: str) -> list[Row]:
    found = []
    for row in signatures():
        if library == "jax":
            wide = {"float64", "int64"}  # JAX has them only in a mode of its own
            if "out" in row or {row["a"][0], row["b"][0]} & wide:
                continue
            found.append(row | of_jax(row))
        else:
            found.append(row | of_torch(row, kind))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", choices=("torch", "jax"))
    parser.add_argument("output", type=Path, nargs="?")
    parser.add_argument("--kind", choices=("cpu", "cuda"), default="cpu", help="of torch's tensors")
    options = parser.parse_args()
    module = __import__(options.library)
    rows = rows_of(options.library, options.kind)
    record = {
        "what": f"{options.library}'s matmul: result or exception by signature", "origin": "recorded",
        "library": options.library, "version": module.__version__, "kind": options.kind,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": f"python benchmarks/record_conventions.py {options.library} --kind {options.kind}",
    }  # fmt: skip
    text = json.dumps(record, indent=1)[:-2] + ',\n "rows": [\n  ' + ",\n  ".join(map(json.dumps, rows)) + "\n ]\n}\n"
    if options.output is None:
        print(text)
    else:
        options.output.write_text(text, encoding="utf-8")
        print(f"{len(rows)} signatures of {options.library} {module.__version__}: {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
