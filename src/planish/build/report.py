"""`planish report`: one HTML page that needs nothing else: where the bytes went, at what cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

_STYLE = """
:root{--ink:#1c2330;--soft:#5d6778;--line:#dfe4ec;--good:#19764a;--bad:#a83232;--fill:#3b6fb6;
--paper:#fff;--zebra:#f6f8fb}
@media (prefers-color-scheme:dark){:root{--ink:#e4e8ef;--soft:#98a3b5;--line:#343c4a;
--good:#5fc994;--bad:#ef8a8a;--fill:#6f9fe0;--paper:#171b22;--zebra:#1e242d}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:66rem;
margin:2rem auto;padding:0 1.2rem}
h1{font-size:1.6rem;margin:0}h2{font-size:1.15rem;margin:2.2rem 0 .5rem}
p.lead{font-size:1.1rem;margin:.3rem 0 1rem}.soft{color:var(--soft)}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:.28rem .6rem;text-align:right;border-bottom:1px solid var(--line);vertical-align:top}
th{font-weight:600;color:var(--soft);font-size:.85rem}
th:first-child,td:first-child,td.words,th.words{text-align:left;overflow-wrap:anywhere}
tr:nth-child(even) td{background:var(--zebra)}.good{color:var(--good)}.bad{color:var(--bad)}
.bar{display:inline-block;height:.65rem;background:var(--fill);border-radius:2px;vertical-align:middle}
code,pre{font:12.5px/1.45 ui-monospace,monospace}pre{white-space:pre-wrap;overflow-wrap:anywhere;
margin:.3rem 0}details{margin:.2rem 0}summary{cursor:pointer}svg{width:100%;height:auto}
svg text{font:12px system-ui,sans-serif;fill:var(--soft)}
"""
_FUNCTIONS = 40
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 760, 220, 66, 26


def page(document: dict[str, Any], title: str) -> str:
    """The page for what `report_data` saved."""
    units = document["units"]
    kept = [unit for unit in units if unit["result"]]
    parts = [
        f"<h1>{escape(title)}</h1>",
        _lead(document, kept),
        _plot(document["curve"], kept),
        _programs(document["linked"]),
        _units(kept),
        _functions(kept),
        _passes(kept),
        _left_alone(units, document["notes"]),
        _ledger(document, kept),
    ]
    body = "\n".join(part for part in parts if part)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>{body}</body></html>\n"
    )


def _lead(document: dict[str, Any], kept: list[dict[str, Any]]) -> str:
    if not kept:
        return '<p class="lead">Nothing was found that is better than the build\'s own.</p>'
    unit = kept[0]["result"]["unit"]
    before, after = sum(map(_before, kept)), sum(u["result"]["best"] for u in kept)
    left = document["left"]
    more = f" About {left:,.0f} {unit} may be left for a larger budget." if left >= 1 else ""
    return (
        f'<p class="lead"><b>{before:,} → {after:,} {unit}</b> ({_change(before, after)}) in '
        f"{len(kept)} of {len(document['units'])} units, for {document['builds']:,} builds.{more}"
        "</p>"
    )


def _plot(curve: Sequence[Sequence[int]], kept: list[dict[str, Any]]) -> str:
    if len(curve) < 2 or not kept:
        return ""
    unit = kept[0]["result"]["unit"]
    most_x, most_y = max(x for x, _ in curve) or 1, max(y for _, y in curve) or 1
    points = []
    for x, y in curve:
        across = _LEFT + (_WIDTH - _LEFT - 12) * x / most_x
        points.append((across, 12 + (_HEIGHT - _BOTTOM - 12) * (1 - y / most_y)))
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    base = _HEIGHT - _BOTTOM
    area = f"{_LEFT},{base} {line} {points[-1][0]:.1f},{base}"
    marks = []
    for share in (0.0, 0.5, 1.0):
        height = 12 + (base - 12) * (1 - share)
        marks.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - 12}" y1="{height:.1f}" y2="{height:.1f}" '
            'stroke="var(--line)"/>'
            f'<text x="{_LEFT - 8}" y="{height + 4:.1f}" text-anchor="end">'
            f"{most_y * share:,.0f}</text>"
        )
        across = _LEFT + (_WIDTH - _LEFT - 12) * share
        anchor = "end" if share == 1.0 else "middle"
        marks.append(
            f'<text x="{across:.1f}" y="{base + 18}" text-anchor="{anchor}">'
            f"{most_x * share:,.0f}</text>"
        )
    return (
        f"<h2>Gain against builds spent</h2>"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{unit} gained against '
        f'builds">{"".join(marks)}'
        f'<polygon points="{area}" fill="var(--fill)" opacity=".15"/>'
        f'<polyline points="{line}" fill="none" stroke="var(--fill)" stroke-width="2"/></svg>'
        f'<p class="soft">{unit} taken off the build\'s own objects (up), builds (across); each '
        "corner is a round of one unit.</p>"
    )


def _programs(linked: Sequence[dict[str, Any]]) -> str:
    """What the linked programs weigh, with their sections."""
    if not linked:
        return ""
    made = ["<h2>Linked programs</h2>"]
    rows = []
    for each in linked:
        if each["problem"]:
            rows.append((escape(each["program"]), "", "", f"not linked: {escape(each['problem'])}"))
        else:
            before, after = each["before"], each["after"]
            rows.append((escape(each["program"]), f"{before:,}", f"{after:,}",
                         _change(before, after)))  # fmt: skip
    made.append(_table(("program", "allocated bytes before", "after", "change"), rows))
    for each in linked:
        old, new = each["sections_before"], each["sections_after"]
        names = [n for n in {**old, **new} if old.get(n, 0) != new.get(n, 0)]
        if not names:
            continue
        names.sort(key=lambda n: new.get(n, 0) - old.get(n, 0))
        lines = [
            (f"<code>{escape(n)}</code>", f"{old.get(n, 0):,}", f"{new.get(n, 0):,}",
             _difference(new.get(n, 0) - old.get(n, 0)))
            for n in names
        ]  # fmt: skip
        made.append(
            f"<details><summary>sections of {escape(each['program'])}</summary>"
            + _table(("section", "before", "after", "difference"), lines)
            + "</details>"
        )
    return "".join(made)


def _units(kept: list[dict[str, Any]]) -> str:
    if not kept:
        return ""
    most = max(_before(u) - u["result"]["best"] for u in kept) or 1
    rows = []
    for unit in sorted(kept, key=lambda u: u["result"]["best"] - _before(u)):
        result = unit["result"]
        before, after = _before(unit), result["best"]
        width = 7 * max(before - after, 0) / most
        words = "\n".join(_recipe_lines(result["recipe"]))
        rows.append((
            f"<details><summary>{escape(unit['source'])}</summary><pre>{escape(words)}</pre>"
            f"</details>",
            f"{before:,}", f"{after:,}", _change(before, after),
            f'{before - after:,} <span class="bar" style="width:{width:.2f}rem"></span>',
        ))  # fmt: skip
    return "<h2>Units</h2>" + _table(
        ("unit (open for its recipe)", "before", "after", "change", "gained"), rows
    )


def _functions(kept: list[dict[str, Any]]) -> str:
    found = [
        (new - old, name, unit["source"], old, new)
        for unit in kept
        for name, (old, new) in unit["functions"].items()
    ]
    if not found:
        return ""
    found.sort()
    shown = found[:_FUNCTIONS]
    rows = [
        (f"<code>{escape(name)}</code>", escape(source), f"{old:,}" if old else "new",
         f"{new:,}" if new else "gone", _difference(change))
        for change, name, source, old, new in shown
    ]  # fmt: skip
    more = len(found) - len(shown)
    note = f'<p class="soft">{more:,} more changed less.</p>' if more > 0 else ""
    return (
        "<h2>Functions that changed most</h2>"
        + _table(("function", "unit", "before", "after", "difference"), rows, words=(1,))
        + note
    )


def _passes(kept: list[dict[str, Any]]) -> str:
    """Which elements the recipes have in common, and what the units that use them gained."""
    used: Counter[str] = Counter()
    gained: Counter[str] = Counter()
    for unit in kept:
        recipe = unit["result"]["recipe"]
        elements = {*recipe["passes"], *recipe["options"], *recipe["functions"].values()}
        for element in elements:
            used[element] += 1
            gained[element] += _before(unit) - unit["result"]["best"]
    if not used:
        return ""
    rows = [
        (f"<code>{escape(name)}</code>", f"{used[name]}", f"{gained[name]:,}")
        for name, _ in sorted(used.items(), key=lambda item: (-gained[item[0]], item[0]))[:30]
    ]
    note = (
        '<p class="soft">The last column is all that these units gained, by whatever element: for '
        "the share of each, planish opt --explain.</p>"
    )
    return (
        "<h2>What earned it</h2>"
        + _table(("element of recipes", "units", "gained by these units"), rows)
        + note
    )


def _left_alone(units: list[dict[str, Any]], notes: Sequence[str]) -> str:
    rows = [(escape(u["source"]), escape(u["problem"])) for u in units if not u["result"]]
    for unit in units:
        for words in unit["result"]["ledger"]["fallbacks"] if unit["result"] else ():
            rows.append((escape(unit["source"]), escape(words)))
    rows += [("tests", escape(note)) for note in notes]
    if not rows:
        return ""
    return "<h2>Rejected, and left as it is</h2>" + _table(("what", "why"), rows, words=(1,))


def _ledger(document: dict[str, Any], kept: list[dict[str, Any]]) -> str:
    failures: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for unit in kept:
        ledger = unit["result"]["ledger"]
        failures.update(ledger["failures"])
        for name in ("builds", "cached", "duplicates", "check_builds"):
            total[name] += ledger[name]
    lost = ", ".join(f"{count} {name}" for name, count in sorted(failures.items())) or "none"
    rows = [
        ("goal", escape(document["goal"])),
        ("budget, a unit on average", escape(document["budget"])),
        ("policy, seed", f"{escape(document['policy'])}, {document['seed']}"),
        ("builds of each unit's last round", f"{total['builds']:,}, {total['cached']:,} more from "
         f"the store, {total['duplicates']:,} of them duplicates"),
        ("builds of the final checks", f"{total['check_builds']:,}"),
        ("candidates that failed", escape(lost)),
    ]  # fmt: skip
    if kept:
        result = kept[0]["result"]
        rows.append(("compiler", escape(result["compiler"])))
        rows.append(("baseline (of the first unit)", escape(result["ledger"]["baseline"])))
    return "<h2>Ledger</h2>" + _table(("", ""), rows, words=(1,))


def _before(unit: dict[str, Any]) -> int:
    return int(unit["own"] or unit["result"]["baseline"])


def _recipe_lines(recipe: dict[str, Any]) -> Iterable[str]:
    if recipe["passes"]:
        yield "passes: " + ",".join(recipe["passes"])
    if recipe["options"]:
        yield "options: " + " ".join(recipe["options"])
    for name, suffix in recipe["functions"].items():
        yield f"function {name}: {suffix}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], words: Sequence[int] = ()) -> str:
    """Cells are HTML already; those of the columns in `words` are text, to the left."""

    def cell(kind: str, at: int, text: str) -> str:
        return (
            f'<{kind} class="words">{text}</{kind}>' if at in words else f"<{kind}>{text}</{kind}>"
        )

    head = "".join(cell("th", at, escape(text)) for at, text in enumerate(heads))
    lines = "".join(
        "<tr>" + "".join(cell("td", at, text) for at, text in enumerate(row)) + "</tr>"
        for row in rows
    )
    top = f"<thead><tr>{head}</tr></thead>" if any(heads) else ""
    return f'<div class="wide"><table>{top}<tbody>{lines}</tbody></table></div>'


def _change(before: int, after: int) -> str:
    if not before:
        return ""
    kind = "good" if after < before else "bad" if after > before else "soft"
    return f'<span class="{kind}">{after / before - 1:+.1%}</span>'


def _difference(value: int) -> str:
    kind = "good" if value < 0 else "bad" if value > 0 else "soft"
    return f'<span class="{kind}">{value:+,}</span>'
