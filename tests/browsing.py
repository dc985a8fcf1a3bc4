"""A headless Chromium that a test drives: it opens a page, evaluates, presses keys, and takes pictures."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """A headless Chromium, spoken to over its debugging pipe."""

    def __init__(self, page):
        given, take = os.pipe()
        give, taken = os.pipe()
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe"]

        def wire():
            os.dup2(given, 3)
            os.dup2(taken, 4)

        low = (given, taken)
        self.child = subprocess.Popen(
            [CHROMIUM, *flags, "about:blank"], preexec_fn=wire, pass_fds=(3, 4, *low),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(given)
        os.close(taken)
        self.write, self.read, self.number, self.session, self.asked = take, give, 0, None, []
        self.rest = b""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Network.enable")
        self.call("Page.enable")
        self.open(page)

    def open(self, page):
        self.call("Page.navigate", url=page.as_uri())
        for _ in range(200):
            if self.value("document.readyState") == "complete" and self.value("location.href") == page.as_uri():
                return
            time.sleep(0.05)
        raise AssertionError("the page did not load")

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                part = os.read(self.read, 1 << 16)
                if not part:
                    raise AssertionError("the browser ended")
                self.rest += part
            text, _, self.rest = self.rest.partition(b"\0")
            found = json.loads(text)
            if found.get("method") == "Network.requestWillBeSent":
                self.asked.append(found["params"]["request"]["url"])
            if found.get("id") == self.number:
                assert "error" not in found, found
                return found["result"]

    def value(self, expression):
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def press(self, key, code):
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def shown_as(self, scheme, width):
        """The page in the colours "light" or "dark", in a window of this many pixels."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500
        )

    def picture(self):
        """The whole page, as the bytes of a PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"])

    def close(self):
        self.child.terminate()
        self.child.wait(20)
        os.close(self.write)
        os.close(self.read)
