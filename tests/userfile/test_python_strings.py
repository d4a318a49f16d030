"""Kernels in strings of Python and C++ files: the CUDA text that is made of them, and its launches."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.userfile.text.cuda_text import cuda_text

BODY = """extern "C" __global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
}"""


def made(text: str, name: str = "k.py") -> str:
    return cuda_text(Path(name), text)


def lines_with(text: str, word: str) -> list[int]:
    return [number for number, line in enumerate(text.split("\n"), 1) if word in line]


def test_lines_stay_where_they_are() -> None:
    source = f"import cupy\n\nk = cupy.RawKernel(r'''\n{BODY}\n''', 'mm')\nprint(1)\n"
    found = made(source)
    assert lines_with(found, "__global__") == lines_with(source, "__global__") == [4]
    assert lines_with(found, "threadIdx.y, col") == lines_with(source, "threadIdx.y, col")
    assert "import" not in found
    assert "print" not in found


LAUNCHES = {
    "cupy": ("k = cupy.RawKernel(s, 'mm')\nk(((N + 7) // 8, -(-M // 8)), (8, 8), (a, b, c, M, N, K))",
             "mm<<<dim3(((N + 7) / 8), ((M + 8 - 1) / 8)), dim3(8, 8), 0>>>(a, b, c, M, N, K);"),
    "pycuda": ("f = SourceModule(s).get_function('mm')\n"
               "f(drv.In(a), b, c.gpudata, np.int32(M), N, K, block=(T, T, 1), grid=(math.ceil(N / T), 1), shared=64)",
               "mm<<<dim3(((N + T - 1) / T), 1), dim3(T, T, 1), 64>>>(a, b, c, M, N, K);"),
    "torch": ("k = torch.cuda._compile_kernel(s, 'mm')\nk(grid=(4, 5), block=(8, 8), args=(a, b, c, M, N, K))",
              "mm<<<dim3(4, 5), dim3(8, 8), 0>>>(a, b, c, M, N, K);"),
}  # fmt: skip


@pytest.mark.parametrize("library", LAUNCHES)
def test_launches_become_host_code(library: str) -> None:
    launch, expected = LAUNCHES[library]
    assert expected in made(f'T = 8\ns = r"""\n{BODY}\n"""\n{launch}\n')


def test_a_name_means_what_its_own_function_sets() -> None:
    launch = "grid = (N // T, M // T)\n    block = (T, 8)\n    k(grid, block, (a, b, c, M, N, K))"
    source = (f'T = 4\ns = r"""\n{BODY}\n"""\nk = cupy.RawKernel(s, "mm")\n'
              "def other():\n    block = (32, 32)\n    T = 32\n"
              f"def run(a, b, c, M, N, K, T):\n    {launch}\n")  # fmt: skip
    found = made(source)
    assert "dim3((N / T), (M / T)), dim3(T, 8)" in found
    assert "int T = " not in found.split("python_launch")[1]  # it is what callers pass


def test_formatted_strings() -> None:
    plain = BODY.replace("* 8", "* {T}").replace(") {", ") {{").replace("\n}", "\n}}")
    for source in (
        f'T = 16\nk = cupy.RawKernel(f"""{plain}""", "mm")\n',
        f'T = 16\ns = """{BODY.replace("* 8", "* %(T)s")}"""\nk = SourceModule(s % {{"T": T}})\n',
        f'T = 16\ns = """{BODY.replace("* 8", "* TILE")}"""\nk = SourceModule(s.replace("TILE", str(T)))\n',
    ):
        assert "blockIdx.y * 16 + threadIdx.y" in made(source), source


def test_macros_of_one_string_end_before_the_next() -> None:
    source = f'a = """\n#define T 8\n{BODY}\n"""\n\n\nb = """\n#define T 16\n{BODY.replace("mm", "nn")}\n"""\n'
    found = made(source).split("\n")
    assert found.index("#define T 8") < found.index("#undef T") < found.index("#define T 16")


@pytest.mark.parametrize(
    "source",
    ["print 'python 2'\n", "x = (" * 300 + "1" + ")" * 300 + "\n", "x = " + "-" * 5000 + "1\n", "x = 1\0\n"],
)
def test_what_python_cannot_parse_is_searched_for_strings(source: str) -> None:
    assert lines_with(made(f'{source}s = """\n{BODY}\n"""\n'), "__global__") == [3]


def test_descriptions_of_launches_are_no_sources() -> None:
    source = f'import gemmsmith\nlaunch = gemmsmith.Launch("""{BODY}""", grid=1, block=1)\n'
    assert made(source) == source


def test_raw_strings_of_cpp() -> None:
    source = f'#include <nvrtc.h>\n\nconst char* code = R"cuda(\n{BODY}\n)cuda";\nint main() {{}}\n'
    found = made(source, "k.cpp")
    assert lines_with(found, "__global__") == [4]
    assert "main" not in found
    assert made(source, "k.cu") == source
