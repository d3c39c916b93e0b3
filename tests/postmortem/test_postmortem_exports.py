"""The two exports: exact Markdown, safe and self-contained HTML, the same words in both, whole files."""

from __future__ import annotations

import re
from pathlib import Path

import mistune
import pytest
from html_reading import read
from hypothesis import given, settings
from hypothesis import strategies as st
from postmortem_cases import HOSTILE, StubCase, empty_case, hostile_case, small_case

from diag_kit.errors import BadInput
from diag_kit.postmortem import markdown, to_html, to_markdown, write
from diag_kit.postmortem.document import Span, Style
from diag_kit.postmortem.wording import one_line, verbatim

DATA = Path(__file__).parents[1] / "data" / "postmortem"
CASES = {"small": small_case, "hostile": hostile_case, "empty": empty_case}
PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 16
ALLOWED_TAGS = {
    *("html", "head", "meta", "title", "style", "body", "main", "header", "h1", "h2", "h3", "div", "section", "p", "ul", "li"),
    *("nav", "a", "table", "thead", "tbody", "tr", "th", "td", "code", "strong", "mark", "s", "pre", "details", "summary"),
    *("figure", "img", "figcaption", "colgroup", "col", "wbr"),
}

# escape=False: raw HTML in the Markdown would come through as tags, and be seen.
render_markdown = mistune.create_markdown(escape=False, plugins=["table", "strikethrough", "url"])


def test_markdown_is_exactly_this() -> None:
    """To renew after a wanted change: write ``to_markdown(small_case())`` over the file and read the difference."""
    expected = (DATA / "small.md").read_text(encoding="utf-8")
    assert to_markdown(small_case()) == expected


@pytest.mark.parametrize("name", CASES)
def test_the_same_case_gives_the_same_bytes(name: str) -> None:
    assert to_markdown(CASES[name]()) == to_markdown(CASES[name]())
    assert to_html(CASES[name]()) == to_html(CASES[name]())


@pytest.mark.parametrize("name", CASES)
def test_both_exports_say_the_same_words_in_the_same_order(name: str) -> None:
    rendered = read(render_markdown(to_markdown(CASES[name]())))
    from_markdown = rendered.text.replace("\\|", "|").split()  # mistune leaves this escape in code inside tables; GitHub does not
    from_html = read(to_html(CASES[name]()), leave_out=("head", "nav")).words
    assert from_html == from_markdown


@pytest.mark.parametrize("name", CASES)
def test_html_needs_nothing_from_outside_and_runs_nothing(name: str) -> None:
    html = to_html(CASES[name](), [("A <chart>", PNG, "read & see"), ("No data", b"", "nothing to draw")])
    page = read(html)
    assert page.unbalanced == []
    assert page.tags <= ALLOWED_TAGS
    assert not [each for each in page.attributes if each[1].startswith("on")]
    links = [
        value for _, attribute, value in page.attributes if attribute in {"href", "src", "action", "data", "poster", "srcset"}
    ]
    assert links
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in links)
    assert "url(" not in page.styles and "@import" not in page.styles
    assert any(attribute == "content" and "default-src 'none'" in value for _, attribute, value in page.attributes)
    assert "A <chart>. read & see" in page.text
    assert "No data: no chart. nothing to draw" in page.text


def test_every_place_of_the_hostile_case_is_shown_as_text() -> None:
    shown = one_line(HOSTILE)
    page = read(to_html(hostile_case()))
    assert page.text.count(shown) > 40
    assert "\x1b" not in page.text and "\u202e" not in page.text
    assert page.text.count("{{ 7*7 }} {% raw %}") > 40


def test_every_link_inside_leads_somewhere() -> None:
    attributes = read(to_html(small_case())).attributes
    targets = {value for _, name, value in attributes if name == "id"}
    links = {value[1:] for _, name, value in attributes if name == "href"}
    assert {"O1", "O2", "O3", "C1", "C3", "V1", "H2"} <= links
    assert links <= targets | {"H1"}  # H1 was replaced by H2, which has the row


