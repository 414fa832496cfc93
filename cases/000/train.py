"""Self-play on a small Gomoku board: each epoch a new pool of workers plays games by tree search, then the parent trains on them.

    train.py [--epochs N] [--workers W] [--fix none|cleanup|buckets]

Truth: the parent is flat. In each worker the engine that evaluates leaves makes a plan (its buffers) for every shape of batch it
meets and keeps it; the deeper the search goes, which it does a little more with every epoch, the more shapes there are. So each
epoch's self-play rises higher than the last one's, in the workers, and comes back when the pool ends.

--fix cleanup does what was tried: the collector and empty_cache in the parent after self-play, with a line that says what was
"freed". It changes nothing. --fix buckets is the repair: batches are padded to one of four sizes, whose plans are made before the
first game, so that every epoch has the same four.
"""

from __future__ import annotations

import argparse
import gc
import math
import multiprocessing
import random
from multiprocessing.synchronize import Barrier

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import tidemark

BOARD, TO_WIN = 9, 5
CHANNELS, LAYERS = 16, 4
GAMES, LEAVES = 4, 16  # games at once in a worker, leaves per game in one batch: 64 at most
MOVES, RESIGNS = 80, 0.08  # moves that a worker plays in an epoch; games that are given up, per move
BUCKETS = (8, 16, 32, 64)
REPLAY = 400  # positions that are trained on: full after three epochs


