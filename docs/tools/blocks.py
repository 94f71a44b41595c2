"""Runs the code blocks of README.md and docs/ and compares what they print with what the page shows.

    python docs/tools/blocks.py                          # check every page
    python docs/tools/blocks.py --write README.md        # put what was printed into the page

The blocks of a page run in order, in one empty folder and one namespace:

- `python`: a line that prints ends with a comment that holds its output, `print(1 + 1)  # 2`; what other lines print
  stands in a `text` block right after the code.
- `console`: lines that begin with `$ ` are commands and the lines after a command are its standard output, where `...`
  stands for anything. A command without such lines has only to succeed.
- `text`, `bibtex`: formulas and files, not run.

A block after the line `<!-- not run: REASON -->` is not run. A block without a language is an error.
"""

import argparse
import difflib
import doctest
import os
import re
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
RUN, SHOWN = ("python", "console"), ("text", "bibtex")
FENCE = re.compile(r"```(.*)")
REASON = re.compile(r"<!-- not run: (.+) -->")
COMMENT = re.compile(r"(.*\))  # (.*)")
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def pages() -> list[str]:
    """README and the pages written by hand, relative to the repository."""
    return ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]


@dataclass
class Block:
    """A fenced block: its language, its lines, the index of its first line, and why it is not run."""

    language: str
    lines: list[str]
    first: int
    reason: str | None = None
    follows_code: bool = False  # only blank lines lie between it and the block before

    @property
    def last(self) -> int:
        return self.first + len(self.lines)


@dataclass
class Outcome:
    """What is wrong on a page, the lines that it should have, and the CPU seconds of each block."""

    problems: list[str] = field(default_factory=list)
    changes: list[tuple[int, int, list[str]]] = field(default_factory=list)  # first line, end, new lines
    seconds: dict[str, float] = field(default_factory=dict)


def blocks_of(text: str) -> Iterator[Block]:
    """The fenced blocks of a page."""
    reason, follows, block = None, False, None
    for number, line in enumerate(text.splitlines()):
        if block is None:
            if fence := FENCE.fullmatch(line):
                block = Block(fence[1], [], number + 1, reason, follows)
            elif line.strip():
                found = REASON.fullmatch(line)
                reason, follows = found[1] if found else None, False
        elif line == "```":
            yield block
            reason, follows, block = None, True, None
        else:
            block.lines.append(line)


def check(page: Path, name: str, folder: Path) -> Outcome:
    """Run the blocks of a page in a folder."""
    outcome = Outcome()
    module = types.ModuleType("__main__")  # classes and functions that are registered need a module
    module.__dict__["print"] = printer = Printer(name)
    blocks = list(blocks_of(page.read_text(encoding="utf-8")))
    for block, after in zip(blocks, [*blocks[1:], None], strict=False):
        where = f"{name}:{block.first}"
        if block.language not in RUN + SHOWN:
            outcome.problems.append(f"{where}: a block is one of {', '.join(RUN + SHOWN)}, got {block.language!r}")
        if block.language not in RUN or block.reason is not None:
            continue
        start = cpu_seconds()
        try:
            with chdir(folder):
                if block.language == "console":
                    run_console(block, where, outcome)
                else:
                    source = "\n" * block.first + "\n".join(block.lines)
                    exec(compile(source, name, "exec"), module.__dict__)
                    shown = after if after and after.follows_code and after.language == "text" else None
                    compare_printed(block, shown, printer, name, outcome)
        except Exception as error:
            outcome.problems.append(f"{where}: {type(error).__name__}: {error}")
        outcome.seconds[where] = cpu_seconds() - start
    return outcome


