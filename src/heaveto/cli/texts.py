"""The words of the terminal: one line for each thing that happened, and the three closing lines. Pure, but that the commands
in them repeat `--store`.
"""

from __future__ import annotations

import json
import unicodedata

from ..journal.records import (
    WITHIN,
    AnswerRejected,
    DriveStarted,
    LimitName,
    LimitNear,
    Retried,
    RunFinished,
    RunStarted,
    SpentBy,
    ToolApproved,
    ToolFinished,
    ToolResolved,
)
from ..loop.events import Body, ToolProgress, ToolRunning
from ..messages import Limits, Spend
from .stores import command_line

__all__ = [
    "approve_line",
    "call_line",
    "clip",
    "closing_lines",
    "cost_text",
    "counted",
    "event_line",
    "limits_text",
    "printable",
    "result_line",
    "resume_step",
    "seconds_text",
    "was_begun_here",
]

MAX_NAMED = 5  # lines of a list that are named rather than counted
HASH_CHARS = 12  # of a call's hash: enough that no other call of the run has the same
LINE = 100  # characters of a line that people read at a glance

_LISTS = {"list_files": ("file", "files")}  # tools whose result is a list, a line each

_HEADS = {
    "answered": "answered",
    "failed": "failed",
    "limit": "stopped at a limit",
    "waiting": "waiting for you",
    "stopped": "stopped",
    "gave_up": "gave up",
    "interrupted": "stopped",
    "shutdown": "stopped",
}


def event_line(body: Body) -> str | None:
    """The line for an event; None for one that a terminal does not show."""
    match body:
        case DriveStarted(resumed=True):
            return "\n".join(["resumed", *(f"  not as before: {printable(each)}" for each in body.differences)])
        case ToolRunning():
            return f"→ {call_line(body.name, body.arguments)}"
        case ToolProgress():
            return f"  … {clip(body.text)}"
        case ToolFinished():
            return f"  {result_line(body)}"
        case ToolApproved():
            return f"  {body.name} ({body.call_id}) {body.verdict} by {body.by or 'a person'}"
        case ToolResolved():
            return f"  {body.name} ({body.call_id}) resolved by {body.by}: {body.verdict}"
        case Retried():
            after = f"after {seconds_text(body.wait_seconds)}" if body.wait_seconds else "now"
            return f"  retry {body.attempt + 1} of {body.of} {after}: {clip(body.error['text'])}"
        case AnswerRejected():
            return f"  the answer was not taken: {clip(body.problem or 'the model wrote text instead')}"
        case LimitNear():
            return f"  {body.percent} % of a limit used: {_of_limit(body)} ({body.setting})"
        case _:
            return None


def _of_limit(near: LimitNear) -> str:
    before, after, decimals = _FIGURES[near.limit]
    return f"{before}{near.used:,.{decimals}f} of {before}{near.of:,.{decimals}f}{after}"


def limits_text(limits: Limits) -> str:
    """The limits that there are, such as "50 turns, $2.000000"."""
    there = {name: value for name in _FIGURES if (value := getattr(limits, name)) is not None}
    shown = [f"{_FIGURES[name][0]}{value:,.{_FIGURES[name][2]}f}{_FIGURES[name][1]}" for name, value in there.items()]
    return ", ".join(shown) or "none"


_FIGURES: dict[LimitName, tuple[str, str, int]] = {
    "turns": ("", " turns", 0),
    "usd": ("$", "", 6),
    "tokens": ("", " tokens", 0),
    "seconds": ("", " s", 0),
}


def call_line(name: str, arguments: str) -> str:
    """A call as people read it, such as "edit_file calc.py"."""
    try:
        values = json.loads(arguments or "{}")
    except (ValueError, RecursionError):  # a model may nest as deep as it likes
        return f"{name} {clip(arguments)}"
    if not isinstance(values, dict):
        return f"{name} {clip(arguments)}"
    return clip(" ".join([name, *(_shown(value) for value in values.values())]))


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    first = text.strip().splitlines()[0] if text.strip() else '""'
    return clip(first if first == text.strip() else f"{first} …", 40)


def result_line(finished: ToolFinished) -> str:
    """A call's result in a line."""
    lines = finished.content.strip().splitlines() or ["done"]
    if finished.ending != "ok":
        return f"✗ {clip(lines[0])}"
    nouns = _LISTS.get(finished.name)
    return f"✓ {clip(_counted(lines, *nouns) if nouns else lines[0])}"


def _counted(lines: list[str], one: str, many: str) -> str:
    """How many lines there are, and which where they are few; a last line that begins with "..." stands for more."""
    if lines[0].startswith("no "):
        return lines[0]
    if lines[-1].startswith("..."):
        told = lines[-1].split()[1]
        return f"{len(lines) - 1 + int(told):,} {many}" if told.isdigit() else f"more than {len(lines) - 1:,} {many}"
    if len(lines) > MAX_NAMED:
        return f"{len(lines)} {many}"
    return f"{len(lines)} {one if len(lines) == 1 else many}: {', '.join(lines)}"


