"""From a kernel and addresses to launches: aligned copies of operands, tensor maps, persistent grids, refusals."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from mapped_kernel import fake_compile, mapped_kernel
from unsimulated import unsimulated

import gemmsmith
from gemmsmith.call.binding import bind, specialized_config, workspace_bytes
from gemmsmith.call.gpu_executor import stream_workspace
from gemmsmith.cli.options.kernel import KernelOptions
from gemmsmith.cli.options.problem import ProblemOptions
from gemmsmith.cli.subject import find_subject
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.compiler import compile_for
from gemmsmith.errors import UnsupportedError
from gemmsmith.explain.sampling import Bench
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Geometry, TensorMap
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.ladder.registry import rung_named, rungs, simulated_rungs
from gemmsmith.problem import BF16, FP16, FP32, Problem
from gemmsmith.prologue.align_copy import align_copy_launch, align_copy_operands
from gemmsmith.prologue.build import build_prologue
from gemmsmith.run.tensor_map import check_tensor_map, decode_simulated, encode_simulated
from gemmsmith.run.tensors import Matrix
from gemmsmith.sim.device import SimDevice
from gemmsmith.verify.harness import refusal, verify_launch

PLACES = Addresses(0x10000, 0x20000, 0x30000)
WORKSPACE = 0x90000


class FakeDevice:
    """A GPU that runs 10 blocks at the same time and encodes tensor maps like the simulator."""

    kind, name, arch = "gpu", "fake", "sm_90"

    def load(self, compiled: CompiledKernel) -> str:
        return compiled.key

    def encode_tensor_map(self, described: TensorMap, address: int) -> bytes:
        check_tensor_map(described, address)
        return encode_simulated(described, address)

    def blocks_at_once(self, loaded: str, geometry: Geometry) -> int:
        assert loaded.startswith("mapped")
        return 10 // geometry.cluster[0] * geometry.cluster[0]


@pytest.fixture
def spec(tmp_path: Path) -> KernelSpec:
    return mapped_kernel(tmp_path)


def bound(spec: KernelSpec, problem: Problem, places: Addresses = PLACES, **changes: int) -> Any:
    device: Any = FakeDevice()
    return bind(device, spec, spec.config(changes), problem, places, WORKSPACE, fake_compile)


def arguments(spec: KernelSpec, step: Any) -> dict[str, bytes]:
    return {a.role: raw for a, raw in zip(spec.signature.arguments, step.launch.arguments, strict=True)}


def mapped(spec: KernelSpec, step: Any, role: str) -> tuple[TensorMap, int]:
    return decode_simulated(arguments(spec, step)[role])


def copied(step: Any) -> dict[str, tuple[int, int]]:
    """Source and target of each operand that a launch copies; one without blocks is not copied."""
    found = {}
    for name, described in zip("ab", step.launch.arguments, strict=True):
        source, target = struct.unpack_from("<QQ", described)
        (blocks,) = struct.unpack_from("<I", described, 56)
        if blocks:
            found[name] = (source, target)
    return found


def test_a_kernel_without_prologue_is_one_launch_with_the_arguments_of_its_signature() -> None:
    naive, problem = rung_named("naive"), Problem(70, 50, 30)
    (step,) = bound(naive, problem)
    assert step.launch.geometry == naive.geometry(problem, naive.config())
    assert step.launch.arguments == naive.signature.pack(problem, *PLACES[:3])
    assert workspace_bytes(naive, naive.config(), problem, Addresses(2, 2, 2)) == 0


WITHOUT = [s.name for s in rungs() if not s.arch_specific and s.arithmetic != "fp16x3"]


@pytest.mark.parametrize("name", WITHOUT)
def test_a_rung_without_prologue_needs_no_workspace(name: str) -> None:
    spec = rung_named(name)
    assert workspace_bytes(spec, spec.config(), Problem(7, 5, 3, dtype=spec.dtypes[0]), Addresses(4, 4, 4)) == 0


def test_aligned_operands_are_not_copied(spec: KernelSpec) -> None:
    problem = Problem(256, 128, 64, dtype=BF16, alpha=2.0, ldc=132)
    (step,) = bound(spec, problem)
    assert mapped(spec, step, "mapA") == (TensorMap("A", BF16, (64, 256, 1), (128, 0), (64, 128, 1), 128), PLACES.a)
    assert mapped(spec, step, "mapB") == (TensorMap("B", BF16, (128, 64, 1), (256, 0), (64, 64, 1), 128), PLACES.b)
    assert mapped(spec, step, "mapC") == (TensorMap("C", FP32, (128, 256), (528,), (32, 64), 128), PLACES.c)
    raw = arguments(spec, step)
    assert (raw["C"], raw["ldc"]) == (struct.pack("<Q", PLACES.c), struct.pack("<q", 132))
    assert (raw["batch"], raw["alpha"]) == (struct.pack("<i", 1), struct.pack("<f", 2.0))


def test_the_configuration_is_specialized_for_the_operands_the_kernel_sees(spec: KernelSpec) -> None:
    (step,) = bound(spec, Problem(256, 126, 64, dtype=FP16, ldb=128, ldc=127))
    assert step.loaded == "mapped STORE_MODE=0,CLUSTER=1 fp16 sm_90"
    assert arguments(spec, step)["mapC"] == bytes(128)
    problem = Problem(256, 128, 64, dtype=FP16)
    assert specialized_config(spec, spec.config(), problem, PLACES)["STORE_MODE"] == 2
    assert specialized_config(spec, spec.config(), problem, PLACES._replace(c=0x30008))["STORE_MODE"] == 0


def test_rows_that_do_not_start_on_16_bytes_are_copied(spec: KernelSpec) -> None:
    problem = Problem(100, 72, 33, dtype=FP16)
    assert (
        workspace_bytes(spec, spec.config(), problem, PLACES) == 8192
    )  # 100 rows of 40 elements, to the next 256 bytes
    copy, product = bound(spec, problem)
    expected = align_copy_launch(*align_copy_operands(problem, PLACES.a, PLACES.b), WORKSPACE, WORKSPACE + 8192)
    assert (copy.launch.geometry, copy.launch.arguments) == expected
    assert copied(copy) == {"a": (PLACES.a, WORKSPACE)}
    assert copy.loaded.startswith("align_copy")
    assert mapped(spec, product, "mapA") == (TensorMap("A", FP16, (33, 100, 1), (80, 0), (64, 128, 1), 128), WORKSPACE)
    assert mapped(spec, product, "mapB")[1] == PLACES.b


def test_both_copies_are_in_the_workspace_without_overlap(spec: KernelSpec) -> None:
    problem = Problem(100, 71, 33, dtype=FP16, trans_a=True)  # A is stored as 33 rows of 100
    copy, product = bound(spec, problem)
    begin = WORKSPACE + 33 * 128 * 2  # rows of 100 elements start on 128 bytes
    expected = align_copy_launch(*align_copy_operands(problem, PLACES.a, PLACES.b), WORKSPACE, begin)
    assert (copy.launch.geometry, copy.launch.arguments) == expected
    assert copied(copy) == {"a": (PLACES.a, WORKSPACE), "b": (PLACES.b, begin)}
    assert WORKSPACE + workspace_bytes(spec, spec.config(), problem, PLACES) == begin + 33 * 128 * 2
    assert mapped(spec, product, "mapA")[1] == WORKSPACE
    assert mapped(spec, product, "mapB") == (TensorMap("B", FP16, (71, 33, 1), (256, 0), (64, 64, 1), 128), begin)


@pytest.mark.parametrize(
    ("problem", "places", "sides"),
    [
        (Problem(64, 64, 64, dtype=FP16), PLACES._replace(b=0x20002), "b"),
        (Problem(64, 64, 64, dtype=FP16, lda=68), PLACES, "a"),
        (Problem(64, 64, 64, dtype=FP16, lda=72), PLACES, ""),
        (Problem(64, 64, 64, dtype=FP16, batch=3, stride_a=64 * 64 + 4), PLACES, "a"),
        (Problem(64, 64, 64, dtype=FP16, batch=3, stride_b=0), PLACES, ""),
        (Problem(64, 64, 64, dtype=FP16), PLACES._replace(c=0x30004), ""),
        (Problem(1, 64, 33, dtype=FP16), PLACES, ""),  # one row: its leading dimension is never used
        (Problem(1, 64, 33, dtype=FP16), PLACES._replace(a=0x10002), "a"),
        (Problem(1, 64, 33, dtype=FP16, batch=2), PLACES, "a"),
        (Problem(64, 64, 33, dtype=FP16, alpha=0.0), PLACES, ""),  # A is not read
        (Problem(64, 64, 0, dtype=FP16), PLACES, ""),
        (Problem(64, 63, 33, dtype=FP16), PLACES, "ab"),
        (Problem(64, 64, 64, dtype=FP16, batch=3), PLACES._replace(a=0x10002, b=0x20008), "ab"),
    ],
)
def test_which_operands_are_copied(spec: KernelSpec, problem: Problem, places: Addresses, sides: str) -> None:
    *copies, product = bound(spec, problem, places)
    assert len(copies) == bool(sides)
    for copy in copies:
        assert {name: source for name, (source, _) in copied(copy).items()} == {
            side: getattr(places, side) for side in sides
        }
        for name, (_, target) in copied(copy).items():
            assert mapped(spec, product, f"map{name.upper()}")[1] == target
    assert bool(sides) == (workspace_bytes(spec, spec.config(), problem, places) > 0)
    for role in ("mapA", "mapB"):
        described, address = mapped(spec, product, role)
        check_tensor_map(described, address)


def test_copies_of_a_batch(spec: KernelSpec) -> None:
    problem = Problem(20, 72, 33, dtype=FP16, batch=3, stride_a=700, stride_b=0)
    copy, product = bound(spec, problem)
    expected = align_copy_launch(*align_copy_operands(problem, PLACES.a, PLACES.b), WORKSPACE, WORKSPACE + 4864)
    assert (copy.launch.geometry, copy.launch.arguments) == expected
    assert copied(copy) == {"a": (PLACES.a, WORKSPACE)}
    assert mapped(spec, product, "mapA")[0].strides == (80, 1600)
    assert workspace_bytes(spec, spec.config(), problem, PLACES) == 4864
    other = Problem(20, 71, 32, dtype=FP16, batch=3, stride_a=0)
    copy, product = bound(spec, other)
    expected = align_copy_launch(*align_copy_operands(other, PLACES.a, PLACES.b), WORKSPACE, WORKSPACE)
    assert (copy.launch.geometry, copy.launch.arguments) == expected
    assert copied(copy) == {"b": (PLACES.b, WORKSPACE)}
    assert mapped(spec, product, "mapB")[0].strides == (256, 8192)
    assert (mapped(spec, product, "mapA")[0].extents, mapped(spec, product, "mapB")[0].extents) == (
        (32, 20, 1), (71, 32, 3),
    )  # fmt: skip
    single = Problem(20, 72, 33, dtype=FP16, batch=3, stride_a=0)  # one A for the whole batch, copied once
    copy, product = bound(spec, single)
    assert (copied(copy), copy.launch.geometry.blocks) == ({"a": (PLACES.a, WORKSPACE)}, 1)
    assert workspace_bytes(spec, spec.config(), single, PLACES) == 1792
    assert (mapped(spec, product, "mapA")[0].extents, mapped(spec, product, "mapA")[0].strides) == (
        (33, 20, 1), (80, 0),
    )  # fmt: skip


@pytest.mark.parametrize("problem", [
    Problem(40, 64, 0, dtype=FP16), Problem(40, 64, 33, dtype=FP16, alpha=0.0),
    Problem(40, 63, 0, dtype=FP16, batch=3, trans_a=True, trans_b=True, ldc=70),
])  # fmt: skip
def test_without_a_product_tensor_maps_describe_memory_that_exists(spec: KernelSpec, problem: Problem) -> None:
    """An empty operand may have address 0, and an operand that is not read any address."""
    (step,) = bound(spec, problem, Addresses(0, 0x33331, 0x30008))
    for role in ("mapA", "mapB"):
        described, address = mapped(spec, step, role)
        assert address == 0x30000
        assert min(described.extents) >= 1
    raw = arguments(spec, step)
    assert (raw["K"], raw["C"]) == (struct.pack("<i", problem.k), struct.pack("<Q", 0x30008))


def test_a_kernel_without_aligned_copies_names_the_unaligned_operand(tmp_path: Path) -> None:
    spec = mapped_kernel(tmp_path, align_copies=False)
    with pytest.raises(UnsupportedError, match=r"rows or matrices of A are 66 bytes apart"):
        bound(spec, Problem(64, 64, 33, dtype=FP16))


def test_a_persistent_grid_has_as_many_blocks_as_the_gpu_runs_at_once(spec: KernelSpec) -> None:
    def grid(m: int, **changes: int) -> tuple[int, int, int]:
        return bound(spec, Problem(m, 64, 64, dtype=FP16), **changes)[-1].launch.geometry.grid  # type: ignore[no-any-return]

    assert grid(9 * 128) == (9, 1, 1)
    assert grid(11 * 128) == (10, 1, 1)
    assert grid(11 * 128, CLUSTER=4) == (8, 1, 1)
    plain = replace(spec, persistent=False)
    assert bound(plain, Problem(11 * 128, 64, 64, dtype=FP16))[0].launch.geometry.grid == (11, 1, 1)


def test_the_simulator_refuses_kernels_whose_instructions_it_does_not_know(spec: KernelSpec) -> None:
    """Before anything is compiled, and it names a rung that it runs."""
    problem, device = Problem(64, 64, 64, dtype=FP16), SimDevice()
    nobody: Any = None
    for attempt in (
        lambda: bind(device, spec, spec.config(), problem, PLACES),
        lambda: verify_launch(device, spec, spec.config(), problem, compile_fn=nobody),
        lambda: Bench(spec, spec.config(), problem, fake_compile(spec, spec.config(), problem, "sm_90a")),
        lambda: gemmsmith.gemm(np.ones((64, 64), np.float16), np.ones((64, 64), np.float16), kernel=spec),
    ):
        with pytest.raises(UnsupportedError, match="mapped is not simulated yet") as got:
            attempt()
        assert "--device gpu" in got.value.hint
        assert "the simulator runs mma_pipelined" in got.value.hint


def test_verification_allocates_the_workspace() -> None:
    """A rung with aligned copies computes the same result on the simulator."""
    spec = replace(rung_named("mma_swizzled"), align_copies=True, dtypes=(FP16, BF16), out_dtypes=(FP32, FP16, BF16))
    problem = Problem(20, 17, 13, dtype=BF16, trans_b=True)
    verdict = verify_launch(SimDevice(), spec, spec.config(), problem, compile_fn=counting(calls := []))
    assert verdict.trusted, str(verdict)
    assert [spec.name for spec in calls] == ["mma_swizzled", "align_copy"]
    product = gemmsmith.gemm(np.ones((5, 3), np.float16), np.full((3, 9), 2, np.float16), kernel=spec)
    assert (product == 6).all()


@pytest.mark.parametrize("problem", [
    Problem(37, 1, 29, dtype=FP16), Problem(1, 21, 29, dtype=FP16, trans_a=True),
    Problem(1, 1, 45, dtype=FP16, trans_a=True), Problem(20, 1, 16, dtype=FP16, batch=3),
    Problem(1, 12, 24, dtype=FP16, trans_a=True, trans_b=True, batch=2),
])  # fmt: skip
def test_a_vector_along_k_is_treated_as_a_row(problem: Problem) -> None:
    """On the simulator, from the operand that the prologue made."""
    spec = replace(rung_named("mma_swizzled"), align_copies=True, dtypes=(FP16, BF16), out_dtypes=(FP32, FP16, BF16))
    seen = build_prologue(spec, spec.config(), problem, PLACES, WORKSPACE).problem
    assert (seen.trans_a, seen.trans_b) == (problem.trans_a and problem.m > 1, problem.trans_b or problem.n == 1)
    assert problem.m > 1 or seen.lda == problem.k
    assert problem.n > 1 or seen.ldb == problem.k
    verdict = verify_launch(SimDevice(), spec, spec.config(), problem, compile_fn=compile_for)
    assert verdict.trusted, str(verdict)


@pytest.mark.parametrize(("turned", "layout"), [(0, "NN"), (1, "TN")])
def test_explain_compiles_the_kernel_that_is_launched(turned: int, layout: str) -> None:
    """A transposed operand reaches the kernel in another layout."""
    asked: list[Problem] = []

    def compiler(spec: KernelSpec, config: Config, problem: Problem, arch: str) -> CompiledKernel:
        asked.append(problem)
        return fake_compile(spec, config, problem, arch)

    options = KernelOptions(config=f"TRANSPOSED_COPY={turned}")
    find_subject("simt_best", options, ProblemOptions(64, 64, 32), "sm_90", cast(Any, compiler))
    assert [problem.layout for problem in asked] == [layout]


def test_a_vector_with_gaps_is_copied(spec: KernelSpec) -> None:
    problem = Problem(64, 1, 33, dtype=FP16, lda=40, ldb=3)
    copy, product = bound(spec, problem)
    assert copied(copy) == {"b": (PLACES.b, WORKSPACE)}
    assert mapped(spec, product, "mapB")[0].extents == (1, 33, 1)


def counting(calls: list[KernelSpec]) -> Any:
    def compile_fn(spec: KernelSpec, *rest: Any) -> CompiledKernel:
        calls.append(spec)
        if spec.name == "mma_swizzled":
            assert rest[0]["ALIGNED"] == 1  # its copies are aligned
        return compile_for(spec, *rest)

    return compile_fn


def test_a_rung_is_compiled_once_per_gpu_and_a_users_file_every_time(tmp_path: Path) -> None:
    calls: list[str] = []

    def compile_fn(spec: KernelSpec, config: Config, problem: Problem, arch: str) -> CompiledKernel:
        calls.append(f"{problem.dtype} {problem.layout} {config['CLUSTER']}")
        return fake_compile(spec, config, problem, arch)

    def bind_all(spec: KernelSpec, device: Any) -> list[str]:
        calls.clear()
        for dtype, trans, cluster in ((FP16, False, 1), (BF16, False, 1), (FP16, True, 1), (FP16, False, 2)) * 2:
            problem = Problem(64, 64, 64, dtype=dtype, trans_a=trans)
            bind(device, spec, spec.config({"CLUSTER": cluster}), problem, PLACES, 0, compile_fn)
        return calls

    once = ["fp16 NN 1", "bf16 NN 1", "fp16 TN 1", "fp16 NN 2"]
    device = FakeDevice()
    assert bind_all(mapped_kernel(tmp_path), device) == once
    assert bind_all(mapped_kernel(tmp_path), device) == []
    assert bind_all(mapped_kernel(tmp_path), FakeDevice()) == once
    assert bind_all(mapped_kernel(tmp_path, rung=0), device) == once * 2


class OrderedMemory:
    """The stream-ordered allocator of a device."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def allocate_in_order(self, nbytes: int, stream: int) -> int:
        self.calls.append(("allocate", nbytes, stream))
        return 0x5000

    def free_in_order(self, address: int, stream: int) -> None:
        self.calls.append(("free", address, stream))


