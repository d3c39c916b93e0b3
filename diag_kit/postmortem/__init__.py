"""The postmortem: Markdown and one self-contained HTML page, both drawn from one document made from the ledger."""

from __future__ import annotations

from diag_kit.postmortem.compose import compose
from diag_kit.postmortem.export import to_html, to_markdown, write

__all__ = ["compose", "to_html", "to_markdown", "write"]
