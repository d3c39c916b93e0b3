"""Every number that a card shows is in the JSON: tables bounded, and nothing that JSON cannot say."""

from __future__ import annotations

import json
import time

import pandas as pd

from diag_kit.cli import main
from diag_kit.report_tables import CHARACTERS, ROWS, tables


def test_a_short_table_is_all_there_and_unknown_is_null():
    frame = pd.DataFrame(
        {
            "t": pd.to_datetime(["2024-03-05T01:02:03Z", None]),
            "gpu": pd.array([0, None], dtype="Int64"),
            "util_pct": [float("nan"), float("inf")],
            "link": pd.array(["PXB", None], dtype="string"),
            "pending": pd.array([True, None], dtype="boolean"),
            "text": ["x" * 2000, ""],
        }
    )
    made = tables({"links": frame, "none": frame.head(0)})
    first, second = made["links"]["records"]
    assert made["links"]["rows"] == 2 and made["none"] == {"rows": 0, "records": []}
    assert first["t"] == "2024-03-05T01:02:03+00:00" and first["gpu"] == 0 and first["pending"] is True
    assert len(first["text"]) == CHARACTERS and first["text"].endswith("…")
    assert {name: second[name] for name in frame.columns[:5]} == dict.fromkeys(frame.columns[:5])
    assert json.loads(json.dumps(made, allow_nan=False)) == made


def test_a_long_table_has_both_ends_and_a_summary_of_every_row():
    n = 50_000
    frame = pd.DataFrame(
        {"step": range(n), "step_s": [0.5] * (n - 2) + [9.0, float("nan")], "split": ["train", "val"] * (n // 2)}
    )
    frame["t"] = pd.Timestamp("2024-01-01T00:00:00Z") + pd.to_timedelta(frame["step"], unit="s")
    began = time.process_time()
    made = tables({"metrics": frame})["metrics"]
    assert time.process_time() - began < 1.0
    assert made["rows"] == n and len(made["records"]) == ROWS and made["left_out"] == n - ROWS
    assert made["records"][0]["step"] == 0 and made["records"][-1]["step"] == n - 1
    assert made["columns"]["step_s"] == {"count": n - 1, "min": 0.5, "median": 0.5, "max": 9.0}
    assert made["columns"]["split"] == {"count": n, "distinct": 2}
    assert made["columns"]["t"]["max"] == "2024-01-01T13:53:19+00:00"


def test_diagnose_prints_the_tables_as_strict_json(capsys, tmp_path):
    lines = [f"step {n}/900 loss {'nan' if n % 7 == 0 else 1.5} lr 0.001 step_time 0.25" for n in range(300)]
    (tmp_path / "a.txt").write_text("\n".join(lines) + "\n")
    assert main(["diagnose", str(tmp_path), "--json"]) == 0

    def refused(text: str) -> None:
        raise AssertionError(text)

    seen = json.loads(capsys.readouterr().out, parse_constant=refused)["observations"]
    metrics = next(o["tables"]["metrics"] for o in seen if "metrics" in o["tables"])
    assert metrics["rows"] == 300 and metrics["records"][1]["loss"] == 1.5 and metrics["records"][0]["loss"] is None
