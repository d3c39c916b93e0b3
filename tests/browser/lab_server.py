"""A JupyterLab server for one test module: own folders, loopback only, no token, no news, killed at the end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType

from notebook_runs import attempts_in, offline_environment

START_TIMEOUT_S = 120
SETTINGS = {
    "@jupyterlab/apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    # All cells stay in the page, so that a test can look at each without scrolling.
    "@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"},
    "@jupyterlab/docmanager-extension/plugin": {"autosave": False},
}


class LabServer:
    """``with LabServer(folder) as lab:`` starts it; ``lab.url``, ``lab.folder`` (its root), ``lab.attempts()``."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.folder = base / "work"
        self.folder.mkdir(parents=True)
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = base / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> LabServer:
        for name, settings in SETTINGS.items():
            path = self.base / "settings" / f"{name}.jupyterlab-settings"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(settings), encoding="utf-8")
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                self._command(), env=self._environment(), cwd=self.folder, stdout=log, stderr=log, start_new_session=True
            )
        self._wait()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Ask it to stop its kernels and itself; then end the whole group, so that nothing is left."""
        if self._process is None:
            return
        with contextlib.suppress(OSError, urllib.error.URLError):
            urllib.request.urlopen(urllib.request.Request(f"{self.url}/api/shutdown", method="POST"), timeout=10)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=15)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=10)

    def attempts(self) -> tuple[str, ...]:
        """Hosts that the server or a kernel tried to reach outside this machine."""
        return attempts_in(self.base)

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def _command(self) -> list[str]:
        options = {
            "ServerApp.ip": "127.0.0.1",
            "ServerApp.port": str(self.port),
            "ServerApp.port_retries": "0",
            "ServerApp.root_dir": str(self.folder),
            "ServerApp.open_browser": "False",
            "ServerApp.allow_root": "True",
            "ServerApp.disable_check_xsrf": "True",
            "IdentityProvider.token": "",
            "PasswordIdentityProvider.hashed_password": "",
            "LabApp.expose_app_in_browser": "True",
            "LabApp.news_url": "None",
            "LabApp.extension_manager": "readonly",
        }
        return [sys.executable, "-m", "jupyterlab", *(f"--{name}={value}" for name, value in options.items())]

    def _environment(self) -> dict[str, str]:
        return {
            **offline_environment(self.base),
            "JUPYTERLAB_SETTINGS_DIR": str(self.base / "settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(self.base / "workspaces"),
            "JUPYTER_CONFIG_DIR": str(self.base / "config"),
            "JUPYTER_DATA_DIR": str(self.base / "data"),
        }

    def _wait(self) -> None:
        end = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < end:
            if self._process is not None and self._process.poll() is not None:
                raise RuntimeError(f"JupyterLab ended at once:\n{self.log[-3000:]}")
            with contextlib.suppress(OSError, urllib.error.URLError):
                urllib.request.urlopen(f"{self.url}/api/status", timeout=5)
                return
            time.sleep(0.5)
        self.__exit__(None, None, None)
        raise RuntimeError(f"JupyterLab did not answer within {START_TIMEOUT_S} s:\n{self.log[-3000:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
