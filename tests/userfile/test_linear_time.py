"""Reading a stranger's file takes time linear in its size, whatever it holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from linear_time import assert_linear

from gemmsmith.compile import find_toolchain
from gemmsmith.compile.user_source import UserSource

MIB = 1 << 20
KERNEL = "\n__global__ void k(float* x) { x[0] = 1; }\n"
LARGE: dict[str, Callable[[int], str]] = {  # texts of so many times a length; four times are megabytes
    "comment lines": lambda n: "// int main() {\n" * (160_000 * n),
    "one comment": lambda n: "/* int main() {\n" * (160_000 * n) + "*/",
    "short comments": lambda n: "/* x */ " * (320_000 * n),
    "blank lines": lambda n: "\n" * (MIB // 4 * n),
    "functions": lambda n: "".join(
        f"__device__ int f{i}(int a) {{ return f{i - 1}(a) + {i}; }}\nvoid h{i}() {{ g<<<1, 2>>>({i}); }}\n"
        for i in range(1, 1250 * n + 1)
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
def test_large_files(text: Callable[[int], str], tmp_path: Path) -> None:
    find_toolchain()
    assert_linear(lambda times: seconds(tmp_path, text(times) + KERNEL))


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE)
def test_pieces_that_begin_something(piece: str, tmp_path: Path) -> None:
    find_toolchain()
    assert_linear(lambda times: seconds(tmp_path, piece * (20_000 * times) + KERNEL))
