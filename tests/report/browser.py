"""A headless Chromium that is told what to do through a pipe: the DevTools protocol, with Python's own modules."""
import base64
import json
import os
import shutil
import subprocess

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def program():
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    def __init__(self, folder):
        """Leaves its profile in `folder`."""
        commands, self.out = os.pipe()
        self.answers, into = os.pipe()

        def place_pipes():  # where the program expects them
            for end, number in ((commands, 103), (into, 104), (103, 3), (104, 4)):
                os.dup2(end, number)

        # Pages of this test, in a container where it runs as root: its sandbox refuses to.
        self.process = subprocess.Popen(
            [program(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage",
             f"--user-data-dir={folder}", "--remote-debugging-pipe", "about:blank"],
            preexec_fn=place_pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(commands)
        os.close(into)
        self.n_calls, self.rest, self.session = 0, b"", {}
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = {"sessionId": self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        self.call("Page.enable")

    def _next(self):
        while b"\0" not in self.rest:
            part = os.read(self.answers, 1 << 20)
            if not part:
                raise RuntimeError("the browser ended")
            self.rest += part
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.n_calls += 1
        message = {"id": self.n_calls, "method": method, "params": params, **self.session}
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self.n_calls:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def show(self, path, width, height, scheme):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=f"file://{path}")
        while self._next().get("method") != "Page.loadEventFired":
            pass

    def value(self, expression):
        """Of JavaScript, promises awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"]["description"])
        return answer["result"].get("value")

    def picture(self):
        """PNG of what is in sight."""
        return base64.b64decode(self.call("Page.captureScreenshot")["data"])

    def close(self):
        self.session = {}
        self.call("Browser.close")
        self.process.wait()
        os.close(self.out)
        os.close(self.answers)
