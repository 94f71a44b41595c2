"""Benchmarks stay on one core, so that a neighbour on the other one changes less."""

from collections.abc import Iterator

import pytest

from benchmarks import workloads


@pytest.fixture(autouse=True)
def pinned() -> Iterator[None]:
    with workloads.one_core():
        yield
