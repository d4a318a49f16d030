"""The loop over k-tiles: plain, double buffering through registers, or cp.async with several stages."""

from __future__ import annotations

from generated.draft import Draft, block_of
from generated.global_tile import GlobalTile
from generated.recipe import PRODUCERS

BARRIER = "__syncthreads();"
_SAME_BARRIER = (
    ("twice", f"{BARRIER} {BARRIER}", "one barrier more orders more"),
    ("as PTX", 'asm volatile("bar.sync 0;" ::: "memory");', "it is what __syncthreads compiles to"),
    ("in both branches", f"if (tid / 32 % 2) {{ {BARRIER} }} else {{ {BARRIER} }}", "whole warps meet at one barrier"),
)
_LATE = 4  # faults "from the fifth k-tile on"


def main_loop(draft: Draft, accumulate: str) -> str:
    """Load every k-tile and run ``accumulate`` on it; ``stage`` and ``t`` are known there."""
    tiles = [GlobalTile(draft, operand) for operand in "AB"]
    write = {"plain": _plain, "registers": _registers, "async": _async, "specialised": _specialised}[
        draft.recipe.pipeline
    ]
    return write(draft, tiles, accumulate)


def tile_count(draft: Draft) -> str:
    """``tiles``: how many k-tiles this block has."""
    n, sites = draft.names, draft.sites
    length = f"({draft.k_end} - {draft.k_begin})" if draft.recipe.divided else draft.k_end
    whole = f"{length} / {n.bk}"
    right = ceil_text(draft, length, n.bk) if draft.recipe.guarded else whole
    right = sites.text("loop", "the number of k-tiles is rounded down", right, whole)
    right = sites.text("loop", "the last k-tile is missed", right, f"{right} - 1")
    return f"const int tiles = {right};"


def ceil_text(draft: Draft, size: str, tile: str) -> str:
    """Division rounded up, as this author writes it."""
    if draft.recipe.ceil == "inline":
        return f"({size} + {tile} - 1) / {tile}"
    return f"{'CEIL_DIV' if draft.recipe.ceil == 'macro' else 'ceil_div'}({size}, {tile})"


def barrier(draft: Draft, name: str) -> str:
    """A barrier that is needed."""
    written = "cg::this_thread_block().sync();" if draft.recipe.barrier == "groups" else BARRIER
    right = draft.sites.text("barrier", f"no barrier {name}", written, ";")
    for how, text, why in _SAME_BARRIER:
        if how != "in both branches" or draft.recipe.threads % 64 == 0:
            right = draft.sites.harmless(f"barrier {how} {name}", right, text, why)
    if draft.recipe.threads > 32:
        right = draft.sites.text("barrier", f"only the first warp waits {name}", right, "if (tid < 32) __syncwarp();")
    return right


def _late(draft: Draft, accumulate: str) -> str:
    """The accumulation of tile t, with faults that only show after several tiles."""
    text = draft.sites.text("threshold", "the fifth k-tile is skipped", accumulate,
                            f"if (t != {_LATE}) {{\n{block_of(accumulate)}\n}}")  # fmt: skip
    return draft.sites.text("threshold", "k-tiles from the ninth on are skipped", text,
                            f"if (t < {2 * _LATE}) {{\n{block_of(accumulate)}\n}}")  # fmt: skip


def _header(draft: Draft) -> str:
    start = "0"
    if draft.recipe.pipeline != "specialised":  # where producers would wait for ever
        start = draft.sites.text("loop", "the first k-tile is skipped", "0", "1")
    return f"for (int t = {start}; t < tiles; ++t) {{"


