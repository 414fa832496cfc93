"""`tidemark play`: the protocol of tournament managers over real pipes, and the board on a real terminal."""

import json
import re
import select
import shutil
import subprocess
import time

import pytest

from full_screen import terminal  # the fixture
from measured import measured

ROLLOUTS = ("play", "--rollouts", "--seed", 1)
GOMOCUP = (*ROLLOUTS, "--protocol", "gomocup")
MOVE = re.compile(r"\d+,\d+\Z")


class Manager:
    """A tournament manager: says lines and waits for the answer to each."""

    def __init__(self, argv, env):
        self.process = subprocess.Popen([str(a) for a in argv], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)

    def say(self, *lines):
        self.process.stdin.write("".join(f"{line}\r\n" for line in lines).encode())
        self.process.stdin.flush()

    def hear(self, seconds=60):
        assert select.select([self.process.stdout], [], [], seconds)[0], "no answer"
        return self.process.stdout.readline().decode().rstrip("\n")

    def ask(self, line):
        self.say(line)
        return self.hear()

    def peak(self):
        """The most memory that the process ever had, in bytes."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))

    def end(self):
        """The exit code, and what was left to be heard."""
        out, err = self.process.communicate(timeout=60)
        assert err == b""
        return self.process.returncode, out.decode()


@pytest.fixture
def manager(binary, env):
    started = []

    def start(*options, run=None):
        player = ("play", run, "--protocol", "gomocup") if run else GOMOCUP
        started.append(Manager((binary, *player, *options), env))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.wait()
        for pipe in (one.process.stdout, one.process.stderr):
            pipe.close()


@pytest.fixture(scope="module")
def runs(binary, tmp_path_factory):
    """runs("gomoku") -> the directory of a run that has learned next to nothing, made once."""
    made = {}
    little = ("--net", "tiny", "--simulations", 2, "--positions", 16, "--batch", 16, "--reuse", 1, "--games-at-once", 4,
              "--replay", 100, "--cache", 0, "--match-games", 0, "--steps", 1, "--threads", 1)

    def train(game, *options):
        if game not in made:
            made[game] = tmp_path_factory.mktemp(game) / "run"
            argv = [binary, "train", "selfplay", "--game", game, *options, *little, "--out", made[game]]
            subprocess.run([str(a) for a in argv], check=True, capture_output=True, timeout=120)
        return made[game]

    return train


@pytest.fixture
def gomoku(runs):
    return runs("gomoku", "--board", 9)


def five(stones):
    return any(all((x + i * dx, y + i * dy) in stones for i in range(5))
               for x, y in stones for dx, dy in ((1, 0), (0, 1), (1, 1), (1, -1)))


def test_a_whole_game_between_two_of_it(manager):
    """On a board of 7x7, until somebody has five or it is full; every move is one that can be played."""
    players = [manager("--simulations", 60), manager("--simulations", 60)]
    stones = [set(), set()]
    for one in players:
        assert one.ask("START 7") == "OK"
    answer = players[0].ask("BEGIN")
    for ply in range(49):
        assert MOVE.match(answer), answer
        x, y = map(int, answer.split(","))
        assert 0 <= x < 7 and 0 <= y < 7 and (x, y) not in stones[0] | stones[1]
        stones[ply % 2].add((x, y))
        if five(stones[ply % 2]):
            break
        answer = players[(ply + 1) % 2].ask(f"TURN {x},{y}")
    else:
        assert answer == "ERROR the game is over"
    loser = players[(ply + 1) % 2]
    if five(stones[ply % 2]):
        assert loser.ask(f"TURN {x},{y}") == "ERROR the game is over"
    for one in players:
        assert one.ask("RESTART") == "OK"
        one.say("END")
        assert one.end() == (0, "")


def test_everything_at_once_is_answered_line_by_line(tidemark):
    done = tidemark(*GOMOCUP, "--simulations", 20, stdin="START 9\nBEGIN\nRESTART\nTURN 4,4\nABOUT\nFLY\nSTART 3\n")
    lines = done.out.splitlines()
    assert (done.code, done.err) == (0, "")
    assert lines[0] == lines[2] == "OK" and MOVE.match(lines[1]) and MOVE.match(lines[3])
    assert lines[4].startswith('name="Tidemark", version="') and lines[5] == "UNKNOWN FLY" and lines[6].startswith("ERROR ")
    assert len(lines) == 7


def test_a_line_of_ten_megabytes_and_other_nonsense_lose_nothing(manager):
    m = manager("--simulations", 20)
    assert m.ask("START 9") == "OK"
    x, y = map(int, m.ask("BEGIN").split(","))
    m.process.stdin.write(b"TURN " + b"7" * (10 << 20) + b"\n")
    m.process.stdin.flush()
    assert m.hear().startswith("ERROR the line is longer than")
    assert m.ask(f"TURN {x},{y}") == f"ERROR there is a stone on {x},{y} already"
    assert m.ask("TURN 9,0").startswith("ERROR ")
    assert m.ask("RECTSTART 9,8") == "ERROR the board must be square"
    assert m.ask("START 4").startswith("ERROR ")
    assert m.ask("START 21").startswith("ERROR ")
    assert MOVE.match(m.ask(f"TURN {(x + 1) % 9},{y}"))


@pytest.mark.unsanitized
def test_a_line_of_ten_megabytes_is_not_kept(manager):
    m = manager()
    before = m.ask("ABOUT") and m.peak()
    m.process.stdin.write(b"7" * (10 << 20) + b"\n")
    m.process.stdin.flush()
    assert m.hear().startswith("ERROR the line is longer than")
    assert m.peak() < before + (1 << 20)


def test_a_manager_that_closes_its_end_is_a_good_end(manager, binary, env):
    for lines in ((), ("START 15",), ("START 15", "TURN")):
        m = manager()
        m.say(*lines)
        m.process.stdin.close()
        m.process.stdin = None
        code, out = m.end()
        assert code == 0 and out.count("\n") == len(lines)
    m = manager("--time", "100s")
    m.say("START 15", "BEGIN")
    assert m.hear() == "OK"
    m.process.stdout.close()  # nobody listens any more: no move is worth thinking of
    began = time.monotonic()
    assert m.process.wait(60) == 0
    assert time.monotonic() - began < 30
    assert m.process.stderr.read() == b""


def test_the_end_stops_the_thinking(manager):
    m = manager("--time", "100s")
    assert m.ask("START 15") == "OK"
    m.say("BEGIN", "END")
    assert MOVE.match(m.hear(30))
    assert m.end() == (0, "")


def waited_for_a_processor(*pids):
    """Seconds that processes could have computed and were not let."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/schedstat", encoding="ascii") as numbers:
            total += int(numbers.read().split()[1])
    return total / 1e9


