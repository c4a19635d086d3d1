"""The rules: each a function from a source to what it finds, with what right looks like in the text."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from .source import NESTED, Function, Source, below, last_part

__all__ = ["RULES", "Found", "Rule"]


class Found(NamedTuple):
    """Where, and what. A comment on any of the lines can allow it."""

    lines: range
    text: str


Rule: TypeAlias = Callable[[Source], Iterator[Found]]

RAW_GROUPS = {
    "anyio.create_task_group",
    "asyncio.TaskGroup",
    "asyncio.as_completed",
    "asyncio.create_task",
    "asyncio.ensure_future",
    "asyncio.gather",
    "asyncio.run_coroutine_threadsafe",
    "asyncio.shield",
    "trio.lowlevel.spawn_system_task",
    "trio.open_nursery",
}
RAW_SCOPES = {
    "anyio.CancelScope",
    "anyio.fail_after",
    "anyio.move_on_after",
    "asyncio.timeout",
    "asyncio.timeout_at",
    "asyncio.wait_for",
    "trio.CancelScope",
    "trio.fail_after",
    "trio.fail_at",
    "trio.move_on_after",
    "trio.move_on_at",
}
OUR_SCOPES = {"Scope", "deadline", "graced", "tasks"}
TOPS = {"anyio.run", "asyncio.run", "trio.run"}
CANCELLATIONS = {"BaseException", "asyncio.CancelledError", "trio.Cancelled"}
OS_ERRORS = {"EnvironmentError", "IOError", "OSError", "select.error", "socket.error"}
STOPS = {
    "Cancelled",
    "DeadlinePassed",
    "Stop",
    "TimeoutError",
}  # an earlier handler for one of them keeps stops from OSError
LOG_METHODS = {"critical", "error", "exception", "warning"}


def raw_tasks(source: Source) -> Iterator[Found]:
    for node in ast.walk(source.tree):
        name = source.called(node)
        if name in RAW_GROUPS or last_part(name) == "create_task":
            yield _at(node, f"{name} starts tasks that do not know their scope; use `async with tasks() as group`")


def raw_scope(source: Source) -> Iterator[Found]:
    for node in ast.walk(source.tree):
        name = source.called(node)
        if name in RAW_SCOPES:
            yield _at(node, f"{name} stops without a cause; use `with deadline(seconds, cause)` or `with Scope()`")


def run_below_top(source: Source) -> Iterator[Found]:
    for function in source.functions():
        if not isinstance(function, ast.AsyncFunctionDef):
            continue
        for node in below(function.body):
            name = source.called(node)
            if name in TOPS or (last_part(name) == "run_sync" and not name.startswith(("anyio.", "trio."))):
                yield _at(node, f"{name} opens a loop below the top, out of reach of every scope; await the function itself")


def scope_not_entered(source: Source) -> Iterator[Found]:
    for body in [source.tree.body, *(function.body for function in source.functions())]:
        nodes = list(below(body))
        loaded = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        loaded |= {name for node in nodes if isinstance(node, Function) for name in _names_in(node)}
        loaded |= {name for node in nodes if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}
        for node in nodes:
            if isinstance(node, ast.Expr):
                made, kept = node.value, False
            elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value and (names := _names_set(node)):
                made, kept = node.value, bool(names & loaded)
            else:
                continue
            if not kept and _is_ours(source.called(made), OUR_SCOPES):
                yield _at(node, "a scope that is made but not entered stops nothing; write `with ...:`")


def yield_in_scope(source: Source) -> Iterator[Found]:
    for function in source.functions():
        if any(last_part(source.name(each)).endswith("contextmanager") for each in function.decorator_list):
            continue
        for block in below(function.body):
            if isinstance(block, ast.With | ast.AsyncWith) and any(_opens_scope(source, item) for item in block.items):
                for node in below(block.body):
                    if isinstance(node, ast.Yield | ast.YieldFrom):
                        yield _at(
                            node,
                            "a yield in a scope stops the consumer; write a class with __anext__, or @asynccontextmanager",
                        )


def await_while_stopped(source: Source) -> Iterator[Found]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Try | ast.TryStar):
            yield from _bare_awaits(source, node.finalbody, "in `finally`")
        elif isinstance(node, ast.ExceptHandler) and _catches_cancellation(source, node):
            yield from _bare_awaits(source, node.body, "while a cancellation is handled")


def swallowed_stop(source: Source) -> Iterator[Found]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Try | ast.TryStar):
            for leaving in _leaving(node.finalbody):
                yield _at(leaving, "leaving `finally` this way swallows the stop that led here; leave after the block")
        elif isinstance(node, ast.ExceptHandler) and _catches_cancellation(source, node) and not _always_raises(node.body):
            yield _first_line(node, "this handler may swallow a cancellation; let every path end in `raise`")
        elif _suppressed(source, node) & CANCELLATIONS:
            yield _first_line(node, "`suppress` swallows a cancellation here; name the errors that you expect")


def timeout_parameter(source: Source) -> Iterator[Found]:
    for function in source.functions():
        arguments = function.args
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        if isinstance(function, ast.AsyncFunctionDef) and any(argument.arg == "timeout" for argument in named):
            yield _first_line(
                function, f"{function.name} takes a timeout; let its callers write `with deadline(seconds, cause)`"
            )


def from_none(source: Source) -> Iterator[Found]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Raise) and isinstance(node.cause, ast.Constant) and node.cause.value is None:
            yield _at(node, "`from None` cuts the chain; write `from error`, or raise outside the `except`")


def broad_except(source: Source) -> Iterator[Found]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ExceptHandler):
            broad = "Exception" in _caught(source, node) and not _always_raises(node.body)
        else:
            broad = "Exception" in _suppressed(source, node)
        if broad and not _boundary_reason(source.comments.get(node.lineno, "")):  # type: ignore[attr-defined]
            yield _first_line(node, "catches every error; name the ones you expect, or say `# boundary: why all end here`")


def oserror_around_await(source: Source) -> Iterator[Found]:
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Try | ast.TryStar | ast.With) or not any(_waits(each) for each in below(node.body)):
            continue
        if isinstance(node, ast.With):
            suppresses = any(_suppressed(source, item.context_expr) & OS_ERRORS for item in node.items)
            taker: ast.AST | None = node if suppresses else None
        else:
            taker = _takes_stops(source, node.handlers)
        if taker is not None:
            yield _first_line(
                taker, "a passed deadline is an OSError too; keep the await out of this block, or catch Stop first"
            )


def _takes_stops(source: Source, handlers: Iterable[ast.ExceptHandler]) -> ast.ExceptHandler | None:
    """The handler that takes a stop for an OSError; None where there is none, or an earlier one has it."""
    for handler in handlers:
        caught = _caught(source, handler)
        if {last_part(name) for name in caught} & STOPS:
            return None
        if caught & OS_ERRORS and not _always_raises(handler.body):
            return handler
    return None


def error_text(source: Source) -> Iterator[Found]:
    for handler in ast.walk(source.tree):
        if not isinstance(handler, ast.ExceptHandler) or handler.name is None:
            continue
        for node in below(handler.body):
            compared: Iterable[ast.AST] = ()
            if isinstance(node, ast.Compare):
                compared = [node.left, *node.comparators]
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in ("startswith", "endswith")
            ):
                compared = [node.func.value]
            if any(_is_text_of(each, handler.name) for each in compared):
                yield _at(node, "an error's text is for people and may change; ask its class, code or fields")


def logged_and_raised(source: Source) -> Iterator[Found]:
    for handler in ast.walk(source.tree):
        if not isinstance(handler, ast.ExceptHandler):
            continue
        nodes = list(below(handler.body))
        raises = any(isinstance(node, ast.Raise) and _same_error(node, handler.name) for node in nodes)
        for node in nodes if raises else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOG_METHODS:
                yield _at(node, "logged here and raised too, it is reported twice; do one, and add_note what is known here")


RULES: Mapping[str, Rule] = {
    "raw-tasks": raw_tasks,
    "raw-scope": raw_scope,
    "run-below-top": run_below_top,
    "scope-not-entered": scope_not_entered,
    "yield-in-scope": yield_in_scope,
    "await-while-stopped": await_while_stopped,
    "swallowed-stop": swallowed_stop,
    "timeout-parameter": timeout_parameter,
    "from-none": from_none,
    "broad-except": broad_except,
    "oserror-around-await": oserror_around_await,
    "error-text": error_text,
    "logged-and-raised": logged_and_raised,
}


def _at(node: ast.AST, text: str) -> Found:
    line: int = node.lineno  # type: ignore[attr-defined]
    return Found(range(line, (getattr(node, "end_lineno", None) or line) + 1), text)


def _first_line(node: ast.AST, text: str) -> Found:
    return _at(node, text)._replace(lines=range(node.lineno, node.lineno + 1))  # type: ignore[attr-defined]


def _is_ours(name: str, names: set[str]) -> bool:
    return last_part(name) in names and name.startswith(("heaveto.", "."))


def _opens_scope(source: Source, item: ast.withitem) -> bool:
    name = source.called(item.context_expr)
    return name in RAW_SCOPES | RAW_GROUPS or _is_ours(name, OUR_SCOPES)


def _names_in(node: ast.AST) -> Iterator[str]:
    return (each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load))


def _names_set(node: ast.Assign | ast.AnnAssign) -> set[str]:
    """The variables that an assignment sets; none when it sets something else, too, which may be used elsewhere."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    names = {target.id for target in targets if isinstance(target, ast.Name)}
    return names if all(isinstance(target, ast.Name) for target in targets) else set()


