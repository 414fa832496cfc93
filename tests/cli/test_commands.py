"""The command line as a whole: help, manual and completion agree because they come from one table; slips get one
suggestion; absurd input gets one sentence and exit 2."""

import os
import re
import shutil

import pytest

MAIN_COMMANDS = ["run", "attach", "watch", "judge", "show", "blame", "diff", "report", "export", "train", "sample", "play", "plan"]
TASKS = ["train lm", "train grpo", "train selfplay"]  # commands with a word more
ABOUT_COMMANDS = ["help", "version", "manual", "completion"]
EVERY_COMMAND = MAIN_COMMANDS + ABOUT_COMMANDS
SANITIZER = re.compile(r"Sanitizer|runtime error|check failed")


def options_of_help(text):
    """{"output": ("o", "FILE", "the sentence")} from the Options block of -h."""
    block = text.split("Options:\n")[1].split("\n\n")[0]
    found, last = {}, None
    for line in block.splitlines():
        match = re.match(r"  (?:-(\w), |    )--([\w-]+)(?: (\S+))?(?:  +(.*))?$", line)
        if match:
            last = match[2]
            found[last] = [match[1], match[3], match[4] or ""]
        else:
            found[last][2] += " " + line.strip()
    return {name: tuple(row) for name, row in found.items()}


def options_of_manual(text):
    """The same from a rendered page."""
    block = re.search(r"^OPTIONS\n(.*?)^\S", text, re.M | re.S)[1]
    found, last = {}, None
    for line in block.splitlines():
        match = re.match(r"     (?:-(\w), )?--([\w-]+)(?: (\S+))?(?:  +(.*))?$", line)
        if match:
            last = match[2]
            found[last] = [match[1], match[3], match[4] or ""]
        elif line.strip():
            found[last][2] += " " + line.strip()
    return {name: tuple(row) for name, row in found.items()}


def same_words(text):
    return re.sub(r"\s", "", text).rstrip(".").lower()


@pytest.fixture
def page(tidemark, run):
    """page("judge") -> the manual page as plain text."""

    def render(*command):
        source = tidemark("manual", *command)
        assert source.code == 0
        done = run("mandoc", "-T", "ascii", "-W", "warning", "-O", "width=100", stdin=source.out)
        assert done.err == "", "mandoc finds fault with the page"
        assert done.code == 0
        return re.sub(".\b", "", done.out)

    return render


def test_there_are_these_commands_and_no_others(commands):
    assert commands == EVERY_COMMAND


def test_without_a_command_the_help_goes_to_stderr_and_the_exit_is_2(tidemark):
    done = tidemark()
    assert done.code == 2 and done.out == ""
    assert done.err == tidemark("help").out


@pytest.mark.parametrize("word", ["-h", "--help", "help"])
def test_help_is_the_answer_when_it_was_asked_for(tidemark, word):
    done = tidemark(word)
    assert done.code == 0 and done.err == ""
    assert done.out.startswith("Usage: tidemark COMMAND")


@pytest.mark.parametrize("word", ["-V", "--version", "version"])
def test_version_is_one_line(tidemark, word):
    done = tidemark(word)
    assert done.code == 0 and done.err == ""
    assert re.fullmatch(r"tidemark \d+\.\d+\.\d+\n", done.out)


@pytest.mark.parametrize("command", EVERY_COMMAND)
def test_dash_h_and_help_say_the_same_and_fit_a_terminal(tidemark, command):
    short, long, word = tidemark(command, "-h"), tidemark(command, "--help"), tidemark("help", command)
    assert short.code == long.code == word.code == 0
    assert short.err == ""
    assert short.out == long.out == word.out
    assert short.out.startswith(f"Usage: tidemark {command}")
    filled = short.out.split("\nExamples:\n")[0].splitlines()[1:]
    assert [line for line in filled if len(line) > 80 and not line.startswith(" ")] == []


@pytest.mark.parametrize("task", ["lm", "grpo", "selfplay"])
def test_help_knows_commands_of_two_words(tidemark, task):
    assert tidemark("help", "train", task).out == tidemark("train", task, "-h").out != ""
    assert tidemark("help", "train", task, task).code == tidemark("help", "play", task).code == 2


@pytest.mark.parametrize("command", EVERY_COMMAND)
def test_the_manual_has_the_options_that_help_has(tidemark, page, command):
    from_help = options_of_help(tidemark(command, "-h").out)
    from_page = options_of_manual(page(command))
    assert set(from_help) == set(from_page)
    for name, (letter, arg, text) in from_help.items():
        assert from_page[name][:2] == (letter, arg)
        assert same_words(from_page[name][2]) == same_words(text)


