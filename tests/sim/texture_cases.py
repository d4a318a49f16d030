"""Texture and surface reads that were recorded on a GPU: textures, coordinates and kernels, the same every time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.run.texture import Sampling, Texels

Array = NDArray[Any]
BLOCK = 128
F32, U8, I8, U16, I16, U32, I32, F16 = (
    np.dtype(t) for t in ("float32", "uint8", "int8", "uint16", "int16", "uint32", "int32", "float16")
)

# A kernel for each way of reading. Every thread has three coordinates and writes four results.
READS = {
    "tex1D": "tex1D<{t}4>(s, x)", "tex2D": "tex2D<{t}4>(s, x, y)", "tex3D": "tex3D<{t}4>(s, x, y, z)",
    "tex2DLod": "tex2DLod<{t}4>(s, x, y, z)", "tex1Dfetch": "tex1Dfetch<{t}4>(s, int(x))",
    "tex1DLayered": "tex1DLayered<{t}4>(s, x, int(z))", "tex2DLayered": "tex2DLayered<{t}4>(s, x, y, int(z))",
    "gather0": "tex2Dgather<{t}4>(s, x, y, 0)", "gather3": "tex2Dgather<{t}4>(s, x, y, 3)",
    "tex2Dint": "tex2d_at(s, int(x), int(y))", "tex3Dint": "tex3d_at(s, int(x), int(y), int(z))",
}  # fmt: skip
_AT = """
#define AT(GEOMETRY, AXES, ...) \\
    asm volatile("tex." GEOMETRY ".v4.f32.s32 {%0, %1, %2, %3}, [%4, {" AXES "}];" \\
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(s), __VA_ARGS__); \\
    return v
