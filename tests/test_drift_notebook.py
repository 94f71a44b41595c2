"""The notebook "Is my environment drifting?" runs from top to bottom and finds what it says."""

import re
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

NOTEBOOK = Path(__file__).parent.parent / "docs" / "notebooks" / "is_my_environment_drifting.ipynb"


@pytest.fixture(scope="module")
def printed():
    """What each code cell printed, by its first line."""
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert all(not cell.outputs for cell in notebook.cells if cell.cell_type == "code"), "commit it without outputs"
    nbclient.NotebookClient(notebook, timeout=int(PATIENCE), kernel_name="python3").execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return ["".join(output.get("text", "") for output in cell.outputs) for cell in cells]


def alarms(text):
    return [int(number) for number in re.findall(r"alarm at (?:step |line )?(\d+)", text)]


def test_every_change_is_found_and_nothing_else(printed):
    stream, _, lake, pendulum, agent, _, file = printed
    for text, change, latest in ((stream, 4_000, 4_500), (lake, 10_000, 11_000), (pendulum, 4_000, 4_500)):
        assert len(alarms(text)) == 1
        assert change <= alarms(text)[0] < latest
    assert 4_000 <= alarms(file)[0] < 4_300
    dates = [int(number) for number in re.findall(r"\d+", agent.split("delay")[0])]
    assert 300 <= dates[0] < 400
