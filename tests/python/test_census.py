"""The tensor census: what is alive, counted once, and who holds it."""

import collections
import functools
import gc
import sys
import threading
import types
import weakref

import pytest
from frameworks import framework

torch = framework("torch")
tidemark = framework("tidemark")
census_of = framework("tidemark.torch")
pytestmark = [pytest.mark.unsanitized, pytest.mark.xdist_group("torch")]
nn = torch.nn


def groups(census, shape, kind=None):
    return {key.holder: group for key, group in census.groups.items()
            if key.shape == shape and kind in (None, key.kind)}


def model_and_optimizer(width):
    model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 3))
    return model, torch.optim.AdamW(model.parameters())


def one_step(model, optimizer, width):
    loss = model(torch.randn(4, width)).pow(2).mean()
    loss.backward()
    optimizer.step()


def test_parameters_gradients_and_state_have_their_owner():
    model, optimizer = model_and_optimizer(101)
    one_step(model, optimizer, 101)
    seen = groups(census_of.census(), (101, 101))
    assert {words: group.count for words, group in seen.items()} == {
        "parameter of Linear": 1,
        "gradient of a parameter": 1,
        "state `exp_avg` of AdamW": 1,
        "state `exp_avg_sq` of AdamW": 1,
    }
    assert all(group.bytes == 101 * 101 * 4 for group in seen.values())


def test_buffers_have_their_owner():
    norm = nn.BatchNorm1d(103)
    seen = groups(census_of.census(), (103,))
    assert seen["buffer of BatchNorm1d"].count == 2
    del norm


def test_a_list_that_grows_is_named_with_the_line_it_began():
    def train():
        losses = []  # the line that is named
        censuses = []
        for step in range(1, 21):
            losses.append(torch.zeros(8, 17, 59))
            if step % 10 == 0:
                censuses.append(census_of.census(step))
        return censuses

    first, last = train()
    (growth,) = [g for g in last.since(first) if g.shape == (8, 17, 59)]
    line = train.__code__.co_firstlineno + 1
    size = 8 * 17 * 59 * 4
    assert (growth.count, growth.bytes, growth.count_per_step, growth.bytes_per_step) == (10, 10 * size, 1, size)
    assert growth.holder == f"list `losses` in test_census.py:{line} train()"
    assert str(growth) == (f"+1 tensor of (8, 17, 59) float32 per step (+31.3 KiB per step), held by {growth.holder}")


def test_shapes_that_change_are_one_finding():
    kept = []
    first = census_of.census(0)
    for step in range(12):
        kept.append(torch.zeros(8, 31 + step, 61))
    (growth,) = [g for g in census_of.census(12).since(first) if "`kept`" in g.holder]
    assert growth.shape == (8, "*", 61) and growth.count_per_step == 1


class Rollout:
    def __init__(self, logits):
        self.logits = logits


class Slotted:
    __slots__ = ("logits", "__weakref__")

    def __init__(self, logits):
        self.logits = logits


class History(list):
    pass


class Forever:
    def __await__(self):
        yield


TABLE = {}


def test_every_kind_of_holder_is_named():
    in_dict = {"x": [torch.zeros(3, 211)]}
    in_attribute = [Rollout(torch.zeros(3, 223))]
    in_set = {torch.zeros(3, 227)}
    alone = torch.zeros(3, 229)
    TABLE[7] = torch.zeros(3, 233)
    enclosed = torch.zeros(3, 239)

    def closure():
        return enclosed

    def generator():
        inner = torch.zeros(3, 241)
        yield inner.shape

    running = generator()
    next(running)
    seen = census_of.census()

    def holder(width):
        (words,) = groups(seen, (3, width))
        return words

    here = "in test_census.py:"
    assert holder(211).startswith(f"dict `in_dict['x']` {here}")
    assert holder(223).startswith(f"list `in_attribute[*].logits` {here}")
    assert holder(227).startswith(f"set `in_set` {here}")
    assert holder(229).startswith(f"variable `alone` {here}")
    assert holder(233) == "dict `TABLE` in test_census.py"
    assert holder(239).startswith(f"variable `enclosed` {here}")
    assert holder(241).startswith(f"generator `running local inner` {here}")
    del in_dict, in_attribute, in_set, alone, closure
    TABLE.clear()


class Meter:
    seen = []

    def update(self, value):
        self.seen.append(value)


