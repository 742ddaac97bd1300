"""agentrl: train and benchmark LLM agents on text games that last hundreds of turns."""

__version__ = "0.1.0"
