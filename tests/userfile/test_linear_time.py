"""Reading a stranger's file takes time linear in its size, whatever it holds."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gemmsmith.compile import find_toolchain
from gemmsmith.compile.user_source import UserSource

MIB = 1 << 20
KERNEL = "\n__global__ void k(float* x) { x[0] = 1; }\n"
LARGE = {
    "10 MB of comment lines": "// int main() {\n" * 640_000,
    "10 MB of one comment": "/* int main() {\n" * 640_000 + "*/",
    "10 MB of short comments": "/* x */ " * 1_280_000,
    "1 MB of blank lines": "\n" * MIB,
    "5,000 functions": "".join(
        f"__device__ int f{i}(int a) {{ return f{i - 1}(a) + {i}; }}\nvoid h{i}() {{ g<<<1, 2>>>({i}); }}\n"
        for i in range(1, 5001)
    ),
}
HOSTILE = {
    "open parentheses": "(", "open braces": "{", "calls": "a()", "quotes": '"', "apostrophes": "'",
    "raw strings": 'R"(',
    "conditions": "#if 0\n", "templates": "template<", "namespaces": "namespace a{", "operators": "operator ",
    "slashes": "/ ", "words": "a ", "commas": "int a,", "scopes": "a::", "less": "a<", "attributes": "[[",
    "structures": "struct A ", "macros": "#define A A\n", "continuations": "\\\n", "includes": '#include "nothing.h"\n',
    "arrows": "->", "lambdas": "=[](", "closing": "}", "asserts": "static_assert(", "typedefs": "typedef ",
}  # fmt: skip


def seconds(folder: Path, text: str) -> float:
    (folder / "k.cu").write_text(text)
    start = time.process_time()
    UserSource.read(folder / "k.cu", (), find_toolchain()).request("k.cu", "k", (), "sm_80")
    return time.process_time() - start


@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE)
def test_a_large_file_takes_less_than_two_seconds(text: str, tmp_path: Path) -> None:
    find_toolchain()
    assert seconds(tmp_path, text + KERNEL) < 2


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE)
def test_four_times_the_text_takes_about_four_times_as_long(piece: str, tmp_path: Path) -> None:
    find_toolchain()
    count = 20_000
    first = seconds(tmp_path, piece * count + KERNEL)
    assert seconds(tmp_path, piece * 4 * count + KERNEL) < 10 * first + 0.2
