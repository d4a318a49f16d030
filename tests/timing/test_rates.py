"""Rates of L2 for one SM: by its neighbours, by who shares what it reads, and by how many SMs are at work."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from gemmsmith.call.launch_plan import plan_launches
from gemmsmith.cli.options.kernel import KernelOptions, find_kernel
from gemmsmith.explain.timing.predict import Predictor
from gemmsmith.explain.timing.rates import Rates, usable_sms
from gemmsmith.explain.timing.sampled import Sample
from gemmsmith.gpus import gpu_named
from gemmsmith.kernel.spec import Addresses
from gemmsmith.ladder.registry import rung_named
from gemmsmith.sim.timing.outcome import Outcome
from gemmsmith.sim.timing.parameters import SmParameters, parameters_of
from gemmsmith.sim.timing.streams import Stream

H200 = gpu_named("H200")


@pytest.fixture(scope="module")
def split() -> Predictor:
    spec = rung_named("wgmma_split_k")
    return Predictor(spec, spec.config(), spec.problem(256, 256, 16384), H200)


def test_large_clusters_cannot_use_all_sms() -> None:
    model = parameters_of(H200)
    assert [usable_sms(H200, model, n) for n in (1, 2, 4, 8)] == [132, 132, 120, 120]
    assert usable_sms(H200, replace(model, large_cluster_sms=0), 4) == 132


def test_clusters_that_do_not_fit_at_once_run_one_after_the_other(split: Predictor) -> None:
    """32 clusters of four on an H200, which holds 30; the last two share L2 with nobody and take less time."""
    assert (split.blocks, split.per_sm) == (128, 2)
    (_, first), (_, last) = split.predict(mhz=1850).main.rounds
    assert last.cycles < 0.7 * first.cycles


def test_blocks_whose_neighbours_read_other_data_get_less_of_l2(split: Predictor) -> None:
    assert split.samples[0].apart
    apart, near = (split.rates.sm(1, apart=each).l2_tma_bytes_cycle for each in (True, False))
    assert apart == pytest.approx(35 * 132 / 120)
    assert near == pytest.approx(67)
    assert split.rates.sm(1, apart=True, busy=8).l2_tma_bytes_cycle == split.model.sm.tma_bytes_cycle


def test_many_that_share_are_neighbours_in_part() -> None:
    spec = rung_named("wgmma_split_k")
    wide = Predictor(spec, spec.config(), spec.problem(64, 4096, 4096), H200)
    assert 1.2 * 35 < wide.rates.far_apart(1) < 67


@pytest.mark.parametrize(
    ("payloads", "apart"),
    [
        ((("tma", (0,), 8, (64, 0, 0)), ("tma", (9,), 8, (64, 0, 8))), True),
        ((("tma", (0,), 8, (64, 0, 0)), ("tma", (9,), 8, (64, 0, 0))), False),
        ((("tma", (0, 9), 8, (64, 0, 0)), ("tma", (9,), 8, (64, 0, 8))), False),
        ((None, ("wait", 0, 0, True)), False),
    ],
)
def test_apart_are_blocks_of_a_cluster_that_load_nothing_in_common(payloads: tuple[object, ...], apart: bool) -> None:
    streams = tuple(Stream(block, 0, (0,), (each,)) for block, each in enumerate(payloads))
    assert Sample(None, streams, {0: 0, 1: 1}, {0: 0, 1: 0}, 64).apart is apart  # type: ignore[arg-type]


def test_blocks_without_a_cluster_are_not_known_to_be_apart() -> None:
    streams = (Stream(0, 0, (0,), (("tma", (0,), 8, (64, 0, 0)),)),)
    assert not Sample(None, streams, {0: 0}, {0: 0}, 64).apart  # type: ignore[arg-type]


def test_another_size_that_reads_l2_at_another_rate_is_run_anew() -> None:
    """What one size executed serves another; what the model said of it does not."""
    spec = rung_named("wgmma_split_k")
    small, large = (Predictor(spec, spec.config(), spec.problem(*shape), H200)
                    for shape in ((256, 256, 16384), (4096, 4096, 16384)))  # fmt: skip
    alone = large.predict(mhz=1800).us
    small.predict(mhz=1800)
    again = Predictor(spec, spec.config(), spec.problem(4096, 4096, 16384), H200)
    assert again.adopt(small)
    assert again.predict(mhz=1800).us == pytest.approx(alone)


@pytest.mark.parametrize(("stored", "k", "waits"), [(70_000, 4096, True), (50_000, 4096, False), (70_000, 1024, False)])
def test_a_sample_whose_time_is_that_of_its_outputs_is_too_short(stored: int, k: int, waits: bool) -> None:
    """Two SMs that store by TMA at ten bytes a cycle, in 10,000 cycles; no deeper K is tried than the real one."""
    kernel = SimpleNamespace(
        samples=[SimpleNamespace(k=256, apart=False, sm_of={0: 0, 1: 1}), SimpleNamespace(k=512)], resident=1,
        problem=SimpleNamespace(k=k), spec=SimpleNamespace(persistent=True), subject=SimpleNamespace(uses=bool),
        rates=SimpleNamespace(sm=lambda *_: SmParameters(tma_store_bytes_cycle=10.0)),
    )  # fmt: skip
    low = Outcome(cycles=10_000.0, stored_bytes=2.0 * stored)
    assert Predictor._waits_for_outputs(kernel, low, 0) is waits  # type: ignore[arg-type]


def test_a_grid_that_is_rounded_down_has_tiles_all_the_same(tmp_path: Path) -> None:
    """Host code launches nothing for one row: the least number of rows for which it does tells its tiles."""
    file = tmp_path / "rounded.cu"
    file.write_text(
        "__global__ void k(const float* A, const float* B, float* C, int M, int N, int K) {\n"
        "  int r = blockIdx.y * 16 + threadIdx.y, c = blockIdx.x * 16 + threadIdx.x; float s = 0;\n"
        "  for (int i = 0; i < K; ++i) s += A[r * K + i] * B[i * N + c];\n"
        "  C[r * N + c] = s;\n}\n"
        "void run(const float* A, const float* B, float* C, int M, int N, int K) {\n"
        "  k<<<dim3(N / 16, M / 16), dim3(16, 16)>>>(A, B, C, M, N, K);\n}\n"
    )
    spec, config = find_kernel(str(file), KernelOptions())
    predictor = Predictor(spec, config, spec.problem(256, 512, 64), H200)
    assert predictor.rates.tiles_in_flight(8) == (16, 32)


def _waiting(size: int) -> float:
    """The share of ``wmma``'s k-tiles for which a block waits for DRAM, with two blocks on an SM."""
    spec = rung_named("wmma")
    problem = spec.problem(size, size, size)
    kernel = plan_launches(spec, spec.config(), problem, Addresses(1 << 20, 2 << 20, 3 << 20)).kernel
    return Rates(kernel, problem, H200, parameters_of(H200), kernel.geometry.blocks, 132, 1).first_touch(2)


def test_blocks_that_all_start_together_all_wait_for_dram() -> None:
    """Nobody has fetched a k-tile before them. Later rounds find some in L2."""
    assert _waiting(2048) == 1.0
    assert _waiting(4096) < 0.2
