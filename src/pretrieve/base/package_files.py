"""Where the files are that come with the package and are no Python: schemas and templates."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def package_file(name: str) -> Path:
    """The path of a file or folder of the package, in a checkout as in an installed one.

    >>> package_file("schemas/config.schema.yaml").is_file()
    True
    """
    return PACKAGE / name
