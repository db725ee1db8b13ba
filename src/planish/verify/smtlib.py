"""Terms as SMT-LIB 2 text, which every solver reads."""

from __future__ import annotations

from collections.abc import Sequence

from planish.verify.terms import BOOL, BYTE, INDEX, MEMORY, VALID, Term, value_of

_SORTS = {
    BOOL: "Bool",
    MEMORY: f"(Array (_ BitVec {INDEX}) (_ BitVec {BYTE}))",
    VALID: f"(Array (_ BitVec {INDEX}) (_ BitVec 1))",
}


def sort_name(sort: int) -> str:
    """The sort's name."""
    return _SORTS.get(sort) or f"(_ BitVec {sort})"


def wanted_name(at: int) -> str:
    """The variable that holds the value of the wanted term `at`."""
    return f"wanted{at}"


def script(assertions: Sequence[Term], wanted: Sequence[Term] = ()) -> str:
    """A script that declares, defines, asserts and checks.

    wanted  terms whose values the model is to tell, as variables `wanted0` and so on
    """
    lines = ["(set-logic ALL)"]
    names: dict[int, str] = {}
    functions: set[str] = set()
    for term in _in_order([*assertions, *wanted]):
        if term.op == "const":
            names[term.number] = _constant(term)
        elif term.op == "var":
            names[term.number] = quoted(str(term.value))
            lines.append(f"(declare-fun {names[term.number]} () {sort_name(term.sort)})")
        else:
            if term.op == "apply" and str(term.value) not in functions:
                functions.add(str(term.value))
                given = " ".join(sort_name(argument.sort) for argument in term.args)
                lines.append(
                    f"(declare-fun {quoted(str(term.value))} ({given}) {sort_name(term.sort)})"
                )
            names[term.number] = f"n{term.number}"
            body = _body(term, [names[argument.number] for argument in term.args])
            lines.append(f"(define-fun n{term.number} () {sort_name(term.sort)} {body})")
    lines += [f"(assert {names[term.number]})" for term in assertions]
    for at, term in enumerate(wanted):
        lines.append(f"(declare-fun {wanted_name(at)} () {sort_name(term.sort)})")
        lines.append(f"(assert (= {wanted_name(at)} {names[term.number]}))")
    return "\n".join([*lines, "(check-sat)"])


def quoted(name: str) -> str:
    """A symbol in bars."""
    return "|" + name.replace("|", "_").replace("\\", "_") + "|"


def _in_order(roots: Sequence[Term]) -> list[Term]:
    """Every term once, arguments first."""
    done: set[int] = set()
    found = []
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        term, ready = stack.pop()
        if term.number in done:
            continue
        if ready:
            done.add(term.number)
            found.append(term)
            continue
        stack.append((term, True))
        stack.extend((argument, False) for argument in term.args)
    return found


def _constant(term: Term) -> str:
    if term.sort == BOOL:
        return "true" if value_of(term) else "false"
    return f"(_ bv{value_of(term)} {term.sort})"


def _body(term: Term, args: list[str]) -> str:
    words = " ".join(args)
    if term.op == "extract":
        assert isinstance(term.value, tuple)
        return f"((_ extract {term.value[0]} {term.value[1]}) {words})"
    if term.op in ("zext", "sext"):
        name = "zero_extend" if term.op == "zext" else "sign_extend"
        return f"((_ {name} {term.sort - term.args[0].sort}) {words})"
    if term.op == "constarray":
        return f"((as const {sort_name(term.sort)}) {words})"
    if term.op == "apply":
        return f"({quoted(str(term.value))} {words})"
    return f"({term.op} {words})"
