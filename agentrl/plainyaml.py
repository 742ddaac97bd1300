"""YAML of the 1.2 core schema, where `1e-6` is a number and `no` a word; PyYAML takes them for a string and for false.

Loading builds plain data only: mappings with text keys, lists, text, numbers, booleans, null.
"""

import re
from typing import Any

import yaml

from agentrl.errors import UserError

_CORE_SCHEMA = {
    "null": r"null|Null|~|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9][0-9_]*",
    "float": r"[-+]?([0-9][0-9_]*(\.[0-9_]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan",
}


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            line = f"line {key.start_mark.line + 1}"
            if key.tag != "tag:yaml.org,2002:str":
                raise UserError(f"{line}: a name must be text; put {key.value!r} in quotes")
            if key.value in seen:
                raise UserError(f"{line}: {key.value} is given twice; keep one")
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_number(self, node: yaml.ScalarNode) -> int | float:
        text = self.construct_scalar(node).replace("_", "")
        return int(text) if node.tag.endswith("int") else float(text.replace(".inf", "inf").replace(".nan", "nan"))


class _Dumper(yaml.SafeDumper):
    """Quotes whatever either YAML version would take for something else than text."""


for _name, _pattern in _CORE_SCHEMA.items():
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(rf"^(?:{_pattern})$"), None)
for _name in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_name}", _Loader.construct_number)


def load_yaml(text: str | bytes) -> Any:
    """Plain data; a name given twice is an error instead of a silent overwrite.

    Raises UserError: one line, with the place.
    """
    try:
        return yaml.load(text, Loader=_Loader)  # a SafeLoader
    except UserError:
        raise
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise UserError(f"{where}not YAML: {' '.join((getattr(error, 'problem', '') or str(error)).split())}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"not YAML that can be used: {error}") from None


def dump_yaml(tree: Any) -> str:
    """The inverse of `load_yaml`, in the order of the mappings."""
    return yaml.dump(tree, Dumper=_Dumper, sort_keys=False, width=120)
