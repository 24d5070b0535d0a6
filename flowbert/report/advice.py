"""Advice as a table for the terminal."""

from rich import box
from rich.console import Console
from rich.table import Table

from flowbert.advice.choice import Advice

_SHOWN = 12


def advice_to_text(advice: Advice, width: int = 120) -> str:
    """The settings that the criterion likes best, raw as it is usual, and the reasons."""
    usual = [advice.usual] if advice.usual in advice.candidates[_SHOWN:] else []
    table = Table("map", "pooling", "layers", "criterion", "95%", "", box=box.SIMPLE_HEAD)
    for candidate in (*advice.candidates[:_SHOWN], *usual):
        note = "advised" if candidate is advice.best else "within the interval" if candidate.tied else ""
        interval = f"[{candidate.low:.2f}, {candidate.high:.2f}]"
        setting = candidate.method, candidate.pooling, candidate.layers
        table.add_row(*setting, f"{candidate.criterion:.2f}", interval, note)
    console = Console(width=width)
    with console.capture() as shown:
        console.print(table)
    left_out = len(advice.candidates) - _SHOWN - len(usual)
    more = f"and {left_out} more settings" if left_out > 0 else ""
    return "\n".join([shown.get().rstrip(), more, "", f"Take: {advice.best.label}", *advice.reasons, advice.note])