@pytest.mark.unsanitized
def test_moves_come_in_time(manager):
    """Of the time that the machine takes from them, neither the player nor this test can know."""
    m = manager()
    assert m.ask("START 15") == "OK"
    for limits, most in ((("INFO timeout_turn 2000",), 2), (("INFO timeout_turn 0",), 1),
                         (("INFO timeout_turn 60000", "INFO timeout_match 100000", "INFO time_left 10000"), 0.5)):
        m.say("RESTART", *limits)
        assert m.hear() == "OK"
        began, waited = time.monotonic(), waited_for_a_processor(m.process.pid, "self")
        assert MOVE.match(m.ask("BEGIN"))
        took = time.monotonic() - began
        waited = waited_for_a_processor(m.process.pid, "self") - waited
        assert took - waited < most, limits
        assert took > most / 2 or limits[0].endswith(" 0"), limits  # and the time is used


@pytest.mark.unsanitized
@pytest.mark.parametrize("megabytes", [10, 40, 150])
def test_max_memory_is_kept_to(manager, megabytes):
    m = manager()
    assert m.ask("START 20") == "OK"
    m.say(f"INFO max_memory {megabytes * 1000000}", "INFO timeout_turn 1200")
    taken = set()
    for move in ("BEGIN", "TURN 0,0", "TURN 19,19"):
        answer = m.ask(move)
        assert MOVE.match(answer) or answer.startswith("ERROR there is a stone")
        taken.add(answer)
    free = next(f"{x},4" for x in range(3, 9) if f"{x},4" not in taken)
    assert m.peak() <= megabytes * 1000000
    m.say("INFO max_memory 1000000")
    assert re.match(r"ERROR 1000000 bytes of memory are too few: \d+ are in use", m.ask(f"TURN {free}"))
    m.say("INFO max_memory 0")
    assert MOVE.match(m.ask(f"TURN {free}"))  # it was not lost


