"""What assistants can do: five operations, each with its scope and its policy on one line with the code."""

# No ``from __future__ import annotations``: FastAPI reads the annotations of the operations below.

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Path, Request, Response, Security
from fastapi.routing import APIRoute
from fastapi.security import APIKeyHeader, OAuth2AuthorizationCodeBearer, SecurityScopes
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import from_json

from toolwire.integrations.fastapi import x_llm
from toolwire.server import Callers

from .callers import user_of
from .store import Status, Store, Task, TooManyError
from .values import Description, Due, Name

SCOPES = {"tasks:read": "See your tasks", "tasks:write": "Add and change your tasks", "tasks:delete": "Delete tasks"}

TaskId = Annotated[str, Path(max_length=16, description="The id of the task, as listTasks gives it.")]


class NewTask(BaseModel):
    """What a task is made of."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[Name, Field(description="What there is to do.")]
    description: Annotated[Description, Field(description="More about it.")] = ""
    dueDate: Annotated[Due, Field(description="The last day for it.")] = None  # noqa: N815 - as the API says it
    status: Annotated[Status, Field(description="How far it is.")] = "todo"


class TaskChange(BaseModel):
    """What is to be different; what is left out stays as it is."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[Name | None, Field(description="What there is to do.")] = None
    description: Annotated[Description | None, Field(description="More about it.")] = None
    dueDate: Annotated[Due, Field(description="The last day for it; null takes it away.")] = None  # noqa: N815 - as above
    status: Annotated[Status | None, Field(description="How far it is.")] = None


class StrictRequest(Request):
    """A request whose JSON is JSON: no NaN, no Infinity, no half of a character, which Python's reader lets through."""

    async def json(self) -> Any:
        """Return the data of the body.

        Raises:
            HTTPException: it is no JSON.
        """
        try:
            return from_json(await self.body(), allow_inf_nan=False)
        except ValueError as error:
            raise HTTPException(400, f"The body is no valid JSON: {error}.") from error


class StrictRoute(APIRoute):
    """A route whose requests are strict about JSON."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        answer = super().get_route_handler()

        async def handle(request: Request) -> Response:
            return await answer(StrictRequest(request.scope, request.receive))

        return handle


def api(store: Store, callers: Callers, *, keys: bool) -> APIRouter:
    """Return the operations on ``store`` for whoever ``callers`` know; ``keys`` says that API keys are taken too."""
    router = APIRouter(prefix="/api", tags=["tasks"], route_class=StrictRoute)
    user = _user(callers, keys=keys)
    reads, writes, deletes = (Security(user, scopes=[scope]) for scope in SCOPES)

    @router.get(
        "/tasks",
        operation_id="listTasks",
        summary="List the tasks",
        openapi_extra=x_llm(approval="auto", hint="Use to see what there is to do, and to find the id of a task."),
    )
    def list_tasks(status: Status | None = None, owner: str = reads) -> list[Task]:
        return store.tasks(owner, status)

    @router.get("/tasks/{taskId}", operation_id="getTask", summary="Get one task", openapi_extra=x_llm(approval="auto"))
    def get_task(taskId: TaskId, owner: str = reads) -> Task:  # noqa: N803 - as the API says it
        return _found(store.task(owner, taskId))

    @router.post(
        "/tasks",
        operation_id="createTask",
        summary="Add a task",
        status_code=201,
        openapi_extra=x_llm(
            approval="per-call", blanket_allowed=True, hint="Use when the user wants to remember something to do."
        ),
    )
    def create_task(task: NewTask, owner: str = writes) -> Task:
        try:
            return store.add(owner, task.model_dump())
        except TooManyError as error:
            raise HTTPException(409, str(error)) from error

    @router.patch(
        "/tasks/{taskId}",
        operation_id="updateTask",
        summary="Change a task",
        openapi_extra=x_llm(approval="per-call", blanket_allowed=True, hint="Use to rename, reschedule or finish it."),
    )
    def update_task(taskId: TaskId, task: TaskChange, owner: str = writes) -> Task:  # noqa: N803 - as the API says it
        given = task.model_dump(exclude_unset=True)
        kept = {name: value for name, value in given.items() if value is not None or name == "dueDate"}
        return _found(store.change(owner, taskId, kept))

    @router.delete(
        "/tasks/{taskId}",
        operation_id="deleteTask",
        summary="Delete a task for good",
        status_code=204,
        response_class=Response,
        openapi_extra=x_llm(approval="per-call", destructive=True, blanket_allowed=False),
    )
    def delete_task(taskId: TaskId, owner: str = deletes) -> None:  # noqa: N803 - as the API says it
        if not store.delete(owner, taskId):
            raise _NO_TASK

    return router


def _user(callers: Callers, *, keys: bool) -> Any:
    """Return a dependency that gives the person's id; its scopes are enforced, and stand in the document."""
    oauth = OAuth2AuthorizationCodeBearer(
        authorizationUrl="/oauth/authorize",
        tokenUrl="/oauth/token",
        refreshUrl="/oauth/token",
        scopes=SCOPES,
        scheme_name="oauth2",
        auto_error=False,
    )
    shown = [Security(oauth)]
    if keys:
        shown.append(Depends(APIKeyHeader(name="X-API-Key", scheme_name="apiKey", auto_error=False)))

    async def documented(_oauth: Any = shown[0], _key: Any = shown[-1]) -> None:
        """Take nothing: these parameters are for the document, ``user_of`` reads the request."""

    async def user(request: Request, scopes: SecurityScopes, _: None = Depends(documented)) -> str:
        return await user_of(callers, request, scopes)

    return user


def _found(task: Task | None) -> Task:
    if task is None:
        raise _NO_TASK
    return task


_NO_TASK = HTTPException(404, "You have no such task: listTasks shows those you have.")