def test_what_a_class_keeps_for_all_its_objects_is_named():
    class Inner(Meter):
        table = {"first": torch.zeros(3, 263)}

    meter = Inner()
    meter.update(torch.zeros(3, 269))
    seen = census_of.census(seconds=60)
    assert list(groups(seen, (3, 269))) == ["class `Meter.seen` in test_census.py"]
    (words,) = groups(seen, (3, 263))
    assert words.startswith("class `Inner.table['first']` in test_census.py:")
    Meter.seen.clear()


@functools.lru_cache(maxsize=8)
def embedding(index):
    return torch.zeros(3, 293 + index)


def test_what_a_cache_of_functools_keeps_is_named():
    embedding(0)
    (words,) = groups(census_of.census(), (3, 293))
    assert words == "_lru_cache_wrapper `embedding` in test_census.py"
    embedding.cache_clear()


def test_a_closure_that_outlived_its_function_is_named():
    def make():
        enclosed = torch.zeros(3, 251)
        return lambda: enclosed

    hooks = [make()]
    (words,) = groups(census_of.census(), (3, 251))
    assert words.startswith("list `hooks[*] closing over enclosed` in test_census.py:")
    del hooks


def test_a_local_of_another_thread_is_named():
    ready, done = threading.Event(), threading.Event()

    def worker():
        private = torch.zeros(3, 257)
        ready.set()
        done.wait(30)
        return private.shape

    thread = threading.Thread(target=worker)
    thread.start()
    ready.wait(30)
    (words,) = groups(census_of.census(), (3, 257))
    done.set()
    thread.join()
    assert words.startswith("variable `private` in test_census.py:") and words.endswith(" worker()")


def test_more_holders_are_named():
    slotted, subclass, partial = Slotted(torch.zeros(3, 401)), History([torch.zeros(3, 409)]), functools.partial(print, torch.zeros(3, 419))
    nested = {"run": Rollout({"first": Rollout(torch.zeros(3, 421))})}
    weak, alive = weakref.WeakValueDictionary(), torch.zeros(3, 431)
    weak["alive"] = alive

    async def paused():
        awaited = torch.zeros(3, 433)
        await Forever()
        return awaited

    coroutine = paused()
    coroutine.send(None)
    seen = census_of.census(seconds=60)
    coroutine.close()

    def holder(width):
        (words,) = groups(seen, (3, width))
        return words.partition(" in test_census.py:")[0]

    assert [holder(width) for width in (401, 409, 419, 421, 431, 433)] == [
        "Slotted `slotted`", "History `subclass`", "partial `partial`", "dict `nested['run'].logits['first'].logits`",
        "variable `alive`", "coroutine `coroutine local awaited`"]


def test_what_a_watched_generator_holds_is_named():
    """It is on the stack of its loop, where no variable leads."""

    def batches():
        buffer = [torch.zeros(3, 439)]
        while True:
            yield len(buffer)

    for _ in tidemark.watch(batches(), every=0):
        (words,) = groups(census_of.census(seconds=60), (3, 439))
        break
    assert words == "Watched `iter(loader)._loader local buffer` in a for loop"


def test_what_a_loader_fetched_ahead_is_named():
    data = torch.utils.data
    loader = data.DataLoader(data.TensorDataset(torch.zeros(12, 443)), batch_size=2, num_workers=2)
    for _ in loader:
        # The second worker's batch came before the first one's: what the loader does when workers differ in speed.
        (iterator,) = [each for each in gc.get_objects() if type(each).__name__ == "_MultiProcessingDataLoaderIter"]
        iterator._task_info[99] = (0, [torch.zeros(7, 443)])
        del iterator
        words = list(groups(census_of.census(seconds=60), (7, 443)))
        break
    assert words == ["_MultiProcessingDataLoaderIter `iter(loader)._task_info` in a for loop"]


