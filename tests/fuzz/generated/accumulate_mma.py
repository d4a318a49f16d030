"""Warp tiles on tensor cores by mma.sync: fragments from 32-bit loads or ldmatrix."""

from __future__ import annotations

from generated.draft import Draft, block_of
from generated.outputs import Outputs
from generated.shared_tile import SharedTile


def threads_text(draft: Draft) -> str:
    n = draft.names
    right = "const int g = lane / 4, q = lane % 4;"
    return "\n".join([
        "const int warp = tid / 32, lane = tid % 32;",
        f"const int warp_m = warp / ({n.bn} / {n.tn}) * {n.tm}, warp_n = warp % ({n.bn} / {n.tn}) * {n.tn};",
        draft.sites.text("fragment", "rows and pairs of a fragment are swapped", right,
                         "const int g = lane % 8, q = lane / 8;"),
    ])  # fmt: skip


def declare(draft: Draft) -> str:
    n = draft.names
    right = f"{draft.element.accumulator} {n.acc}[{n.tm} / 16][{n.tn} / 8][4] = {{}};"
    return draft.sites.text("accumulator", "accumulators are not set to zero", right,
                            f"{draft.element.accumulator} {n.acc}[{n.tm} / 16][{n.tn} / 8][4];")  # fmt: skip


def accumulate(draft: Draft, stage: str) -> str:
    n = draft.names
    deep = draft.recipe.fragment_k
    load = _by_ldmatrix if draft.recipe.method == "ldmatrix" else _by_words
    last = (
        draft.sites.text("loop", "the last k of a tile is missed", n.bk, f"{n.bk} - {deep}")
        if draft.recipe.bk > deep
        else n.bk
    )
    return "\n".join([
        f"for (int kk = 0; kk < {last}; kk += {deep}) {{",
        block_of(f"unsigned fa[{n.tm} / 16][4], fb[{n.tn} / 8][2];", f"for (int i = 0; i < {n.tm} / 16; ++i) {{",
                 block_of(load(draft, stage, "A")), "}", f"for (int j = 0; j < {n.tn} / 8; ++j) {{",
                 block_of(load(draft, stage, "B")), "}", f"for (int i = 0; i < {n.tm} / 16; ++i)",
                 f"    for (int j = 0; j < {n.tn} / 8; ++j) mma_m16n8k{deep}({n.acc}[i][j], fa[i], fb[j]);"), "}",
    ])  # fmt: skip


def _by_words(draft: Draft, stage: str, operand: str) -> str:
    """Each register holds neighbours in k: two of 16 bits, four of 8 bits, one of 32 bits."""
    held = 4 // draft.element.size
    low, high = f"kk + q * {held}", f"kk + q * {held} + {4 * held}"
    tile, sites = SharedTile(draft, operand), draft.sites

    def pair(outer: str, k: str) -> str:
        if draft.element.size == 4:
            return f"to_tf32({tile.read(stage, outer, k)})"
        if tile.words_adjacent:
            return f"*reinterpret_cast<const unsigned*>(&{tile.read(stage, outer, k)})"
        return f"pack({tile.read(stage, outer, k)}, {tile.read(stage, outer, f'{k} + 1')})"

    if operand == "A":
        second = sites.text("fragment", "the second row of A's fragment", "warp_m + i * 16 + g + 8",
                            "warp_m + i * 16 + g")  # fmt: skip
        upper = sites.text("fragment", "the upper k of A's fragment", high, f"kk + q * {held} + {2 * held}")
        places = [("warp_m + i * 16 + g", low), (second, low), ("warp_m + i * 16 + g", upper),
                  ("warp_m + i * 16 + g + 8", high)]  # fmt: skip
        return "\n".join(f"fa[i][{r}] = {pair(outer, k)};" for r, (outer, k) in enumerate(places))
    column = sites.text("fragment", "the column of B's fragment", "warp_n + j * 8 + g", "warp_n + j * 8 + q")
    return "\n".join(f"fb[j][{r}] = {pair(column, high if r else low)};" for r in (0, 1))


