"""Shared by packages that load some of their names at first use."""

import sys


def no_attribute(module: str, name: str) -> AttributeError:
    """The error for a missing name; it refers to the module, so that Python can suggest a similar name."""
    return AttributeError(f"module {module!r} has no attribute {name!r}", name=name, obj=sys.modules[module])
