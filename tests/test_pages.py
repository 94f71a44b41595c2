"""The code on README and the pages of docs/ runs and prints what the page shows."""

import importlib.util
import shutil
import subprocess
import sys

import pytest

from tests.conftest import ROOT

spec = importlib.util.spec_from_file_location("blocks", ROOT / "docs" / "tools" / "blocks.py")
blocks = importlib.util.module_from_spec(spec)
sys.modules["blocks"] = blocks
spec.loader.exec_module(blocks)

PAGES = [name for name in blocks.pages() if list(blocks.blocks_of((ROOT / name).read_text(encoding="utf-8")))]
NEEDS = {"docs/bridges.md": "ns_gym", "docs/recipes.md": "stable_baselines3", "docs/deep.md": "torch"}


@pytest.mark.parametrize("page", PAGES)
def test_code_on_pages_runs_and_prints_what_the_page_shows(page, tmp_path):
    """After a change that is meant to change the numbers: `python docs/tools/blocks.py --write`."""
    if page in NEEDS:
        pytest.importorskip(NEEDS[page])
    if shutil.which("dqucb", path=str(blocks.BIN)) is None:
        pytest.skip("the command dqucb is not installed")
    outcome = blocks.check(ROOT / page, page, tmp_path)
    assert outcome.problems == []


def test_recipes_are_short_and_whole():
    """What the page promises: fifteen lines of code, blank ones not counted."""
    found = list(blocks.blocks_of((ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")))
    lengths = [sum(bool(line) for line in block.lines) for block in found if block.language == "python"]
    assert len(lengths) >= 6
    assert max(lengths) <= 15
    for block in found:  # each can be copied by itself
        if block.language == "python":
            command = [str(blocks.BIN / "ruff"), "check", "--isolated", "--select", "F821", "-"]
            checked = subprocess.run(command, input="\n".join(block.lines), capture_output=True, text=True)
            assert checked.returncode == 0, checked.stdout


PAGE = """# A page

```python
x = 2
print(x + 1)  # 3
for y in range(2):
    print(y)
```

```text
0
1
```

<!-- not run: a reason -->
```python
raise ValueError
```

```console
$ echo a; echo "b 7 s"
a
b ... s
$ true
```
"""


@pytest.mark.parametrize(
    ("right", "wrong", "problem"),
    [
        ("", "", None),
        ("# 3", "# 4", "page.md:5: shows '4', prints '3'"),
        ("0\n1\n```", "0\n2\n```", "page.md:7: shows ['0', '2'], prints ['0', '1']"),
        ("```text\n0\n1\n```", "Words.", "page.md:7: prints ['0', '1'], which the page does not show"),
        ("<!-- not run: a reason -->\n", "", "page.md:15: ValueError: "),
        ("b ... s", "c ... s", 'page.md:20: `$ echo a; echo "b 7 s"` shows\na\nc ... s\nprints\na\nb 7 s\n'),
        ("$ true", "$ false", "page.md:20: `$ false` fails: "),
        ("```console", "```", "page.md:20: a block is one of python, console, text, bibtex, got ''"),
        ("    print(y)", "    pass", "page.md:7: shows ['0', '1'], prints []"),
        ("x = 2", "x, print = 2, str", "page.md:5: shows an output, but prints nothing"),
    ],
)
def test_a_page_that_does_not_show_what_its_code_prints_is_found(right, wrong, problem, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace(right, wrong))
    assert right in PAGE
    problems = blocks.check(page, "page.md", tmp_path).problems
    assert problems[:1] == ([] if problem is None else [problem])


@pytest.mark.parametrize(
    ("wanted", "new"),
    [
        (["a 1", "b 2 s"], ["title", "a 3", "b 4 s", "end"]),
        (["...", "a 1", "b 2...", "..."], ["...", "a 3", "b 4...", "..."]),
        (["...", "a 1...", "b 2 s", "END"], ["...", "a 3...", "b 4 s", "end"]),
        (["...", "b ... s", "END"], ["...", "b ... s", "end"]),
    ],
)
def test_a_new_output_is_shortened_like_the_old_one(wanted, new):
    assert blocks.rewritten(wanted, ["title", "a 3", "b 4 s", "end"]) == new


def test_outputs_are_written_into_the_page(tmp_path):
    shutil.copytree(ROOT / "docs" / "tools", tmp_path / "docs" / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    wrong = PAGE.replace("# 3", "# 4").replace("0\n1\n```", "?\n```").replace("a\nb ...", "?\nb ...")
    (tmp_path / "README.md").write_text(wrong)
    command = [sys.executable, "docs/tools/blocks.py", "README.md"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 1
    assert subprocess.run([*command, "--write"], cwd=tmp_path, capture_output=True).returncode == 0
    assert (tmp_path / "README.md").read_text() == PAGE
