"""Whole models with gemmsmith.torch.optimize, beside torch and torch.compile: step time and loss curves, on a GPU.

    python benchmarks/models.py [OUTPUT.json] [--only gpt2,llama,vit,mlp] [--compile gpt2,mlp] [--rounds 12] [--fill]

Weights are random. Each model runs a forward pass and a training step as torch has it, with ``optimize``, and for the
models of ``--compile`` both under torch.compile. Variants take turns; the table has medians of milliseconds. The loss
curve is of 12 training steps from the same weights on the same data; its largest relative difference is shown. With
``--fill`` every model first runs in a process of its own, all at the same time, to fill the caches of both compilers.
"""

from __future__ import annotations

import argparse
import copy
import datetime
import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

Step = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """A model, its input and targets, and the type it computes in: autocast's, or '' for its own."""

    name: str
    what: str
    make: Callable[[Any], Any]
    data: Callable[[Any], tuple[Any, Any]]
    autocast: str
    classes: int


def gpt2(torch: Any) -> Any:
    """GPT-2 124M: 12 layers of width 768, a vocabulary of 50,257 whose head shares the embedding."""
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, width: int = 768, heads: int = 12) -> None:
            super().__init__()
            self.heads = heads
            self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            b, t, c = x.shape
            q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
            return x + self.down(functional.gelu(self.up(self.ln2(x)), approximate="tanh"))

    class Model(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.positions = nn.Embedding(50257, 768), nn.Embedding(1024, 768)
            self.blocks = nn.ModuleList(Block() for _ in range(12))
            self.norm, self.head = nn.LayerNorm(768), nn.Linear(768, 50257, bias=False)
            for each in self.parameters():
                if each.dim() > 1:
                    nn.init.normal_(each, std=0.02)
            self.head.weight = self.tokens.weight

        def forward(self, x: Any) -> Any:
            h = self.tokens(x) + self.positions(torch.arange(x.shape[1], device=x.device))
            for block in self.blocks:
                h = block(h)
            return self.head(self.norm(h))

    return Model()


def llama(torch: Any) -> Any:
    """Two Llama-3-8B blocks: width 4096, 32 query and 8 key heads, gated 14,336; a head of 32,000."""
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.n1, self.n2 = nn.RMSNorm(4096), nn.RMSNorm(4096)
            self.q, self.k, self.v = (nn.Linear(4096, n, bias=False) for n in (4096, 1024, 1024))
            self.o = nn.Linear(4096, 4096, bias=False)
            self.gate, self.up = nn.Linear(4096, 14336, bias=False), nn.Linear(4096, 14336, bias=False)
            self.down = nn.Linear(14336, 4096, bias=False)

        def forward(self, x: Any) -> Any:
            b, t, c = x.shape
            y = self.n1(x)
            q, k, v = (f(y).view(b, t, -1, 128).transpose(1, 2) for f in (self.q, self.k, self.v))
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            x = x + self.o(y.transpose(1, 2).reshape(b, t, c))
            y = self.n2(x)
            return x + self.down(functional.silu(self.gate(y)) * self.up(y))

    class Model(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(32000, 4096)
            self.blocks = nn.ModuleList(Block() for _ in range(2))
            self.norm, self.head = nn.RMSNorm(4096), nn.Linear(4096, 32000, bias=False)

        def forward(self, x: Any) -> Any:
            h = self.tokens(x)
            for block in self.blocks:
                h = block(h)
            return self.head(self.norm(h))

    return Model().bfloat16()


def vit(torch: Any) -> Any:
    """Six layers of ViT-L/16: width 1024, 197 tokens, 1000 classes."""
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.n1, self.n2 = nn.LayerNorm(1024), nn.LayerNorm(1024)
            self.qkv, self.proj = nn.Linear(1024, 3072), nn.Linear(1024, 1024)
            self.up, self.down = nn.Linear(1024, 4096), nn.Linear(4096, 1024)

        def forward(self, x: Any) -> Any:
            b, t, c = x.shape
            q, k, v = self.qkv(self.n1(x)).view(b, t, 3, 16, 64).permute(2, 0, 3, 1, 4)
            y = functional.scaled_dot_product_attention(q, k, v)
            x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
            return x + self.down(functional.gelu(self.up(self.n2(x))))

    class Model(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Linear(768, 1024)
            self.blocks = nn.ModuleList(Block() for _ in range(6))
            self.norm, self.head = nn.LayerNorm(1024), nn.Linear(1024, 1000)

        def forward(self, x: Any) -> Any:
            h = self.patches(x)
            for block in self.blocks:
                h = block(h)
            return self.head(self.norm(h).mean(1))

    return Model()


def mlp(torch: Any) -> Any:
    """An fp32 MLP: 1000 inputs, three hidden layers of 4096, 1000 outputs."""
    nn = torch.nn
    sizes = (1000, 4096, 4096, 4096, 1000)
    layers: list[Any] = []
    for k, n in pairwise(sizes):
        layers += [nn.Linear(k, n), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


def tokens(batch: int, length: int, vocabulary: int) -> Callable[[Any], tuple[Any, Any]]:
    def make(torch: Any) -> tuple[Any, Any]:
        x = torch.randint(0, vocabulary, (batch, length + 1), device="cuda")
        return x[:, :-1].contiguous(), x[:, 1:].reshape(-1)

    return make


def numbers(classes: int, *shape: int) -> Callable[[Any], tuple[Any, Any]]:
    def make(torch: Any) -> tuple[Any, Any]:
        return torch.randn(*shape, device="cuda"), torch.randint(0, classes, shape[:1], device="cuda")

    return make


CASES = {each.name: each for each in (
    Case("gpt2", "GPT-2 124M, 8x1024 tokens, bf16 autocast", gpt2, tokens(8, 1024, 50257), "bfloat16", 50257),
    Case("llama", "2 blocks of Llama-3-8B and a head, 2x1024 tokens, bf16", llama, tokens(2, 1024, 32000), "", 32000),
    Case("vit", "6 layers of ViT-L/16, 32 images, bf16 autocast", vit, numbers(1000, 32, 197, 768), "bfloat16", 1000),
    Case("mlp", "fp32 MLP 1000-4096-4096-4096-1000, 4096 rows", mlp, numbers(1000, 4096, 1000), "", 1000),
)}  # fmt: skip


def region(torch: Any, case: Case) -> Any:
    return torch.autocast("cuda", getattr(torch, case.autocast)) if case.autocast else nullcontext()


def forward(torch: Any, case: Case, model: Any, x: Any) -> Step:
    def step() -> Any:
        with torch.no_grad(), region(torch, case):
            return model(x)

    return step


def training(torch: Any, case: Case, model: Any, x: Any, y: Any, optimizer: Any) -> Step:
    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        with region(torch, case):
            scores = model(x).reshape(-1, case.classes)
        loss = torch.nn.functional.cross_entropy(scores.float(), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def times(torch: Any, steps: dict[str, Step], rounds: int) -> dict[str, float]:
    """Median milliseconds of each, in turns."""
    found: dict[str, list[float]] = {name: [] for name in steps}
    for each in steps.values():
        for _ in range(2):
            each()
    torch.cuda.synchronize()
    for _ in range(rounds):
        for name, each in steps.items():
            torch.cuda.synchronize()
            started = time.perf_counter()
            each()
            torch.cuda.synchronize()
            found[name].append((time.perf_counter() - started) * 1e3)
    return {name: round(median(values), 3) for name, values in found.items()}


def losses(torch: Any, case: Case, model: Any, x: Any, y: Any) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    step = training(torch, case, model, x, y, optimizer)
    return [float(step()) for _ in range(12)]


def measure(torch: Any, gemmsmith: Any, case: Case, compiled: bool, rounds: int) -> dict[str, Any]:
    torch.manual_seed(0)
    plain = case.make(torch).cuda()
    x, y = case.data(torch)
    mine = copy.deepcopy(plain)
    with region(torch, case):
        gemmsmith.torch.optimize(mine.eval(), x, training=False, verbose=False)
    inference = gemmsmith.torch.report(mine)
    steps = {"torch": forward(torch, case, plain, x), "gemmsmith": forward(torch, case, mine, x)}
    if compiled:
        for name, model in (("torch.compile", plain), ("gemmsmith, torch.compile", mine)):
            steps[name] = forward(torch, case, torch.compile(model), x)
    found = {"forward": times(torch, steps, rounds)}
    del steps
    torch._dynamo.reset()
    trained = copy.deepcopy(plain).train()
    with region(torch, case):
        gemmsmith.torch.optimize(trained, x, training=True, verbose=False)
    report = gemmsmith.torch.report(trained)
    curves = [losses(torch, case, copy.deepcopy(model), x, y) for model in (plain, trained)]
    models = {"torch": copy.deepcopy(plain), "gemmsmith": copy.deepcopy(trained)}
    if compiled:
        models |= {"torch.compile": copy.deepcopy(plain), "gemmsmith, torch.compile": copy.deepcopy(trained)}
    steps = {}
    for name, model in models.items():
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        steps[name] = training(torch, case, torch.compile(model) if "compile" in name else model, x, y, optimizer)
    found["training step"] = times(torch, steps, rounds)
    torch._dynamo.reset()
    apart = max(abs(a - b) / abs(a) for a, b in zip(*curves, strict=True))
    return {
        "what": case.what,
        "milliseconds": found,
        "losses": {"torch": curves[0], "gemmsmith": curves[1], "largest_relative_difference": apart},
        "forward_layers": [vars(each) for each in inference.routes],
        "training_layers": [vars(each) for each in report.routes],
    }


def fill_caches(names: list[str], compiled: list[str]) -> None:
    """Run every model once, in parallel."""
    started = [
        subprocess.Popen([sys.executable, __file__, "--only", name, "--compile", name if name in compiled else "",
                          "--rounds", "1"], stdout=subprocess.DEVNULL)
        for name in names
    ]  # fmt: skip
    for each in started:
        each.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path, nargs="?")
    parser.add_argument("--only", default="gpt2,llama,vit,mlp", help="models, comma-separated")
    parser.add_argument("--compile", default="", help="models that are also timed under torch.compile")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--fill", action="store_true", help="fill the compilers' caches first, in parallel")
    options = parser.parse_args()
    if options.fill:
        fill_caches(options.only.split(","), options.compile.split(","))
    import torch

    import gemmsmith

    if not torch.cuda.is_available():
        sys.exit("torch finds no GPU")
    record: dict[str, Any] = {
        "what": "whole models with gemmsmith.torch.optimize beside torch", "origin": "measured",
        "gpu": torch.cuda.get_device_name(), "torch": torch.__version__,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": f"python benchmarks/models.py --only {options.only} --compile {options.compile}".strip(),
        "models": {},
    }  # fmt: skip
    for name in options.only.split(","):
        found = measure(torch, gemmsmith, CASES[name], name in options.compile.split(","), options.rounds)
        record["models"][name] = found
        print(f"{name}: {found['what']}")
        for kind, row in found["milliseconds"].items():
            print(f"  {kind:14}" + "  ".join(f"{variant} {ms:.2f} ms" for variant, ms in row.items()))
        for kind in ("forward_layers", "training_layers"):
            ours = [each["name"] for each in found[kind] if each["ours"]]
            print(f"  {kind}: {len(ours)} of {len(found[kind])} to gemmsmith: {', '.join(ours)[:200]}")
        print(f"  loss curves differ by {found['losses']['largest_relative_difference']:.1e}", flush=True)
        torch.cuda.empty_cache()
        if options.output is not None:
            options.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