@pytest.mark.slow  # the page is made with sanitizers in the test before
@pytest.mark.parametrize("command", EVERY_COMMAND)
def test_the_manual_says_what_the_command_does(tidemark, page, command):
    text = page(command)
    summary = re.search(rf"^  {command} +(.*)$", tidemark("help").out, re.M)[1]
    assert re.sub(r"\s+", " ", summary) in re.sub(r"\s+", " ", text)
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "SEE ALSO"):
        assert re.search(f"^{section}$", text, re.M), section


@pytest.mark.parametrize("command, words", [
    ("judge", "1 leak"), ("plan", "1 the run does not fit"), ("diff", "1 it is worse"), ("run", "That of CMD, 128 + N if"),
    ("watch", "That of CMD if it has ended"), ("show", "0, or 2 if there is trouble")])
def test_the_manual_has_the_exit_status_of_each_command(page, command, words):
    section = re.search(r"^EXIT STATUS$(.*?)^[A-Z]", page(command), re.M | re.S)[1]
    assert words in re.sub(r"\s+", " ", section)


def test_the_first_page_lists_every_command(page, commands):
    text = page()
    for command in commands:
        assert re.search(rf"^     {command} ", text, re.M)
        assert f"tidemark-{command}(1)" in text


@pytest.mark.slow  # the helps are made with sanitizers in a test before
def test_a_letter_means_the_same_everywhere(tidemark):
    meaning = {}
    for command in EVERY_COMMAND:
        for name, (letter, _, _) in options_of_help(tidemark(command, "-h").out).items():
            if letter:
                assert meaning.setdefault(letter, name) == name, f"-{letter} of {command}"


@pytest.mark.parametrize("words", [
    ["attach"], ["blame"], ["blame", "--between", "a.tide", "x", "y"], ["diff", "a.tide"], ["diff", "--at", "soon", "a", "b"],
    ["export", "a.tide"], ["export", "--format", "csv"], ["judge"], ["judge", "--items", "3", "a.tide"], ["plan"], ["plan", "x"],
    ["play"], ["report"], ["run"], ["sample"], ["show"], ["show", "--json", "--csv", "a.tide"], ["watch"]], ids=" ".join)
def test_what_is_typed_wrong_is_told_with_the_name_of_the_command(tidemark, words):
    done = tidemark(*words)
    assert done.code == 2 and done.err.startswith(f"tidemark: {words[0]}: ")


@pytest.mark.parametrize(
    "typed, meant",
    [("jugde", "judge"), ("juge", "judge"), ("shwo", "show"), ("atach", "attach"), ("wach", "watch"), ("rnu", "run"),
     ("completions", "completion"), ("man", None), ("python", None), ("", None), ("x" * 5000, None)],
)
def test_a_slip_in_a_command_gets_one_suggestion(tidemark, typed, meant):
    done = tidemark(typed)
    assert done.code == 2 and done.out == ""
    first, hint = done.err.splitlines()
    assert first.startswith("tidemark: unknown command '")
    if meant:
        assert hint == f"hint: did you mean '{meant}'?"
    else:
        assert hint.startswith("hint: ") and len(done.err) < 400


@pytest.mark.parametrize("command", EVERY_COMMAND + TASKS)
def test_an_unknown_option_is_refused_with_a_hint(tidemark, command):
    done = tidemark(*command.split(), "--no-such-thing")
    assert done.code == 2 and done.out == ""
    assert done.err.splitlines()[0] == f"tidemark: {command}: unknown option '--no-such-thing'"
    assert done.err.splitlines()[1].startswith("hint: ")


@pytest.mark.slow  # a start for each option, which one piece of code reads
@pytest.mark.parametrize("command", EVERY_COMMAND + TASKS)
def test_a_slip_in_an_option_gets_one_suggestion(tidemark, command):
    for name in options_of_help(tidemark(*command.split(), "-h").out):
        if len(name) < 4:
            continue
        done = tidemark(*command.split(), f"--{name[:-2] + name[-1] + name[-2]}x")
        assert done.code == 2
        assert "hint: did you mean '--" in done.err, name


ABSURD = ["", "-1", "nan", "inf", "1e999", "99999999999999999999999G", "12 parsecs", "\x1b[31m", "%s%n", "0x10"]


