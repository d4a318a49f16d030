"""Tensor maps that host code encodes, in the ways in which people write it; what is said where they are not read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gemmsmith
from gemmsmith.call.launch_plan import MapArgument, plan_launches
from gemmsmith.errors import GemmsmithError, SignatureError, UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import TensorMap
from gemmsmith.kernel.signature import signature_hint
from gemmsmith.kernel.slots import Slot, SlotAddress
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.problem import BF16, FP16, FP32
from gemmsmith.userfile.kernels.user_kernel import UserOptions, found_values, user_kernel

HEAD = """
#include <cuda.h>
#include <cuda_bf16.h>
#define CHECK(x) check_((x), __LINE__)
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
typedef __nv_bfloat16 bf16;
constexpr int BM = 128, BN = 64, BK = 64;
"""
VALUES = "const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b"
KERNEL = "__global__ void gemm({maps}, bf16* C, int M, int N, int K) {{ C[blockIdx.x] = 0; }}\n"
LAUNCH = "gemm<<<dim3(N / BN, M / BM), 128>>>({a}, {b}, C, M, N, K);"
LAST = "CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE, " \
       "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE"  # fmt: skip

IN_PLACE = f"""
void run(bf16* A, bf16* B, bf16* C, int M, int N, int K) {{
    CUtensorMap a, b;
    uint64_t size_a[2] = {{(uint64_t)K, (uint64_t)M}}, size_b[2] = {{(uint64_t)K, (uint64_t)N}};
    uint64_t stride[1] = {{K * sizeof(bf16)}};
    uint32_t box_a[2] = {{BK, BM}}, box_b[2] = {{BK, BN}}, step[2] = {{1, 1}};
    CHECK(cuTensorMapEncodeTiled(&a, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, A, size_a, stride, box_a, step, {LAST}));
    CHECK(cuTensorMapEncodeTiled(&b, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, B, size_b, stride, box_b, step, {LAST}));
    {LAUNCH.format(a="a", b="b")}
}}"""
RETURNED = f"""
template <int ROWS, int COLS, bool SWIZZLED = true>
static CUtensorMap describe(const bf16* ptr, int height, int width) {{
    CUtensorMap map;
    cuuint64_t size[5] = {{(cuuint64_t)width, (cuuint64_t)height, 1, 1, 1}};
    cuuint64_t stride[5] = {{sizeof(bf16), sizeof(bf16) * width, 0, 0, 0}};
    cuuint32_t box[5] = {{cuuint32_t(COLS), cuuint32_t(ROWS), 1, 1, 1}}, step[5] = {{1, 1, 1, 1, 1}};
    auto swizzle = SWIZZLED ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE;
    CUresult done = cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, (void*)ptr, size, stride + 1, box,
        step, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    assert(done == CUDA_SUCCESS);
    return map;
}}
void run(bf16* A, bf16* B, bf16* C, int M, int N, int K) {{
    CUtensorMap a = describe<BM, BK>(A, M, K);
    const auto b = describe<BN, BK>(B, N, K);
    {LAUNCH.format(a="a", b="b")}
}}"""
WRITTEN = f"""
static bool encode_2d(CUtensorMap& out, void* data, const uint64_t sizes[2], const uint32_t boxes[2]) {{
    uint64_t pitch = sizes[0] * 2;
    const uint32_t ones[] = {{1u, 1u}};
    return cuTensorMapEncodeTiled(&out, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, data, sizes, &pitch, boxes, ones, {LAST})
        == CUDA_SUCCESS;
}}
void run(bf16* lhs, bf16* rhs, bf16* C, int M, int N, int K) {{
    CUtensorMap first{{}}, second{{}};
    const uint64_t sa[2] = {{(uint64_t)K, (uint64_t)M}}, sb[2] = {{(uint64_t)K, (uint64_t)N}};
    const uint32_t ba[2] = {{BK, BM}}, bb[2] = {{BK, BN}};
    if (!encode_2d(first, lhs, sa, ba) || !encode_2d(second, rhs, sb, bb)) exit(1);
    {LAUNCH.format(a="first", b="second")}
}}"""
ENTRY_POINT = f"""
using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*,
                            const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                            CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