@pytest.mark.parametrize("info", ["timeout_turn 10000000000000", "timeout_turn 99999999999999999999", "time_left 9223372036854775807"])
def test_time_without_end_is_used(manager, info):
    m = manager()
    assert m.ask("START 15") == "OK"
    m.say(f"INFO {info}", "BEGIN")
    assert not select.select([m.process.stdout], [], [], 1)[0]  # it thinks
    m.say("END")
    assert MOVE.match(m.hear())


@pytest.mark.parametrize("limit", [10**13, 2**63 - 1, 10**30])
def test_memory_without_end_is_enough(manager, limit):
    m = manager("--simulations", 50)
    assert m.ask("START 15") == "OK"
    m.say(f"INFO max_memory {limit}")
    assert MOVE.match(m.ask("BEGIN"))


def test_exactly_five_is_a_rule_until_the_manager_names_another(manager):
    board = ["BOARD", *(f"{x},1,2" for x in (0, 1, 3, 4, 5, 2)), *(f"{x},{3 + x % 2 * 2},1" for x in range(6))]
    m = manager("--exact", "--simulations", 50)
    assert m.ask("START 15") == "OK"
    m.say(*board)
    assert MOVE.match(m.ask("DONE"))  # six are none
    m.say("INFO rule 0", *board)
    assert m.ask("DONE") == "ERROR the game is over"


@pytest.mark.unsanitized
def test_the_option_limits_memory_where_the_manager_does_not(manager):
    m = manager("--memory", "12M", "--time", "1s")
    assert m.ask("START 15") == "OK"
    assert MOVE.match(m.ask("BEGIN"))
    assert m.peak() <= 12000000


@pytest.mark.parametrize("args, says", [
    (("play",), "expected one run of self-play"),
    (("play", "--rollouts", "--game", "connect4", "--protocol", "gomocup"), "is for gomoku"),
    (("play", "--rollouts", "--protocol", "gomocup", "--save", "a.psq"), "for the board"),
    (("play", "--rollouts", "--protocol", "uci"), "gomocup"),
    (("play", "--rollouts", "--simulations", "0"), "simulations"),
    (("play", "--rollouts", "--time", "0s"), "at least 1 ms"),
    (("play", "--rollouts"), "needs a terminal"),
])
def test_what_cannot_be_gets_one_sentence(tidemark, args, says):
    done = tidemark(*args)
    assert done.code == 2 and done.out == ""
    lines = done.err.splitlines()
    assert lines[0].startswith("tidemark: play: ") and says in done.err and len(lines) <= 2


# ---- the net of a run


def test_a_net_plays_on_its_board_and_always_the_same(manager, gomoku):
    answers = []
    for _ in range(2):
        m = manager("--simulations", 50, run=gomoku)
        assert m.ask("START 15") == "ERROR this net plays on a board of 9x9"
        assert m.ask("START 9") == "OK"
        answers.append([m.ask("BEGIN"), m.ask("TURN 0,0"), m.ask("RESTART"), m.ask("TURN 8,8")])
        m.say("INFO rule 1")
        answers[-1].append(m.ask("TURN 7,0"))
        assert all(MOVE.match(a) for a in answers[-1] if a != "OK"), answers
        m.say("END")
        assert m.end() == (0, "")
    assert answers[0] == answers[1]


@pytest.mark.unsanitized
def test_a_net_keeps_to_max_memory(manager, gomoku):
    m = manager("--threads", 2, run=gomoku)
    assert m.ask("START 9") == "OK"
    m.say("INFO max_memory 16000000", "INFO timeout_turn 1500")
    for move in ("BEGIN", "TURN 0,0", "TURN 8,8"):
        answer = m.ask(move)
        assert MOVE.match(answer) or answer.startswith("ERROR there is a stone")
    assert m.peak() <= 16000000


