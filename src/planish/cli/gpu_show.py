"""Facts and findings of a GPU kernel in words."""

from __future__ import annotations

from typing import Any


def show_inspection(one: dict[str, Any]) -> None:
    """Print one kernel."""
    o = one["occupancy"]
    print(f"{one['kernel']} for {one['target']}, {one['threads']} threads a block")
    spilled = f", {one['spilled_bytes']} bytes spilled" if one["spilled_bytes"] else ", no spills"
    print(f"  registers  {one['registers']} a thread{spilled}")
    launched = "" if one["shared_at_launch_known"] else ", and what the launch gives"
    print(f"  shared     {one['shared_bytes']:,} bytes a block{launched}")
    print(
        f"  occupancy  {o['share']:.0%} in theory: {o['blocks']} blocks, {o['warps']} warps,"
        f" limited by {o['limit']}"
    )
    widths = "; ".join(
        f"{kind}: " + ", ".join(f"{n} of {size} bytes" for size, n in sizes.items())
        for kind, sizes in one["widths"].items()
    )
    print(f"  accesses   {widths or 'none seen'}")
    print("  mix        " + ", ".join(f"{n} {kind}" for kind, n in one["mix"].items()))
    if one["loop_instructions"]:
        print(
            f"  main loop  {one['loop_instructions']} instructions,"
            f" {one['matrix_instructions_in_loop']} of matrices,"
            f" {one['copies_in_loop']} asynchronous copies"
        )
    if "roofline" in one:
        r = one["roofline"]
        print(
            f"  roofline   {r['operations_per_byte']:.1f} operations a byte; the balance for"
            f" {r['type']} is {r['balance']:.0f}: {r['bound']}-bound"
        )
    for finding in one["findings"]:
        print(f"\n  {finding['rule']} at {finding['where']}")
        print(f"    {finding['evidence']}")
        print(f"    {finding['suggestion']}")
    if not one["findings"]:
        print("  nothing found")
