"""Pictures in the report: they keep to themselves, curves have their method's colour, and grey can be read on every ground.

Seen to fail when: ids of pictures stay as they are; a script is let in; curves are coloured by their number; a single curve has
no name; the grey of published values is the same on every ground.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from pretrieve.base.errors import DataError
from pretrieve.references.figures import load_figure
from pretrieve.references.palette import METHODS, Look, look_of
from pretrieve.reporting.report.pictures import Curve, dashes_of, draw_curves, inline_svg, smoothed
from pretrieve.workflow.config_files import read_config

ROOT = Path(__file__).parents[2]

SVG = """<?xml version="1.0"?><!DOCTYPE svg><svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"
 width="10pt" viewBox="0 0 10 10"><metadata>who</metadata><style>*{color: red}</style><defs><clipPath id="p1"/><g id="m"/></defs>
 <g clip-path="url(#p1)" style="fill: #ffffff; stroke: #000000"><use xlink:href="#m"/><text>a &lt; b</text></g></svg>"""


def test_a_picture_in_a_page_keeps_to_itself():
    text = inline_svg(SVG, "fig", "A <label>")
    assert (
        "metadata" not in text
        and "<style" not in text
        and "DOCTYPE" not in text
        and 'width="' not in text
        and "max-width: 10pt; min-width: calc(0.75 * 10pt)" in text
    )
    assert 'id="fig-p1"' in text and "url(#fig-p1)" in text and 'href="#fig-m"' in text and "xlink" not in text
    assert "fill: #ffffff; stroke: #000000" in text and "a &lt; b" in text
    assert 'aria-label="A &lt;label&gt;"' in text


def test_a_title_that_the_page_has_as_text_is_cut_off():
    own = '<g id="title-0"><text>Figure 1</text></g>'
    text = SVG.replace("width=", 'data-title="2.5" width=').replace("<metadata>", f"{own}<metadata>")
    inside = inline_svg(text, "fig", "")
    assert 'viewBox="0 2.5 10 7.5"' in inside and "Figure 1" not in inside and "data-title" not in inside
    assert 'viewBox="0 0 10 10"' in inline_svg(SVG, "fig", "")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("<svg", "not readable as SVG"),
        ("<html/>", "the root is html"),
        (SVG.replace("<metadata>who</metadata>", "<script>1</script>"), "has the element script"),
        (SVG.replace('"#m"', '"https://example.org/m"'), "refers to https://example.org/m"),
        (SVG.replace("<text>", '<text onclick="1">'), "has the attribute onclick"),
    ],
)
def test_a_picture_that_reaches_out_is_refused(bad, message):
    with pytest.raises(DataError, match=message):
        inline_svg(bad, "fig", "")


def test_learning_curves_are_means_and_the_same_bytes_again():
    curve = Curve("seed 1", np.arange(100.0), np.tile([1.0, 3.0], 50), look_of("bert"))
    short = smoothed(curve, 10)
    assert np.allclose(short.y, 2) and np.allclose(short.x, np.arange(10) * 10 + 4.5)
    panels = [("encoder", [curve]), ("two", [curve, Curve("seed 2", curve.x, curve.y + 1, curve.look)])]
    assert draw_curves(panels, "a") == draw_curves(panels, "a")
    assert ">seed 1<" in draw_curves(panels[:1], "a"), "one curve is named, too"


def test_a_curve_has_the_colour_that_its_method_has_in_the_figures():
    """By the figures' own series: encoder → method, and recipe → method for the ways to share parameters."""
    for name in ("condenser/figure2", "seed_encoder/figure1", "seed_encoder/figure5", "seed_encoder/figure3"):
        for _, series in load_figure(ROOT / f"references/{name}.yaml").all_series():
            systems = {measure.system.partition(".")[0] for measure in series.measures()} | {series.encoder}
            for encoder in systems - {""}:
                assert look_of("seed-pairwise", encoder).colour == METHODS[series.method].colour, (name, encoder)
    for _, series in load_figure(ROOT / "references/dual_encoders/figure4.yaml").all_series():
        for measure in series.measures():
            encoder, _, recipe = measure.system.removesuffix("-full").partition(".")
            assert look_of(recipe, encoder) == METHODS[series.method]
    config = read_config(ROOT / "config.yaml")
    others = [name for name in config["encoders"] if look_of(name) not in METHODS.values()]
    assert not others, "every encoder of the configuration has a method"
    assert look_of("mine") == look_of("reqa", "mine") and look_of("mine") not in METHODS.values()


def test_curves_of_one_colour_have_dashes_of_their_own():
    looks = [look_of("dual-t5-ade", f"t5-{size}") for size in ("small", "base", "large")] + [look_of("bert")]
    curves = [Curve(f"{i}", np.arange(3.0), np.arange(3.0), look) for i, look in enumerate(looks)]
    dashes = dashes_of(curves)
    assert len(set(dashes[:3])) == 3 and dashes[0] == looks[0].dash and dashes[3] == looks[3].dash
    assert len(dashes_of([Curve("", np.arange(3.0), np.arange(3.0), Look("#000000", "o"))] * 20)) == 20
    svg = draw_curves([("sizes", curves)], "a").lower()
    assert svg.count(looks[0].colour.lower()) >= 6 and looks[3].colour.lower() in svg


@pytest.mark.parametrize(("theme", "back"), [("light", "#ffffff"), ("dark", "#1b1f24")])
def test_grey_numbers_can_be_read_on_every_ground(theme, back):
    """Contrast of at least 4.5 (WCAG 2.2, 1.4.3), also under the pointer."""
    css = (ROOT / "src/pretrieve/reporting/templates/report.css").read_text(encoding="utf-8")
    block = css[: css.index("@media")] if theme == "light" else css[css.index(':root[data-theme="dark"] {') :]
    shades = [
        float(share)
        for share in re.findall(r"(?:above|below)-\d \{ background: rgba\(var\(--(?:above|below)\), ([.\d]+)\)", css)
    ]
    assert len(shades) == 8 and max(shades) == 0.34
    ink = re.search(r"--soft-shaded: (#\w+)", block)[1]
    for name in ("above", "below"):
        ground = [int(part) for part in re.search(rf"--{name}: ([\d, ]+)", block)[1].split(",")]
        for share in shades:
            mixed = [share * one + (1 - share) * other for one, other in zip(ground, _rgb(back), strict=True)]
            light, dark = sorted((_luminance(mixed), _luminance(_rgb(ink))), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (name, share)


def _rgb(colour: str) -> list[float]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def _luminance(rgb: list[float]) -> float:
    parts = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in rgb]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]
