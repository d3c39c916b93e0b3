"""A layer imports only from those before it, wherever in a module the import stands."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from project_files import modules

LAYERS = (
    (
        "errors",
        "figures",
    ),
    ("records", "evidence", "progress"),
    ("public_names",),
    ("redaction", "redaction_patterns", "redaction_pseudonyms", "redaction_secrets", "redaction_spans", "redaction_words"),
    ("recording", "recording_archive", "recording_codec", "recording_tables"),
    ("hosts",),
    ("observe",),
    ("calculate",),
    ("hypothesize",),
    ("verify",),
    ("disturbance",),
    ("argument_checks", "investigation", "sweep"),
    ("show",),
    ("postmortem",),
    ("report_tables",),
    ("report", "score"),
    ("cli",),
    ("__main__",),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
UPWARDS = {("investigation", "show"), ("investigation", "postmortem")}
"""The public methods of an investigation that show it or write it down; imported when called, never with the module."""


def imports(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Modules of the package that are imported anywhere in a module, with the line; ``from diag_kit import x`` gives x."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import"
            if node.module == "diag_kit":
                yield from ((f"diag_kit.{alias.name}", node.lineno) for alias in node.names if alias.name != "__version__")
            elif node.module:
                yield node.module, node.lineno


def layer(module: str) -> str:
    return module.split(".")[1]


def test_every_module_has_a_layer() -> None:
    unknown = {layer(name) for name in modules() if name != "diag_kit"} - set(RANK)
    assert not unknown, f"name the layer of {sorted(unknown)} in LAYERS"


def test_layers_import_one_way() -> None:
    wrong = []
    for name, tree in modules().items():
        if name == "diag_kit":  # its names are loaded when asked for
            continue
        for imported, line in imports(tree):
            if not imported.startswith("diag_kit."):
                continue
            own, other = layer(name), layer(imported)
            if RANK.get(other, 99) > RANK[own] and (own, other) not in UPWARDS:
                wrong.append(f"{name} line {line} imports {imported}")
    assert wrong == []


def at_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when a module is imported: those under TYPE_CHECKING and in functions do not."""
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With | ast.ClassDef):
            yield from at_import(node.body)


def test_imports_upwards_stand_in_functions_only() -> None:
    wrong = []
    for own, other in UPWARDS:
        for name, tree in modules().items():
            if name != "diag_kit" and layer(name) == own:
                found = [node for node in at_import(tree.body) if isinstance(node, ast.ImportFrom)]
                wrong += [f"{name} line {node.lineno}" for node in found if f"{node.module}.".startswith(f"diag_kit.{other}.")]
    assert wrong == []


def test_parsers_and_rules_contact_nothing() -> None:
    """No clock, no files, no network, no logging in the pure layers."""
    banned = {"time", "socket", "subprocess", "logging", "random", "requests", "urllib.request", "paramiko", "shutil", "tempfile"}
    wrong = []
    for name, tree in modules().items():
        if layer(name + ".") in ("calculate", "hypothesize") or name.startswith("diag_kit.observe."):
            wrong += [f"{name} line {line} imports {module}" for module, line in imports(tree) if module in banned]
    assert wrong == []


def test_analysis_does_not_draw() -> None:
    drawing = {"altair", "ipywidgets", "IPython", "anywidget", "vl_convert", "IPython.display", "matplotlib"}
    wrong = []
    for name, tree in modules().items():
        if name != "diag_kit" and layer(name) in ("hosts", "observe", "calculate", "hypothesize", "verify", "recording", "sweep"):
            wrong += [f"{name} line {line} imports {module}" for module, line in imports(tree) if module in drawing]
    assert wrong == []
