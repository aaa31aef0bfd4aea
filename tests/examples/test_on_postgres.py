"""The sample product on a real PostgreSQL; skipped, with the reason, where it is not installed."""

from __future__ import annotations

import pytest

from examples.tasks.app import Settings, create_app
from tests.examples.task_visitor import QUICK, SITE, Visitor
from tests.postgres import empty_database, shared_postgres  # noqa: F401 - the fixtures

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.mark.requirement("XL-130", "XL-134", "XL-135")
def test_product_stores_accounts_tokens_keys_and_tasks_in_postgres(empty_database: str) -> None:  # noqa: F811 - the fixture
    app = create_app(Settings(url=SITE, database=empty_database, api_keys=True, hasher=QUICK))
    ada, bob = Visitor(app, "Ada"), Visitor(app, "Bob")
    made = ada.http.post("/api/tasks", json={"name": "Read", "dueDate": "2027-03-01"}, headers=ada.token("tasks:write"))
    assert made.status_code == 201
    path = f"/api/tasks/{made.json()['id']}"
    assert bob.http.get(path, headers=bob.key()).status_code == 404
    key = ada.key()
    assert ada.http.get(path, headers=key).json() == made.json()
    assert ada.http.patch(path, json={"dueDate": None}, headers=key).json() == {**made.json(), "dueDate": None}
    assert ada.http.delete(path, headers=key).status_code == 204
    assert ada.http.get("/api/tasks", headers=key).json() == []
    assert "Nothing to do." in ada.http.get("/").text
