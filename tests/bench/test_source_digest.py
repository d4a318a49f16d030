"""The digest of a contender's source covers every file that is compiled for a product, and no other."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gemmsmith.bench import kernel_contender
from gemmsmith.bench.kernel_contender import source_digest
from gemmsmith.compile import render
from gemmsmith.compile.render import CompileRequest, render_for
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rung_named, rungs
from gemmsmith.problem import FP16, Problem
from gemmsmith.userfile.files.includes import Bundle, bundle

SINGLE = Problem(64, 64, 64)
HALF = Problem(64, 64, 64, dtype=FP16)
UNALIGNED = Problem(64, 64, 33, dtype=FP16)  # rows of A: 66 bytes

COMPILED = [
    ("fp32_tensor_fp16x3", SINGLE, "24_fp32_tensor_fp16x3.cu"),
    ("fp32_tensor_fp16x3", SINGLE, "prologue/split_fp16.cu"),
    ("fp32_tensor_fp16x3", SINGLE, "prologue/zero_workspace.cu"),
    ("fp32_tensor_fp16x3", SINGLE, "include/ptx/pdl.cuh"),  # used by the prologue alone
    ("fp32_tensor_fp16x3", SINGLE, "22_fp32_tensor_bf16x6.cu"),
    ("fp32_wgmma_bf16x6", SINGLE, "prologue/split_bf16.cu"),
    ("fp32_wgmma_fp16x3", SINGLE, "prologue/split_fp16.cu"),
    ("fp32_wgmma_fp16x3", SINGLE, "prologue/split_bf16.cu"),  # of the fallback
    ("fp32_wgmma_fp16x3", SINGLE, "25_fp32_wgmma_bf16x6.cu"),
    ("wgmma_tma", UNALIGNED, "prologue/align_copy.cu"),
    ("wgmma_tma", UNALIGNED, "include/tile/shifted_chunk.cuh"),
    ("wgmma_persistent", HALF, "include/epilogue/thread_store.cuh"),
    ("wgmma_stream_k", HALF, "prologue/zero_workspace.cu"),
]
NOT_COMPILED = [
    ("naive", SINGLE, "prologue/zero_workspace.cu"),
    ("naive", SINGLE, "include/ptx/pdl.cuh"),
    ("fp32_wgmma_bf16x6", SINGLE, "prologue/split_fp16.cu"),
    ("fp32_tensor_bf16x6", SINGLE, "prologue/split_bf16.cu"),
    ("wgmma_tma", HALF, "prologue/align_copy.cu"),
    ("wgmma_tma", HALF, "include/tile/shifted_chunk.cuh"),
    ("fp32_wgmma_fp16x3", SINGLE.with_(alpha=0.0), "prologue/split_fp16.cu"),
]


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the ladder's folder that sources are read from, with the prologue's in a folder below it."""
    package, folder = rung_named("naive").source.parents[1], tmp_path / "ladder"
    for name, target in (("ladder", folder), ("prologue", folder / "prologue")):
        shutil.copytree(package / name, target, ignore=shutil.ignore_patterns("*.py", "__pycache__"))

    def from_copy(source: Path, _folders: Sequence[Path]) -> Bundle:
        below = "prologue" if source.parent.name == "prologue" else ""
        return bundle(folder / below / source.name, (folder / "include",))

    monkeypatch.setattr(render, "bundle", from_copy)
    return folder


def digest(rung: str, problem: Problem) -> str:
    spec = rung_named(rung)
    return source_digest(spec, spec.config(), problem, "sm_90")


@pytest.mark.parametrize(("rung", "problem", "file"), COMPILED)
def test_a_file_that_is_compiled_changes_the_digest(kernels: Path, rung: str, problem: Problem, file: str) -> None:
    before = digest(rung, problem)
    text = (kernels / file).read_text()
    (kernels / file).write_text(text + "// another\n")
    assert digest(rung, problem) != before
    (kernels / file).write_text(text)
    assert digest(rung, problem) == before


@pytest.mark.parametrize(("rung", "problem", "file"), NOT_COMPILED)
def test_a_file_that_is_not_compiled_does_not_change_it(kernels: Path, rung: str, problem: Problem, file: str) -> None:
    before = digest(rung, problem)
    (kernels / file).write_text((kernels / file).read_text() + "// another\n")
    assert digest(rung, problem) == before


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(("rung", "problem"), dict.fromkeys((rung, problem) for rung, problem, _ in COMPILED))
def test_the_place_of_the_files_does_not_change_it(
    rung: str, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = digest(rung, problem)
    monkeypatch.undo()
    assert digest(rung, problem) == copied


def test_macros_of_the_prologue_change_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest("wgmma_tma", UNALIGNED)

    def with_another(spec: KernelSpec, config: Config, problem: Problem, arch: str) -> CompileRequest:
        found = render_for(spec, config, problem, arch)
        return replace(found, defines=(("AT_ONCE", "8"),)) if spec.name == "align_copy" else found

    monkeypatch.setattr(kernel_contender, "render_for", with_another)
    assert digest("wgmma_tma", UNALIGNED) != before


def test_a_kernel_without_a_prologue_keeps_the_digest_of_old_records() -> None:
    """It covers one source, as in databases since the first version."""
    for spec in (spec for spec in rungs() if not spec.tensor_cores):
        problem = SINGLE.with_(dtype=spec.dtypes[0])
        found = render_for(spec, spec.config(), problem, "sm_90")
        alone = repr((found.source, found.headers, found.defines, found.entry))
        assert digest(spec.name, problem) == hashlib.sha256(alone.encode()).hexdigest()[:16], spec.name


def test_the_digest_covers_the_layout_that_is_launched() -> None:
    """A contiguous vector is taken as a row, however it is stored."""
    spec = rung_named("wgmma_split_k")
    stored_as = [Problem(129, 1, 65, FP16, FP16, trans_b=trans_b) for trans_b in (False, True)]
    column, row = (source_digest(spec, spec.config(), problem, "sm_90a") for problem in stored_as)
    gaps = source_digest(spec, spec.config(), Problem(129, 1, 65, FP16, FP16, ldb=3), "sm_90a")
    assert column == row != gaps
