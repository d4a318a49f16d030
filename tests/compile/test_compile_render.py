"""What the compiler is given for a kernel and its configuration."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_compile_nvrtc import TINY, compile_user, user_spec

from gemmsmith.compile import render_kernel
from gemmsmith.errors import ConfigError, UnsupportedError, UsageError
from gemmsmith.kernel.config import Config, Parameter
from gemmsmith.problem import BF16, FP16, FP32
from gemmsmith.userfile.files.includes import bundle
from gemmsmith.userfile.files.stub_headers import PRELUDE

PARAMETERS = (Parameter("BM", 64, (64, 128), ""), Parameter("BN", 32, (32,), ""))


def test_configuration_in_declared_order_then_the_users_defines(tmp_path: Path) -> None:
    spec = user_spec(tmp_path, TINY, parameters=PARAMETERS, extra_defines=(("X", "1"), ("A_", "2")))
    config = Config((("BN", 32), ("BM", 128)))
    made = render_kernel(spec, config, dtype=FP32, arch="sm_80")
    assert made.defines == (("BM", "128"), ("BN", "32"), ("X", "1"), ("A_", "2"))
    assert (made.name, made.arch, made.entry) == ("mine.cu", "sm_80", "k")


@pytest.mark.parametrize(("dtype", "cuda"), [(FP32, "float"), (FP16, "__half"), (BF16, "__nv_bfloat16")])
def test_the_type_is_a_macro_where_there_are_several(dtype: object, cuda: str, tmp_path: Path) -> None:
    spec = user_spec(tmp_path, TINY, dtypes=(FP32, FP16, BF16))
    assert render_kernel(spec, Config(), dtype=dtype, arch="sm_80").defines == (("IN", cuda),)  # type: ignore[arg-type]
    single = user_spec(tmp_path, TINY, dtypes=(dtype,))
    assert render_kernel(single, Config(), dtype=dtype, arch="sm_80").defines == ()  # type: ignore[arg-type]


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
def test_the_layout_is_a_macro_where_there_are_several(trans_a: bool, trans_b: bool, tmp_path: Path) -> None:
    spec = user_spec(tmp_path, TINY, layouts=("NN", "NT", "TN", "TT"))
    made = render_kernel(spec, Config(), dtype=FP32, trans_a=trans_a, trans_b=trans_b, arch="sm_80")
    assert made.defines == (("TRANS_A", str(int(trans_a))), ("TRANS_B", str(int(trans_b))))


def test_an_older_architecture_is_refused(tmp_path: Path) -> None:
    spec = user_spec(tmp_path, TINY, min_arch=90)
    with pytest.raises(UnsupportedError, match="needs sm_90 or newer, not sm_86"):
        render_kernel(spec, Config(), dtype=FP32, arch="sm_86")


def test_a_missing_value_is_refused(tmp_path: Path) -> None:
    spec = user_spec(tmp_path, TINY, parameters=PARAMETERS)
    with pytest.raises(ConfigError, match="no value for BN"):
        render_kernel(spec, Config((("BM", 64),)), dtype=FP32, arch="sm_80")


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"])
def test_a_file_that_cannot_be_read(content: bytes | None, tmp_path: Path) -> None:
    spec = user_spec(tmp_path, TINY)
    spec.source.unlink() if content is None else spec.source.write_bytes(content)
    with pytest.raises(UsageError, match="cannot be read" if content is None else "not UTF-8"):
        render_kernel(spec, Config(), dtype=FP32, arch="sm_80")


def test_local_includes_are_part_of_the_request(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.cuh").write_text('#pragma once\n#include "sub/b.cuh"\n')
    (tmp_path / "sub" / "b.cuh").write_text(
        '#pragma once\n#include "c.cuh"\n#include "../a.cuh"\nconstexpr int W = 1;\n'
    )
    (tmp_path / "sub" / "c.cuh").write_text("#pragma once\nconstexpr int V = 2;\n")
    (tmp_path / "unused.cuh").write_text("#error\n")
    source = '#include "a.cuh"\n  #  include "sub/c.cuh"\n' + TINY.replace("A[N]", "A[N + V + W]")
    made = render_kernel(user_spec(tmp_path, source), Config(), dtype=FP32, arch="sm_80")
    assert [name for name, _ in made.headers] == [PRELUDE, "a.cuh", "sub/b.cuh", "sub/c.cuh"]
    assert dict(made.headers)["sub/b.cuh"].startswith('#pragma once\n#include "sub/c.cuh"\n#include "a.cuh"')
    assert str(tmp_path) not in repr(made)
    assert len(made.files) == 4
    assert compile_user(tmp_path, source).resources.registers > 0


def test_a_header_above_the_file(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / "up.cuh").write_text("#define V 2\n")
    source = '#include "../up.cuh"\n' + TINY.replace("A[N]", "A[N + V]")
    assert bundle_of(tmp_path / "p", source).headers == (("../up.cuh", "#define V 2\n"),)
    assert compile_user(tmp_path / "p", source).entry == "k"


def test_two_files_of_one_name_are_two_headers(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "p").mkdir()
    (tmp_path / "own" / "outer.cuh").write_text('#include "same.cuh"\n')
    (tmp_path / "own" / "same.cuh").write_text("// ours\n")
    (tmp_path / "p" / "same.cuh").write_text("// the user's\n")
    made = bundle_of(tmp_path / "p", '#include "same.cuh"\n#include "outer.cuh"\n', tmp_path / "own")
    texts = dict(made.headers)
    assert texts["same.cuh"] == "// the user's\n"
    assert texts["_/same.cuh"] == "// ours\n"
    assert texts["outer.cuh"] == '#include "_/same.cuh"\n'


def bundle_of(folder: Path, source: str, *search: Path):  # type: ignore[no-untyped-def]
    (folder / "mine.cu").write_text(source)
    return bundle(folder / "mine.cu", search)


def test_our_own_headers_are_found_and_rungs_get_no_stubs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "tile.cuh").write_text("#define T 1\n")
    for module in ("render", "user_source"):
        monkeypatch.setattr(f"gemmsmith.compile.{module}.own_headers", lambda: own)
    source = '#include "tile.cuh"\n#include <cstdio>\n' + TINY
    rung = render_kernel(user_spec(tmp_path, source, rung=3), Config(), dtype=FP32, arch="sm_80")
    assert rung.headers == (("tile.cuh", "#define T 1\n"),)
    mine = render_kernel(user_spec(tmp_path, source), Config(), dtype=FP32, arch="sm_80")
    assert [name for name, _ in mine.headers] == [PRELUDE, "tile.cuh"]


def test_a_users_own_header_replaces_the_stub(tmp_path: Path) -> None:
    (tmp_path / "helper_cuda.h").write_text("#define MINE 1\n")
    source = '#include "helper_cuda.h"\n' + TINY.replace("A[N]", "A[N + MINE]")
    made = render_kernel(user_spec(tmp_path, source), Config(), dtype=FP32, arch="sm_80")
    assert dict(made.headers)["helper_cuda.h"] == "#define MINE 1\n"
    assert compile_user(tmp_path, source).entry == "k"


def test_a_quoted_host_header_gets_its_stub(tmp_path: Path) -> None:
    assert compile_user(tmp_path, '#include "cublas_v2.h"\n#include "cuda_runtime.h"\n' + TINY).entry == "k"


@pytest.mark.parametrize(
    "other", ["template <int Z> __device__ int f() { return Z; }\n", "// template <int Z> __global__\n"]
)
def test_other_templates_are_ignored(other: str, tmp_path: Path) -> None:
    assert render_kernel(user_spec(tmp_path, other + TINY), Config(), dtype=FP32, arch="sm_80").entry == "k"
