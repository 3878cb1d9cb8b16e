"""Templates of wikitext that carry prose, and the text that each of them becomes.

``{{convert|5|km|mi}}`` is part of a sentence, an infobox is not. :data:`PROSE_TEMPLATES` lists the templates of the first kind,
beside ``{{lang-…}}``; every other one becomes nothing. Templates inside others are resolved by
:func:`pretrieve.corpora.wikitext.strip_markup`, innermost first.
"""

from __future__ import annotations

import re
from collections.abc import Callable


def _last(args: list[str]) -> str:
    return args[-1] if args else ""


def _second(args: list[str]) -> str:
    return args[1] if len(args) > 1 else _last(args)


def _first(args: list[str]) -> str:
    return args[0] if args else ""


def _convert(args: list[str]) -> str:
    """``{{convert|5|km|mi}}`` → ``5 km``; ``{{convert|5|to|6|km}}`` → ``5 to 6 km``."""
    if len(args) >= 4 and args[1] in {"to", "-", "–", "and", "by", "x", "to(-)", "or", "+/-", "±"}:
        return f"{args[0]} {args[1]} {args[2]} {args[3]}"
    return " ".join(args[:2])


def _fraction(args: list[str]) -> str:
    if len(args) >= 3:
        return f"{args[0]} {args[1]}/{args[2]}"
    return "/".join(args) if len(args) == 2 else f"1/{_first(args)}"


#: Templates that show their first argument.
_OF_FIRST = (
    "nihongo", "nowrap", "nobr", "small", "smaller", "big", "abbr", "tooltip", "angbr", "keypress", "vanchor",
    "visible anchor", "sc", "smallcaps", "quote", "blockquote", "quotation", "val", "nts", "formatnum", "sup", "sub",
    "circumflex", "not a typo", "sic", "linktext", "music", "oldstyledate",
)  # fmt: skip
#: Templates whose arguments are prose; positional arguments in, text out. Everything else becomes ''.
PROSE_TEMPLATES: dict[str, Callable[[list[str]], str]] = {
    **dict.fromkeys(_OF_FIRST, _first),
    "convert": _convert,
    "cvt": _convert,
    "lang": _second,
    "transl": _last,
    "transliteration": _last,
    "chem": "".join,
    "frac": _fraction,
    "as of": lambda a: "As of " + " ".join(reversed(a)) if a else "",
    "circa": lambda a: "c. " + _first(a),
    "c.": lambda a: "c. " + _first(a),
    "nbsp": lambda a: " ",
    "spaces": lambda a: " ",
    "·": lambda a: "· ",
    "ndash": lambda a: "–",
    "mdash": lambda a: "—",
    "spaced ndash": lambda a: " – ",
    "snd": lambda a: " – ",
    "'s": lambda a: "'s",
    "'": lambda a: "'",
    "e": lambda a: "e" + _first(a),
    "us$": lambda a: "US$" + _first(a),
    "pound": lambda a: "£" + _first(a),
    "birth date": lambda a: "-".join(a[:3]),
    "ship": lambda a: " ".join(x for x in a[:2] if x),
    "uss": lambda a: "USS " + _first(a),
    "hms": lambda a: "HMS " + _first(a),
}


def template_text(match: re.Match[str]) -> str:
    """The prose of a template, whose name and arguments are group 1 of ``match``; '' for one that carries none."""
    body = match.group(1)
    name, _, rest = body.partition("|")
    name = name.strip().lower()
    handler = PROSE_TEMPLATES.get(name)
    if handler is None:
        if name.startswith("lang-") and rest:
            return rest.split("|", 1)[0].strip()
        return ""
    # Links keep their pipe: it is hidden while the arguments are split.
    rest = re.sub(r"\[\[([^\[\]]*)\]\]", lambda m: "[[" + m.group(1).replace("|", "\0") + "]]", rest)
    arguments = []
    for part in rest.split("|"):
        key, equals, value = part.partition("=")
        if equals and key.strip().isdigit():
            arguments.append(value.strip())
        elif not equals or "<" in key or "[" in key:
            arguments.append(part.strip())
        elif key.strip() in {"text", "quote"}:
            arguments.insert(0, value.strip())
    return handler(arguments).replace("\0", "|")