def _caught(source: Source, handler: ast.ExceptHandler) -> set[str]:
    if handler.type is None:
        return {"BaseException"}
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return {source.name(each) or source.called(each) for each in types}


def _catches_cancellation(source: Source, handler: ast.ExceptHandler) -> bool:
    caught = _caught(source, handler)
    return bool(caught & CANCELLATIONS) or any(last_part(name) == "get_cancelled_exc_class" for name in caught)


def _always_raises(body: list[ast.stmt]) -> bool:
    """Whether every path through a handler ends in `raise`."""
    if any(_leaving(body)):
        return False
    match body[-1]:
        case ast.Raise():
            return True
        case ast.If(body=first, orelse=second):
            return bool(second) and _always_raises(first) and _always_raises(second)
        case ast.With(body=inner) | ast.AsyncWith(body=inner) | ast.Try(body=inner, handlers=[]):
            return _always_raises(inner)
        case _:
            return False


def _leaving(body: Iterable[ast.AST], *, in_loop: bool = False) -> Iterator[ast.AST]:
    """What may leave the handler or the `finally` that it is in, other than by raising."""
    for node in body:
        if isinstance(node, ast.Return) or (isinstance(node, ast.Break | ast.Continue) and not in_loop):
            yield node
        loop = in_loop or isinstance(node, ast.For | ast.AsyncFor | ast.While)
        yield from () if isinstance(node, NESTED) else _leaving(ast.iter_child_nodes(node), in_loop=loop)


