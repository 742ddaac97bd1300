"""agentrl: train and benchmark LLM agents on text games that last hundreds of turns.

from agentrl import Trainer, load_config
results = Trainer(load_config("experiments/quickstart.yaml")).fit()
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentrl.assembly import assemble
    from agentrl.callbacks import Callback
    from agentrl.config import Config
    from agentrl.configfile import load_config, make_config
    from agentrl.evaluation import evaluate, summarise
    from agentrl.trainer import Trainer

__version__ = "0.1.0"

__all__ = ["Callback", "Config", "Trainer", "assemble", "evaluate", "load_config", "make_config", "summarise"]

_HOMES = {
    "Callback": "callbacks",
    "Config": "config",
    "Trainer": "trainer",
    "assemble": "assembly",
    "evaluate": "evaluation",
    "load_config": "configfile",
    "make_config": "configfile",
    "summarise": "evaluation",
}


def __getattr__(name: str) -> Any:
    """Import on first use: the command line's --help should not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'agentrl' has no attribute {name!r}")
    return getattr(import_module(f"agentrl.{_HOMES[name]}"), name)
