"""Showing verdicts: a table with reasons, JSON, and JUnit's XML. Pure but for printing."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .model import NodeReport, Row, Verdict, by_hand, worst

STYLES = {
    Verdict.OK: "green",
    Verdict.DEGRADED: "yellow",
    Verdict.REBOOT: "magenta",
    Verdict.ISOLATE: "red",
}
# XML cannot hold these at all, not even escaped.
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_dict(cluster: str, reports: Sequence[NodeReport], seconds: float) -> dict[str, Any]:
    """For JSON output; a row that is not ok has the line by which it is seen by hand."""
    return {
        "ok": all(report.verdict is Verdict.OK for report in reports),
        "cluster": cluster,
        "verdict": str(worst(report.verdict for report in reports)),
        "seconds": seconds,
        "nodes": [
            {
                "name": report.node,
                "verdict": str(report.verdict),
                "seconds": round(report.seconds, 2),
                "checks": [
                    {**row.to_dict(), "by_hand": by_hand(cluster, report.node, row.command)}
                    for row in report.rows
                ],
            }
            for report in reports
        ],
    }


def junit(cluster: str, reports: Sequence[NodeReport], seconds: float) -> str:
    """JUnit's XML: a suite a node, a case a check; what is not ok is a failure of its verdict."""
    failed = sum(len(report.bad) for report in reports)
    root = ET.Element(
        "testsuites",
        name=f"gpufleet verify {cluster}",
        tests=str(sum(len(report.rows) for report in reports)),
        failures=str(failed),
        time=f"{seconds:.3f}",
    )
    for report in reports:
        suite = ET.SubElement(
            root,
            "testsuite",
            name=report.node,
            tests=str(len(report.rows)),
            failures=str(len(report.bad)),
            time=f"{report.seconds:.3f}",
        )
        for row in report.rows:
            _case(suite, cluster, report.node, row)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ET.Element, cluster: str, node: str, row: Row) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        classname=f"{cluster}.{node}",
        name=row.check,
        time=f"{row.seconds:.3f}",
    )
    if row.verdict is Verdict.OK:
        return
    failure = ET.SubElement(
        case, "failure", type=str(row.verdict), message=_clean("; ".join(row.reasons))
    )
    lines = [*row.reasons, f"see: {by_hand(cluster, node, row.command)}", f"hint: {row.hint}"]
    failure.text = _clean("\n".join(lines))


def _clean(text: str) -> str:
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def show(console: Console, cluster: str, reports: Sequence[NodeReport], seconds: float) -> None:
    """Print a line a node, then all that is wrong with the command that shows it."""
    table = Table(box=None, pad_edge=False)
    for column in ("node", "verdict", "checks", "not ok", "seconds"):
        right = column not in ("node", "verdict")
        table.add_column(column, justify="right" if right else "left", no_wrap=True)
    table.add_column("worst", overflow="ellipsis", no_wrap=True)
    for report in reports:
        first = report.bad[0].check if report.bad else ""
        table.add_row(
            Text(report.node),
            Text(str(report.verdict), style=STYLES[report.verdict]),
            str(len(report.rows)),
            str(len(report.bad) or ""),
            f"{report.seconds:.1f}",
            Text(first),
        )
    console.print(table)
    for report in reports:
        for row in report.bad:
            _show_row(console, cluster, report.node, row)
    console.print(Text(summary(reports, seconds)), soft_wrap=True)


def _show_row(console: Console, cluster: str, node: str, row: Row) -> None:
    head = Text(f"\n{node}  ")
    head.append(f"{row.verdict}", style=STYLES[row.verdict]).append(f"  {row.check}: {row.title}")
    console.print(head, soft_wrap=True)
    for reason in row.reasons:
        console.print(Text(f"    {plain(reason)}"), soft_wrap=True)
    console.print(Text(f"    see   {by_hand(cluster, node, row.command)}"), soft_wrap=True)
    if row.hint:
        console.print(Text(f"    hint  {row.hint}"), soft_wrap=True)


def plain(text: str) -> str:
    """A node's words without what would move the cursor or change colours."""
    return "".join(c if c.isprintable() else " " for c in text)


def summary(reports: Sequence[NodeReport], seconds: float) -> str:
    """One line: how many nodes have which verdict."""
    counts = dict.fromkeys(Verdict, 0)
    for report in reports:
        counts[report.verdict] += 1
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    return f"{len(reports)} nodes: {told or 'none'} ({seconds:.1f} s)"
