"""Functions of an LLVM module as `ir.Function`, read through LLVM itself. Worker processes only."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from planish.llvm.binding import Library
from planish.llvm.inspection import text_of
from planish.llvm.module import Module
from planish.verify import attributes
from planish.verify.ir import (
    Block,
    Function,
    Instruction,
    Number,
    Parameter,
    Type,
    Unsupported,
)
from planish.verify.opcodes import (
    EXACT,
    FCMP,
    ICMP,
    OPCODES,
    OVERFLOWING,
    UNSUPPORTED,
    VALUE_KINDS,
)
from planish.verify.operands import LOCAL, Operands

_EFFECT = "!"  # begins the name of what is no function: an atomic or volatile access, assembly
_EFFECTS = frozenset({"fence", "cmpxchg", "atomicrmw", "va_arg"})
_CONSTANT = re.compile(r"\b(i\d+|ptr|half|float|double) (-?\d[\w.+-]*|null|true|false)(?![\w.])")
_NOTHING = -9  # the local that a branch behind an invoke defines
_FAST = ("reassoc", "nnan", "ninf", "nsz", "arcp", "contract", "afn")


class Reader(Operands):
    """Reads one module. Raises Unsupported, naming what has no meaning here."""

    def __init__(self, library: Library, module: Module) -> None:
        super().__init__(library, module)
        self._module = module.handle
        self._blocks: dict[int, int] = {}

    def function(self, name: str) -> Function:
        """One function that has a body."""
        c = self._c
        handle = c.LLVMGetNamedFunction(self._module, name.encode(errors="surrogateescape"))
        if not handle or c.LLVMIsDeclaration(handle):
            raise Unsupported(f"no body of {name}")
        if c.LLVMByteOrder(self._layout) != 1:
            raise Unsupported("big-endian target")
        if c.LLVMPointerSize(self._layout) != 8:
            raise Unsupported("pointers that are not 64 bits wide")
        if attributes.has(self._library, handle, "null_pointer_is_valid"):
            raise Unsupported("function in which null may be accessed")
        if c.LLVMIsFunctionVarArg(c.LLVMGlobalGetValueType(handle)):
            raise Unsupported("function with variable arguments")
        self._globals, self._locals, self._blocks = {}, {}, {}
        parameters = tuple(self._parameter(handle, at) for at in range(c.LLVMCountParams(handle)))
        if any("range" in parameter.flags for parameter in parameters):
            bounds = attributes.ranges(self._library, handle)
            parameters = tuple(
                replace(parameter, bounds=bounds.get(at, ()))
                for at, parameter in enumerate(parameters)
            )
        bodies = self._number(handle)
        blocks = tuple(
            Block(tuple(part for instruction in body for part in self._parts(instruction)))
            for body in bodies
        )
        result = self._type(c.LLVMGetReturnType(c.LLVMGlobalGetValueType(handle)))
        flags = attributes.at(self._library, handle, attributes.RETURN)
        flags |= attributes.of_callee(self._library, handle) & {"nounwind"}
        if c.LLVMGetLinkage(handle) in LOCAL:
            flags |= {"local"}
        held = attributes.range_of_result(self._library, handle) if "range" in flags else ()
        return Function(name, result, parameters, blocks, dict(self._globals), flags, held)

    def _number(self, handle: int) -> list[list[int]]:
        """Number what a function defines; its instructions, by block."""
        c = self._c
        bodies: list[list[int]] = []
        block = c.LLVMGetFirstBasicBlock(handle)
        while block:
            self._blocks[c.LLVMBasicBlockAsValue(block)] = len(bodies)
            body = []
            instruction = c.LLVMGetFirstInstruction(block)
            while instruction:
                self._locals[instruction] = len(self._locals)
                body.append(instruction)
                instruction = c.LLVMGetNextInstruction(instruction)
            bodies.append(body)
            block = c.LLVMGetNextBasicBlock(block)
        return bodies

    def _parameter(self, handle: int, at: int) -> Parameter:
        value = self._c.LLVMGetParam(handle, at)
        number = self._locals[value] = len(self._locals)
        flags = attributes.at(self._library, handle, at + 1)
        if flags & {"byval", "sret", "inalloca", "preallocated", "swifterror"} - {"sret"}:
            raise Unsupported("argument passed in memory (byval)")
        bytes_valid = attributes.number(self._library, handle, at + 1, "dereferenceable")
        return Parameter(number, self._type(self._c.LLVMTypeOf(value)), flags, bytes_valid)

    # -- instructions ------------------------------------------------------------------------

    def _parts(self, value: int) -> list[Instruction]:
        """One instruction; an invoke is a call and the branch behind it."""
        if OPCODES.get(self._c.LLVMGetInstructionOpcode(value)) != "invoke":
            return [self._instruction(value)]
        call = self._call(value, self._locals[value])
        branch = Instruction("invoke", _NOTHING, Type("void"), targets=self._successors(value))
        return [replace(call, flags=call.flags | {"invoked"}), branch]

    def _landingpad(self, value: int, number: int) -> Instruction:
        words = text_of(self._library, self._c.LLVMPrintValueToString(value))
        clauses = words.partition("landingpad")[2]
        kind = self._type(self._c.LLVMTypeOf(value))
        return Instruction("landingpad", number, kind, name=" ".join(clauses.split()))

    def _instruction(self, value: int) -> Instruction:
        c = self._c
        op = OPCODES.get(c.LLVMGetInstructionOpcode(value), "unknown instruction")
        number = self._locals[value]
        special = {
            "br": self._br, "switch": self._switch, "phi": self._phi, "alloca": self._alloca,
            "getelementptr": self._gep, "call": self._call, "landingpad": self._landingpad,
        }.get(op)  # fmt: skip
        if special is not None:
            return special(value, number)
        if op in UNSUPPORTED:
            raise Unsupported(f"instruction {op}")
        effect = self._effect_of(value, op)
        if effect:
            return self._effect(value, number, effect, c.LLVMGetNumOperands)
        kind = self._type(c.LLVMTypeOf(value))
        count = c.LLVMGetNumOperands(value)
        operands = tuple(self._operand(c.LLVMGetOperand(value, i)) for i in range(count))
        name = ""
        numbers: tuple[int, ...] = ()
        if op == "icmp":
            name = ICMP[c.LLVMGetICmpPredicate(value)]
        elif op == "fcmp":
            name = FCMP[c.LLVMGetFCmpPredicate(value)]
        elif op in ("extractvalue", "insertvalue"):
            indices = c.LLVMGetIndices(value)
            numbers = tuple(indices[i] for i in range(c.LLVMGetNumIndices(value)))
        elif op == "shufflevector":
            size = c.LLVMGetNumMaskElements(value)
            numbers = tuple(c.LLVMGetMaskValue(value, i) for i in range(size))
        bounds = self._bounds(value) if op == "load" else ()
        if op in ("load", "store"):
            numbers = (c.LLVMGetAlignment(value),)
        flags = self._flags(value, op)
        text = self._tag(value) if "!tbaa" in flags else ""
        return Instruction(op, number, kind, operands, flags, name, numbers, (), bounds, text)

    def _effect(
        self, value: int, number: int, name: str, count: Callable[[int], int]
    ) -> Instruction:
        """An access that is an effect of its own, as a call of a function of that name."""
        c = self._c
        kind = self._type(c.LLVMTypeOf(value))
        operands = tuple(self._operand(c.LLVMGetOperand(value, i)) for i in range(count(value)))
        flags = frozenset({"willreturn", "nounwind", "nofree"})
        return Instruction("call", number, kind, operands, flags, name)

    def _effect_of(self, value: int, op: str) -> str:
        """The name of an access that is atomic or volatile; empty for one that is neither."""
        c = self._c
        if op not in _EFFECTS and not (
            op in ("load", "store") and (c.LLVMGetVolatile(value) or c.LLVMGetOrdering(value))
        ):
            return ""
        # All that matters stands in the text but for the operands and the numbering of values.
        words = text_of(self._library, c.LLVMPrintValueToString(value)).strip()
        words = words.partition(" = ")[2] if " = " in words else words
        words = re.sub(r"[%@][\w.$-]+|%\"[^\"]*\"|@\"[^\"]*\"|, ![^,]*", "", words)
        words = _CONSTANT.sub(r"\1 ", words)
        operand_types = [str(self._type(c.LLVMTypeOf(c.LLVMGetOperand(value, i))))
                         for i in range(c.LLVMGetNumOperands(value))]  # fmt: skip
        return f"{_EFFECT}{' '.join([words, *operand_types])}"

    def _flags(self, value: int, op: str) -> frozenset[str]:
        c, found = self._c, set()
        if op in OVERFLOWING:
            found |= {n for n, ask in (("nuw", c.LLVMGetNUW), ("nsw", c.LLVMGetNSW)) if ask(value)}
        elif op in EXACT and c.LLVMGetExact(value):
            found.add("exact")
        elif op in ("zext", "uitofp") and c.LLVMGetNNeg(value):
            found.add("nneg")
        elif op == "or" and c.LLVMGetIsDisjoint(value):
            found.add("disjoint")
        elif op == "icmp" and c.LLVMGetICmpSameSign(value):
            found.add("samesign")
        elif op in ("load", "store"):
            found |= attributes.metadata(self._library, value)
        return frozenset(found | self._fast_math(value))

    def _fast_math(self, value: int) -> set[str]:
        c = self._c
        if not c.LLVMCanValueUseFastMathFlags(value):
            return set()
        bits = c.LLVMGetFastMathFlags(value)
        return {name for at, name in enumerate(_FAST) if bits >> at & 1}

    def _bounds(self, value: int) -> tuple[tuple[int, int], ...]:
        """Half-open ranges from !range metadata."""
        c = self._c
        kind = c.LLVMGetMDKindIDInContext(self._module_context(value), b"range", 5)
        node = c.LLVMGetMetadata(value, kind)
        if not node:
            return ()
        count = c.LLVMGetNumOperands(node)
        ends = [c.LLVMConstIntGetZExtValue(c.LLVMGetOperand(node, i)) for i in range(count)]
        return _pairs(ends)

    def _tag(self, value: int) -> str:
        """What tells one type tag from another within this process."""
        kind = self._c.LLVMGetMDKindIDInContext(self._module_context(value), b"tbaa", 4)
        return str(self._c.LLVMGetMetadata(value, kind))

    def _module_context(self, value: int) -> int:
        return int(self._c.LLVMGetTypeContext(self._c.LLVMTypeOf(value)))

    def _br(self, value: int, number: int) -> Instruction:
        c = self._c
        count = c.LLVMGetNumSuccessors(value)
        operands = (self._operand(c.LLVMGetOperand(value, 0)),) if count == 2 else ()
        return Instruction("br", number, Type("void"), operands, targets=self._successors(value))

    def _switch(self, value: int, number: int) -> Instruction:
        c = self._c
        operand = self._operand(c.LLVMGetOperand(value, 0))
        targets = self._successors(value)
        cases = tuple(
            self._integer(c.LLVMGetSwitchCaseValue(value, at), operand.type.width)
            for at in range(1, len(targets))
        )
        return Instruction(
            "switch", number, Type("void"), (operand,), numbers=cases, targets=targets
        )

    def _successors(self, value: int) -> tuple[int, ...]:
        c = self._c
        return tuple(
            self._blocks[c.LLVMBasicBlockAsValue(c.LLVMGetSuccessor(value, at))]
            for at in range(c.LLVMGetNumSuccessors(value))
        )

    def _phi(self, value: int, number: int) -> Instruction:
        c = self._c
        count = c.LLVMCountIncoming(value)
        operands = tuple(self._operand(c.LLVMGetIncomingValue(value, i)) for i in range(count))
        blocks = tuple(
            self._blocks[c.LLVMBasicBlockAsValue(c.LLVMGetIncomingBlock(value, i))]
            for i in range(count)
        )
        kind, flags = self._type(c.LLVMTypeOf(value)), frozenset(self._fast_math(value))
        return Instruction("phi", number, kind, operands, flags, targets=blocks)

    def _alloca(self, value: int, number: int) -> Instruction:
        c = self._c
        count = self._operand(c.LLVMGetOperand(value, 0))
        kind = self._type(c.LLVMGetAllocatedType(value))
        if not isinstance(count.value, Number):
            raise Unsupported("alloca of variable size")
        numbers = (kind.size * count.value.value, c.LLVMGetAlignment(value))
        pointer = self._type(c.LLVMTypeOf(value))
        return Instruction(
            "alloca", number, pointer, numbers=numbers, text=self._library.name(value)
        )

    def _call(self, value: int, number: int) -> Instruction:
        c = self._c
        if c.LLVMGetNumOperandBundles(value):
            callee_bundle = c.LLVMGetCalledValue(value)
            if self._library.name(callee_bundle) != "llvm.assume":
                raise Unsupported("call with operand bundles")
        callee = c.LLVMGetCalledValue(value)
        what = VALUE_KINDS.get(c.LLVMGetValueKind(callee), "unknown")
        if what == "inline assembly":
            words = text_of(self._library, c.LLVMPrintValueToString(callee))
            return self._effect(value, number, f"{_EFFECT}asm {words}", c.LLVMGetNumArgOperands)
        kind = self._type(c.LLVMTypeOf(value))
        count = c.LLVMGetNumArgOperands(value)
        direct = what == "function"
        name = self._library.name(callee) if direct else ""
        if name.startswith(("llvm.dbg.", "llvm.lifetime.", "llvm.experimental.noalias.scope")):
            return Instruction("call", number, kind, name=name)
        operands = tuple(self._operand(c.LLVMGetOperand(value, i)) for i in range(count))
        if not direct:
            operands = (*operands, self._operand(callee))
        flags = attributes.of_call(self._library, value, callee if direct else 0, count)
        known = attributes.of_callee(self._library, callee) if direct else frozenset()
        bounds: tuple[int, ...] = ()
        if "range:result" in flags:
            bounds = attributes.range_of_result(self._library, value, callee if direct else 0)
        return Instruction(
            "call", number, kind, operands, flags | self._fast_math(value), name,
            bounds=_pairs(bounds),
            text=" ".join(sorted(known)),
        )  # fmt: skip


def _pairs(ends: Sequence[int]) -> tuple[tuple[int, int], ...]:
    return tuple(zip(ends[::2], ends[1::2], strict=True))
