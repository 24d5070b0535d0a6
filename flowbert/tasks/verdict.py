"""Which method to use on a task, in one line."""

from typing import NamedTuple

from flowbert.tasks.replicates import Interval, Replicates


class Verdict(NamedTuple):
    """Which method to use on a task.

    Attributes:
        best: Method with the highest figure.
        use: First method, in the order given, that does not differ from the best: give the simplest first.
        text: The verdict in one line, figures x 100.
    """

    best: str
    use: str
    text: str


def verdict(replicates: Replicates, *, baseline: str = "raw", label: str | None = None) -> Verdict:
    """Say which method to use, or that the difference is noise.

    Each comparison has its own interval; with many methods some differ by chance.

    Args:
        replicates: Of one task or of an average; methods from simple to elaborate.
        baseline: Method that the others must beat; the first one if there is no such method.
        label: How the line begins, e.g. ``"STSB, target"``; the replicates' name if None.

    Raises:
        ValueError: If there are fewer than two methods with a figure.
    """
    usable = replicates.usable()
    if len(usable) < 2:
        raise ValueError(f"{replicates.name}: {len(usable)} methods have a figure; a verdict needs at least 2")
    base = baseline if baseline in usable else usable[0]
    best = max(usable, key=lambda method: replicates.points[replicates.methods.index(method)])
    against = replicates.difference
    close = [method for method in usable if method != best and not against(best, method).excludes_zero]
    worse = [method for method in usable if method != base and against(method, base).high < 0]
    told = [_headline(best, base, against(best, base), noise=base in close)]
    told += [f"{best} and {m} do not differ ({against(best, m).text()})" for m in close if m != base]
    told += [f"{method} is worse than {base} by {against(base, method).text()}" for method in worse]
    use = next(method for method in usable if method == best or method in close)
    return Verdict(best, use, f"{label or replicates.name}: {'; '.join(told)}")


def _headline(best: str, base: str, difference: Interval, *, noise: bool) -> str:
    if best == base:
        return f"nothing is better than {base}"
    if noise:
        return f"nothing is better than {base}: the lead of {best} is noise ({difference.text()})"
    return f"{best} is better than {base} by {difference.text()}"