# One piece of code reads all options, which share the values out; in a long run each option gets each.
@pytest.mark.parametrize("share", [3, pytest.param(len(ABSURD), marks=pytest.mark.long)])
@pytest.mark.parametrize("command", MAIN_COMMANDS + TASKS)
def test_absurd_values_get_one_sentence(tidemark, command, share):
    words, kinds = command.split(), set()
    sanitized = os.environ.get("TIDEMARK_SANITIZED") == "1"
    for i, (name, (_, arg, _)) in enumerate(options_of_help(tidemark(*words, "-h").out).items()):
        if sanitized and arg in kinds:  # where every start is slow: of each kind of values the first option, with one
            continue
        kinds.add(arg)
        if arg is None:
            done = tidemark(*words, f"--{name}=1")
            assert done.code == 2 or name == "help"
            assert "takes no value" in done.err
            continue
        done = tidemark(*words, f"--{name}")
        assert done.code == 2 and f"needs a {arg}" in done.err, name
        if arg in ("FILE", "DIR", "RE", "REGEX", "NAME", "TEXT", "UNIT", "KEYS", "COMMAND"):
            continue
        for value in [ABSURD[(i * share + k) % len(ABSURD)] for k in range(1 if sanitized else share)]:
            done = tidemark(*words, f"--{name}={value}", "/does/not/exist")
            assert done.code == 2, (name, value, done)
            assert done.out == "" and "\x1b" not in done.err
            assert done.err.startswith("tidemark: ") and len(done.err.splitlines()) <= 2, (name, value, done.err)
            assert f"--{name}" in done.err, (name, value, done.err)
            assert not SANITIZER.search(done.err)


@pytest.mark.parametrize("command", ABOUT_COMMANDS)
def test_commands_about_the_program_refuse_what_they_cannot_use(tidemark, command):
    done = tidemark(command, "one", "two")
    assert done.code == 2 and done.out == ""
    assert done.err.startswith(f"tidemark: {command}: ")


@pytest.mark.parametrize("words", [["help", "jugde"], ["manual", "jugde"], ["completion"], ["completion", "csh"],
                                   ["version", "one"], ["--judge"], ["-x"], ["--", "ls"]])
def test_trouble_is_exit_2_and_a_sentence(tidemark, words):
    done = tidemark(*words)
    assert done.code == 2 and done.out == ""
    assert done.err.startswith("tidemark: ")


def test_nothing_untrusted_reaches_the_terminal_unescaped(tidemark):
    for words in (["\x1b[31mred"], ["help", "\x1b]0;x\x07"], ["judge", "--\x1b[2Jx"], ["-\x1b[2J"],
                  ["completion", "\x1b[2J"], ["judge", "\x1b[2J.csv"], ["show", "\x9b2J\n.tide"]):
        done = tidemark(*words)
        assert done.code == 2
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", done.err), done.err


def test_an_answer_that_cannot_be_written_is_trouble(run, binary):
    done = run("sh", "-c", f"'{binary}' help > /dev/full")
    assert done.code == 2
    assert done.err == "tidemark: cannot write the output: No space left on device\n"


def test_closed_standard_descriptors_are_survived(run, binary):
    done = run("sh", "-c", f"'{binary}' version <&- >&- 2>&-; echo $?")
    assert done.out == "0\n"


# -- completion


@pytest.fixture
def complete(run, binary, tidemark, tmp_path):
    """complete("judge", "--j") -> what bash would offer for the last word."""
    script = tmp_path / "completion.bash"
    script.write_text(tidemark("completion", "bash").out)

    def offers(*words):
        done = run("bash", "-c", 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tidemark; '
                   'printf "%s\\n" "${COMPREPLY[@]}"', "bash", script, binary, *words)
        assert done.err == "" and done.code == 0
        return [line for line in done.out.splitlines() if line]

    return offers


def test_bash_completes_commands(complete, commands):
    assert set(commands) <= set(complete(""))
    assert complete("ju") == ["judge"]


@pytest.mark.slow  # the script is the same for every command
@pytest.mark.parametrize("command", EVERY_COMMAND)
def test_bash_completes_the_options_that_help_lists(tidemark, complete, command):
    listed = {f"--{name}" for name in options_of_help(tidemark(command, "-h").out)}
    assert set(complete(command, "--")) == listed


def test_bash_completes_files_programs_and_values(complete, tmp_path):
    (tmp_path / "my run.tide").touch()
    assert complete("judge", "my") == ["my run.tide"]
    assert complete("show", "my") == ["my run.tide"]
    assert complete("watch", "my") == ["my run.tide"]
    assert "1" in complete("watch", "1")
    assert "bash" in complete("run", "--", "bas")
    assert complete("run", "-o", "my") == ["my run.tide"]
    assert complete("run", "--limit", "") == []
    assert complete("help", "ju") == ["judge"]
    assert complete("completion", "") == ["bash", "zsh", "fish"]
    assert sorted(complete("train", "")) == ["grpo", "lm", "selfplay"]
    (tmp_path / "checkpoints").mkdir()
    assert complete("sample", "") == ["checkpoints"]
    assert complete("plan", "") == []
    assert "1" in complete("attach", "1")


