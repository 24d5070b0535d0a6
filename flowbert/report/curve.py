"""Alignment against uniformity along the training, as a picture: figure 3 of the SimCSE paper, for any run."""

import math
from collections.abc import Sequence
from html import escape

from flowbert.report.history import Curve, Point

_WIDTH, _HEIGHT = 720, 480
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 200, 30, 60  # margins; the legend stands in the right one
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")  # told apart by everyone
_TICKS = 8  # at most about as many per axis


def curve_svg(curves: Sequence[Curve]) -> str:
    """Draw curves as SVG: uniformity to the right, alignment upwards, both better where they are lower.

    A trained method is a line with a dot per validation, the first one hollow, the last one with its step; a baseline
    is a cross. Colours go by run and method.

    References:
        SimCSE: Simple Contrastive Learning of Sentence Embeddings (Gao et al., 2021), figures 2 and 3.
        https://arxiv.org/abs/2104.08821
    """
    drawn = [(c, [p for p in c.points if math.isfinite(p.alignment) and math.isfinite(p.uniformity)]) for c in curves]
    drawn = [(curve, points) for curve, points in drawn if points]
    x = _Axis([p.uniformity for _, points in drawn for p in points], _LEFT, _WIDTH - _RIGHT)
    y = _Axis([p.alignment for _, points in drawn for p in points], _HEIGHT - _BOTTOM, _TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}"'
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        *_frame(x, y),
        f'<text x="{_WIDTH - _RIGHT + 12}" y="{_TOP - 8}" fill="#666">method (Spearman x 100)</text>',
    ]
    for number, (curve, points) in enumerate(drawn):
        colour = _COLOURS[number % len(_COLOURS)]
        parts += _line(points, x, y, colour) if curve.trained else _cross(points[0], x, y, colour)
        parts += _legend(curve, number, colour)
    return "\n".join([*parts, "</svg>", ""])


class _Axis:
    """From values to pixels, with a margin and round ticks."""

    def __init__(self, values: Sequence[float], start: float, stop: float) -> None:
        low, high = min(values, default=0.0), max(values, default=1.0)
        margin = 0.08 * (high - low) or 0.1
        self.low, self.high, self.start, self.stop = low - margin, high + margin, start, stop

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.stop - self.start)

    def ticks(self) -> list[float]:
        rough = (self.high - self.low) / _TICKS
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(s * power for s in (1, 2, 5, 10) if s * power >= rough)
        first = math.ceil(self.low / step)
        return [step * i for i in range(first, math.floor(self.high / step) + 1)]


def _frame(x: _Axis, y: _Axis) -> list[str]:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = [
        f'<rect x="{_LEFT}" y="{_TOP}" width="{right - _LEFT}" height="{bottom - _TOP}" fill="none" stroke="#999"/>'
    ]
    for tick in x.ticks():
        parts.append(f'<line x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{_TOP}" y2="{bottom}" stroke="#eee"/>')
        parts.append(f'<text x="{x(tick):.1f}" y="{bottom + 18}" text-anchor="middle">{tick:.3g}</text>')
    for tick in y.ticks():
        parts.append(f'<line x1="{_LEFT}" x2="{right}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" stroke="#eee"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:.3g}</text>')
    middle = (_TOP + bottom) / 2
    parts.append(
        f'<text x="{(_LEFT + right) / 2}" y="{_HEIGHT - 16}" text-anchor="middle">uniformity (lower is better)</text>'
    )
    parts.append(
        f'<text x="20" y="{middle}" text-anchor="middle" transform="rotate(-90 20 {middle})">'
        "alignment (lower is better)</text>"
    )
    return parts


def _line(points: Sequence[Point], x: _Axis, y: _Axis, colour: str) -> list[str]:
    path = " ".join(f"{x(p.uniformity):.1f},{y(p.alignment):.1f}" for p in points)
    parts = [f'<polyline points="{path}" fill="none" stroke="{colour}"/>']
    for number, p in enumerate(points):
        fill = "white" if number == 0 else colour
        parts.append(
            f'<circle cx="{x(p.uniformity):.1f}" cy="{y(p.alignment):.1f}" r="4" fill="{fill}" stroke="{colour}">'
            f"<title>step {p.step}, Spearman {100 * p.spearman:.2f}</title></circle>"
        )
    last = points[-1]
    parts.append(f'<text x="{x(last.uniformity) + 7:.1f}" y="{y(last.alignment) - 7:.1f}">step {last.step}</text>')
    return parts


def _cross(point: Point, x: _Axis, y: _Axis, colour: str) -> list[str]:
    a, b = x(point.uniformity), y(point.alignment)
    return [f'<path d="M{a - 5:.1f} {b - 5:.1f}l10 10m0 -10l-10 10" stroke="{colour}" stroke-width="2"/>']


def _legend(curve: Curve, number: int, colour: str) -> list[str]:
    left, top = _WIDTH - _RIGHT + 12, _TOP + 10 + 34 * number
    spearmans = [p.spearman for p in curve.points]
    ends = dict.fromkeys(f"{100 * value:.1f}" for value in (spearmans[0], spearmans[-1]))
    return [
        f'<rect x="{left}" y="{top}" width="10" height="10" fill="{colour}"/>',
        f'<text x="{left + 16}" y="{top + 9}">{escape(curve.method)} ({" to ".join(ends)})</text>',
        f'<text x="{left + 16}" y="{top + 23}" fill="#666" font-size="10">{escape(curve.run[-28:])}</text>',
    ]
