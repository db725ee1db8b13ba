"""AMD instructions: effects, wait counters, and stalls with a known culprit."""

from __future__ import annotations

import pytest

from planish.base.errors import TraceError
from planish.gpu.amd import is_amd, parse_amd, parse_amd_instruction
from planish.gpu.slicing import awaited, blame_stalls, loops


@pytest.mark.parametrize(
    ("text", "defines", "uses"),
    [
        ("v_add_f32_e32 v1, v2, v3", "v1", "v2 v3 exec"),
        ("v_lshl_add_u64 v[4:5], v[2:3], 2, s[2:3]", "v4 v5", "v2 v3 s2 s3 exec"),
        ("v_fmac_f32_e32 v1, v9, v13", "v1", "v1 v9 v13 exec"),
        ("v_cmp_gt_i32_e32 vcc, s8, v2", "vcc", "s8 v2 exec"),
        ("v_add_co_u32_e32 v0, vcc, v1, v2", "v0 vcc", "v1 v2 exec"),
        ("s_and_saveexec_b64 s[0:1], vcc", "s0 s1 exec scc", "vcc exec"),
        ("s_cmp_lt_i32 s4, s5", "scc", "s4 s5"),
        ("s_cbranch_scc1 .LBB0_2", "", "scc"),
        ("s_cselect_b32 s0, s1, s2", "s0", "s1 s2 scc"),
        ("global_load_dwordx2 v[8:9], v[4:5], off offset:16", "v8 v9", "v4 v5 exec"),
        ("global_store_dword v[4:5], v2, off", "", "v4 v5 v2 exec"),
        ("global_atomic_add v[4:5], v2, off", "", "v4 v5 v2 exec"),
        ("global_atomic_add v1, v[4:5], v2, off sc0", "v1", "v4 v5 v2 exec"),
        ("ds_read_b32 v0, v1", "v0", "v1 exec"),
        ("ds_write_b64 v1, v[2:3]", "", "v1 v2 v3 exec"),
        ("s_load_dwordx2 s[2:3], s[0:1], 0x0", "s2 s3", "s0 s1"),
        ("v_mfma_f32_32x32x8_f16 a[0:3], v[0:1], v[2:3], a[0:3]", "a0 a1 a2 a3",
         "v0 v1 v2 v3 a0 a1 a2 a3 exec"),
        ("s_waitcnt vmcnt(0)", "", ""),
        ("s_barrier", "", ""),
    ],
)  # fmt: skip
def test_effects(text: str, defines: str, uses: str) -> None:
    found = parse_amd_instruction(0, text)
    assert found.defines == set(defines.split())
    assert found.uses == set(uses.split())


@pytest.mark.parametrize(
    ("text", "names", "raises", "waits"),
    [
        ("s_waitcnt vmcnt(1) lgkmcnt(0)", "old", "", (("vm", 1), ("lgkm", 0))),
        ("s_waitcnt 0", "old", "", (("vm", 0), ("lgkm", 0), ("exp", 0))),
        ("s_waitcnt_vscnt null, 0x0", "stores", "", (("vs", 0),)),
        ("s_wait_loadcnt 0x2", "split", "", (("load", 2),)),
        ("s_wait_loadcnt_dscnt 0x301", "split", "", (("load", 3), ("ds", 1))),
        ("global_load_dword v0, v[2:3], off", "old", "vm", ()),
        ("global_store_dword v[2:3], v0, off", "old", "vm", ()),
        ("global_store_dword v[2:3], v0, off", "stores", "vs", ()),
        ("flat_load_dword v0, v[2:3]", "old", "vm lgkm", ()),
        ("ds_read_b32 v0, v1", "split", "ds", ()),
        ("s_load_dword s0, s[2:3], 0x0", "split", "km", ()),
        ("v_add_f32_e32 v1, v2, v3", "old", "", ()),
    ],
)
def test_counters(text: str, names: str, raises: str, waits: tuple[tuple[str, int], ...]) -> None:
    found = parse_amd_instruction(0, text, names)
    assert found.raises == set(raises.split())
    assert found.waits == waits


