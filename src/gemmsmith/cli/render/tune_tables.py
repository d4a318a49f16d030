"""What ``gemmsmith tune`` prints: the fastest kernel for each shape, and why candidates were not usable."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape

from gemmsmith.choose.table import Entry
from gemmsmith.cli.render.output import item, print_table, say
from gemmsmith.tune.plan import Tuned

_SHOWN_REASONS = 3


def tuning_json(gpu: str, file: Path, found: Sequence[Tuned], notes: Sequence[str]) -> dict[str, Any]:
    return {"gpu": gpu, "file": str(file), "finished": not _unfinished(found), "notes": list(dict.fromkeys(notes)),
            "shapes": [_fields(tuned) for tuned in found]}  # fmt: skip


def print_tuning(gpu: str, file: Path, found: Sequence[Tuned], notes: Sequence[str], users: str) -> None:
    """``users`` names the argument with which calls use what was found; empty where every call does."""
    columns = [("shape", "left"), ("", "left"), ("kernel", "left"), ("configuration", "left"), ("time", "right"),
               ("cuBLAS", "right"), ("speed", "right")]  # fmt: skip
    print_table(columns, [[escape(cell) for cell in _row(tuned)] for tuned in found], f"{gpu}, measured")
    for tuned in found:
        for tried in tuned.unusable[:_SHOWN_REASONS]:
            item(f"{tuned.problem}: {tried.kernel} {_text(tried.config)} {tried.state}: {tried.why}")
        if len(tuned.unusable) > _SHOWN_REASONS:
            item(f"{tuned.problem}: and {len(tuned.unusable) - _SHOWN_REASONS} more")
        item(_search(tuned))
    for note in dict.fromkeys(notes):
        item(note)
    so_far = sum(1 for tuned in found if tuned.state == "unfinished" and tuned.best is not None)
    if left := _unfinished(found):
        say(f"{left} of {len(found)} shapes are not finished: the same command continues with them")
    also = f", and the best so far of {so_far} that are not" if so_far else ""
    item(f"Stored in {file}; gemm and matmul {users and f'with {users} '}use the finished shapes{also}")


def _unfinished(found: Sequence[Tuned]) -> int:
    return sum(1 for tuned in found if tuned.state == "unfinished")


def _search(tuned: Tuned) -> str:
    """How many candidates were timed, and what those that are left can gain."""
    seen = tuned.outlook
    text = f"{tuned.problem}: {seen.tried} candidates tried, {seen.left} left"
    if not seen.left:
        return text
    if seen.error == math.inf:
        return f"{text}: too few were timed to know what those can gain"
    range_ = f"the model errs by {seen.error:.0%} here"
    if seen.is_exhausted:
        return f"{text}: none of those can gain 1 % ({range_})"
    return f"{text}: those can gain up to {seen.gain:.0%} ({range_}); --per-shape {2 * max(1, seen.tried)} tries more"


def _row(tuned: Tuned) -> list[str]:
    if tuned.best is None:
        return [str(tuned.problem), tuned.state, "", f"{tuned.tried} candidates so far", "", "", ""]
    best = tuned.best
    cublas = f"{best.cublas_us:.2f} µs" if best.cublas_us > 0 else "?"
    return [str(tuned.problem), tuned.state, best.kernel, _text(best.config, ", "), f"{best.us:.2f} µs", cublas,
            f"{_ratio(best):.1%}" if best.cublas_us > 0 else "?"]  # fmt: skip


def _fields(tuned: Tuned) -> dict[str, Any]:
    best = tuned.best
    return {
        "problem": str(tuned.problem),
        "m": tuned.problem.m,
        "n": tuned.problem.n,
        "k": tuned.problem.k,
        "layout": tuned.problem.layout,
        "dtype": tuned.problem.dtype.name,
        "out_dtype": tuned.problem.out_dtype.name,
        "state": tuned.state,
        "kernel": best.kernel if best else None,
        "config": dict(best.config) if best else None,
        "us": best.us if best else None,
        "cublas_us": finite(best.cublas_us) if best else None,
        "speed": finite(_ratio(best)) if best else None,
        "tried": tuned.tried,
        "left": tuned.outlook.left,
        "most_gain": finite(tuned.outlook.gain),
        "model_error": finite(tuned.outlook.error),
        "unusable": [{"kernel": t.kernel, "config": dict(t.config), "state": t.state, "why": t.why}
                     for t in tuned.unusable],
    }  # fmt: skip


def _ratio(best: Entry) -> float:
    return best.cublas_us / best.us


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _text(config: tuple[tuple[str, int], ...], between: str = ",") -> str:
    return between.join(f"{name}={value}" for name, value in config)
