"""gemmsmith.launch on the simulator: results, races, faults that name the argument, unchanged arguments."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gemmsmith
from gemmsmith.errors import SimulationError, UnknownKernelError, UsageError
from gemmsmith.sim.races.hazards import HazardError

REDUCE = """
template <int B>
__global__ void reduce(const float* x, float* out, int n) {
    __shared__ float s[B];
    int t = threadIdx.x;
    float v = 0.0f;
    for (int i = blockIdx.x * B + t; i < n; i += gridDim.x * B) v += x[i];
    s[t] = v;
    __syncthreads();
    for (int k = B / 2; k > 0; k /= 2) {
        if (t < k) s[t] += s[t + k];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = s[0];
}
"""
SCALE = """
namespace ours {
__global__ void scale(float* x, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}
__global__ void other(int* x) { x[threadIdx.x] = 1; }
}
"""
N = 512


def reduce(source: str = REDUCE, args: Any = None, **options: Any) -> Any:
    x, out = np.arange(N, dtype=np.float32), np.full(2, -1, np.float32)
    return gemmsmith.launch(source, "reduce<64>", grid=2, block=64, args=args or [x, out, N], **options)


def test_a_reduction_gives_its_sums_counters_and_time() -> None:
    x, out = np.arange(N, dtype=np.float32), np.full(2, -1, np.float32)
    result = reduce(args=[x, out, N])
    assert float(result["out"].sum()) == float(x.sum())
    assert result["out"] is result.written[0] is result[0]
    assert list(result.by_name) == ["out"]  # x is a pointer to const
    assert result.ok
    assert result.hazards == ()
    assert result.seconds > 0
    assert result.device == "simulator (sm_90)"
    assert result.counters["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"] == N // 32
    assert result.counters.bank_conflicts == 0
    with pytest.raises(FrozenInstanceError):
        result.seconds = 1


def test_arguments_stay_as_they_were() -> None:
    x, out = np.arange(N, dtype=np.float32), np.full(2, -1, np.float32)
    reduce(args=[x, out, N])
    assert out.tolist() == [-1, -1]
    assert x.tolist() == list(range(N))


def test_inplace_changes_the_callers_array() -> None:
    x = np.arange(8, dtype=np.float32)
    result = gemmsmith.launch(SCALE, "ours::scale", grid=1, block=32, args=[x, 3, 8], inplace=True)
    assert x.tolist() == [3 * i for i in range(8)]
    assert result["x"] is x


def test_inplace_refuses_what_cannot_be_written() -> None:
    x = np.arange(8, dtype=np.float32)
    x.flags.writeable = False
    with pytest.raises(UsageError, match="x cannot be written to"):
        gemmsmith.launch(SCALE, "ours::scale", grid=1, block=32, args=[x, 3, 8], inplace=True)


@pytest.mark.parametrize("schedule", ["lockstep", "reversed", "random"])
def test_a_racy_reduction_is_found(schedule: str) -> None:
    racy = REDUCE.replace("s[t + k];\n        __syncthreads();", "s[t + k];")
    assert racy != REDUCE
    result = reduce(racy, schedule=schedule)
    assert not result.ok
    assert any("race on shared address" in str(hazard) and "kernel.cu:11" in str(hazard) for hazard in result.hazards)
    with pytest.raises(HazardError, match="race"):
        reduce(racy, schedule=schedule, check=True)
    assert reduce(racy, hazards=False).ok  # nobody looked


def test_an_access_past_the_end_names_the_argument() -> None:
    with pytest.raises(SimulationError, match=r"x\[512\], 1 past its end \(x has 512 elements\)"):
        reduce(REDUCE.replace("i < n", "i <= n"))
    with pytest.raises(SimulationError, match=r"out\[-1\], 1 before its start \(out has 2 elements\)"):
        reduce(REDUCE.replace("out[blockIdx.x]", "out[int(blockIdx.x) - 1]"))
    with pytest.raises(SimulationError, match=r"x\[514\], 3 past its end"):
        reduce(REDUCE.replace("v += x[i]", "v += reinterpret_cast<const float4*>(x)[i].z"))


def test_a_null_pointer_is_called_so() -> None:
    with pytest.raises(SimulationError, match="null pointer"):
        reduce(args=[np.zeros(N, np.float32), None, N])


def test_an_empty_array_has_no_element() -> None:
    with pytest.raises(SimulationError, match=r"x\[0\], 1 past its end \(x has 0 elements\)"):
        reduce(args=[np.zeros(0, np.float32), np.zeros(2, np.float32), N])
    assert reduce(args=[np.zeros(0, np.float32), np.ones(2, np.float32), 0])["out"].tolist() == [0, 0]


def test_an_endless_loop_ends_at_the_timeout() -> None:
    with pytest.raises(SimulationError, match="did not end in the time it was given"):
        gemmsmith.launch("__global__ void spin(volatile int* x) { while (*x == 0) {} }", grid=1, block=32,
                         args=[np.zeros(1, np.int32)], timeout=0.5)  # fmt: skip


def test_a_source_may_be_a_file_with_a_header_and_macros(tmp_path: Path) -> None:
    (tmp_path / "headers").mkdir()
    (tmp_path / "headers" / "by.cuh").write_text("__device__ float by() { return BY; }\n")
    (tmp_path / "scale.cu").write_text(
        '#include <iostream>\n#include "by.cuh"\n'
        "__global__ void scale(float* x) { x[threadIdx.x] *= by(); }\n"
        'int main() { std::cout << "host code"; }\n'
    )
    result = gemmsmith.launch(tmp_path / "scale.cu", grid=1, block=4, args=[np.ones(4, np.float32)],
                              defines={"BY": 2.5}, include=tmp_path / "headers")  # fmt: skip
    assert result["x"].tolist() == [2.5] * 4
    assert result.kernel == "scale"


def test_template_arguments_come_from_macros_and_defaults() -> None:
    code = """template <int A, int B = 7> __global__ void fill(int* x) { x[0] = A; x[1] = B; }"""
    x = np.zeros(2, np.int32)
    for name, defines, values in (("fill<3>", {}, [3, 7]), ("fill", {"A": 4}, [4, 7]), ("", {"B": 6, "A": 5}, [5, 6])):
        result = gemmsmith.launch(code, name, grid=1, block=1, args=[x], defines=defines)
        assert result["x"].tolist() == values
    assert result.kernel == "fill<5, 6>"


def test_an_array_that_is_passed_twice_is_one_array() -> None:
    code = "__global__ void k(const float* a, float* b) { int t = threadIdx.x; b[t] = 5.0f; b[t] = a[t] + 1.0f; }"
    x = np.arange(4, dtype=np.float32)
    assert gemmsmith.launch(code, grid=1, block=4, args=[x, x])["b"].tolist() == [6, 6, 6, 6]
    assert gemmsmith.launch(code, grid=1, block=4, args=[x, x.copy()])["b"].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("view", "why"),
    [
        (lambda base: base[:, :3], "rows with gaps"),
        (lambda base: base.T, "columns first"),
        (lambda base: base[::-1, 1::2], "backwards"),
        (lambda base: base[1], "one row"),
    ],
)
def test_strides_are_those_that_the_kernel_sees(view: Any, why: str) -> None:
    """x[i·rows + j·columns] with the strides of the view; what lies between is not the array's."""
    code = """__global__ void twice(float* x, int rows, int columns) {
        x[int(threadIdx.y) * rows + int(threadIdx.x) * columns] *= 2.0f; }"""
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    array = view(base)
    shaped = array if array.ndim == 2 else array[None, :]
    steps = [stride // 4 for stride in shaped.strides]
    result = gemmsmith.launch(code, grid=1, block=shaped.shape[::-1], args=[array, *steps])
    assert np.array_equal(result["x"], 2 * array), why
    assert result.damage == ()
    before = base.copy()
    gemmsmith.launch(code, grid=1, block=shaped.shape[::-1], args=[array, *steps], inplace=True)
    assert np.array_equal(array, 2 * view(before))
    untouched = np.ones_like(base, dtype=bool)
    view(untouched)[...] = False
    assert np.array_equal(base[untouched], before[untouched])


def test_a_write_between_the_elements_of_a_view_is_damage() -> None:
    code = "__global__ void fill(float* x) { x[threadIdx.x] = 1.0f; }"
    result = gemmsmith.launch(code, grid=1, block=8, args=[np.zeros((2, 6), np.float32)[:, :3]])
    assert result.damage == ("x: 12 bytes outside its elements were written, the first at x[3]",)
    assert not result.ok


def test_a_table_of_pointers_takes_a_list_of_arrays() -> None:
    code = "__global__ void fill(float** out, int n) { for (int i = 0; i < n; ++i) out[i][threadIdx.x] = i; }"
    arrays = [np.zeros(3, np.float32), np.zeros(3, np.float32)]
    result = gemmsmith.launch(code, grid=1, block=3, args=[arrays, 2])
    assert [each.tolist() for each in result["out"]] == [[0, 0, 0], [1, 1, 1]]
    with pytest.raises(SimulationError, match=r"out\[1\]\[3\], 1 past its end"):
        gemmsmith.launch(code, grid=1, block=4, args=[[np.zeros(4, np.float32), np.zeros(3, np.float32)], 2])


@pytest.mark.parametrize(
    ("ctype", "dtype"),
    [
        ("float", np.float32), ("double", np.float64), ("__half", np.float16), ("__nv_bfloat16", ml_dtypes.bfloat16),
        ("__nv_fp8_e4m3", ml_dtypes.float8_e4m3fn), ("__nv_fp8_e5m2", ml_dtypes.float8_e5m2), ("signed char", np.int8),
        ("unsigned char", np.uint8), ("short", np.int16), ("unsigned", np.uint32), ("long long", np.int64),
        ("size_t", np.uint64), ("bool", np.bool_),
    ],
)  # fmt: skip
def test_every_element_type_arrives_and_returns(ctype: str, dtype: Any) -> None:
    code = f"""#include <cuda_fp16.h>
    #include <cuda_bf16.h>
    #include <cuda_fp8.h>
    __global__ void copy(const {ctype}* x, {ctype}* out, {ctype} last) {{
        out[threadIdx.x] = threadIdx.x == 3 ? last : x[threadIdx.x]; }}"""
    x = np.array([1, 0, 1, 1]).astype(dtype)
    last = 1 if ctype not in ("__nv_fp8_e4m3", "__nv_fp8_e5m2") else np.array(1).astype(dtype)[()]
    result = gemmsmith.launch(code, grid=1, block=4, args=[x, np.zeros(4, dtype), last])
    assert result["out"].dtype == np.dtype(dtype)
    assert np.array_equal(result["out"], x)


def test_gpu_is_refused_where_there_is_none() -> None:
    from gemmsmith.errors import MissingDeviceError
    from gemmsmith.run.cuda import gpu_available

    if gpu_available():
        assert reduce(device="gpu")["out"].sum() == reduce()["out"].sum()
    else:
        with pytest.raises(MissingDeviceError):
            reduce(device="gpu")
    with pytest.raises(UsageError, match="unknown device 'cpu'"):
        reduce(device="cpu")


def test_a_kernel_that_is_not_there_is_named_with_its_neighbours(tmp_path: Path) -> None:
    with pytest.raises(UnknownKernelError, match="no kernel called 'ours::scal'") as raised:
        gemmsmith.launch(SCALE, "ours::scal", grid=1, block=1)
    assert "did you mean ours::scale? its kernels: ours::scale, ours::other" in raised.value.hint
    with pytest.raises(UsageError, match=r"kernel\.cu has several kernels: ours::scale, ours::other"):
        gemmsmith.launch(SCALE, grid=1, block=1)
    with pytest.raises(UsageError, match="reduce is a template, and its parameter B has no value"):
        gemmsmith.launch(REDUCE, "reduce", grid=1, block=1)
    with pytest.raises(UnknownKernelError, match="there is no file"):
        gemmsmith.launch(tmp_path / "none.cu", grid=1, block=1)


def test_the_result_refuses_a_name_that_was_not_written() -> None:
    with pytest.raises(UsageError, match="writes no 'x'"):
        reduce()["x"]
