"""Launches whose grid and block other functions make: in objects, pairs, arguments to fill in, members of classes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.kernel.geometry import Dim3
from gemmsmith.problem import Problem
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel

PROBLEM = Problem(100, 250, 64)
GRID, BLOCK = (35, 1, 1), (120, 1, 1)  # 5 times 7 tiles of 24x40
KERNEL = """
__global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K) {
    int tiles = (N + 39) / 40, row = blockIdx.x / tiles * 24 + threadIdx.x / 40, col = blockIdx.x % tiles * 40;
}
#define BLOCKS(m, n) ((((m) + 23) / 24) * (((n) + 39) / 40))
"""
ARGS = "const float* A, const float* B, float* C, int M, int N, int K"
RUN = f"void run({ARGS})"
PASS = "(A, B, C, M, N, K)"
PLAN = "struct Plan { dim3 grid, block; size_t smem = 0; };\n"
USE = f"gemm<<<p.grid, p.block, p.smem>>>{PASS};"

STYLES = {
    "pointers": "void fill(int m, int n, dim3* g, dim3* b) { b->x = 120; b->y = 1; *g = dim3(BLOCKS(m, n)); }\n"
    f"{RUN} {{ dim3 grid, block; fill(M, N, &grid, &block); gemm<<<grid, block>>>{PASS}; }}",
    "references": "void fill(int m, int n, dim3& g, dim3& b) { b = dim3(120); g.x = BLOCKS(m, n); }\n"
    f"{RUN} {{ dim3 grid, block; fill(M, N, grid, block); gemm<<<grid, block>>>{PASS}; }}",
    "a check": "int fill(int m, int n, int* g, int* b) { if (!g) return 1; *b = 120; *g = (m + 23) / 24;"
    " *g *= (n + 39) / 40; return 0; }\n"
    f"{RUN} {{ int g = 0, b = 0; if (fill(M, N, &g, &b) != 0) return; gemm<<<g, b>>>{PASS}; }}",
    "branches": "void fill(int m, int n, dim3* g, dim3* b) { if (m > 9999) { *g = 7; *b = 64; }"
    " else { *g = dim3(BLOCKS(m, n)); *b = dim3(120); } }\n"
    f"{RUN} {{ dim3 grid, block; fill(M, N, &grid, &block); gemm<<<grid, block>>>{PASS}; }}",
    "an array": "void fill(int m, int n, int dims[2]) { dims[0] = BLOCKS(m, n); dims[1] = 120; }\n"
    f"{RUN} {{ int dims[2]; fill(M, N, dims); gemm<<<dims[0], dims[1]>>>{PASS}; }}",
    "what is set later": "void fill(dim3* g, dim3* b) { *g = dim3(1); *b = dim3(64, 2); }\n"
    f"{RUN} {{ dim3 grid, block; fill(&grid, &block); block.x = 120; block.y = 1; grid = dim3(BLOCKS(M, N));"
    f" gemm<<<grid, block>>>{PASS}; }}",
    "what is only read": "void show(dim3 g, const dim3* b) { g.x = 1; }\n"
    f"{RUN} {{ dim3 grid(BLOCKS(M, N)), block(120); show(grid, &block); gemm<<<grid, block>>>{PASS}; }}",
    "a struct": PLAN + "Plan plan(int m, int n) { Plan p; p.block = 120; p.grid = dim3(BLOCKS(m, n)); return p; }\n"
    f"{RUN} {{ Plan p = plan(M, N); {USE} }}",
    "a struct by branches": PLAN + "Plan plan(int m, int n) { Plan p; if (m > 9999) { p.grid = dim3(7); p.block = 64; }"
    " else { p.grid = dim3(BLOCKS(m, n)); p.block = dim3(120); } return p; }\n"
    f"{RUN} {{ Plan p = plan(M, N); {USE} }}",
    "a list": PLAN + "Plan plan(int m, int n) { if (m > 9999) return {dim3(7), dim3(64)};"
    " return {dim3(BLOCKS(m, n)), dim3(120)}; }\n"
    f"{RUN} {{ auto p = plan(M, N); {USE} }}",
    "a designated list": PLAN + "Plan plan(int m, int n) { return Plan{.grid = dim3(BLOCKS(m, n)), .block = 120}; }\n"
    f"{RUN} {{ const Plan p = plan(M, N); {USE} }}",
    "a struct to fill in": PLAN + "void plan(int m, int n, Plan* p) { p->grid.x = BLOCKS(m, n); p->block = 120; }\n"
    f"{RUN} {{ Plan p; plan(M, N, &p); {USE} }}",
    "a struct that is passed on": PLAN + "Plan plan(int m, int n) { Plan p{}; p.grid.x = BLOCKS(m, n); p.block.x = 120;"
    f" return p; }}\nvoid launch(const Plan& p, {ARGS}) {{ {USE} }}\n"
    f"{RUN} {{ launch(plan(M, N), A, B, C, M, N, K); }}",
    "a nested struct": "struct Plan { struct { dim3 grid, block; } launch; };\nstruct Shape { int m, n; };\n"
    "void fill(const Shape& s, Plan* p) { p->launch.grid = BLOCKS(s.m, s.n); p->launch.block = 120; }\n"
    f"{RUN} {{ Shape s{{M, N}}; Plan p; fill(s, &p); gemm<<<p.launch.grid, p.launch.block>>>{PASS}; }}",
    "a table": "struct Tile { int m, n, threads; };\nstatic const Tile kTiles[] = {{24, 40, 120}, {48, 40, 240}};\n"
    f"{RUN} {{ const Tile t = kTiles[0]; gemm<<<((M + t.m - 1) / t.m) * ((N + t.n - 1) / t.n), t.threads>>>{PASS}; }}",
    "one of two constants": "struct Tile { int m, n, threads; };\nconst Tile kA = {24, 40, 120}, kB = {8, 8, 64};\n"
    f"{RUN} {{ const Tile& t = M > 9999 ? kB : kA;"
    f" gemm<<<((M + t.m - 1) / t.m) * ((N + t.n - 1) / t.n), t.threads>>>{PASS}; }}",
    "a pair": "std::pair<dim3, dim3> plan(int m, int n) { dim3 b(120); dim3 g(BLOCKS(m, n)); return {g, b}; }\n"
    f"{RUN} {{ auto p = plan(M, N); gemm<<<p.first, p.second>>>{PASS}; }}",
    "a binding": "auto plan(int m, int n) { return std::make_pair(dim3(BLOCKS(m, n)), dim3(120)); }\n"
    f"{RUN} {{ auto [grid, block] = plan(M, N); gemm<<<grid, block>>>{PASS}; }}",
    "a binding of a struct": PLAN + "Plan plan(int m, int n) { return Plan{dim3(BLOCKS(m, n)), dim3(120)}; }\n"
    f"{RUN} {{ const auto [g, b, s] = plan(M, N); gemm<<<g, b, s>>>{PASS}; }}",
    "a tie": "std::tuple<dim3, dim3> plan(int m, int n) { return std::make_tuple(dim3(BLOCKS(m, n)), dim3(120)); }\n"
    f"{RUN} {{ dim3 g, b; std::tie(g, b) = plan(M, N); gemm<<<g, b>>>{PASS}; }}",
    "members that a constructor builds": "class Gemm { int m_, n_, k_; dim3 block_, grid_;\n"
    "public: Gemm(int m, int n, int k) : m_(m), n_(n), k_(k), block_(120), grid_(BLOCKS(m, n)) {}\n"
    "void run(const float* A, const float* B, float* C) { gemm<<<grid_, block_>>>(A, B, C, m_, n_, k_); } };",
    "members that a function sets": "struct Gemm { int m, n, k; dim3 grid, block{120};\n"
    "void set(int M, int N, int K) { m = M; n = N; k = K; grid = dim3(BLOCKS(m, n)); }\n"
    "void run(const float* A, const float* B, float* C) { gemm<<<this->grid, this->block>>>(A, B, C, m, n, k); } };",
    "an object without a caller": "struct Gemm { int M, N, K; dim3 grid, block;\n"
    "Gemm(int M, int N, int K) : M(M), N(N), K(K), grid(BLOCKS(M, N)), block(120) {} };\n"
    "void run(const Gemm& g, const float* A, const float* B, float* C) {"
    " gemm<<<g.grid, g.block>>>(A, B, C, g.M, g.N, g.K); }",
    "functions of an object": "class Tiles { int rows_, cols_; public:\n"
    "Tiles(int m, int n) : rows_((m + 23) / 24), cols_((n + 39) / 40) {}\n"
    "dim3 grid() const { return dim3(rows_ * cols_); } dim3 block() const { return {120, 1, 1}; } };\n"
    f"{RUN} {{ Tiles t(M, N); gemm<<<t.grid(), t.block()>>>{PASS}; }}",
    "a lambda's parameters": f"{RUN} {{ auto go = [&](dim3 grid, int threads) {{ gemm<<<grid, threads>>>{PASS}; }};"
    " go(dim3(BLOCKS(M, N)), 120); }",
    "std::array": f"{RUN} {{ std::array<unsigned, 3> b = {{120, 1, 1}}; int g[2] = {{BLOCKS(M, N), 1}};"
    f" gemm<<<dim3(g[0], g[1]), dim3(b[0], b[1], b[2])>>>{PASS}; }}",
    "a configuration that is returned": "cudaLaunchConfig_t plan(int m, int n) { cudaLaunchConfig_t c = {0};"
    " c.gridDim = dim3(BLOCKS(m, n)); c.blockDim = dim3(120); return c; }\n"
    f"{RUN} {{ auto c = plan(M, N); cudaLaunchKernelEx(&c, gemm, A, B, C, M, N, K); }}",
    "a configuration that is filled in": "void plan(cudaLaunchConfig_t& c, cudaLaunchAttribute* at, int m, int n) {"
    " c.gridDim = dim3(BLOCKS(m, n)); c.blockDim = dim3(120); c.dynamicSmemBytes = 0; c.attrs = at; c.numAttrs = 0; }\n"
    f"{RUN} {{ cudaLaunchConfig_t c = {{}}; cudaLaunchAttribute at[1]; plan(c, at, M, N);"
    " cudaLaunchKernelEx(&c, gemm, A, B, C, M, N, K); }",
}  # fmt: skip

NOT_TOLD = {
    "no body": "void fill(int m, int n, dim3& g, dim3& b);\n"
    f"{RUN} {{ dim3 grid, block; fill(M, N, grid, block); gemm<<<grid, block>>>{PASS}; }}",
    "changed again": "void fill(int m, int n, dim3* g, dim3* b) { *b = 120; *g = dim3(BLOCKS(m, n)); }\n"
    f"{RUN} {{ dim3 grid, block; fill(M, N, &grid, &block); if (wide()) block = dim3(240);"
    f" gemm<<<grid, block>>>{PASS}; }}",
    "decided at run time": PLAN + "Plan plan(int m, int n) { Plan p; if (tuned()) { p.grid = dim3(m); p.block = 64; }"
    " else { p.grid = dim3(BLOCKS(m, n)); p.block = dim3(120); } return p; }\n"
    f"{RUN} {{ Plan p = plan(M, N); {USE} }}",
}


def launch_of(folder: Path, host: str) -> tuple[tuple[Dim3, Dim3, int], tuple[str, str]]:
    file = folder / "k.cu"
    file.write_text(KERNEL + host)
    kernel = user_kernel(file, UserOptions())
    geometry = kernel.geometry(PROBLEM, kernel.config())
    return (geometry.grid, geometry.block, geometry.smem), kernel.geometry.sources(PROBLEM)


@pytest.mark.parametrize("host", STYLES.values(), ids=STYLES)
def test_the_launch_is_found(tmp_path: Path, host: str) -> None:
    assert launch_of(tmp_path, host) == ((GRID, BLOCK, 0), ("launch site", "launch site"))


@pytest.mark.parametrize("host", NOT_TOLD.values(), ids=NOT_TOLD)
def test_what_host_code_does_not_tell_is_not_taken_from_it(tmp_path: Path, host: str) -> None:
    assert launch_of(tmp_path, host)[1][0] == "guessed"
