"""source: a function found in Python text, and what the host's answer becomes."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diag_kit.errors import BadInput
from diag_kit.evidence import Evidence
from diag_kit.hosts.local import local
from diag_kit.observe.probe import observe
from diag_kit.observe.python_source import find, find_anywhere, parse, reexport_of
from diag_kit.observe.source import Source
from diag_kit.records import CommandResult, Observation, Parsed

TEXT = textwrap.dedent('''\
    import functools

    @functools.lru_cache
    @other(
        1,
    )
    def decorated(a,
                  b):
        """Doc."""
        return a

    class Outer:
        x = 1

        class Inner:
            async def method(self):
                def local():
                    return 1
                return local

    if True:
        def branch():
            return 1
    else:
        def branch():
            return 2

    alias = functools.partial(decorated, 1)
    ''')


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("decorated", "@functools.lru_cache", "    return a"),
        ("Outer", "class Outer:", "            return local"),
        ("Outer.Inner.method", "        async def method(self):", "            return local"),
        ("Outer.Inner.method.<locals>.local", "            def local():", "                return 1"),
        ("branch", "    def branch():", "        return 2"),
        ("alias", "alias = functools.partial(decorated, 1)", "alias = functools.partial(decorated, 1)"),
        ("Outer.x", "    x = 1", "    x = 1"),
    ],
)
def test_find(name: str, first: str, last: str) -> None:
    found = find(TEXT, name)
    assert found is not None
    lines = TEXT.split("\n")
    assert (lines[found.start - 1], lines[found.end - 1]) == (first, last)


@pytest.mark.parametrize("name", ["missing", "Outer.missing", "Inner", ""])
def test_not_there(name: str) -> None:
    assert find(TEXT, name) is None


def test_any_depth() -> None:
    found = find_anywhere(TEXT, "local")
    assert found is not None
    assert TEXT.split("\n")[found.start - 1].strip() == "def local():"


def test_text_that_does_not_parse() -> None:
    """By indentation, and said so."""
    found = find("print 'old'\n@deco\ndef f(a,\n      b):\n    return a\n\nx = 1\n", "f")
    assert found is not None
    assert (found.start, found.end) == (2, 5)
    assert "does not parse" in found.note


def test_reexport() -> None:
    tree = parse("from .utils import apply as renamed\nfrom pkg.mod import other\nfrom . import third\n")
    assert tree is not None
    assert [reexport_of(tree, name) for name in ("renamed", "other", "third", "none")] == [
        ".utils.apply",
        "pkg.mod.other",
        ".third",
        "",
    ]


@given(st.text(max_size=200), st.text(max_size=20))
def test_any_text(text: str, name: str) -> None:
    find(text, name)
    find_anywhere(text, name)


# -- the whole probe on a made package, through the local host ------------------------------------------------------


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A virtual environment with a made package, which fails when it is imported."""
    home = tmp_path_factory.mktemp("env")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    site = next((home / "lib").glob("python3*/site-packages"))
    package = site / "drafter"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (package / "trainer.py").write_text(
        "from drafter.inner.wrap import shard\nfrom .base import Base\n\n"
        "class Trainer(Base):\n    def run(self):\n        return 1\n"
    )
    (package / "base.py").write_text("class Base:\n    def save(self):\n        return 2\n")
    (package / "inner" / "__init__.py").write_text("")
    (package / "inner" / "wrap.py").write_text("@noop\ndef shard(model):\n    return model\n")
    (package / "quiet.py").write_text("version = '0.2.0'\n")
    info = site / "drafter-0.3.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: drafter\nVersion: 0.3.0\n")
    noisy = site / "noisy"
    noisy.mkdir()
    (noisy / "__init__.py").write_text(
        "import warnings\nprint('hello')\nwarnings.warn('`torch_dtype` is deprecated')\n\ndef f():\n    return 3\n"
    )
    (site / "noisy-1.0.dist-info").mkdir()
    (site / "noisy-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: noisy\nVersion: 1.0\n")
    elsewhere = home / "src" / "edit"
    elsewhere.mkdir(parents=True)
    (elsewhere / "__init__.py").write_text("def g():\n    return 4\n")
    (site / "__editable___edit_finder.py").write_text(f"MAPPING: dict[str, str] = {{'edit': {str(elsewhere)!r}}}\n")
    linked = home / "linked"
    linked.mkdir()
    (linked / "viapth.py").write_text("def h():\n    return 5\n")
    (site / "linked.pth").write_text(f"import os\n{linked}\n")
    return str(home / "bin" / "python")


def ask(target: str, python: str, **more: object) -> Observation:
    return observe(Source(target, python=python, **more), local(), Evidence())  # type: ignore[arg-type]


def row(seen: Observation) -> dict[str, object]:
    table = seen.table("source")
    assert table is not None
    return dict(table.iloc[0])


