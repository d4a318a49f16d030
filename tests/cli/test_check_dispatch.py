"""gemmsmith check where host code launches one instantiation or another by its sizes: each is judged."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gemmsmith.cli.check_dispatch import check_instantiations, launched_trials
from gemmsmith.cli.main import run_command
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.user_kernel import user_kernel
from gemmsmith.userfile.launches.user_launch import UserLaunch
from gemmsmith.verify.meaning.settled import Settled

KERNEL = """
template <bool WHOLE> __global__ void k(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[8][8], b[8][8];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 8 + y, col = blockIdx.x * 8 + x;
    float sum = 0.f;
    for (int k0 = 0; k0 < K; k0 += 8) {
        if (WHOLE) {
            a[y][x] = row < M ? A[row * K + k0 + x] : 0.f;
            b[y][x] = col < N ? B[(k0 + y) * N + col] : 0.f;
        } else {
            a[y][x] = row < M && k0 + x < K ? A[row * K + k0 + x] : 0.f;
            b[y][x] = k0 + y < K && col < N ? B[(k0 + y) * N + col] : 0.f;
        }
        __syncthreads();
        for (int k = 0; k < 8; ++k) sum += a[y][k] * b[k][x];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    dim3 grid((N + 7) / 8, (M + 7) / 8), block(8, 8);
    if (K % 8 == 0) k<true><<<grid, block>>>(A, B, C, M, N, K);
    else k<false><<<grid, block>>>(A, B, C, M, N, K);
}
"""


def check(folder: Path, source: str, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, Any]:
    (folder / "k.cu").write_text(source, encoding="utf-8")
    code = run_command(["check", str(folder / "k.cu"), "--json", "--cures", "0", *more])
    return code, json.loads(capsys.readouterr().out)


def test_both_instantiations_are_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, KERNEL, capsys)
    assert code == 0, found
    assert any("launches k<false> for other shapes, which is judged too" in line for line in found["found"])


def test_an_instance_under_several_conditions_is_judged_under_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The instance for edges stores rows beyond M, which the last of the conditions that choose it never has."""
    host = "auto f = M % 8 ? k<false> : N % 8 ? k<false> : K % 8 ? k<false> : k<true>; f"
    host += "<<<grid, block>>>(A, B, C, M, N, K);\n"
    start, end = KERNEL.index("if (K % 8 == 0) k<true>"), KERNEL.rindex("}")
    source = KERNEL[:start] + host + KERNEL[end:]
    wrong = source.replace("if (row < M && col < N) C", "if ((WHOLE ? row < M : true) && col < N) C")
    code, found = check(tmp_path, wrong, capsys)
    assert (code, found["status"], found["entry"]) == (1, "wrong", "k<false>")


def test_guards_of_an_instance_in_a_table_are_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No size is known to decide: the second instance has a guard of its own, which is wrong for rows."""
    host = "decltype(&k<true>) table[] = {k<true>, k<false>};\n    table[M % 8 || N % 8 || K % 8]"
    start, end = KERNEL.index("if (K % 8 == 0) k<true>"), KERNEL.rindex("}")
    source = KERNEL[:start] + host + "<<<grid, block>>>(A, B, C, M, N, K);\n" + KERNEL[end:]
    wrong = source.replace("if (row < M && col < N) C", "if (WHOLE || col < N) C")
    wrong = wrong.replace("a[y][x] = row < M ? A", "a[y][x] = true ? A")
    wrong = wrong.replace("b[y][x] = col < N ? B", "b[y][x] = true ? B")
    code, found = check(tmp_path, wrong, capsys)
    assert (code, found["status"], found["entry"]) == (1, "wrong", "k<false>")


def test_a_mistake_in_the_other_instantiation_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = KERNEL.replace("row < M && k0 + x < K ?", "row < M && k0 + x < N ?")
    code, found = check(tmp_path, wrong, capsys)
    assert (code, found["status"]) == (1, "wrong")
    assert any("launches k<false> for some shapes and k<true> for others" in line for line in found["found"])


def test_an_instantiation_that_is_asked_for_is_judged_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = KERNEL.replace("row < M && k0 + x < K ?", "row < M && k0 + x < N ?")
    code, found = check(tmp_path, wrong, capsys, "-D", "WHOLE=true")
    assert code == 0, found
    assert not any("launches k<false>" in line for line in found["found"])


def test_a_condition_that_lets_ragged_shapes_through_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = check(tmp_path, KERNEL.replace("K % 8 == 0", "K % 4 == 0"), capsys)
    assert (code, found["status"]) == (1, "wrong")
    assert any("launches k<false>" in line for line in found["found"])


SWITCHED = """
template <int T> __global__ void k(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * T + threadIdx.y, col = blockIdx.x * T + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = T == 16 ? FIRST : 0.f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
void run(int tile, const float* A, const float* B, float* C, int M, int N, int K) {
    dim3 block(tile, tile), grid((N + tile - 1) / tile, (M + tile - 1) / tile);
    switch (tile) {
        case 8: k<8><<<grid, block>>>(A, B, C, M, N, K); break;
        case 16: k<16><<<grid, block>>>(A, B, C, M, N, K); break;
    }
}
"""


@pytest.mark.parametrize(("first", "code", "said"), [
    ("0.f", 0, "its host code also launches k<16>, which is judged too"),
    ("1.f", 1, "its host code launches k<16> as well as k<8>, which passes"),
])  # fmt: skip
def test_instantiations_of_a_switch_are_judged(
    first: str, code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = check(tmp_path, SWITCHED.replace("FIRST", first), capsys)
    assert found[0] == code
    assert any(said in line for line in found[1]["found"]), found[1]["found"]


def test_an_instantiation_of_a_switch_that_is_asked_for_is_judged_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = SWITCHED.replace("FIRST", "1.f")
    assert check(tmp_path, source, capsys, "--entry", "k<8>", "--trial", "random data")[0] == 0


SCALED = """
template <bool WHOLE, bool ADDS>
__global__ void k(const float* A, const float* B, float* C, int M, int N, int K, float alpha, float beta) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.f;
    for (int k = 0; k < K; k += WHOLE ? 2 : 1) {
        sum += A[row * K + k] * B[k * N + col];
        if (WHOLE) sum += A[row * K + k + 1] * B[(k + 1) * N + col];
    }
    C[row * N + col] = ADDS ? alpha * sum + beta * C[row * N + col] : alpha * sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K, float alpha, float beta) {
    dim3 grid((N + 7) / 8, (M + 7) / 8), block(8, 8);
    if (K % 2 == 0 && beta == 0.f) k<true, false><<<grid, block>>>(A, B, C, M, N, K, alpha, beta);
    else if (K % 2 == 0) k<true, true><<<grid, block>>>(A, B, C, M, N, K, alpha, beta);
    else if (beta == 0.f) k<false, false><<<grid, block>>>(A, B, C, M, N, K, alpha, beta);
    else k<false, true><<<grid, block>>>(A, B, C, M, N, K, alpha, beta);
}
"""


def test_sizes_and_scalars_choose_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, SCALED, capsys)
    assert code == 0, found
    for flags in ("true, true", "false, false", "false, true"):
        assert any(f"launches k<{flags}> for other shapes, which is judged too" in line for line in found["found"])


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("beta * C[row * N + col]", "(WHOLE ? 1 : 2) * beta * C[row * N + col]"),
     ("k += WHOLE ? 2 : 1", "k += WHOLE || ADDS ? 2 : 1"), ("k < K;", "k < K - !WHOLE;")],
    ids=["beta", "step", "last"],
)  # fmt: skip
def test_a_mistake_for_some_sizes_and_scalars(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], right: str, wrong: str
) -> None:
    code, found = check(tmp_path, SCALED.replace(right, wrong), capsys)
    assert (code, found["status"]) == (1, "wrong")


LAUNCHERS = (
    SWITCHED[: SWITCHED.index("void run")].replace("FIRST", "0.f")
    + """
template <int T> void launch(const float* A, const float* B, float* C, int M, int N, int K) {
    k<T><<<dim3((N + T - 1) / T, (M + T - 1) / T), dim3(T, T)>>>(A, B, C, M, N, K);
}
void few(const float* A, const float* B, float* C, int M, int N, int K) {
    k<4><<<dim3((N + 3) / 4, (M + 3) / 4), dim3(4, 4)>>>(A, B, C, M, N, K);
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    if (M > 128 && N > 128) launch<16>(A, B, C, M, N, K);
    else if (M > 16) launch<8>(A, B, C, M, N, K);
    else few(A, B, C, M, N, K);
}
"""
)


def test_instantiations_of_launchers_are_found_where_sizes_choose_between_them(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(LAUNCHERS, encoding="utf-8")
    launch = user_kernel(tmp_path / "k.cu", UserOptions()).geometry
    assert isinstance(launch, UserLaunch)
    assert launch.site is not None
    assert {launch.site.template()[0]["T"], *(dict(each)["T"] for each in launch.other_instances())} == {"16", "8", "4"}


@dataclass(frozen=True)
class Whole:
    """What ``check`` is asked for, as far as it matters here: a whole check."""

    budget: float = 15.0
    free: bool = True
    certified: bool = True
    cures: float = 0.0
    fitted: bool = True
    brief: bool = False
    clock: None = None
    trial: Any = field(default_factory=lambda: SimpleNamespace(trial=""))
    device: Any = field(default_factory=lambda: SimpleNamespace(wants_gpu=False))


@pytest.mark.parametrize("passes", [True, False])
def test_seconds_are_kept_for_another_instantiation(passes: bool, tmp_path: Path) -> None:
    """The first gets less than the whole budget, and the others what was kept, however long the first took."""
    (tmp_path / "k.cu").write_text(LAUNCHERS, encoding="utf-8")
    spec = user_kernel(tmp_path / "k.cu", UserOptions())
    budgets = []

    def judged(asked: Any, right: bool = True) -> Any:
        budgets.append(asked.budget)
        return SimpleNamespace(ok=right, status="right" if right else "wrong", entry="k", budget=asked.budget,
                               settled=Settled(spec), spec=spec)  # fmt: skip

    asked: Any = Whole()
    report = check_instantiations(
        spec, spec.config(), asked, lambda _, __, a: judged(a), lambda a, *_: judged(a, passes)
    )
    assert report.ok is passes
    assert budgets[0] < 15
    assert min(budgets) >= 2


def test_ragged_sizes_beyond_a_number_that_host_code_compares_with(tmp_path: Path) -> None:
    """An odd K goes to the instance for pairs from 257 on: no odd K below shows that."""
    source = (
        KERNEL[: KERNEL.index("void run")]
        + """
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    dim3 grid((N + 7) / 8, (M + 7) / 8), block(8, 8);
    if (K % 8 == 0 || K > 256) k<true><<<grid, block>>>(A, B, C, M, N, K);
    else k<false><<<grid, block>>>(A, B, C, M, N, K);
}
"""
    )
    (tmp_path / "k.cu").write_text(source, encoding="utf-8")
    spec = user_kernel(tmp_path / "k.cu", UserOptions())
    base: Any = spec.problem(64, 64, 64)
    report: Any = SimpleNamespace(base=base, trials=[])
    asked: Any = SimpleNamespace(ragged=frozenset("K"))
    tried = {trial.problem.k for trial in launched_trials(spec, report, asked, spec.problem(64, 128, 192))}
    assert 259 in tried
    assert not {67, 63} & tried


TIMED = """
template <typename T>
__global__ void product(const T* A, const T* B, T* C, int M, int N, int K) {
    int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
    SUM sum = 0;
    for (int k = 0; k < K; ++k) sum += i < M && j < N ? A[i * K + k] * B[k * N + j] : T(0);
    if (i < M && j < N) C[i * N + j] = sum;
}
template <typename T>
void timed(int s) {
    T *a, *b, *c;
    cudaMalloc(&a, s * s * sizeof(T)); cudaMalloc(&b, s * s * sizeof(T)); cudaMalloc(&c, s * s * sizeof(T));
    product<T><<<dim3((s + 15) / 16, (s + 15) / 16), dim3(16, 16)>>>(a, b, c, s, s, s);
}
int main() { timed<float>(1024); timed<double>(1024); }
"""


@pytest.mark.parametrize(("sum_type", "status"), [("T", "right"), ("float", "wrong")])
def test_an_instance_for_another_type_is_judged_though_its_launcher_has_one_size(
    sum_type: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, found = check(tmp_path, TIMED.replace("SUM", sum_type), capsys, "--cures", "0")
    assert found["status"] == status
