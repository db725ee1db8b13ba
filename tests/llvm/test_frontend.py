from __future__ import annotations

from pathlib import Path

import pytest

from planish.base.errors import CompileError, UsageError
from planish.llvm import frontend
from planish.llvm.frontend import (
    back_end_flags,
    clean_flags,
    code_generator,
    compile_baseline,
    compile_to_bitcode,
    cpu_flag,
    generate,
    triple_of,
)
from planish.llvm.recipe import Recipe
from planish.llvm.requests import Build, Job
from planish.llvm.toolchain import FrontEnd
from planish.measure.sizes import measure_object
from planish.proc.pool import Call, Pool

LIBC_TARGETS = [
    "",
    "aarch64-unknown-linux-gnu",
    "arm-unknown-linux-gnueabihf",
    "armv7-unknown-linux-gnueabihf",
    "riscv64-unknown-linux-gnu",
    "x86_64-unknown-linux-musl",
    "wasm32-wasip1",
]
HELLO = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdint.h>
#include <limits.h>
#include <math.h>
int main(int argc, char **argv) {
    printf("%d %zu %s\\n", argc, strlen(argv[0]), getenv("HOME"));
    return fputs(argv[0], stderr) == EOF ? EXIT_FAILURE : (int)(uint8_t)sqrt(argc);
}
"""


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("-c -o a.o -Wall", "-Wall"),
        ("-oa.o -O2 -DX=1", "-DX=1"),
        ("-O -O0 -O1 -O2 -O3 -Os -Oz -Og -Ofast -O4", ""),
        ("-MMD -MF a.d -MT a.o -MP -MQ a -MJ a.json -Iinc", "-Iinc"),
        ("-MFa.d -S -E -emit-llvm -g", "-g"),
        ("-std=c11 -fPIC --target=riscv64 -march=rv64gc", None),
        ("-Xclang -ast-dump -mllvm -x", None),
    ],
)
def test_flags_that_choose_the_output_are_dropped(given: str, kept: str | None) -> None:
    expected = tuple((given if kept is None else kept).split())
    assert clean_flags(given.split()) == expected


def test_flags_for_the_back_end_are_told_from_the_others() -> None:
    flags = ["-Wall", "-ffunction-sections", "-DX", "-mfloat-abi=hard", "-O2"]
    assert back_end_flags(flags) == ("-ffunction-sections", "-mfloat-abi=hard")


@pytest.mark.parametrize(
    ("flags", "triple"),
    [
        ("", ""),
        ("-g --target=arm-none-eabi", "arm-none-eabi"),
        ("-target riscv64-linux-gnu -g", "riscv64-linux-gnu"),
        ("--target=a --target=b", "b"),
        ("-target", ""),
    ],
)
def test_the_triple_that_flags_name(flags: str, triple: str) -> None:
    assert triple_of(flags.split()) == triple


def test_how_clang_is_told_the_processor() -> None:
    assert cpu_flag("x86_64-unknown-linux-gnu", "skylake") == "-march=skylake"
    assert cpu_flag("thumbv7em-none-eabi", "cortex-m4") == "-mcpu=cortex-m4"


def test_bitcode_is_unoptimised_and_ready_for_passes(sample_bitcode: bytes) -> None:
    assert sample_bitcode.startswith(b"BC\xc0\xde")


def test_compiling_twice_gives_the_same_bytes(
    front_end: FrontEnd, sample_source: Path, sample_bitcode: bytes
) -> None:
    assert compile_to_bitcode(front_end, sample_source, ()) == sample_bitcode


def test_levels_differ_and_unknown_ones_are_listed(
    front_end: FrontEnd, sample_source: Path
) -> None:
    sizes = {
        level: measure_object(compile_baseline(front_end, sample_source, (), level)).allocated
        for level in ("O0", "O3", "Oz")
    }
    assert sizes["Oz"] < sizes["O3"]
    assert sizes["Oz"] < sizes["O0"]
    with pytest.raises(UsageError, match="unknown level 'O9'") as caught:
        compile_baseline(front_end, sample_source, (), "O9")
    assert "Oz" in caught.value.hint


def test_a_refused_source_shows_the_compilers_words(front_end: FrontEnd, tmp_path: Path) -> None:
    source = tmp_path / "bad.c"
    source.write_text("int main(void) { return nonsense; }\n")
    with pytest.raises(CompileError, match=r"bad\.c does not compile") as caught:
        compile_to_bitcode(front_end, source, ())
    assert "undeclared identifier 'nonsense'" in caught.value.diagnostics
    assert "bad.c:1:25" in caught.value.diagnostics


def test_a_flag_that_clang_does_not_know(front_end: FrontEnd, sample_source: Path) -> None:
    with pytest.raises(CompileError) as caught:
        compile_baseline(front_end, sample_source, ["--no-such-flag"])
    assert "no-such-flag" in caught.value.diagnostics


def test_a_source_that_is_missing(front_end: FrontEnd, tmp_path: Path) -> None:
    for path in (tmp_path / "missing.c", tmp_path):
        with pytest.raises(UsageError, match="no such file"):
            compile_to_bitcode(front_end, path, ())


def test_a_compiler_that_is_gone(tmp_path: Path, sample_source: Path) -> None:
    gone = FrontEnd((str(tmp_path / "clang"),), (22,), "test")
    with pytest.raises(CompileError, match="cannot run"):
        compile_to_bitcode(gone, sample_source, ())


def test_a_compiler_that_hangs(
    tmp_path: Path, sample_source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clang = tmp_path / "clang"
    clang.write_text("#!/bin/sh\nexec sleep 600\n")
    clang.chmod(0o755)
    monkeypatch.setattr(frontend, "_SECONDS", 0.1)
    with pytest.raises(CompileError, match="within"):
        compile_to_bitcode(FrontEnd((str(clang),), (22,), "test"), sample_source, ())


def test_the_current_folder_is_the_compilers(
    front_end: FrontEnd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "mine.h").write_text("#define ANSWER 42\n")
    (tmp_path / "a.c").write_text('#include "mine.h"\nint answer(void) { return ANSWER; }\n')
    monkeypatch.chdir(tmp_path)
    assert compile_baseline(front_end, Path("a.c"), ["-Iinc"]).startswith(b"\x7fELF")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.c", "inc"]


@pytest.mark.parametrize("triple", LIBC_TARGETS)
def test_programs_that_use_libc_compile_with_the_bundled_headers(
    front_end: FrontEnd, tmp_path: Path, triple: str
) -> None:
    if front_end.source != "ziglang":
        pytest.skip("another front end is in use")
    source = tmp_path / "hello.c"
    source.write_text(HELLO)
    flags = [f"--target={triple}"] if triple else []
    assert measure_object(compile_baseline(front_end, source, flags)).allocated > 50


def test_cpp_without_a_library_compiles(front_end: FrontEnd, tmp_path: Path) -> None:
    source = tmp_path / "a.cpp"
    source.write_text(
        "template <class T> T twice(T x) { return x + x; }\nint f() { return twice(2); }\n"
    )
    assert "_Z1fv" in measure_object(compile_baseline(front_end, source, ())).functions


@pytest.mark.parametrize("flags", [(), ("-ffunction-sections",), ("-fno-pic", "-DX=1", "-std=c11")])
@pytest.mark.parametrize(
    "triple", ["", "aarch64-unknown-linux-gnu", "armv7-unknown-linux-gnueabihf"]
)
def test_generating_from_bitcode_gives_what_the_library_emits(
    builder_pool: Pool,
    front_end: FrontEnd,
    sample_source: Path,
    triple: str,
    flags: tuple[str, ...],
) -> None:
    flags = (*flags, f"--target={triple}") if triple else flags
    key = f"generate {triple} {flags}"
    builder_pool.keep(key, compile_to_bitcode(front_end, sample_source, flags))
    recipe = Recipe(("default<Oz>",))
    (reply,) = builder_pool.run([Call((), Build(Job(key), recipe, keep=("bc",)), (key,))])
    code = generate(code_generator(front_end, flags), reply.value.artefacts["bc"])
    sizes = measure_object(code)
    if "-ffunction-sections" in flags:
        # The bitcode does not say so, hence clang generates code for such flags.
        assert {name for name in sizes.sections if name.startswith(".text.")}
    else:
        assert sizes.sections == reply.value.sections
    assert (
        sizes.sections == measure_object(compile_baseline(front_end, sample_source, flags)).sections
    )


def test_generated_assembly_is_text(front_end: FrontEnd, sample_bitcode: bytes) -> None:
    text = generate(code_generator(front_end, ()), sample_bitcode, assembly=True).decode()
    assert "checksum:" in text


def test_options_reach_the_code_generator(front_end: FrontEnd, sample_bitcode: bytes) -> None:
    command = code_generator(front_end, ())
    plain = generate(command, sample_bitcode)
    assert generate(command, sample_bitcode, ["-regalloc=basic"]) != plain
    assert generate(command, sample_bitcode) == plain
    with pytest.raises(CompileError) as caught:
        generate(command, sample_bitcode, ["-no-such-option"])
    assert "no-such-option" in caught.value.diagnostics


def test_bitcode_that_is_none_is_a_compile_error(front_end: FrontEnd) -> None:
    with pytest.raises(CompileError):
        generate(code_generator(front_end, ()), b"BC\xc0\xdejunk")


def test_warnings_are_heard_and_errors_fail(front_end: FrontEnd, tmp_path: Path) -> None:
    source = tmp_path / "warns.c"
    source.write_text("int f(void) { int unused = 1; return 2; }\n")
    heard: list[bytes] = []
    data = compile_to_bitcode(front_end, source, ("-Wall",), heard.append)
    assert b"warns.c:1:19: warning: unused variable 'unused'" in b"".join(heard)
    assert compile_to_bitcode(front_end, source, ()) == data
    assert len(heard) == 1
    with pytest.raises(CompileError, match="does not compile"):
        compile_to_bitcode(front_end, source, ("-Wall", "-Werror"), heard.append)