def test_no_code_of_the_program_runs():
    """A class may compute, load or raise wherever it is asked something."""
    asked = []

    def refuse(*_args, **_kwargs):
        asked.append(1)
        raise RuntimeError("must not be asked")

    class Meta(type):
        __getattr__ = refuse
        __instancecheck__ = refuse

    everything = ("__getattr__", "__getattribute__", "__len__", "__iter__", "__eq__", "__repr__", "__bool__", "items", "values", "keys")
    odd = {"__class__": property(refuse), **dict.fromkeys(everything, refuse), "__hash__": lambda self: 7}
    kinds = [Meta("Odd", (base,), {**odd, **more}) for base in (object, dict, list, tuple, set, collections.deque)
             for more in ({}, {"__slots__": ()})]

    class Tensor(torch.Tensor):
        __torch_function__ = classmethod(refuse)

    class Module(nn.Module):
        __getattr__ = refuse

    module, held = Module.__new__(Module), []  # half built: it lacks what it is asked for
    for kind in kinds:
        each = kind()
        if issubclass(kind, dict):
            dict.__setitem__(each, "k", torch.zeros(3, 449))
        elif issubclass(kind, (list, collections.deque)):
            kind.__mro__[1].append(each, torch.zeros(3, 449))
        elif issubclass(kind, set):
            set.add(each, torch.zeros(3, 449))
        elif "__slots__" not in vars(kind):
            object.__setattr__(each, "kept", torch.zeros(3, 449))
        held.append(each)
    del each
    held.append(torch.zeros(3, 449).as_subclass(Tensor))
    lazy = types.ModuleType("lazy_module")
    lazy.__getattr__ = refuse
    sys.modules["lazy_module"] = lazy
    try:
        seen = groups(census_of.census(seconds=60), (3, 449))
    finally:
        del sys.modules["lazy_module"]
    assert asked == []
    assert sum(group.count for group in seen.values()) == 11
    assert all(words.startswith("list `held") for words in seen), seen
    del module, held


def test_a_container_that_changes_meanwhile_cuts_the_census_short(monkeypatch):
    """What another thread may do, done for certain."""
    from tidemark import _holders

    def changed(*_args):
        raise RuntimeError("set changed size during iteration")

    kept = [{torch.zeros(3, 457)}]
    monkeypatch.setattr(_holders, "_of_sequence", changed)
    seen = census_of.census(seconds=60)
    assert not seen.complete and groups(seen, (3, 457)), kept


def test_a_storage_is_counted_once():
    base = torch.zeros(1000, 263)
    views = [base[i] for i in range(10)] + [base.detach(), base.t()]
    seen = census_of.census()
    mine = [(key, group) for key, group in seen.groups.items() if 263 in key.shape]
    assert sum(group.bytes for _, group in mine) == 1000 * 263 * 4
    assert sum(group.count for _, group in mine) == 13
    assert sum(group.shared for _, group in mine) == 12
    del views


def test_a_small_view_that_keeps_a_large_storage_is_told():
    slices = [torch.zeros(500, 269)[0] for _ in range(4)]
    seen = census_of.census()
    (words,) = groups(seen, (269,))
    assert seen.groups[next(k for k in seen.groups if k.shape == (269,))].bytes == 4 * 500 * 269 * 4
    line = next(line for line in seen.table(1000).splitlines() if "(269,)" in line)
    assert line.split(None, 3) == ["4", "2.1", "MiB", f"(269,) float32 cpu, views of larger storages, held by {words}"]
    del slices


def test_tied_weights_are_counted_once():
    model = nn.ModuleDict({"embed": nn.Embedding(271, 13), "head": nn.Linear(13, 271, bias=False)})
    model["head"].weight = model["embed"].weight
    seen = groups(census_of.census(), (271, 13))
    assert sum(group.bytes for group in seen.values()) == 271 * 13 * 4
    assert sum(group.count for group in seen.values()) == 1


def test_what_autograd_saved_is_counted_for_who_holds_the_loss():
    model = nn.Sequential(nn.Linear(11, 277), nn.Sigmoid(), nn.Linear(277, 5))
    losses = [model(torch.randn(6, 11)).exp().sum() for _ in range(9)]
    seen = census_of.census()
    assert (seen.graphs, seen.passes) == (9, 9)
    ((words, group),) = groups(seen, (6, 277), "autograd graph").items()
    assert words.startswith("autograd graph of list `losses` in test_census.py:")
    assert (group.count, group.bytes) == (9, 9 * 6 * 277 * 4)
    total = sum(losses)
    again = census_of.census()
    assert (again.graphs, again.passes) == (1, 9), "one graph by now, of nine forward passes"
    total.backward()
    after = census_of.census()
    assert (after.graphs, after.passes) == (0, 0)
    assert groups(after, (6, 277)) == {}


