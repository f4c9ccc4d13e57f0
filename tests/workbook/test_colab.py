"""The cell that installs lnlab on Colab: there, nowhere else, and gone without an address."""

import json

import pytest

from lnlab import checkout, workbook
from lnlab.workbook.colab import prepare, source

ADDRESS = "https://example.org/somebody/lnlab"


class Shell:
    """An IPython of which only the name and what it was told are known."""

    def __init__(self, name: str) -> None:
        self.name, self.told = name, []

    def __str__(self) -> str:
        return self.name

    def system(self, command: str) -> None:
        self.told.append(command)

    def run_line_magic(self, name: str, line: str) -> None:
        self.told.append(f"%{name} {line}")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("<google.colab._shell.Shell object at 0x7f>", 2),
        ("<ipykernel.zmqshell.ZMQInteractiveShell object at 0x7f>", 0),
    ],
)
def test_it_installs_on_colab_alone(name, told, monkeypatch):
    monkeypatch.setattr("sys.path", [])
    shell = Shell(name)
    exec(source(ADDRESS), {"get_ipython": lambda: shell})
    assert len(shell.told) == told
    assert all(ADDRESS in command for command in shell.told[:1])


def test_the_cell_comes_and_goes_and_leaves_the_file_as_it_was(tmp_path):
    (first, *_) = workbook.notebooks(checkout.root() / "notebooks")
    path = tmp_path / first.name
    path.write_bytes(first.read_bytes())
    prepare(path, "")
    before = path.read_bytes()
    assert prepare(path, ADDRESS)
    assert not prepare(path, ADDRESS)
    cell = json.loads(path.read_text(encoding="utf-8"))["cells"][1]
    assert "".join(cell["source"]) == source(ADDRESS)
    assert prepare(path, "")
    assert path.read_bytes() == before


@pytest.mark.parametrize("address", ["somebody/lnlab", 'https://x/"; rm -rf ~', "https://a b"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(ValueError, match="give the address"):
        source(address)
