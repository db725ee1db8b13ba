"""How plain clang and opt replay a recipe: for those who want no Planish in their build."""

from __future__ import annotations

import shlex
from pathlib import Path

from planish.llvm import frontend
from planish.tune.result import Result

# Attribute element of a pipeline to the compiler flags that do the same to every function.
_ATTRIBUTE_FLAGS = {
    "frame-pointer=none": ("-fomit-frame-pointer",),
    "frame-pointer=non-leaf": ("-fno-omit-frame-pointer", "-momit-leaf-frame-pointer"),
    "frame-pointer=all": ("-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer"),
    "no-jump-tables=true": ("-fno-jump-tables",),
}


def replay_script(result: Result) -> str:
    """Shell lines; comments say what plain tools cannot do."""
    recipe, source = result.recipe, result.source
    stem = source.stem
    level, flags = "-Oz", list(frontend.clean_flags(result.flags))
    if result.cpu:
        flags.append(frontend.cpu_flag(result.target, result.cpu))
    passes = []
    for element in recipe.passes:
        if not element.startswith("@"):
            passes.append(element)
            continue
        attribute = element.removeprefix("@")
        if attribute == "no-minsize":
            level = "-Os"
        elif attribute.startswith("tune-cpu="):
            flags.append(f"-mtune={attribute.partition('=')[2]}")
        else:
            flags += _ATTRIBUTE_FLAGS[attribute]
    lines = [f"# {source}: {result.target}, {result.compiler}"]
    if not recipe.passes and not recipe.options:
        return "\n".join([*lines, "# the baseline itself: compile it plainly"])
    if recipe.functions:
        lines.append(
            f"# {len(recipe.functions)} functions have recipes of their own, which need "
            "`planish opt --replay`"
        )
    target = f"--target={result.target}"
    front = ["clang", target, level, *flags, "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c"]
    options = [word for option in recipe.options for word in ("-mllvm", option)]
    back = ["clang", target, level, *flags, "-Xclang", "-disable-llvm-passes", *options, "-c"]
    pipeline = ",".join(["require<profile-summary>", *passes])
    unoptimised = str(source) if source.suffix in frontend.IR_SUFFIXES else f"{stem}.0.bc"
    if unoptimised != str(source):
        lines.append(shlex.join([*front, str(source), "-o", unoptimised]))
    lines.append(shlex.join(["opt", f"-passes={pipeline}", unoptimised, "-o", f"{stem}.1.bc"]))
    lines.append(shlex.join([*back, f"{stem}.1.bc", "-o", str(Path(f"{stem}.o"))]))
    return "\n".join(lines)
