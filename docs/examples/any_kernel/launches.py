"""Kernels that are no matrix products, each with the answer in NumPy.

gemmsmith check launches.py
gemmsmith profile launches.py
"""

import ml_dtypes
import numpy as np

import gemmsmith


def transposed(**arrays):
    return {"out": arrays["in"].T}


def block_sums(x, out, threads=256):
    """The strided shares of each block, which is what a grid-stride loop adds up."""
    lanes = out.size * threads
    padded = np.zeros(-(-x.size // lanes) * lanes)
    padded[: x.size] = x
    return {"out": padded.reshape(-1, out.size, threads).sum(axis=(0, 2))}


def prefix_sums(x):
    return {"out": x.cumsum(axis=1)}


def row_softmax(x):
    powers = np.exp(x.astype(float) - x.max(axis=1, keepdims=True))
    return {"out": powers / powers.sum(axis=1, keepdims=True)}


def normalised(x, scale, shift, epsilon):
    x = x.astype(float)
    centred = x - x.mean(axis=1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(axis=1, keepdims=True) + epsilon)
    return {"out": (centred / deviation * scale + shift).astype(ml_dtypes.bfloat16)}


def causal_attention(q, k, v, scale):
    q, k, v = (each.astype(float) for each in (q, k, v))
    scores = np.where(np.tri(len(q), dtype=bool), q @ k.T * scale, -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return {"out": weights / weights.sum(axis=1, keepdims=True) @ v}


def heat_step(**arrays):
    old = arrays["in"]
    new = old.copy()
    new[1:-1, 1:-1] = (old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:]) / 4
    return {"out": new}


def stretched(image, out):
    """Bilinear interpolation; the texture unit rounds its weights to 1/256."""
    rows, columns = ((np.arange(new) + 0.5) / new * old - 0.5 for new, old in zip(out.shape, image.shape, strict=True))
    along_x = np.array([np.interp(columns, np.arange(image.shape[1]), row) for row in image.astype(float)])
    return {"out": np.array([np.interp(rows, np.arange(image.shape[0]), column) for column in along_x.T]).T}


def whole_sum(x):
    return {"out": [x.sum(dtype=float)]}


def rows_backwards(**arrays):
    return {"out": arrays["in"][:, ::-1]}


launches = [
    gemmsmith.Launch(
        "transpose.cu", grid=(4, 3), block=(32, 8), expect=transposed,
        args="width=100, height=70, in=randn(height, width, f32), out=empty(width, height, f32)",
    ),
    gemmsmith.Launch(
        "reduce.cu", "reduce<256>", grid=8, block=256, expect=block_sums,
        args="x=randn(10000, f32), out=empty(8, f32), n=10000",
    ),
    gemmsmith.Launch(
        "scan.cu", "scan<128>", grid=4, block=128, expect=prefix_sums,
        args="x=randint(-9, 10, 4, 128, i32), out=empty(4, 128, i32)",
    ),
    gemmsmith.Launch(
        "softmax.cu", "softmax<64>", grid=6, block=64, expect=row_softmax,
        args="x=randn(6, 150, f32), out=empty(6, 150, f32), columns=150",
    ),
    gemmsmith.Launch(
        "layernorm.cu", "layernorm", grid=3, block=64, expect=normalised,
        args="x=randn(5, 96, bf16), scale=rand(96, f32), shift=randn(96, f32), out=empty(5, 96, bf16), rows=5, "
             "columns=96, epsilon=1e-5",
    ),
    gemmsmith.Launch(
        "attention.cu", "attention<16, 32>", grid=2, block=32, expect=causal_attention,
        args="tokens=50, q=randn(tokens, 16, f32), k=randn(tokens, 16, f32), v=randn(tokens, 16, f32), "
             "out=empty(tokens, 16, f32), scale=0.25",
    ),
    gemmsmith.Launch(
        "stencil.cu", "stencil", grid=(3, 2), block=(16, 16), expect=heat_step,
        args="in=randn(30, 40, f64), out=empty(30, 40, f64), width=40, height=30",
    ),
    gemmsmith.Launch(
        "resize.cu", grid=(2, 4), block=(32, 8), expect=stretched, atol=0.01,
        args="image=texture(rand(12, 20, f32), filter=linear, normalized), out=empty(30, 50, f32), width=50, height=30",
    ),
    gemmsmith.Launch(
        "grid_sum.cu", grid=6, block=128, expect=whole_sum, cooperative=True,
        args="x=randn(5000, f32), parts=zeros(6, f32), out=empty(1, f32), n=5000",
    ),
    gemmsmith.Launch(
        "reversed_rows.cu", grid=2, block=32, expect=rows_backwards,
        args="in=randint(-9, 10, 50, 8, i32), out=empty(50, 8, i32), rows=50, columns=8",
    ),
]  # fmt: skip
