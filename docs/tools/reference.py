"""A hook of MkDocs: one page for each public package, with every name of its `__all__`."""

from importlib import import_module
from types import ModuleType

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

FOLDER = "reference"
# Title -> modules whose public names are on that page.
PAGES = {
    "Agents": ("dqucb.agents", "dqucb.base"),
    "Problems": ("dqucb.problems",),
    "Runs and experiments": ("dqucb.run", "dqucb.experiments", "dqucb.experiments.statistics"),
    "Drift detection": ("dqucb.drift",),
    "Densities": ("dqucb.density",),
    "Environments": ("dqucb.envs",),
    "Deep agents": ("dqucb.deep",),
    "Hospitals": ("dqucb.hospital",),
    "Checks and errors": ("dqucb.checks", "dqucb._storage"),
    "Bounds of the paper": ("dqucb.theory",),
}
# Modules that are no packages and hold more than they give away.
NAMES = {
    "dqucb.base": ("Agent", "Progress", "Facts", "make_agent", "AGENTS"),
    "dqucb.run": ("Run",),
    "dqucb._storage": ("SavedFileError",),
    "dqucb.experiments.statistics": ("Interval", "Band", "Choice"),
}


def on_config(config: MkDocsConfig) -> None:
    """Put the pages into the navigation."""
    pages: list[object] = [f"{FOLDER}/index.md"]
    pages += [{title: f"{FOLDER}/{slug(title)}.md"} for title in PAGES]
    config.nav = [{"Reference": pages} if item == {"Reference": f"{FOLDER}/"} else item for item in config.nav or []]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each title, and an index of all names."""
    index = ["# Reference", "Every public name, with an example each. `import dqucb` gives those marked with a dot."]
    top = import_module("dqucb").__all__
    for title, modules in PAGES.items():
        parts = [f"# {title}"]
        index += [f"## {title}", "| name | in short |\n|---|---|"]
        for module in map(import_module, modules):
            for name in names_of(module):
                parts.append(f"::: {module.__name__}.{name}")
                dot = " •" if name in top else ""
                index[-1] += f"\n| [`{name}`][{module.__name__}.{name}]{dot} | {first_line(module, name)} |"
        if title == "Agents":
            parts += ["## Options of `Agent.train`", table_of_options()]
        files.append(File.generated(config, f"{FOLDER}/{slug(title)}.md", content="\n\n".join(parts)))
    files.append(File.generated(config, f"{FOLDER}/index.md", content="\n\n".join(index)))
    return files


def table_of_options() -> str:
    """The options of a run as they are declared, with those that `compare`, `sweep` and the command take too."""
    from dqucb.running.options import OPTIONS, SHARED

    rows = ["| option | default | also of `compare` | changes results | meaning |", "|---|---|---|---|---|"]
    for name, option in OPTIONS.items():
        marks = ("yes" if given else "" for given in (name in SHARED, option.changes_results))
        rows.append(f"| `{name}` | `{option.default!r}` | {' | '.join(marks)} | {option.help} |")
    return "\n".join(rows)


def names_of(module: ModuleType) -> list[str]:
    """The public names of a module: those listed, else the functions and classes that it defines."""
    named = NAMES.get(module.__name__) or getattr(module, "__all__", None)
    if named is not None:
        return list(named)
    defined = {name: thing for name, thing in vars(module).items() if not name.startswith("_") and callable(thing)}
    return [name for name, thing in defined.items() if getattr(thing, "__module__", None) == module.__name__]


def first_line(module: ModuleType, name: str) -> str:
    """The first line of a docstring; constants have none of their own."""
    thing = getattr(module, name)
    about = (thing.__doc__ or "").strip().splitlines() if callable(thing) else []
    return about[0].replace("|", "\\|") if about else ""


def slug(title: str) -> str:
    """A file name."""
    return title.lower().replace(" ", "_")
