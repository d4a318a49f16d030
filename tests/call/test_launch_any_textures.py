"""Textures and surfaces as arguments of a launch: what they read, what is refused, and races."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gemmsmith
from gemmsmith.errors import DTypeError, GemmsmithError, SimulationError, UsageError
from gemmsmith.verify.launch_check import check_launch

CODE = """
__global__ void at(cudaTextureObject_t image, const float* x, const float* y, float* out) {
    out[threadIdx.x] = tex2D<float>(image, x[threadIdx.x], y[threadIdx.x]);
}
__global__ void quads(cudaTextureObject_t image, float4* out) {
    out[threadIdx.x] = tex2D<float4>(image, threadIdx.x, 0);
}
__global__ void fetch(cudaTextureObject_t line, float* out) { out[threadIdx.x] = tex1Dfetch<float>(line, threadIdx.x); }
__global__ void bytes(cudaTextureObject_t line, unsigned char* out) {
    out[threadIdx.x] = tex1Dfetch<unsigned char>(line, threadIdx.x);
}
__global__ void both(cudaTextureObject_t line, float* memory, float* out) {
    memory[threadIdx.x] = 5;
    __syncthreads();
    out[threadIdx.x] = tex1Dfetch<float>(line, threadIdx.x + 1);
}
__global__ void add(cudaSurfaceObject_t image, float value) {
    float old = surf2Dread<float>(image, 4 * threadIdx.x, threadIdx.y);
    surf2Dwrite(old + value, image, 4 * threadIdx.x, threadIdx.y);
}
__global__ void shift(cudaSurfaceObject_t line) {
    float next = surf1Dread<float>(line, 4 * ((threadIdx.x + 1) % 64));
    #ifdef SAFE
    __syncthreads();
    #endif
    surf1Dwrite(next, line, 4 * threadIdx.x);
}
__global__ void pointer(const float* x, unsigned long long handle, float* out) {
    out[threadIdx.x] = x[threadIdx.x] + tex1Dfetch<float>(handle, threadIdx.x);
}
"""
IMAGE = np.arange(12, dtype=np.float32).reshape(3, 4)
LINE = np.arange(32, dtype=np.float32)


def run(kernel: str, *args: Any, block: Any = 4, **more: Any) -> Any:
    return gemmsmith.launch(CODE, kernel, grid=1, block=block, args=list(args), **more)


def read(image: Any, x: list[float], y: list[float]) -> list[float]:
    points = np.array([x, y], np.float32)
    found: list[float] = run("at", image, *points, np.zeros(len(x), np.float32), block=len(x))["out"].tolist()
    return found


def test_texels_by_their_coordinates() -> None:
    assert read(gemmsmith.texture(IMAGE), [0, 1.9, 3.5, 9], [0, 1.2, 2.5, -7]) == [0, 5, 11, 3]


def test_filtering_between_texels() -> None:
    assert read(gemmsmith.texture(IMAGE, filter="linear"), [1, 1.5, 2.25], [0.5, 1, 1.5]) == [0.5, 3, 5.75]


@pytest.mark.parametrize(
    ("mode", "expected"), [("clamp", [0, 3]), ("border", [-1, -1]), ("wrap", [3, 0]), ("mirror", [0, 3])]
)
def test_beyond_the_edge(mode: str, expected: list[float]) -> None:
    line = gemmsmith.texture(IMAGE, address=(mode, "clamp"), normalized=True, border=-1)
    assert read(line, [-0.1, 1.1], [0.1, 0.1]) == expected


def test_channels_layers_and_types() -> None:
    pixels = np.arange(32, dtype=np.uint8).reshape(1, 8, 4)
    found = run(
        "quads", gemmsmith.texture(pixels, channels=4, read="normalized"), np.zeros((8, 4), np.float32), block=8
    )
    assert np.array_equal(found["out"], (pixels[0] / 255.0).astype(np.float32))
    raw = run(
        "bytes", gemmsmith.texture(np.arange(8, dtype=np.uint8), resource="linear"), np.zeros(8, np.uint8), block=8
    )
    assert raw["out"].tolist() == list(range(8))


def test_linear_memory_ends_in_zeros_and_may_be_a_pointer_too() -> None:
    short = gemmsmith.texture(LINE[:20], resource="linear")
    assert run("fetch", short, np.zeros(32, np.float32), block=32)["out"].tolist() == [*range(20), *[0] * 12]
    memory = np.zeros(32, np.float32)
    result = run("both", gemmsmith.texture(memory, resource="linear"), memory, np.zeros(32, np.float32), block=32)
    assert result["out"].tolist() == [5] * 31 + [0]
    assert result.ok, "a barrier orders the writes before the texture reads"


def test_a_handle_may_be_an_integer_parameter() -> None:
    texture = gemmsmith.texture(LINE, resource="linear")
    assert run("pointer", LINE, texture, np.zeros(32, np.float32), block=32)["out"].tolist() == (2 * LINE).tolist()


def test_a_surface_is_an_output() -> None:
    result = run("add", gemmsmith.surface(IMAGE), 10.0, block=(4, 3))
    assert np.array_equal(result["image"], IMAGE + 10)
    assert np.array_equal(IMAGE, np.arange(12).reshape(3, 4)), "the caller's array is not changed"
    mine = IMAGE.copy()
    run("add", gemmsmith.surface(mine), 1.0, block=(4, 3), inplace=True)
    assert np.array_equal(mine, IMAGE + 1)


@pytest.mark.parametrize("schedule", ["lockstep", "in_order", "reversed", "random", "starved"])
def test_races_on_a_surface_are_found_under_every_schedule(schedule: str) -> None:
    line = np.arange(64, dtype=np.float32)
    racy = run("shift", gemmsmith.surface(line), block=64, schedule=schedule)
    assert any("surface write" in str(hazard) and "of line" in str(hazard) for hazard in racy.hazards)
    assert run("shift", gemmsmith.surface(line), block=64, schedule=schedule, defines={"SAFE": 1}).ok


@pytest.mark.parametrize(
    ("kernel", "args", "words"),
    [
        ("at", [IMAGE], "image is a cudaTextureObject_t, and an array was given"),
        ("at", [7], "image is a cudaTextureObject_t, and an int was given"),
        ("at", [gemmsmith.surface(IMAGE)], "and a surface was given"),
        ("pointer", [gemmsmith.texture(LINE), gemmsmith.texture(LINE, resource="linear")], "x is a const float*"),
    ],
)
def test_wrong_arguments(kernel: str, args: list[Any], words: str) -> None:
    rest = [LINE, LINE, np.zeros(32, np.float32)] if kernel == "at" else [np.zeros(32, np.float32)]
    with pytest.raises(DTypeError, match=words.replace("*", r"\*")):
        run(kernel, *args, *rest)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"filter": "cubic"}, "filter='cubic' is not known"), ({"address": "wrap"}, "normalized coordinates only"),
        ({"read": "normalized"}, "integers of 8 and 16 bits"), ({"channels": 3}, "1, 2 or 4 channels"),
        ({"channels": 2}, "the last axis must have 2"), ({"resource": "linear"}, "has 1 dimension"),
        ({"resource": "tiled"}, "'array', 'linear', 'pitch2d'"),
    ],
)  # fmt: skip
def test_textures_that_cannot_be_made(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as raised:
        gemmsmith.texture(IMAGE, **options)
    assert words in f"{raised.value.message}; {raised.value.hint}"


def test_types_that_a_texture_cannot_hold() -> None:
    with pytest.raises(DTypeError, match="cannot hold float64"):
        gemmsmith.texture(IMAGE.astype(float))
    with pytest.raises(UsageError, match="gives floats"):
        gemmsmith.texture(IMAGE.astype(np.uint8), filter="linear")


@pytest.mark.parametrize(
    ("kernel", "args", "words"),
    [
        ("fetch", [gemmsmith.texture(LINE)], 'resource="linear"'),
        ("fetch", [gemmsmith.texture(LINE.astype(np.int32), resource="linear")], "gives integers"),
        ("fetch", [gemmsmith.texture(IMAGE)], "line is 2-D"),
        ("add", [gemmsmith.surface(LINE), 1.0], "image is 1-D"),
        ("add", [gemmsmith.surface(IMAGE[:, :3]), 1.0], r"x \(in bytes\) is 12, and image has 0 to 8"),
    ],
)
def test_reads_that_the_texture_cannot_give_are_faults(kernel: str, args: list[Any], words: str) -> None:
    rest = [] if kernel == "add" else [np.zeros(32, np.float32)]
    with pytest.raises(SimulationError, match=words):
        run(kernel, *args, *rest, block=(4, 3) if kernel == "add" else 32)


def test_an_invented_handle_is_a_fault() -> None:
    with pytest.raises(SimulationError, match=r"0x7 is no texture object: pass gemmsmith.texture\(array\)"):
        run("fetch", (7).to_bytes(8, "little"), np.zeros(4, np.float32))


def test_textures_in_words() -> None:
    words = (
        "image=texture(rand(3, 4, f32), filter=linear, address=border, border=2), x=full(-9, 4, f32), y=zeros(4, f32)"
    )
    launch = gemmsmith.Launch(CODE, "at", 1, 4, f"{words}, out=empty(4, f32)", expect=lambda image: {"out": [2.0] * 4})  # noqa: ARG005
    assert check_launch(launch).ok
    for wrong, said in (("texture(4)", "has no array"), ("texture(rand(4,f32), colour=red)", "no option 'colour'"),
                        ("texture(rand(4,f32), filter=cubic)", "filter='cubic'")):  # fmt: skip
        with pytest.raises(GemmsmithError, match=said):
            gemmsmith.launch(CODE, "fetch", grid=1, block=4, args=f"line={wrong}, out=zeros(4, f32)")