def test_a_library_that_cannot_allocate_gets_its_workspace_from_the_driver() -> None:
    device: Any = OrderedMemory()
    operand = Matrix("a", object(), 0, 1, 1, 1, False, FP16, 0)
    with stream_workspace(device, 0, operand, 7) as address:
        assert (address, device.calls) == (0, [])
    with stream_workspace(device, 512, operand, 7) as address:
        assert address == 0x5000
        device.calls.append("launch")
    assert device.calls == [("allocate", 512, 7), "launch", ("free", 0x5000, 7)]
    with pytest.raises(UnsupportedError), stream_workspace(device, 512, operand, 7):
        raise UnsupportedError("refused")
    assert device.calls[3:] == [("allocate", 512, 7), ("free", 0x5000, 7)]


def test_leading_dimensions_in_tensor_maps_are_accepted(spec: KernelSpec) -> None:
    assert refusal(spec.signature, Problem(64, 64, 64, dtype=FP16, lda=72, ldb=80, ldc=88)) == ""


def test_simulated_rungs_are_those_whose_spec_says_so() -> None:
    assert simulated_rungs() == tuple(s for s in rungs() if s.simulated)
    assert simulated_rungs() == rungs()
    with unsimulated("wgmma_tma"):
        assert len(simulated_rungs()) == len(rungs()) - 1


def test_specs_with_equal_hashes_are_compared_in_full(spec: KernelSpec) -> None:
    other = replace(spec, persistent=False)
    assert hash(other) == hash(spec)
    assert other != spec
    assert {spec: 1, other: 2}[replace(other)] == 2