def _plain(draft: Draft, tiles: list[GlobalTile], accumulate: str) -> str:
    n, sites = draft.names, draft.sites
    inside = [tile.copy("0") for tile in tiles]
    body = [*inside, barrier(draft, "after the tile is stored"), _late(draft, accumulate),
            barrier(draft, "after the tile is read")]  # fmt: skip
    if draft.recipe.loop == "k0" and not draft.recipe.divided:
        step = sites.text("stride", "k advances by another tile size", n.bk, n.bm)
        end = n.k
        if draft.recipe.guarded:
            end = sites.text("loop", "the loop ends a tile early", n.k, f"(int){n.k} - {n.bk} + 1")
        start = sites.text("loop", "the first k-tile is skipped", "0", n.bk)
        header = f"for (int k0 = {start}; k0 < {end}; k0 += {step}) {{"
        return "\n".join([header, block_of(f"const int t = k0 / {n.bk};", *body), "}"])
    position = f"const int k0 = {draft.k_at('t')};"
    return "\n".join([tile_count(draft), _header(draft), block_of(position, *body), "}"])


def _registers(draft: Draft, tiles: list[GlobalTile], accumulate: str) -> str:
    """The next tile is loaded to registers while this one is used; one barrier for each tile."""
    kind = f"__align__(16) {draft.element.input}"
    declared = [f"{kind} next_{tile.operand.lower()}[{tile.loads_per_thread}][{tile.vector}];" for tile in tiles]

    def value(tile: GlobalTile) -> str:
        return f"next_{tile.operand.lower()}[p]" + ("[0]" if tile.vector == 1 else "")

    fetch = [tile.register_loop(tile.fetch(value(tile))) for tile in tiles]
    first = [tile.register_loop(tile.put(value(tile), "0")) for tile in tiles]
    later = [tile.register_loop(tile.put(value(tile), "(stage ^ 1)")) for tile in tiles]
    ahead = draft.sites.text("loop", "the prefetch stops a tile early", "t + 1 < tiles", "t + 2 < tiles")
    again = draft.sites.text("stride", "the prefetch loads the same tile again", draft.k_at("(t + 1)"),
                             draft.k_at("t"))  # fmt: skip
    flip = draft.sites.text("index", "the buffers are not swapped", "t & 1", "0")
    return "\n".join([
        tile_count(draft), *declared, "if (tiles > 0) {", block_of(f"const int k0 = {draft.k_begin};", *fetch, *first),
        "}", barrier(draft, "after the first tile is stored"), _header(draft),
        block_of(f"const int stage = {flip};", f"if ({ahead}) {{", block_of(f"const int k0 = {again};", *fetch), "}",
                 _late(draft, accumulate), f"if ({ahead}) {{", block_of(*later), "}",
                 barrier(draft, "between two tiles")), "}",
    ])  # fmt: skip


def _async(draft: Draft, tiles: list[GlobalTile], accumulate: str) -> str:
    """Up to stages - 1 tiles are on their way while one is used."""
    stages, sites = draft.recipe.stages, draft.sites
    issue = [tile.issue("target") for tile in tiles]
    if stages == 1:
        wait = sites.text("wait", "no wait for the copies", "cp_async_wait<0>();", ";")
        body = [f"const int k0 = {draft.k_at('t')};", "const int target = 0, stage = 0;", *issue, "cp_async_commit();",
                wait, barrier(draft, "after the tile is stored"), "(void)stage;", _late(draft, accumulate),
                barrier(draft, "after the tile is read")]  # fmt: skip
        return "\n".join([tile_count(draft), _header(draft), block_of(*body), "}"])
    ahead = stages - 1
    wait = sites.text(
        "wait", "waits for one group too few", f"cp_async_wait<{ahead - 1}>();", f"cp_async_wait<{ahead}>();"
    )
    wait = sites.harmless("waits for all groups", wait, "cp_async_wait<0>();", "waiting for more groups is stricter")
    wait = sites.text("wait", "no wait for the copies", wait, ";")
    # Without its commit, the tile belongs to a later group than the wait counts.
    commit = sites.text("wait", "no commit in the loop", "cp_async_commit();", "if (t + 1 == tiles) cp_async_commit();")
    more = sites.text("loop", "the pipeline stops a tile early", f"t + {ahead} < tiles", f"t + {ahead} < tiles - 1")
    target = sites.text("index", "a stage is overwritten too early", f"(t + {ahead}) % {stages}", f"t % {stages}")
    return "\n".join([
        tile_count(draft), f"for (int t = 0; t < {ahead}; ++t) {{", "    if (t < tiles) {",
        block_of(f"const int k0 = {draft.k_at('t')}, target = t;", *issue, indent="        "), "    }",
        "    cp_async_commit();", "}", _header(draft),
        block_of(wait, barrier(draft, "after the wait"), f"if ({more}) {{",
                 block_of(f"const int k0 = {draft.k_at(f'(t + {ahead})')}, target = {target};", *issue), "}", commit,
                 f"const int stage = t % {stages};", _late(draft, accumulate)), "}", "cp_async_wait<0>();",
    ])  # fmt: skip