static Encode entry_point() {{
    void* found = nullptr;
    cudaDriverEntryPointQueryResult how;
    cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &found, cudaEnableDefault, &how);
    return reinterpret_cast<Encode>(found);
}}
struct Shape {{ int m, n, k; }};
void run(bf16* A, bf16* B, bf16* C, int M, int N, int K) {{
    auto encode = entry_point();
    auto made = [&](CUtensorMap* map, bf16* ptr, int rows, int box_rows) {{
        std::array<cuuint64_t, 2> size{{{{(cuuint64_t)K, (cuuint64_t)rows}}}};
        std::vector<cuuint64_t> stride = {{K * sizeof(bf16)}};
        cuuint32_t box[2];
        box[0] = BK;
        box[1] = box_rows;
        cuuint32_t step[2] = {{1, 1}};
        encode(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, ptr, size.data(), stride.data(), box, step, {LAST});
    }};
    CUtensorMap maps[2];
    made(&maps[0], A, M, BM);
    made(&maps[1], B, N, BN);
    {LAUNCH.format(a="maps[0]", b="maps[1]")}
}}"""
CACHED = f"""
CUtensorMap* device_a = nullptr;
CUtensorMap* device_b = nullptr;
template <int ROWS, int COLS> void fill(CUtensorMap* map, bf16* source, int tiles_down, int tiles_across) {{
    uint64_t size[2] = {{(uint64_t)COLS * tiles_across, (uint64_t)ROWS * tiles_down}};
    uint64_t stride[1] = {{size[0] * 2}};
    uint32_t box[2] = {{COLS, ROWS}}, step[2] = {{1, 1}};
    cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, source, size, stride, box, step, {LAST});
}}
template <int ROWS, int COLS> CUtensorMap* placed(bf16* source, int tiles_down, int tiles_across) {{
    CUtensorMap host, *device;
    fill<ROWS, COLS>(&host, source, tiles_down, tiles_across);
    cudaMalloc(&device, sizeof(CUtensorMap));
    cudaMemcpy(device, &host, sizeof(host), cudaMemcpyHostToDevice);
    return device;
}}
void run(int M, int N, int K, bf16* A, bf16* B, bf16* C) {{
    if (!device_a) {{
        device_a = placed<BM, BK>(A, M / BM, K / BK);
        device_b = placed<BN, BK>(B, N / BN, K / BK);
    }}
    {LAUNCH.format(a="device_a", b="device_b")}
}}"""
IN_CALLER = f"""
void launch(const CUtensorMap& ta, const CUtensorMap& tb, bf16* C, int M, int N, int K) {{
    {LAUNCH.format(a="ta", b="tb")}
}}
void make(CUtensorMap* map, bf16* p, uint64_t inner, uint64_t outer, uint32_t box_outer,
          CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B) {{
    uint64_t size[] = {{inner, outer}};
    uint64_t stride[] = {{inner * sizeof(*p)}};
    uint32_t box[] = {{64, box_outer}};
    uint32_t step[] = {{1, 1}};
    cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, p, size, stride, box, step,
        CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}}
