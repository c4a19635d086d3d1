"""`--sampling NAME=VALUE`: read, refused by name, sent, and kept with the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from heaveto.cli.sampling import _READERS, sampling_of
from heaveto.messages import Sampling


@pytest.mark.parametrize(
    ("settings", "sampling"),
    [
        ([], None),
        (["temperature=0.2", "seed=7"], Sampling(temperature=0.2, seed=7)),
        (["temperature=0.2", "temperature=1"], Sampling(temperature=1.0)),
        (["stop=a=b", "stop=c"], Sampling(stop=("a=b", "c"))),
        (["parallel_tool_calls=False", "effort=low"], Sampling(parallel_tool_calls=False, effort="low")),
    ],
)
def test_settings_are_read(settings: list[str], sampling: Sampling | None) -> None:
    assert sampling_of(settings) == sampling


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("temprature=1", 'there is no setting "temprature"; did you mean "temperature"?'),
        ("xyz=1", 'there is no setting "xyz"; there are temperature, top_p, '),
        ("temperature", '"temperature" has no value; write it as temperature=0.2'),
        ("temperature=hot", 'temperature must be a number, not "hot"'),
        ("seed=1.5", 'seed must be a whole number, not "1.5"'),
        ("parallel_tool_calls=1", 'parallel_tool_calls must be true or false, not "1"'),
        ("max_tokens=0", "max_tokens must be 1 or more, not 0"),
        ("effort=huge", "effort must be one of none, minimal, low, medium, high, xhigh, max, not 'huge'"),
        ("stop=", "stop must be texts that are not empty"),
        ("temperature=nan", "temperature must be a number, not nan"),
    ],
)
def test_what_is_none_is_refused_before_there_is_a_run(heaveto: Any, project: Path, setting: str, says: str) -> None:
    finished = heaveto("run", "-m", "offline", "-C", str(project), "--sampling", setting, "fix it")
    assert finished.status == 2
    assert says in " ".join(finished.err.split())
    assert heaveto("runs").out.startswith("no runs yet")


@pytest.mark.parametrize("setting", ["temperature=0.2", "seed=7", "tool_choice=auto"])
def test_the_offline_engine_says_in_its_own_words_that_it_has_none(heaveto: Any, project: Path, setting: str) -> None:
    finished = heaveto("run", "-m", "offline", "-C", str(project), "--sampling", setting, "fix it")
    assert finished.status == 2
    name = setting.partition("=")[0]
    assert f'the offline engine has no setting "{name}"' in finished.err
    assert "choose a model with -m PROVIDER:NAME" in finished.err
    assert heaveto("runs").out.startswith("no runs yet")


def test_every_setting_that_there_is_can_be_given() -> None:
    assert set(_READERS) == set(Sampling.__struct_fields__)


def test_the_settings_are_the_run_s_and_are_kept(heaveto: Any, bad_server: Any, project: Path) -> None:
    with bad_server("401") as server:
        environment = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "sk-test-secret"}
        flags = ("--sampling", "temperature=0.5", "--sampling", "stop=END")
        first = heaveto("run", "-m", "openai:gpt-test", "-C", str(project), "--json", *flags, "fix it", **environment)
        heaveto("resume", "--json", **environment)
        changed = heaveto("resume", "--json", "--sampling", "temperature=0", **environment)
    assert first.events[0]["sampling"] == {"temperature": 0.5, "stop": ["END"]}
    shown = [line for line in heaveto("show").out.splitlines() if line.startswith("the model's settings")]
    assert shown == ["the model's settings: temperature=0.5, stop=('END',)"]
    drives = [event["sampling"] for event in changed.events if event["type"] == "drive.started"]
    assert drives[-1] == {"temperature": 0.0}
