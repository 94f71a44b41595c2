"""The documentation site: it builds without a warning, shows every public name, and its pages fetch nothing."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import dqucb

ROOT = Path(__file__).resolve().parent.parent
FETCHED = re.compile(r"""<(?:script|img|iframe|source)[^>]*\ssrc=["']?https?:|<link[^>]*\shref=["']?https?:""")
PACKAGES = ("agents", "deep", "density", "drift", "envs", "experiments", "hospital", "problems")

needs_mkdocs = pytest.mark.skipif(
    any(
        importlib.util.find_spec(name) is None for name in ("material", "mkdocstrings", "jupytext", "stable_baselines3")
    ),
    reason="the extra docs is not installed",
)


@needs_mkdocs
def test_the_site_builds_and_holds_what_it_should(tmp_path):
    """One test, so that the site is built once, whatever the number of workers."""
    site = built(tmp_path)
    check_every_public_name_is_in_the_reference(site)
    check_pages_fetch_nothing_from_other_hosts(site)
    check_tutorials_are_pages_with_what_they_printed(site)
    check_each_figure_has_a_page_with_its_verdict(site)
    check_pages_have_markdown_twins(site)


def built(folder):
    """The site. Tutorials that were run before with the same package are not run again."""
    finished = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return folder


def check_every_public_name_is_in_the_reference(site):
    reference = "".join(path.read_text(encoding="utf-8") for path in (site / "reference").rglob("*.html"))
    shown = set(re.findall(r'id="(dqucb\.[\w.]+)"', reference))
    ends = {name.rsplit(".", 1)[1] for name in shown}
    assert sorted(set(dqucb.__all__) - ends - {"__version__"}) == []
    for package in PACKAGES:
        names = importlib.import_module(f"dqucb.{package}").__all__
        assert [name for name in names if f"dqucb.{package}.{name}" not in shown] == []


def check_pages_fetch_nothing_from_other_hosts(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 40
    assert [page.name for page in pages if FETCHED.search(page.read_text(encoding="utf-8"))] == []
    for sheet in site.rglob("*.css"):
        assert not re.search(r"@import|url\([\"']?https?:", sheet.read_text(encoding="utf-8")), sheet


def check_tutorials_are_pages_with_what_they_printed(site):
    tutorials = [path.stem for path in (ROOT / "docs" / "notebooks").iterdir() if path.suffix in (".py", ".ipynb")]
    assert len(tutorials) >= 8
    for name in tutorials:
        page = (site / "tutorials" / name / "index.html").read_text(encoding="utf-8")
        assert "notebook-text" in page or "notebook-output" in page
        notebook = json.loads((site / "tutorials" / f"{name}.ipynb").read_text(encoding="utf-8"))
        assert any(cell["cell_type"] == "code" for cell in notebook["cells"])


def check_pages_have_markdown_twins(site):
    listed = re.findall(r"\]\((.*)\)", (site / "llms.txt").read_text(encoding="utf-8"))
    assert len(listed) > 30
    assert [name for name in listed if not (site / name).read_text(encoding="utf-8").strip()] == []
    assert not [name for name in listed if not (site / name.removesuffix(".md")).exists()]


def check_each_figure_has_a_page_with_its_verdict(site):
    table = (ROOT / "reproduce" / "README.md").read_text(encoding="utf-8")
    scripts = re.findall(r"\(results/(\w+)\.md\)", table)
    assert len(scripts) > 10
    assert set(scripts) == {path.stem for path in (ROOT / "reproduce").glob("[a-z]*.py")}
    for script in scripts:
        page = (site / "reproduction" / script / "index.html").read_text(encoding="utf-8")
        assert "<th>verdict</th>" in page
        if (ROOT / "reproduce" / "pictures" / f"{script}.png").exists():
            assert f"pictures/{script}.png" in page


def test_one_version_for_those_who_cite():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"{{{version}}}" in (ROOT / "docs" / "citing.md").read_text(encoding="utf-8")


def test_notebooks_for_colab_and_binder_are_those_of_the_tutorials():
    """After a change of a tutorial: `python docs/tools/tutorials.py`."""
    pytest.importorskip("jupytext")
    pytest.importorskip("mkdocs")
    spec = importlib.util.spec_from_file_location("tutorials", ROOT / "docs" / "tools" / "tutorials.py")
    tutorials = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tutorials)
    folder = ROOT / "docs" / "notebooks"
    sources = [path for path in folder.iterdir() if path.suffix in (".py", ".ipynb")]
    assert {path.stem for path in sources} == {path.stem for path in (folder / "online").iterdir()}
    for source in sources:
        assert (folder / "online" / f"{source.stem}.ipynb").read_text(encoding="utf-8") == tutorials.online(source)
