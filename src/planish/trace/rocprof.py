"""rocprofv3's JSON (`--output-format json`): kernel dispatches, copies and API calls from AMD.

The arrays are met in the order in which they stand in the file: agents, kernel symbols and the
names of operations come before the records that refer to them. Times are nanoseconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from planish.trace.columns import Columns
from planish.trace.events import ABSENT, Device, Kind, Table
from planish.trace.jsonstream import Decode, Scanner

_APIS = ("hip_api", "hsa_api", "marker_api", "rccl_api")
_ARRAYS = re.compile(
    rb'"(agents|kernel_symbols|buffer_records|kernel_dispatch|memory_copy|'
    + "|".join(_APIS).encode()
    + rb')"\s{0,64}:\s{0,64}\['
)
_GPU_AGENT = 2


class _Handle(msgspec.Struct, gc=False):
    handle: int = 0


class _Ids(msgspec.Struct, gc=False):
    internal: int = ABSENT


class _Size(msgspec.Struct, gc=False):
    x: int = 1
    y: int = 1
    z: int = 1

    @property
    def volume(self) -> int:
        return self.x * self.y * self.z


class _Dispatch(msgspec.Struct, gc=False):
    agent_id: _Handle
    queue_id: _Handle
    kernel_id: int
    group_segment_size: int = 0
    workgroup_size: _Size = msgspec.field(default_factory=_Size)
    grid_size: _Size = msgspec.field(default_factory=_Size)


class _Record(msgspec.Struct, gc=False):
    start_timestamp: int
    end_timestamp: int
    thread_id: int = 0
    kind: int = 0
    operation: int = 0
    correlation_id: _Ids = msgspec.field(default_factory=_Ids)
    dispatch_info: _Dispatch | None = None
    src_agent_id: _Handle = msgspec.field(default_factory=_Handle)
    dst_agent_id: _Handle = msgspec.field(default_factory=_Handle)
    bytes: int = ABSENT


class _Symbol(msgspec.Struct, gc=False):
    kernel_id: int
    kernel_name: str = ""
    formatted_kernel_name: str = ""
    arch_vgpr_count: int = 0


class _Agent(msgspec.Struct, gc=False):
    id: _Handle
    type: int = 0
    name: str = ""
    product_name: str = ""
    cu_count: int = 0
    wave_front_size: int = 0
    max_waves_per_cu: int = 0
    lds_size_in_kb: int = 0


class _Operations(msgspec.Struct, gc=False):
    kind: str = ""
    operations: list[str] = []


@dataclass
class _Process:
    """What the records of one traced process refer to."""

    agents: dict[int, int] = field(default_factory=dict)
    symbols: dict[int, _Symbol] = field(default_factory=dict)
    operations: list[_Operations] = field(default_factory=list)


def read_rocprof(source: str, scanner: Scanner, salvage: bool) -> Table:
    """Read the whole file; raises TraceError with the byte position of what is wrong."""
    columns = Columns()
    devices: list[Device] = []
    process = _Process()
    while True:
        try:
            match, _ = scanner.find(_ARRAYS, keep=False)
        except LookupError:
            break
        name = match[1].decode()
        if name == "agents":
            process = _Process()
            for agents in scanner.batches(_decoder(_Agent)):
                _add_agents(process, devices, agents)
        elif name == "kernel_symbols":
            for symbols in scanner.batches(_decoder(_Symbol)):
                process.symbols.update((s.kernel_id, s) for s in symbols)
        elif name == "buffer_records":
            for operations in scanner.batches(_decoder(_Operations)):
                process.operations += operations
        else:
            add: Callable[[Columns, _Process, list[_Record], str], None]
            add = {"kernel_dispatch": _add_kernels, "memory_copy": _add_copies}.get(
                name, _add_calls
            )
            for records in scanner.batches(_decoder(_Record)):
                good = [r for r in records if 0 <= r.start_timestamp <= r.end_timestamp < 1 << 62]
                columns.note("records with an unusable time (left out)", len(records) - len(good))
                if good:
                    add(columns, process, good, name)
    rest = scanner.rest()
    if not salvage and (scanner.problem or not rest.rstrip().endswith(b"}")):
        raise scanner.error(
            f"the file is cut short or damaged {scanner.problem}".rstrip(), len(rest)
        )
    columns.note("damaged parts left out", scanner.skipped)
    return columns.finish(source, "rocprofv3", devices=devices, skipped=scanner.skipped > 0)


def _decoder(kind: type[Any]) -> Decode[Any]:
    decode: Decode[Any] = msgspec.json.Decoder(list[kind]).decode  # type: ignore[valid-type]
    return decode


def _add_agents(process: _Process, devices: list[Device], agents: list[_Agent]) -> None:
    for agent in agents:
        if agent.type != _GPU_AGENT:
            continue
        number = process.agents[agent.id.handle] = len(process.agents)
        if all(device.index != number for device in devices):
            devices.append(
                Device(
                    number,
                    agent.product_name or agent.name,
                    agent.cu_count,
                    agent.max_waves_per_cu * agent.wave_front_size,
                    0,
                    agent.lds_size_in_kb * 1024,
                    agent.wave_front_size,
                )
            )


def _common(columns: Columns, records: list[_Record]) -> dict[str, Any]:
    return {
        "start": [r.start_timestamp for r in records],
        "duration": [r.end_timestamp - r.start_timestamp for r in records],
        "correlation": [r.correlation_id.internal for r in records],
        "thread": [columns.threads[0, r.thread_id] for r in records],
    }


def _add_kernels(columns: Columns, process: _Process, records: list[_Record], _: str) -> None:
    pairs = [(r, r.dispatch_info) for r in records if r.dispatch_info is not None]
    columns.note("dispatches without dispatch_info (left out)", len(records) - len(pairs))
    dispatches = [d for _, d in pairs]
    unknown = _Symbol(-1)
    symbols = [process.symbols.get(d.kernel_id, unknown) for d in dispatches]
    detail = columns.add_details(
        grid=[_groups(d) for d in dispatches],
        block=[d.workgroup_size.volume for d in dispatches],
        registers=[s.arch_vgpr_count or ABSENT for s in symbols],
        shared=[d.group_segment_size for d in dispatches],
    )
    columns.add(
        **_common(columns, [r for r, _ in pairs]),
        name=[
            columns.strings[s.formatted_kernel_name or s.kernel_name or f"kernel {d.kernel_id}"]
            for s, d in zip(symbols, dispatches, strict=True)
        ],
        kind=[Kind.KERNEL] * len(pairs),
        device=[process.agents.get(d.agent_id.handle, 0) for d in dispatches],
        stream=[d.queue_id.handle for d in dispatches],
        detail=detail,
    )


def _groups(dispatch: _Dispatch) -> int:
    """HSA counts the grid in work items; a launch is spoken of in work groups."""
    size, group = dispatch.grid_size, dispatch.workgroup_size
    counts = zip((size.x, size.y, size.z), (group.x, group.y, group.z), strict=True)
    product = 1
    for items, width in counts:
        product *= -(-items // max(1, width))
    return product


def _add_copies(columns: Columns, process: _Process, records: list[_Record], _: str) -> None:
    def device(record: _Record) -> int:
        for agent in (record.dst_agent_id, record.src_agent_id):
            if agent.handle in process.agents:
                return process.agents[agent.handle]
        return 0

    columns.add(
        **_common(columns, records),
        name=[columns.strings[_operation(process, r, "memory copy")] for r in records],
        kind=[Kind.MEMCPY] * len(records),
        device=[device(r) for r in records],
        stream=[0] * len(records),
        detail=columns.add_details(bytes=[r.bytes for r in records]),
    )


def _add_calls(columns: Columns, process: _Process, records: list[_Record], array: str) -> None:
    kind = Kind.ANNOTATION if array == "marker_api" else Kind.RUNTIME
    columns.add(
        **_common(columns, records),
        name=[columns.strings[_operation(process, r, array)] for r in records],
        kind=[kind] * len(records),
    )


def _operation(process: _Process, record: _Record, otherwise: str) -> str:
    """The operation's name; `strings.buffer_records` is indexed by kind, then by operation."""
    if 0 <= record.kind < len(process.operations):
        names = process.operations[record.kind].operations
        if 0 <= record.operation < len(names):
            return names[record.operation]
    return otherwise
