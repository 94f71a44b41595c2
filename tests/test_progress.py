"""Progress on stderr: lines in a log, nothing when it is not asked for."""

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
