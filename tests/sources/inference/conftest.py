"""What the tests of several sources of inference need."""

from __future__ import annotations

import pytest

from tests.sources.inference.servers import Authority


@pytest.fixture(scope="package")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Certificates, made once."""
    return Authority(tmp_path_factory.mktemp("tls"))
