"""Template values that no launch tells: what static_assert allows, numbers that it names, instances of namesakes."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.user_kernel import guessed_values

KERNEL = """
template <int BM, int BN, int BK, int TM, int TN>
__global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K) {
    constexpr int THREADS = (BM / TM) * (BN / TN);
    ASSERTS
    C[threadIdx.x % THREADS] = A[0] * B[0] * M * N * K;
}
"""


def guesses(folder: Path, asserts: str) -> list[dict[str, int]]:
    path = folder / "k.cu"
    path.write_text(KERNEL.replace("ASSERTS", asserts), encoding="utf-8")
    return [{name: int(value) for name, value in each} for each in islice(guessed_values(path, UserOptions()), 8)]


def test_usual_sizes_come_first(tmp_path: Path) -> None:
    assert guesses(tmp_path, "")[0] == {"BM": 64, "BN": 64, "BK": 16, "TM": 4, "TN": 4}


def test_relations_between_sizes_are_met(tmp_path: Path) -> None:
    asserts = 'static_assert(BM * BK == THREADS, "one load"); static_assert(BN * BK == THREADS);'
    found = guesses(tmp_path, asserts)
    assert found
    for each in found:
        threads = each["BM"] // each["TM"] * (each["BN"] // each["TN"])
        assert each["BM"] * each["BK"] == each["BN"] * each["BK"] == threads
        assert 32 <= threads <= 1024


def test_numbers_of_an_assert_are_candidates(tmp_path: Path) -> None:
    found = guesses(tmp_path, "static_assert(BM == 96 && TM == 6); static_assert(BN % 48 == 0);")
    assert found
    assert all((each["BM"], each["TM"], each["BN"] % 48) == (96, 6, 0) for each in found)


def test_what_cannot_be_evaluated_rules_nothing_out(tmp_path: Path) -> None:
    assert guesses(tmp_path, "static_assert(is_supported<BM>::value);") == guesses(tmp_path, "")


def test_nothing_is_tried_where_no_values_compile(tmp_path: Path) -> None:
    assert guesses(tmp_path, "static_assert(BM > BM);") == []


INSTANCE = "template __global__ void gemm<32, 32, 8, 4, 4>(const float*, const float*, float*, int, int, int);\n"


@pytest.mark.parametrize("has_its_own", [False, True], ids=["declared", "namesake"])
def test_instances_in_another_file_belong_to_the_kernel_there(tmp_path: Path, has_its_own: bool) -> None:
    own = KERNEL.replace("ASSERTS", "") if has_its_own else '#include "k.cu"\n'
    (tmp_path / "other.cu").write_text(own + INSTANCE, encoding="utf-8")
    assert any(guesses(tmp_path, "")) == has_its_own  # with an instance nothing is left to guess