def test_weights_that_the_optimizer_changed_hide_nothing_of_a_graph():
    """Saved tensors that were changed in place cannot be read, and to be told so takes long."""
    weight = torch.zeros(463, 7, requires_grad=True)
    losses = [torch.zeros(3, 463, requires_grad=True).exp().mm(weight).sum() for _ in range(9)]
    with torch.no_grad():
        weight.add_(1)
    node, asked = losses[0].grad_fn.next_functions[0][0], collections.Counter()
    from tidemark import _graphs

    for _ in range(9):
        assert [tuple(each.shape) for each in _graphs._saved_by(node, asked)] == [(3, 463)]
    assert list(asked.values()) == [3], "not asked again"
    seen = census_of.census(seconds=60)
    assert seen.complete and seen.graphs == 9
    assert sum(group.count for group in groups(seen, (3, 463), "autograd graph").values()) == 9


def test_a_graph_that_went_through_backward_is_left_at_once():
    losses = [torch.zeros(3, 467, requires_grad=True).exp().exp().exp().sum() for _ in range(5)]
    for loss in losses[:4]:
        loss.backward()
    seen = census_of.census(seconds=60)
    assert seen.graphs == 1
    assert sum(group.count for group in groups(seen, (3, 467), "autograd graph").values()) == 3


def test_looking_twice_changes_nothing():
    model = nn.Sequential(nn.Linear(11, 281), nn.Sigmoid(), nn.Linear(281, 5))
    losses = [model(torch.randn(6, 11)).exp().sum() for _ in range(3)]
    first, second = census_of.census(), census_of.census()
    numbers = [{k: (g.count, g.bytes) for k, g in c.groups.items() if 281 in k.shape} for c in (first, second)]
    assert numbers[0] == numbers[1]
    del losses


def test_a_census_keeps_nothing_alive():
    def step():
        logits = torch.zeros(3, 283)
        census_of.census()
        logits = None  # the copy of the locals that the census read must be gone too
        return [t for t in gc.get_objects() if issubclass(type(t), torch.Tensor) and t.shape == (3, 283)], logits

    assert step()[0] == []


def test_the_work_of_a_census_is_gone_when_it_returns():
    from tidemark._census import _Count

    gc.disable()  # whatever is held by a cycle stays
    try:
        census_of.census()
        assert [each for each in gc.get_objects() if type(each) is _Count] == []
    finally:
        gc.enable()


def test_a_census_from_a_debugger_leaves_the_variables_alone():
    def debugged():
        first, second = torch.zeros(3, 313), 5
        line = second
        return first.shape[1] + second + line

    def trace(frame, event, _argument):
        if frame.f_code is debugged.__code__ and event == "line":
            census_of.census()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        assert debugged() == 313 + 5 + 5
    finally:
        sys.settrace(before)


def test_a_census_counts_what_the_collector_knows_without_going_through_it_again():
    from tidemark._census import roster

    model, optimizer = model_and_optimizer(317)
    kept = []
    one_step(model, optimizer, 317)  # imports, after which all is gone through once more
    for _ in range(2):
        gc.collect()
        census_of.census()
    whole = roster.whole
    for step in range(6):
        one_step(model, optimizer, 317)
        kept.append([torch.zeros(3, 317) for _ in range(5)])
        if step % 2:
            kept.pop(0)
        gc.collect(step % 3)
        seen = census_of.census()
        known = [each for each in gc.get_objects() if issubclass(type(each), torch.Tensor) and each.shape == (3, 317)]
        expected = {"list `kept` in": sum(map(len, kept)), "parameter of Linear": 1, "gradient of a parameter": 1}
        counts = {words: group.count for words, group in groups(seen, (3, 317)).items()}
        assert sum(counts.values()) == len(known)
        assert {words.split(" test_")[0]: count for words, count in counts.items()} == {
            **expected, "state `exp_avg` of AdamW": 1, "state `exp_avg_sq` of AdamW": 1}
        del known
    assert roster.whole == whole


def test_tensors_can_be_swapped_after_a_census():
    if not hasattr(torch.utils, "swap_tensors"):
        pytest.skip("this torch has no swap_tensors")
    first, second = torch.zeros(3, 331), torch.ones(3, 331)
    census_of.census()
    gc.collect()
    torch.utils.swap_tensors(first, second)  # refuses tensors that have weak references
    assert first.sum() == 3 * 331
    assert sum(group.count for group in groups(census_of.census(), (3, 331)).values()) == 2


