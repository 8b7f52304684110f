"""Each docker command of an evaluation goes wrong in each way: no Dockerfile is blamed for it."""

import json
import os
import re
from types import SimpleNamespace

import pytest
from cases import read_table
from conftest import called, outcome, statuses
from fake_engine import Engine

import DockerfileEvaluator as de

# How a command goes wrong, in the words of Engine.inject()
MODES = r"""
daemon error: stderr='Error response from daemon: something is wrong\n'
daemon error after: do='fail after' stderr='Error response from daemon: something is wrong\n'
exit code 1: code=1
exit code 125: code=125
exit code 126: code=126
exit code 127: code=127
exit code 137: code=137
killed before: do=die
killed within: do='die within'
killed after: do='die after'
output cut: do=cut
hang: do=hang
hang after: do='hang after'
away for 2: do=away count=2
away for 9: do=away count=9
away: do=away count=1000000000
away for all but version: do=away count=1000000000 but=version
no process: do='no process'
INT: do=interrupt number=2
TERM: do=interrupt number=15
TERM, goes on: do='interrupt and go on' number=15
INT and TERM: do=interrupt number=2 again=15
"""
MODES = dict(line.split(": ", 1) for line in MODES.strip().splitlines())
# It is ended at once by an interrupt; what the clean-up runs has its time.
ENDED_AT_ONCE = ("build", "run", "exec", "logs", "control COPY", "control RUN", "control run")

TESTS = json.loads("""{
    "all": [
        {"type": "files_exist", "params": {"paths": ["/etc/passwd"]}},
        {"type": "run_command", "params": {"command": "true"}},
        {"type": "output_contains", "params": {"command": "echo hello", "contains": ["hello"]}}
    ],
    "mixed": [
        {"type": "run_command", "params": {"command": "true"}},
        {"type": "run_command", "params": {"command": "exit 3"}, "id": "bad"},
        {"type": "run_command", "params": {"command": "true"}, "requires": ["bad"]},
        {"type": "run_command", "params": {"command": "sleep 600"}}
    ],
    "services": [
        {"type": "run_command", "params": {"command": "true"}},
        {"type": "run_command", "params": {"command": "true"}, "service": 8080},
        {"type": "run_command", "params": {"command": "exit 3"}, "service": true},
        {"type": "http_responds", "params": {}, "service": 8080},
        {"type": "run_command", "params": {"command": "true"}}
    ]
}""")


# A Dockerfile and tests; the kind of the error, or the statuses, if docker works. The
# time limit of `final` commands is no accident: they wait for what the image starts.
SCENARIOS = r"""
all points -> passed
some tests fail -> failed passed skipped timeout
    tests: mixed
a RUN fails -> build
    dockerfile: FROM x\nRUN exit 3
a RUN takes too long -> build_timeout
    dockerfile: FROM x\nRUN sleep
a COPY fails -> build
    dockerfile: FROM x\nCOPY missing /
no shell -> failed
    settings: {"shell": ""}
no such image -> build
    faults: pull x='manifest unknown'
an old builder -> usage
    dockerfile: FROM x\nCOPY --link . /
    faults: build error='dockerfile parse error line 2: Unknown flag: link'
services -> failed passed
    tests: services
    settings: {"environment": {"PATH": "/no/client"}}
    final: run exec
an overlay -> passed
    options: --overlay=overlay
"""
SCENARIOS = read_table(
    SCENARIOS,
    dockerfile=r"FROM x\nRUN true",
    tests="all",
    faults="",
    settings={},
    options="",
    final="",
)


@pytest.fixture
def evaluate_on(arguments, report, tmp_path, monkeypatch):
    """Return a function that evaluates a scenario on an engine."""
    os.mkdir("overlay")

    def evaluate(engine, scenario):
        lines, more = scenario.dockerfile.split(r"\n"), scenario.options.split()
        words = arguments(lines, *TESTS[scenario.tests], more=more)
        with monkeypatch.context() as patch:
            engine.patch(patch)
            code = called(de.main, *words)[0]
        found = report()
        (tmp_path / "report.json").unlink()
        left = engine.left() + os.listdir(tmp_path / "tmp")
        return SimpleNamespace(code=code, report=found, left=left)

    return evaluate


def problems_of(found, sound, engine, command, mode):
    """Yield what is wrong with an evaluation, compared with a sound one."""
    number = sum(map(int, re.findall(r"number=(\d+)", MODES[mode])))
    kind = outcome(found.report)
    is_right = statuses(found.report) == statuses(sound.report)
    if found.report["summary"]["total_score"] is None:
        reasons = [de.INTERRUPTED] if number else [de.ENGINE, de.REGISTRY]
        is_right = kind in [*reasons, outcome(sound.report)]
    if not is_right:
        yield f"{found.report['error'] or kind}"
    code = 128 + number if kind == de.INTERRUPTED else int(kind != "passed")
    if found.code != code:
        yield f"exit code {found.code}"
    # What a list without its end lacks, an evaluation cannot know.
    if found.left and not found.report["warnings"] and mode != "output cut":
        yield f"no warning of {found.left}"
    if number and command in ENDED_AT_ONCE:
        taken = engine.clock.now - engine.interrupted_at
        if taken > 1 + de.CREATE_TIMEOUT + 2 * de.POLL:
            yield f"the interrupt took {taken} s"


# Of all pairs, which are 4,000 evaluations, tests/run has those with the remainders 0 to 3.
MARKS = [[], *[[pytest.mark.long("a thousand evaluations")]] * 3, *[[pytest.mark.release]] * 13]
CASES = [
    pytest.param(scenario, mode, marks=MARKS[(at + other) % 17], id=f"{scenario.when}, {mode}")
    for at, scenario in enumerate(SCENARIOS)
    for other, mode in enumerate(MODES)
]


@pytest.mark.parametrize(("scenario", "mode"), CASES)
def test_docker_command_that_goes_wrong_changes_no_score_and_leaves_nothing(
    scenario, mode, evaluate_on, tmp_path
):
    def new_engine(number, *faults):
        engine = Engine(tmp_path / f"engine-{number}")
        engine.set(**scenario.settings)
        engine.inject("; ".join([*faults, scenario.faults]))
        return engine

    sound_engine = new_engine(0)
    sound = evaluate_on(sound_engine, scenario)
    assert (outcome(sound.report), sound.left) == (scenario.then, [])
    for nth, command in enumerate(sound_engine.names(), 1):
        engine = new_engine(nth, f"'*' nth={nth} {MODES[mode]}")
        found = evaluate_on(engine, scenario)
        is_final = command in scenario.final and mode.startswith("hang")
        problems = [] if is_final else [*problems_of(found, sound, engine, command, mode)]
        engine.repair()
        if found.left and de.NAME in str(evaluate_on(engine, scenario).left):
            problems.append("something stays after the next evaluation")

        assert problems == [], f"{nth}: {command}"
