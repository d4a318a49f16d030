"""What a launch must write, by the caller's own function, and how closely.

A result is right if |got − expected| ≤ atol + rtol·|expected| for every element. By default rtol depends on the type of
the array, and atol is rtol times the largest expected magnitude, so that sums that cancel are not judged by their last
bits. Integers must be equal. NaN equals NaN only; infinities must be equal.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.call.any_kernel.arguments import Argument
from gemmsmith.call.any_kernel.arrays import host_array, is_array
from gemmsmith.errors import GemmsmithError, UsageError

# Relative tolerances by the type of an output: a few hundred units of rounding, as sums of some thousand terms need.
RTOL = {"float64": 1e-12, "float32": 1e-4, "float16": 5e-3, "bfloat16": 2e-2, "float8_e4m3fn": 0.13,
        "float8_e5m2": 0.26, "complex64": 1e-4, "complex128": 1e-12}  # fmt: skip
# Sums of small integers, and of eighths, are exact, so there only the last roundings of a quotient are forgiven.
_EXACT_RTOL = 1e-6
_EXACT_BELOW = 2**22


@dataclass(frozen=True)
class Tolerance:
    """How closely a result must agree; None is the default of the array's type."""

    rtol: float | None = None
    atol: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("rtol", self.rtol), ("atol", self.atol)):
            if value is not None and not 0 <= value < math.inf:
                raise UsageError(f"{name} {value:g} is not a tolerance", "give 0 or more")


def expected_arrays(
    expect: Callable[..., Any], arguments: Sequence[Argument], changed: Sequence[str]
) -> dict[str, NDArray[Any]]:
    """Call ``expect`` with the arguments it asks for, and name what it returns.

    It returns a dict by name, or arrays in the order of the outputs: the arrays that the kernel may write or, if it
    returns fewer, those in ``changed``, which the launch changed.
    """
    asked = _asked_for(expect, arguments)
    try:
        answer = expect(**asked)
    except GemmsmithError:
        raise
    except Exception as error:  # the caller's own code
        raise UsageError(
            f"{_named(expect)} failed: {type(error).__name__}: {error}",
            f"it was called with {', '.join(asked) or 'no arguments'}",
        ) from error
    outputs = [name for argument in arguments if argument.writable for name in _outputs_of(argument)]
    if isinstance(answer, Mapping):
        unknown = [name for name in answer if name not in outputs]
        if unknown:
            raise UsageError(
                f"{_named(expect)} expects {unknown[0]!r}, which the kernel does not write",
                f"it may write {', '.join(outputs) or 'nothing'}",
            )
        return {name: _values(name, value) for name, value in answer.items()}
    listed = list(answer) if isinstance(answer, (tuple, list)) else [answer]
    for names in (outputs, list(changed)):
        if len(names) == len(listed):
            return {name: _values(name, value) for name, value in zip(names, listed, strict=True)}
    raise UsageError(
        f"{_named(expect)} returns {len(listed)} array{'s' if len(listed) > 1 else ''}, and the kernel may write "
        f"{len(outputs)}: {', '.join(outputs) or 'none'}",
        'return a dict by name: {"out": ...}',
    )


def _outputs_of(argument: Argument) -> list[str]:
    """The names of the arrays that the kernel may write: of a struct, those of its members."""
    if not argument.held:
        return [argument.name]
    return [held.name for number, held in enumerate(argument.held) if argument.writes(number)]


def _named(expect: Callable[..., Any]) -> str:
    return getattr(expect, "__name__", "expect")


def _asked_for(expect: Callable[..., Any], arguments: Sequence[Argument]) -> dict[str, Any]:
    """The arguments that the function has parameters for: arrays of NumPy, copied, and numbers."""
    known = {argument.name: _plain(argument) for argument in arguments}
    try:
        parameters = inspect.signature(expect).parameters
    except (TypeError, ValueError):
        return known
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()):
        return known
    lacking = [name for name, each in parameters.items() if name not in known and each.default is each.empty]
    if lacking:
        raise UsageError(
            f"{_named(expect)} asks for {lacking[0]!r}, which is no argument of the kernel",
            f"its arguments: {', '.join(known)}",
        )
    return {name: known[name] for name in parameters if name in known}


