"""What the documents tell a reader to open, to type and to run is there, and runs."""

import re
import runpy
from inspect import ismodule
from pathlib import Path

import click
import plotly.io
import pytest
import torch

import lnlab
from lnlab.cli import app

ROOT = Path(__file__).parents[1]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
NAMES = [str(path.relative_to(ROOT)) for path in DOCUMENTS]


def blocks(language: str) -> list:
    """Every block of code in a language, by document and number."""
    found = []
    for name, path in zip(NAMES, DOCUMENTS, strict=True):
        texts = re.findall(rf"```{language}\n(.*?)```", path.read_text(), flags=re.DOTALL)
        found += [pytest.param(text, id=f"{name}-{n}") for n, text in enumerate(texts)]
    return found


@pytest.mark.parametrize("path", DOCUMENTS, ids=NAMES)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text()):
        if not target.startswith("http"):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=NAMES)
def test_files_that_are_named_are_there(path):
    for name in re.findall(r"`([a-z_]+/[\w/.]+\.(?:py|md|js|h|ipynb))`", path.read_text()):
        places = (ROOT / name, ROOT / "lnlab" / name)
        assert any(place.is_file() for place in places), f"{path.name} names {name}"


@pytest.mark.parametrize("code", blocks("python"))
def test_examples_run(code, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plotly.io.renderers, "default", "json")  # and opens no browser
    torch.set_default_dtype(torch.float32)  # as a reader's Python has it
    exec(compile(code, "example", "exec"), {})


def test_the_page_of_public_names_is_what_the_docstrings_say():
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    page = runpy.run_path(str(ROOT / "docs" / "make_api.py"))["page"]
    assert text == page(), "docs/api.md is stale: make docs"
    examples = {
        entry.splitlines()[0]: "```python" in entry for entry in text.split("\n### ")[1:]
    }
    functions = [name for name in lnlab.__all__ if not ismodule(getattr(lnlab, name))]
    assert {f"lnlab.{name}" for name in functions} <= examples.keys()
    assert [name for name, shown in examples.items() if not shown] == ["lnlab.data.fetch"]


def commands() -> list[str]:
    """Every ``lnlab ...`` that a document shows as code, up to its first argument."""
    texts = [path.read_text() for path in DOCUMENTS]
    return sorted({word for text in texts for word in re.findall(r"`lnlab ([a-z]+)", text)})


@pytest.mark.parametrize("name", commands())
def test_commands_exist(name):
    assert app.get_command(click.Context(app), name) is not None
