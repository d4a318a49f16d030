"""Changes that are proposed for a text, without running any: what they write, and what they leave alone."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from gemmsmith.cure import accumulators, bounds, copies, epilogues, indices, launches, stages, swizzles, tails
from gemmsmith.cure.branches import dissolved_branches
from gemmsmith.cure.code import Code, Program
from gemmsmith.cure.edit import Candidate, applied
from gemmsmith.cure.fault import Access, Fault, Race

FILE = Path("kernel.cu")
NAMES = {name: name for name in ("A", "B", "C", "M", "N", "K")}
SCALED = NAMES | {"alpha": "alpha", "beta": "beta"}


def program(body: str, names: dict[str, str] = NAMES, host: str = "") -> Program:
    text = f"__global__ void k(const float* A, const float* B, float* C, int M, int N, int K) {{\n{body}\n}}\n{host}"
    line = next((i for i, each in enumerate(text.split("\n"), 1) if "<<<" in each), 0)
    return Program((Code(FILE, text),), "k", names, (FILE, line) if line else None)


def texts(made: Iterable[Candidate], of: Program) -> list[str]:
    """The whole text after each change."""
    return [dict(applied(each.edits, of.files, shown=True))[FILE] for each in made]


# --- stages of a buffer

BUFFER = """  __shared__ float a[2][16][16], b[2][16][16];
  int stage = 0;
  for (int t = 0; t < K; t += 16) {
    int other = stage ^ 1;
    a[STORED][y][x] = A[i];
    b[STORED][y][x] = B[i];
    acc += a[stage][y][t] * b[READ][t][x];
    stage ^= 1;
  }"""


def test_an_access_to_another_stage_than_its_partner() -> None:
    of = program(BUFFER.replace("STORED", "other").replace("READ", "other"))
    first = texts(stages.unlike_stages(of), of)[0]
    assert "a[stage][y][t] * b[stage][t][x]" in first
    assert "a[other][y][x] = A[i]" in first


def test_a_buffer_whose_statements_agree_is_left_alone() -> None:
    of = program(BUFFER.replace("STORED", "other").replace("READ", "stage"))
    assert texts(stages.unlike_stages(of), of) == []


def test_racing_stores_go_to_another_stage_together() -> None:
    of = program(BUFFER.replace("STORED", "stage").replace("READ", "stage"))
    race = Race(Access("write", (FILE.name, 6)), Access("read", (FILE.name, 8)), True, False, False, False)
    first = texts(stages.racing_stores(of, Fault("race", (race,))), of)[0]
    assert "a[other][y][x] = A[i]" in first
    assert "b[other][y][x] = B[i]" in first
    assert "a[stage][y][t] * b[stage][t][x]" in first


def test_stages_that_are_never_swapped() -> None:
    body = BUFFER.replace("STORED", "other").replace("READ", "stage").replace("    stage ^= 1;\n", "")
    of = program(body.replace("    int other = stage ^ 1;\n", "").replace("[other]", "[stage ^ 1]"))
    (mended,) = texts(stages.unswitched(of), of)
    assert mended.index("b[stage][t][x]") < mended.index("stage = stage ^ 1;")
    of = program(BUFFER.replace("STORED", "stage ^ 1").replace("READ", "stage"))
    assert texts(stages.unswitched(of), of) == [], "it swaps them"


# --- guards and tiles


@pytest.mark.parametrize(
    ("guard", "mended"),
    [
        ("if (i < M || j < N) C[i] = 0;", "if (i < M && j < N)"),
        ("if (i >= M && j >= N) return;", "if (i >= M || j >= N)"),
        ("if (i < M && j < N) C[i] = 0;", ""),
        ("if (i >= M || j >= N) return;", ""),
    ],
)
def test_a_guard_with_the_wrong_operator(guard: str, mended: str) -> None:
    of = program(f"  {guard}")
    assert [mended in text for text in texts(bounds.logical_operators(of), of)] == [True] * bool(mended)


def test_a_block_that_is_placed_by_another_tile() -> None:
    of = program("  int row = blockIdx.y * BN, col = blockIdx.x * BN, part = blockIdx.z * BM;")
    assert any("row = blockIdx.y * BM" in text for text in texts(indices.tile_constants(of), of))


# --- swizzles


@pytest.mark.parametrize(
    ("store", "read", "mended"),
    [
        ("s[ty * 32 + (tx ^ (ty & 7))]", "s[k * 32 + tx]", "s[k * 32 + (tx ^ (k & 7))]"),
        ("s[ty][tx ^ (ty & 7)]", "s[k][tx]", "s[k][tx ^ (k & 7)]"),
        ("s[ty][tx ^ (ty & 7)]", "s[k][tx ^ (k & 3)]", "s[k][tx ^ (k & 7)]"),
        ("s[ty][tx]", "s[k][tx ^ (k & 7)]", "s[ty][tx ^ (ty & 7)]"),
    ],
)
def test_a_swizzle_is_applied_at_the_other_side(store: str, read: str, mended: str) -> None:
    size = "[1024]" if "32" in store else "[32][32]"
    of = program(f"  __shared__ float s{size};\n  {store} = A[i];\n  acc += {read};")
    assert any(mended in text for text in texts(swizzles.unlike_swizzles(of), of))


def test_equal_swizzles_are_left_alone() -> None:
    of = program("  __shared__ float s[32][32];\n  s[ty][tx ^ (ty & 7)] = A[i];\n  acc += s[k][tx ^ (k & 7)];")
    assert texts(swizzles.unlike_swizzles(of), of) == []


# --- epilogues

SUM = "  float acc = 0;\n  float old = C[i];\n  for (int k = 0; k < K; ++k) acc += A[k] * B[k];\n  C[i] = STORED;"


@pytest.mark.parametrize(
    ("stored", "mended"),
    [
        ("old + alpha * acc * beta", "alpha * acc + beta * old"),
        ("beta * acc + alpha * C[i]", "alpha * acc + beta * C[i]"),
        ("acc", "alpha * acc + beta * C[i]"),
    ],
)
def test_alpha_and_beta_at_the_wrong_terms(stored: str, mended: str) -> None:
    of = program(SUM.replace("STORED", stored), SCALED)
    assert f"C[i] = {mended};" in texts(epilogues.rewritten_stores(of), of)[0]


@pytest.mark.parametrize("stored", ["alpha * acc + beta * C[i]", "beta * old + acc * alpha"])
def test_a_right_epilogue_is_left_alone(stored: str) -> None:
    of = program(SUM.replace("STORED", stored), SCALED)
    assert texts(epilogues.rewritten_stores(of), of) == []


@pytest.mark.parametrize("once", ["acc = relu(acc);", "acc *= scale;", "acc += bias[j];", "if (acc < 0) acc = 0;"])
def test_what_belongs_behind_the_loop(once: str) -> None:
    of = program(f"  float acc = 0;\n  for (int k = 0; k < K; ++k) {{\n    acc += A[k] * B[k];\n    {once}\n  }}\n"
                 "  C[i] = acc;")  # fmt: skip
    without, moved = texts(epilogues.too_often(of), of)
    assert once not in without
    assert moved.index("}") < moved.index(once) < moved.index("C[i]")


@pytest.mark.parametrize("inside", ["pa += 16;", "k0 += 16;", "acc += A[k] * B[k];", "acc = fmaf(A[k], B[k], acc);"])
def test_what_belongs_into_the_loop(inside: str) -> None:
    of = program(f"""  const float* pa = A;
  float acc = 0;
  for (int k = 0; k < K; ++k) {{
    acc += A[k0] * *pa;
    {inside}
  }}
  C[i] = acc;""")
    assert texts(epilogues.too_often(of), of) == []


def test_a_bias_after_the_activation() -> None:
    of = program(SUM.replace("STORED", "fmaxf(acc, 0.f) + bias[j]"))
    assert "C[i] = fmaxf(acc + bias[j], 0.f);" in texts(epilogues.late_biases(of), of)[0]


def test_an_activation_of_every_product() -> None:
    of = program("  float h = 0;\n  for (int k = 0; k < K; ++k) h += act(A[k] * B[k]);\n  C[i] = act(h);")
    assert "h += A[k] * B[k];" in texts(epilogues.activated_terms(of), of)[0]
    of = program("  float h = 0;\n  for (int k = 0; k < K; ++k) h += to_float(A[k]) * to_float(B[k]);\n  C[i] = h;")
    assert texts(epilogues.activated_terms(of), of) == []


@pytest.mark.parametrize("step", ["2 * BK", "BM"])
def test_a_loop_that_goes_too_far(step: str) -> None:
    of = program(f"  __shared__ float a[BM][BK];\n  for (int k = 0; k < K; k += {step}) a[y][x] = A[k];")
    made = tails.wrong_steps(of, computed="*" in step)
    assert any("k += BK)" in text for text in texts(made, of))


# --- sums that are set in the loop


@pytest.mark.parametrize(
    ("reset", "add"),
    [("acc = 0.0f;", "acc += A[k] * B[k];"), ("wmma::fill_fragment(acc, 0.0f);", "wmma::mma_sync(acc, a, b, acc);")],
)
def test_a_sum_that_every_iteration_sets(reset: str, add: str) -> None:
    of = program(f"  float acc;\n  for (int k = 0; k < K; ++k) {{\n    {reset}\n    {add}\n  }}")
    (mended,) = texts(accumulators.reset_too_often(of), of)
    assert mended.index(reset) < mended.index("for")
    assert mended.count(reset) == 1


# --- barriers, waits and grids


def test_an_if_around_loads_and_barrier_becomes_guards() -> None:
    of = program("""  __shared__ float a[16][16], b[16][16];
  for (int p = 0; p < K; p += 16) {
    if (i < M && j < N) {
      a[y][x] = (p + x < K) ? A[i * K + p + x] : 0.f;
      b[y][x] = (p + y < K) ? B[(p + y) * N + j] : 0.f;
      __syncthreads();
      acc += a[y][0] * b[0][x];
    }
  }
  if (i < M && j < N) C[i * N + j] = acc;""")
    barrier = next(i for i, line in enumerate(of.files[0].text.split("\n"), 1) if "__syncthreads" in line)
    (mended,) = texts(dissolved_branches(of, Fault("value", exited=((FILE.name, barrier),))), of)
    assert "(p + x < K && i < M) ? A[" in mended
    assert "(p + y < K && j < N) ? B[" in mended
    assert mended.count("if (i < M && j < N)") == 1, "the store keeps its guard"


def test_a_named_number_of_groups_in_flight() -> None:
    of = program("  __pipeline_wait_prior(STAGES);\n  __syncthreads();")
    found = texts(copies._smaller_counts(of), of)
    assert ["wait_prior(STAGES - 1)" in found[0], "wait_prior(STAGES - 2)" in found[1]] == [True, True]


@pytest.mark.parametrize(
    ("helper", "mended"),
    [
        ("int count(int n, int t) { return n / t; }", "return (n + t - 1) / t;"),
        ("#define count(n, t) ((n) / (t))", "(((n) + (t) - 1) / (t))"),
        ("#define count(n, t) (n / t)", "((n + t - 1) / t)"),
    ],
)
def test_a_helper_that_rounds_the_grid_down(helper: str, mended: str) -> None:
    host = f"{helper}\nvoid run() {{\n  k<<<dim3(count(N, 16), count(M, 16)), 256>>>(A, B, C, M, N, K);\n}}\n"
    of = program("", host=host)
    assert mended in texts(launches.floor_grids(of), of)[0]


@pytest.mark.parametrize("helper", ["int count(int n, int t) { return (n + t - 1) / t; }",
                                    "#define count(n, t) (((n) + (t) - 1) / (t))"])  # fmt: skip
def test_a_helper_that_rounds_up_is_left_alone(helper: str) -> None:
    host = f"{helper}\nvoid run() {{\n  k<<<dim3(count(N, 16), count(M, 16)), 256>>>(A, B, C, M, N, K);\n}}\n"
    of = program("", host=host)
    assert texts(launches.floor_grids(of), of) == []
