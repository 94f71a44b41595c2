"""Progress on stderr: lines in a log, nothing when it is not asked for."""

import sys
import time

from dqucb import _progress
from tests.waiting import wait_for


def test_a_log_gets_a_line_at_the_beginning_and_whenever_the_stage_changes(capfd, monkeypatch):
    monkeypatch.setattr(_progress, "SECONDS_BETWEEN_LINES", 0.2)
    said = ""

    def heard(words):
        def look():
            nonlocal said
            said += capfd.readouterr().err
            return words in said

        return look

    with _progress.shown("runs", 50, 3) as progress:
        progress.say("preparing kernels of QUCB")
        wait_for(heard("3 of 50 runs, 0 s, preparing kernels of QUCB\n"), "the stage is named")
        progress.say("")
        progress.advance(4)
        wait_for(heard("dqucb: 7 of 50 runs"), "the count goes on without a new stage")


def test_nothing_is_shown_unless_asked_for_or_when_all_is_done(capfd):
    for total, done, show in ((50, 0, False), (50, 50, True)):
        with _progress.shown("runs", total, done, show) as progress:
            progress.advance()
    assert capfd.readouterr().err == ""


def test_by_default_long_work_is_shown_on_a_terminal_and_short_work_is_not(capfd, monkeypatch):
    monkeypatch.setattr(_progress, "_draw_bar", _progress._print_lines)
    monkeypatch.setattr(_progress, "SECONDS_BETWEEN_LINES", 0.2)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)  # another test of this process may have loaded it
    with _progress.shown("runs", 50, 0, None):
        time.sleep(0.5)  # no terminal, no notebook
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(_progress, "SECONDS_BETWEEN_LINES", 600.0)
    with _progress.shown("runs", 50, 0, None):
        pass
    assert capfd.readouterr().err == ""
    monkeypatch.setattr(_progress, "SECONDS_BETWEEN_LINES", 0.2)
    with _progress.shown("runs", 50, 7, None):
        wait_for(lambda: "dqucb: 7 of 50 runs" in capfd.readouterr().err, "long work is shown")
