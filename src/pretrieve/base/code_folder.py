"""The folder of the code: what comes with it is found there, wherever a program is run. Standard library only.

Code, lists of sources, published tables and defaults come with the checkout that this package lies in; data and results belong to
the working directory. The workflow puts the package of its own checkout on Python's path (``rules/common.smk``), so that a run
reads what belongs to its code.
"""

from __future__ import annotations

from pathlib import Path

#: Schemas and templates come with the package, wherever it is installed.
PACKAGE = Path(__file__).resolve().parents[1]


def package_file(name: str) -> Path:
    """The path of a file or folder of the package, in a checkout as in an installed one.

    >>> package_file("schemas/config.schema.yaml").is_file()
    True
    """
    return PACKAGE / name


CODE = Path(__file__).resolve().parents[3]


def code_file(name: str = "") -> Path:
    """A file or folder of the checkout, such as ``resources/sources.tsv``; '' is the checkout itself.

    Relative where the checkout is the working directory, so that commands and messages stay as short as they are there.
    """
    return (Path() if Path.cwd() == CODE else CODE) / name


#: Papers' tables, figures and claims as data.
REFERENCES = code_file("references")


def given_or_code_file(name: str) -> str:
    """A path of the configuration: of the working directory, or, where there is none, of the checkout; else as it is.

    >>> given_or_code_file("/data/my.tsv")
    '/data/my.tsv'
    """
    return str(code_file(name)) if not Path(name).exists() and code_file(name).exists() else name