def test_a_run_says_what_is_played(terminal, gomoku):
    t = terminal("play", gomoku, "--simulations", 30)
    t.wait("q quit")
    assert "gomoku 9x9" in t.text()
    t.wait("O  tidemark, 1 step$|O  tidemark, 1 step ")
    t.keys(" ")
    t.wait("move 3: X to play")
    t.keys("q")
    assert t.end() == 0


def test_other_runs_are_refused(tidemark, runs, tmp_path):
    done = tidemark("play", runs("tictactoe"), "--protocol", "gomocup", stdin="START 15\n")
    assert (done.code, done.out) == (2, "") and "is for gomoku, not for tictactoe" in done.err
    done = tidemark("play", tmp_path, "--protocol", "gomocup")
    assert done.code == 2 and "there is no run in" in done.err
    done = tidemark("play", runs("tictactoe"), "--board", 9)
    assert done.code == 2 and "a run has a game of its own" in done.err
    done = tidemark("play", runs("tictactoe"), "--rollouts")
    assert done.code == 2 and "--rollouts plays without a run, got 1" in done.err


def test_a_saved_game_of_another_board_is_refused(terminal, gomoku, tmp_path):
    (tmp_path / "a.sgf").write_text("(;SZ[15];B[hh])")
    t = terminal("play", gomoku, "--open", "a.sgf")
    assert t.end() == 2
    assert "on a board of 15x15" in t.text().replace("\n", "")


# ---- the board


def start(terminal, *options, **more):
    """A frame is drawn from the top to the bottom: once its last line is there, all of it is."""
    t = terminal(*ROLLOUTS, *options, **more)
    t.wait("q quit")
    return t


def test_a_board_of_twenty_fits_a_usual_terminal(terminal):
    t = start(terminal, "--board", 20, "--simulations", 30)
    t.wait("move 1: X to play")
    lines = t.text().splitlines()
    assert lines[0].startswith("gomoku 20x20, 5 or more in a row")
    assert lines[1].startswith("20  . . .") and lines[20].startswith(" 1  . . .")
    assert lines[21].split() == list("abcdefghijklmnopqrst")
    assert "X  you" in lines[1] and "O  tidemark" in lines[2]
    assert lines[11].count("[.]") == 1  # the cursor
    t.keys("\r")
    t.wait("move 3: X to play")
    t.wait(r"\(O\)")  # its answer is marked
    t.wait(r"O: 30 simulations, \d+\.\d s")
    t.wait(r"move +visits +wins\s.*\n.* [a-t]\d+ +\d+ +\d+\.\d %")
    t.keys("q")
    assert t.end() == 0


def test_keys_move_play_and_take_back(terminal):
    t = start(terminal, "--board", 9, "--simulations", 40)
    t.keys("\x1b[A\x1b[Dhk ")  # up, left, left, up: c7
    t.wait(r"^ 7  \. \.\[?.?X")
    t.wait("move 3: X to play")
    t.keys("\r")
    t.wait("there is a stone on that cell")
    t.keys("u")
    t.wait("taken back")
    assert "move 1: X to play" in t.text() and "(O)" not in t.text()  # the message is drawn last
    t.keys("u")
    t.wait("no move of yours to take back")
    t.keys("s")
    t.wait("O  you.*\\n(.*\\n)?.*move 2: O to play")
    t.wait("X  tidemark")
    t.wait(r"\(X\)")
    t.keys("n")
    t.wait("move 2: O to play")  # it moves first again
    t.keys("+")
    t.wait("80 simulations a move")
    t.keys("--")
    t.wait("20 simulations a move")
    t.keys("\x03")
    assert t.end() == 0


