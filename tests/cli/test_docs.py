"""What the documents say exists, exists: commands, options, make targets, files, links."""

import re
import shlex
import subprocess

import pytest
from conftest import ROOT

DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "python").rglob("*.md"),
                    *(ROOT / "examples").rglob("*.md")])
CODE = re.compile(r"^```[^\n]*\n(.*?)^```|((?:^    [^\n]*\n)+)|`([^`\n]+)`", re.M | re.S)


def code_lines(text):
    """Every line that stands in a code block or in backticks."""
    for match in CODE.finditer(text):
        for line in (match[1] or match[2] or match[3]).splitlines():
            yield line.strip()


def calls(text):
    """The words after 'tidemark' of every line that calls it."""
    for line in code_lines(text):
        match = re.match(r"(?:\$ |# )?(?:\w+=\S+ )*(?:sudo )?(?:\S*/)?tidemark( \S.*|$)", line)
        if not match or re.match(r" +\d+\.\d+\.\d+$", match[1]):
            continue
        words = []
        for word in shlex.split(match[1].split(" # ")[0], posix=True):
            if word in ("|", "&&", ";", ">", ">>", "||", "2>", "<"):
                break
            words.append(word)
        yield line, words


@pytest.fixture(scope="session")
def options(binary, commands):
    """{"run": {"--output": True, "-o": True, "--help": False}}: the options of each command and whether they take a
    value."""
    found = {}
    for command in [*commands, "train lm", "train grpo", "train selfplay"]:
        text = subprocess.run([binary, *command.split(), "-h"], capture_output=True, text=True, check=True).stdout
        found[command] = {}
        for letter, name, arg in re.findall(r"^  (?:-(\w), |    )--([\w-]+)(?: (\S+))?", text, re.M):
            found[command][f"--{name}"] = bool(arg)
            if letter:
                found[command][f"-{letter}"] = bool(arg)
    return found


def test_there_are_documents():
    assert {"README.md", "ARCHITECTURE.md"} <= {d.name for d in DOCUMENTS}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_every_call_in_a_document_is_one_the_program_understands(document, options):
    for line, words in calls(document.read_text()):
        if not words or words[0] in ("-h", "--help", "-V", "--version", "COMMAND"):
            continue
        assert words[0] in options, f"{document.name}: {line}"
        known, skip = options.get(" ".join(words[:2]), options[words[0]]), False
        for word in words[1:]:
            word = word.strip("[]")
            if skip:
                skip = False
            elif word == "--":
                break
            elif re.match(r"-\w|--\w", word):
                name = word.split("=")[0]
                assert name in known, f"{document.name}: no option {name} in: {line}"
                skip = known[name] and "=" not in word


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_every_option_that_a_document_names_belongs_to_a_command(document, options):
    known = {name for table in options.values() for name in table} | {"--"}
    for line in code_lines(document.read_text()):
        if re.fullmatch(r"(?:--[a-z][\w-]*|-[a-zA-Z])(?:[ =][A-Z]+)?", line):
            assert re.split("[ =]", line)[0] in known, f"{document.name}: {line}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_every_make_target_that_a_document_names_exists(document):
    targets = set(re.findall(r"[\w%-]+", re.search(r"^\.PHONY:(.*?[^\\])\n", (ROOT / "Makefile").read_text(),
                                                   re.M | re.S)[1]))
    for line in code_lines(document.read_text()):
        for target in re.findall(r"\bmake ((?:[a-z][\w-]*)(?: [a-z][\w-]*)*)", line.split("#")[0]):
            for word in target.split():
                assert word in targets, f"{document.name}: make {word}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_every_file_that_a_document_names_is_there(document):
    text = document.read_text()
    named = set(re.findall(r"`((?:src|tests|docs|tools|include|bench|python|cases)/[\w./*-]*)`", text))
    for path in named:
        assert list(ROOT.glob(path.rstrip("/"))), f"{document.name}: {path}"
    for path in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text):
        assert (document.parent / path).exists(), f"{document.name}: {path}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_prose_wraps_at_100_columns(document):
    """Code is fenced, or indented behind an empty line; what is indented behind another line goes on with a list."""
    prose = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.M | re.S)
    prose = re.sub(r"(?<=\n\n)(?:    [^\n]*\n|\n(?=    ))+", "", prose)
    for line in prose.splitlines():
        if not line.startswith("|") and " " in line.strip():
            assert len(line) <= 100, f"{document.name}: {line}"


@pytest.mark.parametrize("name, most", [("README.md", 150), ("docs/ARCHITECTURE.md", 250)])
def test_the_first_documents_stay_short(name, most):
    assert len((ROOT / name).read_text().splitlines()) <= most


def test_every_source_file_that_the_tour_names_is_there():
    there = {path.name for folder in ("include", "src", "python", "tests") for path in (ROOT / folder).rglob("*")}
    named = re.findall(r"`(?:[\w/]+/)?(\w+\.(?:c|h|py))`", (ROOT / "docs" / "ARCHITECTURE.md").read_text())
    assert set(named) <= there and len(named) > 50


def test_the_index_names_every_document():
    index = (ROOT / "docs" / "README.md").read_text()
    for document in [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "notes").glob("*.md")]:
        path = str(document.relative_to(ROOT / "docs"))
        assert path == "README.md" or f"({path})" in index, path


def test_the_documents_speak_of_nothing_but_the_project():
    for document in DOCUMENTS:
        assert not re.search(r"/work/|/home/|/root/", document.read_text()), document.name
