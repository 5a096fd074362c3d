"""The site besides its Markdown: notebooks as pages, and links to files outside `docs/`."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

#: The model card lies beside the models; the site has it as a page.
_CARD = re.compile(r"\]\(\.\./\.\./resources/models/README\.md")
#: A link to a notebook leads to its page.
_NOTEBOOK = re.compile(r"(\]\((?!https?:)[^)\s]*)\.ipynb\)")
#: The colours of a terminal.
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
#: What pandas adds to a table; the site has a style of its own.
_PANDAS = re.compile(
    r'<style scoped>.*?</style>|(?<=<table) border="1" class="dataframe"|'
    r' style="text-align: right;"',
    re.DOTALL,
)
_IMAGES = ("image/svg+xml", "image/png")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each notebook. The notebook itself stays, as a file to download."""
    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        page = file.src_uri.removesuffix(".ipynb") + ".md"
        files.append(File.generated(config, page, content=_page(file)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Point links at pages of the site."""
    return _NOTEBOOK.sub(r"\1.md)", _CARD.sub("](../reference/model-card.md", markdown))


def _page(file: File) -> str:
    notebook = json.loads(file.content_string)
    name = file.src_uri.rpartition("/")[2]
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        language = "sh" if source.startswith("%%bash") else "python"
        parts.append(f"```{language}\n{source}\n```")
        parts += [_output(output) for output in cell["outputs"]]
    # An attribute, because links in Markdown to a notebook lead to its page.
    parts.insert(1, f'<p><a href="../{name}" download>Download this page as a notebook</a></p>')
    return "\n\n".join(parts)


def _output(output: dict[str, Any]) -> str:
    """The richest form of a cell's output."""
    if output["output_type"] == "stream":
        return _plain("".join(output["text"]))
    forms = {kind: "".join(text) for kind, text in output["data"].items()}
    if "text/html" in forms:
        # Without empty lines, which end a block of HTML in Markdown.
        lines = (line for line in _PANDAS.sub("", forms["text/html"]).splitlines() if line.strip())
        return '<div class="output">\n' + "\n".join(lines) + "\n</div>"
    if "text/markdown" in forms:
        return forms["text/markdown"]
    for kind in _IMAGES:
        if kind in forms:
            # An image has styles of its own, which must not reach the page.
            data = forms[kind] if kind == "image/png" else _base64(forms[kind])
            return f'<img src="data:{kind};base64,{data}" alt="Output of the cell above">'
    return _plain(forms["text/plain"])


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _plain(text: str) -> str:
    return "```text\n" + _COLOURS.sub("", text).rstrip() + "\n```"
