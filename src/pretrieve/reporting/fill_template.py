"""HTML from the templates of this package."""

from __future__ import annotations

from typing import Any

import jinja2

from pretrieve.base.code_folder import package_file


def fill_template(template: str, **values: Any) -> str:
    """The file ``template`` of ``reporting/templates`` with these values, escaped; a name that is not given is an error."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(package_file("reporting/templates")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(template).render(**values)
