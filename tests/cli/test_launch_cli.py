"""check, profile, explain and compare with --args and --expect, and with a Python file of launches."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_output import Say

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples" / "any_kernel"
REDUCE = str(EXAMPLES / "reduce.cu")
ANSWER = f"{EXAMPLES / 'launches.py'}:block_sums"
ARGS = "x=randn(4096,f32), out=zeros(4,f32), n=4096"
LAUNCH = (REDUCE, "--entry", "reduce<256>", "--grid", "4", "--block", "256", "--args", ARGS)


def test_check_compares_with_the_expected_result(say: Say) -> None:
    said = say("check", *LAUNCH, "--expect", ANSWER)
    assert said.code == 0, said.err
    assert "arguments: x float32[4096], out float32[4], n 4096" in said.out
    assert "ok: reduce<256> gives the expected result in 8 trials on simulator (sm_90) and has no race" in said.out
    assert f"next: gemmsmith explain {REDUCE} --entry 'reduce<256>' --grid 4 --block 256 --args '{ARGS}'" in said.out


def test_check_without_an_answer_says_so(say: Say) -> None:
    said = say("check", *LAUNCH)
    assert said.code == 0
    assert "its result was not compared: give --expect" in " ".join(said.out.split())


def test_check_as_json(say: Say) -> None:
    made = say("check", *LAUNCH, "--expect", ANSWER, "--json").json
    assert made["ok"] is True
    assert made["compared"] is True
    assert made["launch"] == {"grid": [4, 1, 1], "block": [256, 1, 1], "smem": 0}
    assert [trial["schedule"] for trial in made["trials"][:5]] == [
        "lockstep",
        "in_order",
        "reversed",
        "random",
        "starved",
    ]
    assert made["arguments"][0] == {"name": "x", "type": "const float*",
                                    "arrays": [{"dtype": "float32", "shape": [4096]}],
                                    "text": "x float32[4096]"}  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("i < n", "i < n - 3", "of 4 elements of out are wrong"),
        ("i < n", "i <= n", "x[4096], 1 past its end"),
        ("__syncthreads();", "", "race: thread "),
    ],
)
def test_a_wrong_kernel_exits_1_with_the_reason(say: Say, tmp_path: Path, old: str, new: str, found: str) -> None:
    text = Path(REDUCE).read_text(encoding="utf-8")
    assert old in text
    wrong = tmp_path / "wrong.cu"
    wrong.write_text(text.replace(old, new))
    said = say("check", str(wrong), *LAUNCH[1:], "--expect", ANSWER)
    assert said.code == 1
    assert found in " ".join(said.out.split())
    assert "WRONG: reduce<256> on simulator" in said.out
    made = say("check", str(wrong), *LAUNCH[1:], "--expect", ANSWER, "--json")
    assert made.code == 1
    assert made.json["ok"] is False
    word = " race on shared address" if found.startswith("race") else found
    (reason,) = (each for trial in made.json["trials"] for each in trial["reasons"] if word in each)
    assert "wrong.cu:" in reason or found == "of 4 elements of out are wrong"
    assert made.json["status"] == "wrong"


def test_tolerances_are_options(say: Say, tmp_path: Path) -> None:
    (tmp_path / "near.cu").write_text("__global__ void k(float* x) { x[0] = 1.001f; }\n")
    (tmp_path / "one.py").write_text("def one(x):\n    return x + 1\n")
    words = ("check", str(tmp_path / "near.cu"), "--grid", "1", "--block", "1", "--args", "x=zeros(1)", "--expect",
             f"{tmp_path / 'one.py'}:one")  # fmt: skip
    assert say(*words).code == 1
    assert say(*words, "--rtol", "0.01").code == 0
    assert say(*words, "--rtol", "0", "--atol", "0.01").code == 0
    assert say(*words, "--rtol", "1e-6").code == 1


def test_grid_and_shared_memory_may_use_the_arguments(say: Say, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(
        "__global__ void k(int* x, int n) { extern __shared__ int s[]; s[threadIdx.x] = blockIdx.x;\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] = s[threadIdx.x]; }\n"
    )
    words = (str(tmp_path / "k.cu"), "--grid", "ceil(n/32)", "--block", "32", "--args", "n=100, x=zeros(n, i32)")
    made = say("check", *words, "--smem", "4*32", "--json").json
    assert made["launch"] == {"grid": [4, 1, 1], "block": [32, 1, 1], "smem": 128}
    assert made["ok"]
    assert not say("check", *words, "--json").json["ok"]  # no shared memory


def test_a_file_of_launches(say: Say, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("__global__ void k(float* x) { x[threadIdx.x] += ADD; }\n")
    (tmp_path / "answers.py").write_text("def right(x):\n    return {'x': x + 1}\n")
    (tmp_path / "launches.py").write_text(
        "import gemmsmith\nfrom answers import right\n"
        "def made(add, name):\n"
        "    return gemmsmith.Launch('k.cu', grid=1, block=4, args='x=arange(4, f32)', defines={'ADD': add},\n"
        "                            expect=right, name=name)\n"
        "launches = [made('1.0f', 'good'), made('2.0f', 'bad')]\n"
    )
    file = str(tmp_path / "launches.py")
    said = say("check", file)
    assert said.code == 1
    assert "1 of 2 launches are ok; wrong: bad" in said.out
    assert say("check", f"{file}:good").code == 0
    made = say("check", file, "--json").json
    assert [each["ok"] for each in made["launches"]] == [True, False]
    assert made["ok"] is False
    several = say("profile", file, "--csv")
    assert several.code == 2
    assert "has 2 launches: good, bad" in " ".join(several.err.split())
    assert say("profile", f"{file}:good", "--csv").out.startswith("kernel,metric,")


def test_profile_counts_a_launch(say: Say) -> None:
    said = say("profile", *LAUNCH, "--device", "sim")
    assert said.code == 0, said.err
    for word in ("reduce<256>", "global memory", "shared memory", "occupancy", "4 blocks (4×1×1) of 256 threads"):
        assert word in said.out
    made = say("profile", *LAUNCH, "--device", "sim", "--json").json
    assert made["metrics"]["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"]["value"] == 4096 / 32
    assert made["occupancy"]["blocks_per_sm"] == 8
    assert "problem" not in made
    assert "out[blockIdx.x] = sum;" in say("profile", *LAUNCH, "--device", "sim", "--lines").out


def test_bank_conflicts_of_a_transpose_are_counted_and_explained(say: Say, tmp_path: Path) -> None:
    text = (EXAMPLES / "transpose.cu").read_text(encoding="utf-8")
    (tmp_path / "flat.cu").write_text(text.replace("[TILE + 1]", "[TILE]"))
    words = ("--grid", "2,2", "--block", "32,8", "--args",
             "in=randn(64,64,f32), out=zeros(64,64,f32), width=64, height=64")  # fmt: skip
    conflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"
    flat = say("profile", str(tmp_path / "flat.cu"), *words, "--device", "sim", "--json").json
    padded = say("profile", str(EXAMPLES / "transpose.cu"), *words, "--device", "sim", "--json").json
    assert flat["metrics"][conflicts]["value"] == 31 * 4 * 32  # 4 blocks read 32 columns of 32 rows each
    assert padded["metrics"][conflicts]["value"] == 0
    said = say("explain", str(tmp_path / "flat.cu"), *words)
    assert "Bound by the load/store pipe" in said.out
    assert "bank conflicts" in said.out
    kinds = [f["kind"] for f in say("explain", str(tmp_path / "flat.cu"), *words, "--json").json["findings"]]
    assert "bank conflicts" in kinds
    sides = [word for side in "xy" for word in (f"--{side}-launch", "grid=2,2; block=32,8")]
    compared = say("compare", str(tmp_path / "flat.cu"), str(EXAMPLES / "transpose.cu"), *sides, *words[4:])
    assert compared.code == 0, compared.err
    assert "Bank conflicts: X has 3,968, Y 0." in compared.out


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        (("--args", ARGS), "with --args a launch needs --grid and --block", 2),
        (("--args", ARGS, "--grid", "4", "--block", "256"), "reduce is a template", 2),
        (("--args", "x=zeros(4", "--grid", "4", "--block", "256"), "is not understood", 2),
        ((*LAUNCH[1:], "--expect", "block_sums"), "'block_sums' names no function", 2),
        ((*LAUNCH[1:], "--expect", "nowhere.py:f"), "there is no file nowhere.py", 2),
        ((*LAUNCH[1:], "--expect", "no_such_module:f"), "No module named 'no_such_module'", 2),
        ((*LAUNCH[1:], "--expect", ANSWER.replace("sums", "sum")), "has no function 'block_sum'", 2),
        ((*LAUNCH[1:], "--signature", "A,B,C"), "--signature and --preset are for matrix products", 2),
        ((*LAUNCH[1:], "--rtol", "-1"), "rtol -1 is not a tolerance", 2),
        ((*LAUNCH[1:5], "--block", "4096", "--args", ARGS), "block=(4096, 1, 1) has 4096 threads", 2),
    ],
)
def test_wrong_use(say: Say, words: tuple[str, ...], message: str, code: int) -> None:
    said = say("check", REDUCE, *words, *(("--expect", ANSWER) if "--rtol" in words else ()))
    assert said.code == code
    assert message in " ".join(said.err.split())
    assert "Traceback" not in said.err


def test_a_python_file_that_fails_is_named_with_its_line(say: Say, tmp_path: Path) -> None:
    for text, message in (
        ("import gemmsmith\n1 / 0\n", "ZeroDivisionError: division by zero"),
        ("launch = (\n", "SyntaxError"),
        ("launch = 3\n", "defines no launch"),
        ("import gemmsmith\nlaunches = []\n", "defines no launch"),
    ):
        (tmp_path / "bad.py").write_text(text)
        said = say("check", str(tmp_path / "bad.py"))
        assert said.code == 2
        assert message in " ".join(said.err.split())
        assert "Traceback" not in said.err
    said = say("check", str(tmp_path / "none.py"))
    assert said.code == 2
    assert "there is no file" in said.err
    ours = str(EXAMPLES / "launches.py")
    assert "describes its launches itself" in say("check", ours, "--args", ARGS).err
    assert "has no launch called 'redcue'" in say("check", f"{ours}:redcue").err


def test_a_kernel_without_parameters(say: Say, tmp_path: Path) -> None:
    file = tmp_path / "k.cu"
    file.write_text("__device__ int seen[64]; __global__ void mark() { seen[threadIdx.x] = 1; }", encoding="utf-8")
    refused = say("check", str(file))
    assert refused.code == 2
    assert "--grid … --block … --args ''" in " ".join(refused.err.split())
    said = say("check", str(file), "--grid", "1", "--block", "64", "--args", "")
    assert said.code == 0, said.err
    assert "--args ''" in " ".join(said.out.split())
