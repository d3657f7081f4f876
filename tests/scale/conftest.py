"""One cluster of real processes for the tests of each module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from scale_support import local_cluster


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """A client of two worker processes."""
    with local_cluster() as client:
        yield client