def _plain(argument: Argument) -> Any:
    arrays = [np.array(host.values) for host in argument.arrays]
    return arrays if argument.is_table else arrays[0] if arrays else argument.value


def _values(name: str, value: Any) -> NDArray[Any]:
    if isinstance(value, (list, tuple)) and value and all(map(is_array, value)):
        return np.stack([host_array(name, each).values for each in value])
    return host_array(name, value).values if is_array(value) else np.asarray(value)


def differences(name: str, got: Any, expected: NDArray[Any], tolerance: Tolerance, exact_data: bool = False) -> str:
    """What is wrong with one array, in one line; empty if nothing is.

    ``exact_data``: the inputs were small integers or eighths. Where the expected numbers are too, they must be met.
    """
    found = _values(name, got)
    if found.size != expected.size:
        return f"{name} has {found.size} elements, and {expected.size} are expected"
    expected = expected.reshape(found.shape)
    exact = found.dtype.kind in "iub"
    rtol, atol = _limits(found.dtype, expected, tolerance, exact_data)
    wide = np.complex128 if "c" in (found.dtype.kind, expected.dtype.kind) else np.float64
    if exact and expected.dtype.kind in "iub":
        wrong = found != expected
    else:
        wrong = ~_close(found.astype(wide), expected.astype(wide), rtol, atol)
    if not wrong.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.ndim else ()
    where = f"{name}[{', '.join(map(str, at))}]" if at else name
    unset = _unwritten(found, wrong)
    text = (f"{int(wrong.sum())} of {found.size} elements of {name} are wrong, the first {where}: {_shown(found[at])}, "
            f"expected {_shown(expected[at])}")  # fmt: skip
    if not exact:
        text += f" (rtol {rtol:.3g}, atol {atol:.3g})"
    return text + (f"; {unset} of them were never written" if unset else "")


def _unwritten(found: NDArray[Any], wrong: NDArray[np.bool_]) -> int:
    """Wrong elements that still hold the bytes of empty()."""
    if found.dtype.kind == "b" or not found.size:
        return 0
    raw = np.ascontiguousarray(found).reshape(-1).view(np.uint8).reshape(found.size, -1)
    return int(((raw == 0xFF).all(axis=1) & wrong.reshape(-1)).sum())


def _limits(
    dtype: np.dtype[Any], expected: NDArray[Any], tolerance: Tolerance, exact_data: bool
) -> tuple[float, float]:
    if dtype.kind in "iub":
        return tolerance.rtol or 0.0, tolerance.atol or 0.0
    finite = np.abs(expected.astype(np.complex128 if expected.dtype.kind == "c" else np.float64))
    finite = finite[np.isfinite(finite)]
    largest = float(finite.max()) if finite.size else 0.0
    rtol = tolerance.rtol
    if rtol is None:
        rtol = RTOL.get(str(dtype), 1e-4)
        whole = exact_data and largest < _EXACT_BELOW and bool((8 * finite == np.round(8 * finite)).all())
        rtol = min(rtol, _EXACT_RTOL) if whole and dtype.itemsize >= 4 else rtol
    atol = tolerance.atol if tolerance.atol is not None else rtol * largest if tolerance.rtol is None else 0.0
    return rtol, atol


def _close(found: NDArray[Any], expected: NDArray[Any], rtol: float, atol: float) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(found - expected) <= atol + rtol * np.abs(expected)
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    close: NDArray[np.bool_] = np.where(np.isfinite(found) & np.isfinite(expected), near, same)
    return close


def _shown(value: Any) -> str:
    if np.asarray(value).dtype.kind in "iub":
        return str(int(value))
    return f"{complex(value):.7g}" if np.iscomplexobj(value) else f"{float(value):.7g}"
