"""A log message is one line, and libraries say only what is wrong."""

from __future__ import annotations

import logging

from bullpen.cli.serving import OneLine


def test_a_name_cannot_write_a_second_line() -> None:
    record = logging.LogRecord(
        "bullpen", logging.INFO, "", 0, "opened %s", ("a\nINFO bullpen: b\x1b[2J\u202e",), None
    )
    shown = OneLine("%(levelname)s %(name)s: %(message)s").format(record)
    assert shown == "INFO bullpen: opened a\\u000aINFO bullpen: b\\u001b[2J\\u202e"
