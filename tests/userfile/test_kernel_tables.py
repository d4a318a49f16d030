"""Kernels that are launched through tables, structs and functions: which ones, and with which grid and block."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.cli.main import run_command
from gemmsmith.userfile.files.project import Project
from gemmsmith.userfile.kernels.user_kernel import UserOptions, geometry_source, user_kernel
from gemmsmith.userfile.launches.launch_site import launch_sites

ABC = "const float* A, const float* B, float* C, int M, int N, int K"
KERNELS = f"""typedef void (*Gemm)({ABC});
template <int T> __global__ void mine({ABC}) {{ int x = blockIdx.x + threadIdx.x; }}
__global__ void plain({ABC}) {{ int x = blockIdx.x + threadIdx.x; }}
"""
GRID = "dim3((N + {t} - 1) / {t}, (M + {t} - 1) / {t})"
CALL = f"<<<{GRID}, {{t}} * {{t}}>>>(A, B, C, M, N, K);"
BY_TILE = CALL.format(t="tile")
STRUCT = "struct Version { const char* name; Gemm run; int tile; };\n"

# The host code, and the launches of mine: template argument and block.
STYLES = {
    "an array of kernels and one of tiles": (
        "Gemm const table[] = {plain, mine<8>, mine<4>}; const int tiles[] = {2, 8, 4};\n"
        f"void run(int i, {ABC}) {{ int tile = tiles[i]; table[i]{BY_TILE} }}"
    ),
    "an array of structs": (
        STRUCT + 'static const Version versions[] = {{"a", mine<8>, 8}, {"b", plain, 2}, {"c", &mine<4>, 4}};\n'
        f"void run(int i, {ABC}) {{ versions[i].run{CALL.format(t='versions[i].tile')} }}"
    ),
    "a loop over structs": (
        STRUCT + "#include <vector>\n"
        'int main() { float *A, *B, *C; int M = 64, N = 64, K = 64;\n'
        '  std::vector<Version> all = {{"a", mine<8>, 8}, {"c", mine<4>, 4}};\n'
        f"  for (const Version& v : all) v.run{CALL.format(t='v.tile')} }}"
    ),
    "a reference to an element": (
        STRUCT + 'Version versions[] = {{"a", mine<8>, 8}, {"c", mine<4>, 4}};\n'
        f"void run(int i, {ABC}) {{ const Version& v = versions[i]; v.run{CALL.format(t='v.tile')} }}"
    ),
    "designated members, a pointer to a function": (
        f"struct Version {{ int tile; void (*run)({ABC}); }};\n"
        "Version versions[] = {{.tile = 8, .run = mine<8>}, {.tile = 4, .run = mine<4>}};\n"
        f"void run(int i, {ABC}) {{ versions[i].run{CALL.format(t='versions[i].tile')} }}"
    ),
    "a struct that the caller passes": (
        STRUCT + f"void go(const Version& v, {ABC}) {{ v.run{CALL.format(t='v.tile')} }}\n"
        'Version versions[] = {{"a", mine<8>, 8}, {"c", mine<4>, 4}};\n'
        f"void run({ABC}) {{ for (auto& each : versions) go(each, A, B, C, M, N, K); }}"
    ),
    "names of a structured binding": (
        f"void go(Gemm g, int tile, {ABC}) {{ g{BY_TILE} }}\n"
        f"void run({ABC}) {{ std::vector<std::tuple<int, Gemm>> all{{{{8, mine<8>}}, {{4, mine<4>}}}};\n"
        "  for (auto& [side, kernel] : all) go(kernel, side, A, B, C, M, N, K); }"
    ),
    "a map by tile": (
        "std::map<int, Gemm> table = {{8, mine<8>}, {4, mine<4>}};\n"
        f"void run(int tile, {ABC}) {{ table.at(tile){BY_TILE} }}"
    ),
    "a function that returns one": (
        "Gemm pick(int t) { switch (t) { case 8: return mine<8>; case 4: return mine<4>; default: return plain; } }\n"
        f"void run(int tile, {ABC}) {{ Gemm g = pick(tile); g{BY_TILE} }}"
    ),
    "branches that assign kernel and tile": (
        f"void run(int i, {ABC}) {{ Gemm g; int tile;\n"
        "  if (i == 0) { g = mine<8>; tile = 8; } else { g = mine<4>; tile = 4; }\n"
        f"  g{BY_TILE} }}"
    ),
    "cases that assign kernel and tile": (
        f"void run(int i, {ABC}) {{ Gemm g; int tile;\n"
        "  switch (i) { case 0: g = mine<8>; tile = 8; break; case 1: g = mine<4>; tile = 4; break; }\n"
        f"  g{BY_TILE} }}"
    ),
    "a lambda that kernel and tile are passed to": (
        f"void run({ABC}) {{\n  auto go = [&](auto kernel, int tile) {{ kernel{BY_TILE} }};\n"
        "  go(mine<8>, 8);\n  go(mine<4>, 4);\n  go(plain, 2); }"
    ),
}  # fmt: skip


def _read(tmp_path: Path, host: str) -> Path:
    file = tmp_path / "k.cu"
    file.write_text(KERNELS + host, encoding="utf-8")
    return file


@pytest.mark.parametrize("style", STYLES)
def test_each_entry_is_a_launch(style: str, tmp_path: Path) -> None:
    file = _read(tmp_path, STYLES[style])
    project = Project.of(file, (), ())
    kernel = next(each for each in project.sources(file)[0].kernels if each.name == "mine")
    assert {site.template for site in launch_sites(project, kernel)} == {("8",), ("4",)}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("tile", [8, 4])
def test_grid_and_block_are_those_of_the_entry(style: str, tile: int, tmp_path: Path) -> None:
    file = _read(tmp_path, STYLES[style])
    options = UserOptions(entry=f"mine<{tile}>")
    spec = user_kernel(file, options)
    geometry = spec.geometry(spec.problem(64, 32, 16), spec.config({}))
    assert geometry_source(file, options) == "launch site"
    assert (geometry.grid, geometry.block) == ((32 // tile, 64 // tile, 1), (tile * tile, 1, 1))


def test_another_kernel_of_the_table_is_not_this_one(tmp_path: Path) -> None:
    """A launch of the table launches kernels that it has, and no others."""
    file = _read(tmp_path, f"Gemm table[] = {{plain}};\nvoid run(int i, {ABC}) {{ table[i]{CALL.format(t=8)} }}")
    project = Project.of(file, (), ())
    found = {each.name: list(launch_sites(project, each)) for each in project.sources(file)[0].kernels}
    assert found["mine"] == []
    assert len(found["plain"]) == 1


PRODUCT = f"""
__global__ void product({ABC}) {{
    int row = blockIdx.y * 16 + threadIdx.x / 16, col = blockIdx.x * 16 + threadIdx.x % 16;
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}}
"""
THROUGH_A_TABLE = f"""typedef void (*Gemm)({ABC});
Gemm table[] = {{product}};
void run(int i, {ABC}) {{ table[i]<<<dim3((N + 15) / 16, (M + 15) / 16), 256>>>(A, B, C, M, N, K); }}
"""


@pytest.mark.parametrize(("first", "code"), [(0, 0), (1, 1)])
def test_a_product_of_a_table_is_judged(
    first: int, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.cu").write_text(PRODUCT.replace("k = 0", f"k = {first}") + THROUGH_A_TABLE, encoding="utf-8")
    assert run_command(["check", str(tmp_path / "k.cu"), "--cures", "0", "--trial", "random data"]) == code
    assert "(from host code)" in capsys.readouterr().out


def test_a_launch_found_by_trying_has_tiles_that_do_not_overlap(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Blocks of 1,024 threads would write a rectangle, too, into which the next block writes."""
    (tmp_path / "k.cu").write_text(PRODUCT, encoding="utf-8")
    shape = ["--m", "193", "--n", "15", "--k", "5", "--trial", "random data"]
    assert run_command(["check", str(tmp_path / "k.cu"), "--cures", "0", *shape]) == 0
    assert "--grid 'ceil(N/16),ceil(M/16)' --block 256" in " ".join(capsys.readouterr().out.split())
