"""A small HPCToolkit database, written as FORMATS.md says."""

from __future__ import annotations

import struct
from pathlib import Path

Values = dict[int, dict[str, float]]  # context to metric to value


class _Heap:
    """Bytes that grow; places are offsets."""

    def __init__(self, size: int) -> None:
        self.data = bytearray(size)

    def add(self, data: bytes) -> int:
        self.data += b"\0" * (-len(self.data) % 8)
        place = len(self.data)
        self.data += data
        return place

    def text(self, text: str) -> int:
        return self.add(text.encode() + b"\0")


def write_database(
    folder: Path, values: Values, metrics: list[str], *, entry: int = 0x1000, loop: int = 7
) -> None:
    """Contexts: 1 main thread > 2 <gpu kernel> > 3 saxpy(int) > 4 loop > 10, 11, ... instructions.

    Instruction 10 + n lies 16 * n bytes behind the function's entry.
    """
    folder.mkdir(exist_ok=True)
    (folder / "meta.db").write_bytes(_meta(values, metrics, entry, loop))
    numbers = {name: 2 * i for i, name in enumerate(metrics)}
    (folder / "profile.db").write_bytes(_profile(values, numbers))
    (folder / "cct.db").write_bytes(_cct(values, numbers))


def _header(magic: bytes, size: int) -> _Heap:
    heap = _Heap(size)
    heap.data[:16] = b"HPCTOOLKIT" + magic + b"\4\0"
    return heap


def _meta(values: Values, metrics: list[str], entry: int, loop: int) -> bytes:
    heap = _header(b"meta", 0x90)
    general = heap.add(struct.pack("<QQ", heap.text("synthetic"), heap.text("a description")))
    scopes = heap.add(
        struct.pack("<QBBxxxxxx", heap.text("point"), 1, 0)
        + struct.pack("<QBBxxxxxx", heap.text("execution"), 2, 0)
    )
    rows = b""
    for i, name in enumerate(metrics):
        instances = heap.add(
            struct.pack("<QHxxxxxx", scopes, 2 * i)
            + struct.pack("<QHxxxxxx", scopes + 16, 2 * i + 1)
        )
        rows += struct.pack("<QQQHHxxxx", heap.text(name), instances, 0, 2, 0)
    table = heap.add(rows)
    measured = heap.add(struct.pack("<QIBBBxQHB", table, len(metrics), 32, 16, 24, scopes, 2, 16))
    module = heap.add(struct.pack("<IxxxxQ", 0, heap.text("/x/kernel.gpubin")))
    file = heap.add(struct.pack("<IxxxxQ", 0, heap.text("/src/saxpy.cu")))

    def function(name: str, where: int, offset: int) -> int:
        return heap.add(struct.pack("<QQQQII", heap.text(name), where, offset, 0, 0, 0))

    def context(
        identifier: int, children: tuple[int, int], flags: int, kind: int, flex: list[int]
    ) -> bytes:
        return struct.pack(
            "<QQIBBBBHxxxxxx", children[1], children[0], identifier, flags, 1, kind, len(flex), 0
        ) + b"".join(struct.pack("<Q", word) for word in flex)

    def put(data: bytes) -> tuple[int, int]:
        return heap.add(data), len(data)

    last = put(
        b"".join(context(n, (0, 0), 4, 3, [module, entry + 16 * (n - 10)]) for n in sorted(values))
    )
    inner = put(context(4, last, 2, 1, [file, loop]))
    kernel = put(context(3, inner, 1, 0, [function("saxpy(int)", module, entry)]))
    mark = put(context(2, kernel, 1, 0, [function("<gpu kernel>", 0, 0)]))
    entries = heap.add(struct.pack("<QQIHxxQ", mark[1], mark[0], 1, 1, heap.text("main thread")))
    tree = heap.add(struct.pack("<QHB", entries, 1, 32))
    struct.pack_into("<Q", heap.data, 0x18, general)
    struct.pack_into("<Q", heap.data, 0x38, measured)
    struct.pack_into("<Q", heap.data, 0x48, tree)
    heap.add(b"_meta.db")
    return bytes(heap.data)


