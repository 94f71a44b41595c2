"""A hook of MkDocs: pages made of files that others keep up to date, so that no figure is copied by hand.

reproduce/results/ and reproduce/VERDICTS.md become one page for each script, benchmarks/README.md and
benchmarks/drift_report.md one page, and CHANGELOG.md and CONTRIBUTING.md one each.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

FOLDER = "reproduction"
PICTURES = Path("reproduce/pictures")
SOURCE = "https://github.com/dqucb/dqucb/blob/main/"
LINK = re.compile(r"(?<!!)\[([^]]+)\]\((?!https?:|#)([^)]+)\)")
PICTURE = re.compile(r"^!\[([^]]*)\]\(([^)]+\.png)\)$", re.MULTILINE)
PAGE = re.compile(r"\]\(results/(\w+)\.md\)")


def on_config(config: MkDocsConfig) -> None:
    """Put the pages into the navigation."""
    pages = [f"{FOLDER}/index.md", *(f"{FOLDER}/{name}.md" for name in scripts())]
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
    drift = drift.replace("](../docs/pictures/", "](pictures/")
    return f"{text_of('benchmarks/README.md')}\n\n{picture}\n\n{drift}"


# ---- the reproduction ---------------------------------------------------------------------------------------


def scripts() -> list[str]:
    """The scripts in the order of the table of verdicts."""
    return PAGE.findall(reproduction())


def reproduction_pages() -> dict[str, str]:
    """File name -> Markdown: the table of verdicts, and a page for each script with every claim that it checks."""
    parts = re.split(r"^## (.+)$", text_of("reproduce/VERDICTS.md"), flags=re.MULTILINE)[1:]
    verdicts = dict(zip(parts[::2], parts[1::2], strict=True))
    pages = {"index.md": PAGE.sub(r"](\1.md)", reproduction())}
    for name in scripts():
        text = text_of(f"reproduce/results/{name}.md")
        page = [text.replace("](../pictures/", "](pictures/").replace("](../../docs/", "](../")]
        page += [f"## Every claim of {found}\n{body}" for found, body in verdicts.items() if found.startswith(name)]
        pages[f"{name}.md"] = PICTURE.sub(r"[![\1](\2)](\2)", "\n\n".join(page))  # opens in full size
    return pages
