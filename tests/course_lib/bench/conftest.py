import pytest

from course_lib.bench import products, record
from course_lib.bench.device import Observed
from tests.course_lib.bench.fakes import H100


@pytest.fixture
def fake(monkeypatch):
    """Puts a simulated device in the place of the real one."""

    def put(library, here=H100, seen=None):
        monkeypatch.setattr(products, "arrays", lambda kind: library)
        monkeypatch.setattr(products, "machine", lambda kind: here)
        monkeypatch.setattr(record, "observe", lambda kind: seen or Observed())
        return library

    return put
