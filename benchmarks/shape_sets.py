"""Sets of aligned 16-bit shapes for shapes_against_cublas.py and time_candidates.py.

public    tokens × out × in of public models
rows      the same of more models (public_layers.py), with any number of rows from 1 to 8192
named     the shapes that docs/log/2026-11-16-shapes-from-public-models.md names
random    log-uniform in M, N and K, by seed. Seeds below 100 are for fitting the cost model, others for testing it
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

from public_layers import layers
from shape_rig import Shape

FITTING_SEEDS = range(100)
# (out, in) of linear layers: GPT-2, BERT large, ViT-L, Llama 2 7B and 13B, Llama 3 8B and 70B, Qwen 2 7B, DeepSeek V3.
LAYERS = ((2304, 768), (3072, 768), (768, 3072), (4096, 1024), (1024, 4096), (4096, 4096), (11008, 4096), (4096, 11008),
          (5120, 5120), (13824, 5120), (5120, 13824), (6144, 4096), (14336, 4096), (4096, 14336), (10240, 8192),
          (8192, 8192), (28672, 8192), (8192, 28672), (18944, 3584), (3584, 18944), (7168, 2048), (18432, 7168),
          (7168, 18432))  # fmt: skip
# More of them, for fitting alone: BERT base, GPT-2 medium and XL, ViT-H, Llama 3.2 1B and 3B, Qwen 2.5 1.5B, 14B and
# 32B, Gemma 2 9B, Phi 3 mini.
FURTHER_LAYERS = ((768, 768), (1024, 1024), (3072, 1024), (4800, 1600), (6400, 1600), (1600, 6400), (3840, 1280),
                  (5120, 1280), (1280, 5120), (2048, 2048), (8192, 2048), (2048, 8192), (3072, 3072), (8192, 3072),
                  (3072, 8192), (9216, 3072), (8960, 1536), (1536, 8960), (7168, 5120), (27648, 5120), (5120, 27648),
                  (14336, 3584), (3584, 14336))  # fmt: skip
FURTHER_TOKENS = (77, 128, 197, 384, 512, 577, 768, 1024, 1500, 2056, 2048, 4096, 6304, 8192, 16384)
TOKENS = (
    72,
    100,
    128,
    160,
    200,
    256,
    300,
    333,
    400,
    512,
    640,
    777,
    1000,
    1576,
    2048,
    2308,
    3000,
    4096,
    5000,
    8192,
    10000,
)
NAMED = (
    (300, 4096, 14336), (333, 5120, 5120), (160, 12288, 4096), (100, 5120, 13824), (512, 512, 65536),
    (5000, 4096, 11008), (10000, 8192, 8192), (7000, 7168, 7168), (1576, 3072, 768), (2308, 4096, 1024),
    (4096, 4096, 4096), (6144, 6144, 6144), (8192, 8192, 8192), (1024, 1024, 1024), (2048, 2048, 2048),
    (4096, 14336, 4096),
)  # fmt: skip
DEEP = ((128, 128, 16384), (256, 256, 32768), (512, 512, 65536), (1024, 1024, 16384), (768, 768, 12288),
        (512, 1024, 32768), (200, 400, 20000), (1000, 1000, 10000))  # fmt: skip


def named() -> list[Shape]:
    return [Shape(*each, origin="named") for each in NAMED]


def deep() -> list[Shape]:
    return [Shape(*each, origin="deep") for each in DEEP]


def public(count: int, seed: int = 0) -> list[Shape]:
    """Products of a layer with a number of tokens, without repetition."""
    dice = random.Random(f"public {seed}")
    every = [(tokens, *layer) for tokens in TOKENS for layer in LAYERS]
    return [Shape(*each, origin=f"public, seed {seed}") for each in dice.sample(every, count)]


def further_public(count: int, seed: int = 0) -> list[Shape]:
    """The same of other models and numbers of tokens; for fitting, so of seeds below 100."""
    dice = random.Random(f"further public {seed}")
    every = [(tokens, *layer) for tokens in FURTHER_TOKENS for layer in FURTHER_LAYERS]
    return [Shape(*each, origin=f"public, seed {seed}") for each in dice.sample(every, count)]


def any_rows(count: int, seed: int, most: int = 8192) -> list[Shape]:
    """Layers of public models, common ones more often, with rows log-uniform from 1 to ``most``."""
    dice, every = random.Random(f"rows {seed}"), layers()
    found: list[Shape] = []
    while len(found) < count:
        layer = dice.choices(list(every), list(every.values()))[0]
        shape = Shape(round(math.exp(dice.uniform(0, math.log(most)))), *layer, origin=f"rows, seed {seed}")
        if shape.problem.flops <= 4e12:
            found.append(shape)
    return found


def log_uniform(count: int, seed: int, least: int = 64, most: int = 20_000, layouts: str = "NT NN TN TT",
                outs: str = "bf16 bf16 fp32") -> list[Shape]:  # fmt: skip
    """Aligned shapes between 10 MFLOP and 4 PFLOP whose operands fit 4 GB."""
    return list(_some(_drawn(random.Random(f"random {seed}"), seed, least, most, layouts.split(), outs.split()), count))


def _some(shapes: Iterator[Shape], count: int) -> Iterator[Shape]:
    for _, shape in zip(range(count), shapes, strict=False):
        yield shape


def _drawn(
    dice: random.Random, seed: int, least: int, most: int, layouts: list[str], outs: list[str]
) -> Iterator[Shape]:
    while True:
        m, n, k = (max(8, round(math.exp(dice.uniform(math.log(least), math.log(most))) / 8) * 8) for _ in range(3))
        layout, out = dice.choice(layouts), dice.choice(outs)
        if layout[0] == "N" and dice.random() < 0.5:  # rows of A and C may be any number
            m = max(least, m - dice.randrange(8))
        shape = Shape(m, n, k, layout, "bf16", out, origin=f"random, seed {seed}")
        if 1e7 <= shape.problem.flops <= 4e15 and 2 * ((m + n) * k) + 4 * m * n <= 4e9:
            yield shape
