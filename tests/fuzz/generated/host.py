"""What stands around the kernel: headers, constants, parameters, and the host code that launches it."""

from __future__ import annotations

from dataclasses import replace

from generated.draft import Draft
from generated.pipeline import ceil_text
from generated.shared_tile import SharedTile

SPLIT = 3  # shares of k among blocks
PERSISTENT = 6  # blocks that take one tile after another
GROUP = 3  # rows of tiles whose blocks follow one another


def constants(draft: Draft) -> dict[str, int]:
    n, recipe = draft.names, draft.recipe
    found = {n.bm: recipe.bm, n.bn: recipe.bn}
    return found | ({n.bk: recipe.bk, n.tm: recipe.tm, n.tn: recipe.tn} if recipe.shared else {})


def headers(draft: Draft) -> list[str]:
    lines = ["#include <cuda_runtime.h>", draft.element.header]
    if draft.recipe.method == "wmma":
        lines += ["#include <mma.h>", "using namespace nvcuda;"]
    if draft.recipe.barrier == "groups":
        lines += ["#include <cooperative_groups.h>", "namespace cg = cooperative_groups;"]
    if draft.recipe.indices == "macro":
        lines.append("#define OFFSET(row, col, ld) ((row) * (ld) + (col))")
    if draft.recipe.ceil == "macro":
        lines.append("#define CEIL_DIV(x, y) (((x) + (y) - 1) / (y))")
    if draft.recipe.ceil == "function":
        lines.append("__host__ __device__ constexpr int ceil_div(int x, int y) { return (x + y - 1) / y; }")
    if draft.recipe.constants == "macro":
        lines += [f"#define {name} {value}" for name, value in constants(draft).items()]
    if draft.recipe.constants == "constexpr":
        lines += [f"constexpr int {name} = {value};" for name, value in constants(draft).items()]
    return [line for line in lines if line]


def parameters(draft: Draft) -> list[tuple[str, str]]:
    """(type, name), in this author's order."""
    n, recipe, element = draft.names, draft.recipe, draft.element
    size, scalar = recipe.sizes, element.accumulator
    source = f"const {element.input}*" + (" __restrict__" if recipe.constants != "macro" else "")
    a, b, c = (source, n.a), (source, n.b), [(f"{element.output}*", n.c)]
    if recipe.separate:
        c = [(f"const {element.output}*", n.c), (f"{element.output}*", n.d)]
    extents = [(size, n.m), (size, n.n), (size, n.k)]
    leads = [(size, n.lda), (size, n.ldb), (size, n.ldc)] if recipe.leading else []
    scalars = [(scalar, "alpha"), (scalar, "beta")] if recipe.epilogue == "scaled" else []
    bias = [(f"const {element.output}*", "bias")] if recipe.epilogue == "bias" else []
    scratch = [(f"{element.accumulator}*", "partial"), ("unsigned*", "tickets")] if recipe.split == "ticket" else []
    batch = [("long long", f"stride{x}") for x in "ABC"] if recipe.batch else []
    if recipe.order == "pointers first":
        return [a, b, *bias, *c, *extents, *leads, *scalars, *batch, *scratch]
    if recipe.order == "extents first":
        return [*extents, a, *leads[:1], b, *leads[1:2], *bias, *c, *leads[2:], *scalars, *batch, *scratch]
    return [*extents, *scalars[:1], a, *leads[:1], *batch[:1], b, *leads[1:2], *batch[1:2], *scalars[1:], *bias, *c,
            *leads[2:], *batch[2:], *scratch]  # fmt: skip


def block_places(draft: Draft) -> list[str]:
    """m0 and n0: where the block's tile starts."""
    n, recipe = draft.names, draft.recipe
    if recipe.persistent:
        return [f"const int m0 = tile / across * {n.bm}, n0 = tile % across * {n.bn};"]
    if recipe.grid == "linear":
        columns = ceil_text(draft, n.n, n.bn)
        return [f"const int across = {columns};",
                f"const int m0 = blockIdx.x / across * {n.bm}, n0 = blockIdx.x % across * {n.bn};"]  # fmt: skip
    if recipe.grid == "grouped":
        return _grouped(draft)
    y, x = ("x", "y") if recipe.grid == "yx" else ("y", "x")
    return [f"const int m0 = blockIdx.{y} * {n.bm}, n0 = blockIdx.{x} * {n.bn};"]


def _grouped(draft: Draft) -> list[str]:
    """Blocks go down GROUP tiles before they go to the next column; the last group may have fewer."""
    n, sites = draft.names, draft.sites
    size = sites.text("launch", "the last group of tiles counts as a whole one", f"min(down - first, {GROUP})",
                      str(GROUP))  # fmt: skip
    inside = sites.text("index", "a tile's row in a group of another size", "% size", f"% {GROUP}")
    beside = sites.text("index", "a tile's column in a group of another size", "/ size", f"/ {GROUP}")
    return [
        f"const int across = {ceil_text(draft, n.n, n.bn)}, down = {ceil_text(draft, n.m, n.bm)};",
        f"const int in_group = {GROUP} * across, first = (int)blockIdx.x / in_group * {GROUP};",
        f"const int size = {size}, place = (int)blockIdx.x % in_group;",
        f"const int m0 = (first + place {inside}) * {n.bm}, n0 = place {beside} * {n.bn};",
    ]


