"""Runs `millrace` on terminals of several widths and holds what a person sees there: no bar wraps, no line is glued to another.

    python3 terminal_test.py MILLRACE
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

from screen import Screen

MILLRACE = None
WIDTHS = [40, 60, 80, 200]
SECONDS_AT_MOST = 300
# "training ━━━━╌╌╌╌  52% 3s left epoch 1.1", with or without the bar and what comes behind.
BAR = re.compile(r"(?P<what>\S.*?) (?:(?P<bar>[━╌]+|[#-]+) )? *\d+% (?:\d+s|\d+m\d\ds|\d+h\d\dm)(?: left)?(?: (?P<note>.*))?")
BAR_CHARACTERS = re.compile(r"[━╌]|##|----")
LOG = re.compile(r"(info|warning|error) ")
TRAIN = ["train", "--model", "digits-cnn", "--data", "digits", "--epochs", "400"]


def environment(**changes):
    fixed = dict(os.environ, TERM="xterm-256color", LC_ALL="C.UTF-8")
    for name in ("NO_COLOR", "COLUMNS", "LANG", "LC_CTYPE"):
        fixed.pop(name, None)
    fixed.update(changes)
    return {name: value for name, value in fixed.items() if value is not None}


class Terminal:
    """A run on a terminal of its own, standard output and error alike."""

    def __init__(self, arguments, columns, env):
        self.screen = Screen(columns)
        self.master, slave = pty.openpty()
        self.resize(columns, slave)
        self.process = subprocess.Popen([MILLRACE] + arguments, stdin=slave, stdout=slave, stderr=slave, env=env, close_fds=True)
        os.close(slave)
        self.raw = b""

    def resize(self, columns, descriptor=None):
        self.screen.resize(columns)
        fcntl.ioctl(descriptor or self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def read_until(self, enough):
        """Reads until enough(screen), or the end; False at the end."""
        end = time.monotonic() + SECONDS_AT_MOST
        while True:
            if time.monotonic() > end:
                raise AssertionError(f"nothing came of it in {SECONDS_AT_MOST} s: {self.raw[-400:]!r}")
            if not select.select([self.master], [], [], 1)[0]:
                continue
            try:
                data = os.read(self.master, 65536)
            except OSError:  # the other side is closed
                data = b""
            if not data:
                return False
            self.raw += data
            self.screen.feed(data)
            if enough(self.screen):
                return True

    def finish(self):
        self.read_until(lambda screen: False)
        os.close(self.master)
        return self.process.wait()


def bars(screen, what):
    return [state for state in screen.states if state.startswith(what) and BAR.fullmatch(state)]


def show(arguments, columns, env, stop_when=None):
    terminal = Terminal(arguments, columns, env)
    if stop_when and terminal.read_until(stop_when):
        terminal.process.send_signal(signal.SIGTERM)
    terminal.finish()
    return terminal


def bars_among_logs(what):
    """Bars were drawn, and lines of the log came while one stood there."""

    def seen(screen):
        drawn = [index for index, state in enumerate(screen.states) if state.startswith(what)]
        return len(drawn) >= 3 and sum(1 for state in screen.states[drawn[0] :] if LOG.match(state)) >= 3

    return seen


class TerminalTest(unittest.TestCase):
    def expect_tidy(self, screen, what):
        """Every row that holds a bar holds it alone and whole; what stays is one row of it."""
        for row in screen.wrapped:
            self.assertFalse(row.startswith(what[: screen.columns]), f"a bar wraps: {row}")
        for state in screen.states:
            self.assertNotRegex(state, r".(info|warning) epoch", "a log line glued to another")
            if state.startswith(what) or BAR_CHARACTERS.search(state):
                self.assertTrue(BAR.fullmatch(state) and state.startswith(what), f"glued, or no bar: {state}")
                self.assertLess(len(state), screen.columns)
        self.assertEqual(sum(1 for row in screen.rows if BAR.fullmatch(row)), 1, screen.rows)

    def test_training_at_all_widths(self):
        for columns in WIDTHS:
            with self.subTest(columns=columns):
                screen = show(TRAIN, columns, environment(), bars_among_logs("training")).screen
                self.expect_tidy(screen, "training")
                self.assertTrue(any(LOG.match(row) for row in screen.rows))
                self.assertTrue(any("━" in state or "╌" in state for state in screen.states))
                if columns >= 80:
                    self.assertTrue(any(BAR.fullmatch(state)["note"] for state in bars(screen, "training")))

    def test_choosing_formats_has_a_bar_of_its_own(self):
        arguments = ["train", "--model", "digits-cnn", "--data", "synthetic:1x8x8:10:40", "--mini-batch", "4", "--cluster", "emulated-fpga",
                     "--steps", "2", "--calibrate", "60"]
        drawn = bars(show(arguments, 80, environment()).screen, "calibrating")
        self.assertTrue(drawn)
        shares = [int(re.search(r" (\d+)% ", bar)[1]) for bar in drawn]
        self.assertEqual(shares, sorted(shares))
        self.assertTrue(any(share < 100 for share in shares), drawn)  # of the two updates that follow it would be 100% at once
        self.assertLessEqual(max(shares), 100)

    def test_json_lines_on_the_same_terminal(self):
        def json_among_bars(screen):
            return len(bars(screen, "training")) >= 3 and sum(1 for state in screen.states if state.startswith('{"event"')) >= 3

        screen = show(TRAIN + ["--json"], 200, environment(), json_among_bars).screen
        for row in [*screen.states, *screen.rows]:
            if '{"event"' in row:
                self.assertTrue(row.startswith('{"event"'), row)

    def test_other_commands(self):
        with tempfile.TemporaryDirectory() as folder:
            commands = {
                "digits-cnn at micro-batch 32": ["profile", "--model", "digits-cnn", "--out", folder + "/chain.csv"],
                "digits-cnn at micro-batch 8": ["tune", "--model", "digits-cnn", "--micro-batch", "8", "--out", folder + "/table.csv"],
                "planning rings": ["study", "--model", "alexnet", "--device", "vc709", "--count", "5:15:5"],
            }
            for what, arguments in commands.items():
                for columns in (40, 200):
                    with self.subTest(command=arguments[0], columns=columns):
                        terminal = show(arguments, columns, environment())
                        self.assertEqual(terminal.process.returncode, 0, terminal.raw)
                        screen = terminal.screen
                        drawn = [state for state in screen.states if BAR.fullmatch(state)]
                        nothing_to_time = "table.csv: 0 entries (0" in "".join(row.ljust(columns) for row in screen.rows)  # without AVX-512
                        self.assertTrue(drawn or nothing_to_time, screen.rows)
                        for state in drawn:
                            self.assertTrue(state.startswith(what[:5]), state)
                            self.assertLess(len(state), columns)
                        for row in screen.wrapped:
                            self.assertNotRegex(row, "[━╌]")
            with self.subTest(command="plan and simulate show none"):
                for command in ("plan", "simulate"):
                    screen = show([command, "--model", "alexnet", "--cluster", "vc709x5"], 40, environment()).screen
                    self.assertEqual(screen.erased, 0)
                    self.assertEqual(screen.colours, 0)

    def test_colours_are_for_those_who_want_them(self):
        line_of_log = lambda screen: any(LOG.match(state) for state in screen.states)
        self.assertGreater(show(TRAIN, 80, environment(), line_of_log).screen.colours, 0)
        self.assertGreater(show(TRAIN, 80, environment(NO_COLOR=""), line_of_log).screen.colours, 0)  # empty: as if unset
        screen = show(TRAIN, 80, environment(NO_COLOR="1"), bars_among_logs("training")).screen
        self.assertEqual(screen.colours, 0)
        self.expect_tidy(screen, "training")  # the bar stays, without colours

    def test_dumb_terminals_get_plain_lines(self):
        for term in ("dumb", "", None):
            with self.subTest(term=term):
                terminal = show(TRAIN[:-1] + ["3"], 80, environment(TERM=term))
                self.assertEqual(terminal.process.returncode, 0)
                self.assertNotIn(b"\x1b", terminal.raw)
                self.assertNotIn(b"\r", terminal.raw.replace(b"\r\n", b"\n"))
                self.assertTrue(any(LOG.match(row) for row in terminal.screen.rows))

    def test_ascii_where_the_locale_is(self):
        for settings in ({"LC_ALL": None, "LANG": "C"}, {"LC_ALL": "C"}, {"LC_ALL": "xx_XX.UTF-8"}):  # the last is not installed
            with self.subTest(settings=settings):
                terminal = show(TRAIN, 60, environment(**settings), bars_among_logs("training"))
                self.expect_tidy(terminal.screen, "training")
                self.assertTrue(terminal.raw.isascii())
                self.assertTrue(any(BAR.fullmatch(state)["bar"] for state in bars(terminal.screen, "training")))

    def test_width_is_that_of_now(self):
        terminal = Terminal(TRAIN, 200, environment())
        count = lambda screen: sum(1 for state in screen.states if state.startswith("training"))
        terminal.read_until(lambda screen: count(screen) >= 2)
        terminal.resize(40)
        before = count(terminal.screen)
        # The one under way may have asked before; those after it are narrow.
        self.assertTrue(terminal.read_until(lambda screen: count(screen) >= before + 5))
        terminal.process.send_signal(signal.SIGTERM)
        terminal.finish()
        for state in bars(terminal.screen, "training")[before + 2 :]:
            self.assertLess(len(state), 40)

    def test_columns_of_the_environment(self):
        for columns, wish, most in ((200, "33", 33), (40, "200", 40), (80, "many", 80)):
            with self.subTest(columns=columns, wish=wish):
                screen = show(TRAIN, columns, environment(COLUMNS=wish), bars_among_logs("training")).screen
                for state in bars(screen, "training"):
                    self.assertLess(len(state), most)


if __name__ == "__main__":
    MILLRACE = sys.argv.pop(1)
    unittest.main()
