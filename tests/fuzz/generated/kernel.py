"""A recipe as the text of a .cu file, with at most one fault, and what is true of it."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

from generated import accumulate_mma, accumulate_simt, accumulate_wmma, epilogue, host, untiled
from generated.draft import Draft, block_of
from generated.global_tile import GlobalTile
from generated.outputs import Outputs
from generated.pipeline import async_helpers, barrier, barrier_helpers, ceil_text, main_loop
from generated.recipe import Recipe
from generated.shared_tile import SharedTile
from generated.sites import Fault, Sites

_METHODS: dict[str, ModuleType] = {"simt": accumulate_simt, "dp4a": accumulate_simt, "mma": accumulate_mma,
                                   "ldmatrix": accumulate_mma, "wmma": accumulate_wmma}  # fmt: skip


@dataclass(frozen=True)
class Generated:
    """A kernel's text. ``fault`` is None for the kernel without one; ``faults`` are all that could be made in it."""

    recipe: Recipe
    text: str
    fault: Fault | None
    faults: tuple[Fault, ...]
    entry: str
    block: tuple[int, int, int]
    shared_bytes: int

    def grid(self, m: int, n: int, batch: int) -> tuple[int, int, int]:
        """The grid that the host code launches."""
        recipe, name = self.recipe, self.fault.name if self.fault else ""
        down = m // recipe.bm if name == "the grid's rows are rounded down" else -(-m // recipe.bm)
        across = n // recipe.bn if name == "the grid's columns are rounded down" else -(-n // recipe.bn)
        z = batch if recipe.batch else host.SPLIT if recipe.divided else 1
        if recipe.persistent:
            return host.PERSISTENT, 1, z
        if recipe.grid in ("linear", "grouped"):
            return down * across, 1, z
        return (down, across, z) if recipe.grid == "yx" else (across, down, z)

    @property
    def innocent(self) -> bool:
        """Whether check must accept it: no fault, or a harmless one."""
        return self.fault is None or bool(self.fault.equivalent)


def generate(recipe: Recipe, fault: str = "") -> Generated:
    sites = Sites(fault)
    draft = Draft(recipe, sites)
    body = _tiled(draft) if recipe.shared else untiled.body(draft, _start(draft))
    text = "\n\n".join(part for part in ["\n".join(host.headers(draft)), *_helpers(draft), _kernel(draft, body),
                                         host.launch(draft)] if part) + "\n"  # fmt: skip
    if fault and fault not in sites.offered:
        raise ValueError(f"this kernel has no place for the fault {fault!r}")
    used = host.shared_bytes(draft)
    if fault == "dynamic shared memory is a row too small":
        used = int(sites.offered[fault].wrong)
    return Generated(recipe, text, sites.offered.get(fault), tuple(sites.offered.values()), draft.names.kernel,
                     _block(recipe), used)  # fmt: skip


def _block(recipe: Recipe) -> tuple[int, int, int]:
    if recipe.block == "1d":
        return recipe.threads, 1, 1
    if recipe.tensor_cores or recipe.method == "shuffle":
        return 32, recipe.threads // 32, 1
    return recipe.bn // recipe.tn, recipe.bm // recipe.tm, 1


def _helpers(draft: Draft) -> list[str]:
    if not draft.recipe.shared:
        return []
    swizzles = [SharedTile(draft, operand).swizzle_function() for operand in "AB"]
    return [
        *swizzles,
        async_helpers(draft),
        barrier_helpers(draft),
        accumulate_mma.helpers(draft) if draft.recipe.method in ("mma", "ldmatrix") else "",
    ]


def _kernel(draft: Draft, body: str) -> str:
    recipe, n = draft.recipe, draft.names
    taken = ", ".join(f"{kind} {name}" for kind, name in host.parameters(draft))
    template = ""
    if recipe.constants == "template":
        template = f"template <{', '.join(f'int {name}' for name in host.constants(draft))}>\n"
    return f"{template}__global__ void {n.kernel}({taken}) {{\n{body}\n}}"


def _start(draft: Draft) -> list[str]:
    """Places of block and thread, and pointers of this block's matrices."""
    n, recipe = draft.names, draft.recipe
    tid = "threadIdx.y * blockDim.x + threadIdx.x" if recipe.block == "2d" else "threadIdx.x"
    lines = [f"const int tid = {tid};", *([] if recipe.persistent else host.block_places(draft))]
    if recipe.batch:
        stride = draft.sites.text("stride", "the batch's stride of B", "strideB", "strideA")
        lines += [
            f"{n.a} += blockIdx.z * strideA;",
            f"{n.b} += blockIdx.z * {stride};",
            f"{n.c} += blockIdx.z * strideC;",
        ]
    if recipe.divided:
        bk = n.bk if recipe.shared else "1"
        each = f"(({n.k} + {bk} - 1) / {bk} + {host.SPLIT} - 1) / {host.SPLIT} * {bk}"
        each = draft.sites.text("loop", "the shares of k do not cover it", each, f"{n.k} / {host.SPLIT} / {bk} * {bk}")
        lines += [f"const int k_each = {each};", "const int k_begin = blockIdx.z * k_each;",
                  f"const int k_end = min((int){n.k}, k_begin + k_each);"]  # fmt: skip
    return lines


def _tiled(draft: Draft) -> str:
    method, recipe = _METHODS[draft.recipe.method], draft.recipe
    stage = "stage" if recipe.stages > 1 else "0"
    tiles = [SharedTile(draft, operand) for operand in "AB"]
    shared = [tile.declaration() for tile in tiles]
    if recipe.dynamic:
        size = tiles[0].elements
        kind = draft.element.input
        shared = ["extern __shared__ __align__(128) unsigned char shared_memory[];",
                  f"{kind}* {tiles[0].name} = reinterpret_cast<{kind}*>(shared_memory);",
                  f"{kind}* {tiles[1].name} = {tiles[0].name} + {size};"]  # fmt: skip
    aligned = [GlobalTile(draft, operand).alignment() for operand in "AB"]
    outputs: Outputs = method.outputs(draft)
    loop = main_loop(draft, method.accumulate(draft, stage))
    first = [
        f"constexpr int THREADS = {recipe.threads};",
        *shared,
        *_start(draft),
        method.threads_text(draft),
        *aligned,
    ]
    tile = [method.declare(draft), loop, method.finish(draft), epilogue.store(draft, outputs)]
    return block_of(*first, *(_persistent(draft, tile) if recipe.persistent else tile))


def _persistent(draft: Draft, tile: list[str]) -> list[str]:
    """One tile of C after another; what the last one left in shared memory must have been read."""
    n, sites, recipe = draft.names, draft.sites, draft.recipe
    step = sites.text("stride", "tiles of C are skipped", "gridDim.x", "gridDim.x + 1")
    kept = sites.text("accumulator", "accumulators are kept from tile to tile", "", tile[0])
    declared = [] if kept else tile[:1]
    wait = barrier(draft, "between tiles of C") if recipe.pipeline == "async" or recipe.method == "wmma" else ""
    return [
        f"const int across = {ceil_text(draft, n.n, n.bn)}, down = {ceil_text(draft, n.m, n.bm)};", kept,
        f"for (int tile = blockIdx.x; tile < across * down; tile += {step}) {{",
        block_of(*host.block_places(draft), *declared, *tile[1:], wait),
        "}",
    ]  # fmt: skip
