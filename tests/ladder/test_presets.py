"""Every preset and a sample of all other legal configurations compute a ragged product; illegal ones say why not."""

from __future__ import annotations

import math
import random

import pytest
from rung_launch import PORTABLE, RUNGS, assembling, problem_of, verified

from gemmsmith.errors import ConfigError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rung_named, rungs
from gemmsmith.verify.cases import tile_of

SAMPLES = 3
LARGE_SAMPLES = 2  # of rungs whose tiles are large
# Multiplications unrolled in one thread, each accumulator counted eight times: beyond it ptxas needs many seconds for
# a kernel, as its accumulators no longer fit into registers.
AFFORDABLE = 512


def has_large_tiles(spec: KernelSpec) -> bool:
    return spec.tensor_cores or spec.name == "simt_best"


def sampled(spec: KernelSpec, legal: bool, count: int) -> list[Config]:
    """Distinct configurations of legal values, in an order that depends on the rung's name alone."""
    rng = random.Random(spec.name)
    presets = [spec.config(), *(p.config for p in spec.presets)]
    found: dict[Config, None] = {}
    possible = math.prod(len(p.legal) for p in spec.parameters)
    for _ in range(min(20_000, 20 * possible)):
        config = Config(tuple((p.name, rng.choice(p.legal)) for p in spec.parameters))
        if config not in presets and (not spec.illegal(config)) == legal and (not legal or cost(config) <= AFFORDABLE):
            found[config] = None
        if len(found) == count:
            break
    return list(found)


def cost(config: Config) -> int:
    """An estimate of compile time: multiplications in the inner loop's body, and accumulators."""
    c = dict(config.values)
    if "SIDE" in c:
        return c["SIDE"] ** 2 * c["TILE"]
    outputs = c["WM"] * c["WN"] // 32 if "WM" in c else c.get("TM", 1) * c.get("TN", 1)
    return max(8, c.get("UNROLL", c.get("BK", 8))) * outputs


def check(spec: KernelSpec, config: Config) -> None:
    """A shape with a full tile, a ragged one in each direction, and more k-tiles than a pipeline has stages."""
    bm, bn, bk = tile_of(spec, config)
    depth = (dict(config.values).get("STAGES", 0) + 1) * bk + 3
    # For large tiles a ragged tile alone; the full one comes below.
    rows = bm - 1 if has_large_tiles(spec) else bm + 1
    problem = problem_of(spec.name, (rows, min(bn, 64) + 3, depth)).with_(alpha=0.7, beta=-1.0)
    verified(spec, config, problem, mode="bits", compile_fn=assembling)
    whole = problem_of(spec.name, (bm, bn, 2 * bk))
    verified(spec, config, whole, mode="exact", compile_fn=assembling)


@pytest.mark.parametrize(("name", "preset"), [(spec.name, p.name) for spec in PORTABLE for p in spec.presets])
def test_preset(name: str, preset: str) -> None:
    spec = rung_named(name)
    config = spec.config(preset=preset)
    assert not spec.illegal(config)
    check(spec, config)


LEGAL = [(spec.name, config) for spec in PORTABLE
         for config in sampled(spec, True, LARGE_SAMPLES if has_large_tiles(spec) else SAMPLES)]  # fmt: skip
ILLEGAL = [(spec.name, config) for spec in rungs() if spec.constraints
           for config in sampled(spec, legal=False, count=SAMPLES)]  # fmt: skip


@pytest.mark.parametrize(("name", "config"), LEGAL, ids=str)
def test_legal_configuration(name: str, config: Config) -> None:
    check(rung_named(name), config)


@pytest.mark.parametrize(("name", "config"), ILLEGAL, ids=str)
def test_illegal_configuration(name: str, config: Config) -> None:
    """Refused with the arithmetic: which quantity, computed how, against which limit."""
    spec = rung_named(name)
    with pytest.raises(ConfigError) as caught:
        spec.config(dict(config.values))
    text = str(caught.value)
    assert text.startswith(f"{name} cannot run with {config}: ")
    assert any(character.isdigit() for character in text.split(": ", 1)[1])
    assert len(spec.illegal(config)) == len(set(spec.illegal(config))) >= 1


@pytest.mark.parametrize("name", RUNGS)
def test_a_value_that_is_not_listed(name: str) -> None:
    spec = rung_named(name)
    for parameter in spec.parameters:
        for value in {0, -1, 7, 1 << 40} - set(parameter.legal):
            with pytest.raises(ConfigError, match=f"{parameter.name}={value} is not one of"):
                spec.config({parameter.name: value})


def test_the_sample_is_large_and_always_the_same() -> None:
    assert len(LEGAL) >= 30
    assert len(ILLEGAL) >= 30
    assert sampled(rung_named("warp_tile"), True, SAMPLES) == [c for name, c in LEGAL if name == "warp_tile"]
