"""An SVG file as a part of an HTML page: no prolog, no metadata, no style that reaches out, ids of its own.

Matplotlib's files stand alone. Inside a page their ``<style>*{...}</style>`` would apply to the whole page, equal ids of two
figures would mix them up (a clip path of the first would cut the second), and black on nothing
would vanish in a dark page. SVG 2: https://www.w3.org/TR/SVG2/.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from pretrieve.errors import DataError

_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
#: Colours of paper and ink → what the page's style sheet sets for light and dark.
_COLOURS = {"#ffffff": "var(--figure-back)", "#000000": "var(--figure-ink)"}
_DROPPED = {f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"}
_DANGEROUS = {"script", "foreignObject", "iframe", "object", "embed"}


def inline_svg(text: str, prefix: str, label: str, themed: bool = False) -> str:
    """The ``<svg>`` element of an SVG file. ``prefix`` goes before every id, ``label`` is read out for the picture.

    ``themed``: black and white become the page's ink and ground, light or dark. Not for a picture whose other colours are
    chosen for a white ground.

    Raises
    ------
    DataError
        when the text is no SVG, or has a script or an address outside of itself in it.
    """
    try:
        root = ET.fromstring(text)
    except ET.ParseError as error:
        raise DataError(f"figure {prefix}: not readable as SVG: {error}. Make it again.") from None
    if root.tag != f"{{{_SVG}}}svg":
        raise DataError(f"figure {prefix}: the root is {root.tag}; expected svg. Make it again.")
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in _DROPPED:
                parent.remove(child)
    for element in root.iter():
        if element.tag.partition("}")[2] in _DANGEROUS:
            raise DataError(
                f"figure {prefix}: has the element {element.tag.partition('}')[2]}; expected shapes and text only."
            )
        for name, value in list(element.attrib.items()):
            del element.attrib[name]
            name = name.replace(f"{{{_XLINK}}}", "")
            element.set(name, _attribute(name, value, prefix, themed))
    # The view box and the page's style decide on the size; a small picture is not blown up to the page's width.
    width = root.attrib.pop("width", "100%")
    root.attrib.pop("height", None)
    root.set("role", "img")
    root.set("aria-label", label)
    root.set("style", f"stroke-linejoin: round; stroke-linecap: butt; max-width: {width}")
    ET.register_namespace("", _SVG)
    return ET.tostring(root, encoding="unicode")


def _attribute(name: str, value: str, prefix: str, themed: bool) -> str:
    if name == "id":
        return f"{prefix}-{value}"
    if name == "href":
        if value.startswith("#"):
            return f"#{prefix}-{value[1:]}"
        if not value.startswith("data:image/"):
            raise DataError(f"figure {prefix}: refers to {value}; expected nothing outside of the figure.")
    if name.startswith("on"):
        raise DataError(f"figure {prefix}: has the attribute {name}; expected no script.")
    value = re.sub(r"url\(#", f"url(#{prefix}-", value)
    for colour, variable in _COLOURS.items() if themed else ():
        if name in ("style", "fill", "stroke", "stop-color"):
            value = value.replace(colour, variable)
    return value
