"""A plan filled with addresses is the launches that would have been built for these addresses."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mapped_kernel import fake_compile, mapped_kernel

from gemmsmith.call.binding import load_plan
from gemmsmith.call.launch_plan import PlannedLaunch, plan_launches
from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Geometry, TensorMap
from gemmsmith.kernel.slots import ALIGNMENT_CLASS
from gemmsmith.kernel.spec import Addresses, KernelSpec, Prologue, PrologueLaunch
from gemmsmith.ladder.registry import rungs
from gemmsmith.problem import FP32, Problem
from gemmsmith.prologue.build import build_prologue
from gemmsmith.prologue.zero_workspace import ZERO_WORKSPACE
from gemmsmith.run.tensor_map import encode_simulated

WORKSPACE = 0x7E00_0000_0000
ALIGNED = Addresses(0x7F00_0000_0000, 0x7F10_0000_0000, 0x7F20_0000_0000, 0x7F30_0000_0000)
ELSEWHERE = Addresses(*(address + 0x12_3456_7800 for address in ALIGNED))
SKEWED = Addresses(ALIGNED.a + 8, ALIGNED.b + 16, ALIGNED.c + 4, ALIGNED.bias + 4)
PROBLEMS: tuple[dict[str, Any], ...] = (
    {"m": 256, "n": 192, "k": 128},
    {"m": 100, "n": 71, "k": 33},
    {"m": 100, "n": 72, "k": 33, "trans_a": True, "trans_b": True, "alpha": 0.5, "beta": 2.0},
    {"m": 1, "n": 64, "k": 40, "trans_a": True},
    {"m": 64, "n": 1, "k": 40, "bias": "column", "activation": "relu"},
    {"m": 40, "n": 63, "k": 33, "batch": 3, "stride_b": 0},
    {"m": 40, "n": 64, "k": 0},
    {"m": 40, "n": 64, "k": 48, "alpha": 0.0, "beta": 1.0},
)


class Gpu:
    """Encodes tensor maps so that they can be compared."""

    kind, name, arch = "gpu", "fake", "sm_90"

    def load(self, compiled: Any) -> str:
        return str(compiled.key)

    def encode_tensor_map(self, described: TensorMap, address: int) -> bytes:
        return encode_simulated(described, address)

    def blocks_at_once(self, _loaded: str, geometry: Geometry) -> int:
        return geometry.cluster[0] * 7


def built_for(device: Gpu, spec: KernelSpec, config: Config, problem: Problem, addresses: Addresses,
              as_fallback: bool = False) -> list[tuple[str, tuple[bytes, ...]]]:  # fmt: skip
    """Names and arguments of all launches, built from known addresses without any slot."""
    prologue = build_prologue(spec, config, problem, addresses, WORKSPACE, as_fallback)
    found = [(each.spec.name, each.arguments) for each in prologue.launches]
    if prologue.fallback is not None:
        found += built_for(device, prologue.fallback.spec, prologue.fallback.config, problem, addresses, True)
    own, where = prologue.problem, prologue.addresses
    fitted = spec.specialize(config, own, where[:3])
    maps = {}
    single_rows = 1 in (own.a_shape[0], own.b_shape[0], own.m)
    if spec.tensor_maps is not None and problem.k and problem.alpha and not single_rows:
        places = dict(zip("ABC", prologue.mapped or where, strict=False))
        maps = {name: encode_simulated(each, places[each.operand]) for name, each in
                spec.tensor_maps(own, fitted).items()}  # fmt: skip
    found.append((spec.name, spec.signature.pack(own, *where, workspace=prologue.workspace, maps=maps)))
    return found


def cases() -> list[tuple[KernelSpec, Config, Problem]]:
    found = []
    for spec in rungs():
        configs = {spec.config(), *(preset.config for preset in spec.presets)}
        for each in PROBLEMS:
            out = FP32 if FP32 in spec.out_dtypes else spec.out_dtypes[0]
            problem = Problem(**each, dtype=spec.dtypes[0], out_dtype=out)
            if spec.takes(problem):
                found += [(spec, config, problem) for config in sorted(configs, key=str)]
    return found


@pytest.mark.parametrize("addresses", [ALIGNED, SKEWED], ids=["aligned", "skewed"])
def test_a_plan_filled_with_addresses_is_what_is_built_for_them(addresses: Addresses) -> None:
    device: Any = Gpu()
    compared = 0
    for spec, config, problem in cases():
        try:
            plan = plan_launches(spec, config, problem, addresses)
        except GemmsmithError:
            continue  # a configuration that does not fit into shared memory in this layout
        loaded = load_plan(device, plan, fake_compile)
        for offset in (0, 0x12_3456_7800):
            places = Addresses(*(address + offset for address in addresses))
            steps = loaded.steps(places, WORKSPACE)
            expected = built_for(device, spec, config, problem, places)
            assert [each.spec.name for each in plan.launches] == [name for name, _ in expected]
            for launch, step, (name, arguments) in zip(plan.launches, steps, expected, strict=True):
                for argument, got, want in zip(launch.spec.signature.arguments if launch.spec.is_rung else arguments,
                                               step.launch.arguments, arguments, strict=True):  # fmt: skip
                    if len(want) == 128 and want == bytes(128):
                        continue  # a tensor map that built_for leaves out
                    assert got == want, (name, problem, config, argument)
                    compared += 1
            assert plan.workspace_bytes == build_prologue(spec, config, problem, places).nbytes
    assert compared > 5000


def test_a_plan_depends_on_the_alignment_of_addresses_alone() -> None:
    for spec, config, problem in cases()[::7]:
        try:
            plan = plan_launches(spec, config, problem, SKEWED)
        except GemmsmithError:
            continue
        assert plan == plan_launches(spec, config, problem, Addresses(*(a + ALIGNMENT_CLASS * 5 for a in SKEWED)))
        assert plan.alignment == (8, 16, 4, 4)


def test_every_launch_before_the_kernel_is_in_its_group() -> None:
    spec = next(each for each in rungs() if each.name == "fp32_wgmma_fp16x3")
    plan = plan_launches(spec, spec.config(), Problem(256, 256, 64), ALIGNED)
    names = [[each.spec.name for each in group] for group in (plan.prologue, plan.fallback, (plan.kernel,))]
    assert names == [
        ["zero_workspace", "split_fp16_cluster"],
        ["split_bf16", "fp32_wgmma_bf16x6"],
        ["fp32_wgmma_fp16x3"],
    ]
    assert plan.launches == (*plan.prologue, *plan.fallback, plan.kernel)
    assert plan.decision is not None
    assert plan.decision.spec.name == "fp32_wgmma_bf16x6"


def test_a_specialized_configuration_stays(tmp_path: Path) -> None:
    spec, problem = mapped_kernel(tmp_path), Problem(256, 127, 64, dtype=mapped_kernel(tmp_path).dtypes[0])
    planned = plan_launches(spec, spec.config(), problem, ALIGNED).kernel
    assert planned.config["STORE_MODE"] == 0
    assert plan_launches(spec, spec.config(), problem, ALIGNED, specialized=True).kernel.config == spec.config()


def test_a_prologue_that_packs_an_address_with_struct_is_refused(tmp_path: Path) -> None:
    """Such an address would be wrong at every launch; it is found when the first plan is made."""

    def careless(problem: Problem, _config: Config, addresses: Addresses, workspace: int, _fallback: bool) -> Prologue:
        launch = PrologueLaunch(ZERO_WORKSPACE, Geometry((1, 1, 1), (32, 1, 1)), (struct.pack("<Q", workspace),))
        return Prologue(problem, addresses, 4096, (launch,))

    spec = mapped_kernel(tmp_path, prologue=careless)
    problem = Problem(256, 128, 64, dtype=spec.dtypes[0])
    with pytest.raises(TypeError, match=r"zero_workspace packs an address with struct\.pack"):
        plan_launches(spec, spec.config(), problem, ALIGNED)


def test_launches_are_frozen(tmp_path: Path) -> None:
    spec = mapped_kernel(tmp_path)
    kernel = plan_launches(spec, spec.config(), Problem(256, 128, 64, dtype=spec.dtypes[0]), ALIGNED).kernel
    assert isinstance(kernel, PlannedLaunch)
    assert replace(kernel) == kernel
    with pytest.raises(AttributeError):
        kernel.config = spec.config()  # type: ignore[misc]
