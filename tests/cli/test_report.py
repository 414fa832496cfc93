"""tidemark report: the page in a real browser, and the file it is written to."""

import bisect
import itertools
import json
import os
import re
import resource
import sqlite3
import stat
import subprocess

import pytest

import browser as browsers
from recording import EPOCH, GAUGE, MIB, PHASE_BEGIN, PHASE_END, SECOND, STEP, Recording

pytestmark = pytest.mark.xdist_group("report")  # the browser starts once

MOST_BYTES = 2_000_000
HOSTILE = [
    "<script>window.ran = 1</script>",
    "</script><script>window.ran = 2</script>",
    "<img src=x onerror='window.ran = 3'>",
    "\"><svg onload=alert(4)>",
    "' onmouseover='window.ran = 5",
    "<!--<script>",
    "{{7*7}}&lt;b&gt;&#60;",
    "right\u202eleft\u2066\u2069",
    "ctl\x07\x1b[31mred\r\n\x00end",
    "javascript:alert(8)",
    "]]></style><style>*{display:none}",
    "\u2028\u2029\ufeff\\u003c",
]


def frame(function, file="", line=None, python=1, module=""):
    return {"function": function, "file": file, "line": line, "python": python, "module": module}


def leaking(path, names=None, heap=True, steps=400):
    """A run of 400 steps of 0.1 s: 1 MiB leaks per step, a cache fills, validation rises by 200 MiB; a GPU, a gauge."""
    name = names or (lambda plain: plain)
    r = Recording(path)
    r.meta(command=name("python train.py"), started_wall_s=1794700000, interval_ns=SECOND // 10, ended_ns=steps * SECOND // 10,
           exit_status=0)
    r.put("memory_limit", t_ns=0, name=name("--limit"), bytes=900 * MIB)
    r.put("gpu_device", device=0, name=name("H200"), uuid="GPU-1", total_bytes=1 << 37)
    main = r.process(10, name("python")[:15], ended=steps / 10)
    worker = r.process(11, name("worker")[:15], parent=main, began=1, ended=steps / 10)
    leak = cache = scratch = None
    if heap:
        own = [frame(name("train"), name("/src/train.py"), 12), frame("<module>", name("/src/train.py"), 99)]
        leak = r.site(main, [frame(name("at::empty_cpu"), "", None, 0, name("/lib/libtorch_cpu.so")), frame(name("train_step"), name("/src/train.py"), 88)] + own)
        cache = r.site(main, [frame(name("load_image"), name("/src/data.py"), 31)] + own)
        scratch = r.site(main, [frame(name("evaluate"), name("/src/eval.py"), 31)] + own)
        r.heap(main)
    for step in range(steps):
        t, validating = step / 10, step % 100 >= 80
        filled, held = min(step, 150) * MIB // 2, 200 * MIB if validating else 0
        tick = r.tick(t, {main: 150 * MIB + step * MIB + filled + held, worker: 40 * MIB})
        r.put("gpu", tick=tick, device=0, process=main, bytes=(1 << 33) + held)
        if heap:
            r.hold(tick, leak, (step + 1) * MIB, blocks=step + 1)
            r.hold(tick, cache, filled + 1, blocks=step)
            r.hold(tick, scratch, held, total=(step // 100 + 1) * 200 * MIB)
        r.mark(t, STEP, step)
        if step % 100 == 0:
            r.mark(t, EPOCH, step // 100)
        if step % 100 in (80, 99):
            r.mark(t + 0.01, PHASE_BEGIN if step % 100 == 80 else PHASE_END, name=name("validation"))
        if step % 10 == 0:
            r.mark(t, GAUGE, filled, name("cache"))
    r.put("note", t_ns=SECOND, text=name("412 marks were lost"))
    return r.close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if os.environ.get("TIDEMARK_SANITIZED") == "1":
        pytest.skip("a browser shows the same page, whichever build wrote it")
    b = browsers.Browser(tmp_path_factory.mktemp("browser"))
    yield b
    b.close()


@pytest.fixture(scope="module")
def page_of(binary, tmp_path_factory):
    """page_of(maker, **how) -> path of the page of that recording."""

    def make(maker, **how):
        folder = tmp_path_factory.mktemp("page")
        maker(folder / "run.tide", **how)
        done = subprocess.run([binary, "report", folder / "run.tide"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return folder / "run.html"

    return make


@pytest.fixture(scope="module")
def plain(page_of):
    return page_of(leaking)


@pytest.fixture
def open_page(browser):
    opened = []

    def load(path, **how):
        opened.append(browsers.Page(browser, path, **how))
        return opened[-1]

    yield load
    for page in opened:
        page.close()


def pools(path):
    """Ten epochs: two workers that grow, 10 MiB more in each epoch, and then two seconds without any."""
    r = Recording(path)
    parent = r.process(100, "python", role="train.py")
    t = 0
    for epoch in range(10):
        r.mark(t, EPOCH, epoch)
        workers = [r.process(1000 + 2 * epoch + w, "python", parent, role="worker of train.py", began=t, ended=t + 8.1) for w in (0, 1)]
        for look in range(40):
            grown = 20 * MIB + (40 + 10 * epoch) * MIB * look // 32
            r.tick(t, {parent: 100 * MIB, **({w: grown for w in workers} if look <= 32 else {})})
            t += 0.25
    return r.close()


# ---------------------------------------------------------------------------------------------- in the browser


def test_the_page_opens_offline_and_says_the_verdict_and_the_culprit_first(open_page, plain, tidemark):
    page = open_page(plain)
    assert page.complaints() == []
    said = tidemark("judge", plain.with_suffix(".tide")).out.splitlines()
    text = page.text()
    assert text.index(said[0].removeprefix("tidemark: ")) < 200, text[:400]
    for line in said[1:]:
        label, words = line.split(None, 1)
        assert words in text, line
    answer = page.text(".answer")
    assert "data.py:31 load_image rises to 74.9 MiB in the first 149 steps and stops: a cache, not a leak" in answer
    assert "train.py:88 train_step" in answer and "/step" in answer
    assert "2 MiB" not in page.text("#culprits .culprit") and "1.0 MiB/step" in page.text("#culprits .culprit")
    assert "bounded: rose and stopped" in page.text("#culprits")
    for section in ("processes", "gpus", "phases", "marks", "peaks", "limits", "notes"):
        assert page.js(f"document.querySelectorAll('#{section} table').length") >= 1, section
    assert "Mike Bostock" in page.js("document.querySelector('footer').textContent")
    assert "Redistribution and use" in page.js("document.querySelector('footer').textContent")


def test_a_drag_zooms_and_the_keyboard_and_buttons_do_too(open_page, plain):
    page = open_page(plain)
    whole = page.js("[+chart.dataset.from, +chart.dataset.to]")
    assert whole == [0, 40000]
    assert page.js("document.querySelector('#reset').disabled")
    area = page.box("#chart .overlay")
    page.drag(area["x"] + area["width"] * 0.25, area["x"] + area["width"] * 0.5, area["y"] + 100)
    page.until("+chart.dataset.to < 30000")
    begin, end = page.js("[+chart.dataset.from, +chart.dataset.to]")
    assert abs(begin - 10000) < 500 and abs(end - 20000) < 500
    assert page.js("getComputedStyle(document.querySelector('#chart .selection')).display") == "none"
    # Three quarters of the epochs are out of sight now, and so is what was drawn of them.
    assert page.js("document.querySelectorAll('#chart .epoch').length") < 4
    page.js("document.querySelector('#chart svg').focus()")
    for key, text, narrower in (("+", "+", True), ("-", "-", False)):
        before = page.js("chart.dataset.to - chart.dataset.from")
        page.key(key, text)
        assert (page.js("chart.dataset.to - chart.dataset.from") < before) == narrower
    before = page.js("+chart.dataset.from")
    page.key("ArrowRight")
    assert page.js("+chart.dataset.from") > before
    page.key("0", "0")
    assert page.js("[+chart.dataset.from, +chart.dataset.to]") == whole
    page.js("document.querySelector('[title=\"zoom in\"]').click()")
    assert page.js("chart.dataset.to - chart.dataset.from") == 20000
    page.js("document.querySelector('#reset').click()")
    assert page.js("[+chart.dataset.from, +chart.dataset.to]") == whole
    zero = "[...document.querySelectorAll('#chart .y text')].some(t => t.textContent === '0')"
    assert page.js(zero)
    page.js("document.querySelector('#fit').click()")
    assert not page.js(zero) and page.js("document.querySelectorAll('#chart .y .tick').length") >= 3
    assert page.complaints() == []


def test_the_timeline_shows_floor_spikes_phases_epochs_limit_and_every_series(open_page, plain):
    page = open_page(plain)
    counts = page.js("Object.fromEntries(['area', 'floor', 'spike', 'phase', 'lane', 'epoch', 'limit'].map(c =>"
                     " [c, [...document.querySelectorAll('#chart .' + c)].filter(e => e.tagName !== 'path' || e.getAttribute('d')).length]))")
    assert counts == {"area": 1, "floor": 1, "spike": 4, "phase": 4, "lane": 4, "epoch": 4, "limit": 1}
    names = page.js("[...document.querySelectorAll('#series option')].map(o => o.textContent)")
    assert names[0].startswith("the process tree") and any("GPU 0" in n for n in names) and any("gauge" in n for n in names)
    for i in range(len(names)):
        page.js(f"(() => {{ const s = document.querySelector('#series'); s.value = {i}; s.dispatchEvent(new Event('change')); }})()")
        assert names[i].split(" \u2013 ")[0] in page.text("#chart .said")
    assert page.complaints() == []


def test_live_bytes_of_a_chosen_moment_growth_and_difference(open_page, plain):
    page = open_page(plain)

    def boxes():
        return page.js("Object.fromEntries([...document.querySelectorAll('.icicle .box')].map(b => [b.getAttribute('aria-label').split(', ')[0],"
                       " b.getAttribute('aria-label').split(', ')[1].replace(/\\u00a0/g, ' ')]))")

    # At the peak of live bytes, which is the end of the last validation.
    assert boxes()["eval.py:31 evaluate"] == "200 MiB"
    slider = "document.querySelector('#moment-at')"
    page.js(f"{slider}.value = 0; {slider}.dispatchEvent(new Event('input'))")
    assert "eval.py:31 evaluate" not in boxes() and "step 0" in page.text("#view .sliders").replace("\u00a0", " ")
    # A click on the timeline chooses the moment: 15 s, where the cache has just been filled.
    area = page.box("#chart .overlay")
    page.click(area["x"] + area["width"] * 15 / 40, area["y"] + 150)
    page.until("document.querySelector('#moment-at').value > 0")
    assert boxes()["data.py:31 load_image"] in ("74.5 MiB", "75.0 MiB")
    page.js("document.querySelector('[data-mode=growth]').click()")
    assert boxes()["train.py:88 train_step"].startswith("+3") and "eval.py:31 evaluate" not in boxes()
    page.js("document.querySelector('[data-mode=diff]').click()")
    for name, value in (("from", 0), ("to", 96)):
        page.js(f"(() => {{ const s = document.querySelector('#moment-{name}'); s.value = {value}; s.dispatchEvent(new Event('input')); }})()")
    assert boxes()["train.py:88 train_step"].startswith("+3") and boxes()["data.py:31 load_image"] == "+75.0 MiB"
    # The other way round, everything shrinks.
    page.js("(() => { const a = document.querySelector('#moment-from'), b = document.querySelector('#moment-to');"
            " a.value = b.value; a.dispatchEvent(new Event('input')); b.value = 0; b.dispatchEvent(new Event('input')); })()")
    assert boxes()["data.py:31 load_image"] == "\u221275.0 MiB"
    assert page.js("document.querySelectorAll('.icicle .shrank').length") > 0
    # A click goes into a box, Escape comes back.
    page.js("[...document.querySelectorAll('.icicle .box')].find(b => b.textContent.startsWith('train.py:88')).click()")
    assert page.text("#view .readout").startswith("train.py:88 train_step")
    assert page.js("document.querySelectorAll('.icicle .above').length") > 0
    page.key("Escape")
    page.until("!document.querySelector('.icicle .above')")
    assert page.complaints() == []


def test_without_javascript_verdict_tables_and_a_chart_are_there(open_page, plain):
    page = open_page(plain, scripts=False)
    page.call("Emulation.setScriptExecutionDisabled", value=False)  # for the questions below; the page's own did not run
    assert page.js("typeof d3") == "undefined"
    text = page.text()
    assert "LEAK in python[10]" in text and "train.py:88 train_step" in text and "412 marks were lost" in text
    chart = page.js("(() => { const r = document.querySelector('#static svg').getBoundingClientRect(); return r.width * r.height; })()")
    assert chart > 100_000
    assert page.js("document.querySelectorAll('#static svg path.floor, #static svg path.area').length") == 2
    assert page.js("document.querySelectorAll('.culprit svg.spark').length") >= 2
    assert not page.js("document.querySelector('#chart').offsetParent")


@pytest.mark.parametrize("how", [{}, {"scripts": False}], ids=["script", "no script"])
def test_a_phone_shows_it_without_scrolling_sideways(open_page, plain, how):
    page = open_page(plain, width=360, height=740, **how)
    page.call("Emulation.setScriptExecutionDisabled", value=False)
    assert page.js("document.documentElement.scrollWidth") <= 360
    wide = page.js("[...document.querySelectorAll('main *')].filter(e => !e.closest('svg') && e.getBoundingClientRect().right > 361)"
                   ".map(e => e.tagName + '.' + e.className)")
    assert wide == []
    assert float(page.js("getComputedStyle(document.querySelector('.evidence dd')).fontSize").removesuffix("px")) >= 14


def luminance(colour):
    return sum(w * int(v) for w, v in zip((0.2126, 0.7152, 0.0722), re.findall(r"\d+", colour)[:3]))


def test_dark_and_light_follow_the_reader(open_page, plain):
    for dark in (False, True):
        page = open_page(plain, dark=dark)
        ink, paper = (luminance(page.js(f"getComputedStyle(document.body).{p}")) for p in ("color", "backgroundColor"))
        assert (ink > paper) == dark and abs(ink - paper) > 150


def test_it_prints_on_white_paper_with_the_static_chart(open_page, plain):
    page = open_page(plain, dark=True)
    page.call("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert luminance(page.js("getComputedStyle(document.body).backgroundColor")) > 250
    assert page.js("document.querySelector('#static').offsetParent !== null && document.querySelector('#chart').offsetParent === null")
    pdf = page.pdf()
    assert pdf.startswith(b"%PDF") and len(pdf) > 20_000


def test_hostile_names_are_shown_and_do_nothing(open_page, page_of):
    turn = iter(range(10**6))
    used = []

    def name(_plain):
        text = HOSTILE[next(turn) % len(HOSTILE)]
        used.append(text)
        return text.replace("\0", "")

    path = page_of(leaking, names=name)
    source = path.read_text(encoding="utf-8")
    assert len(re.findall("<script", source, re.I)) == 4 and len(re.findall("</script", source, re.I)) == 4
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u2028\u2029\x00-\x08\x0b-\x1f]", source)
    page = open_page(path)
    for section in ("live", "growth", "diff"):
        page.js(f"document.querySelector('[data-mode={section}]').click()")
        for event in ("mouseenter", "mouseover", "focus"):
            page.js(f"document.querySelectorAll('.box, .where, td, li').forEach(e => e.dispatchEvent(new MouseEvent('{event}', {{bubbles: true}})))")
    assert page.js("window.ran") is None and page.dialogs() == [] and page.complaints() == []
    assert page.js("document.querySelectorAll('img, iframe, object, embed, link, base, form, a, svg svg').length") == 0
    assert page.js("document.querySelectorAll('script').length") == 4 and page.js("document.querySelectorAll('style').length") == 1
    assert page.js("[...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames()).filter(n => n.startsWith('on'))") == []
    text = page.js("document.body.textContent")
    for shown in ("<script>window.ran = 1</script>", "</script><script>window.ran = 2</script>", "<img src=x onerror='window.ran = 3'>",
                  "right\\u{202e}left", "ctl\\x07\\x1b[31mred"):
        assert shown in text, shown


def test_the_policy_stops_a_script_that_is_not_the_page_s_own(open_page, plain, tmp_path):
    forged = tmp_path / "forged.html"
    forged.write_text(plain.read_text(encoding="utf-8").replace(
        "<main>", "<main><script>window.ran = 1</script><img src='http://127.0.0.1:1/x' onerror='window.ran = 2'>"), encoding="utf-8")
    page = open_page(forged)
    assert page.js("window.ran") is None
    assert len([c for c in page.complaints() if "Content Security Policy" in c]) >= 2
    assert page.js("+chart.dataset.to") == 40000  # its own script ran all the same


def test_a_run_without_call_sites_has_a_page_that_says_how_to_get_them(open_page, page_of):
    page = open_page(page_of(leaking, heap=False))
    assert "tidemark run --heap -- python train.py" in page.text("#culprits")
    assert page.js("document.querySelector('#view') === null")
    assert page.js("document.querySelectorAll('#chart .floor').length") == 1 and page.complaints() == []


# ---------------------------------------------------------------------------------------------- size


def vast(path, sites=10_000, ticks=8_640):
    """A day of a run, a look every 10 s, in which 10,000 call sites are busy, with long names and hardly a stack like another."""
    r = Recording(path)
    r.meta(command="python " + "x" * 4000, started_wall_s=1794700000, interval_ns=10 * SECOND)
    everyone = [r.process(100 + i, f"worker-{i}", parent=0 if i == 0 else 1) for i in range(300)]

    def put(table, rows):
        rows = list(rows)
        r.db.executemany(f"INSERT INTO {table} VALUES({','.join('?' * len(rows[0]))})", rows)

    put("frame", ((i + 1, f"operator<<<std::map<{i}, &'\"{'long' * 60}>>", f"/home/<u>/{'deep/' * 20}file_{i}.cc", i + 1, "", 0, 0, 0)
                  for i in range(sites)))
    put("stack", ((s + 1, d, 1 + (s * 7919 + d * 104729) % sites) for s in range(sites) for d in range(20)))
    put("site", ((s + 1, everyone[s % 3], 1, s + 1) for s in range(sites)))
    for p in everyone[:3]:
        r.heap(p)
    put("tick", ((i + 1, i * 10 * SECOND, 20, 2000 * MIB, (2000 + i * 7919 % 97) * MIB, 0, None, None, None, None) for i in range(ticks)))
    put("sample", ((i + 1, p, (100 + (p * i) % 17) * MIB, 0, 0, 0, 0, 1) for i in range(0, ticks, 4) for p in everyone[:20]))
    put("site_sample", ((i + 1, s + 1, 1 + (s * 1234567 + i * 7654321) % 5_000_000, 3, 10**9, 9)
                        for i in range(0, ticks, 720) for s in range(sites)))
    marks = []
    for i in range(ticks):
        for k in range(4):
            marks += [(PHASE_BEGIN, i * 10 + k, 0, f"phase <{k}> {'y' * 300}"), (PHASE_END, i * 10 + k + 0.5, 0, f"phase <{k}> {'y' * 300}")]
        marks += [(STEP, i * 10, i, ""), (EPOCH, i * 10, i, ""), (GAUGE, i * 10, i, f"gauge-{i % 60}<b>")]
    put("mark", ((n + 1, int(t * SECOND), 1, kind, 1, number, name) for n, (kind, t, number, name) in enumerate(marks)))
    for i in range(500):
        r.put("note", t_ns=i, text="<" * 5000)
        r.put("memory_limit", t_ns=i, name="&" * 3000, bytes=1 << 40)
    return r.close()


@pytest.mark.long
def test_a_page_stays_under_two_megabytes_and_says_what_it_left_out(open_page, page_of):
    path = page_of(vast)
    assert 1_000_000 < path.stat().st_size < MOST_BYTES
    page = open_page(path)
    assert page.complaints() == []
    missing = page.text("#notes")
    for words in ("smallest are shown together", "no clean end", "drawn as one where less than", "epochs are not drawn",
                  "more series were judged", "fewer points than the recording has"):
        assert words in missing, words
    assert "and 180 more" in page.text("#processes")
    shown = int(re.search(r"([\d,]+) call sites have their own place", missing)[1].replace(",", ""))
    assert shown > 150
    assert "other call sites" in page.js("document.querySelector('#sites-data').textContent")


def crowd(path, processes=3000, ticks=40):
    """As many processes with a call site of their own as leave no room for them, and names that grow sixfold when escaped."""
    r = Recording(path)
    r.meta(command="'" * 5000)

    def put(table, rows):
        rows = list(rows)
        r.db.executemany(f"INSERT INTO {table} VALUES({','.join('?' * len(rows[0]))})", rows)

    put("process", ((p, p, 0 if p == 1 else 1, p, "&" * 15, "'" * 900, "'" * 60 + str(p), 0, None, 1 << 30, None) for p in range(1, processes + 1)))
    put("frame", ((f, "'" * 400 + str(f), "/" + "'" * 400 + str(f), f, "", None, 1, 0, "") for f in range(1, 601)))
    put("stack", ((s, d, 1 + (s * 64 + d) % 600) for s in range(1, processes + 1) for d in range(64)))
    put("site", ((s, s, 1, s) for s in range(1, processes + 1)))
    put("heap_state", ((None, p, 0, "'" * 500, 1 << 19, 1, 1, 1, 1, 1, 1) for p in range(1, processes + 1)))
    put("gpu_device", ((d, "'" * 500, "", 1 << 40) for d in range(60)))
    for i in range(ticks):
        tick = r.tick(i, {p: (100 + i) * MIB for p in range(1, 30)})
        put("site_sample", ((tick, s, i * MIB + s * 1234567 * (i + 1) % 5_000_000, i, 1 << 40, i) for s in range(1, processes + 1)))
        put("gpu", ((tick, d, 1, i << 30) for d in range(60)))
        for n in range(60):
            r.mark(i, GAUGE, (i * 7919 * (n + 1)) << 20, f"{n}" + "'" * 250)
            r.mark(i + n / 100, PHASE_BEGIN if n % 2 else PHASE_END, name=f"{n // 2}" + "'" * 250)
        r.put("note", t_ns=i, text="'" * 900)
        r.put("memory_limit", t_ns=i, name="'" * 900, bytes=1 << 40)
        r.mark(i, STEP, i)
    return r.close()


@pytest.mark.slow
def test_not_even_a_crowd_of_hostile_names_makes_a_page_larger(open_page, page_of):
    path = page_of(crowd)
    assert path.stat().st_size < MOST_BYTES
    page = open_page(path)
    assert page.complaints() == []
    assert "has no room in this page" in page.text("#notes") and page.js("document.querySelector('#view') === null")
    assert page.js("document.querySelectorAll('#chart .area').length") == 1


# ---------------------------------------------------------------------------------------------- the file


def test_the_page_goes_beside_the_recording_and_its_name_is_printed(tidemark, tmp_path):
    leaking(tmp_path / "run.tide", steps=60)
    got = tidemark("report", "run.tide")
    assert (got.code, got.err) == (0, "")
    assert re.fullmatch(r"report: run\.html \(\d+ KiB\)\n", got.out)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.html", "run.tide"]
    assert stat.S_IMODE((tmp_path / "run.html").stat().st_mode) == 0o666 & ~current_umask()


def current_umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_page_of_ours_is_replaced_and_nothing_else(tidemark, tmp_path):
    leaking(tmp_path / "run.tide", steps=60)
    assert tidemark("report", "run.tide").code == 0
    before = (tmp_path / "run.html").stat().st_ino
    assert tidemark("report", "run.tide").code == 0
    assert (tmp_path / "run.html").stat().st_ino != before
    (tmp_path / "thesis.html").write_text("<!DOCTYPE html><p>years of work")
    got = tidemark("report", "-o", "thesis.html", "run.tide")
    assert got.code == 2 and got.err == ("tidemark: 'thesis.html' exists and is not a page of tidemark\n"
                                         "hint: choose another name with -o, or overwrite it with --force\n")
    assert "years of work" in (tmp_path / "thesis.html").read_text()
    assert tidemark("report", "--force", "-o", "thesis.html", "run.tide").code == 0
    assert "LEAK" in (tmp_path / "thesis.html").read_text()


def test_the_recording_itself_is_never_replaced(tidemark, tmp_path):
    leaking(tmp_path / "run.tide", steps=60)
    before = (tmp_path / "run.tide").read_bytes()
    got = tidemark("report", "--force", "-o", "run.tide", "run.tide")
    assert got.code == 2 and got.err == "tidemark: 'run.tide' is the recording itself\n"
    assert (tmp_path / "run.tide").read_bytes() == before


def test_a_link_to_a_page_stays_a_link(tidemark, tmp_path):
    leaking(tmp_path / "run.tide", steps=60)
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "latest.html").write_text("")
    (tmp_path / "run.html").symlink_to("pages/latest.html")
    assert tidemark("report", "run.tide").code == 0
    assert (tmp_path / "run.html").is_symlink() and (tmp_path / "pages" / "latest.html").stat().st_size > 100_000


def test_a_dash_is_standard_output_and_a_device_is_written_to(tidemark, tmp_path):
    leaking(tmp_path / "run.tide", steps=60)
    got = tidemark("report", "-o", "-", "run.tide")
    assert got.code == 0 and got.out.startswith("<!DOCTYPE html>") and got.out.endswith("</html>\n")
    got = tidemark("report", "-o", "/dev/null", "run.tide")
    assert (got.code, got.out, got.err) == (0, "", "")
    got = tidemark("report", "-o", "/dev/full", "run.tide")
    assert got.code == 2 and got.err == "tidemark: cannot write '/dev/full': No space left on device\n"


def test_a_disk_that_is_full_leaves_the_old_page_and_a_sentence(tidemark, binary, tmp_path, env):
    leaking(tmp_path / "run.tide", steps=60)
    assert tidemark("report", "run.tide").code == 0
    before = (tmp_path / "run.html").read_bytes()
    got = subprocess.run([binary, "report", "run.tide"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False,
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)))
    assert got.returncode == 2 and got.stdout == ""
    assert re.fullmatch(r"tidemark: cannot write '\S*run\.html': File too large\n", got.stderr)
    assert (tmp_path / "run.html").read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.html", "run.tide"]


@pytest.mark.parametrize("words, said", [
    ([], "expected one recording, got 0"),
    (["a.tide", "b.tide"], "expected one recording, got 2"),
    (["nowhere.tide"], "no such file"),
    (["-o", ".", "run.tide"], "'.' is a directory"),
    (["-o", "no/such/place.html", "run.tide"], "cannot write 'no/such/place.html': No such file or directory"),
    (["text.tide"], "recording"),
])
def test_trouble_gets_a_sentence_and_no_file(tidemark, tmp_path, words, said):
    leaking(tmp_path / "run.tide", steps=60)
    (tmp_path / "text.tide").write_text("not a database\n" * 100)
    before = sorted(tmp_path.iterdir())
    got = tidemark("report", *words)
    assert got.code == 2 and said in got.err and got.err.startswith("tidemark: ") and got.out == ""
    assert sorted(tmp_path.iterdir()) == before


def test_a_recording_that_is_still_written_has_a_page(tidemark, tmp_path):
    leaking(tmp_path / "run.tide", steps=60)
    writer = sqlite3.connect(tmp_path / "run.tide")  # held open, with rows that are not yet in the main file
    writer.execute("PRAGMA journal_mode=WAL")
    writer.execute("DELETE FROM meta WHERE key IN ('ended_ns', 'exit_status')")
    writer.execute("INSERT INTO tick(id, t_ns, processes, rss_bytes, counted_bytes) VALUES (61, ?, 1, 1, ?)", (6 * SECOND, 123 * MIB))
    writer.commit()
    got = tidemark("report", "run.tide")
    assert got.code == 0, got.err
    text = (tmp_path / "run.html").read_text()
    assert "no clean end: still running, or killed" in text and "still being written" in text
    writer.close()


def test_a_source_line_is_the_recordings_and_no_file_is_read(tidemark, tmp_path):
    """Names in a recording are not trusted: a pipe must not be waited for, a secret not be copied into the page."""
    secret = tmp_path / "secret.py"
    secret.write_text("the password is swordfish\n")
    os.mkfifo(tmp_path / "pipe.py")
    r = Recording(tmp_path / "run.tide")
    r.meta(command="x", interval_ns=SECOND)
    p = r.process(1, "python")
    lines = {"secret.py": "", "pipe.py": "", "good.py": "kept.append(loss)  # <b>this one</b>"}
    sites = [r.site(p, [{**frame("f", str(tmp_path / name), 1), "source": line}]) for name, line in lines.items()]
    r.heap(p)
    for i in range(100):
        tick = r.tick(i, {p: (50 + 4 * i) * MIB})
        for site in sites:
            r.hold(tick, site, (i + 1) * MIB, blocks=i + 1)
        r.mark(i, STEP, i)
    r.close()
    got = tidemark("report", "run.tide", timeout=20)
    assert got.code == 0, got.err
    text = (tmp_path / "run.html").read_text()
    assert "swordfish" not in text and "kept.append(loss)  # &lt;b&gt;this one&lt;/b&gt;" in text
    assert tidemark("blame", "run.tide", timeout=20).code == 1


@pytest.mark.slow
def test_a_real_run_under_the_hook_has_its_culprit_on_the_page(open_page, tidemark, root, tmp_path):
    program = tmp_path / "train.py"
    program.write_text(f"import sys, time\nsys.path.insert(0, {str(root / 'python')!r})\nimport tidemark\nkept = []\n"
                       "def train_step():\n    kept.append(bytearray(200_000))  # the leak\n"
                       "for step in range(250):\n    tidemark.step(step)\n    train_step()\n    time.sleep(0.01)\n")
    assert tidemark("run", "--heap", "-i", "50ms", "-o", "run.tide", "--", "/usr/bin/python3", program).code == 0
    assert tidemark("report", "run.tide").code == 0
    page = open_page(tmp_path / "run.html")
    assert "train.py:6 train_step" in page.text(".answer") and "kept.append(bytearray(200_000))" in page.text(".answer")
    assert page.complaints() == []
    # For a person to look at; outside of the tree.
    page.screenshot(tmp_path / "page.png")
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")


def test_workers_that_have_ended_hold_nothing_and_their_rising_peaks_are_a_warning(page_of):
    text = page_of(pools).read_text()
    assert "<strong>RISING PEAKS</strong> in 2 x worker" in text
    assert '<section class="answer peaks">' in text and "<title>peaks: " in text
    data = json.loads(re.search(r'<script type="application/json"[^>]*>(.*?)</script>', text, re.S)[1])
    workers = next(s for s in data["series"] if s["subject"] == "role")
    t, v = (list(itertools.accumulate(workers["level"][key])) for key in "tv")
    for epoch in range(10):
        assert v[bisect.bisect(t, (10 * epoch + 7) * 1000) - 1] > 40 * MIB and v[bisect.bisect(t, (10 * epoch + 9) * 1000) - 1] == 0