class Net(nn.Module):
    """Policy and value from a board; trained in the parent, run by the Engine in the workers."""

    def __init__(self) -> None:
        super().__init__()
        sizes = [2] + [CHANNELS] * LAYERS
        self.layers = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in zip(sizes, sizes[1:]))
        self.policy = nn.Linear(CHANNELS * BOARD * BOARD, BOARD * BOARD)
        self.value = nn.Linear(CHANNELS * BOARD * BOARD, 1)

    def forward(self, boards: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        for layer in self.layers:
            boards = F.relu(layer(boards))
        flat = boards.flatten(1)
        return self.policy(flat), torch.tanh(self.value(flat)).squeeze(1)


class Plan:
    """All the memory that one shape of batch needs, made once. An evaluation that took large blocks and gave them back would leave
    holes between the nodes of the trees: the heap would grow with the games, whatever the plans do."""

    def __init__(self, batch: int) -> None:
        inputs = [2] + [CHANNELS] * (LAYERS - 1)
        self.padded = [torch.zeros(batch, c, BOARD + 2, BOARD + 2) for c in inputs]
        self.columns = [torch.zeros(batch, c * 9, BOARD * BOARD) for c in inputs]
        self.outputs = [torch.zeros(batch, CHANNELS, BOARD * BOARD) for _ in range(LAYERS)]

    def bytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in self.padded + self.columns + self.outputs)

    def convolve(self, layer: int, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """A convolution of 3 x 3 and a relu. x may have fewer boards than the plan: what the others then hold is of no use."""
        padded, columns, output = self.padded[layer], self.columns[layer], self.outputs[layer]
        padded[: len(x), :, 1:-1, 1:-1] = x
        windows = padded.unfold(2, 3, 1).unfold(3, 3, 1)  # a view: batch, channel, row, column, 3, 3
        columns.view(*padded.shape[:2], 3, 3, BOARD, BOARD).copy_(windows.permute(0, 1, 4, 5, 2, 3))
        torch.bmm(weight.flatten(1).expand(len(columns), -1, -1), columns, out=output)
        return output.add_(bias[:, None]).relu_().view(-1, CHANNELS, BOARD, BOARD)


class Engine:
    """Evaluates leaves without a graph, into buffers that are kept per shape."""

    def __init__(self, net: Net, buckets: bool) -> None:
        self.net = net
        self.sizes = BUCKETS if buckets else range(1, GAMES * LEAVES + 1)
        self.plans: dict[int, Plan] = {b: Plan(b) for b in BUCKETS} if buckets else {}

    @torch.no_grad()
    def __call__(self, boards: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        count = len(boards)
        size = next(s for s in self.sizes if s >= count)
        if size not in self.plans:
            self.plans[size] = Plan(size)
        x = torch.from_numpy(boards)
        for number, layer in enumerate(self.net.layers):
            x = self.plans[size].convolve(number, x, layer.weight, layer.bias)
        flat = x[:count].flatten(1)
        policy = self.net.policy(flat).softmax(1)
        return policy.numpy(), torch.tanh(self.net.value(flat)).squeeze(1).numpy()


class Node:
    """A position in the tree, with all its children at once."""

    __slots__ = ("prior", "visits", "total", "children")

    def __init__(self, prior: np.ndarray) -> None:
        self.prior = prior
        self.visits = np.zeros(BOARD * BOARD, np.float32)
        self.total = np.zeros(BOARD * BOARD, np.float32)
        self.children: list[Node | None] = [None] * (BOARD * BOARD)

    def best(self, board: np.ndarray) -> int:
        score = self.total / (self.visits + 1) + 1.5 * self.prior * math.sqrt(self.visits.sum() + 1) / (self.visits + 1)
        score[(board[0] + board[1]).ravel() > 0] = -np.inf
        return int(score.argmax())


def play(board: np.ndarray, move: int) -> np.ndarray:
    """The board after a move, seen by the other player: plane 0 has the stones of who is to move."""
    after = board[::-1].copy()
    after[1].ravel()[move] = 1
    return after


def is_won(board: np.ndarray) -> bool:
    """By the player who moved last."""
    stones = board[1]
    for lines in (stones, stones.T):
        run = np.lib.stride_tricks.sliding_window_view(lines, TO_WIN, axis=1).sum(-1)
        if run.max() >= TO_WIN:
            return True
    for flipped in (stones, stones[:, ::-1]):
        if any("1" * TO_WIN in "".join("1" if s else "0" for s in flipped.diagonal(k)) for k in range(1 - BOARD, BOARD)):
            return True
    return False


class Game:
    def __init__(self) -> None:
        self.board = np.zeros((2, BOARD, BOARD), np.float32)
        self.wanted = 0  # leaves still to be looked at before the next move
        self.root: Node | None = None
        self.record: list[tuple[np.ndarray, np.ndarray]] = []
        self.over = False

    def select(self) -> tuple[list[tuple[Node, int]], np.ndarray] | None:
        """The way to a leaf, and its board; None when the game ends there. Leaves a virtual loss on the way."""
        if self.root is None:
            return [], self.board
        node, board, way = self.root, self.board, []
        while True:
            move = node.best(board)
            way.append((node, move))
            node.visits[move] += 1
            node.total[move] -= 1
            board = play(board, move)
            if is_won(board) or board.sum() == BOARD * BOARD:
                back_up(way, 1.0)
                return None
            if node.children[move] is None:
                return way, board
            node = node.children[move]

    def advance(self) -> None:
        assert self.root is not None
        chances = self.root.visits / self.root.visits.sum()
        self.record.append((self.board, chances))
        self.board = play(self.board, int(np.random.choice(BOARD * BOARD, p=chances / chances.sum())))
        self.root = None
        self.over = is_won(self.board) or np.random.rand() < RESIGNS


def back_up(way: list[tuple[Node, int]], value: float) -> None:
    """value: for the player who made the last move of the way. Takes back the virtual loss."""
    for node, move in reversed(way):
        node.total[move] += 1 + value
        value = -value


def wave(engine: Engine, games: list[Game], leaves: int) -> None:
    """Up to so many leaves of every game, each position once, evaluated as one batch."""
    waiting: dict[bytes, list[tuple[Game, list[tuple[Node, int]]]]] = {}
    boards: list[np.ndarray] = []
    for game in games:
        for _ in range(min(leaves, game.wanted)):
            game.wanted -= 1
            found = game.select()
            if found is None:
                continue
            way, board = found
            if board.tobytes() not in waiting:
                boards.append(board)
            waiting.setdefault(board.tobytes(), []).append((game, way))
    if not boards:
        return
    for board, prior, value in zip(boards, *engine(np.stack(boards))):
        for game, way in waiting[board.tobytes()]:
            node = Node(prior)
            if way:
                way[-1][0].children[way[-1][1]] = node
                back_up(way, -float(value))
            else:
                node.prior = 0.75 * prior + 0.25 * np.random.dirichlet([0.3] * len(prior)).astype(np.float32)
                game.root = node


class Worker:
    """What a process of the pool has until the pool ends. All of them end an epoch together, so that what it reaches is the sum of
    their plans, whoever was faster."""

    engine: Engine
    all_played: Barrier

    @classmethod
    def begin(cls, net: Net, buckets: bool, all_played: Barrier) -> None:
        torch.set_num_threads(1)
        cls.engine, cls.all_played = Engine(net, buckets), all_played


def self_play(task: tuple[int, int]) -> tuple[list[tuple[np.ndarray, np.ndarray]], int, int]:
    """One worker's games of one epoch: positions, the shapes its engine met, the bytes of their plans."""
    seed, simulations = task
    np.random.seed(seed)
    engine, games, ended = Worker.engine, [Game() for _ in range(GAMES)], []
    for _ in range(MOVES // GAMES):
        for game in games:
            game.wanted = 1
        wave(engine, games, 1)  # the roots
        for game in games:  # some moves are thought about longer than others
            game.wanted = np.random.randint(simulations // 4, simulations + 1) + 1
        while any(g.wanted for g in games):
            wave(engine, games, LEAVES)
        for game in games:
            game.advance()
        ended += [g for g in games if g.over]
        games = [Game() if g.over else g for g in games]
    records = [r for g in ended + games for r in g.record]
    Worker.all_played.wait()
    return records, len(engine.plans), sum(p.bytes() for p in engine.plans.values())


class Replay:
    """The last positions, the newest at the end, in memory that the parent has from the beginning: it is flat."""

    def __init__(self) -> None:
        self.boards = np.full((REPLAY, 2, BOARD, BOARD), 0, np.float32)
        self.targets = np.full((REPLAY, BOARD * BOARD), 0, np.float32)
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def add(self, played: list[tuple[np.ndarray, np.ndarray]]) -> None:
        for board, target in played:
            for buffer, new in (self.boards, board), (self.targets, target):
                buffer[:-1] = buffer[1:]
                buffer[-1] = new
        self.count = min(self.count + len(played), REPLAY)

    def sample(self, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        chosen = [REPLAY - self.count + i for i in random.sample(range(self.count), min(count, self.count))]
        return torch.from_numpy(self.boards[chosen]), torch.from_numpy(self.targets[chosen])


def train(net: Net, optimizer: torch.optim.Optimizer, replay: Replay) -> float:
    last = 0.0
    for _ in range(50):
        boards, target = replay.sample(32)
        policy, value = net(boards)
        loss = -(target * policy.log_softmax(1)).sum(1).mean() + value.square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        last = loss.item()
    return last


def allocated() -> int:
    """What the parent's framework has, by its own account."""
    return sum(t.numel() * t.element_size() for t in gc.get_objects() if isinstance(t, torch.Tensor))


def clean_up() -> None:
    before = allocated()
    gc.collect()
    torch.cuda.empty_cache()
    print(f"before cleanup: allocated={before / 1e6:.2f} MB, after cleanup: allocated={allocated() / 1e6:.2f} MB, "
          f"freed: {before / 1e6:.2f} MB", flush=True)  # what was allocated, not what is gone


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--fix", choices=["none", "cleanup", "buckets"], default="none")
    options = parser.parse_args()
    random.seed(0)
    torch.manual_seed(0)
    torch.set_num_threads(1)  # forked workers must not inherit a pool of threads
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    replay = Replay()
    fork = multiprocessing.get_context("fork")
    for epoch in range(options.epochs):
        tidemark.epoch(epoch)
        simulations = 4 + 4 * epoch
        worker = net, options.fix == "buckets", fork.Barrier(options.workers)
        with tidemark.phase("self-play"), fork.Pool(options.workers, Worker.begin, worker) as pool:
            tasks = [(100 * epoch + w, simulations) for w in range(options.workers)]
            results = pool.map(self_play, tasks, chunksize=1)
        for played, shapes, plan_bytes in results:
            replay.add(played)
            print(f"  worker: {shapes} shapes, {plan_bytes / 1e6:.1f} MB", flush=True)
        del results, played
        if options.fix == "cleanup":
            clean_up()
        with tidemark.phase("training"):
            loss = train(net, optimizer, replay)
        tidemark.gauge("torch allocated", allocated())
        print(f"Epoch {epoch + 1}/{options.epochs} loss {loss:.3f} positions {len(replay)}", flush=True)


if __name__ == "__main__":
    main()