def test_whole_function_with_version_and_nothing_imported(python: str) -> None:
    """The package raises on import, so an answer means that it was not imported; the version is the metadata's."""
    seen = ask("drafter.trainer:Trainer.run", python)
    assert seen.parsed.problems == ()
    found = row(seen)
    assert (found["line_start"], found["line_end"], found["text"]) == (5, 6, "    def run(self):\n        return 1")
    assert str(found["file"]).endswith("/drafter/trainer.py")
    assert (found["package"], found["version"]) == ("drafter", "0.3.0")
    assert [fact.value for fact in seen.facts if fact.name == "library_version"] == ["drafter 0.3.0"]


def test_found_in_another_module_of_the_package(python: str) -> None:
    found = row(ask("drafter.trainer:shard", python))
    assert str(found["file"]).endswith("/drafter/inner/wrap.py")
    assert found["text"] == "@noop\ndef shard(model):\n    return model"
    assert found["note"] == "not defined in drafter.trainer, which takes it from drafter.inner.wrap.shard"


def test_inherited_method(python: str) -> None:
    found = row(ask("drafter.trainer:Trainer.save", python))
    assert found["name"] == "Base.save"
    assert found["note"] == "Trainer has no own save: inherited from Base"


@pytest.mark.parametrize(
    ("target", "text"),
    [("edit:g", "def g():\n    return 4"), ("viapth:h", "def h():\n    return 5")],
)
def test_editable_installs(python: str, target: str, text: str) -> None:
    assert row(ask(target, python))["text"] == text


def test_standard_library(python: str) -> None:
    assert str(row(ask("json:dumps", python))["text"]).startswith("def dumps(")


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("drafter.trainer:Trainer.nothing", "Trainer.nothing is not in"),
        ("drafter.nothing:f", "there is no module drafter.nothing in the installed drafter"),
        ("nobody:f", "there is no module nobody in the packages of"),
        ("/no/such/file.py:f", "unreadable: /no/such/file.py"),
    ],
)
def test_missing_things(python: str, target: str, problem: str) -> None:
    seen = ask(target, python)
    assert any(each.startswith(problem) for each in seen.parsed.problems), seen.parsed.problems
    assert seen.table("source") is not None


def test_missing_interpreter() -> None:
    seen = ask("json:dumps", "/no/such/python")
    assert "the interpreter /no/such/python is not on the host" in seen.parsed.problems[0]


def test_dynamic_keeps_warnings_out(python: str) -> None:
    """What the package prints and warns about goes to standard error, the source stays clean and whole."""
    seen = ask("noisy:f", python, dynamic=True)
    assert row(seen)["text"] == "def f():\n    return 3"
    assert row(seen)["version"] == "1.0"
    assert "torch_dtype" in seen.results[0].error_text
    assert seen.parsed.problems == ()


def test_dynamic_import_that_fails(python: str) -> None:
    seen = ask("drafter.trainer:Trainer", python, dynamic=True)
    assert "importing drafter.trainer failed: RuntimeError: imported" in seen.parsed.problems[0]


def test_dynamic_that_is_cut() -> None:
    raw = b"==diag_kit:source==\nmodule\tm\nlines\t10\t3\t30\nfile\t/m.py\t1\t1\n|def f():\n|    a\nend\t1\n"
    parsed = read("m:f", raw, dynamic=True)
    assert parsed.problems == ("the source was cut: 2 of 3 lines came",)
    assert parsed.tables["source"]["line_start"].tolist() == [10]


def test_file_by_path(tmp_path: Path) -> None:
    script = tmp_path / "a b.py"
    script.write_text("def f():\n    return 'x|y'\n")
    seen = observe(Source(f"{script}:f"), local(), Evidence())
    assert row(seen)["text"] == "def f():\n    return 'x|y'"
    assert seen.parsed.problems == ()


@pytest.mark.parametrize("target", ["a b", "os;rm", "", "a.b-c:f", "$(x):f"])
def test_a_target_that_names_nothing(target: str) -> None:
    with pytest.raises(BadInput, match="names no source"):
        ask(target, "/usr/bin/python3")


def read(target: str, raw: bytes, **more: object) -> Parsed:
    asked = Source(target, **more)  # type: ignore[arg-type]
    return asked.read((CommandResult("h", "c", raw, b"", 0, datetime(2026, 11, 30, tzinfo=UTC), 0.1),))


def test_edited_after_the_start() -> None:
    raw = b"started\t100\n==diag_kit:source==\nmodule\tm\nfile\t/m.py\t%d\t9\n|def f(): 1\nend\t1\n"
    for mtime, changed in ((101, True), (99, False)):
        (fact,) = [each for each in read("m:f", raw % mtime).facts if each.name == "source_changed_after_start"]
        assert fact.value is changed


@given(st.binary(max_size=300))
def test_any_bytes(raw: bytes) -> None:
    read("m:f", raw)
    read("m:f", b"file\t/x\t1\t1\n|" + raw, dynamic=True)
