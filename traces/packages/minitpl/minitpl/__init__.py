"""A tiny template engine."""

from .errors import TemplateError
from .template import Template, render

__all__ = ["Template", "TemplateError", "render"]
