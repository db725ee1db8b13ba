"""`NamedTuple` for what `planish cc` loads a thousand times in a build.

`typing` takes longer to import than all that a replay's client does beside it. To type checkers
this is `typing.NamedTuple` itself; at run time it is as much of it as is used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    from _operator import itemgetter

    class NamedTuple(tuple):
        """A tuple whose places have the names that a subclass annotates, with its defaults."""

        __slots__ = ()
        _fields = ()
        _defaults = ()

        def __init_subclass__(cls):
            cls._fields = tuple(cls.__annotations__)
            cls._defaults = tuple((n, vars(cls)[n]) for n in cls._fields if n in vars(cls))
            for at, name in enumerate(cls._fields):
                setattr(cls, name, property(itemgetter(at)))

        def __new__(cls, *values, **named):
            """Raises TypeError for a field too many, given twice or missing."""
            given = {**dict(cls._defaults), **dict(zip(cls._fields, values, strict=False)), **named}
            twice = set(named) & set(cls._fields[: len(values)])
            if twice or len(values) > len(cls._fields) or set(given) != set(cls._fields):
                raise TypeError(f"{cls.__name__} has the fields {', '.join(cls._fields)}")
            return tuple.__new__(cls, [given[name] for name in cls._fields])

        def __repr__(self):
            fields = zip(self._fields, self, strict=True)
            return f"{type(self).__name__}({', '.join(f'{name}={v!r}' for name, v in fields)})"

        def __getnewargs__(self):
            return tuple(self)

        def _replace(self, **named):
            """The same with other values in some fields."""
            return type(self)(**{**dict(zip(self._fields, self, strict=True)), **named})
