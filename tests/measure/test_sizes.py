from __future__ import annotations

import io
import random
from collections import Counter
from pathlib import Path

import pytest
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from hypothesis import given
from hypothesis import strategies as st

from planish.base.errors import UsageError
from planish.llvm.frontend import compile_baseline
from planish.llvm.toolchain import FrontEnd
from planish.measure.sizes import allocated_bytes, measure_object

ELF_TARGETS = {
    "x86-64": "x86_64-unknown-linux-gnu",
    "aarch64": "aarch64-unknown-linux-gnu",
    "aarch64-big-endian": "aarch64_be-unknown-linux-gnu",
    "armv7": "armv7-unknown-linux-gnueabihf",
    "riscv64": "riscv64-unknown-linux-gnu",
}
WASM = "wasm32-unknown-unknown"


@pytest.fixture(scope="module")
def objects(front_end: FrontEnd, sample_source: Path) -> dict[str, bytes]:
    """The sample, compiled for every target, with its functions in sections of their own."""
    return {
        name: compile_baseline(
            front_end, sample_source, [f"--target={triple}", "-ffunction-sections", "-g"]
        )
        for name, triple in {**ELF_TARGETS, "wasm32": WASM}.items()
    }


@pytest.mark.parametrize("target", ELF_TARGETS)
def test_elf_sizes_are_those_that_pyelftools_adds_up(
    objects: dict[str, bytes], target: str
) -> None:
    elf = ELFFile(io.BytesIO(objects[target]))
    expected: Counter[str] = Counter()
    functions = {}
    for section in elf.iter_sections():
        if section["sh_flags"] & SH_FLAGS.SHF_ALLOC:
            expected[section.name] += section["sh_size"]
        if isinstance(section, SymbolTableSection):
            for symbol in section.iter_symbols():
                if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_size"]:
                    functions[symbol.name] = symbol["st_size"]
    sizes = measure_object(objects[target])
    assert sizes.sections == {name: size for name, size in expected.items() if size}
    unwind = {name: size - functions[name] for name, size in sizes.functions.items()}
    assert all(extra >= 0 for extra in unwind.values())
    assert sum(unwind.values()) < expected[".eh_frame"] or not expected[".eh_frame"]
    assert any(unwind.values()) == (target != "armv7")  # which has tables of its own kind
    assert set(functions) == {"checksum", "sort", "lookup", "kind", "dot"}
    assert sizes.allocated == allocated_bytes(objects[target]) == sum(expected.values())


def test_debug_information_does_not_count(
    front_end: FrontEnd, sample_source: Path, objects: dict[str, bytes]
) -> None:
    flags = [f"--target={ELF_TARGETS['x86-64']}", "-ffunction-sections"]
    plain = compile_baseline(front_end, sample_source, flags)
    assert len(plain) < len(objects["x86-64"])
    assert measure_object(plain) == measure_object(objects["x86-64"])


def test_zeroed_data_and_unwind_tables_count(objects: dict[str, bytes]) -> None:
    sections = measure_object(objects["x86-64"]).sections
    assert sections[".bss"] == 4
    assert sections[".eh_frame"] > 0
    assert sections[".text.sort"] > 0


def test_more_sections_than_the_header_can_count(
    front_end: FrontEnd, tmp_path: Path, objects: dict[str, bytes]
) -> None:
    source = tmp_path / "many.c"
    source.write_text("".join(f"int g{n} = {n + 1};\n" for n in range(66000)))
    data = compile_baseline(
        front_end, source, [f"--target={ELF_TARGETS['x86-64']}", "-fdata-sections"]
    )
    assert allocated_bytes(data) == 4 * 66000


def test_wasm_counts_all_but_custom_sections(objects: dict[str, bytes]) -> None:
    data = objects["wasm32"]
    sizes = measure_object(data)
    assert set(sizes.sections) >= {"type", "import", "function", "code"}
    assert sizes.functions == {}
    assert 0 < sizes.allocated < len(data) - 8
    custom = b"\0\x05\x04note"
    assert measure_object(data + custom) == sizes


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x7fELF", b"\x7fELF" + b"\0" * 100, b"\x7fELF\x02\x01" + b"\xff" * 100, b"\0asm",
        b"\0asm\x01\0\0\0\x01", b"\0asm\x01\0\0\0\x01\xff\xff\xff", b"\0asm\x02\0\0\0",
        b"BC\xc0\xde", b"int main(void) {}", b"\xcf\xfa\xed\xfe" + b"\0" * 100,
    ],
)  # fmt: skip
def test_what_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(UsageError) as caught:
        measure_object(data)
    assert caught.value.hint
    assert "\n" not in str(caught.value)


@given(st.sampled_from([b"", b"\x7fELF", b"\x7fELF\2\1\1", b"\0asm\1\0\0\0"]), st.binary())
def test_junk_raises_nothing_else(start: bytes, junk: bytes) -> None:
    _measure_or_refuse(start + junk)


@pytest.mark.parametrize("target", [*ELF_TARGETS, "wasm32"])
def test_truncated_objects_are_refused(objects: dict[str, bytes], target: str) -> None:
    whole = measure_object(objects[target])
    refused = 0
    for end in range(0, len(objects[target]), 7):
        try:
            sizes = measure_object(objects[target][:end])
        except UsageError:
            refused += 1
        else:
            # Sections of WebAssembly stand in a row: a cut between two of them cannot be seen.
            assert target == "wasm32" and sizes.allocated <= whole.allocated
    assert refused > 0.9 * len(objects[target]) / 7


@pytest.mark.parametrize("target", [*ELF_TARGETS, "wasm32"])
def test_mutated_objects_raise_nothing_else(objects: dict[str, bytes], target: str) -> None:
    rng = random.Random(target)
    data = objects[target]
    # The headers of the file and of the sections are where a change matters most.
    weak = [*range(min(64, len(data))), *range(max(0, len(data) - 2000), len(data))]
    for _ in range(300):
        mutated = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 8))):
            at = rng.choice(weak) if rng.random() < 0.8 else rng.randrange(len(data))
            mutated[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        _measure_or_refuse(bytes(mutated))


def _measure_or_refuse(data: bytes) -> None:
    try:
        assert measure_object(data).allocated >= 0
    except UsageError as error:
        assert "\n" not in str(error)


def test_a_programs_filler_does_not_count(tmp_path: Path, front_end: FrontEnd) -> None:
    """lld fills up to a page behind what becomes read-only: it is no part of the program."""
    import subprocess

    assert front_end.root is not None
    code = "int put(const char *); int (*const table[2])(const char *) = {put, put};\n"
    (tmp_path / "a.c").write_text(code + "int f(int i) { return table[i](0); }\n")
    (tmp_path / "a.o").write_bytes(compile_baseline(front_end, tmp_path / "a.c", ("-fPIC",)))
    linked = ["ld.lld", "-shared", "-z", "relro", "-z", "now", "a.o", "-o", "a.so"]
    subprocess.run([front_end.command[0], *linked], cwd=tmp_path, check=True)
    data = (tmp_path / "a.so").read_bytes()
    sections = {s.name: s["sh_size"] for s in ELFFile(io.BytesIO(data)).iter_sections()}
    assert sections[".relro_padding"] > 1000
    assert ".relro_padding" not in measure_object(data).sections
    assert allocated_bytes(data) < sections[".relro_padding"]