def test_it_never_waits_for_a_large_data_set():
    dataset = [{"tokens": list(range(3)), "extra": [object()]} for _ in range(50_000)]
    dataset[-1]["last"] = torch.zeros(3, 287)
    seen = census_of.census(seconds=0.005)
    assert not seen.complete
    assert "cut short" in seen.table()
    (words,) = groups(census_of.census(seconds=60), (3, 287))
    assert words.startswith("list `dataset[*]['last']` in test_census.py:")


def test_hooks_that_pack_saved_tensors_are_not_called():
    unpacked = []

    def unpack(value):
        unpacked.append(1)
        return value

    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
        loss = torch.randn(3, 311, requires_grad=True).exp().sum()
    census_of.census()
    assert unpacked == []
    loss.backward()
    assert unpacked == [1]


def test_odd_tensors_are_counted_or_passed_over():
    odd = [torch.eye(307).to_sparse(), torch.empty(3, 307, device="meta"), torch.empty(0, 307),
           torch.quantize_per_tensor(torch.zeros(3, 307), 0.1, 0, torch.qint8), torch.nn.Parameter(torch.zeros(3, 307))]

    class Mine(torch.Tensor):
        pass

    odd.append(torch.zeros(3, 307).as_subclass(Mine))
    seen = census_of.census()
    assert sum(group.count for key, group in seen.groups.items() if 307 in key.shape) == len(odd)
    sparse = next(group for key, group in seen.groups.items() if key.shape == (307, 307))
    assert sparse.bytes == 307 * (2 * 8 + 4)


def test_backward_says_how_many_forward_passes_it_goes_through():
    model, _ = model_and_optimizer(53)
    with census_of.GraphCounter() as graphs:
        for number in (1, 1, 50, 1):
            graphs.step += 1
            sum(model(torch.randn(2, 53)).sum() for _ in range(number)).backward()
    assert (graphs.calls, graphs.counted, graphs.most, graphs.most_at, graphs.last) == (4, 4, 50, 3, 1)
    before = graphs.calls
    model(torch.randn(2, 53)).sum().backward()
    assert graphs.calls == before, "taken out again"


def test_two_counters_do_not_disturb_each_other():
    model, _ = model_and_optimizer(53)
    outer, inner = census_of.GraphCounter().start(), census_of.GraphCounter().start()
    model(torch.randn(2, 53)).sum().backward()
    outer.stop()  # not the last one: only stops counting
    model(torch.randn(2, 53)).sum().backward()
    inner.stop()
    assert (outer.calls, inner.calls) == (1, 2)
    with pytest.raises(RuntimeError):
        torch.zeros(3).sum().backward()


def test_a_holder_is_the_programs_name_even_if_a_library_has_a_shorter_way():
    library = {}
    source = "def call(function, tensor):\n    shorter = tensor\n    return function()\n"
    exec(compile(source, "/usr/lib/python3/site-packages/framework/loop.py", "exec"), library)  # noqa: S102
    mine = {"kept": [torch.zeros(3, 107)]}
    seen = library["call"](census_of.census, mine["kept"][0])
    assert len(groups(seen, (3, 107))) == 1
    assert next(iter(groups(seen, (3, 107)))).startswith("dict `mine['kept']` in test_census.py:")


def test_what_only_a_library_holds_is_said_to_be_held_there():
    library = {}
    source = "def call(function, make):\n    inner = make()\n    return function()\n"
    exec(compile(source, "/usr/lib/python3/site-packages/framework/loop.py", "exec"), library)  # noqa: S102
    seen = library["call"](census_of.census, lambda: torch.zeros(3, 109))
    assert list(groups(seen, (3, 109))) == ["variable `inner` in loop.py:2 call()"]


def test_a_few_graphs_of_a_holder_stand_for_the_others_when_names_are_followed():
    from tidemark._census import reach

    model = nn.Linear(113, 113)
    losses = [model(torch.randn(5, 113)).pow(2).mean() for _ in range(48)]
    seen = reach(5.0, 4)
    words = next(words for words in seen.places if words.startswith("list `losses`"))
    kept = [group.bytes for key, group in seen.groups.items() if key.holder == f"autograd graph of {words}"]
    if kept:  # torch that tells which saved tensors are packed by hooks
        each = 2 * 5 * 113 * 4  # what Linear and pow saved
        assert abs(sum(kept) - 48 * each) <= 48 * each * 0.05
    assert seen.nodes[words] >= 48 * 3
    assert not any("parameter" in key.kind for key in seen.groups)
    del losses
