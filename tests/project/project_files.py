"""The project's own files, and its modules as syntax trees, for the tests on the project as a whole."""

from __future__ import annotations

import ast
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "diag_kit"
_LEFT_OUT = {".git", ".venv", ".venv-lab", "__pycache__", "node_modules", "build", "dist"}


@cache
def tracked_files() -> tuple[Path, ...]:
    """What git tracks and is there; without git (an unpacked archive) all files outside environments and caches."""
    answer = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, check=False)
    if answer.returncode == 0:
        names = answer.stdout.decode("utf-8", "surrogateescape").split("\0")
        return tuple(path for name in names if name and (path := ROOT / name).is_file())
    return tuple(path for path in sorted(ROOT.rglob("*")) if path.is_file() and not _LEFT_OUT & set(path.relative_to(ROOT).parts))


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        found[name] = ast.parse(path.read_text("utf-8"), filename=str(path))
    return found


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))
