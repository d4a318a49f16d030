"""What a user's file may include: its repository, -I and CUDA's headers. All else is refused and never read."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.compile import compile_request, find_toolchain
from gemmsmith.compile.user_source import UserSource
from gemmsmith.errors import CompileError, GemmsmithError, UsageError

KERNEL = "__global__ void k(float* x) { x[0] = V; }\n"
SECRET = "the secret line"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with headers in the usual places, and a file outside it."""
    root = tmp_path / "project"
    for folder in (".git", "include/common", "src/deep", "csrc", "third/party", "kernels"):
        (root / folder).mkdir(parents=True)
    (root / "include" / "common" / "helper.h").write_text("#define V 1\n")
    (root / "csrc" / "ops.cuh").write_text("#define V 2\n")
    (root / "third" / "party" / "far.h").write_text("#define V 3\n")
    (tmp_path / "secret.h").write_text(f"{SECRET}\n")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "given.h").write_text("#define V 4\n")
    return root


def compiled(file: Path, source: str, *folders: Path) -> str:
    """The PTX of kernel ``k``."""
    file.write_text(source)
    made = UserSource.read(file, folders, find_toolchain())
    return compile_request(made.request(file.name, "k", (), "sm_80"), find_toolchain()).ptx


@pytest.mark.parametrize(
    "include",
    ['"common/helper.h"', '"include/common/helper.h"', "<common/helper.h>", '"../../include/common/helper.h"',
     '"ops.cuh"', '"far.h"', "<party/far.h>"],
)  # fmt: skip
def test_headers_of_the_repository_are_found(include: str, repository: Path) -> None:
    assert ".entry" in compiled(repository / "src" / "deep" / "k.cu", f"#include {include}\n{KERNEL}")


def test_a_folder_given_with_i_is_searched(repository: Path, tmp_path: Path) -> None:
    file = repository / "kernels" / "k.cu"
    with pytest.raises(CompileError, match='identifier "V" is undefined') as caught:
        compiled(file, '#include "given.h"\n' + KERNEL)
    assert "given.h" in caught.value.hint
    assert "-I DIR" in caught.value.hint
    assert ".entry" in compiled(file, '#include "given.h"\n' + KERNEL, tmp_path / "other")
    assert ".entry" in compiled(file, "#include <given.h>\n" + KERNEL, tmp_path / "other")


def test_a_header_that_the_repository_lacks_is_missing_and_not_outside_of_it(repository: Path) -> None:
    """A submodule that was not fetched: what the kernel does not need of it may be missing."""
    source = '#include "../half/half.hpp"\n' + KERNEL.replace("V", "1")
    assert ".entry" in compiled(repository / "kernels" / "k.cu", source)


REFUSED = {
    "absolute": '#include "{secret}"',
    "absolute in angle brackets": "#include <{secret}>",
    "above the repository": '#include "../../secret.h"',
    "above CUDA's folder": "#include <crt/../../../../../../../../../../..{secret}>",
    "through a link": '#include "link.h"',
    "through a linked folder": '#include "linked/secret.h"',
    "digraph": '%:include "{secret}"',
    "comment first": '/* */ # /* */ include /* */ "{secret}"',
    "split word": '#inc\\\nlude "{secret}"',
    "blank after the backslash": '#inc\\ \nlude "{secret}"',
    "next": '#include_next "{secret}"',
    "macro": '#define FILE "{secret}"\n#include FILE',
    "macro with an argument": "#define F(x) <x>\n#include F({secret})",
    "two definitions": '#define FILE "a.h"\n#undef FILE\n#define FILE "{secret}"\n#include FILE',
    "conditional": '#if 1\n#include "{secret}"\n#endif',
    "import": '#import "{secret}"',
    "embed": 'const unsigned char data[] = {{\n#embed "{secret}"\n}};',
    "in a raw string": 'const char* s = R"(\n#include "{secret}"\n)";',
    "after a raw string that is none": '#define R\n R"(\n#include "{secret}"\n//)"',
    "carriage returns": '\r\n#include "{secret}"\r\n',
}


@pytest.mark.parametrize("line", REFUSED.values(), ids=REFUSED)
def test_other_files_are_refused_and_never_shown(line: str, repository: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.h"
    (repository / "kernels" / "link.h").symlink_to(secret)
    (repository / "kernels" / "linked").symlink_to(tmp_path)
    source = line.format(secret=secret) + "\n" + KERNEL.replace("V", "1")
    with pytest.raises(GemmsmithError) as caught:
        compiled(repository / "kernels" / "k.cu", source)
    assert SECRET not in str(caught.value)
    assert SECRET not in getattr(caught.value, "log", "")
    if line != REFUSED["embed"] and "raw" not in line:
        assert isinstance(caught.value, UsageError)


def test_a_refusal_names_the_include_and_its_line(repository: Path) -> None:
    with pytest.raises(UsageError, match=r'k\.cu:2 includes "/etc/passwd", which is outside') as caught:
        compiled(repository / "kernels" / "k.cu", '#define V 1\n#include "/etc/passwd"\n' + KERNEL)
    assert "-I DIR" in caught.value.hint


def test_a_refused_include_that_is_not_active_does_no_harm(repository: Path) -> None:
    source = '#define V 1\n#ifdef ELSEWHERE\n#include "/home/me/defs.h"\n#endif\n// #include "/etc/passwd"\n' + KERNEL
    assert ".entry" in compiled(repository / "kernels" / "k.cu", source)


@pytest.mark.parametrize("spelling", ['"{secret}"', "<{secret}>", '"../../secret.h"'])
def test_has_include_does_not_tell_what_exists(spelling: str, repository: Path, tmp_path: Path) -> None:
    name = spelling.format(secret=tmp_path / "secret.h")
    source = f"#if __has_include({name})\n#error exists\n#endif\n#define V 1\n" + KERNEL
    assert ".entry" in compiled(repository / "kernels" / "k.cu", source)


def test_has_include_of_what_may_be_read(repository: Path) -> None:
    source = '#if defined(__has_include)\n#if __has_include("common/helper.h") && __has_include(<cuda_fp16.h>)\n'
    source += '#include "common/helper.h"\n#endif\n#endif\n' + KERNEL
    assert ".entry" in compiled(repository / "kernels" / "k.cu", source)


def test_without_a_repository_the_files_own_folder_is_all(tmp_path: Path) -> None:
    (tmp_path / "up.h").write_text("#define V 1\n")
    (tmp_path / "p").mkdir()
    with pytest.raises(UsageError, match=r"\.\./up\.h"):
        compiled(tmp_path / "p" / "k.cu", '#include "../up.h"\n' + KERNEL)
    assert ".entry" in compiled(tmp_path / "p" / "k.cu", '#include "../up.h"\n' + KERNEL, tmp_path)


def test_a_header_is_compiled_as_part_of_the_file_that_includes_it(repository: Path) -> None:
    (repository / "kernels" / "all.cuh").write_text('constexpr int V = 1;\n#include "one.cuh"\n')
    assert ".entry" in compiled(repository / "kernels" / "one.cuh", KERNEL)
