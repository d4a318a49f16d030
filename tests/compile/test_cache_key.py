"""The cache key changes with everything that determines the result, and with nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gemmsmith.compile import cache as cache_module
from gemmsmith.compile.cache import cache_key
from gemmsmith.compile.render import CompileRequest, render_kernel
from gemmsmith.compile.toolchain import Toolchain
from gemmsmith.kernel.config import Parameter
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import BF16, FP16, FP32

SOURCE = '#include "tile.cuh"\nextern "C" __global__ void gemm(float* C) { C[threadIdx.x] = BM * BN; }\n'
HEADERS = (("sub/mma.cuh", "#pragma once\n#define MMA 1\n"), ("tile.cuh", '#include "sub/mma.cuh"\n#define TILE 2\n'))
DEFINES = (("BM", "128"), ("BN", "64"), ("BK", "8"), ("IN", "float"), ("TRANS_A", "0"), ("TRANS_B", "1"))
REQUEST = CompileRequest("rung.cu", SOURCE, HEADERS, DEFINES, "sm_90", "gemm")
TOOLCHAIN = Toolchain("NVRTC 13.4", "13.4.92", "13040-abc", (80, 90), (Path("/a/include"),))
BASE = cache_key(REQUEST, TOOLCHAIN)

Change = Callable[[], str]


def _key(**changes: object) -> str:
    return cache_key(replace(REQUEST, **changes), TOOLCHAIN)  # type: ignore[arg-type]


def _with_define(index: int, define: tuple[str, str] | None) -> str:
    kept = [*DEFINES[:index], *([define] if define else []), *DEFINES[index + 1 :]]
    return _key(defines=tuple(kept))


def _flip(text: str, at: int) -> str:
    return text[:at] + chr(ord(text[at]) ^ 1) + text[at + 1 :]


def _with_header(index: int, header: tuple[str, str]) -> str:
    return _key(headers=(*HEADERS[:index], header, *HEADERS[index + 1 :]))


CHANGES: dict[str, Change] = {}
for _i, (_name, _value) in enumerate(DEFINES):
    CHANGES[f"define {_name} value"] = lambda i=_i, n=_name, v=_value: _with_define(i, (n, v + "1"))  # type: ignore[misc]
    CHANGES[f"define {_name} renamed"] = lambda i=_i, n=_name, v=_value: _with_define(i, (n + "_", v))  # type: ignore[misc]
    CHANGES[f"define {_name} removed"] = lambda i=_i: _with_define(i, None)  # type: ignore[misc]
for _i, (_name, _text) in enumerate(HEADERS):
    for _at in range(0, len(_text), 4):
        CHANGES[f"header {_name} byte {_at}"] = lambda i=_i, n=_name, t=_text, a=_at: _with_header(i, (n, _flip(t, a)))  # type: ignore[misc]
    CHANGES[f"header {_name} renamed"] = lambda i=_i, n=_name, t=_text: _with_header(i, (n + "h", t))  # type: ignore[misc]
    CHANGES[f"header {_name} emptied"] = lambda i=_i, n=_name: _with_header(i, (n, ""))  # type: ignore[misc]
for _at in range(0, len(SOURCE), 8):
    CHANGES[f"source byte {_at}"] = lambda a=_at: _key(source=_flip(SOURCE, a))  # type: ignore[misc]
for _arch in ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100"):
    CHANGES[f"arch {_arch}"] = lambda a=_arch: _key(arch=a)  # type: ignore[misc]
CHANGES |= {
    "define added": lambda: _key(defines=(*DEFINES, ("X", "1"))),
    "define moved into another's value": lambda: _key(defines=(("BM", "128 -DBN=64"), *DEFINES[2:])),
    "header added": lambda: _key(headers=(*HEADERS, ("more.cuh", ""))),
    "header removed": lambda: _key(headers=HEADERS[:1]),
    "text moved from source to header": lambda: _key(source=SOURCE[:-1], headers=(*HEADERS, ("x", SOURCE[-1]))),
    "entry": lambda: _key(entry="gemm2"),
    "file name": lambda: _key(name="other.cu"),
    "compiler version": lambda: cache_key(REQUEST, replace(TOOLCHAIN, compiler="NVRTC 13.0")),
    "compiler build": lambda: cache_key(REQUEST, replace(TOOLCHAIN, build="13.4.93")),
    "CUDA headers": lambda: cache_key(REQUEST, replace(TOOLCHAIN, headers="13040-abd")),
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_ingredient_changes_the_key(name: str) -> None:
    assert CHANGES[name]() != BASE


def test_no_two_changes_share_a_key() -> None:
    keys = [change() for change in CHANGES.values()]
    assert len(set(keys)) == len(keys)


def test_the_schema_is_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "SCHEMA", 999)
    assert cache_key(REQUEST, TOOLCHAIN) != BASE


@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize("change", ["dropped", "altered"])
def test_each_option_is_part_of_the_key(at: int, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = cache_module.options(REQUEST)
    other = [*options[:at], *([options[at] + "x"] if change == "altered" else []), *options[at + 1 :]]
    monkeypatch.setattr(cache_module, "options", lambda _request: tuple(other))
    assert cache_key(REQUEST, TOOLCHAIN) != BASE


def test_the_key_is_a_sha256() -> None:
    assert len(BASE) == 64
    assert set(BASE) <= set("0123456789abcdef")


def test_header_order_does_not_matter() -> None:
    assert _key(headers=HEADERS[::-1]) == BASE


def test_the_headers_folder_does_not_matter() -> None:
    assert cache_key(REQUEST, replace(TOOLCHAIN, includes=(Path("/b/include"),))) == BASE


def test_file_stamps_do_not_matter() -> None:
    assert _key(files=(("/x/rung.cu", 1, 2, 3),)) == BASE


def _project(folder: Path) -> KernelSpec:
    (folder / "sub").mkdir(parents=True)
    (folder / "mine.cu").write_text('#include "tile.cuh"\n' + SOURCE)
    for name, text in HEADERS:
        (folder / name).write_text(text)
    names = ("BM", "BN", "BK")
    return KernelSpec(
        "mine", folder / "mine.cu", "", "", lambda _p, _c: Geometry((1, 1, 1), (32, 1, 1)),
        parameters=tuple(Parameter(n, 8, (8, 16), "") for n in names),
        dtypes=(FP32, FP16, BF16), layouts=("NN", "NT"),
    )  # fmt: skip


def _spec_key(spec: KernelSpec, changes: dict[str, int] | None = None, **choices: object) -> str:
    defaults: dict[str, object] = {"dtype": FP32, "arch": "sm_90"}
    return cache_key(render_kernel(spec, spec.config(changes), **(defaults | choices)), TOOLCHAIN)  # type: ignore[arg-type]


def test_the_folder_does_not_matter(tmp_path: Path) -> None:
    assert _spec_key(_project(tmp_path / "a")) == _spec_key(_project(tmp_path / "b" / "deeper"))


def test_a_relative_path_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = _project(tmp_path / "a")
    expected = _spec_key(spec)
    monkeypatch.chdir(tmp_path)
    assert _spec_key(replace(spec, source=Path("a/mine.cu"))) == expected


@pytest.mark.parametrize("place", ["/", "/tmp", "."])
def test_the_working_folder_does_not_matter(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = _project(tmp_path / "a")
    expected = _spec_key(spec)
    monkeypatch.chdir(tmp_path if place == "." else place)
    assert _spec_key(spec) == expected


@pytest.mark.parametrize("when", [0, 1_000_000_000, 4_000_000_000])
def test_file_times_do_not_matter(when: int, tmp_path: Path) -> None:
    spec = _project(tmp_path / "a")
    expected = _spec_key(spec)
    for name in ("mine.cu", "tile.cuh", "sub/mma.cuh"):
        os.utime(tmp_path / "a" / name, (when, when))
    assert _spec_key(spec) == expected


@pytest.mark.parametrize("variable", ["HOME", "CUDA_HOME", "LANG", "GEMMSMITH_CACHE_DIR", "PYTHONHASHSEED", "USER"])
def test_the_environment_does_not_matter(variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = _project(tmp_path / "a")
    expected = _spec_key(spec)
    monkeypatch.setenv(variable, "/elsewhere")
    assert _spec_key(spec) == expected


def test_the_order_of_a_configuration_does_not_matter(tmp_path: Path) -> None:
    spec = _project(tmp_path / "a")
    assert _spec_key(spec, {"BM": 16, "BK": 16}) == _spec_key(spec, {"BK": 16, "BM": 16})


@pytest.mark.parametrize("name", ["BM", "BN", "BK"])
def test_each_parameter_matters(name: str, tmp_path: Path) -> None:
    spec = _project(tmp_path / "a")
    assert _spec_key(spec, {name: 16}) != _spec_key(spec)


@pytest.mark.parametrize("choice", [{"dtype": FP16}, {"dtype": BF16}, {"trans_b": True}, {"arch": "sm_80"}])
def test_each_choice_matters(choice: dict[str, object], tmp_path: Path) -> None:
    spec = _project(tmp_path / "a")
    assert _spec_key(spec, **choice) != _spec_key(spec)


@pytest.mark.parametrize("name", ["mine.cu", "tile.cuh", "sub/mma.cuh"])
def test_each_included_file_matters(name: str, tmp_path: Path) -> None:
    spec = _project(tmp_path / "a")
    before = _spec_key(spec)
    path = tmp_path / "a" / name
    path.write_text(path.read_text() + "// more\n")
    assert _spec_key(spec) != before
