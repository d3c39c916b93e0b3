"""What must hold for every file: sizes, no traces of one machine, no code from data, no script made from values."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from project_files import PACKAGE, ROOT, modules, shown, tracked_files

MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_FILE_BYTES = 5_000_000
# Built from pieces, so that this file does not find itself.
MACHINE_PATHS = re.compile("|".join((rf"(?<![\w.-])/{'work'}/(?:main|shared|\.)", rf"/{'tmp'}/w(?:/|\b)", rf"/{'tmp'}/e/")))
BANNED_CALLS = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "pickle.load", "pickle.loads", "marshal.loads"}
BANNED_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}


def test_no_file_is_larger_than_five_megabytes() -> None:
    assert [shown(path) for path in tracked_files() if path.stat().st_size > MAX_FILE_BYTES] == []


def test_no_file_names_the_machine_it_was_written_on() -> None:
    found = []
    for path in tracked_files():
        text = path.read_bytes().decode("utf-8", "replace")
        found += [f"{shown(path)}: {match.group()}" for match in MACHINE_PATHS.finditer(text)]
    assert found == []


def test_modules_are_short() -> None:
    long = [
        f"{shown(path)}: {count} lines"
        for path in sorted(PACKAGE.rglob("*.py"))
        if (count := len(path.read_text("utf-8").splitlines())) > MAX_MODULE_LINES
    ]
    assert long == []


def test_functions_are_short() -> None:
    long = []
    for name, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
                lines = node.end_lineno - node.lineno + 1
                long += [f"{name}.{node.name}: {lines} lines"] if lines > MAX_FUNCTION_LINES else []
    assert long == []


def test_no_module_has_a_name_that_says_nothing() -> None:
    empty = {"utils", "util", "helpers", "helper", "manager", "common", "misc", "base_utils"}
    assert [name for name in modules() if name.rpartition(".")[2] in empty] == []


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def test_nothing_runs_code_from_data() -> None:
    wrong = []
    for name, tree in modules().items():
        for call in calls(tree):
            if ast.unparse(call.func) in BANNED_CALLS:
                wrong.append(f"{name} line {call.lineno}: {ast.unparse(call.func)}")
            shell = [word for word in call.keywords if word.arg == "shell"]
            wrong += [f"{name} line {call.lineno}: shell=" for word in shell if ast.unparse(word.value) != "False"]
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            wrong += [f"{name}: imports {each}" for each in names if each.split(".")[0] in BANNED_MODULES]
    assert wrong == []


def is_made(node: ast.expr) -> bool:
    """Text put together from values: an f-string, ``+``, ``%``, ``.format``, ``.join``, ``.replace``, Template."""
    if isinstance(node, ast.JoinedStr):
        return any(isinstance(value, ast.FormattedValue) for value in node.values)
    if isinstance(node, ast.BinOp):
        return True
    if isinstance(node, ast.Call):
        return True
    if isinstance(node, ast.IfExp):
        return is_made(node.body) or is_made(node.orelse)
    return False


def scripts(tree: ast.Module) -> Iterator[tuple[ast.Call, ast.expr]]:
    """The script argument of every ``something.run(...)`` that is not subprocess."""
    for call in calls(tree):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "run" and ast.unparse(call.func.value) != "subprocess":
            script = call.args[0] if call.args else next((word.value for word in call.keywords if word.arg == "script"), None)
            if script is not None:
                yield call, script


def constant_names(tree: ast.Module) -> dict[str, ast.expr]:
    """Names given once at the top of a module."""
    return {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def test_no_script_for_a_host_is_made_from_values() -> None:
    """What a probe runs is a constant; values go beside it as arguments."""
    wrong = []
    seen = 0
    for name, tree in modules().items():
        if name.startswith("diag_kit.hosts."):  # the runner is where quoting is done; its own tests are in tests/hosts
            continue
        local_values = {
            target.id: node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name) and target.id not in constant_names(tree)
        }
        for call, script in scripts(tree):
            seen += 1
            made = is_made(script) or (isinstance(script, ast.Name) and is_made(local_values.get(script.id, ast.Constant(""))))
            wrong += [f"{name} line {call.lineno}: {ast.unparse(script)[:80]}"] if made else []
    assert seen >= 5, "the check looks at nothing: have probes another way to run a script now?"
    assert wrong == []


@pytest.mark.parametrize(
    ("code", "made"),
    [
        ("host.run(f'cat {path}')", True),
        ("host.run('cat ' + path)", True),
        ("host.run('cat %s' % path)", True),
        ("host.run('cat {}'.format(path))", True),
        ("host.run(' '.join(words))", True),
        ("host.run(script=f'{x}')", True),
        ("host.run(SCRIPT, path)", False),
        ("host.run('cat \"$1\"', path)", False),
        ("subprocess.run(f'{x}')", None),
    ],
)
def test_the_script_check_finds_what_it_should(code: str, made: bool | None) -> None:
    found = [is_made(script) for _, script in scripts(ast.parse(code))]
    assert found == ([] if made is None else [made])


def fresh_python(code: str) -> str:
    answer = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    return answer.stdout.strip()


def test_importing_the_package_loads_nothing_heavy() -> None:
    loaded = fresh_python(
        "import sys, diag_kit\n"
        "heavy = {'altair', 'paramiko', 'pandas', 'numpy', 'ipywidgets', 'pyarrow', 'vl_convert', 'jinja2'}\n"
        "print(*sorted(heavy & set(sys.modules)))"
    )
    assert loaded == ""


def test_importing_the_package_is_quick() -> None:
    """Under 0.3 s; the best of three, for a busy machine may be slow once."""
    code = "import time; t = time.perf_counter(); import diag_kit; print(time.perf_counter() - t)"
    best = min(float(fresh_python(code)) for _ in range(3))
    assert best < 0.3


def test_the_list_of_probes_loads_no_drawing() -> None:
    loaded = fresh_python(
        "import sys; from diag_kit.observe.probe import all_probes; all_probes()\n"
        "print(*sorted({'altair', 'ipywidgets', 'paramiko', 'vl_convert'} & set(sys.modules)))"
    )
    assert loaded == ""


def test_every_probe_says_what_it_gives_and_what_a_person_would_type() -> None:
    from diag_kit.observe.probe import all_probes

    for name, cls in all_probes().items():
        assert re.fullmatch(r"[a-z_]+", name)
        assert cls.__doc__ and len(cls.__doc__) > 100, f"{name}: its docstring says too little"
        assert cls.equivalent or name == "told", f"{name}: no equivalent command"


def test_the_tests_themselves_do_not_wait_for_nothing() -> None:
    """A long sleep in a test is a slow test for everybody."""
    started = time.perf_counter()
    found = []
    for path in tracked_files():
        if path.suffix == ".py" and "tests" in path.parts and path.name.startswith("test_"):
            for match in re.finditer(r"\btime\.sleep\((\d+(?:\.\d+)?)\)", path.read_text("utf-8")):
                found += [f"{shown(path)}: {match.group()}"] if float(match.group(1)) > 3 else []
    assert found == []
    assert time.perf_counter() - started < 20