def closing_lines(finished: RunFinished, run_id: str, *, kept: bool = True, ours: bool = True) -> list[str]:
    """Why it ended, what it cost, how to go on.

    Args:
        kept: Whether the run is in a journal, where it can be found again.
        ours: Whether the command began it, rather than a program, whose tools the command does not have.
    """
    how = _HEADS.get(finished.outcome, finished.outcome)
    head = f"{how} after {counted(finished.turns, 'turn')}, {seconds_text(finished.seconds)}"
    told = finished.why
    if not kept and "resume" in told:  # of what was not kept that is no advice
        told = str((finished.cause or {}).get("text") or told)
    why = head if finished.outcome == "answered" else f"{head}: {printable(told)}"
    lines = [why, f"  cost: {cost_text(finished.spend)}{_for_nothing(finished)}"]
    lines += [f"  outcome unknown: {printable(call)}" for call in finished.unresolved]
    lines += [f"  did not heed the stop: {printable(what)}" for what in finished.abandoned]
    lines.append(f"  {_next_step(finished, run_id, ours=ours) if kept else 'nothing of it was kept (--ephemeral)'}")
    return lines


def _for_nothing(finished: RunFinished) -> str:
    """What of the dollars was for no reply."""
    parts = [
        f"${spend.cost_usd:.6f} for {spend.calls} {_NOUNS[by][spend.calls != 1]}"
        for by, spend in finished.spend_by.items()
        if by != "replies" and spend.cost_usd
    ]
    return f", of that {' and '.join(parts)}" if parts else ""


_NOUNS: dict[SpentBy, tuple[str, str]] = {
    "retries": ("attempt that was made again", "attempts that were made again"),
    "cut calls": ("call that was cut", "calls that were cut"),
}


def _next_step(finished: RunFinished, run_id: str, *, ours: bool) -> str:
    cause = finished.cause or {}
    if finished.outcome == "waiting" and cause.get("code") == "approval_needed":
        _, call, identity = (*map(str, cause["fields"]), "")[:3]  # an older version's has no identity
        deny = command_line("deny", run_id, call, "--why TEXT", *resuming(ours))
        return f"answer: {approve_line(run_id, call, identity, ours=ours)} | {deny}"
    if finished.outcome == "waiting" and (inner := cause.get(WITHIN)):
        return f"first: {command_line('why', str(inner))}, then resume this run in the program that began it"
    if finished.unresolved and finished.outcome == "waiting":
        call = finished.unresolved[0].rpartition("(")[2].rstrip(")")
        resolve = command_line("resolve", run_id, call, "--done | --not-done")
        return f"look, then: {resolve}, then: {resume_step(run_id, ours=ours)}"
    if finished.resumable:
        return f"resume: {resume_step(run_id, ours=ours)}"
    return f"show: {command_line('show', run_id)}"


def was_begun_here(started: RunStarted) -> bool:
    """Whether the command began the run, and so has its tools."""
    return "sandbox_in_force" in started.settings


def resume_step(run_id: str, *, ours: bool) -> str:
    """How the run gets under way again. The command has not the tools of a program that began one."""
    return command_line("resume", run_id) if ours else f'agent.resume("{run_id}"), in the program that began it'


def resuming(ours: bool) -> tuple[str, ...]:
    return ("--resume",) if ours else ()


def approve_line(run_id: str, call_id: str, identity: str, *, ours: bool = True) -> str:
    """What allows exactly this call: none with the same name and other arguments, should there be one by then."""
    expected = ("--expect", identity[:HASH_CHARS]) if identity else ()
    return command_line("approve", run_id, call_id, *expected, *resuming(ours))


def cost_text(spend: Spend) -> str:
    """Dollars and tokens; what is unknown is called so."""
    usd = f"${spend.cost_usd:.4f}"
    if spend.unpriced_calls:
        calls = counted(spend.unpriced_calls, "call")
        usd = f"{usd} and {calls} of unknown price" if spend.cost_usd else f"unknown price for {calls}"
    tokens = f"{spend.input_tokens:,} tokens in, {spend.output_tokens:,} out"
    estimated = f", {spend.estimated_calls} estimated" if spend.estimated_calls else ""
    return f"{usd} ({tokens}{estimated})"


def counted(count: int, noun: str) -> str:
    """Such as "1 run" and "1,200 runs"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def seconds_text(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def clip(text: str, width: int = LINE) -> str:
    """The text in one line of at most `width` characters, safe to print."""
    flat = printable(" ".join(text.split()))
    return flat if len(flat) <= width else f"{flat[: width - 1]}…"


def printable(text: str) -> str:
    """The text without what would steer the terminal: a model or a test may say anything. Newlines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(char if char in "\n\t" or unicodedata.category(char) not in _STEERING else "\ufffd" for char in text)


_STEERING = frozenset({"Cc", "Cf", "Cs"})  # control, formatting (direction changes among them), lone surrogates
