"""What is wrong with the arguments of a launch is said with the caller's names, before anything runs."""

from __future__ import annotations

import ctypes
import re
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gemmsmith
from gemmsmith.call.any_kernel.declaration import declared_kernels, mangled_types
from gemmsmith.call.any_kernel.types import fits, parse_type
from gemmsmith.errors import DTypeError, UsageError

TAKES = """
struct Point { float x, y; int n; };
enum class Mode { off, on };
__global__ void takes(float* x, int n, float by, float4 four, Point p, Mode m, unsigned char u, const double* d) {
    x[0] = n; x[1] = by; x[2] = four.w; x[3] = p.y; x[4] = p.n; x[5] = m == Mode::on; x[6] = u; x[7] = d == nullptr;
}
"""
X = np.zeros(8, np.float32)
POINT = struct.pack("ffi", 1, 2, 3)
GOOD = {"x": X, "n": 5, "by": 1.5, "four": (0, 0, 0, 4), "p": POINT, "m": 1, "u": 200, "d": None}


def launch(**changes: Any) -> Any:
    return gemmsmith.launch(TAKES, "takes", grid=1, block=1, args=GOOD | changes)


@pytest.mark.parametrize("order", [list, reversed])
def test_arguments_by_name_in_any_order(order: Any) -> None:
    args = {name: GOOD[name] for name in order(list(GOOD))}
    result = gemmsmith.launch(TAKES, "takes", grid=1, block=1, args=args)
    assert result["x"].tolist() == [5, 1.5, 4, 2, 3, 1, 200, 1]


def test_other_names_are_labels_in_the_order_of_the_parameters() -> None:
    result = gemmsmith.launch(TAKES, "takes", grid=1, block=1,
                              args={f"my_{name}": value for name, value in GOOD.items()})  # fmt: skip
    assert list(result.by_name) == ["my_x"]
    some = {"mine" if name == "by" else name: value for name, value in GOOD.items()}
    assert gemmsmith.launch(TAKES, "takes", grid=1, block=1, args=some)["x"].tolist()[1] == 1.5
    moved = {"mine": GOOD["x"], "x": 5} | {name: GOOD[name] for name in list(GOOD)[2:]}
    with pytest.raises(UsageError, match="takes has no parameter mine"):
        gemmsmith.launch(TAKES, "takes", grid=1, block=1, args=moved)


def test_a_struct_comes_as_bytes_ctypes_or_numpy() -> None:
    class Point(ctypes.Structure):
        _fields_ = (("x", ctypes.c_float), ("y", ctypes.c_float), ("n", ctypes.c_int))

    kind = np.dtype([("x", "f4"), ("y", "f4"), ("n", "i4")])
    for value in (bytearray(POINT), Point(1, 2, 3), np.array((1, 2, 3), kind)[()], np.array((1, 2, 3), kind)):
        assert launch(p=value)["x"].tolist()[3:5] == [2, 3]


def test_numpy_scalars_and_flags_are_numbers() -> None:
    result = launch(n=np.int64(7), by=np.float64(0.25), m=np.int32(0), u=np.uint8(9), four=np.arange(4.0))
    assert result["x"].tolist()[:7] == [7, 0.25, 3, 2, 3, 0, 9]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": X.astype(np.float64)}, "x is a float*, and an array of float64 was given"),
        ({"x": X.astype(np.int32)}, "x is a float*, and an array of int32 was given"),
        ({"x": 3.0}, "x is a float*, and a float was given"),
        ({"x": 0x7000}, "x is a float*, and an address was given"),
        ({"x": [X, X]}, "x is a float*, and 2 arrays were given"),
        ({"x": np.array([object()])}, "x holds Python objects"),
        ({"x": X.astype(">f4")}, "x has big-endian elements"),
        ({"x": np.ma.masked_array(X)}, "x is a masked array"),
        ({"n": 2**31}, "n is an int, which 2147483648 does not fit"),
        ({"n": 2.5}, "n is an int, and 2.5 is no integer"),
        ({"n": X}, "n is an int, passed by value, and an array was given"),
        ({"n": None}, "n is an int, and None was given"),
        ({"n": "5"}, "n is an int, and a str was given"),
        ({"u": -1}, "u is an unsigned char, which -1 does not fit"),
        ({"four": (1, 2)}, "four is a float4"),
        ({"p": POINT[:-1]}, "p has 12 bytes, and 11 were given"),
        ({"p": 1.0}, "p is passed by value in 12 bytes (Point), and a float was given"),
        ({"d": X}, "d is a const double*, and an array of float32 was given"),
        ({"nn": 3}, "takes has no parameter nn, and the arguments are not in its order"),
    ],
)
def test_a_wrong_argument_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        launch(**changes)


def test_a_wrong_count_shows_the_signature() -> None:
    with pytest.raises(UsageError, match="takes takes 8 arguments, and 2 were given") as raised:
        gemmsmith.launch(TAKES, "takes", grid=1, block=1, args=[X, 1])
    assert "takes(float* x, int n, float by, float4 four, Point p, Mode m, unsigned char u" in raised.value.hint
    without = {name: value for name, value in GOOD.items() if name not in ("by", "p")}
    with pytest.raises(UsageError, match="takes needs a value for by, p"):
        gemmsmith.launch(TAKES, "takes", grid=1, block=1, args=without)


def test_an_array_is_no_tensor_map() -> None:
    code = """struct __align__(64) CUtensorMap_st { unsigned long long data[16]; };
    typedef CUtensorMap_st CUtensorMap;
    __global__ void k(const __grid_constant__ CUtensorMap map, float* x) { x[0] = 1.0f; }"""
    with pytest.raises(DTypeError, match=r"map is a CUtensorMap_st, and an array was given\n.*gemmsmith\.tensor_map"):
        gemmsmith.launch(code, grid=1, block=1, args=[X, X])


