"""Linear layers of public models as (out, in), whole and divided among 2, 4 and 8 GPUs; and row counts in use.

Queries, keys and values are one product, as servers compute them, and so are gate and up; up alone is there as well.
Dividing takes the outputs of the first product of a pair and the inputs of the second.
"""

from __future__ import annotations

from dataclasses import dataclass

PARTS = (1, 2, 4, 8)


@dataclass(frozen=True)
class Model:
    """A transformer. ``heads``: outputs of queries, of keys and values together; ``gated``: gate beside up;
    ``parts``: GPUs among which its layers are divided, at most; ``weight``: how common it is, 1 to 3."""

    name: str
    hidden: int
    queries: int
    keys_values: int
    inner: int
    gated: bool = True
    parts: int = 1
    weight: int = 1


MODELS = (
    Model("Llama 2 7B", 4096, 4096, 8192, 11008, parts=2, weight=3),
    Model("Llama 2 13B", 5120, 5120, 10240, 13824, parts=2, weight=2),
    Model("Llama 2 and 3 70B", 8192, 8192, 2048, 28672, parts=8, weight=3),
    Model("Llama 3 8B, Mistral 7B, Mixtral 8x7B", 4096, 4096, 2048, 14336, parts=2, weight=3),
    Model("Llama 3.2 1B", 2048, 2048, 1024, 8192),
    Model("Llama 3.2 3B", 3072, 3072, 2048, 8192),
    Model("Llama 3 405B", 16384, 16384, 2048, 53248, parts=8),
    Model("Qwen 2.5 0.5B", 896, 896, 256, 4864),
    Model("Qwen 2.5 1.5B", 1536, 1536, 512, 8960),
    Model("Qwen 2.5 3B", 2048, 2048, 512, 11008),
    Model("Qwen 2.5 7B", 3584, 3584, 1024, 18944, weight=3),
    Model("Qwen 2.5 14B", 5120, 5120, 2048, 13824, parts=2),
    Model("Qwen 2.5 32B", 5120, 5120, 2048, 27648, parts=4, weight=2),
    Model("Qwen 2.5 72B", 8192, 8192, 2048, 29568, parts=8, weight=2),
    Model("Qwen 3 0.6B", 1024, 2048, 2048, 3072),
    Model("Qwen 3 1.7B", 2048, 2048, 2048, 6144),
    Model("Qwen 3 4B", 2560, 4096, 2048, 9728),
    Model("Qwen 3 8B", 4096, 4096, 2048, 12288, weight=3),
    Model("Qwen 3 14B", 5120, 5120, 2048, 17408),
    Model("Qwen 3 32B", 5120, 8192, 2048, 25600, parts=4, weight=2),
    Model("Qwen 3 30B, an expert", 2048, 4096, 1024, 768),
    Model("Qwen 3 235B, an expert", 4096, 8192, 1024, 1536, parts=4),
    Model("Mistral Nemo", 5120, 4096, 2048, 14336),
    Model("Mistral Small", 5120, 4096, 2048, 32768, parts=2),
    Model("Mistral Large", 12288, 12288, 2048, 28672, parts=8),
    Model("Mixtral 8x22B", 6144, 6144, 2048, 16384, parts=4),
    Model("Gemma 7B", 3072, 4096, 8192, 24576),
    Model("Gemma 2 9B", 3584, 4096, 4096, 14336),
    Model("Gemma 2 27B", 4608, 4096, 4096, 36864, parts=2),
    Model("Gemma 3 4B", 2560, 2048, 2048, 10240),
    Model("Gemma 3 12B", 3840, 4096, 4096, 15360),
    Model("Gemma 3 27B", 5376, 4096, 4096, 21504, parts=2),
    Model("Phi 2", 2560, 2560, 5120, 10240, gated=False),
    Model("Phi 3 mini", 3072, 3072, 6144, 8192),
    Model("Phi 4", 5120, 5120, 2560, 17920),
    Model("GPT-2, BERT base, ViT-B, Whisper small", 768, 768, 1536, 3072, gated=False, weight=3),
    Model("GPT-2 medium, BERT large, ViT-L, T5 large", 1024, 1024, 2048, 4096, gated=False, weight=3),
    Model("GPT-2 large, ViT-H, Whisper large", 1280, 1280, 2560, 5120, gated=False, weight=2),
    Model("GPT-2 XL", 1600, 1600, 3200, 6400, gated=False),
    Model("T5 XXL", 4096, 4096, 8192, 10240),
    Model("Flux", 3072, 3072, 6144, 12288, gated=False, weight=2),
    Model("SDXL, outer", 640, 640, 1280, 2560),
    Model("SDXL, inner", 1280, 1280, 2560, 5120),
    Model("Yi 34B", 7168, 7168, 2048, 20480, parts=4),
    Model("Command R", 8192, 8192, 16384, 22528, parts=4),
    Model("GLM 4", 4096, 4096, 512, 13696),
)
# DeepSeek V2, V3 and V2 lite (latent attention, experts), single blocks of Flux, context of SDXL, vocabularies.
OTHERS = ((1536, 7168), (24576, 1536), (32768, 512), (7168, 16384), (36864, 7168), (18432, 7168), (7168, 18432),
          (4096, 7168), (2048, 7168), (7168, 2048), (1536, 5120), (5120, 16384), (3072, 5120), (5120, 1536),
          (24576, 5120), (5120, 12288), (2816, 2048), (2048, 1408), (21504, 3072), (3072, 15360), (1280, 2048),
          (32000, 4096), (128256, 4096), (152064, 3584), (50304, 768), (30528, 1024))  # fmt: skip
# Generation in batches, prompts, images (197, 257, 577, 1576, 2308 tokens), sound (1500), diffusion (4608), training.
ROWS = {1: 1, 4: 1, 8: 1, 16: 2, 24: 1, 32: 2, 48: 1, 64: 2, 77: 1, 80: 1, 96: 1, 100: 2, 128: 4, 160: 1, 192: 1,
        197: 1, 200: 1, 256: 4, 300: 1, 333: 1, 384: 2, 400: 1, 500: 1, 512: 4, 577: 1, 640: 1, 768: 2, 800: 1, 900: 1,
        1000: 2, 1024: 4, 1200: 1, 1280: 1, 1500: 1, 1536: 2, 1576: 1, 1792: 1, 2000: 1, 2048: 4, 2308: 1, 2560: 1,
        3000: 1, 3072: 2, 3500: 1, 4000: 1, 4096: 4, 4608: 1, 5000: 1, 6144: 1, 7000: 1, 8192: 4}  # fmt: skip


def layers() -> dict[tuple[int, int], int]:
    """(out, in) of all layers with the weight of the most common model that has them; parts of layers weigh less."""
    found: dict[tuple[int, int], int] = {}
    for model in MODELS:
        attention, up = model.queries + model.keys_values, model.inner * (2 if model.gated else 1)
        for parts in (each for each in PARTS if each <= model.parts):
            pairs = [(attention // parts, model.hidden), (model.hidden, model.queries // parts),
                     (up // parts, model.hidden), (model.inner // parts, model.hidden),
                     (model.hidden, model.inner // parts)]  # fmt: skip
            for pair in pairs:
                found[pair] = max(found.get(pair, 0), model.weight if parts == 1 else 1)
    for pair in OTHERS:
        found.setdefault(pair, 1)
    return {pair: weight for pair, weight in found.items() if all(extent % 8 == 0 for extent in pair)}