def test_the_bash_script_passes_shellcheck(run, tidemark):
    done = run("shellcheck", "-s", "bash", "-", stdin=tidemark("completion", "bash").out)
    assert done.out == "" and done.code == 0


@pytest.fixture
def in_path(build):
    """A PATH on which a shell finds the program that it is to ask."""
    return f"{build}:{os.environ['PATH']}"


@pytest.mark.slow  # a shell of its own; the scripts of the others are made with sanitizers
def test_fish_completes_commands_and_the_options_that_help_lists(run, tidemark, commands, tmp_path, in_path):
    script = tmp_path / "tidemark.fish"
    script.write_text(tidemark("completion", "fish").out)
    questions = ["", *(f"{command} --" for command in EVERY_COMMAND)]
    ask = "source $argv[1]; for words in $argv[2..]; echo \"? $words\"; complete -C\"tidemark $words\"; end"
    done = run("fish", "--no-config", "-c", ask, script, *questions, env={"HOME": str(tmp_path), "PATH": in_path})
    assert done.err == "" and done.code == 0
    answers = {}
    for line in done.out.splitlines():
        if line.startswith("? "):
            answers[line[2:]] = offered = set()
        else:
            offered.add(line.split("\t")[0])
    assert set(commands) <= answers[""]
    for command in EVERY_COMMAND:
        listed = {f"--{name}" for name in options_of_help(tidemark(command, "-h").out)}
        assert answers[f"{command} --"] == listed, command


ZSH_SESSION = r"""
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'fpath=($PWD $fpath); autoload -U compinit; compinit -u -d $PWD/dump; LISTMAX=1000; PS1="READ""Y> "'
zpty -r shell ignored '*READY> *'
zpty -n -w shell $'tidemark \t\t'
zpty -r shell names_seen '*full-screen view*'
zpty -n -w shell $'\C-utidemark run --\t\t'
zpty -r shell options_seen '*no-steps-from-output*'
print -r -- "$names_seen"
print -r -- "$options_seen"
zpty -d shell
"""


def test_zsh_completes_commands_and_options(run, tidemark, tmp_path, in_path):
    (tmp_path / "_tidemark").write_text(tidemark("completion", "zsh").out)
    (tmp_path / "ask.zsh").write_text(ZSH_SESSION)
    done = run("zsh", "-f", "ask.zsh", env={"TERM": "dumb", "HOME": str(tmp_path), "PATH": in_path})
    assert done.code == 0, done.err
    assert re.search(r"^judge\s+-- say whether", done.out, re.M)
    assert re.search(r"--heap\s+-- also record which call stacks", done.out)


# -- installation


def test_make_install_puts_everything_in_its_place_and_uninstall_takes_it_away(run, root, tmp_path, build):
    if build.name != "release":
        pytest.skip("installs the release build")
    where = tmp_path / "stage"
    done = run("make", "-s", "install", f"DESTDIR={where}", "PREFIX=/usr", cwd=root)
    assert done.code == 0, done.err
    files = {str(p.relative_to(where)) for p in where.rglob("*") if not p.is_dir()}
    for file in ("usr/bin/tidemark", "usr/include/tidemark.h", "usr/lib/libtidemark.so", "usr/lib/libtidemark.so.0",
                 "usr/lib/libtidemark.a", "usr/lib/pkgconfig/tidemark.pc",
                 "usr/share/bash-completion/completions/tidemark", "usr/share/zsh/site-functions/_tidemark",
                 "usr/share/fish/vendor_completions.d/tidemark.fish", "usr/share/man/man1/tidemark.1",
                 *(f"usr/share/man/man1/tidemark-{c}.1" for c in EVERY_COMMAND)):
        assert file in files, file
    program = tmp_path / "marks.c"
    program.write_text("#include <tidemark.h>\nint main(void) { tide_step(1); return tide_tracked(); }\n")
    assert run("cc", f"-I{where}/usr/include", program, f"-L{where}/usr/lib", "-ltidemark", "-o", "marks").code == 0
    assert run(tmp_path / "marks", env={"LD_LIBRARY_PATH": f"{where}/usr/lib"}).code == 0
    assert run("make", "-s", "uninstall", f"DESTDIR={where}", "PREFIX=/usr", cwd=root).code == 0
    assert [p for p in where.rglob("*") if not p.is_dir()] == []