class Printer:
    """Stands for `print` and remembers which line printed what."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.printed: list[tuple[int, str]] = []

    def __call__(self, *values: Any, sep: str = " ", end: str = "\n", **_: Any) -> None:
        self.printed.append((sys._getframe(1).f_lineno, sep.join(map(str, values))))


def compare_printed(block: Block, shown: Block | None, printer: Printer, name: str, outcome: Outcome) -> None:
    """Compare what each line printed with its comment, or with the block after."""
    rest: list[str] = []
    printed, printer.printed = printer.printed, []
    for number, text in printed:
        line = block.lines[number - 1 - block.first]
        if (comment := COMMENT.fullmatch(line)) is None:
            rest += text.splitlines()
        elif comment[2] != text:
            outcome.problems.append(f"{name}:{number}: shows {comment[2]!r}, prints {text!r}")
            outcome.changes.append((number - 1, number, [f"{comment[1]}  # {text}"]))
    silent = [
        number
        for number, line in enumerate(block.lines, block.first + 1)
        if COMMENT.fullmatch(line) and line.lstrip().startswith("print(") and number not in dict(printed)
    ]
    outcome.problems += [f"{name}:{number}: shows an output, but prints nothing" for number in silent]
    wanted = [] if shown is None else shown.lines
    if rest and shown is None:
        outcome.problems.append(f"{name}:{block.last}: prints {rest}, which the page does not show")
    elif [line.rstrip() for line in rest] != wanted and not matches(wanted, rest):
        outcome.problems.append(f"{name}:{block.last}: shows {wanted}, prints {rest}")
        outcome.changes.append((shown.first, shown.last, [line.rstrip() for line in rest]))  # type: ignore[union-attr]


def run_console(block: Block, where: str, outcome: Outcome) -> None:
    """Run the commands of a block and compare their outputs."""
    starts = [number for number, line in enumerate(block.lines) if line.startswith("$ ")]
    if not starts or starts[0] > 0:
        outcome.problems.append(f"{where}: a console block begins with a command: `$ ...`")
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    for start, end in zip(starts, [*starts[1:], len(block.lines)], strict=True):
        finished = subprocess.run(
            ["bash", "-c", block.lines[start][2:]],
            env={**os.environ, "PATH": path, "PYTHONPATH": paths, "COLUMNS": "120"},
            capture_output=True,
            text=True,
        )
        wanted, got = block.lines[start + 1 : end], [line.rstrip() for line in finished.stdout.splitlines()]
        if finished.returncode != 0:
            outcome.problems.append(f"{where}: `{block.lines[start]}` fails: {finished.stderr or finished.stdout}")
        elif wanted and not matches(wanted, got):
            outcome.problems.append(f"{where}: `{block.lines[start]}` shows\n{text_of(wanted)}prints\n{text_of(got)}")
            outcome.changes.append((block.first + start + 1, block.first + end, rewritten(wanted, got)))


def rewritten(wanted: list[str], got: list[str]) -> list[str]:
    """The new output, shortened like the old one: `...` stays at both ends, and at the end of a line at its place."""
    before, after = wanted[0] == "...", wanted[-1] == "..."
    old = wanted[before : len(wanted) - after]
    starts = range(max(0, len(got) - len(old)) + 1) if before or after else [0]
    like = {start: sum(map(alike, old, got[start:])) for start in starts}
    best = max(like, key=lambda start: like[start])
    new = got[best : best + len(old)] if before or after else got
    ends = [len(line) - 3 if line.endswith("...") else None for line in old] + [None] * len(got)
    lines = [line if end is None else f"{line[:end]}..." for line, end in zip(new, ends, strict=False)]
    if len(old) == len(lines):
        lines = [mine if matches([mine], [line]) else line for mine, line in zip(old, lines, strict=True)]
    return ["..."] * before + lines + ["..."] * after


def alike(old: str, new: str) -> float:
    return difflib.SequenceMatcher(None, old, new).ratio()


def matches(wanted: list[str], got: list[str]) -> bool:
    return doctest.OutputChecker().check_output(text_of(wanted), text_of(got), OPTIONS)


def text_of(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def cpu_seconds() -> float:
    """CPU time of this process and of those that it has waited for."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", help="such as README.md; all of them without it")
    parser.add_argument("--write", action="store_true", help="put what was printed into the pages")
    given = parser.parse_args()
    failed = False
    for name in given.pages or pages():
        page, began = ROOT / name, time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            outcome = check(page, name, Path(folder))
        print(f"{name}: {len(outcome.seconds)} blocks, {sum(outcome.seconds.values()):.1f} CPU s, "
              f"{time.perf_counter() - began:.1f} s", flush=True)  # fmt: skip
        slow = {where: seconds for where, seconds in outcome.seconds.items() if seconds > 2.0}
        print("".join(f"  {where} {seconds:.1f} CPU s\n" for where, seconds in slow.items()), end="")
        print("".join(f"  {problem}\n" for problem in outcome.problems), end="", flush=True)
        if given.write and outcome.changes:
            lines = page.read_text(encoding="utf-8").splitlines()
            for first, end, new in sorted(outcome.changes, reverse=True):
                lines[first:end] = new
            page.write_text(text_of(lines), encoding="utf-8")
        failed |= bool(outcome.problems)
    sys.exit(failed and not given.write)


if __name__ == "__main__":
    main()