def _by_ldmatrix(draft: Draft, stage: str, operand: str) -> str:
    """Each lane gives the address of one row of an 8×8 matrix."""
    tile, sites = SharedTile(draft, operand), draft.sites
    trans = "" if tile.k_contiguous else "_trans"
    trans = sites.text("fragment", f"{operand}'s matrices are transposed by ldmatrix", trans, "" if trans else "_trans")
    if operand == "A":
        row = "lane % 8 + (lane / 8) % 2 * 8" if tile.k_contiguous else "(lane / 8) % 2 * 8"
        k = "lane / 16 * 8" if tile.k_contiguous else "lane % 8 + lane / 16 * 8"
        k = sites.text("fragment", "the upper k of A's fragment", k, k.replace("lane / 16 * 8", "0"))
        place = tile.read(stage, f"warp_m + i * 16 + {row}", f"kk + {k}")
        return f"ldmatrix_x4{trans}(fa[i], &{place});"
    row = "lane % 8" if tile.k_contiguous else "0"
    k = "(lane / 8) % 2 * 8" if tile.k_contiguous else "lane % 16"
    place = tile.read(stage, f"warp_n + j * 8 + {row}" if row != "0" else "warp_n + j * 8", f"kk + {k}")
    return f"ldmatrix_x2{trans}(fb[j], &{place});"


def finish(draft: Draft) -> str:
    """A fragment's results for each warp, where they are stored in another order than they are computed."""
    return (
        f"__shared__ {draft.element.accumulator} staged[{draft.recipe.consumers // 32}][16][8 + 1];"
        if draft.recipe.staged
        else ""
    )


def outputs(draft: Draft) -> Outputs:
    n, sites = draft.names, draft.sites
    tiles = (f"for (int i = 0; i < {n.tm} / 16; ++i) {{", f"for (int j = 0; j < {n.tn} / 8; ++j) {{")
    if draft.recipe.staged:
        before = sites.text("barrier", "no __syncwarp before the results are replaced", "__syncwarp();", ";")
        after = sites.text("barrier", "no __syncwarp before the results are read", "__syncwarp();", ";")
        put = f"for (int e = 0; e < 4; ++e) staged[warp][g + e / 2 * 8][q * 2 + e % 2] = {n.acc}[i][j][e];"
        headers: tuple[str, ...] = (*tiles, before, put, after, "for (int e = lane; e < 128; e += 32) {")
        row, column = "m0 + warp_m + i * 16 + e / 8", "n0 + warp_n + j * 8 + e % 8"
        return Outputs(headers, row, column, "staged[warp][e / 8][e % 8]", 3)
    row = sites.text("fragment", "the second row of an accumulator", "m0 + warp_m + i * 16 + g + e / 2 * 8",
                     "m0 + warp_m + i * 16 + g + e % 2 * 8")  # fmt: skip
    headers = (*tiles, "for (int e = 0; e < 4; ++e) {")
    return Outputs(headers, row, "n0 + warp_n + j * 8 + q * 2 + e % 2", f"{n.acc}[i][j][e]", 3)


def helpers(draft: Draft) -> str:
    element, deep = draft.element, draft.recipe.fragment_k
    kind = {"half": "f16", "__nv_bfloat16": "bf16", "float": "tf32", "int8_t": "s8"}[element.input]
    total, letter = ("s32", "r") if element.accumulator == "int" else ("f32", "f")
    form = f"mma.sync.aligned.m16n8k{deep}.row.col.{total}.{kind}.{kind}.{total}"
    sums = ", ".join(f'"+{letter}"(d[{i}])' for i in range(4))
    mma = f"""\
__device__ __forceinline__ void mma_m16n8k{deep}({element.accumulator}* d, const unsigned* a, const unsigned* b) {{
    asm volatile("{form} {{%0,%1,%2,%3}}, {{%4,%5,%6,%7}}, {{%8,%9}}, "
                 "{{%0,%1,%2,%3}};\\n"
                 : {sums}
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}}
{_word_helper(draft)}"""
    if draft.recipe.method != "ldmatrix":
        return mma
    loads = []
    for trans in ("", "_trans"):
        for count in (4, 2):
            registers = ",".join(f"%{r}" for r in range(count))
            written = ", ".join(f'"=r"(r[{r}])' for r in range(count))
            form = f"ldmatrix.sync.aligned.m8n8.x{count}{trans.replace('_', '.')}.shared.b16"
            loads.append(f"""\
__device__ __forceinline__ void ldmatrix_x{count}{trans}(unsigned* r, const void* shared) {{
    unsigned from = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("{form} {{{registers}}}, [%{count}];\\n"
                 : {written} : "r"(from));
}}""")
    return "\n".join([mma, *loads])


def _word_helper(draft: Draft) -> str:
    """How a register of a fragment is made from elements."""
    t = draft.element.input
    if t == "float":
        return """\
__device__ __forceinline__ unsigned to_tf32(float x) {
    unsigned rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(x));
    return rounded;
}"""
    if t == "int8_t":  # words of shared memory are read as they are
        return ""
    bits = "__bfloat16_as_ushort" if "bfloat" in t else "__half_as_ushort"
    return f"""\
__device__ __forceinline__ unsigned pack({t} low, {t} high) {{
    return (unsigned){bits}(low) | ((unsigned){bits}(high) << 16);
}}"""
