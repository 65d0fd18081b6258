"""The command `course mcp`: the questions for assistants, over the Model Context Protocol."""

import asyncio
import contextlib
import inspect
import io
import json
import tempfile
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import msgspec
import typer

from course_lib import CourseError
from course_book.answers import refused, schema
from course_press.cli import diagnose, fits, predict, serving, training, verify
from course_press.source.errors import MissingError

app = typer.Typer()
QUESTIONS = (fits.app, predict.app, verify.app, diagnose.app, serving.app, training.app)
# What an assistant may not set: it writes a file, or is fixed.
_LEFT_OUT = {"as_json", "plot", "out"}
# Where a model may be what its config.json holds.
_MODELS = ("model", "claim")


@app.command("mcp")
def mcp_command() -> None:
    """Serve the questions to an assistant, by the protocol MCP.

    Example: `course mcp`
    """
    try:
        import mcp.types as types
        from mcp.server import Server
        from mcp.server.stdio import stdio_server
    except ImportError:
        said = "the package mcp is not installed: pip install 'mcp>=2.3'"
        raise MissingError(said) from None
    known = commands()

    async def listed(*_: Any) -> types.ListToolsResult:
        tools = [
            types.Tool(name=name, description=inspect.getdoc(one), input_schema=takes(one))
            for name, one in known.items()
        ]
        return types.ListToolsResult(tools=tools)

    async def called(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name in known:
            found = ask(known[params.name], params.arguments or {})
        else:
            found = refused(f"tool must be one of {', '.join(known)} (got {params.name!r})")
        text = types.TextContent(type="text", text=json.dumps(found, ensure_ascii=False))
        return types.CallToolResult(content=[text], is_error="error" in found)

    server = Server(
        "course",
        version=version("course-lib"),
        instructions=f"Answers carry their range and sources. Their schema: {json.dumps(schema())}",
        on_list_tools=listed,
        on_call_tool=called,
    )

    async def run() -> None:
        async with stdio_server() as (reads, writes):
            await server.run(reads, writes, server.create_initialization_options())

    asyncio.run(run())


def commands() -> dict[str, Callable[..., Any]]:
    """The questions' functions by their verbs."""
    every = [one for group in QUESTIONS for one in group.registered_commands]
    found = [(one.name, one.callback) for one in every if one.callback is not None]
    return {name or callback.__name__: callback for name, callback in found}


def takes(command: Callable[..., Any]) -> dict[str, Any]:
    """The JSON schema of what a question takes, by the names of its options."""
    properties, required = {}, []
    for name, (_, kind, said, default) in _parameters(command).items():
        found = msgspec.json.schema(kind, schema_hook=lambda _: {"type": "string"})
        if name in _MODELS:
            found = {"type": ["string", "object"]}
        properties[name] = {**found, "description": said}
        if default is inspect.Parameter.empty:
            required.append(name)
    return {"type": "object", "properties": properties, "required": required}


def _parameters(command: Callable[..., Any]) -> dict[str, tuple[str, Any, str, Any]]:
    """By its name on the command line each parameter's own, type, help and default."""
    found = {}
    for name, one in inspect.signature(command).parameters.items():
        if name not in _LEFT_OUT:
            kind, info = get_args(one.annotation)[:2]
            # In an annotation the first name that is given stands where a default would.
            said = info.default if isinstance(info.default, str) else name
            shown = said.lstrip("-").replace("-", "_")
            found[shown] = name, kind, info.help or "", one.default
    return found


def ask(command: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What a question is answered with as JSON, or the error as data."""
    known = _parameters(command)
    if lost := [name for name in given if name not in known]:
        return refused(f"argument must be one of {', '.join(known)} (got {lost[0]!r})")
    out = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(out):
        asked: dict[str, Any] = {"as_json": True}
        for name, (own, kind, _, default) in known.items():
            if name not in given and default is inspect.Parameter.empty:
                return refused(f"{name} must be given (got nothing): see the tool's schema")
            if name not in given:
                continue
            value = given[name]
            if value == "-":
                return refused(f"{name} must be a key, a path or an object (got '-')")
            if name in _MODELS and isinstance(value, dict):  # as the assistant holds it
                place = Path(folder) / "config.json"
                place.write_text(json.dumps(value), encoding="utf-8")
                value = str(place)
            try:
                made = msgspec.convert(value, kind, dec_hook=lambda of, one: of(one))
            except (msgspec.ValidationError, TypeError) as error:
                return refused(f"{name} must be of its type: {error} (got {value!r})")
            asked[own] = made
        try:
            command(**asked)
        except CourseError as refusal:
            return refused(str(refusal))
        except (typer.Exit, SystemExit):  # has printed what is wrong
            pass
    found = json.loads(out.getvalue())
    return found if isinstance(found, dict) else {"layouts": found}
