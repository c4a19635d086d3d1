"""What users of agents report in public, each with the small test of ours, or the floor that it waits for."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

import pytest

TESTS = Path(__file__).parent


class Report(NamedTuple):
    """A symptom, and where it is tested: "file::test". `waits_for` names a part that does not exist yet."""

    symptom: str
    tests: tuple[str, ...] = ()
    waits_for: str = ""


LIMITS = "models/test_limits.py::test_a_limit_of_a_stream_passes_at_exactly_its_time"
STOPS = "benchmarks/test_stops_smoke.py::test_an_experiment"
ENDINGS = "benchmarks/test_stops_smoke.py::test_no_bad_ending_is_an_answer"

REPORTS = (
    Report("a stream stalls in an overload and the session is frozen; a cancel is ignored meanwhile", (LIMITS, STOPS)),
    Report("the head of an answer comes, then nothing, and the turn never ends", (LIMITS,)),
    Report("a time limit that covers the headers only: keep-alive comments keep the stream alive", (LIMITS, STOPS)),
    Report(
        "after a cancel in a tool the next request is refused: calls without an answer",
        ("runs/test_stops.py::test_a_run_stopped_at_any_await", "runs/test_stops.py::test_a_resume_stopped_at_any_await"),
    ),
    Report(
        "a stopped run leaves a conversation that cannot go on in another process",
        ("cli/test_signals.py::test_a_signal_stops_the_run_well",),
    ),
    Report("an approved call is resumed elsewhere, and its result is kept without its call", waits_for="approvals"),
    Report(
        "two layers of retries multiply the requests",
        (STOPS, "retry/test_retrying.py::test_the_last_error_reports_itself_as_not_retryable"),
    ),
    Report(
        "three layers of retries multiply the requests",
        ("loop/test_reported.py::test_three_layers_of_retries_make_no_more_requests_than_the_innermost",),
    ),
    Report(
        "a wait of hours that the server asks for is waited for",
        (STOPS, "retry/test_retrying.py::test_a_wait_beyond_the_time_left_stops_at_once"),
    ),
    Report(
        "a command's children live on after its limit",
        (
            "tools/test_processes.py::test_a_stop_ends_all_seven_and_goes_on_with_its_cause",
            "tools/test_processes.py::test_what_the_command_leaves_behind_is_ended",
        ),
    ),
    Report(
        "a grandchild holds the output open and the limit never returns",
        ("tools/test_processes.py::test_output_that_something_out_of_reach_holds_open_is_not_waited_for",),
    ),
    Report(
        "a command that ignores SIGTERM holds the tool for ever",
        ("tools/test_processes.py::test_a_command_that_ignores_term_is_killed_in_time",),
    ),
    Report(
        "the program is killed and its children stay",
        (
            "tools/test_processes.py::test_a_kill_of_our_own_process_leaves_no_descendant",
            "cli/test_signals.py::test_kill_9_leaves_no_process_and_the_run_can_be_taken_up",
        ),
    ),
    Report(
        "a call that was under way at a kill is run a second time, unasked",
        ("runs/test_kills.py::test_no_effect_is_repeated_without_a_rung_that_allows_it",),
    ),
    Report(
        "a tool's effect is repeated after an ambiguous network error",
        ("loop/test_reported.py::test_a_tool_that_did_its_effect_and_then_fails_in_passing_is_not_repeated",),
    ),
    Report(
        "a new call id each turn defeats the recognition of a repeat",
        ("loop/test_ladder.py::test_the_key_is_the_same_after_a_crash_and_a_new_plan",),
    ),
    Report(
        "a tool that must not be repeated is retried by some layer",
        ("loop/test_reported.py::test_no_retry_layer_repeats_the_effect_of_a_tool",),
    ),
    Report(
        "a sync tool's thread ignores the time limit and holds the run",
        ("loop/test_answering.py::test_a_sync_write_over_its_limit_is_abandoned_and_waits_for_a_person",),
    ),
    Report(
        "a call that was cut reports no usage: a free path",
        (
            "benchmarks/test_stops_smoke.py::test_the_spend_of_a_call_that_was_cut_is_counted_and_flagged",
            "loop/test_calling.py::test_a_cut_call_is_counted_with_the_cause_that_cut_it",
        ),
    ),
    Report(
        "Ctrl-C saves nothing, or does nothing while a tool runs",
        (
            "cli/test_signals.py::test_a_signal_stops_the_run_well",
            "runs/test_signals.py::test_a_program_is_stopped_while_a_sync_tool_holds_its_thread",
        ),
    ),
    Report("a reply cut at the length limit, or a stream that just ends, counts as the answer", (ENDINGS,)),
    Report("the client of a stream is gone and the agent goes on spending", waits_for="the server"),
    Report(
        "the same of the command: its reader is gone",
        ("cli/test_signals.py::test_a_reader_who_leaves_stops_the_run",),
    ),
    Report(
        "a hidden time limit of another layer ends a quiet call, and nothing says which one it was",
        (LIMITS, "models/test_limits.py::test_a_limit_is_called_as_its_user_knows_it"),
    ),
    Report(
        "of nested limits the wrong one is named",
        ("scopes/test_scope.py::test_the_nearest_deadline_applies_whichever_is_inside",),
    ),
)


def functions_of(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    return {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.symptom[:40])
def test_each_report_has_its_test_or_waits_for_a_part(report: Report) -> None:
    assert bool(report.tests) != bool(report.waits_for)
    for test in report.tests:
        file, _, name = test.partition("::")
        assert name in functions_of(TESTS / file), test