def test_the_mouse_plays(terminal):
    t = start(terminal, "--board", 9, "--simulations", 40)
    t.wait("move 1")
    t.keys("\x1b[<0;7;3M\x1b[<0;7;3m")  # column 7, row 3: b8
    t.wait("move 3: X to play")
    t.wait(r"^ 8  \.\[X\]")
    t.keys("\x1b[<0;70;20M\x1b[<0;70;20m")  # beside the board
    t.keys("q")
    assert t.end() == 0
    assert b"1000h" in t.raw and t.raw.rfind(b"1000l") > t.raw.rfind(b"1000h")  # the terminal's mouse is its own again


def test_connect_four_is_played_by_columns(terminal):
    t = start(terminal, "--game", "connect4", "--simulations", 300)
    t.wait("connect4 7x6, 4 in a row")
    t.wait(r"^ 1  \. \. \.\[\.\]\. \. \.")  # where the stone would come to lie
    t.keys("h\r")
    t.wait("move 3: X to play")
    t.wait(r"^ 1 .*X")
    t.keys("\x1b[<0;5;7M\x1b[<0;5;7m")  # a click anywhere in a column
    t.wait("move 5: X to play")
    t.wait(r"^ [12]  X")
    t.keys("q")
    assert t.end() == 0


def play_to_the_end(t):
    """Tic-tac-toe, always on the first free cell; what the screen shows then."""
    move, column, row = 1, 1, 1
    while True:
        text = t.wait(rf"move {move}: X to play|has won in|a draw")
        if f"move {move}: X to play" not in text:
            return text
        lines = text.splitlines()
        x, y = next((x, y) for y in range(3) for x in range(3) if lines[1 + y][4 + 2 * x] == ".")
        t.keys("h" * (column - x) + "l" * (x - column) + "k" * (row - y) + "j" * (y - row) + " ")
        move, column, row = move + 2, x, y


def test_a_game_has_an_end(terminal, tmp_path):
    t = start(terminal, "--game", "tictactoe", "--simulations", 500, "--save", "game.sgf")
    text = play_to_the_end(t)
    assert "X has won" not in text  # it looks ahead
    t.keys(" ")
    t.wait("the game is over: n begins a new one")
    first = (tmp_path / "game.sgf").read_text()
    assert first.startswith("(;FF[4]GM[4]") and "SZ[3]" in first and "PB[you]" in first
    t.keys("n")
    t.wait("move 1: X")
    t.keys(" ")
    t.wait("move 3: X")
    t.keys("q")
    assert t.end() == 0
    assert (tmp_path / "game.sgf").read_text() == first
    assert (tmp_path / "game-2.sgf").read_text().count(";") == 3  # the root and two moves


def test_a_saved_game_goes_on(terminal, tidemark, tmp_path):
    (tmp_path / "a.psq").write_text("Piskvorky 9x9, 11:11, 0\n5,5,100\n6,6,200\n4,4,0\na\nb\n-1\n")
    t = start(terminal, "--open", "a.psq", "--side", "second", "--simulations", 30, "--save", "b.psq")
    t.wait("move 4: O to play")
    assert "gomoku 9x9" in t.text() and t.text().count("X") == 3  # two stones and its name
    t.keys("l\r")
    t.wait("move 6: O")
    t.keys("q")
    assert t.end() == 0
    saved = (tmp_path / "b.psq").read_text().splitlines()
    assert saved[:3] == ["Piskvorky 9x9, 11:11, 0", "5,5,100", "6,6,200"]
    assert saved[-3:] == ["tidemark, by random games", "you", "-1"]


def test_a_saved_game_is_never_overwritten(terminal, tmp_path):
    old, second = tmp_path / "a.psq", tmp_path / "a-2.psq"
    old.write_text("Piskvorky 9x9, 11:11, 0\n5,5,100\n6,6,200\na\nb\n-1\n")
    second.write_text("of last week\n")
    before = old.read_text()
    t = terminal(*ROLLOUTS, "--board", 9, "--simulations", 20, "--save", "a.psq")
    assert t.end() == 2 and "cannot save to 'a.psq': it exists, and a saved game is never overwritten" in t.text().replace("\n", "")
    assert old.read_text() == before
    t = start(terminal, "--open", "a.psq", "--simulations", 20, "--save", "./a.psq")  # but by itself
    t.wait("move 3: X to play")
    t.keys("l\r")
    t.wait("move 5: X")
    went_on = old.read_text()
    assert went_on.startswith(before.partition("a\n")[0]) and len(went_on.splitlines()) == len(before.splitlines()) + 2
    t.keys("n")
    t.wait("move 1: X")
    t.keys(" ")
    t.wait("move 3: X")
    t.keys("q")
    assert t.end() == 0
    assert old.read_text() == went_on and second.read_text() == "of last week\n"
    assert (tmp_path / "a-3.psq").read_text().startswith("Piskvorky 9x9")


