"""The first useful answer counts; crashes and hangs are none, and nothing is left running."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import NoReturn

from planish.proc.race import beside, race


def _hang() -> NoReturn:
    while True:
        time.sleep(1)


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def test_the_first_useful_answer_wins() -> None:
    done = race({"hangs": _hang, "no": lambda: 0, "yes": lambda: 7}, bool, seconds=20)
    assert (done.winner, done.value) == ("yes", 7)


def test_crash_and_error_are_named() -> None:
    done = race({"dies": _die, "raises": lambda: 1 // 0}, lambda _: True, seconds=20)
    assert done.winner == ""
    assert done.ends["dies"] == "SIGKILL"
    assert done.ends["raises"].startswith("ZeroDivisionError")


def test_the_late_are_killed(tmp_path: Path) -> None:
    mark = tmp_path / "pid"

    def late() -> NoReturn:
        mark.write_text(str(os.getpid()))
        _hang()

    done = race({"late": late}, lambda _: True, seconds=1)
    assert "no answer" in done.ends["late"]
    assert not Path(f"/proc/{mark.read_text()}").exists()


def test_processor_time_is_limited_apart_from_wall_time() -> None:
    def spin() -> NoReturn:
        while True:
            pass

    def sleep() -> int:
        time.sleep(0.5)
        return 1

    done = race({"spins": spin}, bool, seconds=30, cpu=0.2)
    assert done.ends["spins"] == "no answer within 0.2 s"
    assert race({"sleeps": sleep}, bool, seconds=30, cpu=0.2).value == 1


def test_one_works_beside_the_caller() -> None:
    with beside(os.getpid) as answer:
        ok, pid = answer()
    assert ok
    assert pid != os.getpid()


def test_how_one_beside_ended_is_said() -> None:
    with beside(lambda: 1 // 0) as raised, beside(_die) as died:
        assert raised() == (False, "ZeroDivisionError: integer division or modulo by zero")
        assert died() == (False, "died")


def test_one_beside_is_gone_behind_its_context(tmp_path: Path) -> None:
    mark = tmp_path / "pid"

    def late() -> NoReturn:
        mark.write_text(str(os.getpid()))
        _hang()

    with beside(late):
        while not (mark.exists() and mark.read_text()):
            time.sleep(0.01)
    assert not Path(f"/proc/{mark.read_text()}").exists()