def test_hostile_markdown_opens_no_tag_no_link_no_mention() -> None:
    text = to_markdown(hostile_case())
    page = read(render_markdown(text))
    assert not page.tags & {"script", "img", "a"}
    outside_code = re.sub(r"(`+).*?\1", "", re.sub(r"(?ms)^(`{3,}).*?^\1$", "", text))
    assert "@someone" not in outside_code
    assert "http://evil" not in outside_code


def test_a_table_row_stays_one_row_of_its_columns() -> None:
    for line in re.sub(r"(?ms)^(`{3,}).*?^\1$", "", to_markdown(hostile_case())).splitlines():
        if line.startswith("| "):
            columns = len(re.findall(r"(?<!\\)\|", line)) - 1
            assert 2 <= columns <= 9, line


def test_a_fence_is_longer_than_any_in_its_text() -> None:
    text = "a\n`````\nb"
    shown = markdown._fenced(text, "text")
    assert shown.startswith("``````text\n") and shown.endswith("\n``````")
    assert read(render_markdown(shown)).text.strip() == text


@given(st.text(max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_text_comes_back_as_it_was(text: str) -> None:
    """Escaped for Markdown and rendered, any text is again the visible text, in a paragraph, in bold and as code."""
    shown = one_line(text).strip()
    for style in (Style.PLAIN, Style.STRONG, Style.CODE):
        written = "x " + markdown.inline((Span(text, style),)) + " y"
        page = read(render_markdown(written))
        assert " ".join(page.words) == " ".join(f"x {shown} y".split()), (style, written)
        assert page.tags <= {"p", "strong", "code"}


@given(st.text(max_size=60))
@settings(max_examples=200, deadline=None)
def test_no_text_opens_a_block(text: str) -> None:
    page = read(render_markdown(markdown._at_start(markdown.inline((Span(text),)))))
    assert page.tags <= {"p"}
    assert page.words == one_line(text).split()


@given(st.text(alphabet=st.sampled_from("a`~\n\t |<\x00\x1b"), max_size=40))
@settings(max_examples=200, deadline=None)
def test_any_output_comes_back_from_its_fence(text: str) -> None:
    page = read(render_markdown(markdown._fenced(text, "text")))
    assert page.tags <= {"pre", "code"}
    assert page.text.strip().split("\n") == verbatim(text).strip().split("\n")


def test_write_chooses_the_format_by_the_suffix(tmp_path: Path) -> None:
    case = small_case()
    assert write(case, tmp_path / "a.md") == tmp_path / "a.md"
    assert (tmp_path / "a.md").read_text(encoding="utf-8") == to_markdown(case)
    page = (write(case, str(tmp_path / "A.HTML"))).read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert read(page).unbalanced == []


@pytest.mark.parametrize("name", ["report.pdf", "report", "report.md.gz"])
def test_another_suffix_is_refused_with_the_next_step(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput) as caught:
        write(small_case(), tmp_path / name)
    assert ".md" in str(caught.value) and name in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        write(small_case(), tmp_path / "no" / "report.md")
    assert "next:" in str(caught.value)


def test_an_old_file_stays_when_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "report.md"
    target.write_text("old")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(BadInput, match="No space left"):
        write(small_case(), target)
    assert target.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["report.md"]


def test_charts_that_fail_cost_only_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from diag_kit.show import charts

    def broken(*_: object) -> None:
        raise RuntimeError("no fonts")

    monkeypatch.setattr(charts, "steps", broken)
    page = read(write(small_case(), tmp_path / "a.html").read_text(encoding="utf-8"))
    assert "Steps over time: no chart. it could not be drawn (RuntimeError: no fonts)" in page.text
    assert "Hours that repairing each cause would win" in page.text
    assert sum(tag == "img" and name == "src" for tag, name, _ in page.attributes) >= 1


def test_an_investigation_without_anything_is_a_report_too(tmp_path: Path) -> None:
    case: StubCase = empty_case()
    assert "None yet: no hypotheses" in write(case, tmp_path / "a.md").read_text(encoding="utf-8")
    assert "no chart." in write(case, tmp_path / "a.html").read_text(encoding="utf-8")
