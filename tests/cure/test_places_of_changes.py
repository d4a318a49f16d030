"""Of several changes that cure, the one that a teacher would make comes first, without running any."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from gemmsmith.cure import accumulators, epilogues, indices, prefetches, swizzles, tile_orders
from gemmsmith.cure.barriers import barriers
from gemmsmith.cure.candidates import candidates
from gemmsmith.cure.code import Code, Program
from gemmsmith.cure.edit import applied
from gemmsmith.cure.fault import Access, Fault, Race
from gemmsmith.cure.passed_pitches import passed_pitches

FILE = Path("kernel.cu")
NAMES = {name: name for name in ("A", "B", "C", "M", "N", "K")}


def program(body: str, host: str = "") -> Program:
    text = f"__global__ void k(const float* A, const float* B, float* C, int M, int N, int K) {{\n{body}\n}}\n{host}"
    line = next((i for i, each in enumerate(text.split("\n"), 1) if "<<<" in each), 0)
    return Program((Code(FILE, text),), "k", NAMES, (FILE, line) if line else None)


SUMS = """  float acc[4][4];
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) acc[SUM] += a[i] * b[j];
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) C[(row + i) * N + col + j] = acc[STORE];"""


def test_swapped_indices_are_those_against_the_order_of_the_loops() -> None:
    of = program(SUMS.replace("SUM", "i][j").replace("STORE", "j][i"))
    assert next(indices.swapped_indices(of)).change == "write `acc[i][j]` in line 6"
    of = program(SUMS.replace("SUM", "j][i").replace("STORE", "i][j"))
    assert next(indices.swapped_indices(of)).change == "write `acc[i][j]` in line 4"


def test_the_distance_of_rows_that_is_passed_with_a_local_pointer() -> None:
    of = program("  float* out = C + row * N + col;\n  store_tile(out, acc, K);")
    likely, _ = indices.leading_dimensions(of)
    assert [each.change for each in likely] == ["write `N` for `K` in line 3: `store_tile(out, acc, N)`"]
    assert "passes K as the leading dimension of C" in likely[0].cause


def test_a_function_that_swizzles_is_called_at_the_other_side() -> None:
    of = program("  __shared__ float s[32][32];\n  s[ty][mix(ty, tx)] = A[i];\n  acc += s[ty][k] * B[k];")
    first, second = (dict(applied(each.edits, of.files))[FILE] for each in swizzles.unlike_swizzles(of))
    assert "s[ty][mix(ty, k)] * B[k]" in first
    assert "s[ty][tx] = A[i]" in second
    of = program("  __shared__ float s[32][32];\n  s[ty][mix(tx, ty)] = A[i];\n  acc += s[k][mix(tx, k)] * B[k];")
    assert list(swizzles.unlike_swizzles(of)) == []


def test_the_last_tile_is_multiplied_and_nothing_else() -> None:
    of = program("""  __shared__ float s[16];
  for (int t = 0; t < tiles; ++t) {
    r = A[t * 16 + x];
    for (int i = 0; i < 16; ++i) acc += s[i];
    __syncthreads();
    s[x] = r;
    __syncthreads();
  }
  C[x] = acc;""")
    first, whole = (each.edits[0].text for each in prefetches.unused_tiles(of))
    assert first == "\n    for (int i = 0; i < 16; ++i) acc += s[i];"
    assert "s[x] = r;" in whole


def test_a_step_that_the_launch_contradicts_comes_first() -> None:
    host = "void go() {\n  k<<<dim3((N + 63) / 64, (M + 15) / 16), dim3(32, 16)>>>(A, B, C, M, N, K);\n}\n"
    body = """  int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
  C[row * N + col] = A[row * K] * B[col];"""
    first = next(islice(candidates(program(body, host), Fault("value", unwritten=True, squares_pass=True)), 1))
    assert first.kind == "wrong-block-step"
    assert "blockIdx.x * 64" in first.change


def test_swapped_indices_are_those_that_put_the_fastest_thread_first() -> None:
    of = program("  int x = threadIdx.x, y = threadIdx.y;\n  b[y][x] = B[i];\n  acc += a[y][k] * b[x][k];")
    assert next(indices.swapped_indices(of)).change == "write `b[k][x]` in line 4"


def test_the_distance_of_rows_of_a_shared_array() -> None:
    stored = "  __shared__ half s[16 * PITCH], t[16][24];\n  s[i * PITCH + j] = A[i];\n  t[i][j] = B[i];\n"
    of = program(f"{stored}  load_matrix_sync(f, s, 16);\n  load_matrix_sync(g, t[0], 16);")
    made = [dict(applied(each.edits, of.files))[FILE] for each in passed_pitches(of)]
    assert ["(f, s, PITCH)" in text for text in made] == [True, False]
    assert "(g, t[0], 24)" in made[1]
    assert not list(passed_pitches(program(f"{stored}  load_matrix_sync(f, s, PITCH);")))


def test_a_sum_that_starts_at_one() -> None:
    of = program(
        "  float s = 1.f, t = 2.f, u = 0.f;\n  s += A[0];\n  u += t;\n  for (int k = 1; k < K; k += 2) s += A[k];"
    )
    assert [each.change for each in accumulators.misset(of)] == ["write `s = 0.f` in line 2"]


def test_the_old_value_of_c_is_the_one_that_was_read() -> None:
    body = """  float s = 0.f;
  s += A[i];
  float old = beta == 0.f ? 0.f : C[i];
  C[i] = alpha * s + beta + old;"""
    text = f"__global__ void k(float alpha, const float* A, float beta, float* C) {{\n{body}\n}}\n"
    of = Program((Code(FILE, text),), "k", NAMES | {"alpha": "alpha", "beta": "beta"})
    assert next(epilogues.rewritten_stores(of)).change == "write `alpha * s + beta * old` in line 5"


def test_the_row_is_the_quotient() -> None:
    of = program("  int row = warp % 2;\n  int col = warp % 2;")
    assert "line 2" in next(tile_orders.repeated_quotients(of)).change
    of = program("  int row = warp / 2;\n  int col = warp / 2;")
    assert "line 3" in next(tile_orders.repeated_quotients(of)).change


def test_two_missing_barriers_are_told_in_the_order_of_the_lines() -> None:
    of = program("  __shared__ float s[16];\n  for (int k = 0; k < K; ++k) {\n    s[x] = A[k];\n    acc += s[y];\n  }")
    write, read = Access("write", (FILE.name, 4)), Access("read", (FILE.name, 5))
    races = tuple(Race(*pair, True, False, False, False) for pair in ((write, read), (read, write)))
    both = next(each for each in barriers(of, Fault("race", races)) if len(each.edits) > 1)
    assert both.cause == ("no barrier between the write in line 4 and the read in line 5, and no barrier between "
                          "the read in line 5 and the write in line 4 in the next iteration")  # fmt: skip
