"""A hook of MkDocs: pages made of files that others keep up to date, so that no figure is copied by hand.

reproduce/README.md and reproduce/VERDICTS.md become one page for each script, benchmarks/README.md and
benchmarks/drift_report.md one page, and CHANGELOG.md and CONTRIBUTING.md one each.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

FOLDER = "reproduction"
PICTURES = Path("reproduce/pictures")
SOURCE = "https://github.com/dqucb/dqucb/blob/main/"
IMAGE = re.compile(r"!\[([^]]*)\]\(pictures/([^)]+)\)")
LINK = re.compile(r"(?<!!)\[([^]]+)\]\((?!https?:|#)([^)]+)\)")
SCRIPT = re.compile(r"^\|\s*`(\w+)\.py`")


def on_config(config: MkDocsConfig) -> None:
    """Put the pages into the navigation."""
    pages = [f"{FOLDER}/index.md", *(f"{FOLDER}/{name}.md" for name in scripts(rows_of(reproduction())))]
    config.nav = [{"Reproduction": pages} if item == {"Reproduction": f"{FOLDER}/"} else item
                  for item in config.nav or []]  # fmt: skip


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and their pictures."""
    pages = {f"{FOLDER}/{name}": text for name, text in reproduction_pages().items()}
    pages["benchmarks.md"] = benchmarks()
    pages["changelog.md"] = text_of("CHANGELOG.md")
    pages["contributing.md"] = LINK.sub(rf"[\1]({SOURCE}\2)", text_of("CONTRIBUTING.md"))
    for uri, content in pages.items():
        files.append(File.generated(config, uri, content=content))
    for picture in sorted(PICTURES.glob("*.png")):
        files.append(File.generated(config, f"{FOLDER}/pictures/{picture.name}", content=picture.read_bytes()))
    return files


def text_of(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


def reproduction() -> str:
    return text_of("reproduce/README.md")


def benchmarks() -> str:
    """Speed and growth, then the drift harness."""
    picture = "![Time of a step against the window](reproduction/pictures/complexity_n.png)"
    drift = re.sub(r"^#", "##", text_of("benchmarks/drift_report.md"), flags=re.MULTILINE)
    return f"{text_of('benchmarks/README.md')}\n\n{picture}\n\n{drift}"


# ---- the reproduction ---------------------------------------------------------------------------------------


def rows_of(text: str) -> list[tuple[str, str]]:
    """The rows of the table of verdicts as (script, row); a row without a script belongs to the one above."""
    rows: list[tuple[str, str]] = []
    name = ""
    for line in text.split("\n## ")[0].splitlines():
        if found := SCRIPT.match(line):
            name = found[1]
        if name and line.startswith("|"):
            rows.append((name, line))
    return rows


def scripts(rows: list[tuple[str, str]]) -> list[str]:
    """Each script once, in order."""
    return list(dict.fromkeys(name for name, _ in rows))


def sections(text: str) -> dict[str, str]:
    """Heading -> body, below headings of the second level."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def named_in(heading: str, body: str, names: list[str]) -> list[str]:
    """The scripts that a section is about: by number in its heading, by its pictures, or by name in its text."""
    numbers = {f"{number:0>2}{letter}" for number, letter in re.findall(r"\b(\d+)([a-c]?)\b", heading)}
    kind = "tab" if heading.startswith("Table") else "fig" if heading.startswith("Figure") else None
    found = [name for name in names if kind and name.startswith(kind) and name[3:].split("_")[0] in numbers]
    found += [name for name in names if f"(pictures/{name}" in body]
    found = found or [name for name in names if f"`{name}.py`" in body or f"reproduce/{name}.py" in body]
    return list(dict.fromkeys(found))


def title_of(name: str) -> str:
    """ "fig03a_gridworld" -> "Figure 3a: gridworld"."""
    if found := re.fullmatch(r"(fig|tab)0*(\d+[a-c]?)_(\w+)", name):
        return f"{'Figure' if found[1] == 'fig' else 'Table'} {found[2]}: {found[3].replace('_', ' ')}"
    return name.replace("_", " ").capitalize()


def reproduction_pages() -> dict[str, str]:
    """File name -> Markdown."""
    text = reproduction()
    rows = rows_of(text)
    names = scripts(rows)
    verdicts = sections(text_of("reproduce/VERDICTS.md"))
    about = {heading: named_in(heading, body, names) for heading, body in sections(text).items()}
    head = "| command: `python reproduce/...` | min | claim | verdict | why, in a line |\n|---|---|---|---|---|"
    pages = {}
    for name in names:
        parts = [f"# {title_of(name)}", "\n".join([head, *(row for owner, row in rows if owner == name)])]
        for heading, body in sections(text).items():
            if name in about[heading]:
                own = only_pictures_of(name, body) if len(about[heading]) > 1 else body
                parts.append(f"## {heading}\n{own}")
        parts += [f"## Every claim of {found}\n{body}" for found, body in verdicts.items() if found.startswith(name)]
        pages[f"{name}.md"] = "\n\n".join(parts)
    intro = text.split("\n## ")[0]
    linked = re.sub(r"^\| `(\w+)\.py`", r"| [`\1.py`](\1.md)", intro, flags=re.MULTILINE)
    general = [f"## {heading}\n{body}" for heading, body in sections(text).items() if not about[heading]]
    pages["index.md"] = "\n\n".join([linked, *general])
    return pages


def only_pictures_of(name: str, body: str) -> str:
    """A section that several figures share, without the pictures of the others."""
    return IMAGE.sub(lambda found: found[0] if found[2].startswith(name.split("_")[0]) or found[2].startswith(name)
                     else "", body)  # fmt: skip