__device__ float4 tex2d_at(cudaTextureObject_t s, int x, int y) { float4 v; AT("2d", "%5, %6", "r"(x), "r"(y)); }
__device__ float4 tex3d_at(cudaTextureObject_t s, int x, int y, int z) {
  float4 v; AT("3d", "%5, %6, %7, %7", "r"(x), "r"(y), "r"(z));
}
"""


@dataclass(frozen=True)
class Case:
    """One texture, how it is read, and where. ``kind`` is float, int or uint."""

    name: str
    read: str
    texels: Texels
    sampling: Sampling
    data: Array = field(repr=False)
    coordinates: Array = field(repr=False)  # 3 x samples, float32
    kind: str = "float"

    @property
    def source(self) -> str:
        read = READS[self.read].format(t=self.kind)
        return (
            f"{_AT if '_at(' in read else ''}\n"
            f"__global__ void sample(cudaTextureObject_t s, const float* c, {self.kind}4* out, int n) {{\n"
            f"  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= n) return;\n"
            f"  float x = c[i], y = c[n + i], z = c[2 * n + i];\n  out[i] = {read};\n}}\n"
        )


def _texels(rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)


def _special_texels(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    values = (rng.standard_normal(shape) * 2.0 ** rng.integers(-140, 120, shape)).astype(np.float32)
    flat = values.reshape(-1)
    pick = rng.random(flat.size)
    for bound, value in ((0.08, np.inf), (0.12, -np.inf), (0.2, np.nan), (0.35, 0.0), (0.4, -0.0)):
        flat[(pick < bound) & (pick >= bound - 0.06)] = value
    return values


def coordinates(rng: np.random.Generator, extent: int, count: int, normalized: bool) -> Array:
    """Uniform ones around the texture, edges and halves of texels, points close to these, and a few special ones."""
    size = max(1, extent)
    part = count // 4
    near = rng.integers(-2 * size, 3 * size * 2, part) / 2 + rng.choice(
        [0, 1, -1, 3, -5, 16], part
    ) * 2.0 ** rng.integers(-22, -7, part)
    fine = rng.integers(-size * 512, 2 * size * 512, part) / 512 + rng.choice([0, 0, 1e-4, -1e-4], part)
    wide = rng.standard_normal(count - 3 * part - 16) * 10.0 ** rng.integers(-3, 4, count - 3 * part - 16)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 2.0**31, -(2.0**31), 2.0**24, 65536.5, 1e-40,
                        size, size - 0.5, 0.5, size + 0.5])  # fmt: skip
    found = np.concatenate([rng.uniform(-0.5 * size, 1.5 * size, part), near, fine, wide, special]).astype(np.float32)
    return (found / np.float32(size)).astype(np.float32) if normalized else found


def _case(
    name: str, read: str, dtype: np.dtype[Any], shape: tuple[int, ...], count: int, *, channels: int = 1,
    layered: bool = False, kind: str = "float", special: bool = False, resource: str = "array", inside: bool = False,
    **sampling: Any,
) -> Case:  # fmt: skip
    """``shape`` is that of the NumPy array without channels: depth (or layers), height, width."""
    rng = np.random.default_rng(sum(name.encode()) * 7919 + len(name))
    full = (*shape, channels) if channels > 1 else shape
    data = _special_texels(rng, full) if special else _texels(rng, dtype, full)
    sizes = list(reversed(shape[1:] if layered else shape))
    extent = [*sizes, 0, 0][:3]
    texels = Texels(dtype, channels, (extent[0], extent[1], extent[2]), shape[0] if layered else 0, resource,
                    64 * dtype.itemsize * channels if resource == "pitch2d" else 0)  # fmt: skip
    how = Sampling(**sampling)
    axes = [coordinates(rng, size, count, how.normalized_coordinates) for size in extent]
    if inside:
        axes = [rng.uniform(0, max(1, size), count).astype(np.float32) for size in extent]
    if layered:
        axes[2] = rng.integers(-2, shape[0] + 2, count).astype(np.float32)
    for n in range(1, 3):
        if not (layered and n == 2):
            axes[n] = rng.permutation(axes[n])
    if "int" in read or read == "tex1Dfetch":
        axes = [rng.integers(-3, max(1, size) + 4, count).astype(np.float32) for size in extent]
    return Case(name, read, texels, how, data, np.stack(axes), kind)


def cases(count: int = 2048) -> Iterator[Case]:
    every = ("clamp", "border", "wrap", "mirror")
    border = (0.25, -1.5, 3.0, 0.5)
    for how in ("point", "linear"):
        yield _case(f"1d f32 {how}", "tex1D", F32, (13,), count, filter=how)
        yield _case(f"2d f32 {how}", "tex2D", F32, (9, 13), count, filter=how)
        yield _case(f"3d f32 {how}", "tex3D", F32, (5, 7, 6), count, filter=how)
        yield _case(f"2d f32x4 {how}", "tex2D", F32, (9, 13), count, channels=4, filter=how)
        yield _case(f"2d f32 special {how}", "tex2D", F32, (16, 16), count, filter=how, special=True, inside=True)
        yield _case(f"1d f32 special {how}", "tex1D", F32, (64,), count, filter=how, special=True, inside=True)
        yield _case(f"2d f16 {how}", "tex2D", F16, (9, 13), count, filter=how)
        for mode in every:
            for normalized in (False, True):
                if mode in ("wrap", "mirror") and not normalized:
                    continue
                tail = f"{mode}{' normalized' if normalized else ''} {how}"
                for dims, read, shape in ((1, "tex1D", (13,)), (2, "tex2D", (6, 11)), (3, "tex3D", (3, 5, 4))):
                    yield _case(f"{dims}d f32 {tail}", read, F32, shape, count, filter=how,
                                address=((mode,) * dims + ("clamp",) * 2)[:3], normalized_coordinates=normalized,
                                border=border)  # fmt: skip
        for dtype in (U8, I8, U16, I16):
            yield _case(f"2d {dtype} fractions {how}", "tex2D", dtype, (9, 13), count, channels=4, filter=how,
                        normalized_values=True)  # fmt: skip
            yield _case(f"1d {dtype} fractions {how}", "tex1D", dtype, (200,), count, filter=how, inside=True,
                        normalized_values=True)  # fmt: skip
        yield _case(f"2d u8 border {how}", "tex2D", U8, (9, 13), count, channels=4, filter=how, normalized_values=True,
                    address=("border",) * 3, border=border)  # fmt: skip
        yield _case(f"layered 2d {how}", "tex2DLayered", F32, (3, 5, 6), count, layered=True, filter=how)
        yield _case(f"layered 1d {how}", "tex1DLayered", F32, (3, 11), count, layered=True, filter=how)
        yield _case(f"pitch2d {how}", "tex2D", F32, (9, 13), count, filter=how, resource="pitch2d")
        yield _case(f"gather0 {how}", "gather0", F32, (9, 13), count, channels=4, filter=how)
        yield _case(f"gather3 {how}", "gather3", F32, (9, 13), count, channels=4, filter=how)
        yield _case(f"lod {how}", "tex2DLod", F32, (9, 13), count, filter=how)
    yield _case("3d u8 fractions linear", "tex3D", U8, (5, 7, 6), count, filter="linear", normalized_values=True)
    yield _case("2d f32x2 point", "tex2D", F32, (9, 13), count, channels=2)
    for dtype, kind in ((U8, "uint"), (I8, "int"), (U16, "uint"), (I16, "int"), (U32, "uint"), (I32, "int")):
        yield _case(f"2d {dtype} point", "tex2D", dtype, (9, 13), count, channels=2, kind=kind)
        yield _case(f"fetch {dtype}", "tex1Dfetch", dtype, (60,), count, kind=kind, resource="linear")
    yield _case("2d u8 integer border", "tex2D", U8, (9, 13), count, kind="uint", channels=4, address=("border",) * 3)
    yield _case("fetch f32", "tex1Dfetch", F32, (60,), count, resource="linear")
    yield _case("fetch f32x4", "tex1Dfetch", F32, (60,), count, channels=4, resource="linear")
    yield _case("fetch f16", "tex1Dfetch", F16, (60,), count, resource="linear")
    yield _case("fetch u8 fractions", "tex1Dfetch", U8, (60,), count, channels=4, resource="linear",
                normalized_values=True)  # fmt: skip
    yield _case("fetch i16 fractions", "tex1Dfetch", I16, (60,), count, resource="linear", normalized_values=True)
    for mode in ("clamp", "border"):
        yield _case(f"2d at {mode}", "tex2Dint", F32, (9, 13), count, address=(mode,) * 3, border=border)
        yield _case(f"3d at {mode}", "tex3Dint", F32, (5, 7, 6), count, address=(mode,) * 3, border=border)
    yield _case("2d at linear", "tex2Dint", F32, (9, 13), count, filter="linear")


def weights(count: int = 4096) -> Case:
    """A texture of one 1 among zeros: reads between texels give the weights."""
    data = np.zeros(8, np.float32)
    data[3] = 1
    at = (np.arange(count) / count * 2 + 2.5).astype(np.float32)
    texels = Texels(F32, 1, (8, 0, 0))
    return Case("weights", "tex1D", texels, Sampling("linear"), data, np.stack([at, at, at]))


SURFACES = """
__global__ void surfaces(cudaSurfaceObject_t one, cudaSurfaceObject_t two, cudaSurfaceObject_t bytes, const int* at,
                         float* out, uchar4* quads, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
  int x = at[i], y = at[n + i];
  out[i] = surf1Dread<float>(one, 4 * x, cudaBoundaryModeZero);
  out[n + i] = surf1Dread<float>(one, 4 * x, cudaBoundaryModeClamp);
  out[2 * n + i] = surf2Dread<float>(two, 4 * x, y, cudaBoundaryModeZero);
  out[3 * n + i] = surf2Dread<float>(two, 4 * x, y, cudaBoundaryModeClamp);
  quads[i] = surf2Dread<uchar4>(bytes, 4 * x, y, cudaBoundaryModeClamp);
  quads[n + i] = surf2Dread<uchar4>(bytes, 4 * x, y, cudaBoundaryModeZero);
}
__global__ void writes(cudaSurfaceObject_t two, cudaSurfaceObject_t bytes, const int* at, int n) {
  if (threadIdx.x) return;
  for (int i = 0; i < n; i++) {
    surf2Dwrite(float(i), two, 4 * at[i], at[n + i], cudaBoundaryModeZero);
    surf2Dwrite(make_uchar4(i, i + 1, i + 2, i + 3), bytes, 4 * at[i], at[n + i], cudaBoundaryModeClamp);
  }
}
"""
