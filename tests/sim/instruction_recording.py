"""The file of recorded instructions: operands and a GPU's results, with where they come from.

Operands are stored once for each pool ("in/i32": one row of four a case), results once for each form and result
("out/mad.hi.s32/0"), all classes of input one after another; "metadata" is JSON.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from instruction_forms import Form
from instruction_inputs import CLASSES, ROWS, pool, pool_of
from instruction_kernel import Words, storage_bytes
from numpy.typing import NDArray

FILE = Path(__file__).parents[1] / "data" / "instructions.npz"
_POOL_BYTES = {
    "pred": 4, "shift": 4, "field": 4, "toint32": 4, "narrow": 4, "toint64": 8, "single": 8, "bf16": 2, "f16x2": 4,
    "bf16x2": 4, "offset": 4,
}  # fmt: skip


@dataclass(frozen=True)
class Recording:
    """Everything in the file, read once."""

    metadata: dict[str, Any]
    arrays: dict[str, NDArray[Any]]

    def arguments(self, form: Form) -> list[Words]:
        """The recorded operands of a form, every class of input."""
        return [
            self.arrays[f"in/{pool_of(argument)}"][:, position].astype(f"u{storage_bytes(kind)}")
            for position, (argument, kind) in enumerate(zip(form.arguments, form.types, strict=True))
        ]

    def results(self, form: Form) -> list[Words]:
        """What the GPU computed; KeyError for a form that was not recorded."""
        return [self.arrays[f"out/{form.name}/{i}"] for i in range(len(form.results))]

    def part(self, input_class: str) -> slice:
        """Where the cases of a class lie."""
        start = 0
        for name, count in self.metadata["classes"].items():
            if name == input_class:
                return slice(start, start + count)
            start += count
        raise KeyError(input_class)


def load(path: Path = FILE) -> Recording:
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    return Recording(json.loads(arrays.pop("metadata").tobytes()), arrays)


def save(recording: Recording, path: Path = FILE) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = np.frombuffer(json.dumps(recording.metadata, indent=1).encode(), np.uint8)
    np.savez_compressed(path, metadata=text, **recording.arrays)


def fresh(forms: tuple[Form, ...], metadata: dict[str, Any], rows_of: dict[str, int] = ROWS) -> Recording:
    """A recording with operands for these forms and no results yet: the first rows of each pool."""
    names = sorted({pool_of(argument) for form in forms for argument in form.arguments})
    arrays: dict[str, NDArray[Any]] = {}
    for name in names:
        width = _POOL_BYTES.get(name) or int(name[1:]) // 8
        rows = [row for c in CLASSES for row in pool(name, c)[: rows_of[c]]]
        arrays[f"in/{name}"] = np.array(rows, f"u{width}")
    return Recording({**metadata, "classes": {c: rows_of[c] for c in CLASSES}}, arrays)


def differences(form: Form, recording: Recording, results: list[Words]) -> list[str]:
    """One line for each class and result whose bits differ from the recorded ones."""
    lines = []
    arguments = recording.arguments(form)
    for c in CLASSES:
        part = recording.part(c)
        for i, (recorded, found) in enumerate(zip(recording.results(form), results, strict=True)):
            wrong = np.flatnonzero(recorded[part] != found[part])
            if wrong.size:
                at = part.start + int(wrong[0])
                operands = ", ".join(f"{int(a[at]):#x}" for a in arguments)
                lines.append(f"{form.name} [{c}] result {i}: {wrong.size} of {part.stop - part.start} differ, first "
                             f"({operands}) -> GPU {int(recorded[at]):#x}, simulator {int(found[at]):#x}")  # fmt: skip
    return lines
