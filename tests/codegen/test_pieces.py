"""Finished kernels that are kept: the same bytes with and without; what functions preserve."""

from __future__ import annotations

import iced_x86
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import make_case

from planish.base.errors import UsageError
from planish.codegen.native import Image, build_image
from planish.codegen.x86.encoder import vector, vector_at
from planish.codegen.x86.pieces import forget_pieces
from planish.codegen.x86.registers import DoesNotFit

_PRESERVED = {
    getattr(iced_x86.Register, name) for name in ("RBX", "RBP", "R12", "R13", "R14", "R15")
}


def _image(seed: int, vector: int) -> Image | None:
    try:
        case = make_case(seed)
        return build_image(case.schedule.apply(case.program), vector)
    except (UsageError, DoesNotFit):
        return None


@settings(max_examples=60, deadline=None)
@given(seeds=st.lists(st.integers(0, 400), min_size=2, max_size=4), width=st.sampled_from((32, 64)))
def test_code_does_not_depend_on_what_was_compiled_before(seeds: list[int], width: int) -> None:
    fresh = []
    for seed in seeds:
        forget_pieces()
        fresh.append(_image(seed, width))
    forget_pieces()
    for _ in range(2):
        assert [_image(seed, width) for seed in seeds] == fresh


@settings(max_examples=60, deadline=None)
@given(seed=st.one_of(st.just(293), st.integers(0, 1 << 40)), width=st.sampled_from((32, 64)))
def test_registers_of_the_caller_are_saved_before_they_are_written(seed: int, width: int) -> None:
    image = _image(seed, width)
    if image is None:
        return
    begins = sorted(call.offset for call in image.calls)
    for begin, end in zip(begins, [*begins[1:], len(image.code)], strict=True):
        saved, written = set(), set()
        constants = end - begin
        factory = iced_x86.InstructionInfoFactory()
        for instruction in iced_x86.Decoder(64, image.code[begin:end]):
            if instruction.is_ip_rel_memory_operand:
                constants = min(constants, instruction.ip_rel_memory_address)
            if instruction.ip >= constants:
                break
            if instruction.mnemonic == iced_x86.Mnemonic.PUSH:
                saved.add(instruction.op0_register)
                continue
            if instruction.mnemonic == iced_x86.Mnemonic.POP:
                continue
            for used in factory.info(instruction).used_registers():
                if used.access not in (iced_x86.OpAccess.READ, iced_x86.OpAccess.COND_READ):
                    full = iced_x86.RegisterExt.full_register(used.register)
                    written |= {full} & _PRESERVED
        assert written <= saved, image.code[begin:end].hex()


@given(
    name=st.sampled_from(("vmovups", "vaddps", "vbroadcastss", "vfmadd231ps")),
    width=st.sampled_from((16, 32, 64)),
    base=st.integers(0, 15),
    disp=st.one_of(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-9000, 9000)),
    mask=st.integers(0, 7),
)
def test_many_displacements_are_encoded_like_one(
    name: str, width: int, base: int, disp: int, mask: int
) -> None:
    from planish.codegen.x86.encoder import Mem

    other = -1 if name in ("vmovups", "vbroadcastss") else 3
    wanted = vector(name, width, 5, other, Mem(base, disp), -1, mask)
    assert vector_at(name, width, 5, other, base, disp, -1, mask) == wanted
