"""The YAML files of ``references/``: read, and checked against ``schemas/{name}.schema.yaml``.

The workflow reads them for every job, so this must load fast: standard library, yaml and jsonschema only.
"""

import math
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import best_match

from pretrieve.base.code_folder import package_file
from pretrieve.base.errors import ConfigError, nearest

_WHOLE = Draft202012Validator.TYPE_CHECKER
#: The schema's draft, where ``.nan`` and ``.inf`` are no numbers.
_Validator = validators.extend(
    Draft202012Validator,
    type_checker=_WHOLE.redefine("number", lambda _, value: _WHOLE.is_type(value, "number") and math.isfinite(value)),
)


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # libyaml's reads the same ten times faster
    """YAML's safe loader, but a key that stands twice in a mapping is an error: of two sections the first would be lost."""

    def construct_document(self, node: yaml.Node) -> Any:
        waiting, seen = [node], set[int]()
        while waiting:
            part = waiting.pop()
            if isinstance(part, yaml.ScalarNode) or id(part) in seen:
                continue
            seen.add(id(part))
            pairs = part.value if isinstance(part, yaml.MappingNode) else ()
            known = set[str]()
            for key, _ in pairs:
                if isinstance(key, yaml.ScalarNode) and key.value in known:
                    problem = f"the key {key.value!r} stands here again; expected it once: join what is below both"
                    raise yaml.constructor.ConstructorError(problem=problem, problem_mark=key.start_mark)
                known.add(str(key.value))
            waiting += [value for _, value in pairs] or part.value
        return super().construct_document(node)


def read_yaml(path: Path | str, what: str) -> Any:
    """The content of a YAML file. Raises ConfigError where there is none, in whose place ``what`` was expected, or no YAML."""
    try:
        return yaml.load(Path(path).read_text(encoding="utf-8"), Loader)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; expected {what}.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not readable as YAML: {' '.join(str(error).split())}") from None


def check(value: Any, where: str, schema: str, part: str = "", below: str = "") -> None:
    """Check a value against a schema, or one ``part`` of its ``$defs``. ``where`` and ``below``, a key, begin the message.

    Raises ConfigError with the key, what was found and what is allowed: the schema's own keyword ``expected``, where it has one.
    """
    errors = list(_rules(schema, part).iter_errors(value))
    if not errors:
        return
    # An unknown key or a missing one explains other errors, so it goes first.
    first = [error for error in errors if error.validator in ("additionalProperties", "required", "dependentRequired")]
    error = first[0] if first else best_match(errors)
    key = ".".join([*([below] if below else []), *map(str, error.absolute_path)])
    if error.validator == "additionalProperties" and "properties" in error.schema:
        allowed = sorted(error.schema["properties"])
        unknown = sorted(set(map(str, error.instance)) - set(allowed))[0]
        raise ConfigError(
            f"{where}: key {f'{key}.' if key else ''}{unknown} is unknown; allowed: {', '.join(allowed)}"
            f"{nearest(unknown, allowed)}"
        )
    if error.validator == "enum":
        allowed = [str(name) for name in error.validator_value]
        raise ConfigError(
            f"{where}: key {key} is {error.instance!r}; allowed: {', '.join(allowed)}{nearest(error.instance, allowed)}"
        )
    if "expected" in error.schema and error not in first:
        raise ConfigError(f"{where}: key {key} is {error.instance!r}; expected {error.schema['expected']}.")
    raise ConfigError(
        f"{where}: key {key or '(top level)'}: {error.message}. See {schema}.schema.yaml for what is allowed."
    )


@cache
def _rules(schema: str, part: str) -> Draft202012Validator:
    whole = yaml.load(package_file(f"schemas/{schema}.schema.yaml").read_text(encoding="utf-8"), Loader)
    return _Validator({**whole["$defs"][part], "$defs": whole["$defs"]} if part else whole)
