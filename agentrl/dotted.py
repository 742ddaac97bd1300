"""Something of the user's own, named in a recipe by its dotted path: my_package.my_module.MyClass."""

from importlib import import_module
from typing import Any

from agentrl.errors import UserError, did_you_mean


def imported(path: str, field: str, besides: str = "") -> Any:
    """What `path` names; `field` begins the error message, such as "prompt.memory = 'x.Y'".

    `besides`: what else the field takes, for the message.

    Raises:
        UserError: no such module, one that fails as it is imported, or no such name in it.
    """
    module_name, _, name = path.rpartition(".")
    if not module_name:
        raise UserError(f"{field}: expected {besides}a dotted path such as my_package.MyClass")
    try:
        module = import_module(module_name)
    except Exception as error:
        remedy = "is it installed, or on PYTHONPATH?"
        raise UserError(f"{field}: {module_name} cannot be imported: {error}; {remedy}") from error
    if not hasattr(module, name):
        raise UserError(f"{field}: no {name} in {module_name}{did_you_mean(name, vars(module))}")
    return getattr(module, name)