def _waits(node: ast.AST) -> bool:
    return isinstance(node, ast.Await | ast.AsyncWith | ast.AsyncFor) or (
        isinstance(node, ast.comprehension) and bool(node.is_async)
    )


def _bare_awaits(source: Source, body: list[ast.stmt], where: str) -> Iterator[Found]:
    shielded = {id(inner) for node in below(body) if _shields(node) for inner in below(node)}
    for node in below(body):
        if not _waits(node) or id(node) in shielded:
            continue
        if isinstance(node, ast.Await) and _is_ours(source.called(node.value), {"finish"}):
            continue
        place = node.target if isinstance(node, ast.comprehension) else node
        yield _first_line(
            place, f"an await {where} is cut by the stop that led here; write `await finish(seconds, fn, *args)`"
        )


def _shields(node: ast.AST) -> bool:
    if not isinstance(node, ast.With):
        return False
    calls = [item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call)]
    return any(
        word.arg == "shield" and isinstance(word.value, ast.Constant) and word.value.value
        for call in calls
        for word in call.keywords
    )


def _suppressed(source: Source, node: ast.AST) -> set[str]:
    """What a call of `suppress` swallows; nothing for anything else."""
    if not isinstance(node, ast.Call) or last_part(source.called(node)) != "suppress":
        return set()
    named = {source.name(each) or source.called(each) for each in node.args}
    return named | ({"BaseException"} if "anyio.get_cancelled_exc_class" in named else set())


def _boundary_reason(comment: str) -> str:
    return comment.partition("boundary:")[2].strip()


def _is_text_of(node: ast.AST, error: str) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="str" | "repr"), args=[ast.Name(id=name)]):
            return name == error
        case ast.Call(func=ast.Attribute(value=value, attr="lower" | "casefold" | "strip")):
            return _is_text_of(value, error)
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id=name), attr="args")):
            return name == error
        case _:
            return False


def _same_error(node: ast.Raise, name: str | None) -> bool:
    return node.exc is None or (isinstance(node.exc, ast.Name) and node.exc.id == name)