@pytest.mark.parametrize(
    ("geometry", "message"),
    [
        ({"grid": 0}, "grid=0 launches nothing"),
        ({"grid": (1, 70000)}, "grid=(1, 70000, 1) is too large"),
        ({"block": 2048}, "block=(2048, 1, 1) has 2048 threads"),
        ({"block": (1, 1, 65)}, "block=(1, 1, 65) has 65 threads along z"),
        ({"block": (1, 2, 3, 4)}, "block=(1, 2, 3, 4) is not a number or up to three"),
        ({"block": 1.5}, "block=1.5 is not a number"),
        ({"smem": -1}, "smem=-1 is not a number of bytes"),
        ({"smem": 1 << 20}, "smem=1048576 bytes exceed"),
    ],
)
def test_a_geometry_that_cannot_be_launched(geometry: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        gemmsmith.launch(TAKES, "takes", args=GOOD, **({"grid": 1, "block": 1} | geometry))


def test_torch_tensors_come_back_as_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    code = """#include <cuda_bf16.h>
    __global__ void twice(const __nv_bfloat16* x, __nv_bfloat16* out) {
        out[threadIdx.x] = __float2bfloat16(2.0f * __bfloat162float(x[threadIdx.x])); }"""
    x, out = torch.arange(8, dtype=torch.bfloat16), torch.zeros(8, dtype=torch.bfloat16)
    result = gemmsmith.launch(code, grid=1, block=8, args=[x, out])
    assert result["out"].dtype is torch.bfloat16
    assert torch.equal(result["out"], 2 * x)
    assert not out.any()
    gemmsmith.launch(code, grid=1, block=8, args=[x, out], inplace=True)
    assert torch.equal(out, 2 * x)


def test_cupy_arrays_come_back_as_cupy_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for CuPy, which needs a GPU: the same calls on NumPy's arrays."""

    class Device:
        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...

    class Fake(np.ndarray):
        device = Device()

    module: Any = type(sys)("cupy")
    module.ndarray = Fake
    module.asnumpy = lambda array: np.array(array.view(np.ndarray))
    module.asarray = lambda array: np.asarray(array).view(Fake)
    monkeypatch.setitem(sys.modules, "cupy", module)
    x = np.zeros(8, np.float32).view(Fake)
    result = launch(x=x)
    assert type(result["x"]) is Fake
    assert float(result["x"][1]) == 1.5
    assert not x.any()
    gemmsmith.launch(TAKES, "takes", grid=1, block=1, args=GOOD | {"x": x}, inplace=True)
    assert float(x[1]) == 1.5


def test_types_come_from_the_mangled_name_and_names_from_the_source() -> None:
    assert [str(kind) for kind in mangled_types("_Z1kIfEvPT_PK6__halfiN2ns1PE") or []] == [
        "float*", "const __half*", "int", "ns::P",
    ]  # fmt: skip
    assert mangled_types("plain_c_name") is None


def test_kernels_of_a_file_have_their_names_and_templates(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("""
    // __global__ void commented(int x);
    __global__ void prototype(int x);
    template <typename T, int B = 4> __global__ void __launch_bounds__(128, (2)) first(
        const T* __restrict__ in, T out[], std::pair<int, int> pair, int n = 3) {}
    namespace ns { extern "C" __global__ __launch_bounds__(32) void second() {} }
    """)
    found = declared_kernels(tmp_path / "k.cu")
    assert [made.name for made in found] == ["first", "second"]
    assert [name for _, name in found[0].parameters] == ["in", "out", "pair", "n"]
    assert found[0].template == (("T", False), ("B", True))
    assert found[1].template is None


def test_a_kernel_is_found_without_its_namespace_unless_two_have_the_name() -> None:
    code = """namespace a { __global__ void k(int* x) { x[0] = 1; } __global__ void only(int* x) { x[0] = 2; } }
    namespace b { __global__ void k(int* x) { x[0] = 3; } }"""
    x = np.zeros(1, np.int32)
    for name, value in (("only", 2), ("a::k", 1), ("b::k", 3)):
        assert gemmsmith.launch(code, name, grid=1, block=1, args=[x])["x"].tolist() == [value]
    with pytest.raises(UsageError, match=r"'k' names several kernels of kernel\.cu: a::k, b::k"):
        gemmsmith.launch(code, "k", grid=1, block=1, args=[x])


def test_an_extern_c_kernel_has_the_types_of_its_source() -> None:
    code = 'typedef float real;\nextern "C" __global__ void k(real* x, unsigned n) { x[0] = n; }'
    assert gemmsmith.launch(code, grid=1, block=1, args=[np.zeros(1, np.float32), 7])["x"].tolist() == [7]
    with pytest.raises(UsageError, match="n is an unsigned, which -1 does not fit"):
        gemmsmith.launch(code, grid=1, block=1, args=[np.zeros(1, np.float32), -1])


@pytest.mark.parametrize(
    ("ctype", "dtype", "good"),
    [
        ("float*", "f4", True), ("float*", "f8", False), ("float*", "i4", False), ("void*", "f8", True),
        ("unsigned*", "i4", True), ("int*", "i8", False), ("float4*", "f4", True), ("float2*", "c8", True),
        ("float*", "c8", False), ("__half*", "u2", True), ("__half*", "i2", False), ("Thing*", "f8", True),
        ("bool*", "u1", True),
    ],
)  # fmt: skip
def test_which_arrays_fit_which_pointers(ctype: str, dtype: str, good: bool) -> None:
    assert fits(parse_type(ctype), np.dtype(dtype)) is good
