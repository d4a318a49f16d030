"""Kernels without shared memory: a thread for each output, or a warp that sums by shuffles."""

from __future__ import annotations

from generated import epilogue
from generated.draft import Draft, block_of
from generated.outputs import Outputs


def body(draft: Draft, start: list[str]) -> str:
    write = _shuffle if draft.recipe.method == "shuffle" else _naive
    return block_of(*start, *write(draft), epilogue.store(draft, Outputs((), "row", "col", "sum", 0)))


def _element(draft: Draft, operand: str) -> str:
    """A's or B's element at this output's row or column, and kk."""
    outer = "row" if operand == "A" else "col"
    slow, fast = (outer, "kk") if draft.recipe.k_contiguous(operand) else ("kk", outer)
    right = draft.offset(slow, fast, draft.leading(operand))
    wrong_leading, swapped = (
        draft.offset(slow, fast, draft.leading("C")),
        draft.offset(fast, slow, draft.leading(operand)),
    )
    right = draft.sites.text("stride", f"leading dimension of {operand}", right, wrong_leading)
    right = draft.sites.text("index", f"swapped indices of {operand}", right, swapped)
    return draft.element.widen.format(f"{draft.pointer(operand)}[{right}]")


def _sum(draft: Draft, start: str, step: str) -> list[str]:
    sites, element = draft.sites, draft.element
    zero = sites.text("accumulator", "the accumulator is not set to zero", f"sum = {element.zero}", "sum")
    end = sites.text("loop", "the last k is missed", draft.k_end, f"{draft.k_end} - 1")
    add = sites.text("accumulator", "products are subtracted", "+=", "-=")
    start = sites.text("loop", "the first k is missed", start, f"{start} + 1")
    loop = f"for (int kk = {start}; kk < {end}; {step}) sum {add} {_element(draft, 'A')} * {_element(draft, 'B')};"
    return [f"{element.accumulator} {zero};", loop]


def _guard(draft: Draft) -> list[str]:
    if not draft.recipe.guarded:
        return []
    n, sites = draft.names, draft.sites
    rows, columns = f"row >= {n.m}", f"col >= {n.n}"
    if draft.recipe.bm > 1:  # else no block reaches past the last row
        rows = sites.text("guard", "C: row guard off by one", rows, f"row > {n.m}")
    if draft.recipe.bn > 1:
        columns = sites.text("guard", "C: column guard off by one", columns, f"col > {n.n}")
    both = f"{rows} || {columns}"
    if draft.recipe.bm > 1:
        both = sites.text("guard", "C: no row guard", both, columns)
    if draft.recipe.bn > 1:
        both = sites.text("guard", "C: no column guard", both, rows)
    return [f"if ({both}) return;"]


def _naive(draft: Draft) -> list[str]:
    n = draft.names
    row, column = ("threadIdx.y", "threadIdx.x") if draft.recipe.block == "2d" else (f"tid / {n.bn}", f"tid % {n.bn}")
    return [f"const int row = m0 + {row}, col = n0 + {column};", *_guard(draft), *_sum(draft, draft.k_begin, "++kk")]


def _shuffle(draft: Draft) -> list[str]:
    n, sites = draft.names, draft.sites
    step = sites.text("stride", "lanes are 31 apart", "kk += 32", "kk += 31")
    first = sites.text("loop", "half of the lanes are added", "16", "8")
    add = sites.harmless("a butterfly of shuffles", "__shfl_down_sync(0xffffffff, sum, offset)",
                         "__shfl_xor_sync(0xffffffff, sum, offset)", "the first lane gets the same sum")  # fmt: skip
    lane = sites.text("index", "another lane stores the sum", "lane != 0", "lane != 1")
    return [
        "const int warp = tid / 32, lane = tid % 32;",
        f"const int row = m0 + warp / {n.bn}, col = n0 + warp % {n.bn};", *_guard(draft), *_sum(draft, "lane", step),
        f"for (int offset = {first}; offset > 0; offset /= 2) sum += {add};", f"if ({lane}) return;",
    ]  # fmt: skip