def _profile(values: Values, numbers: dict[str, int]) -> bytes:
    heap = _header(b"prof", 0x30)
    pairs, index = b"", b""
    count = 0
    for context, row in sorted(values.items()):
        index += struct.pack("<IQ", context, count)
        for name, value in sorted(row.items(), key=lambda item: numbers[item[0]]):
            pairs += struct.pack("<Hd", numbers[name], value)
            count += 1
    first, second = heap.add(pairs), heap.add(index)
    summary = struct.pack("<QQIxxxxQQIxxxx", 0, 0, 0, 0, 0, 1)
    mine = struct.pack("<QQIxxxxQQIxxxx", count, first, len(values), second, 0, 0)
    table = heap.add(summary + mine)
    section = heap.add(struct.pack("<QIB", table, 2, 48))
    struct.pack_into("<Q", heap.data, 0x18, section)
    heap.add(b"_prof.db")
    return bytes(heap.data)


def _cct(values: Values, numbers: dict[str, int]) -> bytes:
    heap = _header(b"ctxt", 0x20)
    rows = b""
    for context in range(max(values, default=0) + 1):
        row = sorted((numbers[n], v) for n, v in values.get(context, {}).items())
        first = heap.add(b"".join(struct.pack("<Id", 1, v) for _, v in row))
        index = heap.add(b"".join(struct.pack("<HQ", n, i) for i, (n, _) in enumerate(row)))
        rows += struct.pack("<QQHxxxxxxQ", len(row), first, len(row), index)
    table = heap.add(rows)
    section = heap.add(struct.pack("<QIB", table, len(rows) // 32, 32))
    struct.pack_into("<Q", heap.data, 0x18, section)
    heap.add(b"__ctx.db")
    return bytes(heap.data)


def write_traces(
    folder: Path, lines: list[tuple[list[tuple[str, int]], list[tuple[int, int]]]]
) -> None:
    """Adds a trace.db to a database: for each line its identity, and (time, context) pairs."""
    kinds = sorted({kind for identity, _ in lines for kind, _ in identity})
    meta = bytearray((folder / "meta.db").read_bytes())
    heap = _Heap(0)
    heap.data = meta
    places = [heap.text(kind) for kind in kinds]
    names = heap.add(struct.pack(f"<{len(kinds)}Q", *places))
    struct.pack_into("<Q", heap.data, 0x28, heap.add(struct.pack("<QB", names, len(kinds))))
    (folder / "meta.db").write_bytes(bytes(heap.data))

    heap = _Heap(0)
    heap.data = bytearray((folder / "profile.db").read_bytes())
    rows = struct.pack("<QQIxxxxQQIxxxx", 0, 0, 0, 0, 0, 1)
    for identity, _ in lines:
        ids = b"".join(struct.pack("<BxHIQ", kinds.index(k), 0, v, v) for k, v in identity)
        rows += struct.pack("<QQIxxxxQQIxxxx", 0, 0, 0, 0,
                            heap.add(struct.pack("<Hxxxxxx", len(identity)) + ids), 0)  # fmt: skip
    section = heap.add(struct.pack("<QIB", heap.add(rows), len(lines) + 1, 48))
    struct.pack_into("<Q", heap.data, 0x18, section)
    (folder / "profile.db").write_bytes(bytes(heap.data))

    heap = _header(b"trce", 0x20)
    rows = b""
    for index, (_, pairs) in enumerate(lines, start=1):
        data = b"".join(struct.pack("<QI", time, context) for time, context in pairs)
        first = heap.add(data)
        rows += struct.pack("<IxxxxQQ", index, first, first + len(data))
    times = [time for _, pairs in lines for time, _ in pairs]
    section = heap.add(
        struct.pack("<QIBxxxQQ", heap.add(rows), len(lines), 24, min(times), max(times))
    )
    struct.pack_into("<Q", heap.data, 0x18, section)
    heap.add(b"trace.db")
    (folder / "trace.db").write_bytes(bytes(heap.data))
