"""All verdicts as one page, written from the JSON files of the scripts: `python -m reproduce._verdicts`."""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HEAD = """# Verdicts

Written by `python -m reproduce._verdicts` from the JSON files that the scripts leave in `out/reproduce`. Every claim of
the paper, or of this project, that a script checks: whether it holds, and the figures behind it. `reproduce/results/`
says what they mean.
"""
SHOWN = ("ratio", "mean_ours", "mean_theirs", "mean", "probability_lower")


def page(out: Path) -> str:
    """The page, from all finished full runs below `out`."""
    parts = [HEAD]
    for path in sorted(out.glob("*/*.json")):
        verdict = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(verdict, dict) or "claims" not in verdict or verdict.get("quick"):
            continue
        minutes = sum(seconds_of_runs(path.parent)) / 60
        made = f", runs made in {minutes:.0f} min" if minutes >= 1 else ""
        command = f"{verdict['figure']}.py".replace("_data.py", ".py --data FILE")
        command = command.replace("_longer.py", ".py --shift longer")
        parts.append(f"\n## {path.parent.name}\n\n`python reproduce/{command}`{made}\n\n")
        parts.append("| claim | holds | measured |\n|---|---|---|\n")
        for claim in verdict["claims"]:
            holds = "yes" if claim["holds"] else "**no**"
            parts.append(f"| {claim['text']} | {holds} | {figures(claim['measured'])} |\n")
    return "".join(parts)


def seconds_of_runs(folder: Path) -> Iterator[float]:
    """What the sessions of a figure's sweeps took, other work of the machine included."""
    for manifest in folder.rglob("manifest.json"):
        yield from (session["seconds"] for session in json.loads(manifest.read_text())["sessions"])


def figures(measured: dict[str, Any]) -> str:
    """The figures behind a claim in one cell: the common ones if they are there, else all that are short."""
    chosen = {name: measured[name] for name in SHOWN if name in measured} or measured
    if "changes" in measured:
        keep = ("change_at", "before", "lowest_stretch", "end_of_phase", "seeds_fallen", "seeds_recovered")
        chosen = {"changes": [{name: change.get(name) for name in keep} for change in measured["changes"]]}
    text = json.dumps(chosen, separators=(", ", " ")).replace('"', "").replace("|", "/")
    return text.strip("{}") if len(text) <= 700 else f"{text[:697]}..."


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m reproduce._verdicts", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/reproduce"), help="where the scripts left their files")
    parser.add_argument("--to", type=Path, default=Path("reproduce/VERDICTS.md"))
    arguments = parser.parse_args()
    arguments.to.write_text(page(arguments.out), encoding="utf-8")
    print(f"wrote {arguments.to}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