int main() {{
    int M = 512, N = 512, K = 512;
    bf16 *d_A, *d_B, *d_C;
    cudaMalloc(&d_A, M * K * sizeof(bf16));
    CUtensorMap one, two;
    make(&one, d_A, K, M, BM);
    make(&two, d_B, K, N, BN);
    launch(one, two, d_C, M, N, K);
}}"""
ENCODE = f"""
static void encode(CUtensorMap* map, void* p, uint64_t inner, uint64_t outer, uint32_t box_outer) {{
    uint64_t size[] = {{inner, outer}}, stride[] = {{inner * 2}};
    uint32_t box[] = {{64, box_outer}}, step[] = {{1, 1}};
    cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, p, size, stride, box, step, {LAST});
}}
struct Maps {{ CUtensorMap a, b; }};
"""
BOTH = "encode(&maps.a, A, K, M, BM); encode(&maps.b, B, K, N, BN);"
MEMBERS = f"""{ENCODE}
void run(bf16* A, bf16* B, bf16* C, int M, int N, int K) {{
    Maps maps; {BOTH} {LAUNCH.format(a="maps.a", b="maps.b")}
}}"""
RETURNED_STRUCT = f"""{ENCODE}
Maps made(bf16* A, bf16* B, int M, int N, int K) {{ Maps maps; {BOTH} return maps; }}
void run(bf16* A, bf16* B, bf16* C, int M, int N, int K) {{
    auto maps = made(A, B, M, N, K); {LAUNCH.format(a="maps.a", b="maps.b")}
}}"""
OF_CLASS = f"""{ENCODE}
class Gemm {{
    Maps maps;
public:
    void setup(bf16* A, bf16* B, int M, int N, int K) {{ {BOTH} }}
    void run(bf16* C, int M, int N, int K) {{ {LAUNCH.format(a="maps.a", b="maps.b")} }}
}};"""
STATIC_METHOD = f"""{ENCODE}
template <int ROWS> struct Box {{
    static CUtensorMap of(bf16* p, int rows, int cols) {{
        CUtensorMap map; encode(&map, p, cols, rows, ROWS); return map;
    }}
}};
void run(bf16* A, bf16* B, bf16* C, int M, int N, int K) {{
    auto first = Box<BM>::of(A, M, K), second = Box<BN>::of(B, N, K); {LAUNCH.format(a="first", b="second")}
}}"""
IM2COL = f"""{ENCODE}
void convolved(CUtensorMap* map, void* p, uint64_t n, uint64_t h, uint64_t w, uint64_t c) {{
    uint64_t size[] = {{c, w, h, n}}, stride[] = {{2 * c, 2 * c * w, 2 * c * w * h}};
    int lower[] = {{-1, -1}}, upper[] = {{-1, -1}};
    uint32_t step[] = {{1, 1, 1, 1}};
    cuTensorMapEncodeIm2col(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, p, size, stride, lower, upper, 64, 128, step,
        {LAST});
}}
void run(bf16* A, bf16* B, bf16* C, int M, int N, int K) {{
    Maps maps; convolved(&maps.a, A, 1, M / 16, 16, K); encode(&maps.b, B, K, N, BN);
    {LAUNCH.format(a="maps.a", b="maps.b")}
}}"""
STYLES = {"in place": IN_PLACE, "returned": RETURNED, "written": WRITTEN, "entry point and lambda": ENTRY_POINT,
          "cached, by pointer": CACHED, "in the caller": IN_CALLER, "members of a struct": MEMBERS,
          "a struct that is returned": RETURNED_STRUCT, "members of a class": OF_CLASS,
          "a method of a template": STATIC_METHOD}  # fmt: skip


def kernel(folder: Path, host: str, maps: str = VALUES, head: str = HEAD) -> KernelSpec:
    path = folder / "k.cu"
    path.write_text(head + KERNEL.format(maps=maps) + host, encoding="utf-8")
    return user_kernel(path, UserOptions())


def maps_of(spec: KernelSpec, m: int, n: int, k: int) -> dict[str, TensorMap]:
    assert spec.tensor_maps is not None
    return spec.tensor_maps(spec.problem(m, n, k), Config(()))


@pytest.mark.parametrize("style", STYLES)
def test_a_style(style: str, tmp_path: Path) -> None:
    pointers = "const CUtensorMap* map_a, const CUtensorMap* map_b"
    spec = kernel(tmp_path, STYLES[style], pointers if "pointer" in style else VALUES)
    assert spec.dtypes == (BF16,)
    for m, n, k in ((256, 128, 192), (1024, 640, 64)):
        expected = {
            "map_a": TensorMap("A", BF16, (k, m), (2 * k,), (64, 128), 128),
            "map_b": TensorMap("B", BF16, (k, n), (2 * k,), (64, 64), 128),
        }
        assert maps_of(spec, m, n, k) == expected


def test_what_was_found_is_told_with_its_line(tmp_path: Path) -> None:
    kernel(tmp_path, IN_PLACE)
    told = [str(each) for each in found_values(tmp_path / "k.cu", UserOptions())]
    text = HEAD + KERNEL.format(maps=VALUES) + IN_PLACE
    line = 1 + text[: text.index("cuTensorMapEncodeTiled(&a")].count("\n")
    assert any(f"tensor map map_a of A: boxes of 128x64 bf16, swizzle 128 from k.cu:{line} " in each for each in told)


def test_a_stored_matrix_other_types_and_modes(tmp_path: Path) -> None:
    host = """
    void run(half* A, half* B, float* C, int M, int N, int K) {
        CUtensorMap a, b, c;
        cuuint64_t sa[3] = {64, (cuuint64_t)M, (cuuint64_t)K / 64}, sb[3] = {64, (cuuint64_t)N, (cuuint64_t)K / 64};
        cuuint64_t da[2] = {K * 2ull, 128}, dc[1] = {N * 4ull};
        cuuint32_t ba[3] = {64, 128, 1}, bb[3] = {64, 64, 1}, one[3] = {1, 1, 1};
        cuuint64_t sc[2] = {(cuuint64_t)N, (cuuint64_t)M};
        cuuint32_t bc[2] = {32, 64}, twos[2] = {1, 2};
        auto type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
        cuTensorMapEncodeTiled(&a, type, 3, A, sa, da, ba, one, CU_TENSOR_MAP_INTERLEAVE_NONE,
            CU_TENSOR_MAP_SWIZZLE_64B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
            CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA);
        cuTensorMapEncodeTiled(&b, type, 3, B, sb, da, bb, one, CU_TENSOR_MAP_INTERLEAVE_16B,
            CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
        cuTensorMapEncodeTiled(&c, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, C, sc, dc, bc, twos,
            CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
        stored<<<dim3(N / 64, M / 128), 128>>>(a, b, c, M, N, K);
    }"""
    maps = ", ".join(f"const __grid_constant__ CUtensorMap tma_{each}" for each in "abc")
    code = "#include <cuda.h>\n#include <cuda_fp16.h>\n"
    code += f"__global__ void stored({maps}, int M, int N, int K) {{ __syncthreads(); }}\n"
    (tmp_path / "k.cu").write_text(code + host, encoding="utf-8")
    spec = user_kernel(tmp_path / "k.cu", UserOptions())
    assert (spec.dtypes, spec.out_dtypes) == ((FP16,), (FP32,))
    found = maps_of(spec, 256, 128, 192)
    assert found["tma_a"] == TensorMap("A", FP16, (64, 256, 3), (384, 128), (64, 128, 1), 64, 0, True)
    assert found["tma_b"] == TensorMap("B", FP16, (64, 128, 3), (384, 128), (64, 64, 1), 0, 16)
    assert found["tma_c"] == TensorMap("C", FP32, (128, 256), (512,), (32, 64), 0, 0, False, (1, 2))


def test_an_unknown_type_is_that_of_the_array(tmp_path: Path) -> None:
    host = IN_PLACE.replace("CU_TENSOR_MAP_DATA_TYPE_BFLOAT16", "traits<bf16>::type()")
    assert maps_of(kernel(tmp_path, host), 256, 128, 64)["map_a"].dtype == BF16


def test_no_grid_is_guessed_where_host_code_launches_no_blocks(tmp_path: Path) -> None:
    """Blocks beyond its whole tiles would read past the maps: the shape has no launch."""
    spec = kernel(tmp_path, IN_PLACE)
    assert spec.geometry(spec.problem(256, 128, 64), Config(())).grid == (2, 2, 1)
    with pytest.raises(UsageError, match="for 256x63x64 its host code launches no blocks"):
        spec.geometry(spec.problem(256, 63, 64), Config(()))


def test_a_users_kernel_has_its_operands_where_alpha_is_0(tmp_path: Path) -> None:
    """It may multiply all the same; a rung reads neither A nor B."""
    spec = kernel(tmp_path, IN_PLACE)
    addresses = Addresses(SlotAddress(Slot.A), SlotAddress(Slot.B), SlotAddress(Slot.C))
    plan = plan_launches(spec, Config(()), spec.problem(256, 128, 64).with_(alpha=0.0), addresses)
    maps = [each for each in plan.kernel.arguments if isinstance(each, MapArgument)]
    assert [each.address.slot for each in maps] == [Slot.A, Slot.B]


def test_a_column_major_kernel_keeps_its_maps(tmp_path: Path) -> None:
    spec = kernel(tmp_path, IN_PLACE)
    turned = spec.read_as(spec.signature.transposed(), "NT")
    found = maps_of(turned, 256, 128, 64)  # of the user's own M and N
    assert (found["map_a"].operand, found["map_a"].extents) == ("B", (64, 256))
    assert (found["map_b"].operand, found["map_b"].extents) == ("A", (64, 128))


@pytest.mark.parametrize(("old", "new"), [
    ("    CHECK(cuTensorMapEncodeTiled(&a, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, A, size_a, stride, box_a, step, "
     f"{LAST}));",
     "    elsewhere(&a, A, size_a, stride, box_a, step);"),
    ("void run(bf16* A", "void run(CUtensorMap a, bf16* A"),
])  # fmt: skip
def test_maps_that_are_made_elsewhere_are_refused(old: str, new: str, tmp_path: Path) -> None:
    host = IN_PLACE.replace(old, new).replace(
        "CUtensorMap a, b;", "CUtensorMap b;" if "void" in new else "CUtensorMap a, b;"
    )
    host = host if "void" not in new else host.replace("CHECK(cuTensorMapEncodeTiled(&a,", "CHECK(elsewhere(")
    with pytest.raises(SignatureError, match="map_a is a tensor map, and the host code that encodes it was not found"):
        kernel(tmp_path, host)


def test_a_map_for_convolutions_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(SignatureError, match=r"map_a: k.cu:\d+ encodes it with cuTensorMapEncodeIm2col") as refused:
        kernel(tmp_path, IM2COL)
    assert "tensor_map(array, im2col=" in (refused.value.hint or "")


def test_a_struct_with_maps_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text(HEAD + "struct Params { CUtensorMap a, b; bf16* c; int m, n, k; };\n"
                    "__global__ void gemm(const __grid_constant__ Params p) { p.c[blockIdx.x] = 0; }\n")  # fmt: skip
    with pytest.raises(SignatureError, match="p is passed as const __grid_constant__ Params") as refused:
        user_kernel(path, UserOptions())
    assert "--args 'p=struct(tensor_map(" in (refused.value.hint or "")


def test_numbers_that_are_not_known_are_named(tmp_path: Path) -> None:
    spec = kernel(tmp_path, IN_PLACE.replace("box_a[2] = {BK, BM}", "box_a[2] = {BK, from_file()}"))
    with pytest.raises(
        GemmsmithError, match=r"map_a: the tensor map of k.cu:\d+ is not understood: from_file\(\) is not"
    ):
        maps_of(spec, 256, 128, 64)


CHOSEN = """    CUtensorMapSwizzle mode = CU_TENSOR_MAP_SWIZZLE_NONE;
    if (BK * sizeof(bf16) == 32) mode = CU_TENSOR_MAP_SWIZZLE_32B;
    else if (BK * sizeof(bf16) == 64) { mode = CU_TENSOR_MAP_SWIZZLE_64B; }
    else if (BK * sizeof(bf16) == 128) mode = CU_TENSOR_MAP_SWIZZLE_128B;
"""


@pytest.mark.parametrize(("added", "swizzle"), [
    (CHOSEN, 128), (CHOSEN.replace("== 128", "== 256"), 0),
    (CHOSEN + "    if (M > 1) mode = (CUtensorMapSwizzle)1;\n", 32),
    (CHOSEN + "    if (M < 1) mode = CU_TENSOR_MAP_SWIZZLE_32B;\n", 128),
    (CHOSEN.replace("== 128", "== atoi(\"128\")"), None),
    (CHOSEN.replace("mode = CU_TENSOR_MAP_SWIZZLE_128B", "mode = next(mode)"), None),
    (CHOSEN + "    for (int i = 0; i < 2; ++i) mode = CU_TENSOR_MAP_SWIZZLE_32B;\n", 32),
    (CHOSEN + "    for (int i = 0; i < next(i); ++i) mode = CU_TENSOR_MAP_SWIZZLE_32B;\n", None),
])  # fmt: skip
def test_a_swizzle_that_an_if_chooses(added: str, swizzle: int | None, tmp_path: Path) -> None:
    """The conditions are evaluated; where one is not known, or something else changes the variable, none is guessed."""
    last = LAST.replace("CU_TENSOR_MAP_SWIZZLE_128B", "mode")
    assert last != LAST
    first = "    CHECK(cuTensorMapEncodeTiled(&a,"
    host = IN_PLACE.replace(LAST, last, 1).replace(first, added + first, 1)
    spec = kernel(tmp_path, host)
    if swizzle is None:
        with pytest.raises(GemmsmithError, match="mode"):
            maps_of(spec, 256, 128, 64)
    else:
        assert maps_of(spec, 256, 128, 64)["map_a"].swizzle == swizzle


def test_constants_of_tensor_maps_in_code_that_a_kernel_uses(tmp_path: Path) -> None:
    kind = "static constexpr CUtensorMapDataType kind = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;"
    code = (f"#include <cuda.h>\ntemplate <class T> struct Traits {{ {kind} static constexpr int rows = 4; }};\n"
            "__global__ void copy(float* out) { out[Traits<float>::rows] = CU_TENSOR_MAP_SWIZZLE_64B; }\n")  # fmt: skip
    (tmp_path / "k.cu").write_text(code, encoding="utf-8")
    result = gemmsmith.launch(tmp_path / "k.cu", grid=1, block=1, args=[np.zeros(8, np.float32)])
    assert result["out"][4] == 2


DEBUG = KERNEL.format(maps=VALUES).replace("int M", "int* debug, int M") + IN_PLACE.replace(
    "C, M, N, K)", "C, debug, M, N, K)").replace("int K)", "int K, DECLARED)")  # fmt: skip


@pytest.mark.parametrize(("declared", "tested", "role"), [("int* debug", "", ""), ("int* debug = nullptr", "", "0"),
                                                          ("int* debug", "int n = debug ? 1 : 0;", "0")])  # fmt: skip
def test_a_suggested_signature_is_accepted(declared: str, tested: str, role: str, tmp_path: Path) -> None:
    """A further pointer may be null where host code says so; where it does not, the line to complete is a legal one."""
    file = tmp_path / "k.cu"
    text = HEAD + DEBUG.replace("DECLARED", declared).replace("CUtensorMap a, b;", f"CUtensorMap a, b; {tested}")
    file.write_text(text, encoding="utf-8")
    signature = user_kernel(file, UserOptions()).signature
    assert {arg.name: arg.role for arg in signature.arguments}["debug"] == role
    suggested = signature_hint(signature).rpartition(" ")[2].replace("?", "0")
    again = user_kernel(file, UserOptions(signature=suggested)).signature
    assert [arg.role for arg in again.arguments] == ["mapA", "mapB", "C", "0", "M", "N", "K"]
