"""An SVG file as a part of an HTML page: no prolog, no metadata, no style that reaches out, ids of its own.

Matplotlib's files stand alone. Inside a page their ``<style>*{...}</style>`` would apply to the whole page, and equal ids of two
figures would mix them up (a clip path of the first would cut the second). SVG 2: https://www.w3.org/TR/SVG2/.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from pretrieve.base.errors import DataError

_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
#: Part of its own width below which a picture does not shrink: words of 10 points would be smaller than 10 pixels.
_LEAST = 0.75
_DROPPED = {f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"}
_DANGEROUS = {"script", "foreignObject", "iframe", "object", "embed"}


def inline_svg(text: str, prefix: str, label: str) -> str:
    """The ``<svg>`` element of an SVG file. ``prefix`` goes before every id, ``label`` is read out for the picture.

    On a narrow screen it keeps a least width, so what it stands in has to scroll sideways.

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
            element.set(name, _attribute(name, value, prefix))
    # The view box and the page's style decide on the size between these two widths.
    width = root.attrib.pop("width", "100%")
    root.attrib.pop("height", None)
    root.set("role", "img")
    root.set("aria-label", label)
    least = f"; min-width: calc({_LEAST} * {width})" if not width.endswith("%") else ""
    root.set("style", f"stroke-linejoin: round; stroke-linecap: butt; max-width: {width}{least}")
    ET.register_namespace("", _SVG)
    return ET.tostring(root, encoding="unicode")


def _attribute(name: str, value: str, prefix: str) -> str:
    if name == "id":
        return f"{prefix}-{value}"
    if name == "href":
        if value.startswith("#"):
            return f"#{prefix}-{value[1:]}"
        if not value.startswith("data:image/"):
            raise DataError(f"figure {prefix}: refers to {value}; expected nothing outside of the figure.")
    if name.startswith("on"):
        raise DataError(f"figure {prefix}: has the attribute {name}; expected no script.")
    return re.sub(r"url\(#", f"url(#{prefix}-", value)
