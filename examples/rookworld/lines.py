"""Usage: lines.py DIRECTORY [--lines N] [--policy N] [--prompts N] [--policy-prompts N] [--held-out N] [--plies N] [--seed N]

Makes what the example needs, the same for the same options and seed:

    lines.txt         N environment lines (`A:`) and, among them, policy lines (`P:`), to train a model on
    tokenizer.json    a byte-level BPE whose pieces are ranks, squares and fields, made from lines.txt
    config.json       the size of the model
    prompts.jsonl     environment prompts with their answers, for `tidemark train grpo`
    held-out.jsonl    the same, one of each position; they are in no other file, neither before nor after a move
    policy.jsonl      policy prompts, which end after `M:`, with what Stockfish says

Games are made of random legal moves from the initial position, a checkmate taken where there is one. One move in twenty is
illegal. Truths are the `chess` package's; evaluations of policy lines are Stockfish's.
"""

import argparse
import hashlib
import json
import pathlib
import random
import shutil

import chess
import chess.engine
import tokenizers

END = "<|endoftext|>"
ILLEGAL = 0.05
RECENT = 10
POSITIONS = 256
CONFIG = {"model_type": "gpt2", "n_positions": POSITIONS, "n_ctx": POSITIONS, "n_embd": 128, "n_layer": 3, "n_head": 4, "n_inner": 512}
VOCABULARY = 1024
# A rank with the slash before it; the two squares of a move; what stands between the fields.
PIECES = r"[ ]?[a-h][1-8](?=[a-h][1-8][qrbn]?[ +])|[a-h][1-8][qrbn]?(?=[ +])|[ ](?=[^ ]*/)|/?[pnbrqkPNBRQK1-8]+(?=[/ ])|[ ]?[^\s/+]+|\+|/|\s+"


def is_held_out(board):
    """One position in ten, whoever is to move how often."""
    return hashlib.blake2b(board.epd().encode(), digest_size=8).digest()[0] % 10 == 0


def illegal_move(board, rng):
    """A move of a piece of the side to move that it may not make."""
    own = [square for square in chess.SQUARES if board.color_at(square) == board.turn]
    while True:
        move = chess.Move(rng.choice(own), rng.randrange(64))
        if move.from_square != move.to_square and move not in board.legal_moves:
            return move


def choose_move(board, rng):
    if rng.random() < ILLEGAL:
        return illegal_move(board, rng)
    moves = sorted(board.legal_moves, key=str)
    for move in moves:
        if board.gives_check(move):
            board.push(move)
            mates = board.is_checkmate()
            board.pop()
            if mates:
                return move
    return rng.choice(moves)


def truth(board, move):
    """The fields after a move: position, reward, terminated, truncated. The board is as it was."""
    if move not in board.legal_moves:
        return {"position": board.fen(), "reward": "0", "terminated": "0", "truncated": "1"}
    after = board.copy(stack=False)
    after.push(move)
    reward = "1.0" if after.is_checkmate() else "0.5" if after.is_stalemate() or after.is_insufficient_material() else "0.001"
    return {"position": after.fen(), "reward": reward, "terminated": str(int(reward != "0.001")), "truncated": "0"}


def moves_of_games(rng, plies):
    """(position, move, recent moves with it, what comes of it), without end."""
    while True:
        board, recent = chess.Board(), []
        for _ in range(rng.randint(2, plies)):
            move = choose_move(board, rng)
            found = truth(board, move)
            yield board, move, [*recent[1 - RECENT:], str(move)], found
            if found["truncated"] == "1" or found["terminated"] == "1":
                break
            recent.append(str(move))
            board.push(move)


def environment(rng, plies, held_out):
    """Prompts with their answers: each once, and without positions that are held out, before and after the move; or one of
    each position that is."""
    seen = set()
    for board, move, recent, found in moves_of_games(rng, plies):
        prompt = f"A: {board.fen()}+{move}+{' '.join(recent)}+"
        key = board.epd() if held_out else prompt
        if key in seen or is_held_out(board) != held_out or (not held_out and is_held_out(chess.Board(found["position"]))):
            continue
        seen.add(key)
        yield {"prompt": prompt, **found}


def answer(line):
    return "+".join(line[field] for field in ("position", "reward", "terminated", "truncated"))


def policy(rng, plies, count):
    """Policy prompts with their answers: five moves with Stockfish's evaluations in pawns, for the side to move, and the best."""
    path = shutil.which("stockfish") or "/usr/games/stockfish"
    with chess.engine.SimpleEngine.popen_uci(path) as engine:
        engine.configure({"Threads": 1, "Hash": 16})
        games = moves_of_games(rng, plies)
        while count:
            board = next(games)[0]
            if is_held_out(board):
                continue
            lines = engine.analyse(board, chess.engine.Limit(nodes=5000), multipv=5, game=object())
            moves = " ".join(str(line["pv"][0]) for line in lines)
            values = " ".join(f"{line['score'].relative.score(mate_score=10000) / 100:.2f}" for line in lines)
            yield {"prompt": f"P: {board.fen():<90}M:", "moves": moves, "values": values, "best": str(lines[0]["pv"][0])}
            count -= 1


def policy_answer(line):
    return f" {line['moves']:<30}E: {line['values']:<40}B: {line['best']}"


def make_tokenizer(path, texts):
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([
        tokenizers.pre_tokenizers.Split(tokenizers.Regex(PIECES), "isolated"),
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=[END], show_progress=False,
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator(texts, trainer)
    made.save(str(path))
    return made


def take(source, count):
    return [next(source) for _ in range(count)]


def main():
    ask = argparse.ArgumentParser(usage=__doc__.split("\n")[0].removeprefix("Usage: "))
    ask.add_argument("directory", type=pathlib.Path)
    for name, default in (("lines", 40000), ("policy", 400), ("prompts", 16000), ("policy-prompts", 100),
                          ("held-out", 1000), ("plies", 8), ("seed", 1)):
        ask.add_argument(f"--{name}", type=int, default=default)
    asked = ask.parse_args()
    asked.directory.mkdir(parents=True, exist_ok=True)
    streams = {name: random.Random(f"{asked.seed} {name}") for name in ("train", "held out", "policy", "order")}
    known = take(environment(streams["train"], asked.plies, False), asked.lines + asked.prompts)
    held_out = take(environment(streams["held out"], asked.plies, True), asked.held_out)
    texts = [line["prompt"] + answer(line) for line in known[:asked.lines]]
    wanted = asked.policy + asked.policy_prompts
    analysed = list(policy(streams["policy"], asked.plies, wanted)) if wanted else []
    texts += [line["prompt"] + policy_answer(line) for line in analysed[:asked.policy]]
    streams["order"].shuffle(texts)
    (asked.directory / "lines.txt").write_text("".join(f"{text}{END}\n" for text in texts))
    for name, lines in (("prompts", known[asked.lines:]), ("held-out", held_out), ("policy", analysed[asked.policy:])):
        (asked.directory / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    made = make_tokenizer(asked.directory / "tokenizer.json", texts)
    (asked.directory / "config.json").write_text(json.dumps({**CONFIG, "vocab_size": made.get_vocab_size()}, indent=2) + "\n")
    counts = sorted(len(made.encode(text).ids) for text in texts[:1000])
    print(f"{len(texts)} lines of {counts[len(counts) // 2]} tokens (median), {counts[-1]} at most, of {made.get_vocab_size()} words")


if __name__ == "__main__":
    main()
