"""gemmsmith profile, explain and compare as commands: output, exit codes, users' files."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from gemmsmith.cli.commands.compare import SideOptions
from gemmsmith.cli.main import run_command
from gemmsmith.cli.render.profile_tables import LDMATRIX_CONFLICTS, _print_shared
from gemmsmith.compile.compiler import compile_for
from gemmsmith.explain import sampling
from gemmsmith.explain.metrics import METRICS
from gemmsmith.explain.profile import CONFLICTS, REQUESTS
from gemmsmith.explain.simulated_profile import simulate
from gemmsmith.explain.timing.timed import TIME_MODEL
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem

SIZE = ["--m", "64", "--n", "64", "--k", "32"]
RUNGS = ["naive", "shared_tile", "async_copy"]

# As in tutorials: guarded 2-D tile, arguments A, B, C, M, N, K, and a row of threads down the columns of A.
TUTORIAL = """
#include <cuda_runtime.h>
#define TILE 16
// Tiled matrix multiplication
__global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[TILE][TILE];
    __shared__ float Bs[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    float acc = 0.0f;
    for (int t = 0; t < (K + TILE - 1) / TILE; ++t) {
        int k = t * TILE + threadIdx.x;
        As[threadIdx.y][threadIdx.x] = (row < M && k < K) ? A[row * K + k] : 0.0f;
        k = t * TILE + threadIdx.y;
        Bs[threadIdx.y][threadIdx.x] = (k < K && col < N) ? B[k * N + col] : 0.0f;
        __syncthreads();
        for (int i = 0; i < TILE; ++i) acc += As[threadIdx.y][i] * Bs[i][threadIdx.x];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = acc;
}
"""
STRIDED = """
__global__ void sgemm(int M, int N, int K, float alpha, const float *A, const float *B, float beta, float *C) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < M && y < N) {
        float tmp = 0.0;
        for (int i = 0; i < K; ++i) tmp += A[x * K + i] * B[i * N + y];
        C[x * N + y] = alpha * tmp + beta * C[x * N + y];
    }
}
"""


@pytest.fixture
def tutorial(tmp_path: Path) -> str:
    file = tmp_path / "tutorial.cu"
    file.write_text(TUTORIAL)
    return str(file)


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert run_command(list(arguments)) == code, capsys.readouterr().err
    out: str = capsys.readouterr().out
    return out


def narrow(text: str) -> bool:
    return all(len(line) <= 100 for line in text.splitlines())


@pytest.mark.parametrize("name", RUNGS)
def test_profile_prints_every_section_in_100_columns(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("global memory", "shared memory", "warp instructions", "branch efficiency", "bytes by memory space",
             "occupancy", "limited by", "Only a GPU can tell")  # fmt: skip
    for level, own in (("auto", "counted: machine code"), ("ptx", "Cross-check with the machine code")):
        text = run(capsys, "profile", name, *SIZE, "--device", "sim", "--level", level)
        assert narrow(text)
        for word in (*words, own):
            assert word in text
    assert ("not equal" in text) == (name in ("naive", "async_copy"))


def test_profile_states_its_sample(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "profile", "coalesced", "--m", "256", "--n", "256", "--k", "16", "--sample", "8")
    assert "8 of 64 blocks" in text
    assert "none seen" in text
    assert "error: unknown from so few" in run(capsys, "profile", "coalesced", *SIZE, "--sample", "1")


def test_profile_samples_what_is_too_large_and_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "BUDGET", 2**18)
    large = ["profile", "coalesced", "--m", "256", "--n", "256", "--k", "16", "--device", "sim"]
    text = run(capsys, *large)
    assert narrow(text)
    assert "16 of 64 blocks" in text
    assert "--full runs them all" in text
    assert "16 of 64 blocks" in run(capsys, *large, "--lines")
    assert json.loads(run(capsys, *large, "--json"))["sampled_blocks"] == 16
    for everything in (["--full"], ["--sample", "0"]):
        assert "blocks were run" not in run(capsys, *large, *everything)
    deep = run(capsys, "profile", "vectorized", "--m", "128", "--n", "128", "--k", "1024", "--device", "sim")
    assert "K was run up to 512 of 1,024" in deep


def test_profile_says_that_it_verifies_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    for more in ([], ["--lines"]):
        assert "Not verified: gemmsmith check" in run(capsys, "profile", "naive", *SIZE, "--device", "sim", *more)


def test_profile_json_has_occupancy_of_the_chosen_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    facts = json.loads(run(capsys, "profile", "shared_tile", *SIZE, "--gpu", "4090", "--json", "--device", "sim"))
    assert (facts["occupancy"]["gpu"], facts["arch"], facts["origin"]) == ("RTX 4090", "sm_89", "simulated")
    assert facts["occupancy"]["blocks_per_sm"] == 1


def test_profile_csv_has_a_row_for_every_metric(capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(run(capsys, "profile", "naive", *SIZE, "--csv", "--device", "sim"))))
    assert [row["metric"] for row in rows] == [m.name for m in METRICS]
    by_name = {row["metric"]: row for row in rows}
    assert by_name["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]["value"] == str(33 * 64 * 64 * 32 // 32)
    assert by_name["gpu__time_duration.sum"]["value"] == ""
    assert by_name["gpu__time_duration.sum"]["origin"] == "absent"


def test_profile_lines(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "profile", "naive", *SIZE, "--lines", "--device", "sim")
    assert narrow(text)
    (line,) = [line for line in text.splitlines() if "const float a = TRANS_A" in line]
    counts, _, source = line.partition("|")
    assert counts.split()[2] == f"{32 * 64 * 64:,}"
    assert source.startswith("         const float a")  # indented as in the file
    rows = list(csv.DictReader(io.StringIO(run(capsys, "profile", "naive", *SIZE, "--lines", "--csv"))))
    assert sum(int(row["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]) for row in rows) == 33 * 64 * 64


def test_a_tutorial_file_works_in_all_three(tutorial: str, capsys: pytest.CaptureFixture[str]) -> None:
    facts = json.loads(run(capsys, "profile", tutorial, *SIZE, "--json", "--device", "sim"))
    assert facts["metrics"]["smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"]["value"] == 64 * 64 * 32
    assert facts["block"] == [16, 16, 1]
    small = ["--m", "256", "--n", "256", "--k", "64"]
    text = run(capsys, "explain", tutorial, *small)
    assert narrow(text)
    assert "shared-memory traffic" in text
    text = run(capsys, "compare", tutorial, "coalesced", *small)
    assert narrow(text)
    assert "tutorial.cu is predicted" in text


def test_an_uncoalesced_file_is_diagnosed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "sgemm.cu"
    file.write_text(STRIDED)
    facts = json.loads(run(capsys, "explain", str(file), "--gpu", "A6000", "--block", "32,32", "--json"))
    assert facts["findings"][0]["kind"] == "uncoalesced global loads"
    assert (facts["gpu"], facts["origin"], facts["counts_origin"]) == ("RTX A6000", "predicted", "simulated")


def test_explain_prints_the_answer_and_with_details_all_that_led_to_it(capsys: pytest.CaptureFixture[str]) -> None:
    size = ["--m", "1024", "--n", "1024", "--k", "256"]
    short = run(capsys, "explain", "naive", *size)
    assert narrow(short)
    assert len(short.splitlines()) <= 24, "one screen"
    leads = [line.split()[0] for line in short.splitlines() if line[:1].isalpha() and ":" in line.split()[0]]
    assert leads[:5] == ["Bound:", "Line:", "Why:", "Change:", "Gain:"]
    assert "Figures" not in short
    assert "Where warps wait" not in short
    text = run(capsys, "explain", "naive", *size, "--details")
    assert narrow(text)
    words = " ".join(text.split())
    assert words.index("bound by L1 tags") < words.index("1. uncoalesced global loads")
    assert "Without uncoalesced global accesses" in words
    assert words.index("Figures") < words.index("Where warps wait")
    assert "Predicted, not measured" in text


def test_compare_as_table_csv_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    both = ["compare", "coalesced", "shared_tile", "--m", "128", "--n", "128", "--k", "64"]
    text = run(capsys, *both)
    assert narrow(text)
    assert text.index("is predicted to be") < text.index("main loop")
    rows = list(csv.reader(io.StringIO(run(capsys, *both, "--csv"))))
    assert rows[0] == ["section", "name", "coalesced", "shared_tile", "origin"]
    assert ["resources", "threads per block", "1024", "1024", "compiler"] in rows
    found = json.loads(run(capsys, *both, "--json"))
    assert found["gpu"] == "H200"
    assert found["model"] == TIME_MODEL  # says how these times were found, not how the older estimate was
    assert "timed by a cycle model" in " ".join(text.split())
    assert "perfect overlap" not in " ".join(text.split())


def test_compare_two_configurations_of_one_rung(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "compare", "shared_tile", "shared_tile", "--y-config", "TILE=16", "--m", "128", "--n", "128",
               "--k", "64")  # fmt: skip
    assert "shared_tile TILE=16" in text
    assert "shared_tile TILE=32" in text


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["profile", "naive", "--json", "--csv"], 2),
        (["profile", "naive", "--sample", "-1"], 2),
        (["profile", "naive", "--sample", "4", "--full"], 2),
        (["profile", "naive", "--device", "tpu"], 2),
        (["profile", "no_such_rung"], 2),
        (["profile", "naive", "--gpu", "GTX 480"], 2),
        (["explain", "naive", "--m", "0"], 2),
        (["explain", "nowhere.cu"], 2),
        (["compare", "naive", "coalesced", "--json", "--csv"], 2),
        (["compare", "naive", "coalesced", "--x-launch", "block"], 2),
        (["compare", "naive", "coalesced", "--y-launch", "block=32,32"], 2),
    ],
)
def test_wrong_use_ends_with_2(arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, *arguments, code=code)


def test_launch_options_of_a_file() -> None:
    found = SideOptions(x_launch="block=32,32; grid=ceil(N/32),ceil(M/32);entry=mine").x
    assert (found.block, found.grid, found.entry, found.smem) == ("32,32", "ceil(N/32),ceil(M/32)", "mine", "")


def test_ldmatrix_has_a_row_and_its_conflicts_are_taken_from_the_loads(
    capsys: pytest.CaptureFixture[str],
) -> None:
    spec = rung_named("mma_swizzled")
    compiled = compile_for(spec, spec.config(), Problem(128, 128, 64, dtype=spec.dtypes[0]), "sm_90")
    found = simulate(spec, spec.config(), Problem(128, 128, 64, dtype=spec.dtypes[0]), compiled)
    waves = found.wavefronts("ldsm")
    made = dict(found.metrics) | {CONFLICTS["ld"]: 12.0, LDMATRIX_CONFLICTS: 8.0, REQUESTS["ld"]: 5.0}
    _print_shared(replace(found, metrics=tuple(made.items())))
    rows = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()[2:] if line.strip()}
    assert rows["ldmatrix"] == [f"{found.value(REQUESTS['ldsm']):,.0f}", f"{waves:,.0f}",
                                f"{waves / found.value(REQUESTS['ldsm']):.2f}", "8", f"{8 / waves:.1%}"]  # fmt: skip
    assert rows["loads"][3] == "4", "12, of which 8 are ldmatrix's"
    assert "ldmatrix" not in run(capsys, "profile", "shared_tile", *SIZE, "--device", "sim")


def test_every_machine_instruction_is_listed_with_its_counts(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "profile", "shared_tile", *SIZE, "--device", "sim", "--instructions")
    assert narrow(text)
    assert "03_shared_tile.cu:" in text
    rows = [line for line in text.splitlines() if "| FFMA" in line]
    assert rows
    assert all("fma" in row for row in rows)
    found = json.loads(run(capsys, "profile", "shared_tile", *SIZE, "--device", "sim", "--json"))
    assert found["level"] == "machine code"
    assert found["metrics"]["smsp__inst_executed.sum"]["value"] == sum(found["opcodes"].values())
    assert sum(row["executed"] for row in found["instructions"]) == sum(found["opcodes"].values())
    ffma = sum(row["threads"] for row in found["instructions"] if "FFMA" in row["text"])
    assert ffma == found["metrics"]["smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"]["value"]


def test_ptx_is_counted_where_machine_code_is_not_executed(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "profile", "naive", *SIZE, "--device", "sim", "--arch", "sm_120")
    assert "counted: PTX" in text
    assert "machine code for sm_120 is not executed" in " ".join(text.split())