def shared_bytes(draft: Draft) -> int:
    """Bytes of dynamic shared memory."""
    if not draft.recipe.dynamic:
        return 0
    return sum(SharedTile(draft, operand).elements for operand in "AB") * draft.element.size


def launch(draft: Draft) -> str:
    """A host function, or a main, that launches the kernel."""
    n, recipe, sites = draft.names, draft.recipe, draft.sites
    across, down = ceil_text(draft, n.n, n.bn), ceil_text(draft, n.m, n.bm)
    if not recipe.guarded:
        across, down = f"{n.n} / {n.bn}", f"{n.m} / {n.bm}"
    if recipe.guarded and not recipe.persistent:
        across = sites.text("launch", "the grid's columns are rounded down", across, f"{n.n} / {n.bn}")
        down = sites.text("launch", "the grid's rows are rounded down", down, f"{n.m} / {n.bm}")
    z = "batch" if recipe.batch else str(SPLIT) if recipe.divided else "1"
    if recipe.persistent:
        grid = f"{PERSISTENT}, 1, {z}"
    elif recipe.grid in ("linear", "grouped"):
        grid = f"({across}) * ({down}), 1, {z}"
    elif recipe.grid == "yx":
        grid = f"{down}, {across}, {z}"
    else:
        grid = f"{across}, {down}, {z}"
    if recipe.block == "1d":
        block = str(recipe.threads)
    elif recipe.tensor_cores or recipe.method == "shuffle":
        block = f"32, {recipe.threads // 32}"
    else:
        block = f"{n.bn} / {n.tn}, {n.bm} / {n.tm}" if recipe.shared else f"{n.bn}, {n.bm}"
    used = shared_bytes(draft)
    short = SharedTile(draft, "B").pitch_count * draft.element.size
    smem = (
        sites.text("launch", "dynamic shared memory is a row too small", str(used), str(used - short)) if used else "0"
    )
    named = recipe.constants == "template"
    name = f"{n.kernel}<{', '.join(constants(draft))}>" if named else n.kernel
    known = "".join(f"    constexpr int {key} = {value};\n" for key, value in constants(draft).items()) if named else ""
    arguments = ", ".join(parameter for _, parameter in parameters(draft))
    raised = (
        f"    cudaFuncSetAttribute({name}, cudaFuncAttributeMaxDynamicSharedMemorySize, {smem});\n"
        if used > 48 * 1024
        else ""
    )
    if recipe.split == "ticket":
        raised += f"    cudaMemset(tickets, 0, sizeof(unsigned) * {_tiles(draft)});\n"
    if recipe.host == "inline":
        fired = f"    {name}<<<dim3({grid}), dim3({block}), {smem}>>>({arguments});"
    else:
        third = f", {smem}" if used else ""
        fired = f"    dim3 block({block});\n    dim3 grid({grid});\n    {name}<<<grid, block{third}>>>({arguments});"
    if recipe.host == "main":
        return _main(draft, f"{known}{raised}{fired}")
    taken = [f"{kind.replace(' __restrict__', '')} {parameter}" for kind, parameter in parameters(draft)]
    taken += ["int batch"] if recipe.batch else []
    return f"void run_{n.kernel}({', '.join(taken)}) {{\n{known}{raised}{fired}\n}}"


_EXAMPLE = (768, 384, 512)  # M, N and K of a program: whole tiles of every size


def _main(draft: Draft, fired: str) -> str:
    """A program that allocates its matrices and launches once."""
    n, recipe, element = draft.names, draft.recipe, draft.element
    extents = dict(zip((n.m, n.n, n.k), _EXAMPLE, strict=True))
    lines = [f"const int {name} = {value};" for name, value in extents.items()]
    if recipe.leading:
        leads = {n.lda: "A", n.ldb: "B", n.ldc: "C"}
        lines += [f"const int {name} = {replace_leading(draft, operand)};" for name, operand in leads.items()]
    if recipe.batch:
        lines += ["const int batch = 4;", f"const long long strideA = {n.m} * {n.k}, strideB = {n.k} * {n.n};",
                  f"const long long strideC = {n.m} * {n.n};"]  # fmt: skip
    if recipe.epilogue == "scaled":
        lines.append(f"{element.accumulator} alpha = 1, beta = 0;")
    sizes = {n.a: f"{n.m} * {n.k}", n.b: f"{n.k} * {n.n}", n.c: f"{n.m} * {n.n}", n.d: f"{n.m} * {n.n}", "bias": n.n,
             "partial": f"{SPLIT} * {n.m} * {n.n}", "tickets": _tiles(draft)}  # fmt: skip
    times = " * batch" if recipe.batch else ""
    for kind, name in parameters(draft):
        if "*" in kind:
            held = kind.replace("const ", "").replace(" __restrict__", "")
            lines += [f"{held} {name};", f"cudaMalloc(&{name}, sizeof(*{name}) * {sizes[name]}{times});"]
    body = "\n".join(f"    {line}" for line in lines)
    return f"int main() {{\n{body}\n{fired}\n    return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;\n}}"


def _tiles(draft: Draft) -> str:
    """How many tiles C has."""
    n = draft.names
    return f"({ceil_text(draft, n.n, n.bn)}) * ({ceil_text(draft, n.m, n.bm)})"


def replace_leading(draft: Draft, operand: str) -> str:
    """The leading dimension without padding."""
    return Draft(replace(draft.recipe, leading=False), draft.sites).leading(operand)
