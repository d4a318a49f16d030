"""A machine with a toolkit has headers that NVRTC cannot compile: those of host libraries are left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.userfile.files.include_search import IncludeSearch

HOST = ["cublas_v2.h", "cublasLt.h", "cusparse.h", "cusolverDn.h", "cufft.h", "curand.h", "cudnn_v9.h", "nvml.h",
        "npp.h", "cupti_result.h", "nccl.h", "cuda.h", "nvrtc.h"]  # fmt: skip
DEVICE = ["cuda_fp16.h", "mma.h", "curand_kernel.h", "cooperative_groups.h", "cuda_pipeline.h", "cuComplex.h"]


@pytest.fixture
def search(tmp_path: Path) -> IncludeSearch:
    toolkit = tmp_path / "toolkit"
    toolkit.mkdir()
    for name in (*HOST, *DEVICE):
        (toolkit / name).write_text("#include <stdint.h>\n", encoding="utf-8")
    (tmp_path / "mine").mkdir()
    return IncludeSearch(tmp_path / "mine" / "a.cu", (), (toolkit,), ())


@pytest.mark.parametrize("quoted", [False, True])
def test_headers_of_host_libraries_are_left_out(search: IncludeSearch, quoted: bool) -> None:
    assert {name for name in HOST if search.find(name, quoted, search.file.parent).kind != "host"} == set()


def test_headers_for_device_code_are_the_toolkits(search: IncludeSearch) -> None:
    assert {name for name in DEVICE if search.find(name, False, search.file.parent).kind != "cuda"} == set()