def _specialised(draft: Draft, tiles: list[GlobalTile], accumulate: str) -> str:
    """Producer warps load, the others compute; named barriers say when a stage is full, and when it is free again."""
    stages, sites, recipe = draft.recipe.stages, draft.sites, draft.recipe
    loads = [GlobalTile(draft, tile.operand, "loader", str(PRODUCERS)).copy("stage") for tile in tiles]
    # Each fault keeps the number of arrivals, so that the kernel ends on a GPU.
    free = f"if (t >= {stages}) bar_sync({1 + stages} + stage, THREADS);"
    loaded = "\n".join(loads)
    fill = sites.text("barrier", "producers load before the stage is free", f"{free}\n{loaded}", f"{loaded}\n{free}")
    full = "bar_sync(1 + stage, THREADS);"
    done = f"if (t + {stages} < tiles) bar_arrive({1 + stages} + stage, THREADS);"
    use = f"{full}\n{_late(draft, accumulate)}\n{done}"
    use = sites.text("barrier", "consumers read before the tile is there", use, f"{accumulate}\n{full}\n{done}")
    use = sites.text("barrier", "a stage is called free before it is read", use, f"{full}\n{done}\n{accumulate}")
    stage = f"const int stage = t % {stages};"
    return "\n".join([
        tile_count(draft), f"if (tid >= {recipe.consumers}) {{", f"    const int loader = tid - {recipe.consumers};",
        "    for (int t = 0; t < tiles; ++t) {",
        block_of(f"const int k0 = {draft.k_at('t')};", stage, fill, "bar_arrive(1 + stage, THREADS);",
                 indent="        "), "    }", "    return;", "}", _header(draft),
        block_of(stage, use), "}",
    ])  # fmt: skip


def barrier_helpers(draft: Draft) -> str:
    """Named wrappers of the barriers that have numbers."""
    if draft.recipe.pipeline != "specialised":
        return ""
    return "\n".join(
        f"__device__ __forceinline__ void bar_{name}(int id, int threads) {{\n"
        f'    asm volatile("bar.{name} %0, %1;" :: "r"(id), "r"(threads) : "memory");\n}}'
        for name in ("sync", "arrive")
    )


def async_helpers(draft: Draft) -> str:
    """Named wrappers of cp.async, of the widths that this kernel uses."""
    if draft.recipe.pipeline != "async":
        return ""
    size = draft.recipe.vector * draft.element.size
    cache = "cg" if size == 16 else "ca"
    shared = "unsigned to = (unsigned)__cvta_generic_to_shared(shared);"
    return f"""\
__device__ __forceinline__ void cp_async_{size}(void* shared, const void* global) {{
    {shared}
    asm volatile("cp.async.{cache}.shared.global [%0], [%1], {size};\\n" :: "r"(to), "l"(global));
}}
__device__ __forceinline__ void cp_async_zfill_{size}(void* shared, const void* global, int bytes) {{
    {shared}
    asm volatile("cp.async.{cache}.shared.global [%0], [%1], {size}, %2;\\n" :: "r"(to), "l"(global), "r"(bytes));
}}
__device__ __forceinline__ void cp_async_commit() {{ asm volatile("cp.async.commit_group;\\n" ::); }}
template <int N>
__device__ __forceinline__ void cp_async_wait() {{ asm volatile("cp.async.wait_group %0;\\n" :: "n"(N)); }}"""
