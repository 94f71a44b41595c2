"""A small corpus from what guided fuzzing kept: the files that together reach the most lines of dqucb.

    python -m tests.campaigns.fuzz_guided --minutes 5 --out out/guided
    python -m tests.campaigns.fuzz_corpus --found out/guided --corpus tests/corpus --most 6

Of each loader the file that reaches most new lines is taken, the smaller one of two alike, until there are `--most` of
them or nothing new is reached. Files in DIR/LOADER/crash-* come first, whatever they reach.
tests/test_campaigns_corpus.py loads them all.
"""

import argparse
import json
import shutil
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

LARGEST = 8_192  # bytes of a file that is kept

Lines = frozenset[tuple[str, int]]


def reached(load: Callable[[Path], Any], path: Path) -> Lines:
    """The lines of dqucb that run while a file is loaded and used."""
    found: set[tuple[str, int]] = set()

    def in_a_function(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            found.add((frame.f_code.co_filename, frame.f_lineno))
        return in_a_function

    def at_a_call(frame: FrameType, event: str, _: Any) -> Any:
        return in_a_function if "/dqucb/" in frame.f_code.co_filename else None

    sys.settrace(at_a_call)
    try:
        with suppress(ValueError):
            load(path)
    finally:
        sys.settrace(None)
    return frozenset(found)


def chosen(lines: dict[Path, Lines], known: Lines, most: int) -> list[Path]:
    """Files that reach lines which are not known, the most at a time."""
    found: list[Path] = []
    seen = set(known)
    while len(found) < most:
        best = max(lines, key=lambda path: (len(lines[path] - seen), -path.stat().st_size), default=None)
        if best is None or not lines[best] - seen:
            break
        found.append(best)
        seen |= lines[best]
    return found


def main() -> None:
    """Choose files of every loader and copy them."""
    from tests.campaigns.fuzz_targets import LOADERS, targets

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--found", type=Path, default=Path("out/guided"))
    parser.add_argument("--corpus", type=Path, default=Path("tests/corpus"))
    parser.add_argument("--most", type=int, default=6)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for loader in LOADERS:
        name = loader.replace(" ", "-")
        kept = [path for path in (given.found / name).glob("corpus/*") if path.stat().st_size <= LARGEST]
        if not kept:
            continue
        target = targets((loader,))[loader]
        copy = given.found / f"one{target.suffix}"
        lines = {}
        for path in kept:
            copy.write_bytes(path.read_bytes())
            lines[path] = reached(target.load, copy)
        known: set[tuple[str, int]] = set()
        for sample in target.samples:
            copy.write_bytes(sample)
            known |= reached(target.load, copy)
        copy.unlink()
        crashes = sorted((given.found / name).glob("crash-*"))
        files = crashes + chosen(lines, frozenset(known), given.most)
        for number, path in enumerate(files):
            target_path = given.corpus / name / f"{number}{target.suffix}"
            target_path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target_path)
        new = len(frozenset().union(*(lines[path] for path in files if path in lines)) - known)
        said = {"loader": loader, "of": len(kept), "taken": len(files), "lines of whole files": len(known), "more": new}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
