"""A program that is asked who holds its tensors (src/hook/census.h) runs as it would have run: nothing is raised, kept or lost."""

import pytest
from test_holders import FIRST, held, told  # noqa: F401 - a fixture

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not FIRST, reason="no Python here has torch")]


@pytest.fixture
def output(held, tmp_path):  # noqa: F811
    """output(text) -> the lines that the program writes to a file called out."""

    def run(text):
        said = held(FIRST[0], text)
        return (tmp_path / "out").read_text().splitlines(), said

    return run


@pytest.mark.long
def test_what_a_signal_handler_raises_during_a_census_reaches_the_program(output):
    lines, said = output("""
        import signal
        class Alarm(Exception):
            pass
        armed, fired, caught, within = False, 0, 0, 0
        def ring(number, frame):
            global armed, fired, within
            if not armed:
                return
            armed, fired = False, fired + 1
            while frame and "/tidemark/_" not in frame.f_code.co_filename:
                frame = frame.f_back
            within += frame is not None
            raise Alarm
        signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, 0.0007, 0.0007)
        kept = []
        for step in steps(12):
            try:
                armed = True
                kept.append(torch.randn(64, 128))
                time.sleep(0.001)
                armed = False
            except Alarm:
                caught += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(fired, caught, within > 0, file=open("out", "w"))
    """)
    fired, caught, within = lines[0].split()
    assert fired == caught and int(fired) > 100
    assert within == "True", "no alarm came while a census was taken: the test shows nothing"


@pytest.mark.long
def test_nothing_of_a_census_stays_in_the_program(output, tmp_path):
    lines, said = output("""
        import gc, sys, threading, warnings, weakref
        before = set(dir(sys.modules["__main__"]))
        kept = []
        for step in steps():
            kept.append(torch.randn(64, 128))
        after = set(dir(sys.modules["__main__"])) - before - {"before", "kept", "step"}
        print("tidemark._asked" in sys.modules, gc.callbacks, gc.isenabled(), threading.active_count(), weakref.getweakrefcount(kept[0]),
              sys.getrefcount(kept[0]), sorted(after), torch.utils.swap_tensors.__module__ if hasattr(torch.utils, "swap_tensors") else "torch.utils",
              file=open("out", "w"))
    """)
    assert lines == ["True [] True 1 0 2 [] torch.utils"], said
    assert told(tmp_path) == ["held by list `kept`, train.py:20"], "it was asked, and more than once"


@pytest.mark.long
def test_somebody_elses_module_of_our_name_is_not_imported(output, tmp_path):
    (tmp_path / "tidemark.py").write_text("open('imported', 'w')\n")
    lines, said = output("""
        kept = []
        for step in steps():
            kept.append(torch.randn(64, 128))
        open("out", "w").write("done")
    """)
    assert lines == ["done"] and not (tmp_path / "imported").exists()
    assert "held by" not in said


@pytest.mark.long
def test_code_that_is_traced_is_left_alone(output):
    lines, said = output("""
        import sys
        seen = set()
        def trace(frame, event, arg):
            seen.add(frame.f_code.co_filename)
        sys.settrace(trace)
        kept = []
        for step in steps():
            kept.append(torch.randn(64, 128))
        sys.settrace(None)
        print([each for each in seen if "tidemark" in each], file=open("out", "w"))
    """)
    assert lines == ["[]"]


@pytest.mark.long
def test_without_the_package_the_program_is_not_asked(output, env, tidemark, tmp_path):
    env["PYTHONPATH"] = str(tmp_path)
    lines, said = output("""
        import sys
        kept = []
        for step in steps():
            kept.append(torch.randn(64, 128))
        print([each for each in sys.modules if each.startswith("tidemark")], file=open("out", "w"))
    """)
    assert lines == ["[]"] and "held by" not in said and "  culprit 1 " in said
