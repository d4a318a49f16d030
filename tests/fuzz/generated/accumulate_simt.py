"""Thread tiles on CUDA cores: accumulators, the sums of one k-tile, and each output with its accumulator."""

from __future__ import annotations

from generated.draft import Draft, block_of
from generated.outputs import Outputs
from generated.shared_tile import SharedTile


def _place(draft: Draft, axis: str) -> str:
    """The row or column, in the tile, of a thread's i-th or j-th output."""
    n, recipe = draft.names, draft.recipe
    thread, step, size, block = ("ty", "i", n.tm, n.bm) if axis == "row" else ("tx", "j", n.tn, n.bn)
    if (recipe.tm if axis == "row" else recipe.tn) == 1:
        return thread
    return f"{thread} + {step} * ({block} / {size})" if recipe.strided else f"{thread} * {size} + {step}"


def threads_text(draft: Draft) -> str:
    n, recipe = draft.names, draft.recipe
    if recipe.block == "2d":
        return "const int tx = threadIdx.x, ty = threadIdx.y;"
    across, lane = f"({n.bn} / {n.tn})", "tid"
    lines = []
    if recipe.slices > 1:
        lines = [f"const int group = tid / (THREADS / {recipe.slices}), lane = tid % (THREADS / {recipe.slices});"]
        lane = "lane"
    return "\n".join([*lines, f"const int tx = {lane} % {across}, ty = {lane} / {across};"])


def declare(draft: Draft) -> str:
    n, kind = draft.names, draft.element.accumulator
    right = f"{kind} {n.acc}[{n.tm}][{n.tn}] = {{}};"
    right = draft.sites.text(
        "accumulator", "accumulators are not set to zero", right, f"{kind} {n.acc}[{n.tm}][{n.tn}];"
    )
    return draft.sites.text("accumulator", "accumulators start at one", right,
                            f"{right} {n.acc}[0][0] = {draft.element.one};")  # fmt: skip


def accumulate(draft: Draft, stage: str) -> str:
    n, sites, recipe, kind = draft.names, draft.sites, draft.recipe, draft.element.accumulator
    a, b = SharedTile(draft, "A"), SharedTile(draft, "B")
    row, column = _place(draft, "row"), _place(draft, "column")
    first, end = "0", n.bk
    if recipe.slices > 1:
        share = f"{n.bk} / {recipe.slices}"
        first, end = f"group * ({share})", f"(group + 1) * ({share})"
        first = sites.text("loop", "all groups sum the same slice", first, "0")
    words = recipe.method == "dp4a"
    end = sites.text("loop", "the last k of a tile is missed", end, f"{end} - {4 if words else 1}")
    step = "++kk"
    if words:
        step = sites.text("loop", "every second word is missed", "kk += 4", "kk += 8")
    add = "+="
    if not words:
        add = sites.text("accumulator", "products are subtracted", add, "-=")
        add = sites.text("accumulator", "the sum is overwritten", add, "=")
    widen = "*reinterpret_cast<const int*>(&{})" if words else draft.element.widen
    read_a, read_b = widen.format(a.read(stage, row, "kk")), widen.format(b.read(stage, column, "kk"))
    total = f"{n.acc}[i][j] {add} ra[i] * rb[j];"
    if words:
        total = f"{n.acc}[i][j] = __dp4a(ra[i], rb[j], {n.acc}[i][j]);"
        total = sites.text("accumulator", "a word of A is multiplied by the thread's first of B", total,
                           total.replace("rb[j]", "rb[0]"))  # fmt: skip
    return "\n".join([
        "#pragma unroll 4", f"for (int kk = {first}; kk < {end}; {step}) {{",
        block_of(f"{kind} ra[{n.tm}], rb[{n.tn}];", f"for (int i = 0; i < {n.tm}; ++i) ra[i] = {read_a};",
                 f"for (int j = 0; j < {n.tn}; ++j) rb[j] = {read_b};", f"for (int i = 0; i < {n.tm}; ++i)",
                 f"    for (int j = 0; j < {n.tn}; ++j) {total}"), "}",
    ])  # fmt: skip


def finish(draft: Draft) -> str:
    """Add the groups' sums, where a tile's k is shared by groups of threads."""
    if draft.recipe.slices == 1:
        return ""
    n, kind = draft.names, draft.element.accumulator
    at = f"partial[lane * ({n.tm} * {n.tn}) + i * {n.tn} + j]"
    loops = f"for (int i = 0; i < {n.tm}; ++i)\n    for (int j = 0; j < {n.tn}; ++j)"
    add = _by_atomics if draft.recipe.split == "slice atomics" else _by_one_group
    return "\n".join([f"__shared__ {kind} partial[{n.bm} * {n.bn}];", *add(draft, loops, at)])


def _by_one_group(draft: Draft, loops: str, at: str) -> list[str]:
    acc = draft.names.acc
    wait = draft.sites.text("barrier", "no barrier before the groups' sums are added", "__syncthreads();", ";")
    return ["if (group == 1) {", block_of(f"{loops} {at} = {acc}[i][j];"), "}", wait, "if (group != 0) return;",
            f"{loops} {acc}[i][j] += {at};"]  # fmt: skip


def _by_atomics(draft: Draft, loops: str, at: str) -> list[str]:
    n, sites = draft.names, draft.sites
    cleared = sites.text("barrier", "no barrier after the sums are set to zero", "__syncthreads();", ";")
    added = sites.text("barrier", "no barrier before the groups' sums are read", "__syncthreads();", ";")
    add = sites.text("atomics", "a plain addition in shared memory", f"atomicAdd(&{at}, {n.acc}[i][j]);",
                     f"{at} += {n.acc}[i][j];")  # fmt: skip
    return [f"for (int i = tid; i < {n.bm} * {n.bn}; i += THREADS) partial[i] = {draft.element.zero};", cleared,
            f"{loops} {add}", added, "if (group != 0) return;", f"{loops} {n.acc}[i][j] = {at};"]  # fmt: skip


def outputs(draft: Draft) -> Outputs:
    n = draft.names
    loops = (
        "#pragma unroll",
        f"for (int i = 0; i < {n.tm}; ++i) {{",
        "#pragma unroll",
        f"for (int j = 0; j < {n.tn}; ++j) {{",
    )
    return Outputs(loops, f"m0 + {_place(draft, 'row')}", f"n0 + {_place(draft, 'column')}", f"{n.acc}[i][j]", 2)
