"""Advice as a table for the terminal."""

from rich import box
from rich.table import Table

from flowbert.advice.choice import Advice
from flowbert.report.render import text_of

_SHOWN = 12


def advice_to_text(advice: Advice) -> str:
    """The settings that the criterion likes best, raw as it is usual, and the reasons."""
    usual = [advice.usual] if advice.usual in advice.candidates[_SHOWN:] else []
    table = Table("map, on the plain mean", "layers", "criterion", "95%", "", box=box.SIMPLE_HEAD)
    for candidate in (*advice.candidates[:_SHOWN], *usual):
        note = "this map is taken" if candidate is advice.best else "within the interval" if candidate.tied else ""
        interval = f"[{candidate.low:.2f}, {candidate.high:.2f}]"
        table.add_row(candidate.method, candidate.layers, f"{candidate.criterion:.2f}", interval, note)
    left_out = len(advice.candidates) - _SHOWN - len(usual)
    more = f"and {left_out} more settings" if left_out > 0 else ""
    return "\n".join([text_of(table), more, "", f"Take: {advice.label}", *advice.reasons, advice.note])