@pytest.mark.parametrize("text, says", [("hello", "neither a PSQ nor an SGF"), ("(;SZ[9];B[zz])", "move 1"), ("(;SZ[4])", "4"),
                                        ("(;SZ[9];B[aa];W[aa])", "on a stone"), (None, "no such file")])
def test_a_file_that_is_no_game_is_refused(terminal, tmp_path, text, says):
    if text is not None:
        (tmp_path / "x.sgf").write_text(text)
    t = terminal(*ROLLOUTS, "--open", "x.sgf")
    assert t.end() == 2
    assert says.lower() in t.text().lower().replace("\n", "")


def test_a_place_that_cannot_be_written_is_said(terminal, tmp_path):
    t = terminal(*ROLLOUTS, "--save", "game.txt")
    assert t.end() == 2 and "neither .psq nor .sgf" in t.text()
    t = start(terminal, "--save", "nowhere/game.psq", "--board", 9, "--simulations", 20)
    t.keys(" ")
    t.wait("nowhere/game.psq")
    t.keys("q")
    assert t.end() == 2


def test_resizing_and_small_terminals(terminal):
    t = start(terminal, "--board", 15, "--simulations", 20)
    t.size(40, 10)
    t.wait("the board needs 34 columns and 19 rows")
    t.size(34, 19)
    t.wait(r"^ 1  \. .*\n +a b c")
    assert "you" not in t.text()  # no room beside the board
    t.size(100, 40)
    t.wait("X  you")
    t.keys("q")
    assert t.end() == 0


def test_it_leaves_while_it_thinks(terminal):
    t = start(terminal, "--board", 15, "--time", "100s", "--side", "second")
    t.wait("X thinks")
    t.wait(r"X: [\d,]+ simulations")
    t.keys("hhj\r")
    t.wait("it is not your turn yet")
    t.process.terminate()
    assert t.end() == 0


def test_keys_do_not_wait_for_each_other_while_it_thinks(terminal):
    t = start(terminal, "--board", 15, "--time", "100s", "--side", "second")
    t.wait("X thinks")
    t.keys("h" * 1000 + "q")
    assert t.end(20) == 0  # with one key after each 30 ms of thinking it took 30 s


def test_a_player_without_a_net_is_no_fool(tidemark):
    """Four in a row are made five, and the other's four are stopped."""
    board = "START 9\nBOARD\n{}DONE\n"
    own = "".join(f"{x},4,1\n" for x in range(2, 6)) + "".join(f"{x},0,2\n" for x in (0, 2, 4, 6))
    done = tidemark(*GOMOCUP, "--simulations", 300, stdin=board.format(own))
    assert done.out.splitlines()[1] in ("1,4", "6,4")
    other = "".join(f"{x},4,2\n" for x in range(1, 5)) + "0,4,1\n" + "".join(f"{x},8,1\n" for x in (0, 4))
    done = tidemark(*GOMOCUP, "--simulations", 300, stdin=board.format(other))
    assert done.out.splitlines()[1] == "5,4"


def test_a_run_that_names_a_larger_net_is_refused_before_memory_is_taken(binary, env, runs, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(runs("gomoku", "--board", 9), run)
    state = next(run.glob("step-*/state.json"))
    settings = json.loads(state.read_text())
    settings["net"] = "plain:40x512"
    del settings["crc32"]
    state.write_text(json.dumps(settings))
    code, said, _, mib = measured([binary, "play", run, "--protocol", "gomocup"], env)
    assert code == 2 and "model.safetensors" in said, said
    assert mib < 300  # the net's weights alone are 760 MB
