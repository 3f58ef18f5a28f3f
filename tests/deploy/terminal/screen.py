"""What a terminal of so many columns shows of what was written to it: carriage returns, new lines, erased lines, wrapping.

    screen = Screen(40)
    screen.feed(b"training  10%\\r\\x1b[Kinfo epoch 1.00\\n")
    screen.rows          # ["info epoch 1.00", ""]

Rows are what a person sees. A row that was filled and went on in the next one is noted in `wrapped`, with all it held; every text
that stood in a row when it was erased or ended is noted in `states`. An escape that the model does not know is an error.
"""

import re
import unicodedata

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
ERASE_TO_END = "\x1b[K"


class Screen:
    def __init__(self, columns):
        self.columns = columns
        self.rows = [""]
        self.states = []
        self.wrapped = []
        self.colours = 0
        self.erased = 0
        self.pending = b""
        self.cursor = 0
        self.started_by_wrap = False

    def resize(self, columns):
        self.columns = columns

    def feed(self, data):
        data = self.pending + data
        # A character or an escape may come in two pieces.
        cut = len(data)
        escape = data.rfind(b"\x1b")
        if escape >= 0 and not re.match(rb"\x1b\[[0-9;]*[A-Za-z]", data[escape:]):
            cut = escape
        text = None
        for back in range(4):
            try:
                text = data[: cut - back].decode("utf-8")
                cut -= back
                break
            except UnicodeDecodeError:
                continue
        if text is None:
            raise ValueError(f"not UTF-8: {data[:cut]!r}")
        self.pending = data[cut:]
        self._show(text)

    def _show(self, text):
        at = 0
        while at < len(text):
            character = text[at]
            if character == "\x1b":
                if colour := COLOUR.match(text, at):
                    self.colours += 1
                    at = colour.end()
                elif text.startswith(ERASE_TO_END, at):
                    self._note()
                    self.rows[-1] = self.rows[-1][: self.cursor]
                    self.erased += 1
                    at += len(ERASE_TO_END)
                else:
                    raise ValueError(f"an escape that no terminal was promised: {text[at:at + 8]!r}")
                continue
            at += 1
            if character == "\n":
                self._note()
                self.rows.append("")
                self.cursor = 0
            elif character == "\r":
                self.cursor = 0
            else:
                self._put(character)

    def _put(self, character):
        if unicodedata.east_asian_width(character) in "WF":
            raise ValueError(f"the model has no wide characters: {character!r}")
        if self.cursor == self.columns:
            self.wrapped.append(self.rows[-1])
            self._note()
            self.rows.append("")
            self.cursor = 0
        row = self.rows[-1].ljust(self.cursor)
        self.rows[-1] = row[: self.cursor] + character + row[self.cursor + 1 :]
        self.cursor += 1

    def _note(self):
        if self.rows[-1]:
            self.states.append(self.rows[-1])
