"""A generated kernel launched directly, and its result compared with a product in float64.

Nothing of gemmsmith's own verification is used: this is the second opinion that ``check`` is compared with.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from generated.draft import Draft
from generated.host import parameters
from generated.kernel import Generated
from generated.names import NAMES
from generated.recipe import Recipe
from generated.sites import Sites
from numpy.typing import NDArray

from gemmsmith.kernel.geometry import Geometry
from gemmsmith.run.device import Device, Launch

_TYPES: dict[str, Any] = {"float": np.float32, "double": np.float64, "half": np.float16,
                          "__nv_bfloat16": ml_dtypes.bfloat16, "int8_t": np.int8, "int32_t": np.int32}  # fmt: skip
_CODES = {"int": "<i", "const int": "<i", "unsigned": "<I", "size_t": "<Q", "long long": "<q", "float": "<f",
          "double": "<d"}  # fmt: skip
# Rounding of sums and of outputs, as generous as a correct kernel can need and far below any fault.
_SUM = {"float": 64 * 2.0**-24, "double": 64 * 2.0**-53, "int": 0.0, "half": 64 * 2.0**-11}
_OUTPUT = {"float": 2.0**-23, "double": 2.0**-52, "half": 2.0**-10, "__nv_bfloat16": 2.0**-7, "int32_t": 0.0}
_SMALLEST = {"half": 2.0**-24, "float": 2.0**-149, "__nv_bfloat16": 2.0**-133, "double": 0.0, "int32_t": 0.0}
GUARD = 512  # elements around each matrix


@dataclass(frozen=True)
class Trial:
    """One launch: its shape, scalars, and special values in A."""

    name: str
    m: int
    n: int
    k: int
    alpha: float = 1.0
    beta: float = 0.0
    special: bool = False
    padding: int = 0  # elements after each row of A, twice as many of B, three times of C; with leading dimensions
    subnormal: bool = False  # nothing is added to a product that may be subnormal


def trials(recipe: Recipe, *, small: bool) -> list[Trial]:
    """Launches that show every fault of the generator: ``small`` ones for compute-sanitizer."""
    bm, bn, bk = (-(-8 // size) * size for size in (recipe.bm, recipe.bn, recipe.bk))
    scaled = recipe.epilogue == "scaled"
    alpha, beta = (3.0, -2.0) if recipe.types == "i8" else (0.75, -1.5)
    one = (alpha, beta) if scaled else (1.0, 0.0)
    if small:
        found = [Trial("small", 2 * bm, 3 * bn, 6 * bk, *one)]
        return found + ([Trial("small ragged", 2 * bm - 1, 2 * bn - 3, 3 * bk - 1, *one)] if recipe.guarded else [])
    m, n, k = (-(-least // tile) * tile for least, tile in ((288, bm), (352, bn), (321, bk)))
    padding = 16 if recipe.leading else 0
    side = -(-160 // (bm * bn // np.gcd(bm, bn))) * int(bm * bn // np.gcd(bm, bn))
    found = [Trial("whole tiles", m, n, k, *one), Trial("padded rows", m, n, 2 * bk, *one, padding=padding),
             Trial("M = N", side, side, 3 * bk, *one)]  # fmt: skip
    if scaled:
        found.append(Trial("negative alpha, large beta", bm, 2 * bn, 3 * bk, -alpha, 3.0))
    if recipe.element.is_float and not recipe.tf32:  # TF32 holds no such numbers
        found.append(Trial("special values", 2 * bm, 3 * bn, 6 * bk, *one, special=True))
        found.append(Trial("subnormal results", bm, 2 * bn, 3 * bk, special=True, subnormal=True))
    if recipe.guarded:
        found += [Trial("ragged", m - 3, n - 5, k - 1, *one, padding=padding), Trial("K = 1", bm, 2 * bn, 1, *one),
                  Trial("small ragged", 2 * bm - 1, 2 * bn - 3, 3 * bk - 1, *one)]  # fmt: skip
    return found


@dataclass(frozen=True)
class Matrix:
    """Where a matrix lies: its elements with guards, and its shape as stored."""

    held: NDArray[Any]
    rows: int
    columns: int
    leading: int
    batch: int

    @property
    def stride(self) -> int:
        return self.rows * self.leading

    def view(self, held: NDArray[Any] | None = None) -> NDArray[Any]:
        """(batch, rows, columns) of the matrix in ``held``, without guards and padding."""
        inner = (self.held if held is None else held)[GUARD:-GUARD]
        return inner.reshape(self.batch, self.rows, self.leading)[:, :, : self.columns]


def _matrix(kind: str, rows: int, columns: int, padding: int, batch: int) -> Matrix:
    held = np.full(2 * GUARD + batch * rows * (columns + padding), np.nan if kind not in ("int8_t", "int32_t") else 77)
    return Matrix(held.astype(_TYPES[kind]), rows, columns, columns + padding, batch)


def run_trial(device: Device, loaded: Any, kernel: Generated, trial: Trial, *, guards: bool = True) -> str:
    """Launch once; what is wrong with the result, or an empty text. Without ``guards`` allocations end with the
    matrices, so that memcheck sees what lies past them."""
    recipe, element = kernel.recipe, kernel.recipe.element
    rng = np.random.default_rng(7)
    batch = 2 if recipe.batch else 1
    shapes = {"A": (trial.m, trial.k) if recipe.k_contiguous("A") else (trial.k, trial.m),
              "B": (trial.n, trial.k) if recipe.k_contiguous("B") else (trial.k, trial.n),
              "C": (trial.n, trial.m) if recipe.column_major else (trial.m, trial.n)}  # fmt: skip
    kinds = {"A": element.input, "B": element.input, "C": element.output}
    held = {x: _matrix(kinds[x], *shapes[x], trial.padding * times if recipe.leading else 0, batch)
            for times, x in enumerate("ABC", 1)}  # fmt: skip
    for x in "AB":
        held[x].view()[...] = _values(rng, recipe, held[x].view().shape)
    if trial.special:
        for where, value in zip(((0, 1, 2), (0, 3, 4), (0, 5, 1)), (np.nan, np.inf, -np.inf), strict=True):
            held["A"].view()[where] = value
        held["A"].view()[0, 7, :] = 1e-30 if element.input != "half" else 6e-8
        if element.input in ("float", "__nv_bfloat16"):
            held["B"].view()[0] *= np.float32(1e-9)
    reads_c = recipe.epilogue == "scaled" or recipe.split == "atomic"
    if reads_c:
        held["C"].view()[...] = _values(rng, recipe, held["C"].view().shape)
    before = held["C"].view().astype(np.float64)
    held["D"] = _matrix(kinds["C"], *shapes["C"], 0, 1)  # a separate output
    bias = (_values(rng, recipe, (trial.n,)) * (not trial.subnormal)).astype(_TYPES[element.output])
    result = _launch(device, loaded, kernel, trial, held, bias, batch, guards)
    return _compare(recipe, trial, held, before, bias, result, guards)


def _values(rng: np.random.Generator, recipe: Recipe, shape: tuple[int, ...]) -> NDArray[Any]:
    if recipe.types == "i8":
        return rng.integers(-9, 10, shape)
    drawn = rng.standard_normal(shape)
    # Numbers that TF32 holds: products are then exact.
    return drawn.astype(ml_dtypes.bfloat16).astype(np.float32) if recipe.tf32 else drawn


def _launch(
    device: Device, loaded: Any, kernel: Generated, trial: Trial, held: dict[str, Matrix], bias: NDArray[Any],
    batch: int, guards: bool,
) -> NDArray[Any]:  # fmt: skip
    recipe, n = kernel.recipe, NAMES[kernel.recipe.names]
    at: dict[str, int] = {}
    values: dict[str, Any] = {
        n.m: trial.m, n.n: trial.n, n.k: trial.k, "alpha": trial.alpha, "beta": trial.beta, n.lda: held["A"].leading,
        n.ldb: held["B"].leading, n.ldc: held["C"].leading, **{f"stride{x}": held[x].stride for x in "ABC"},
    }  # fmt: skip
    taken: list[int] = []
    cut = 0 if guards else GUARD
    for x, name in (("A", n.a), ("B", n.b), ("C", n.c)):
        data = held[x].held[cut : len(held[x].held) - cut]
        at[x] = device.allocate(data.nbytes)
        taken.append(at[x])
        device.write(at[x], data.view(np.uint8).ravel())
        values[name] = at[x] + (GUARD - cut) * data.itemsize
    if recipe.separate:
        data = held["D"].held[cut : len(held["D"].held) - cut]
        at["C"] = device.allocate(data.nbytes)
        taken.append(at["C"])
        device.write(at["C"], data.view(np.uint8).ravel())
        values[n.d] = at["C"] + (GUARD - cut) * data.itemsize
    values["bias"] = device.allocate(bias.nbytes)
    taken.append(values["bias"])
    device.write(values["bias"], bias.view(np.uint8).ravel())
    if recipe.split == "ticket":
        across, down, shares = -(-trial.n // recipe.bn), -(-trial.m // recipe.bm), kernel.grid(1, 1, 1)[2]
        sizes = {
            "partial": shares * trial.m * trial.n * (8 if recipe.types == "f64" else 4),
            "tickets": 4 * across * down,
        }
        for name, size in sizes.items():
            values[name] = device.allocate(size)
            taken.append(values[name])
            device.write(values[name], np.full(size, 255 if name == "partial" else 0, np.uint8))
    packed = []
    for kind, name in parameters(Draft(recipe, Sites())):
        code = "<Q" if "*" in kind else _CODES[kind]
        packed.append(struct.pack(code, values[name] if code not in "<f<d" else float(values[name]))
                      if code in ("<f", "<d") else struct.pack(code, int(values[name])))  # fmt: skip
    geometry = Geometry(kernel.grid(trial.m, trial.n, batch), kernel.block, kernel.shared_bytes)
    device.launch(loaded, Launch(geometry, tuple(packed)))
    device.synchronize()
    output = held["D" if recipe.separate else "C"]
    data = output.held[cut : len(output.held) - cut]
    result = device.read(at["C"], data.nbytes).view(data.dtype)
    for address in taken:
        device.free(address)
    return result


def _compare(
    recipe: Recipe, trial: Trial, held: dict[str, Matrix], before: NDArray[Any], bias: NDArray[Any],
    result: NDArray[Any], guards: bool,
) -> str:  # fmt: skip
    element = recipe.element
    output = held["D" if recipe.separate else "C"]
    if guards and not _guards_kept(output, result):
        return "writes outside the output"
    full = np.concatenate([output.held[:GUARD], result, output.held[:GUARD]]) if not guards else result
    got = output.view(full).astype(np.float64)
    a, b = (held[x].view().astype(np.float64) for x in "AB")
    a = a if recipe.k_contiguous("A") else a.transpose(0, 2, 1)
    b = b.transpose(0, 2, 1) if recipe.k_contiguous("B") else b
    if recipe.column_major:
        got, before = got.transpose(0, 2, 1), before.transpose(0, 2, 1)
    with np.errstate(all="ignore"):
        scale = np.abs(a) @ np.abs(b)
        want = a @ b
        if recipe.epilogue == "scaled":
            scale, want = (
                abs(trial.alpha) * scale + abs(trial.beta) * np.abs(before),
                trial.alpha * want + trial.beta * before,
            )
        if recipe.epilogue == "bias":
            scale, want = scale + np.abs(bias.astype(np.float64)), want + bias.astype(np.float64)
        if recipe.split == "atomic":
            scale, want = scale + np.abs(before), want + before
        want = want.astype(_TYPES[element.output]).astype(np.float64) if element.output == "half" else want
        bound = _SUM[element.accumulator] * scale + _OUTPUT[element.output] * np.abs(want) + _SMALLEST[element.output]
        if element.accumulator == "half":  # each of the products may be subnormal, and is rounded
            bound = bound + trial.k * _SMALLEST["half"]
        finite = np.isfinite(want)
        wrong = np.where(finite, ~(np.abs(got - want) <= bound), ~((got == want) | (np.isnan(got) & np.isnan(want))))
    return f"{int(wrong.sum())} of {wrong.size} outputs wrong" if wrong.any() else ""


def _guards_kept(matrix: Matrix, result: NDArray[Any]) -> bool:
    """Whether nothing but the matrix was written: guards, and padding between rows."""
    changed = matrix.held.view(np.uint8) != result.view(np.uint8)
    elements = changed.reshape(len(result), -1).any(axis=1)
    elements[GUARD:-GUARD].reshape(matrix.batch, matrix.rows, matrix.leading)[:, :, : matrix.columns] = False
    return not elements.any()
