"""Terms taken apart and built anew: substitution, and what terms consist of."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from planish.verify import floats
from planish.verify import terms as t
from planish.verify.terms import Term


def substitute(roots: Sequence[Term], mapping: dict[Term, Term]) -> list[Term]:
    """The terms with variables replaced, simplified again: with constants for all of them, this
    evaluates."""
    done: dict[int, Term] = {old.number: new for old, new in mapping.items()}
    stack = list(roots)
    while stack:
        term = stack[-1]
        if term.number in done:
            stack.pop()
            continue
        missing = [a for a in term.args if a.number not in done]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        done[term.number] = _rebuild(term, [done[a.number] for a in term.args])
    return [done[root.number] for root in roots]


def _rebuild(term: Term, args: list[Term]) -> Term:
    if all(new is old for new, old in zip(args, term.args, strict=True)):
        return term
    op = term.op
    if op in _BUILDERS:
        return _BUILDERS[op](*args)
    if op == "extract":
        assert isinstance(term.value, tuple)
        return t.extract(args[0], *term.value)
    if op == "apply":
        assert isinstance(term.value, str)
        return floats.applied(term.value, args, term.sort)
    if op in ("zext", "sext"):
        return (t.zext if op == "zext" else t.sext)(args[0], term.sort)
    return t.make(op, tuple(args), term.sort, term.value)


_BUILDERS: dict[str, Callable[..., Term]] = {
    "not": t.not_, "and": t.and_, "or": t.or_, "ite": t.ite, "=": t.eq, "bvadd": t.add,
    "bvneg": t.neg, "bvsub": t.sub, "bvmul": t.mul, "bvudiv": t.udiv, "bvurem": t.urem,
    "bvsdiv": t.sdiv, "bvsrem": t.srem, "bvshl": t.shl, "bvlshr": t.lshr, "bvashr": t.ashr,
    "bvnot": t.bitnot, "bvand": t.bitand, "bvor": t.bitor, "bvxor": t.bitxor, "concat": t.concat,
    "bvult": t.ult, "bvslt": t.slt, "select": t.select, "store": t.store,
}  # fmt: skip


def below(roots: Sequence[Term]) -> list[Term]:
    """All terms that these consist of, in the order of their making."""
    seen: dict[int, Term] = {}
    stack = list(roots)
    while stack:
        term = stack.pop()
        if term.number not in seen:
            seen[term.number] = term
            stack.extend(term.args)
    return [seen[number] for number in sorted(seen)]


def variables(roots: Sequence[Term]) -> list[Term]:
    """The free variables below the terms, in the order of their making."""
    return [term for term in below(roots) if term.op == "var"]
