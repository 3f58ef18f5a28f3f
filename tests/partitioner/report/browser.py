"""A headless Chromium, driven over its debugging pipe. Standard library alone.

    with Browser(find_chromium()) as browser:
        page = browser.open(path, width=360)
        page.theme(dark=True)
        page.picture("page.png")
        page.problems            # what the console, the log and the network complained about
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time


def find_chromium():
    """The program's path, or None."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return found
    return None


class Browser:
    def __init__(self, program, deadline_seconds=300):
        self.deadline = deadline_seconds
        self.profile = tempfile.mkdtemp(prefix="millrace-browser-")
        to_browser, self.writer = os.pipe()
        self.reader, from_browser = os.pipe()

        def connect():  # Chromium reads file descriptor 3 and writes 4
            kept = [os.dup(to_browser), os.dup(from_browser)]
            while min(kept) < 5:
                kept = [os.dup(fd) for fd in kept]
            os.dup2(kept[0], 3)
            os.dup2(kept[1], 4)

        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-extensions", "--remote-debugging-pipe",
             f"--user-data-dir={self.profile}", "about:blank"],
            preexec_fn=connect, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer = b""
        self.number = 0
        self.events = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("Browser.close")
        except (OSError, TimeoutError, RuntimeError):
            pass
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.writer)
        os.close(self.reader)
        shutil.rmtree(self.profile, ignore_errors=True)

    def receive(self, until):
        while b"\0" not in self.buffer:
            if not select.select([self.reader], [], [], max(0.0, until - time.monotonic()))[0]:
                raise TimeoutError(f"Chromium said nothing for {self.deadline} s")
            chunk = os.read(self.reader, 1 << 20)
            if not chunk:
                raise RuntimeError("Chromium ended")
            self.buffer += chunk
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.writer, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + self.deadline
        while True:
            answer = self.receive(until)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def wait_for(self, event, session):
        until = time.monotonic() + self.deadline
        while True:
            for seen in self.events:
                if seen.get("method") == event and seen.get("sessionId") == session:
                    return seen["params"]
            self.events.append(self.receive(until))

    def open(self, path, width, height=900):
        return Tab(self, path, width, height)


class Tab:
    def __init__(self, browser, path, width, height):
        self.browser = browser
        self.url = "file://" + os.path.abspath(path)
        self.width = width
        self.target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        browser.events = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.theme(dark=False)
        self.call("Page.navigate", url=self.url)
        browser.wait_for("Page.loadEventFired", self.session)

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def theme(self, dark, media=""):
        self.call("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"].get("text", "an exception") + ": " + expression[:80])
        return result["result"].get("value")

    @property
    def problems(self):
        found = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            method, parameters = event["method"], event["params"]
            if method == "Runtime.consoleAPICalled":
                found.append("console: " + json.dumps(parameters["args"])[:200])
            elif method == "Runtime.exceptionThrown":
                found.append("exception: " + parameters["exceptionDetails"].get("text", ""))
            elif method == "Log.entryAdded":
                found.append("log: " + parameters["entry"]["text"])
            elif method == "Network.requestWillBeSent" and parameters["request"]["url"] != self.url:
                found.append("asks for " + parameters["request"]["url"][:200])
        return found

    def picture(self, path, most_height=16000):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        height = min(most_height, max(1, int(size["height"])))
        image = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                          clip={"x": 0, "y": 0, "width": self.width, "height": height, "scale": 1})
        with open(path, "wb") as file:
            file.write(base64.b64decode(image["data"]))

    def print_to(self, path):
        pdf = self.call("Page.printToPDF", printBackground=False, paperWidth=8.27, paperHeight=11.69)
        with open(path, "wb") as file:
            file.write(base64.b64decode(pdf["data"]))

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)
