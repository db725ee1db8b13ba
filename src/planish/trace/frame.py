"""The events as a pandas DataFrame, where pandas is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planish.base.errors import UsageError
from planish.trace.events import COLUMNS, DETAILS, Kind, Table

if TYPE_CHECKING:
    import pandas


def to_pandas(table: Table) -> pandas.DataFrame:
    """One row for each event; names, kinds and shapes spelled out, details joined."""
    try:
        import pandas
    except ImportError as error:
        raise UsageError("pandas is not installed", hint="pip install pandas") from error
    events = table.events
    frame = pandas.DataFrame(
        {name: getattr(events, name).astype(kind) for name, kind in COLUMNS.items()}
    )
    frame["name"] = pandas.Categorical.from_codes(events.name, list(table.strings))
    shape = pandas.Categorical.from_codes(events.shape, list(table.strings))
    frame["shape"] = shape.remove_unused_categories()
    frame["kind"] = [Kind(kind).name.lower() for kind in events.kind.tolist()]
    labels = [thread.label for thread in table.threads]
    frame["thread"] = [labels[i] if i >= 0 else "" for i in events.thread.tolist()]
    details = pandas.DataFrame({name: getattr(table.details, name) for name in DETAILS})
    return frame.join(details, on="detail").drop(columns="detail")
