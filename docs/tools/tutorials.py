"""A hook of MkDocs: every notebook in docs/notebooks is run, and what it shows becomes a page.

A notebook is a script in jupytext's percent form, which reads well in a diff and is checked by ruff, or an .ipynb. An
error in a cell fails the build. A notebook is run again when it or the package has changed; results are in .cache.

Colab and Binder open notebooks from the repository: `python docs/tools/tutorials.py` writes docs/notebooks/online, an
.ipynb of each tutorial with a first cell that installs the package. A test compares them with the scripts.
"""

import base64
import hashlib
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from nbclient import NotebookClient

SOURCES = "notebooks"  # below docs
FOLDER = "tutorials"  # of the site
CACHE = Path(".cache") / FOLDER
AT_ONCE = 2  # notebooks
SECONDS = 300  # for one cell, kernels compiled on a busy machine included
ONLINE = Path("docs/notebooks/online")
INSTALL = '# Colab has no dqucb yet; where it is installed, this does nothing.\n%pip install -q "dqucb[notebooks] @ git+https://github.com/dqucb/dqucb"'
COLAB = "https://colab.research.google.com/github/dqucb/dqucb/blob/main/docs/notebooks/online/{}.ipynb"
BINDER = "https://mybinder.org/v2/gh/dqucb/dqucb/HEAD?labpath=docs%2Fnotebooks%2Fonline%2F{}.ipynb"
SETUP = "%config InlineBackend.figure_formats = ['retina']"
ORDER = (
    "first_run",
    "your_own_mdp",
    "your_own_env",
    "is_my_environment_drifting",
    "honest_comparison",
    "deep_agents",
    "hospitals",
    "writing_an_agent",
    "dask_sweep",
    "density_alone",
)


def on_config(config: MkDocsConfig) -> None:
    """Put the notebooks that are there into the navigation, the known ones in their order."""
    pages = [f"{FOLDER}/{source.stem}.md" for source in sources(config)]
    config.nav = [{"Tutorials": pages} if item == {"Tutorials": f"{FOLDER}/"} else item for item in config.nav or []]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page, its pictures and the notebook itself for each notebook."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        finished = pool.map(executed, found := sources(config))
    for source, notebook in zip(found, finished, strict=True):
        for uri, content in page_of(source.stem, notebook).items():
            files.append(File.generated(config, uri, content=content))
    return files


def sources(config: MkDocsConfig) -> list[Path]:
    """The notebooks, in order of the navigation."""
    found = [path for path in (Path(config.docs_dir) / SOURCES).iterdir() if path.suffix in (".py", ".ipynb")]
    place = {stem: i for i, stem in enumerate(ORDER)}
    return sorted(found, key=lambda path: (place.get(path.stem, len(ORDER)), path.stem))


@cache
def package_digest() -> bytes:
    """Changes with any file of the package."""
    sources = sorted(path for path in Path("dqucb").rglob("*.py*") if path.suffix in (".py", ".pyx", ".pxd"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).digest()


def executed(source: Path) -> Any:
    """The notebook with its outputs."""
    key = hashlib.sha256(source.read_bytes() + package_digest()).hexdigest()
    kept = CACHE / f"{source.stem}-{key[:16]}.ipynb"
    if kept.exists():
        return nbformat.read(kept, as_version=4)
    notebook = jupytext.read(source, fmt={"extension": source.suffix})
    notebook.cells.insert(0, nbformat.v4.new_code_cell(SETUP))
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    with tempfile.TemporaryDirectory() as folder:
        where = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=SECONDS, resources=where, extra_arguments=["--log-level=ERROR"]).execute()
    del notebook.cells[0]
    CACHE.mkdir(parents=True, exist_ok=True)
    for old in CACHE.glob(f"{source.stem}-*.ipynb"):
        old.unlink()
    nbformat.write(notebook, kept)
    return notebook


def page_of(stem: str, notebook: Any) -> dict[str, str | bytes]:
    """The files of a page: Markdown, pictures, and the notebook without outputs."""
    files: dict[str, str | bytes] = {}
    parts = []
    badges = f"[Open in Colab]({COLAB.format(stem)}){{ .badge }} [Open in Binder]({BINDER.format(stem)}){{ .badge }}"
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            heading, _, rest = cell.source.partition("\n")
            parts.append(cell.source if parts else f"{heading}\n\n{badges}\n\n{rest}")
        elif cell.cell_type == "code" and cell.source.strip():
            parts.append(f"```python\n{cell.source}\n```")
            for output in cell.outputs:
                parts.append(shown(output, stem, files))
    parts.append(f"---\n[Download this notebook]({stem}.ipynb)")
    files[f"{FOLDER}/{stem}.md"] = "\n\n".join(part for part in parts if part)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    files[f"{FOLDER}/{stem}.ipynb"] = nbformat.writes(notebook)
    return files


def shown(output: Any, stem: str, files: dict[str, str | bytes]) -> str:
    """One output as Markdown; a picture is added to `files`. What goes to stderr is not shown."""
    if output.output_type == "stream":
        return as_text(output.text) if output.name == "stdout" else ""
    data = output.get("data", {})
    if "image/png" in data:
        name = f"{stem}_{sum(uri.endswith('.png') for uri in files) + 1}.png"
        files[f"{FOLDER}/{name}"] = base64.b64decode(data["image/png"])
        return f"![What the code above draws]({name})"
    if "text/html" in data:
        return f'<div class="notebook-output">\n{data["text/html"]}\n</div>'
    return as_text(data["text/plain"]) if "text/plain" in data else ""


def online(source: Path) -> str:
    """The notebook that Colab and Binder open: no outputs, and a first cell that installs the package."""
    notebook = jupytext.read(source, fmt={"extension": source.suffix})
    notebook.cells.insert(1, nbformat.v4.new_code_cell(INSTALL))
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook.metadata = nbformat.NotebookNode(kernelspec=kernel)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return str(nbformat.writes(notebook)) + "\n"


def as_text(text: str) -> str:
    """A block that the style sheet sets apart from code."""
    return f"``` {{ .text .notebook-text }}\n{text.rstrip()}\n```"


if __name__ == "__main__":
    ONLINE.mkdir(exist_ok=True)
    for path in sorted(each for each in ONLINE.parent.iterdir() if each.suffix in (".py", ".ipynb")):
        (ONLINE / f"{path.stem}.ipynb").write_text(online(path), encoding="utf-8")
