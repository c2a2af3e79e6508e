"""What is wrong, undecided or unsafe in a catalog is refused: at its line, with the rule and the
remedy."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dither.catalog import load, parse
from dither.errors import CatalogError
from tests.datasets.broken_clinic import AGE, CLINIC, change


def refusal(text: str) -> tuple[int, str]:
    with pytest.raises(CatalogError) as caught:
        parse(text, "clinic.yaml")
    assert str(caught.value) == f"clinic.yaml:{caught.value.line}: {caught.value.message}"
    return caught.value.line, caught.value.message


def broken(hunks: list[str]) -> str:
    """CLINIC with the lines marked - replaced by those marked +, from top to bottom."""
    lines, at = CLINIC.splitlines(), 0
    for mark, line in ((hunk[0], hunk[2:]) for hunk in hunks):
        if mark == "-":
            at = lines.index(line, at)
            del lines[at]
        else:
            lines.insert(at, line)
            at += 1
    return "\n".join(lines) + "\n"


def cases() -> list[object]:
    """The cases of refusals.txt: name, the broken catalog, line, message."""
    found, columns = [], False
    for block in (Path(__file__).parent / "refusals.txt").read_text().split("\n\n"):
        lines = block.strip().splitlines()
        columns = columns or lines[0] == "## Columns"
        if not lines[-1][0].isdigit():
            continue
        name = lines[0].removeprefix("# ")
        text = change(AGE, f"      {name[2:]}\n") if columns else broken(lines[1:-1])
        line, _, message = lines[-1].partition(": ")
        found.append(pytest.param(text, int(line), message, id=name))
    return found


def test_the_catalog_is_right_before_it_is_broken():
    assert parse(CLINIC).dataset == "clinic"
    assert len(cases()) > 80


@pytest.mark.parametrize(("text", "line", "message"), cases())
def test_refused(text, line, message):
    assert refusal(text) == (line, message)


def test_no_sum_can_leave_exact_integers():
    """Grid bounds and max_rows are below 2^63 each; engines hand over 38 digits (rule
    widths-from-catalog)."""
    assert (2**63 - 1) ** 2 < 10**38 - 1


class TestYaml:
    """Only the plain part of YAML is a catalog."""

    @pytest.mark.parametrize(
        ("text", "line", "message"),
        [
            ("", 1, "the catalog is empty: start with `dither: 1`"),
            ("# nothing\n", 1, "the catalog is empty: start with `dither: 1`"),
            ("\n- dither\n", 2, "a catalog is a mapping that starts with `dither: 1`"),
            (
                "dither: 1\n---\ndither: 1\n",
                2,
                "a catalog is one YAML document: remove the second `---`",
            ),
            ("dither: 1\n[a, b]: c\n", 2, "a key must be a text, not a list or mapping"),
            ("dither: 1\ndataset: a\x00b\n", 2, "a character that YAML does not allow: remove it"),
            (
                "dither: 1\ndither: 1\n",
                2,
                "the key 'dither' was given before, on line 1: keep one of the two",
            ),
        ],
    )
    def test_shape(self, text, line, message):
        assert refusal(text) == (line, message)

    def test_syntax_errors_have_a_line(self):
        line, message = refusal("dither: 1\ndataset: [a\nlineage: b\n")
        assert (line, message[:10]) == (3, "not YAML: ")

    @pytest.mark.parametrize("value", ["&a clinic", "*a"])
    def test_anchors_and_aliases(self, value):
        line, message = refusal(change("dataset: clinic", f"dataset: {value}"))
        assert (line, message) == (
            2,
            "anchors (&name) and aliases (*name) are refused: write each fact out where it holds; "
            "a text that starts "
            "with & or * needs quotes",
        )

    @pytest.mark.parametrize(
        "value",
        ["!!str clinic", "!secret clinic", "! clinic", "!!python/object/apply:os.system [x]"],
    )
    def test_tags(self, value):
        line, message = refusal(change("dataset: clinic", f"dataset: {value}"))
        assert line == 2
        assert "is refused: every scalar is text" in message

    def test_merge_keys_are_unknown_keys(self):
        assert refusal(change("dataset: clinic", "<<: {dataset: clinic}"))[1].startswith(
            "unknown key '<<'"
        )

    def test_depth_and_size_are_limited(self):
        assert refusal("a: " + "[" * 2000)[1] == "nested deeper than 16 levels"
        assert refusal("#" * 1_000_001)[1].startswith(
            "the catalog has 1000001 characters, more than 1000000"
        )


class TestFiles:
    def test_absent(self, tmp_path):
        with pytest.raises(CatalogError, match="the catalog cannot be read: No such file"):
            load(tmp_path / "clinic.yaml")

    def test_not_utf8(self, tmp_path):
        (tmp_path / "clinic.yaml").write_bytes(b"dither: 1\ndataset: cl\xefnic\n")
        with pytest.raises(CatalogError, match=r"clinic.yaml:2: the catalog is not UTF-8 text"):
            load(tmp_path / "clinic.yaml")

    def test_right(self, tmp_path):
        (tmp_path / "clinic.yaml").write_text(CLINIC)
        assert (
            load(tmp_path / "clinic.yaml") == load(str(tmp_path / "clinic.yaml")) == parse(CLINIC)
        )


WORDS = re.findall(r"\w+|[^\w\s]", CLINIC)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, len(CLINIC)), st.sampled_from(WORDS), st.integers(0, 30)),
        min_size=1,
        max_size=3,
    )
)
def test_a_damaged_catalog_is_read_or_refused_at_a_line_and_never_fails_otherwise(edits):
    text = CLINIC
    for at, word, length in edits:
        text = text[:at] + word + text[at + length :]
    line = 1
    try:
        parse(text)
    except CatalogError as error:
        line = error.line
    assert 0 < line <= text.count("\n") + 1
