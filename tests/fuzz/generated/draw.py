"""A random recipe from a seed, and which recipes are legal."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from generated.draft import Draft
from generated.elements import WORDS
from generated.names import NAMES
from generated.recipe import COLUMN_MAJOR, LARGEST_STATIC, ROW_MAJOR, Recipe
from generated.shared_tile import SharedTile
from generated.sites import Sites

_MOST_SHARED = 100 * 1024  # bytes of dynamic shared memory: what most GPUs have
_MOST_TRIES = 300


def draw(seed: int) -> Recipe:
    """The recipe of a seed: the same one in every run of the same generator."""
    rng = random.Random(seed)
    while True:
        base = _style(rng, _method(rng))
        for _ in range(_MOST_TRIES):  # with the same method, so that the rarer ones are not lost
            recipe = _tiles(rng, _variant(rng, base))
            if not obstacle(recipe):
                return _rarer(random.Random(f"rarer {seed}"), recipe)


def obstacle(recipe: Recipe) -> str:
    """Why a recipe cannot be written; empty if it can."""
    checks = (_method_obstacle, _load_obstacle, _shared_obstacle)
    return next((why for check in checks if (why := check(recipe))), "")


def _method_obstacle(recipe: Recipe) -> str:
    element = recipe.element
    if recipe.tensor_cores and not (element.is_16_bit or (recipe.method == "mma" and recipe.types in ("f32", "i8"))):
        return "tensor cores are for 16-bit elements here, TF32 and int8 by mma"
    if recipe.method == "dp4a" and (recipe.types != "i8" or recipe.bk % (8 if recipe.split else 4)):
        return "words of four bytes"
    if recipe.tensor_cores and (
        recipe.bk % recipe.fragment_k or recipe.tm % 16 or recipe.tn % (16 if recipe.method == "wmma" else 8)
    ):
        return "no whole fragments"
    if recipe.bm % recipe.tm or recipe.bn % recipe.tn:
        return "no whole thread tiles"
    if not 32 <= recipe.threads <= 512:
        return "too few or too many threads"
    if recipe.split == "atomic" and (
        recipe.epilogue != "plain" or element.output not in ("float", "double", "int32_t")
    ):
        return "atomics add plain products of whole words"
    if recipe.split == "ticket" and (
        recipe.epilogue == "bias" or not recipe.shared or recipe.batch or recipe.pipeline == "specialised"
        or element.accumulator == "half" or recipe.separate or recipe.names == "layers"
    ):  # fmt: skip
        return "the last block adds what all threads of the others left"
    if recipe.split == "atomic" and recipe.batch:
        return "blockIdx.z is the batch"
    if recipe.split.startswith("slice") and (
        recipe.method not in ("simt", "dp4a") or recipe.block == "2d" or recipe.bk % 2
    ):
        return "only simt kernels with one-dimensional blocks share the k of a tile"
    tiled = ("tm", "tn", "vector", "pipeline", "pad", "swizzle", "flip_a", "flip_b", "strided", "dynamic", "split")
    if not recipe.shared and set(tiled) & set(recipe.differences()):
        return "such a kernel has no tiles"
    if recipe.pipeline == "specialised" and (
        recipe.block == "2d" or recipe.method == "wmma" or recipe.split.startswith("slice") or recipe.consumers % 32
    ):
        return "producers are whole warps, and leave before the block's last barrier"
    if recipe.persistent and (recipe.split or not recipe.shared or recipe.pipeline == "specialised"):
        return "persistent blocks keep all their threads"
    if recipe.separate and (
        recipe.epilogue != "scaled" or recipe.leading or recipe.batch or recipe.names in ("layers", "sides")
    ):
        return "a separate output is for alpha and beta, and has a name of its own"
    if recipe.staged and (recipe.method not in ("mma", "ldmatrix") or recipe.persistent):
        return "only fragments of mma are staged, once"
    if recipe.split == "slice atomics" and recipe.element.accumulator == "half":
        return "halves are not added by atomics here"
    if recipe.types == "f16h" and recipe.epilogue == "scaled":
        return "alpha and beta are not halves here"
    return ""


def _load_obstacle(recipe: Recipe) -> str:
    size = recipe.vector * recipe.element.size
    if recipe.vector > 1 and size not in WORDS:
        return "no vector of this size"
    if recipe.pipeline == "async":
        if size not in (4, 8, 16):
            return "cp.async copies 4, 8 or 16 bytes"
        if recipe.vector > 1 and (recipe.flip_a or recipe.flip_b):
            return "cp.async cannot transpose a vector"
    stages = {"plain": (1,), "registers": (2,), "async": (1, 2, 3, 4), "specialised": (2, 3, 4)}[recipe.pipeline]
    if recipe.stages not in stages:
        return "the pipeline has other stages"
    for operand, extent in (("A", recipe.bm), ("B", recipe.bn)):
        fast = recipe.bk if recipe.k_contiguous(operand) else extent
        if fast % recipe.vector:
            return "no whole vectors"
    return ""


def _shared_obstacle(recipe: Recipe) -> str:
    if not recipe.shared:
        return ""
    draft = Draft(recipe, Sites())
    tiles = [SharedTile(draft, operand) for operand in "AB"]
    if recipe.swizzle and (recipe.pad or recipe.method == "wmma"):
        return "padding or a swizzle, and wmma knows no swizzle"
    words = recipe.method == "dp4a" or (recipe.method == "mma" and recipe.types == "i8")
    if words and not all(tile.words_adjacent for tile in tiles):
        return "bytes that are no neighbours"
    for tile in tiles:
        unit = 8 if recipe.method in ("ldmatrix", "wmma") else 1 if recipe.flipped(tile.operand) else recipe.vector
        if tile.pitch_count % unit:
            return "rows of shared memory are not aligned"
        if recipe.swizzle and (tile.column_count % tile.chunk or tile.column_count // tile.chunk < 2):
            return "nothing to swizzle"
        if recipe.swizzle and tile.chunk % unit:
            return "the swizzle breaks vectors up"
    used = sum(tile.elements for tile in tiles) * recipe.element.size
    if recipe.split.startswith("slice"):
        used += recipe.bm * recipe.bn * (8 if recipe.types == "f64" else 4)
    if recipe.staged:
        used += recipe.consumers // 32 * 16 * 9 * 4
    if recipe.method == "wmma":
        used += recipe.bm * recipe.bn * 4
    return "too much shared memory" if used > (_MOST_SHARED if recipe.dynamic else LARGEST_STATIC) else ""


def _method(rng: random.Random) -> Recipe:
    types = rng.choice(("f32", "f32", "f32", "f16f32", "f16", "bf16", "bf16f32", "i8", "f64", "f16h"))
    tensor = types in ("f16f32", "f16", "bf16", "bf16f32") and rng.random() < 0.7
    method = rng.choice(("mma", "ldmatrix", "wmma")) if tensor else rng.choice(("simt",) * 12 + ("naive", "shuffle"))
    tiled = ("plain", "plain", "registers", "async", "async", "specialised")
    pipeline = "plain" if method in ("naive", "shuffle") else rng.choice(tiled)
    deep = rng.choice((1, 2, 2, 3, 4))
    stages = {"plain": 1, "registers": 2, "async": deep, "specialised": max(deep, 2)}[pipeline]
    return Recipe(method=method, types=types, pipeline=pipeline, stages=stages, guarded=rng.random() < 0.7,
                  layout=rng.choice(("NN",) * 4 + ROW_MAJOR + COLUMN_MAJOR))  # fmt: skip


def _rarer(rng: random.Random, recipe: Recipe) -> Recipe:
    """The recipe with some rarer choices. They are drawn apart, so that the others stay the same."""
    if rng.random() < 0.15:
        recipe = _if_legal(recipe, grid="grouped", persistent=False)
    if rng.random() < 0.12:
        recipe = _if_legal(recipe, split="ticket", epilogue=rng.choice(("plain", "scaled")), batch=False)
    if recipe.types == "i8" and recipe.method == "simt" and rng.random() < 0.8:
        flips = {f"flip_{x.lower()}": not recipe.k_contiguous(x) for x in "AB"}
        words = {
            "swizzle": False,
            "pad": recipe.pad // 4 * 4,
            "vector": 4 if recipe.vector < 4 else recipe.vector,
            **flips,
        }
        recipe = _if_legal(recipe, method="dp4a", **words)
        if recipe.method == "simt" or rng.random() < 0.5:
            recipe = _if_legal(recipe, method="mma", bm=64, bn=32, bk=32, tm=32, tn=16, **words)
    if recipe.types == "f32" and recipe.method == "simt" and rng.random() < 0.2:
        recipe = _if_legal(recipe, method="mma", bm=64, bn=32, tm=32, tn=16, staged=rng.random() < 0.3)
    return recipe


def _if_legal(recipe: Recipe, **choices: Any) -> Recipe:
    changed = replace(recipe, **choices)
    return recipe if obstacle(changed) else changed


def _style(rng: random.Random, recipe: Recipe) -> Recipe:
    return replace(
        recipe, names=rng.choice(tuple(NAMES)), order=rng.choice(("pointers first", "extents first", "blas")),
        sizes=rng.choice(("int", "int", "const int", "unsigned", "size_t")),
        constants=rng.choice(("macro", "constexpr", "template")), indices=rng.choice(("plain", "macro", "wide")),
        grid=rng.choice(("xy", "xy", "yx", "linear")), ceil=rng.choice(("inline", "macro", "function")),
        host=rng.choice(("dim3", "inline", "main")), barrier=rng.choice(("plain",) * 5 + ("groups",)),
        loop=rng.choice(("k0", "tiles")),
    )  # fmt: skip


def _variant(rng: random.Random, recipe: Recipe) -> Recipe:
    return replace(
        recipe, epilogue=rng.choice(("plain", "plain", "scaled", "scaled", "bias")),
        beta=rng.choice(("always", "checked")),
        split=rng.choice(("",) * 9 + ("atomic", "atomic", "slice", "slice atomics")),
        batch=rng.random() < 0.1, separate=rng.random() < 0.15, persistent=rng.random() < 0.1,
        leading=rng.random() < 0.4, block=rng.choice(("1d", "2d")),
    )  # fmt: skip


def _tiles(rng: random.Random, recipe: Recipe) -> Recipe:
    if not recipe.shared:
        sides = ((16, 16), (8, 32), (32, 8)) if recipe.method == "naive" else ((2, 4), (1, 8), (4, 1))
        rows, columns = rng.choice(sides)
        return replace(recipe, bm=rows, bn=columns, bk=1)
    if recipe.tensor_cores:
        bm, bn, bk = rng.choice((32, 64)), rng.choice((32, 64)), rng.choice((16, 32))
        tm, tn = rng.choice((16, 32)), rng.choice((8, 16, 32))
    else:
        bm, bn, bk = rng.choice((16, 32, 48, 64)), rng.choice((16, 32, 64)), rng.choice((8, 16, 32))
        tm, tn = rng.choice((1, 2, 4, 8)), rng.choice((1, 2, 4, 8))
    wide = rng.choice((8, 16)) if recipe.element.size < 4 else 4
    padding = rng.choice((0, 0, 1, 4, 8))
    return replace(
        recipe, bm=bm, bn=bn, bk=bk, tm=tm, tn=tn, vector=rng.choice((1, 2, 4, wide)), pad=padding,
        swizzle=padding == 0 and rng.random() < 0.3, flip_a=rng.random() < 0.4, flip_b=rng.random() < 0.2,
        staged=recipe.method in ("mma", "ldmatrix") and rng.random() < 0.4, strided=rng.random() < 0.3,
        dynamic=rng.random() < 0.25,
    )  # fmt: skip
