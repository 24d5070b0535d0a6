"""How a training went: Spearman by step, the path through the plane of alignment and uniformity, what was logged."""

import math
from collections.abc import Callable, Mapping, Sequence

from flowbert.report.history import Curve, curve_rows, short_names
from flowbert.report.panel import Panel
from flowbert.report.style import COLOURS, Axes, Figure, colours_of

_STEPS, _FITTING, _HELD_OUT, _VALIDATION = "batches", "fitting sentences", "held-out sentences", "validation"
_LOGGED = {  # axis label -> columns of metrics.csv that share the axis, with what each is of
    "bits per dimension": {
        "step/bits_per_dim": _STEPS,
        "train/bits_per_dim": _FITTING,
        "held_out/bits_per_dim": _HELD_OUT,
    },
    "loss": {"step/loss": _STEPS, "val/loss": _VALIDATION},
    "masked-LM loss (nats)": {"step/mlm_loss": _STEPS, "val/mlm_loss": _VALIDATION},
    "learning rate": {"step/learning_rate": _STEPS},
    "gradient norm (L2)": {"step/gradient_norm": _STEPS},
}
_COLOURS = {_STEPS: COLOURS[5], _FITTING: COLOURS[0], _HELD_OUT: COLOURS[1], _VALIDATION: COLOURS[1]}


PLANE = (
    "Alignment: how far the sentences of positive pairs lie apart. Uniformity: how evenly all sentences spread. A map "
    "usually trades one for the other."
)


def spearman_panel(curves: Sequence[Curve]) -> Panel:
    """Spearman on the development split by training step; baselines are dashed."""
    caption = "A dot per validation on the development split. Dashed: what does not train."
    return _curve_panel("spearman", "Spearman along the training", caption, curves, draw_spearman)


def path_panel(curves: Sequence[Curve]) -> Panel:
    """Alignment against uniformity at every validation."""
    caption = f"{PLANE} What trains begins at its hollow dot; a cross does not train."
    return _curve_panel("plane", "Alignment and uniformity along the training", caption, curves, draw_path)


def _curve_panel(
    name: str, title: str, caption: str, curves: Sequence[Curve], draw_on: Callable[[Axes, Sequence[Curve]], None]
) -> Panel:
    def draw(figure: Figure) -> None:
        draw_on(figure.subplots(), curves)
        figure.legend(loc="outside lower center", ncols=2)

    size = (6, 4 + 0.1 * len(curves))
    return Panel(name, f"{title}, {curves[0].task} dev", caption, *curve_rows(curves), draw, size)


def draw_spearman(axes: Axes, curves: Sequence[Curve]) -> None:
    """Draw Spearman x 100 by step."""
    axes.set(xlabel="training steps", ylabel=f"Spearman x 100, {curves[0].task} dev")
    for curve, name, colour in _coloured(curves):
        spearmans = [100 * point.spearman for point in curve.points]
        ends = " to ".join(dict.fromkeys(f"{value:.1f}" for value in (spearmans[0], spearmans[-1])))
        label = f"{name}, {ends}"
        if curve.trained:
            axes.plot([point.step for point in curve.points], spearmans, color=colour, marker="o", label=label)
        else:
            axes.axhline(spearmans[0], color=colour, linestyle="--", label=label)


def draw_path(axes: Axes, curves: Sequence[Curve]) -> None:
    """Draw alignment by uniformity."""
    axes.set(xlabel="uniformity (lower is better)", ylabel="alignment (lower is better)")
    for curve, name, colour in _coloured(curves):
        points = curve.points if curve.trained else curve.points[:1]
        x, y = [point.uniformity for point in points], [point.alignment for point in points]
        marker = "o" if curve.trained else "x"
        axes.plot(x, y, color=colour, marker=marker, label=name, linestyle="-" if x[1:] else "none")
        if curve.trained:
            axes.plot(x[:1], y[:1], color=colour, marker="o", markerfacecolor="white")
            axes.annotate(f"step {points[-1].step}", (x[-1], y[-1]), (6, 6), textcoords="offset points")
    axes.margins(0.12)


def logged_panel(metrics: Sequence[Mapping[str, str]]) -> Panel | None:
    """Loss, bits per dimension, learning rate and gradient norm by step; None where nothing of that was logged."""
    found: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for label, columns in _LOGGED.items():
        for column, kind in columns.items():
            # Lightning logs the number of the last step, counted from 0.
            points = [(int(row["step"]) + 1, float(row[column])) for row in metrics if row.get(column)]
            if points:
                found.setdefault(label, {})[kind] = points
    if not found:
        return None

    across = min(len(found), 3)
    down = math.ceil(len(found) / across)

    def draw(figure: Figure) -> None:
        grid = figure.subplots(down, across, squeeze=False, sharex=True)
        for axes, (label, lines) in zip(grid.flat, found.items(), strict=False):
            axes.set(ylabel=label)
            axes.xaxis.set_tick_params(labelbottom=True)
            for kind, points in lines.items():
                dots = "o-" if len(points) < 30 else "-"
                axes.plot(*zip(*points, strict=True), dots, markersize=3, color=_COLOURS[kind], label=kind)
        for axes in grid.flat[len(found) :]:
            axes.set_visible(False)
        for column in range(across):
            shown = [axes for axes in grid[:, column] if axes.get_visible()]
            shown[-1].set(xlabel="training steps")
        handles = {line.get_label(): line for axes in grid.flat for line in axes.get_lines()}
        if len(handles) > 1:
            figure.legend(handles.values(), handles, loc="outside lower center", ncols=len(handles))

    rows = [
        (label, kind, step, value)
        for label, lines in found.items()
        for kind, points in lines.items()
        for step, value in points
    ]
    return Panel(
        "training",
        "The training",
        "Batches are measured as they are trained on, with noise or dropout; all else without.",
        ("measure", "of", "step", "value"),
        rows,
        draw,
        (3.3 * across, 0.5 + 2.5 * down),
    )


def _coloured(curves: Sequence[Curve]) -> list[tuple[Curve, str, str]]:
    """Each with its name and its method's colour; of several runs, with one of its own."""
    runs = short_names([curve.run for curve in curves])
    several = len(set(runs)) > 1
    names = [f"{curve.method} ({run})" if several else curve.method for curve, run in zip(curves, runs, strict=True)]
    colours = colours_of(names)
    return [(curve, name, colours[name]) for curve, name in zip(curves, names, strict=True)]
