"""Prompt templates, as data: YAML files with Jinja2 strings, loaded by `agentrl.styles`."""