def dump(*lines: str) -> str:
    """As llvm-objdump prints it: four bytes each; a text with a colon is a block's label."""
    made = ["kernel.o:\tfile format elf64-amdgpu", "", "0000000000001600 <kernel>:"]
    offset = 0x1600
    for line in lines:
        made.append(f"\t{line:<60}// {offset:012X}: BF800000")
        offset += 4
    return "\n".join(made)


def test_a_wait_leaves_the_youngest_under_way() -> None:
    (function,) = parse_amd(dump(
        "global_load_dword v1, v[10:11], off",
        "global_load_dword v2, v[12:13], off",
        "global_load_dword v3, v[14:15], off",
        "s_waitcnt vmcnt(1)",
        "v_add_f32_e32 v4, v1, v2",
        "s_waitcnt vmcnt(0)",
        "v_add_f32_e32 v4, v4, v3",
        "s_endpgm",
    ))  # fmt: skip
    assert {s.index for s in awaited(function, 3)} == {0, 1}
    # the first wait has left one under way: only that one can be waited for here
    assert {s.index for s in awaited(function, 5)} == {2}


def test_counters_do_not_mix() -> None:
    (function,) = parse_amd(dump(
        "global_load_dword v1, v[10:11], off",
        "ds_read_b32 v2, v5",
        "s_load_dword s0, s[2:3], 0x0",
        "s_waitcnt lgkmcnt(0)",
        "s_endpgm",
    ))  # fmt: skip
    shares = blame_stalls(function, {3: {"WAITCNT": 30.0}})
    assert {s.source for s in shares} == {1, 2}
    assert sum(s.amount for s in shares) == pytest.approx(30)


def test_along_the_paths_of_a_loop() -> None:
    (function,) = parse_amd(dump(
        "global_load_dword v1, v[10:11], off",
        "s_mov_b32 s0, 0",
        "s_waitcnt vmcnt(0)",  # 2: of the first round, and of the load at the loop's end
        "v_add_f32_e32 v4, v4, v1",
        "global_load_dword v1, v[12:13], off",
        "s_add_i32 s0, s0, 1",
        "s_cmp_lt_i32 s0, s1",
        "s_cbranch_scc1 65531                  // 00000000161C: BF84FFFB <kernel+0x8>",
        "s_endpgm",
    ))  # fmt: skip
    assert function.successors[7] == (2, 8)
    assert {s.index for s in awaited(function, 2)} == {0, 4}
    assert loops(function)[0] == frozenset(range(2, 8))


def test_arithmetic_is_blamed_through_registers_and_masks() -> None:
    (function,) = parse_amd(dump(
        "v_cmp_lt_i32_e32 vcc, v0, v1",
        "s_and_saveexec_b64 s[0:1], vcc",
        "v_rcp_f32_e32 v2, v3",
        "v_mul_f32_e32 v4, v2, v5",
        "s_endpgm",
    ))  # fmt: skip
    shares = blame_stalls(function, {3: {"ALU_DEPENDENCY": 9.0}})
    assert {s.source for s in shares} == {1, 2}
    assert max(shares, key=lambda s: s.amount).source == 2


def test_assembly_of_the_compiler() -> None:
    text = """
	.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
	.type	add,@function
add:                                    ; @add
	.loc	1 8 9                           ; k.py:8:9
	global_load_dword v8, v[4:5], off
	s_cbranch_execz .LBB0_2
	s_waitcnt vmcnt(0)                      ; wait
.LBB0_2:
	s_endpgm
"""
    assert is_amd(text)
    (function,) = parse_amd(text)
    assert (function.name, function.code[0].file, function.code[0].line) == ("add", "k.py", 8)
    assert function.successors == [(1,), (3, 2), (3,), ()]
    assert {s.index for s in awaited(function, 2)} == {0}


def test_nothing_to_read() -> None:
    with pytest.raises(TraceError, match="llvm-objdump"):
        parse_amd("amdgpu")
