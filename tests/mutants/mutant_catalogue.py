"""All mutants, and a Markdown table of them: ``PYTHONPATH=tests/helpers python tests/mutants/mutant_catalogue.py``."""

from __future__ import annotations

import mutants_async
import mutants_barriers
import mutants_edges
import mutants_fp16x3
import mutants_fp32_tensor
import mutants_gemv
import mutants_overflow
import mutants_pipelined
import mutants_simt_best
import mutants_swizzled
import mutants_values
import mutants_wmma
from mutant import Mutant

MUTANTS: tuple[Mutant, ...] = (
    *mutants_barriers.MUTANTS,
    *mutants_async.MUTANTS,
    *mutants_edges.MUTANTS,
    *mutants_values.MUTANTS,
    *mutants_wmma.MUTANTS,
    *mutants_swizzled.MUTANTS,
    *mutants_pipelined.MUTANTS,
    *mutants_fp32_tensor.MUTANTS,
    *mutants_simt_best.MUTANTS,
    *mutants_fp16x3.MUTANTS,
    *mutants_gemv.MUTANTS,
)
# Run without a guarded launch, in test_mutants_beyond_trials.py.
OVERFLOWS: tuple[Mutant, ...] = mutants_overflow.MUTANTS


def table() -> str:
    """A Markdown table: mutant, rung, what is wrong, what detects it, and which sanitizer tool could detect it too."""
    rows = [f"| {m.name} | {m.rung} | {m.what} | {m.detector} | {m.sanitizer or '–'} |" for m in (*MUTANTS, *OVERFLOWS)]
    return "\n".join(["| mutant | rung | what is wrong | detected as | compute-sanitizer |", "| --- " * 5 + "|", *rows])


if __name__ == "__main__":
    print(table())
