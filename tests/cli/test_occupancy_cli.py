"""gemmsmith occupancy: tables, JSON, exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from gemmsmith.cli.main import run_command
from gemmsmith.compile.compiler import compile_kernel
from gemmsmith.gpus import example_gpus
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import FP32

NUMBERS = ("--threads", "256", "--registers", "128", "--smem", "16384")
NAMES = [gpu.name for gpu in example_gpus()]
FILE = """
#define TILE 16
extern "C" __global__ void mine(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float tile[TILE * TILE];
    const int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < K; k += TILE) {
        tile[threadIdx.y * TILE + threadIdx.x] = A[row * K + k + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < TILE; ++i) sum += tile[threadIdx.y * TILE + i] * B[(k + i) * N + col];
        __syncthreads();
    }
    C[row * N + col] = sum;
}
"""


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the command; returns exit code, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code = run_command(["occupancy", *arguments])
        text = capsys.readouterr()
        return code, text.out, text.err

    return run


@pytest.fixture
def facts(say: Any) -> Any:
    """Runs the command with --json; returns the object."""

    def run(*arguments: str) -> dict[str, Any]:
        code, out, err = say(*arguments, "--json")
        assert code == 0, err
        return json.loads(out)

    return run


def test_numbers_for_every_gpu(say: Any) -> None:
    code, out, _ = say(*NUMBERS, "--grid", "1000")
    assert code == 0
    for name in NAMES:
        (line,) = [line for line in out.splitlines() if re.match(rf"{name}\s+128\s", line)]
        assert "registers" in line
    assert re.search(r"^H200 +128 +16\.0 KB +2 +16/64 +25% +registers +3\.79 +78\.8% +1\.06 *$", out, re.M)
    assert re.search(r"^RTX 4090 +128 +16\.0 KB +2 +16/48 +33\.3% +registers +3\.91 +90\.6% +1\.02 *$", out, re.M)
    words = " ".join(out.split())
    assert "128 registers × 32 lanes = 4,096 per warp" in words
    assert "not measured" in words


def test_json_agrees_with_the_table(facts: Any) -> None:
    found = facts(*NUMBERS, "--grid", "1000")
    assert [row["gpu"] for row in found["gpus"]] == NAMES
    (row,) = [row for row in found["gpus"] if row["gpu"] == "H200"]
    assert (row["blocks_per_sm"], row["warps_per_sm"], row["fraction"]) == (2, 16, 0.25)
    assert {limit["resource"]: limit["blocks"] for limit in row["limits"]} == {
        "warps": 8, "block slots": 32, "registers": 2, "shared memory": 13,
    }  # fmt: skip
    assert row["limiters"] == ["registers"]
    assert (row["waves"]["full_waves"], row["waves"]["tail_blocks"]) == (3, 208)
    assert (row["reserved_smem"], row["sms"], found["origin"]) == (1024, 132, "predicted")
    assert "curve" not in found


def test_without_a_grid_there_are_no_waves(say: Any, facts: Any) -> None:
    assert all(row["waves"] is None for row in facts(*NUMBERS)["gpus"])
    assert "waves" not in say(*NUMBERS)[1]


def test_dynamic_shared_memory_counts_too(facts: Any) -> None:
    (row,) = facts(*NUMBERS, "--dynamic-smem", "100_000", "--gpu", "H200")["gpus"]
    assert (row["static_smem"], row["dynamic_smem"], row["blocks_per_sm"]) == (16384, 100_000, 1)


@pytest.mark.parametrize("spelling", ["h200", "NVIDIA H200"])
def test_one_gpu_shows_every_limit(say: Any, spelling: str) -> None:
    code, out, _ = say(*NUMBERS, "--gpu", spelling)
    assert code == 0
    assert "A100" not in out
    assert re.search(r"^registers +2 +◀ limits *$", out, re.M)
    assert re.search(r"^shared memory +13 *$", out, re.M)


def test_a_rung_is_compiled_for_each_architecture(facts: Any) -> None:
    found = facts("naive")
    spec = rung_named("naive")
    for row in found["gpus"]:
        used = compile_kernel(spec, spec.config(), dtype=FP32, arch=row["arch"]).resources
        assert (row["registers"], row["static_smem"], row["barriers"]) == (
            used.registers, used.static_smem, used.barriers,
        )  # fmt: skip
        assert (row["threads"], row["waves"]["grid"]) == (1024, 128 * 128), "4096 unless told"
    assert found["skipped"] == []
    assert len({row["arch"] for row in found["gpus"]}) == 8


def test_shape_and_configuration_reach_the_kernel(facts: Any) -> None:
    (row,) = facts("naive", "--gpu", "A100", "--config", "TILE=16", "--m", "100", "--n", "33")["gpus"]
    assert (row["threads"], row["waves"]["grid"]) == (256, 7 * 3)
    (row,) = facts("naive", "--gpu", "A100", "--grid", "217")["gpus"]
    assert (row["waves"]["grid"], row["waves"]["full_waves"], row["waves"]["tail_blocks"]) == (217, 1, 1)


def test_a_file(facts: Any, tmp_path: Path) -> None:
    path = tmp_path / "mine.cu"
    path.write_text(FILE, encoding="utf-8")
    (row,) = facts(str(path), "--gpu", "H100", "--smem", "4096")["gpus"]
    assert (row["threads"], row["static_smem"], row["dynamic_smem"], row["barriers"]) == (256, 1024, 4096, 1)
    assert row["waves"]["grid"] == 256 * 256
    (row,) = facts(str(path), "--gpu", "H100", "--grid", "ceil(M/64)", "--m", "640")["gpus"]
    assert row["waves"]["grid"] == 10


def test_a_file_for_new_gpus_only(say: Any, facts: Any, tmp_path: Path) -> None:
    path = tmp_path / "new[b].cu"
    path.write_text(
        "#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900\n#error too old\n#endif\n" + FILE, encoding="utf-8"
    )
    found = facts(str(path))
    assert [row["gpu"] for row in found["gpus"]] == ["H200", "B200", "B300", "RTX 5090"]
    assert [text.split(":")[0] for text in found["skipped"]] == ["T4", "A100", "RTX A6000", "RTX 4090"]
    code, out, _ = say(str(path))
    assert code == 0
    assert "skipped A100" in out
    assert out.startswith("new[b].cu"), "brackets are not markup"
    code, _, err = say(str(path), "--gpu", "A100")
    assert code == 1
    assert "too old" in err


def test_the_register_curve(say: Any, facts: Any) -> None:
    arguments = ("--threads", "1024", "--registers", "40", "--curve", "registers")
    code, out, _ = say(*arguments)
    assert code == 0
    assert re.search(r"^ +1 to 32 +2 +64 +100% +█{30} +warps *$", out, re.M)
    assert re.search(r"^ +33 to 64 +1 +32 +50% +█{15} +registers +◀ here *$", out, re.M)
    assert re.search(r"^ +65 to 255 +0 +0 +0% +· +does not fit *$", out, re.M)
    assert out.count("◀ here") == 1
    found = facts(*arguments)["curve"]
    assert (found["resource"], found["gpu"]) == ("registers", "H200")
    assert [(s["first"], s["last"], s["blocks_per_sm"]) for s in found["steps"]] == [
        (1, 32, 2),
        (33, 64, 1),
        (65, 255, 0),
    ]


@pytest.mark.parametrize(
    ("resource", "value", "here"),
    [("smem", "115712", "0 to 115,712"), ("smem", "115713", "115,713 to 232,448"), ("threads", "0", "225 to 256")],
)
def test_the_marker_is_on_the_right_step(say: Any, resource: str, value: str, here: str) -> None:
    code, out, _ = say("--threads", "256", "--registers", "128", "--smem", value, "--curve", resource)
    assert code == 0
    (line,) = [line for line in out.splitlines() if "◀ here" in line]
    assert line.strip().startswith(here)


def test_a_curve_of_a_block_that_does_not_fit_shows_what_would(say: Any) -> None:
    code, out, _ = say("--threads", "1024", "--registers", "128", "--curve", "registers", "--gpu", "A100")
    assert code == 0
    assert "A block does not fit" in out
    assert re.search(r"^ +65 to 255 .*◀ here *$", out, re.M)


def test_a_block_may_fit_on_some(say: Any, facts: Any) -> None:
    arguments = ("--threads", "256", "--registers", "40", "--smem", "102000", "--grid", "500")
    code, out, _ = say(*arguments)
    assert code == 0
    assert out.count("does not fit") >= 4
    fits = {row["gpu"]: row["blocks_per_sm"] for row in facts(*arguments)["gpus"]}
    assert fits == {
        "T4": 0, "A100": 1, "RTX A6000": 0, "RTX 4090": 0, "H200": 2, "B200": 2, "B300": 2, "RTX 5090": 0,
    }  # fmt: skip


WRONG = [
    (("naive", "--threads", "128"), "both a kernel (naive) and numbers (--threads)"),
    (("naive", "--registers", "0"), "both a kernel (naive) and numbers (--registers)"),
    (("naive", "--smem", "1024"), "both a kernel (naive) and numbers (--smem)"),
    (("naive", "--dynamic-smem", "1024"), "both a kernel (naive) and numbers (--dynamic-smem)"),
    (("naive", "--grid", "4", "--m", "4"), "both say how many blocks"),
    (("naive", "--grid", "many"), "--grid 'many' is not an integer"),
    (("naive", "--block", "32"), "naive is a rung"),
    (("naive", "--config", "TILE=7"), "TILE=7"),
    (("naive", "--m", "-1"), "M=-1 is negative"),
    (("nothing",), "nothing"),
    (("missing.cu",), "there is no file missing.cu"),
    (("any.cu", "--smem", "1", "--dynamic-smem", "1"), "are the same"),
    ((), "name a kernel, or give at least --threads and --registers"),
    (("--threads", "128"), "name a kernel, or give at least --threads and --registers"),
    (("--threads", "0", "--registers", "32"), "--threads 0 is not between 1 and 1024"),
    (("--threads", "1025", "--registers", "32"), "--threads 1025 is not between 1 and 1024"),
    (("--threads", "128", "--registers", "256"), "--registers 256 is not between 0 and 255"),
    (("--threads", "128", "--registers", "-1"), "--registers -1 is not between 0 and 255"),
    ((*NUMBERS, "--dynamic-smem", "-1"), "--dynamic-smem -1 is negative"),
    (("--threads", "1024", "--registers", "128"), "32 warps need 131,072, and an SM has 65,536"),
    ((*NUMBERS, "--dynamic-smem", "300000"), "316,384 B of shared memory exceed the limit of 65,536 B"),
    ((*NUMBERS, "--m", "4096"), "give --grid BLOCKS"),
    ((*NUMBERS, "--config", "BM=64"), "--config is for a kernel"),
    ((*NUMBERS, "--gpu", "H300"), "unknown GPU 'H300'"),
    ((*NUMBERS, "--curve", "cores"), "--curve 'cores' is not a resource"),
    ((*NUMBERS, "--curve", "smem", "--gpu", "all"), "a curve is drawn for one GPU"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "words"), WRONG, ids=[" ".join(a) or "nothing" for a, _ in WRONG])
def test_wrong_use_exits_2_and_says_why(say: Any, arguments: tuple[str, ...], words: str) -> None:
    code, out, err = say(*arguments)
    assert (code, out) == (2, "")
    assert words in err


@pytest.mark.parametrize(
    "arguments",
    [
        (*NUMBERS, "--grid", "2147483647"),
        ("--threads", "64", "--registers", "40", "--smem", "4096", "--grid", "3"),  # ties
        ("--threads", "32", "--registers", "20", "--curve", "smem"),
        ("--threads", "32", "--registers", "20", "--curve", "threads", "--gpu", "RTX A6000"),
        ("warp_tile", "--gpu", "H200", "--curve", "registers"),
    ],
)
def test_no_line_is_wider_than_100(say: Any, arguments: tuple[str, ...]) -> None:
    code, out, _ = say(*arguments)
    assert code == 0
    lines = [line.rstrip() for line in out.splitlines()]
    assert max(map(len, lines)) <= 100
    assert len(lines) > 8
