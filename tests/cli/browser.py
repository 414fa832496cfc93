"""A real browser for tests: Chromium without a window, driven over a pipe with its DevTools protocol.

No package is needed for that, no port is opened, and nothing is loaded from a network: the browser gets a proxy that
does not exist. One browser serves a whole module; every page it opens is its own target.
"""

import base64
import itertools
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import time

PATIENCE_S = 30


class BrowserError(Exception):
    pass


class Browser:
    def __init__(self, folder):
        program = shutil.which("chromium")
        if not program:
            raise BrowserError("chromium is not installed: tools/setup test")
        self.numbers = itertools.count(1)
        self.rest = b""
        self.events = []
        (theirs_in, self.to), (self.back, theirs_out) = os.pipe(), os.pipe()
        # The protocol is on file descriptors 3 and 4.
        shell = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self.log = open(pathlib.Path(folder) / "chromium.log", "wb")
        self.process = subprocess.Popen(
            ["/bin/bash", "-c", shell, program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--hide-scrollbars", "--no-first-run", "--disable-extensions", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--proxy-server=http://127.0.0.1:9", "--remote-debugging-pipe",
             f"--user-data-dir={folder}/profile", "about:blank"],
            pass_fds=(theirs_in, theirs_out), stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
            env={**os.environ, "HOME": str(folder)}, start_new_session=True)
        os.close(theirs_in)
        os.close(theirs_out)

    def call(self, method, session=None, **params):
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            got = self.receive()
            if got.get("id") == number:
                if "error" in got:
                    raise BrowserError(f"{method}: {got['error']['message']}")
                return got["result"]
            self.events.append(got)

    def receive(self):
        deadline = time.monotonic() + PATIENCE_S
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.back], [], [], max(deadline - time.monotonic(), 0))
            piece = os.read(self.back, 1 << 20) if ready else b""
            if not piece:
                raise BrowserError("the browser said nothing more")
            self.rest += piece
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def take(self, method, session):
        """Events of that name so far, which are then forgotten."""
        found = [e["params"] for e in self.events if e.get("method") == method and e.get("sessionId") == session]
        self.events = [e for e in self.events if not (e.get("method") == method and e.get("sessionId") == session)]
        return found

    def wait(self, method, session):
        while True:
            found = self.take(method, session)
            if found:
                return found
            self.events.append(self.receive())

    def close(self):
        os.close(self.to)
        os.close(self.back)
        try:
            os.killpg(self.process.pid, signal.SIGTERM)
        except ProcessLookupError:
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.log.close()


class Page:
    """One page. Everything it complained about is in complaints(); dialogs that it opened are in dialogs()."""

    def __init__(self, browser, path, width=1240, height=1000, scripts=True, dark=False, media=""):
        self.browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.target = target
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 700)
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.call("Emulation.setEmulatedMedia", media=media,
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        browser.wait("Page.loadEventFired", self.session)

    def call(self, method, **params):
        return self.browser.call(method, session=self.session, **params)

    def js(self, expression):
        got = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in got:
            raise BrowserError(got["exceptionDetails"].get("exception", {}).get("description") or str(got["exceptionDetails"]))
        return got["result"].get("value")

    def until(self, expression):
        """Waits for a condition, at most PATIENCE_S."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.js(expression):
            assert time.monotonic() < deadline, f"never true: {expression}"
            self.js("new Promise(requestAnimationFrame)")

    def text(self, selector="body"):
        return self.js(f"document.querySelector({json.dumps(selector)}).innerText")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1, **more)

    def drag(self, from_x, to_x, y):
        self.mouse("mouseMoved", from_x, y)
        self.mouse("mousePressed", from_x, y)
        for part in (0.25, 0.5, 0.75, 1):
            self.mouse("mouseMoved", from_x + part * (to_x - from_x), y, buttons=1)
        self.mouse("mouseReleased", to_x, y)

    def click(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y)
        self.mouse("mouseReleased", x, y)

    def key(self, key, text=None):
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def box(self, selector):
        """Its place in the window, after scrolling there: x, y, width, height."""
        return self.js(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}});"
                       " const r = e.getBoundingClientRect(); return {x: r.x, y: r.y, width: r.width, height: r.height}; })()")

    def screenshot(self, path, whole=True):
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))

    def pdf(self):
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def complaints(self):
        """Exceptions, errors on the console, violations of the policy, and everything asked of a network."""
        self.js("new Promise(done => setTimeout(done, 0))")
        take = self.browser.take
        found = [e["exceptionDetails"].get("exception", {}).get("description", "exception")
                 for e in take("Runtime.exceptionThrown", self.session)]
        found += [str(e["args"]) for e in take("Runtime.consoleAPICalled", self.session) if e["type"] in ("error", "warning", "assert")]
        found += [e["entry"]["text"] for e in take("Log.entryAdded", self.session) if e["entry"]["level"] in ("error", "warning")]
        found += [e["request"]["url"] for e in take("Network.requestWillBeSent", self.session)
                  if not e["request"]["url"].startswith("file:")]
        return found

    def dialogs(self):
        return self.browser.take("Page.javascriptDialogOpening", self.session)

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)
