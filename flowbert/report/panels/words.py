"""Token vectors of the encoder: input embeddings by frequency, and the cone by layer."""

from flowbert.analysis.found import Analysis, WordSpace
from flowbert.report.panel import Panel
from flowbert.report.panels.drawing import WIDTH, draw_points
from flowbert.report.style import INK, SCALE, Figure


def word_panels(found: Analysis) -> list[Panel]:
    """Projection and norms by frequency, and mean cosine by layer."""
    if found.words is None:
        return []
    return [_projection(found.words), _buckets(found.words), _layers(found.words)]


def _projection(words: WordSpace) -> Panel:
    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        axes.set(xlabel="first singular direction", ylabel="second singular direction")
        for bucket, colour in zip(words.buckets, SCALE, strict=False):
            shown = [p[1:] for p in words.points if bucket.first <= p.rank < bucket.last]
            draw_points(axes, shown, colour)
            axes.plot([], [], "o", markersize=4, color=colour, label=f"{bucket.first} to {bucket.last - 1}")
        axes.legend(title="frequency rank", loc="center left", bbox_to_anchor=(1, 0.5))

    return Panel(
        "words",
        "Input embeddings by frequency",
        "Tokens on the first two singular directions of their input embeddings (Gao et al., 2019); rank 0 "
        "is the most frequent one. Colours that lie apart say that frequency, not meaning, decides where a token lies.",
        ("rank", "first_direction", "second_direction"),
        words.points,
        draw,
        (WIDTH, 3.6),
    )


def _buckets(words: WordSpace) -> Panel:
    nearest = min(words.buckets[0].distance)
    rows = [(f"{b.first} to {b.last - 1}", b.norm, b.distance[nearest]) for b in words.buckets]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        ranks, norms, distances = zip(*rows, strict=True)
        axes.plot(ranks, norms, "o-", color=INK, label="norm")
        axes.plot(ranks, distances, "s--", color=SCALE[2], label=f"distance to {nearest} neighbours")
        axes.set(xlabel="frequency rank", ylabel="mean", ylim=(0, 1.15 * max(*norms, *distances)))
        axes.legend(loc="lower left")

    return Panel(
        "word-norms",
        "Norm and sparsity of input embeddings by frequency",
        "In BERT-base rare words lie farther from the origin, and from their neighbours (Li et al., 2020, table 1). "
        f"Here the norm goes from {rows[0][1]:.2f} to {rows[-1][1]:.2f}, the distance from {rows[0][2]:.2f} to "
        f"{rows[-1][2]:.2f}.",
        ("rank", "mean_norm", f"mean_distance_to_{nearest}_neighbours"),
        rows,
        draw,
        (WIDTH, 3.0),
    )


def _layers(words: WordSpace) -> Panel:
    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        axes.plot(range(len(words.by_layer)), words.by_layer, "o-", color=INK)
        axes.set(
            xlabel="hidden state (0: embedding layer)", ylabel="mean cosine", ylim=(1.1 * min(0, *words.by_layer), 1)
        )
        axes.locator_params(axis="x", integer=True)

    return Panel(
        "anisotropy",
        "Mean cosine of tokens by layer",
        "Of random tokens in their sentences (Ethayarajh, 2019); 0 without anisotropy. "
        f"From {words.by_layer[0]:.2f} in the embedding layer to {words.by_layer[-1]:.2f} in the last.",
        ("hidden_state", "mean_cosine"),
        list(enumerate(words.by_layer)),
        draw,
        (WIDTH, 3.0),
    )
