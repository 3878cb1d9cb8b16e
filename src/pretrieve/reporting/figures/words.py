"""What a figure says in words: its title, what must be known to read it, and why something is missing."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from pretrieve.references.figures import OWN, Figure, Panel
from pretrieve.reporting.figures.ground import is_relative
from pretrieve.reporting.figures.points import NOT_AHEAD, Point, is_measured
from pretrieve.reporting.tables.results import Setting

#: Letters on an inch of bold, of plain and of small text.
_BOLD, _PLAIN, _SMALL = 9.2, 10.4, 13


def measured_here(figure: Figure, points: Sequence[Point], setting: Setting) -> str:
    """What was measured in place of the paper's data, texts that encoders were looked at with, and the published checkpoint that
    encoders go back to, in words for the title; '' where nothing differs."""
    measured = [point for point in points if is_measured(point)]
    here = [] if figure.paper == OWN else [setting.in_place_of(point.role for point in measured)]
    texts = dict.fromkeys(setting.described(p.dataset) for p in measured if p.dataset and not p.role)
    if setting.scale != "paper":
        here += [f"{text} as texts" for text in texts]
    encoders = dict.fromkeys(point.encoder for point in measured)
    starts = dict.fromkeys(setting.starts[name][0] for name in encoders if name in setting.starts)
    # What it lacks follows the first semicolon and is not part of a title.
    here += [f"encoders continued from {setting.described(start).partition(';')[0]}" for start in starts]
    return "; ".join(filter(None, here))


def title_of(figure: Figure, width: float) -> list[str]:
    """The lines of the title of a figure that is ``width`` inches wide."""
    number, caption = figure.name.removeprefix("figure"), figure.caption
    words = f"Figure {number} ({figure.paper}). {caption[0].upper()}{caption[1:]}"
    return textwrap.wrap(words, int(width * _BOLD), break_on_hyphens=False)


def lines_above(figure: Figure, points: Sequence[Point], scale: str, width: float) -> list[str]:
    """What must be known before the panels are read."""
    measured = [point for point in points if is_measured(point)]
    if not measured:
        return []
    words = [_uncertainty(measured), _drawn(figure, points), *_undecided(figure, points)]
    if scale != "paper":
        warning = "(scale-differs): less data, smaller models. Compare methods with each other."
        words.insert(0, f"Measured at the {scale} scale {warning}")
    return textwrap.wrap(" ".join(filter(None, words)), int(width * _PLAIN))


def lines_below(figure: Figure, points: Sequence[Point], width: float) -> list[str]:
    """What is read off the panels, and why something is missing."""
    read = _ahead(figure, points)
    relative = {panel.name for panel in figure.panels if is_relative(panel)}
    if any(point.panel in relative and point.beyond_chance == "no" for point in points):
        read.append("≈ chance: one of the two scores is no better than guessing, so their ratio says nothing.")
    below = [line for text in read for line in textwrap.wrap(text, int(width * _SMALL))]
    said = len(below)
    for reason, places in _missing(figure, points).items():
        some = ", ".join(places[:4]) + (f" and {len(places) - 4} more" if len(places) > 4 else "")
        below += textwrap.wrap(f"{some}: {reason}.", int(width * _SMALL), break_on_hyphens=False)
    return [*below[: said + 5], "… the rest stands in the CSV."] if len(below) > said + 6 else below


def _uncertainty(measured: Sequence[Point]) -> str:
    """What bars and bands are."""
    seeds = max(int(point.n_seeds) for point in measured)
    over = " or ".join(sorted({"queries" if point.role else "texts" for point in measured if point.low}))
    if over:
        words = (
            f"Bars and bands are 95 % intervals over {over}{', of one seed' if seeds == 1 else f' and {seeds} seeds'}"
        )
        plain = any(point.sd and not point.low for point in measured)
        return f"{words}; where none is known, ± sd over seeds." if plain else f"{words}."
    return "One seed, so no error bars." if seeds == 1 else f"Mean of {seeds} seeds; bars and bands are ± sd."


def _undecided(figure: Figure, points: Sequence[Point]) -> list[str]:
    """Sentences on the panels whose values tell nothing apart."""
    at_chance, within = [], []
    scored = [panel for panel in figure.panels if any(s.kind in ("scores", "steps") for s in panel.series)]
    for panel in scored:
        own = [point for point in points if point.panel == panel.name and is_measured(point)]
        if own and all(point.beyond_chance == "no" for point in own):
            at_chance.append(panel)
        elif len({point.series for point in own}) > 1 and own[0].low and _within_one_interval(panel, own):
            within.append(panel)
    said = []
    for panels, text in (
        (at_chance, "No value {}is beyond chance: nothing can be read from their differences."),
        (within, "At no place {}do values differ by more than an interval."),
    ):
        if panels:
            names = ", ".join(f"({panel.name})" for panel in panels)
            said.append(text.format("" if len(panels) == len(figure.panels) else f"of {names} "))
    return said


def _within_one_interval(panel: Panel, points: Sequence[Point]) -> bool:
    """Whether at every x one of the intervals has all values; of changes, whether every interval has 0."""
    if is_relative(panel):
        return all(point.low and float(point.low) <= 0 <= float(point.high) for point in points)
    for x in {point.x for point in points}:
        there = [point for point in points if point.x == x]
        values = [float(point.y) for point in there]
        spans = [(float(point.low), float(point.high)) for point in there if point.low]
        if not any(low <= min(values) and max(values) <= high for low, high in spans):
            return False
    return True


def reference_of(panel: Panel) -> str:
    """What the gains of a panel are taken over."""
    name = next(series.of[1] for series in panel.series if series.kind == "gain")
    label = next(series.label for series in panel.series if series.name == name)
    return f"{label[0].lower()}{label[1:]}"


def _ahead(figure: Figure, points: Sequence[Point]) -> list[str]:
    """For each panel with gains, from where on each is above 0, in a sentence."""
    lines = []
    ahead_from = {(point.panel, point.series): point.ahead_from for point in points if point.ahead_from}
    for panel in figure.panels:
        found: dict[str, list[str]] = {}
        for series in panel.series:
            if at := ahead_from.get((panel.name, series.name)):
                found.setdefault(at, []).append(series.label)
        words = [
            f"{', '.join(labels)} {at if at == NOT_AHEAD else f'from {float(at):.3g} {panel.x.unit} on'}"
            for at, labels in found.items()
        ]
        if words:
            lines.append(f"({panel.name}) Ahead of {reference_of(panel)}, the whole interval: {'; '.join(words)}.")
    return lines


def _drawn(figure: Figure, points: Sequence[Point]) -> str:
    """How many texts the maps show, in a sentence: of a small data set fewer than the paper's."""
    maps = [(panel, series) for panel, series in figure.all_series() if series.kind == "map"]
    counts: dict[str, int] = {}
    for panel, series in maps:
        own = [p for p in points if (p.panel, p.series) == (panel.name, series.name) and is_measured(p)]
        counts[series.label] = max(counts.get(series.label, 0), len(own))
    if not any(counts.values()):
        return ""
    words = f"Drawn: {' and '.join(f'{n} {label}' for label, n in counts.items())}"
    if any(p.n_seeds not in ("", "1") for p in points):
        words += ", of the first seed"
    wanted = figure.map["texts"]
    if min(counts.values()) < wanted:
        words += f", for the data set has no more to test; the paper has {wanted} of each"
    return f"{words}."


def _missing(figure: Figure, points: Sequence[Point]) -> dict[str, list[str]]:
    """Why something is missing → what, in few words: an x that no series of its panel has is named once."""
    missing: dict[str, list[str]] = {}
    notes = {(panel.name, series.name): series.note for panel, series in figure.all_series()}
    for point in points:
        if point.status in ("not-run", "failed"):
            alike = [other for other in points if (other.panel, other.x) == (point.panel, point.x)]
            whole = point.x and all((other.status, other.role) == (point.status, point.role) for other in alike)
            what = point.x if whole else f"{point.series} {point.x}".strip()
            what = what if len(figure.panels) == 1 else f"({point.panel}) {what}"
            # Without the reference's own note
            reason = point.note.removeprefix(notes.get((point.panel, point.series), "")).removeprefix("; ")
            places = missing.setdefault(f"{point.status}, {reason}", [])
            if what not in places:
                places.append(what)
    return missing
