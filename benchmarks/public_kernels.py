"""Kernels of public repositories that the time model has never met: predicted first, then timed, counted and profiled.

    python benchmarks/public_kernels.py FOLDER --predict benchmarks/results/public_predicted.json      (no GPU)
    python benchmarks/public_kernels.py FOLDER --time benchmarks/results/h200_public.json              (needs a GPU)
    python benchmarks/public_kernels.py FOLDER --list LIST.json      for record_machine_counts.py --files LIST.json
    python benchmarks/public_kernels.py FOLDER --set second --predict benchmarks/results/public_second_predicted.json
    python benchmarks/public_kernels.py FOLDER --today benchmarks/results/public_today.json      (``TODAY``)
    python benchmarks/public_kernels.py FOLDER --set fourth --today benchmarks/results/public_fourth_today.json

FOLDER has the repositories, each as OWNER+NAME at the commit of ``KERNELS``; their files are not part of this project.
They were taken because `explain` times them as they are; none was left out for its result, and no rule or parameter was
set with them before the predictions were made. Predictions of the second set are by the rules that were in place
before it was timed. The third set was named, and predicted by rules that were found with both, before any of it was
timed; those rules were not kept (docs/log/2026-11-17-first-reads.md). The fourth set was named and predicted by three
sets of rules before any of it was timed. The fifth was
named before anything of it was predicted. The sixth has other sizes; it was predicted before any of it was timed, and
each of its kernels had been run once at 1024. The seventh to the tenth were named before anything of them was
predicted, except that each kernel was executed once, to see that it can be. ``--today`` has what the model says now.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

SIZES = (1024, 2048, 4096)
SIZES_OF = {
    "sixth": (512, 2048, 8192),
    "seventh": (768, 1536, 6144),
    "eighth": (1280, 2560, 5120),
    "ninth": (1792, 3584, 7168),
    "tenth": (768, 2304, 4608),
}  # of sets with others
COUNTED = (512, 512, 128)  # M, N, K of what is counted: whole tiles of all of them


class Public(NamedTuple):
    """A kernel: its repository, the commit, the file, and its name where the file has several.

    ``timed_as``: entry, grid and block that it was timed with, where today another launch of the repository is read.
    """

    repository: str
    commit: str
    path: str
    entry: str = ""
    timed_as: tuple[str, str, str] | None = None

    def file(self, folder: Path) -> Path:
        return folder / self.repository.replace("/", "+") / self.path

    @property
    def title(self) -> str:
        return f"{self.repository}/{self.path}" + (f":{self.entry}" if self.entry else "")


_LEIMAO = "src/07_2d_block_tiling_2d_warp_tiling_2d_thread_tiling_matrix_transpose_wmma_vectorized_memory_access"
KERNELS = (
    Public("wangzyon/NVIDIA_SGEMM_PRACTICE", "d6068b13e9997ccff51c9d3cb773afd176fb7d8f", "src/kernel/kernel_7.cuh"),
    Public("yzhaiustc/Optimizing-SGEMM-on-NVIDIA-Turing-GPUs", "a5c0d6ce593553cdf87848821b1433d7930d0cc4",
           "include/kernel11.cuh"),
    Public("Liu-xiandong/How_to_optimize_in_GPU", "5d2def3e082c4e1364c3ade54451b7b9d1d6f044", "sgemm/sgemm_v3.cu"),
    Public("Bruce-Lee-LY/cuda_hgemm", "0d26c2e4415ab0d0af5a6bfae301275c608d46b4", "src/mma/mma_async_stage3.cu"),
    Public("yencal/cuda-hgemm-mma", "7349d5e5f871ef957256d91abfc18518c46e93a1", "src/02_mma_swizzle.cuh"),
    Public("yencal/cuda-hgemm-wmma", "7cd142e50fcf0d7fe0f9bea58e8dc71082ee7789", "src/05_wmma_multistage.cuh"),
    Public("nicolaswilde/cuda-tensorcore-hgemm", "079d2863477af9dfbd7967ecfda4c95d30889c73",
           "gemm-tc-f16f16-128x256-public/gemm.cu", "myHGEMMAlignedV5"),
    Public("hua0x522/cuda-gemm", "d450abfe77d14c8375da3110990bb69ec13ceb5f", "mm12.cu"),
    Public("alexarmbr/matmul-playground", "e831e96680dedaad99d9786885278764f59cbde5", "src/kernel6.cu"),
    Public("leimao/CUDA-GEMM-Optimization", "747e49b418bca18557581969c78333443055fd43",
           f"{_LEIMAO}_double_buffered.cu"),
)  # fmt: skip
SECOND = (
    Public("HeduAiDev/cuda_hgemm_optimize", "47e380e10ffef9cde802c886a40363549a4ad1d1", "src/mma/04mma_pipline.cu"),
    Public("philipfabianek/cuda-gemm-from-scratch", "a98bcf49bbeb3055f60b8d7c8949806ab48949e5",
           "src/kernels/06_warptiling.cuh"),
    Public("soyail/From_Zero_To_Sgemm", "0c2f08b4494d45d86c207b28616be320c7fa9a17", "gemm_gpu_doublebuffer.cu"),
    Public("1am9trash/CUDA_SGEMM", "1f57672a1a01a99165ce4927968bee64b87577e8",
           "src/kernels/7_sgemm_vectorize_access.cu"),
    Public("KnowingNothing/MatmulTutorial", "70f70fa08b1d5095dfb500c39f56b0465fff05e0",
           "examples/matmul/this-sm80/matmul-v14.cu"),
    Public("interestingLSY/CUDA-From-Correctness-To-Performance-Code", "ddc48d4a4858851a930605fa9d83d9da82dc56ac",
           "gemm_gpu_tiling.cu"),
    Public("jawalexander/tensorcore", "509623c6f29c97fefebdb2df1c76b927fa89c68c", "hgemm_v5.cu",
           "hgemm_wmma_m16n16k16_mma8X8_doubleBuf_kernel"),
    Public("hova88/CUDA-MatMul-Practice", "3a1cb92698e12e44816ef0548f87fab4a69f4744", "src/4_blocktiling_1D.cuh"),
)  # fmt: skip
THIRD = (
    Public("zartbot/tensorcore_gemm", "416d71aeae055cc6abd586fef27bb219b5747d23", "06_pipeline_g2s_s2r.cu"),
    Public("DefTruth/CUDA-Learn-Notes", "d2fb4dfa5a690677c2b39d6c95291287a1314c5c",
           "kernels/hgemm/naive/hgemm_async.cu", "hgemm_t_16x8_sliced_k32_f16x8_pack_dbuf_async_kernel"),
    Public("Olajide-Badejo/CUDA-Kernel-Library", "261392363407fea2fa7216cb99fc1a2f97154ffb",
           "src/gemm/gemm_mma_ldmatrix.cu"),
    Public("junstar92/cuda-kernel-study", "d95e67dca477adfecfed655bce512162d3856065",
           "08_sgemm/06_warptiling_v6_vec4.cuh"),
    Public("namespacemarcus/CUDA-Practice", "72134720885d9331facf91bedff7ffbaa278104a", "src/sgemm/sgemm_kernel.cuh",
           "sgemm_at_tiling_bcf_swizzling_cstore_dbf_kernel"),
    Public("jysh1214/cuda-gemm", "94fcb2ad8d9a09a66001611eb12151d0dc30d229",
           "src/block_warp_thread_tiled_vector_load_gemm.cu"),
    Public("DengYiping/learning-cuda", "7a4cd405b804b933e45dc91fed36039e3b08f1b8",
           "faster-matmul/async_global_to_shared_matmul.cu"),
    Public("strategist614/cuda-operator", "974ef0230cb0c09859f96dcc734e287eb15d4cdb",
           "operator/GEMM/GEMM_V5_cp_async.cu"),
    Public("mumupika/cuda_sgemm_playground", "77bd5a894924829b2ba40307b62db375df11b3cd",
           "include/launcher_templates.h", "sgemm_warp_tiling_swizzle"),
    Public("chongchen1999/cuda-kernels", "de17017c9fb68a6f4392a6960875a5cafde38f04",
           "gemm/includes/gemm_tensor_core.cuh", "wmmashareRowMatmul"),
)  # fmt: skip
FOURTH = (
    Public("tangefly/HGEMM", "ed054404987d96ba751e436338fffe8fbb4dc776", "csrc/kernels/warp_hgemm.cu"),
    Public("XiaobxTim/HGEMM-Optimization", "1076ed9dbfcd4bf517b9db605c6c7df3674e9d58", "src/hgemm.cu"),
    Public("sunkx109/cuda-gemm", "dd9859d748dc95ebcaae2ba796ed1fefd2b94e80", "csrc/kernels/06_gemm_warptiling.cu"),
    Public("dajunHuang/CUDA-GEMM-Optimization", "14ed93d25c739445aa34f4c5565c7716337cfa97",
           "src/05_2d_block_tiling_2d_warp_tiling_2d_thread_tiling_matrix_transpose_buffer.cu"),
    Public("IAmPara0x/cuda-matmul", "c407391b3c60b8701272dc7e972fc2c0bc344cb6", "src/matmul.cuh",
           "MatMulKernel_2DBlockTiling"),
    Public("vantaa89/cuda-matmul", "39f48c46e6379c158ecd5e63f56885dbdc34797b", "matmul.cu", "matmul_tc_2d_warp_tiling"),
    Public("drink-less-milktea/cuda-gemm", "4e3c641b1a9da5634bfcb53c3637f4d418cbc44a", "sgemm/v3_sgemm.cu"),
    Public("raymond1123/hgemm", "e41491945dd57d0a88e74f865863ec0f03ce3440", "src/mma/mma_permuted.cu"),
    Public("FabianSchuetze/CudaTensorCoreHGEMM", "98b7b2fc22a07fc478ec2ab53af96964165c9bf8",
           "include/kernels/double_buffering.cuh"),
    Public("AndSonder/UNIVERSAL_SGEMM_CUDA", "195bef21cf71f5b322ef6ca2c2c93c4433327e24",
           "src/kernels/vectorize_v2.cuh"),
)  # fmt: skip
FIFTH = (
    Public("yechenzhi/SGEMM_CUDA", "8a81f85bef33f4592a53376398aa0f37ece148d9",
           "src/kernels/42_bf16AB_wmma_bank_conflict.cuh"),
    Public("Sundaresan-G/HGEMM_CUDA", "837d0ff17091d8622d2b26e3c1d3259452f9531f",
           "src/kernels/4_hierarchialTilingVectorizeDoubleBuffering.cuh"),
    Public("bokutotu/cuda-gemm", "eaf5c7f5ccb1469410f1230114874d2eb70951e5", "gemm_shared_cp_async.cuh"),
    Public("hwchen2017/Optimize_SGEMM_on_Nvidia_GPU", "7c28120535a397b51856734d0b1f92b423f78ed8",
           "sgemm_header_file/kernel9.cuh"),
    Public("AyakaGEMM/Hands-on-GEMM", "378e63f93799ebb2ef4dba44c7a3f0e43aee3b7d",
           "src/cuda/double_buffer_yhs_refine_gemm.cu"),
    Public("wongzeonkei/cuda-sgemm-optimization", "01a84b421090e5dae769a5a623b24c3290a7d198",
           "src/sgemm_stage76_double_buffer.cu", "sgemm_double_buffer_kernel"),
    Public("lioren52/sgemm-cuda", "85bfcdeef83874bcbb453e1c2dc82e9ec3470b2d", "src/kernels/v6-vectorizedLoads.cu"),
    Public("FdyCN/CUDA_GEMM", "d3d51f0ea95cf44e628285ed22fa52f86f20943f", "gemm/gemm.cu",
           "blocked_sram_sgemm_kernel_N_N"),
    Public("alexkato29/cuda-gemm", "3c9becfc7f4224ab0501a081ad25b2809e738be8",
           "src/kernels/03_vectorized_dram/kernel.cu"),
    Public("aeft/SGEMM_CUDA", "459992af189b2d626d418a0f3329d94dacbd6faf", "src/kernels/10_kernel_warptiling.cuh"),
)  # fmt: skip
SIXTH = (
    Public("zhuangbility111/cuda_GEMM_tutorial", "58ac79ebff5170229189dd306035b4367ccbe19e",
           "gemm_v6_2d_block_tiling_2d_warp_tiling_2d_thread_tiling_vectorized_transposed.cu"),
    Public("khzhao/cuda-gemm-practice", "a84817d93da8b52a9a9f2e1069329bb56f453843",
           "8-warptiling.cuh"),
    Public("Chick-Mito/ops_cuda_gemm", "35f17e446af234ca696bcd7638640c61386f308e",
           "src/gemm_kernels_tc_async.cu"),
    Public("xiaoyu1004/how-to-optimize-gemm-cuda", "696b01fde391541c4e7ffffebf1494e57544fb88",
           "src/MMult_cuda_12.cu"),
    Public("HaibinLai/SUSTech-HGEMM", "22c515cd3bc71a99970f81e904b92f7ca255fc6f",
           "src/hgemm.cu"),
    Public("SwayamInSync/SGEMM-Worklog", "c13ff79ff12b2d7555ffa18551cb753bb5dbefae",
           "kernels/8-hierarchical_warptiling_float4.cuh"),
    Public("gau-nernst/learn-cuda", "1454f8b71499a68eacdbf44c08e36a7003d8ab99",
           "02b_matmul_sm80/matmul_v6.cu"),
    Public("PaddleJitLab/CUDATutorial", "7499a3792f44ef6c78fcad5091fb7335ba6d2d68",
           "docs/11_gemm_optimize/03_warptiling/sgemm_warp_tiling.cu"),
    Public("Yinghan-Li/YHs_Sample", "d05b5c93ccaf3aaffa3d51a9707ac63127dd7f3c",
           "cuda/gemm/ampere_sgemm.cu"),
    Public("pranjalssh/fast.cu", "38eb642e0c081231d6f695978be63604bd7c689b",
           "examples/matmul/matmul_2.cuh"),
)  # fmt: skip
SEVENTH = (
    Public("YangLinzhuo/cuda-sgemm-optimization", "780be69c2e4d45c0d77364a332b136b0367f3f33",
           "src/sgemm/double_buffering.cu"),
    Public("davyuan/cuda-matmul-tuning", "32ceba3689a1e3bbe1dd126c317e6790b6882b48", "matmul_triple_buffer.cu"),
    Public("am17an/cuda-tensor-cores", "006efaeceec8e26f30ce052a39904b6980310136",
           "src/mma-mul-ld-matrix-optimize.cu"),
    Public("wang-xianghao/HopperSGEMM", "561653a4706050b71a82ca6c36a3bba45bb622e0", "src/hopper_gemm.cu"),
    Public("LanluYuu/CUDA_GEMM", "d3ad9291122ef7fbd07006c7555ed0b2823519ed", "src/fp32/gemm_v5.cu"),
    Public("stefanind/CUDA-SGEMM", "4eaf3afd1a67a1947656ff37115993a145d5f685", "src/kernels/6_vectorize.cuh"),
    Public("seanxwzhang/CUDA_GEMM", "be2e0d7573b0827e181856e27beaa905bd35454c", "src/kernel/kernel_10.cuh"),
    Public("Cjkkkk/CUDA_gemm", "38cb93a44d5c32e3561a735078382b4b3a3732e2", "src/cuda/dense.cu",
           timed_as=("MatrixMulCUDA6<32, 32, 32, 4, 4, false>", "N/32,M/32", "8,8")),
    Public("Nozom1ff/FUDA_HGEMM", "bcbdf88bf63d55c4d23380e7305227d1ff4be5fb", "cuda/native/hgemm_async.cu",
           "hgemm_t_8x8_sliced_k16_f16x8_pack_dbuf_async_kernel"),
    Public("caiwanxianhust/SGEMM-Optimization-Logs", "f505ce9b9fa52ffbd2735f2e4e6a6d520e7e1227", "SGEMM/sgemm.cu",
           "SgemmSmemKernel_v6"),
)  # fmt: skip
EIGHTH = (
    Public("LessUp/sgemm-optimization", "4b39e857e13d110aa8a0dae9a8e2d001cc64192d",
           "src/kernels/double_buffer_sgemm.cuh"),
    Public("Sekka16/hgemm-sm120", "2775d031cc503a64bf874b484873cef6eb9ec26b", "hgemm.cu"),
    Public("tyduc45/sgemm_optimization_log", "9f5f9bcd4caffc0971a4d663fe08be9d30c3cf21",
           "include/matmul_sm_sliding.cuh"),
    Public("JagjeevanAK/cuda-sgemm", "abe137cdaff976d0d16f85cfd010f4e8476389bf", "cuda_kernels/optimized_matmul.cu",
           "optimized_matmul_kernel"),
    Public("1shinham1/CUDA_matmul_opt", "e70f60b9b3b1e6ea90eb910ee39cd268867a833f",
           "CUDA_matmul_opt/src/16_gemm_tc_swizzle.cu"),
    Public("satgupta23/sgemm-cuda", "2f00e0c83558d825f23717c39d61ab258d29a735", "src/sgemm_v7.cu"),
    Public("wat3rblastor/sgemm-kernels", "73129cbdfa034ca564e3e19a92e06c54b0e210d0", "kernels/kernel3.cu"),
    Public("HumbabaZ/cuda_hgemm_WMMA", "901182220b1d8d663ce02ff275d8ec21b070290e",
           "src/wmma/wmma_async_pg2s_ps2r.cu"),
    Public("YangMingjiu/CUDA-GEMM-Learning", "4429bb018a60f4e30174eef6a2fd6b61ee955824",
           "src/kernels/12_kernel_double_buffering.cuh"),
    Public("gglou/gpu-matmul", "f691cadf272f15fadb178c5a0e4d8181ecf11276", "src/run_warptiling.cu"),
)  # fmt: skip
NINTH = (
    Public("xlite-dev/HGEMM", "eee72be829545bd6bd115a4b252b5068c9f61597", "kernels/hgemm/mma/basic/hgemm_mma_stage.cu",
           "hgemm_mma_m16n8k16_mma2x4_warp4x4_stages_kernel"),
    Public("xlite-dev/HGEMM", "eee72be829545bd6bd115a4b252b5068c9f61597",
           "kernels/hgemm/mma/basic/hgemm_mma_stage_tn.cu"),
    Public("xlite-dev/HGEMM", "eee72be829545bd6bd115a4b252b5068c9f61597", "kernels/hgemm/wmma/hgemm_wmma.cu",
           "hgemm_wmma_m16n16k16_mma4x2_warp2x4_dbuf_async_kernel"),
    Public("waliwuao/SUSTech-HGEMM", "02f9bbab3afe53a63607310f83503cb43b6baed5", "src/hgemm.cu"),
    Public("siboehm/SGEMM_CUDA", "60cba6f9b20a198116c76f18de8047f44df8c8b8",
           "src/kernels/9_kernel_autotuned.cuh"),
    Public("tpoisonooo/how-to-optimize-gemm", "27f9656874c82e1072d28088feb297784836e975", "cuda/MMult_cuda_11.cu"),
    Public("WSean2020/StepByStepGEMM_CUDA", "358f35380cfe746071c3706903561a8073deda3c", "sgemm/sgemm3.cu"),
    Public("evanking12/cuda-gemm-optimization", "713d240b6cf631a62ff15df97761cd155963ec72", "kernels/6_async.cu"),
    Public("evanking12/cuda-gemm-optimization", "713d240b6cf631a62ff15df97761cd155963ec72",
           "kernels/5_rectangular_tiling.cu"),
    Public("chanzhennan/cuda_gemm_benchmark", "1e8df0de26ec5c3e100600bb84f8fc5fd3c0dd2c",
           "benchmarks/MatrixMulCUDA3/aligner.cu"),
)  # fmt: skip
TENTH = (
    Public("shixun404/Fault-Tolerant-SGEMM-on-NVIDIA-GPUs", "52cde58bafd23484b463d6d2a4a6a2fa4bbc8f34",
           "kernel/ft_sgemm/include_code_gen/sgemm_huge.cuh"),
    Public("shixun404/Fault-Tolerant-SGEMM-on-NVIDIA-GPUs", "52cde58bafd23484b463d6d2a4a6a2fa4bbc8f34",
           "kernel/ft_sgemm/include_code_gen/sgemm_large.cuh"),
    Public("shixun404/Fault-Tolerant-SGEMM-on-NVIDIA-GPUs", "52cde58bafd23484b463d6d2a4a6a2fa4bbc8f34",
           "kernel/ft_sgemm/include_code_gen/sgemm_medium.cuh"),
    Public("shixun404/Fault-Tolerant-SGEMM-on-NVIDIA-GPUs", "52cde58bafd23484b463d6d2a4a6a2fa4bbc8f34",
           "kernel/ft_sgemm/include_code_gen/sgemm_wide.cuh"),
    Public("shixun404/Fault-Tolerant-SGEMM-on-NVIDIA-GPUs", "52cde58bafd23484b463d6d2a4a6a2fa4bbc8f34",
           "kernel/ft_sgemm/include_code_gen/sgemm_tall.cuh"),
    Public("luongthecong123/CUDA-matMul", "c91d7f52f8fdcac6cc37d93b4b20d58da9bb4513", "src/matmul_gpu.cu",
           "matmul_tiled_kernel"),
    Public("Huanghongru/SGEMM-Implementation-and-Optimization", "52493bc5c43042b0ba8156bf8f984f22582517b3",
           "matmul_prefetch.cu"),
    Public("Huanghongru/SGEMM-Implementation-and-Optimization", "52493bc5c43042b0ba8156bf8f984f22582517b3",
           "matmul_CompOpt.cu"),
    Public("yencal/tensor-core-hgemm", "7cd142e50fcf0d7fe0f9bea58e8dc71082ee7789", "src/06_wmma_pipelining.cuh"),
    Public("yencal/tensor-core-hgemm", "7cd142e50fcf0d7fe0f9bea58e8dc71082ee7789", "src/07_wmma_final.cuh"),
)  # fmt: skip
SETS = {"first": KERNELS, "second": SECOND, "third": THIRD, "fourth": FOURTH, "fifth": FIFTH, "sixth": SIXTH,
        "seventh": SEVENTH, "eighth": EIGHTH, "ninth": NINTH, "tenth": TENTH}  # fmt: skip
TODAY = tuple(name for name in SETS if name != "fourth")  # sets of the record of what the model says now


def specified(kernel: Public, folder: Path) -> tuple[Any, Any]:
    from gemmsmith.cli.compiler import Compiler
    from gemmsmith.cli.options.device import DEFAULT_ARCH
    from gemmsmith.cli.options.kernel import KernelOptions
    from gemmsmith.cli.product_kernel import product_kernel

    entry, grid, block = kernel.timed_as or (kernel.entry, "", "")
    options = KernelOptions(entry=entry, grid=grid, block=block)
    return product_kernel(str(kernel.file(folder)), options, Compiler(), DEFAULT_ARCH)


def predicted(folder: Path, sets: Sequence[str]) -> dict[str, Any]:
    from predicted_sizes import predicted_sizes

    rows: list[dict[str, Any]] = []
    compiler = ""
    kernels = [(kernel, SIZES_OF.get(name, SIZES)) for name in sets for kernel in SETS[name]]
    for kernel, sizes in kernels:
        spec, config = specified(kernel, folder)
        found, compiler = predicted_sizes(kernel.title, spec, config, sizes)
        rows += found
    return {"what": "times of public kernels, by rules of the model made before they were timed",
            "date": datetime.now(UTC).date().isoformat(), "compiler": compiler,
            "command": "python benchmarks/public_kernels.py FOLDER --predict OUTPUT",
            "commits": {kernel.repository: kernel.commit for kernel, _ in kernels}, "rows": rows}  # fmt: skip


def timed(folder: Path, kernels: Sequence[Public], sizes: Sequence[int], output: str) -> None:
    import record_cycles

    names = {kernel.title: kernel for kernel in kernels}
    rung = record_cycles.kernel
    record_cycles.kernel = lambda name, defines: (  # type: ignore[assignment]
        specified(names[name], folder) if name in names else rung(name, defines)
    )
    record_cycles.measured([(name, (size,) * 3, {}) for name in names for size in sizes], output)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--set", default="first", choices=SETS)
    parser.add_argument("--predict", default="")
    parser.add_argument("--time", default="")
    parser.add_argument("--today", default="")
    parser.add_argument("--list", default="")
    given = parser.parse_args()
    kernels, sizes = SETS[given.set], SIZES_OF.get(given.set, SIZES)
    if given.predict or given.today:
        earlier = given.today and given.set != "fourth"
        made = predicted(given.folder, TODAY if earlier else (given.set,))
        if given.today:
            made["what"] = "times of public kernels, as the model has them today"
            made["command"] = made["command"].replace("--predict", "--today" if earlier else "--set fourth --today")
        lines = ",\n".join("  " + json.dumps(row) for row in made.pop("rows"))
        text = f'{json.dumps(made, indent=1)[:-2]},\n "rows": [\n{lines}\n ]\n}}\n'
        Path(given.predict or given.today).write_text(text, "utf-8")
    if given.time:
        timed(given.folder, kernels, sizes, given.time)
    if given.list:
        rows = [[str(k.file(given.folder).resolve()), specified(k, given.folder)[0].entry, *COUNTED] for k in kernels]
        Path(given.list).write_text(json.dumps(rows), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
