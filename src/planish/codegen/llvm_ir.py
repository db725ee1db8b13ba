"""Vector instructions as LLVM IR: every operation, every target that LLVM has."""

from __future__ import annotations

from collections.abc import Sequence

from planish.codegen import vir
from planish.codegen.llvm_kernels import KernelWriter
from planish.codegen.llvm_values import Text


def to_llvm_ir(functions: Sequence[tuple[str, vir.Function]], vector: int) -> str:
    """A module with one `void name(ptr arguments)` for each function.

    vector  bytes that vectors are meant to have, for targets that prefer narrower ones
    """
    parts = [_Writer(name, function).text() for name, function in functions]
    used = sorted({line for part in parts for line in part.declarations})
    attributes = (
        f'attributes #0 = {{ nounwind "no-builtins" "prefer-vector-width"="{8 * vector}" '
        f'"min-legal-vector-width"="{8 * vector}" }}'
    )
    bodies = [line for part in parts for line in part.lines]
    return "\n".join([*bodies, *used, attributes, ""])


class _Writer:
    def __init__(self, name: str, function: vir.Function) -> None:
        self.name = name
        self.function = function
        self.out = Text()
        self.fresh = 0
        self.kernels: dict[int, tuple[str, vir.Kernel, int]] = {}

    def text(self) -> Text:
        lines = self.out.lines
        lines.append(f"define void @{self.name}(ptr %args) #0 {{")
        for number, argument in enumerate(self.function.pointers):
            self.do(f"%slot{number} = alloca ptr")
            place = self.emit(f"getelementptr i8, ptr %args, i64 {8 * argument}")
            self.do(f"store ptr {self.emit(f'load ptr, ptr {place}')}, ptr %slot{number}")
        self._items(self.function.body, ())
        lines += ["  ret void", "}"]
        for name, kernel, count in list(self.kernels.values()):
            self._kernel_function(name, kernel, range(count))
        return self.out

    def _name(self) -> str:
        self.fresh += 1
        return f"%t{self.fresh}"

    def _label(self) -> str:
        self.fresh += 1
        return f"b{self.fresh}"

    def emit(self, text: str) -> str:
        """An instruction with a result."""
        name = self._name()
        self.out.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """An instruction without one."""
        self.out.lines.append(f"  {text}")

    def _items(self, items: Sequence[vir.Item], pointers: Sequence[int]) -> None:
        for item in items:
            if isinstance(item, list):
                for ins in item:
                    self.kernel.instruction(ins)
            elif isinstance(item, vir.Stage):
                self._items(item.body, item.pointers)
            elif isinstance(item, vir.Loop):
                self._loop(item, pointers)
            else:
                self._call(item, pointers)

    kernel: KernelWriter

    def _call(self, kernel: vir.Kernel, pointers: Sequence[int]) -> None:
        name = f"{self.name}_kernel{len(self.kernels)}"
        name = self.kernels.setdefault(id(kernel), (name, kernel, len(pointers)))[0]
        values = [self.emit(f"load ptr, ptr %slot{p}") for p in pointers]
        self.do(f"call void @{name}({', '.join(f'ptr {v}' for v in values)})")

    def _kernel_function(self, name: str, kernel: vir.Kernel, pointers: Sequence[int]) -> None:
        arguments = ", ".join(f"ptr %p{p}" for p in pointers)
        self.out.lines.append(f"define internal void @{name}({arguments}) #0 {{")
        for p in pointers:
            self.do(f"%slot{p} = alloca ptr")
            self.do(f"store ptr %p{p}, ptr %slot{p}")
        body = vir.expand(kernel.body)
        self.kernel = KernelWriter(self, body)
        self._items(body.runs, pointers)
        self.out.lines += ["  ret void", "}"]

    def _loop(self, loop: vir.Loop, pointers: Sequence[int]) -> None:
        for segment in loop.segments:
            if segment.trips == 1:
                self._items(segment.body, pointers)
                self._move(loop.moves, 1)
                continue
            before, top, after = self._label(), self._label(), self._label()
            self.do(f"br label %{before}")
            self.out.lines.append(f"{before}:")
            self.do(f"br label %{top}")
            self.out.lines.append(f"{top}:")
            counter, following = self._name(), self._name()
            latch = self._label()
            self.do(f"{counter} = phi i64 [ 0, %{before} ], [ {following}, %{latch} ]")
            self._items(segment.body, pointers)
            self._move(loop.moves, 1)
            self.do(f"br label %{latch}")
            self.out.lines.append(f"{latch}:")
            self.do(f"{following} = add i64 {counter}, 1")
            done = self.emit(f"icmp eq i64 {following}, {segment.trips}")
            self.do(f"br i1 {done}, label %{after}, label %{top}")
            self.out.lines.append(f"{after}:")
        self._move(loop.moves, -loop.trips)

    def _move(self, moves: Sequence[tuple[int, int]], times: int) -> None:
        for pointer, by in moves:
            value = self.emit(f"load ptr, ptr %slot{pointer}")
            moved = self.emit(f"getelementptr i8, ptr {value}, i64 {by * times}")
            self.do(f"store ptr {moved}, ptr %slot{pointer}")
