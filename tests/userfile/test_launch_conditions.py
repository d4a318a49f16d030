"""Conditions of host code around a launch: what they say of alpha, beta, M, N and K."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.problem import Problem
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.user_kernel import user_kernel
from gemmsmith.userfile.launches.user_launch import UserLaunch

KERNEL = """
template <bool PLAIN> __global__ void k(const float* A, const float* B, float* C, int M, int N, int K, float alpha,
                                        float beta) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float s = 0;
    for (int i = 0; i < K; ++i) s += A[row * K + i] * B[i * N + col];
    C[row * N + col] = PLAIN ? s : alpha * s + beta * C[row * N + col];
}
"""
TAKEN = "const float* A, const float* B, float* C, int M, int N, int K, float alpha, float beta"
HOW = "<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K, alpha, beta);"
LARGE = Problem(1024, 1024, 1024)


def launch_of(folder: Path, body: str, more: str = "", before: str = "") -> UserLaunch:
    path = folder / "k.cu"
    body = body.replace("PLAIN", f"k<true>{HOW}").replace("OTHER", f"k<false>{HOW}")
    text = f"#include <cassert>\n{KERNEL}\n{before}\nvoid run({TAKEN}) {{\n{body}\n}}\n{more}"
    path.write_text(text.replace("TAKEN", TAKEN), encoding="utf-8")
    launch = user_kernel(path, UserOptions(defines=(("PLAIN", "true"),))).geometry
    assert isinstance(launch, UserLaunch)
    return launch


SCALARS = {
    "nested": "if (alpha == 1.0f) { if (beta == 0.0f) PLAIN } else OTHER",
    "one condition": "if (alpha == 1.f && beta == 0.f) { PLAIN } else { OTHER }",
    "the other branch": "if (alpha != 1.0f || beta != 0.0f) OTHER else PLAIN",
    "flags": "const bool unit = alpha == 1.0f, none = beta == 0; if (unit && none) PLAIN else OTHER",
    "an early return": "if (alpha != 1 || beta != 0) { OTHER return; } PLAIN",
    "returns one by one": "if (alpha != 1) return; if (beta != 0) { return; } PLAIN",
    "asserts": "assert(alpha == 1.0f); assert(beta == 0.0f); PLAIN",
    "a check": 'TORCH_CHECK(alpha == 1.0f && beta == 0.0f, "no scalars"); PLAIN',
    "checks of equality": "CHECK_EQ(alpha, 1.0f); CHECK_EQ(beta, 0.0f); PLAIN",
    "a throw": 'if (!(alpha == 1.0f && beta == 0.0f)) throw std::runtime_error("no scalars"); PLAIN',
    "a switch": "switch ((alpha == 1.0f) + 2 * (beta == 0.0f)) { case 3: PLAIN break; default: OTHER }",
    "almost equal": "if (fabsf(alpha - 1.0f) < 1e-6f && std::abs(beta) <= 1e-6f) PLAIN else OTHER",
    "with another choice": "if (version == 3 && alpha == 1.0f && beta == 0.0f) PLAIN else OTHER",
}


@pytest.mark.parametrize("body", SCALARS.values(), ids=SCALARS)
def test_scalars_of_one_value_are_constants(tmp_path: Path, body: str) -> None:
    launch = launch_of(tmp_path, body)
    assert [(each.what, each.value) for each in launch.scalars] == [("alpha", "1"), ("beta", "0")]
    assert launch.signature.declaration() == "A,B,C,M,N,K,1,0"
    assert launch.launched(LARGE.with_(alpha=2.0)).excluded is not None
    assert launch.launched(LARGE) == launch.launched(LARGE.with_(m=65, n=63, k=67))


NAMED = "const float* A, const float* B, float* C, int M, int N, int K, float a, float b"
CALLS = {
    "a template": ("PLAIN", "void pick(TAKEN) { if (alpha == 1 && beta == 0) run(A, B, C, M, N, K, alpha, beta); }"),
    "other names": ("PLAIN", f"void pick({NAMED}) {{ if (a == 1.f && b == 0.f) run(A, B, C, M, N, K, a, b); }}"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "more"), CALLS.values(), ids=CALLS)
def test_conditions_around_a_call_count(tmp_path: Path, body: str, more: str) -> None:
    assert launch_of(tmp_path, body, more).signature.declaration() == "A,B,C,M,N,K,1,0"
    free = more + "\nvoid test(TAKEN) { run(A, B, C, M, N, K, alpha, beta); }"
    assert launch_of(tmp_path, body, free).signature.declaration() == "A,B,C,M,N,K,alpha,beta"


def test_a_call_of_a_namesake_in_another_file_does_not_count(tmp_path: Path) -> None:
    other = f"{KERNEL}\nvoid run({TAKEN}) {{ k<true>{HOW} }}\nvoid pick({TAKEN}) {{ if (K % 4 == 0) run(A, B, C, M, N, K, alpha, beta); }}\n"  # noqa: E501 - C++
    (tmp_path / "other.cu").write_text(other, encoding="utf-8")
    assert launch_of(tmp_path, "PLAIN").launched(LARGE.with_(k=67)).excluded is None


def test_template_arguments_of_a_call_decide_if_constexpr(tmp_path: Path) -> None:
    before = f"template <bool P> void go({TAKEN}) {{ if constexpr (P) k<true>{HOW} else k<false>{HOW} }}"
    body = "if (alpha == 1 && beta == 0) go<true>(A, B, C, M, N, K, alpha, beta); else go<false>(A, B, C, M, N, K, alpha, beta);"  # noqa: E501 - C++
    assert launch_of(tmp_path, body, before=before).signature.declaration() == "A,B,C,M,N,K,1,0"


@pytest.mark.parametrize("body", ["PLAIN", "if (version == 2) PLAIN", "if (alpha != 0) PLAIN", "if (beta >= 0) PLAIN"])
def test_scalars_with_several_values_stay_open(tmp_path: Path, body: str) -> None:
    launch = launch_of(tmp_path, body)
    assert launch.scalars == ()
    assert launch.signature.declaration() == "A,B,C,M,N,K,alpha,beta"


SIZES = {
    "a multiple": ("if (K % 4 == 0) PLAIN else OTHER", (64, 64, 68), (64, 64, 67)),
    "bits": ("bool aligned = (K & 3) == 0; if (aligned) PLAIN", (64, 64, 68), (64, 64, 67)),
    "a function": ("if (vectors(K)) PLAIN", (64, 64, 68), (64, 64, 67)),
    "several": ("if (M % 128 == 0 && N % 128 == 0) PLAIN", (128, 256, 67), (128, 200, 64)),
    "a threshold": ("if (K < 256) { OTHER return; } PLAIN", (64, 64, 256), (64, 64, 255)),
    "an upper bound": ("if (M <= 64) PLAIN", (64, 300, 64), (65, 64, 64)),
    "an assert": ("assert(N % 32 == 0); PLAIN", (31, 64, 31), (64, 63, 64)),
    "exit": ("if (N % 32) { printf(\"N\"); exit(1); } PLAIN", (31, 64, 31), (64, 63, 64)),
    "bits of a switch": ("switch (K & 3) { case 0: PLAIN break; default: OTHER }", (64, 64, 68), (64, 64, 66)),
    "a choice": ("switch (K % 4 ? 1 : 0) { case 1: OTHER break; case 0: PLAIN }", (64, 64, 68), (64, 64, 67)),
    "several cases": ("switch (K % 4) { case 0: case 2: PLAIN break; default: OTHER }", (64, 64, 66), (64, 64, 67)),
    "a case that leaves": ("switch (K % 4) { case 1: if (M > N) { OTHER return; } else { exit(1); } case 0: PLAIN }",
                           (64, 64, 68), (64, 64, 65)),
    "default among them": ("switch (K % 4) { case 1: default: PLAIN break; case 3: { OTHER return; } }", (64, 64, 65),
                           (64, 64, 67)),
    "greater or equal": ("CHECK_GE(K, 32); PLAIN", (64, 64, 32), (64, 64, 31)),
}  # fmt: skip


@pytest.mark.parametrize(("body", "inside", "outside"), SIZES.values(), ids=SIZES)
def test_sizes_are_ruled_out(
    tmp_path: Path, body: str, inside: tuple[int, int, int], outside: tuple[int, int, int]
) -> None:
    launch = launch_of(tmp_path, body, before="static bool vectors(int k) { return k % 4 == 0; }")
    assert launch.launched(Problem(*inside)).excluded is None
    found = launch.launched(Problem(*outside)).excluded
    assert found is not None
    assert found.place == "k.cu:14"


UNREAD = {
    "a function": "if (is_small(M, N)) PLAIN",
    "a flag": "if (use_vectors) PLAIN",
}


ADDRESSES = {
    "a remainder": ("if ((uintptr_t)A % 16 == 0) PLAIN", True),
    "bits": ("if (((uintptr_t)(B) & 15) == 0) PLAIN", True),
    "a cast of C++": ("if (reinterpret_cast<std::uintptr_t>(C) % 16 == 0 && K % 4 == 0) PLAIN", True),
    "an element": ("if ((uintptr_t)A[1] % 16 == 0) PLAIN", False),
}


@pytest.mark.parametrize(("body", "is_understood"), ADDRESSES.values(), ids=ADDRESSES)
def test_an_array_begins_at_a_multiple(tmp_path: Path, body: str, is_understood: bool) -> None:
    found = launch_of(tmp_path, body).launched(LARGE)
    assert (found.excluded, found.unread is None) == (None, is_understood)


@pytest.mark.parametrize("body", UNREAD.values(), ids=UNREAD)
def test_a_condition_that_is_not_understood_is_told(tmp_path: Path, body: str) -> None:
    found = launch_of(tmp_path, body).launched(LARGE)
    assert found.excluded is None
    assert found.unread is not None


NO_LIMIT = {
    "a choice of versions": "if (version == 3) PLAIN",
    "errors": "if (cudaMalloc(&buffer, M * N * 4) != cudaSuccess) return; PLAIN",
    "a macro for errors": "CUDA_CHECK(cudaMemset(C, 0, M * N * 4)); PLAIN",
    "rounds": "for (int i = 0; i < 10; ++i) { if (i > 0) PLAIN }",
    "sizes that disagree": "TORCH_CHECK(b_rows == K); PLAIN",
    "what no product meets": "int rows = 7; TORCH_CHECK(rows == K); PLAIN",
    "empty products": "if (M == 0 || N == 0) return; PLAIN",
}


@pytest.mark.parametrize("body", NO_LIMIT.values(), ids=NO_LIMIT)
def test_other_conditions_exclude_nothing(tmp_path: Path, body: str) -> None:
    for problem in (LARGE, Problem(65, 63, 67), LARGE.with_(alpha=2.0, beta=-1.0)):
        found = launch_of(tmp_path, body).launched(problem)
        assert (found.excluded, found.unread) == (None, None)


LEFT_OUT = {
    "a debug build": ("#ifdef DEBUG\nif (K % 4 != 0) return;\n#endif\nOTHER", False),
    "a defined word": ("#define CAREFUL\n#ifdef CAREFUL\nassert(K % 4 == 0);\n#endif\nOTHER", True),
    "unless told": ("#ifndef FAST\nif (K % 4 != 0) return;\n#endif\nOTHER", True),
    "the other build": ("#if defined(DEBUG)\nprintf(0);\n#else\nif (K % 4 != 0) return;\n#endif\nOTHER", True),
    "the launch's own build": ("#ifdef DEBUG\nif (K % 4 != 0) return;\nOTHER\n#endif", True),
}  # fmt: skip


@pytest.mark.parametrize(("body", "counts"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_what_the_preprocessor_leaves_out_is_no_condition(tmp_path: Path, body: str, counts: bool) -> None:
    path = tmp_path / "k.cu"
    text = KERNEL.replace("template <bool PLAIN> ", "").replace("PLAIN ? s : ", "")
    path.write_text(f"{text}\nvoid run({TAKEN}) {{\n{body.replace('OTHER', 'k' + HOW)}\n}}\n", encoding="utf-8")
    launch = user_kernel(path, UserOptions()).geometry
    assert isinstance(launch, UserLaunch)
    assert (launch.launched(LARGE.with_(k=67)).excluded is not None) == counts


LATER = {
    "an assignment": "if (K % 4 != 0) return; K = M; OTHER",
    "around the launch": "if (K % 4 == 0) { K /= 2; OTHER }",
}  # fmt: skip


@pytest.mark.parametrize("body", LATER.values(), ids=LATER)
def test_a_condition_on_an_earlier_value_is_not_read(tmp_path: Path, body: str) -> None:
    found = launch_of(tmp_path, body.replace("OTHER", "PLAIN")).launched(LARGE.with_(k=67))
    assert found.excluded is None
    assert found.unread is not None


@pytest.mark.parametrize(("label", "counts"), [("here: PLAIN", False), ("PLAIN\nhere: return;", True)])
def test_a_goto_leaves_only_for_a_label_behind_the_launch(tmp_path: Path, label: str, counts: bool) -> None:
    launch = launch_of(tmp_path, f"if (K % 4 != 0) goto here;\n{label}")
    assert (launch.launched(LARGE.with_(k=67)).excluded is not None) == counts


MACROS = {
    "warns": ('do { if (!(x)) fprintf(stderr, "slow: %s\\n", #x); } while (0)', False),
    "nothing": ("((void)0)", False),
    "ends": ('do { if (!(x)) { printf("no\\n"); exit(1); } } while (0)', True),
    "a function": ("require(x, __LINE__)", True),
    "leaves": ("if (!(x)) return", True),
}  # fmt: skip


@pytest.mark.parametrize(("body", "counts"), MACROS.values(), ids=MACROS)
def test_a_check_that_only_warns_is_no_condition(tmp_path: Path, body: str, counts: bool) -> None:
    launch = launch_of(tmp_path, "CHECK(K % 4 == 0); PLAIN", before=f"#define CHECK(x) {body}")
    assert (launch.launched(LARGE.with_(k=67)).excluded is not None) == counts


NOTES = {
    "macro": '#define CHECK(x) do { if (!(x)) { puts("no"); ++errors; } } while (0)',
    "function": 'static void CHECK(bool ok) { if (!ok) { puts("x = 1"); failed = true; } }',
}


@pytest.mark.parametrize("before", NOTES.values(), ids=NOTES)
def test_a_check_that_notes_a_failure_may_be_a_condition(tmp_path: Path, before: str) -> None:
    """Host code may stop later, by what was noted: nothing is said of products that the check is against."""
    launch = launch_of(tmp_path, "CHECK(K % 4 == 0); CHECK(beta == 0.f); PLAIN", before=before)
    for problem in (LARGE.with_(k=67), LARGE.with_(beta=2.0)):
        against = launch.launched(problem)
        assert against.excluded is None
        assert against.unread is not None
    assert launch.launched(LARGE).unread is None


FUNCTIONS = {
    "warns": ('void check(bool ok) { if (!ok) fprintf(stderr, "slow\\n"); }', False),
    "returns": ('void check(bool ok) { if (ok) return; printf("slow\\n"); }', False),
    "ends": ('void check(bool ok) { if (!ok) { printf("no\\n"); exit(1); } }', True),
    "throws": ('void check(bool ok) { if (!ok) throw std::runtime_error("no"); }', True),
    "asks another": ("void check(bool ok) { demand(ok); }", True),
    "not known": ("void check(bool ok);", True),
}  # fmt: skip


@pytest.mark.parametrize(("function", "counts"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_function_that_only_warns_is_no_condition(tmp_path: Path, function: str, counts: bool) -> None:
    launch = launch_of(tmp_path, "check(K % 4 == 0); PLAIN", before=function)
    assert (launch.launched(LARGE.with_(k=67)).excluded is not None) == counts


def test_a_macro_of_a_header_that_only_warns_is_no_condition(tmp_path: Path) -> None:
    (tmp_path / "checks.h").write_text('#define CHECK(x) do { if (!(x)) puts("slow"); } while (0)\n')
    launch = launch_of(tmp_path, "CHECK(K % 4 == 0); PLAIN", before='#include "checks.h"')
    assert launch.launched(LARGE.with_(k=67)).excluded is None
