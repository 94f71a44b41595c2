"""What packages share that load some of their names when they are first asked for."""

import sys


def no_attribute(module: str, name: str) -> AttributeError:
    """The error for a name that a module does not have; it holds the module, so that Python can say "did you mean"."""
    return AttributeError(f"module {module!r} has no attribute {name!r}", name=name, obj=sys.modules[module])
