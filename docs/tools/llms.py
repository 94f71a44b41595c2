"""A hook of MkDocs: `llms.txt` and a Markdown twin of each page, for readers that are programs (llmstxt.org).

The twin of `guide/index.html` is `guide/index.html.md`. The reference is left out: docstrings are in the package.
"""

from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig

SKIPPED = ("reference/",)
pages: dict[str, tuple[str, str]] = {}  # URL -> title, Markdown


def on_page_markdown(markdown: str, page: Any, **_: Any) -> None:
    """Remember the Markdown of a page."""
    if not page.url.startswith(SKIPPED):
        pages[page.url] = (str(page.title), markdown)


def on_post_build(config: MkDocsConfig) -> None:
    """Write the twins and their list."""
    site = Path(config.site_dir)
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", "", "## Pages", ""]
    for url, (title, markdown) in sorted(pages.items()):
        twin = f"{url}index.html.md"
        (site / twin).parent.mkdir(parents=True, exist_ok=True)
        (site / twin).write_text(markdown, encoding="utf-8")
        lines.append(f"- [{title}]({twin})")
    (site / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
