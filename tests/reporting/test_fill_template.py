"""Templates are those of the package, wherever a run's working directory is; a name that is not given is an error; texts are
escaped."""

from __future__ import annotations

from pathlib import Path

import jinja2
import pytest

from pretrieve.reporting.tables.render import fill_template


def test_templates_are_found_from_any_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("my_corpus.html.j2", "table.html.j2", "report.html.j2"):
        with pytest.raises(jinja2.UndefinedError, match="is undefined"):
            fill_template(name)
