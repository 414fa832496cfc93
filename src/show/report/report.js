// report.js - what JavaScript adds to the page of `tidemark report`: a timeline that zooms, and live bytes by call
// stack at any moment. Everything else works without it.
//
// The data are two JSON elements (src/show/report/page_data.c); lists of times and bytes are delta-encoded. Text from
// the recording is only ever inserted as text, never as markup.
(function () {
"use strict";
const d3 = window.d3;

// ---------------------------------------------------------------------------------------- data

function read(id) {
  const element = document.getElementById(id);
  return element ? JSON.parse(element.textContent) : null;
}

function sums(differences) {
  let total = 0;
  return differences.map(d => (total += d));
}

function line(packed) {
  return { t: sums(packed.t), v: sums(packed.v) };
}

// Returns how many numbers of a sorted list are at or below x.
const upto = d3.bisectRight;

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function button(holder, text, act) {
  const element = holder.appendChild(make("button", "", text));
  element.type = "button";
  element.addEventListener("click", act);
  return element;
}

// ---------------------------------------------------------------------------------------- words: as the program says them

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

function size(bytes) {
  let unit = 0, value = bytes;
  while (Math.abs(value) >= 1023.5 && unit < 6) { value /= 1024; unit++; }
  const whole = unit === 0 || Math.abs(value) >= 99.95;
  return value.toFixed(whole ? 0 : 1) + "\u00a0" + UNITS[unit];
}

function change(bytes) {
  return (bytes > 0 ? "+" : bytes < 0 ? "\u2212" : "") + size(Math.abs(bytes));
}

function duration(ms) {
  const s = ms / 1000;
  if (s < 0.9995) return Math.round(ms) + "\u00a0ms";
  if (s < 99.5) return s.toFixed(s < 9.95 ? 1 : 0) + "\u00a0s";
  if (s < 3570) return Math.round(s / 60) + "\u00a0m";
  const minutes = Math.round(s / 60);
  return Math.floor(minutes / 60) + "\u00a0h\u00a0" + minutes % 60 + "\u00a0m";
}

// Formats a time on an axis whose ticks are `step` apart.
function clock(ms, step) {
  const s = Math.round(ms / 1000), h = Math.floor(s / 3600), m = Math.floor(s / 60) % 60, two = n => String(n).padStart(2, "0");
  if (step < 1000 || ms < 60000 && step < 60000) return (ms / 1000).toFixed(step < 100 ? 2 : step < 1000 ? 1 : 0) + "\u00a0s";
  if (step < 60000) return (h ? h + ":" + two(m) : m) + ":" + two(s % 60);
  return h ? h + "\u00a0h" + (m ? "\u00a0" + m + "\u00a0m" : "") : m + "\u00a0m";
}

const count = d3.format(",.0f");
const percent = share => (100 * share).toFixed(share < 0.0995 ? 1 : 0) + "\u00a0%";

// ---------------------------------------------------------------------------------------- the axes

// Returns a round distance between the lines of a scale, and a formatter: one unit, as many digits as needed.
function byteTicks(low, high) {
  const most = Math.max(Math.abs(low), Math.abs(high), 1);
  let unit = 0;
  while (unit < 6 && most >= Math.pow(1024, unit + 1)) unit++;
  const scale = Math.pow(1024, unit), step = d3.tickStep(0, Math.max(high - low, 1) / scale, 5);
  const say = d3.format(",." + d3.precisionFixed(step) + "f");
  return { step: step * scale, say: v => v === 0 ? "0" : say(v / scale) + "\u00a0" + UNITS[unit] };
}

const TIME_STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 108e5, 216e5, 432e5, 864e5, 1728e5, 6048e5];

function timeStep(span, most) {
  return TIME_STEPS.find(s => span / s <= most) || d3.tickStep(0, span, most);
}

// ---------------------------------------------------------------------------------------- the timeline

const data = read("timeline-data");
const steps = line(data.steps);
const allSeries = data.series.map(s => Object.assign(s, { level: line(s.level), floor: line(s.floor), spikes: line(s.spikes), live: line(s.live) }));
const spans = [];
for (let i = 0, from = 0; i < data.spans.length; i += 3) {
  from += data.spans[i + 1];
  spans.push({ name: data.spans[i], from, to: from + data.spans[i + 2] });
}
const epochs = [];
for (let i = 0; i < data.epochs.length; i += 2) epochs.push({ t: data.epochs[i], number: data.epochs[i + 1] });

function stepAt(t) {
  const n = upto(steps.t, t);
  if (!steps.t.length || n === 0) return null;
  return steps.v[n - 1];
}

function timeOfStep(step) {
  const n = upto(steps.v, step);
  if (n === 0 || n === steps.v.length) return n ? steps.t[n - 1] : null;
  return steps.t[n - 1] + (step - steps.v[n - 1]) / (steps.v[n] - steps.v[n - 1]) * (steps.t[n] - steps.t[n - 1]);
}

function place(t) {
  const step = stepAt(t);
  return (step === null ? "" : "step\u00a0" + count(step) + ", ") + duration(t);
}

function valueAt(l, t) {
  const n = upto(l.t, t);
  return n ? l.v[n - 1] : null;
}

function floorAt(l, t) {
  const n = upto(l.t, t);
  if (!l.t.length || n === 0) return l.t.length ? l.v[0] : null;
  if (n === l.t.length) return l.v[n - 1];
  return l.v[n - 1] + (t - l.t[n - 1]) / (l.t[n] - l.t[n - 1]) * (l.v[n] - l.v[n - 1]);
}

// The moments that the timeline marks, and the function that it calls for a click: the view of call stacks sets both.
const moments = { shown: [], choose: null };

function makeTimeline(holder) {
  const whole = [0, Math.max(data.end, 1)], closest = Math.max(whole[1] / 1e5, 20), LANE = 8, MARGIN = { top: 24, right: 24, left: 0 };
  let domain = whole.slice(), chosen = allSeries[0], fitted = false, clearing = false, width = 0, x, y;

  const tools = holder.appendChild(make("div", "tools"));
  const pick = make("select");
  pick.id = "series";
  allSeries.forEach((s, i) => {
    const option = pick.appendChild(make("option", "", s.name + (s.verdict === "leak" ? " \u2013 leak" : "")));
    option.value = i;
  });
  const label = tools.appendChild(make("label", "", "Show "));
  label.appendChild(pick);
  tools.appendChild(make("span", "spacer"));
  const tool = (text, title, act) => {
    const b = button(tools, text, act);
    b.title = title;
    b.setAttribute("aria-label", title);
    return b;
  };
  const fit = tool("Fit height", "let the scale begin where memory does, not at zero", () => { fitted = !fitted; draw(); });
  fit.id = "fit";
  tool("\u2190", "earlier", () => pan(-0.25));
  tool("\u2192", "later", () => pan(0.25));
  tool("+", "zoom in", () => zoom(0.5));
  tool("\u2212", "zoom out", () => zoom(2));
  const all = tool("All", "show the whole run", () => show(whole));
  all.id = "reset";
  const said = holder.appendChild(make("p", "said"));

  const svg = d3.select(holder).append("svg").attr("class", "canvas").attr("tabindex", 0).attr("role", "group")
    .attr("aria-label", "Timeline. Arrow keys move, plus and minus zoom, 0 shows all.");
  const clip = svg.append("clipPath").attr("id", "inside").append("rect");
  const axisY = svg.append("g").attr("class", "y"), axisX = svg.append("g").attr("class", "x"), axisTop = svg.append("g").attr("class", "top");
  const body = svg.append("g").attr("clip-path", "url(#inside)");
  const top = svg.append("g").attr("class", "labels");
  const brushed = svg.append("g").attr("class", "brush");
  const cursor = svg.append("g").attr("class", "cursor").attr("visibility", "hidden").attr("pointer-events", "none");
  cursor.append("line");
  cursor.append("circle").attr("r", 3.5);
  const readout = holder.appendChild(make("p", "readout"));
  const legend = holder.appendChild(document.querySelector("#static .legend").cloneNode(true));
  const key = name => { const i = legend.querySelector("." + name); return i ? i.parentNode : null; };
  const treeName = key("k-area").lastChild.textContent;

  const lanes = Math.min(data.phases.length, 4), plotHeight = 300, below = 24;
  const height = MARGIN.top + plotHeight + (lanes ? lanes * LANE + 4 : 0) + below;

  function limits(s) {
    let low = fitted ? Infinity : 0, high = fitted ? -Infinity : 0;
    const first = Math.max(upto(s.level.t, domain[0]) - 1, 0), last = upto(s.level.t, domain[1]);
    for (let i = first; i < last; i++) {
      low = Math.min(low, s.level.v[i]);
      high = Math.max(high, s.level.v[i]);
    }
    return [low, high];
  }

  const beside = data.beside ? allSeries[data.beside] : null;
  const overlay = () => chosen === allSeries[0] && data.beside_level ? beside : null;

  const ground = () => y(Math.min(Math.max(0, y.domain()[0]), y.domain()[1])).toFixed(1);

  // A value holds until the next point, the last one until the series ends.
  function path(s, closed, l = s.level) {
    const first = Math.max(upto(l.t, domain[0]) - 1, 0), last = upto(l.t, domain[1]);
    if (last <= first) return "";
    let d = "M" + x(Math.max(l.t[first], domain[0] - 1)).toFixed(1) + "," + (closed ? ground() + "V" : "") + y(l.v[first]).toFixed(1);
    for (let i = first + 1; i < last; i++) d += "H" + x(l.t[i]).toFixed(1) + "V" + y(l.v[i]).toFixed(1);
    d += "H" + x(Math.min(Math.max(s.end, l.t[last - 1]), domain[1])).toFixed(1);
    return closed ? d + "V" + ground() + "Z" : d;
  }

  function drawAxes() {
    const inner = width - MARGIN.left - MARGIN.right, bottom = MARGIN.top + plotHeight;
    const [low, high] = y.domain(), tick = byteTicks(low, high);
    const ticks = d3.range(12).map(i => (Math.ceil(low / tick.step) + i) * tick.step).filter(v => v <= high);
    axisY.attr("transform", "translate(" + MARGIN.left + ",0)")
      .call(d3.axisLeft(y).tickValues(ticks).tickSize(-inner).tickFormat(tick.say));
    const gap = timeStep(domain[1] - domain[0], Math.max(inner / 90, 2));
    const times = d3.range(40).map(i => (Math.ceil(domain[0] / gap) + i) * gap).filter(t => t <= domain[1]);
    axisX.attr("transform", "translate(0," + (bottom + (lanes ? lanes * LANE + 4 : 0)) + ")")
      .call(d3.axisBottom(x).tickValues(times).tickSize(4).tickFormat(t => clock(t, gap)));
    axisTop.attr("transform", "translate(0," + MARGIN.top + ")").attr("visibility", steps.t.length ? null : "hidden");
    if (!steps.t.length) return;
    const from = Math.max(stepAt(domain[0]) === null ? steps.v[0] : stepAt(domain[0]), steps.v[0]), to = stepAt(domain[1]);
    const marks = d3.ticks(from, to === null ? from : to, Math.max(inner / 110, 2)).filter(Number.isInteger)
      .map(s => ({ s, t: timeOfStep(s) })).filter(m => m.t !== null && m.t >= domain[0] && m.t <= domain[1])
      .reduce((kept, m) => kept.length && x(m.t) - x(kept[kept.length - 1].t) < 52 ? kept : kept.concat(m), []);
    axisTop.call(d3.axisTop(x).tickValues(marks.map(m => m.t)).tickSize(4).tickFormat((t, i) => (i === 0 ? "step " : "") + count(marks[i].s)));
  }

  function drawMarks() {
    const bottom = MARGIN.top + plotHeight, seen = spans.filter(s => s.to >= domain[0] && s.from <= domain[1]);
    const wide = s => Math.max(x(s.to) - x(s.from), 1);
    if (seen.length <= 80)
      seen.forEach(s => body.append("rect").attr("class", "phase hue" + s.name % 6).attr("x", x(s.from)).attr("width", wide(s)).attr("y", MARGIN.top).attr("height", plotHeight));
    seen.forEach(s => body.append("rect").attr("class", "lane hue" + s.name % 6).attr("x", x(s.from)).attr("width", wide(s))
      .attr("y", bottom + 3 + Math.min(s.name, lanes - 1) * LANE).attr("height", LANE - 2).append("title").text("phase " + data.phases[s.name]));
    const near = epochs.filter(e => e.t >= domain[0] && e.t <= domain[1]);
    if (near.length > width / 6) return;
    near.forEach(e => body.append("path").attr("class", "epoch").attr("d", "M" + x(e.t).toFixed(1) + "," + MARGIN.top + "V" + bottom));
    if (near.every((e, i) => i === 0 || x(e.t) - x(near[i - 1].t) >= 58))
      near.forEach(e => top.append("text").attr("x", x(e.t) + 3).attr("y", MARGIN.top + 12).text("epoch " + e.number));
  }

  function drawSpikes() {
    const s = chosen.spikes;
    for (let i = 0; i < s.t.length; i++) {
      if (s.t[i] < domain[0] || s.t[i] > domain[1]) continue;
      const px = x(s.t[i]), py = Math.max(y(s.v[i]) - 4, MARGIN.top + 8);
      body.append("path").attr("class", "spike").attr("d", "M" + px + "," + py + "l-4,-7h8z").append("title").text("spike: " + size(s.v[i]) + " at " + place(s.t[i]));
    }
  }

  function drawTurn(t, text) {
    if (t === null || t < domain[0] || t > domain[1]) return;
    body.append("path").attr("class", "turn").attr("d", "M" + x(t) + "," + MARGIN.top + "V" + (MARGIN.top + plotHeight));
    top.append("text").attr("x", x(t) + 4).attr("y", MARGIN.top + 26).text(text);
  }

  function drawMoments() {
    const bottom = MARGIN.top + plotHeight;
    svg.selectAll(".moment").remove();
    moments.shown.forEach(m => {
      if (m.t < domain[0] || m.t > domain[1]) return;
      const g = svg.insert("g", ".brush").attr("class", "moment");
      g.append("line").attr("x1", x(m.t)).attr("x2", x(m.t)).attr("y1", MARGIN.top).attr("y2", bottom);
      const left = x(m.t) > width - 70;
      g.append("text").attr("x", x(m.t) + (left ? -4 : 4)).attr("text-anchor", left ? "end" : "start").attr("y", bottom - 6).text(m.name);
    });
  }

  function draw() {
    width = Math.max(holder.clientWidth, 240);
    MARGIN.left = fitted ? 92 : width < 500 ? 60 : 70;
    svg.attr("width", width).attr("height", height).attr("viewBox", "0 0 " + width + " " + height);
    x = d3.scaleLinear(domain, [MARGIN.left, width - MARGIN.right]);
    let [low, high] = limits(chosen), limit = null;
    if (fitted) {
      const margin = Math.max((high - low) * 0.08, Math.abs(high) * 1e-6, 1);
      [low, high] = low <= high ? [low - margin, high + margin] : [0, 1];
    } else {
      if (overlay()) high = Math.max(high, limits(overlay())[1]);
      if (chosen.limit !== null && chosen.limit <= 1.6 * high) limit = chosen.limit;
      [low, high] = [low * 1.08, Math.max((limit || 0) * 1.14, high * 1.08, 1)];
    }
    y = d3.scaleLinear([low, high], [MARGIN.top + plotHeight, MARGIN.top]);
    clip.attr("x", MARGIN.left).attr("y", MARGIN.top).attr("width", width - MARGIN.left - MARGIN.right).attr("height", plotHeight + lanes * LANE + 4);
    drawAxes();
    body.selectAll("*").remove();
    top.selectAll("*").remove();
    drawMarks();
    body.append("path").attr("class", "area").attr("d", path(chosen, true));
    if (overlay()) body.append("path").attr("class", "worst").attr("d", path(overlay(), false));
    const live = chosen === allSeries[0] && beside ? beside : chosen;
    body.append("path").attr("class", "live").attr("d", path(live, false, live.live));
    body.append("path").attr("class", "floor").attr("d", d3.line().x(i => x(chosen.floor.t[i])).y(i => y(chosen.floor.v[i]))(d3.range(chosen.floor.t.length)));
    if (limit !== null) {
      body.append("path").attr("class", "limit").attr("d", "M" + MARGIN.left + "," + y(limit) + "H" + width);
      top.append("text").attr("class", "of-limit").attr("x", width - MARGIN.right - 4).attr("y", y(limit) - 5).attr("text-anchor", "end").text("limit " + size(limit));
    }
    drawSpikes();
    drawTurn(chosen.jump, "jump");
    drawTurn(chosen.knee, "levels off");
    drawMoments();
    const brush = d3.brushX().extent([[MARGIN.left, MARGIN.top], [width - MARGIN.right, MARGIN.top + plotHeight]]).touchable(false).on("end", picked);
    brushed.call(brush);
    clearing = true;
    brushed.call(brush.move, null);
    clearing = false;
    said.textContent = chosen.sentence;
    key("k-area").lastChild.textContent = chosen === allSeries[0] ? treeName : chosen.name;
    if (key("k-worst")) key("k-worst").hidden = !overlay();
    if (key("k-live")) key("k-live").hidden = !live.live.t.length;
    if (key("k-limit")) key("k-limit").hidden = limit === null;
    if (key("k-spike")) key("k-spike").hidden = !chosen.spikes.t.length;
    fit.setAttribute("aria-pressed", String(fitted));
    all.disabled = domain[0] === whole[0] && domain[1] === whole[1];
    holder.dataset.from = Math.round(domain[0]);
    holder.dataset.to = Math.round(domain[1]);
  }

  // A drag zooms, a click chooses a moment.
  function picked() {
    const event = d3.event;
    if (clearing || !event.sourceEvent) return;
    if (event.selection) show(event.selection.map(x.invert));
    else if (moments.choose) moments.choose(x.invert(d3.mouse(svg.node())[0]), event.sourceEvent.shiftKey);
  }

  function show(range) {
    const span = Math.min(Math.max(range[1] - range[0], closest), whole[1]);
    const from = Math.min(Math.max((range[0] + range[1] - span) / 2, 0), whole[1] - span);
    domain = [from, from + span];
    draw();
  }

  function pan(share) {
    const by = share * (domain[1] - domain[0]);
    const from = Math.min(Math.max(domain[0] + by, 0), whole[1] - (domain[1] - domain[0]));
    domain = [from, from + domain[1] - domain[0]];
    draw();
  }

  function zoom(factor, at) {
    const middle = at === undefined ? (domain[0] + domain[1]) / 2 : at;
    show([middle - (middle - domain[0]) * factor, middle + (domain[1] - middle) * factor]);
  }

  function point() {
    const t = Math.min(Math.max(x.invert(d3.mouse(svg.node())[0]), domain[0]), domain[1]);
    const v = t <= chosen.end ? valueAt(chosen.level, t) : null, floor = floorAt(chosen.floor, t);
    const running = spans.filter(s => s.from <= t && t < s.to).map(s => data.phases[s.name]);
    readout.textContent = "";
    readout.appendChild(make("b", "", v === null ? "\u2013" : size(v)));
    readout.append(" at " + place(t) + (floor === null ? "" : "; floor " + size(floor)) +
      (running.length ? "; phase " + Array.from(new Set(running)).slice(0, 3).join(", ") : ""));
    cursor.attr("visibility", null).select("line").attr("x1", x(t)).attr("x2", x(t)).attr("y1", MARGIN.top).attr("y2", MARGIN.top + plotHeight);
    cursor.select("circle").attr("cx", x(t)).attr("cy", v === null ? -9 : y(v));
  }

  brushed.on("mousemove.point", point).on("mouseleave.point", () => {
    cursor.attr("visibility", "hidden");
    hint();
  });
  function hint() {
    readout.textContent = "Drag to zoom" + (moments.choose ? ", click to choose a moment." : ".");
  }
  svg.on("keydown", () => {
    const act = { ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2),
      0: () => show(whole), Home: () => show(whole), Escape: () => show(whole) }[d3.event.key];
    if (!act || d3.event.ctrlKey || d3.event.metaKey || d3.event.altKey) return;
    d3.event.preventDefault();
    act();
  });
  svg.node().addEventListener("wheel", event => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, x.invert(d3.clientPoint(svg.node(), event)[0]));
  }, { passive: false });
  pick.addEventListener("change", () => {
    chosen = allSeries[pick.value];
    draw();
  });
  new ResizeObserver(() => {
    if (holder.clientWidth && holder.clientWidth !== width) draw();
  }).observe(holder);
  return { draw, drawMoments: () => x && drawMoments(), hint };
}

// ---------------------------------------------------------------------------------------- live bytes by call stack

const KINDS = ["", "malloc", "mmap", "cuda", "pool", "tensor"];

function readSites() {
  const packed = read("sites-data");
  if (!packed) return null;
  const nodes = [], roots = [];
  for (let i = 0; i < packed.nodes.length; i += 2) {
    const label = packed.labels[packed.nodes[i + 1]], at = i / 2;
    const node = { kind: label[0], text: label.slice(1), children: [], parent: packed.nodes[i] ? nodes[at - packed.nodes[i]] : null, own: 0, net: 0, guilty: false };
    (node.parent ? node.parent.children : roots).push(node);
    nodes.push(node);
  }
  const sites = packed.sites.map(s => ({ node: nodes[s[0]], kind: KINDS[s[1]] || "", merged: s[2], culprit: s[3] === 1, growth: s[4], values: sums(s.slice(5)) }));
  sites.filter(s => s.culprit).forEach(s => { s.node.guilty = true; });
  const root = roots.length === 1 ? roots[0] : { kind: "o", text: "all processes", children: roots, parent: null, own: 0, net: 0 };
  return Object.assign(packed, { moments: sums(packed.moments), root, sites, nodes });
}

// Returns the most telling frame of a stack: the innermost one of the program itself, else of a Python library.
function ownFrame(node) {
  const innermost = kinds => {
    for (let n = node; n; n = n.parent) if (kinds.includes(n.kind)) return n;
    return null;
  };
  return innermost("ps") || innermost("q") || node;
}

function makeView(holder, all, timeline) {
  const ROW = 22, MOST_ROWS = 48, READABLE = 36;
  const device = site => site.kind === "cuda" || site.kind === "tensor", mixed = all.sites.some(device) && !all.sites.every(device);
  let memory = "host", mode = "live", at = all.peak, from = all.first, to = all.last, focus = null, tree = null, total = 0;

  const tools = holder.appendChild(make("div", "tools"));
  const modes = [["live", "Live at a moment"], ["growth", "Growth"], ["diff", "Difference of two moments"]].map(([key, text]) => {
    const b = button(tools, text, () => { mode = key; refresh(); });
    b.dataset.mode = key;
    return b;
  });
  const memories = (mixed ? [["host", "Host memory"], ["device", "GPU memory"]] : []).map(([key, text]) => {
    const b = button(tools, text, () => { memory = key; focus = null; refresh(); });
    b.dataset.memory = key;
    b.className = "memory";
    return b;
  });
  tools.appendChild(make("span", "spacer"));
  const quick = [["first", "Begin"], ["peak", "Peak"], ["last", "End"]].map(([key, text]) => {
    const b = button(tools, text, () => set(mode === "diff" ? "to" : "at", all[key]));
    b.title = { first: "where training begins", peak: "where live bytes are largest", last: "where training ends" }[key];
    return b;
  });

  const sliders = holder.appendChild(make("div", "sliders"));
  function slider(name, text) {
    const label = sliders.appendChild(make("label", "", text));
    const input = sliders.appendChild(make("input"));
    const out = sliders.appendChild(make("output"));
    input.type = "range";
    input.id = label.htmlFor = "moment-" + name;
    input.min = 0;
    input.max = all.moments.length - 1;
    input.addEventListener("input", () => set(name, Number(input.value)));
    return { label, input, out };
  }
  const controls = { at: slider("at", "Moment"), from: slider("from", "From"), to: slider("to", "To") };
  const summary = holder.appendChild(make("p", "said"));
  const icicle = holder.appendChild(make("div", "icicle"));
  const readout = holder.appendChild(make("p", "readout"));
  const keys = holder.appendChild(make("ul", "keys"));
  const largest = holder.appendChild(make("div", "largest"));

  function set(name, value) {
    if (name === "at") at = value;
    else if (name === "from") from = value;
    else to = value;
    refresh();
  }

  const valueOf = site => mode === "live" ? site.values[at] : mode === "growth" ? site.growth : site.values[to] - site.values[from];
  const say = value => mode === "live" ? size(value) : change(value);

  const shown = () => mixed ? all.sites.filter(s => device(s) === (memory === "device")) : all.sites;

  function compute() {
    all.nodes.forEach(n => { n.own = n.net = 0; });
    all.root.own = all.root.net = 0;
    shown().forEach(s => {
      const v = valueOf(s);
      s.node.own += Math.abs(v);
      s.node.net += v;
    });
    tree = d3.hierarchy(all.root, n => n.children.length ? n.children : null).sum(n => n.own);
    tree.eachAfter(n => { n.net = n.data.net + d3.sum(n.children || [], c => c.net); });
    tree.sort((a, b) => b.value - a.value);
    d3.partition()(tree);
    total = tree.value;
    const again = focus && tree.descendants().find(n => n.data === focus && n.value > 0);
    focus = again ? focus : all.root;
  }

  function zoomTo(node) {
    focus = node.data;
    drawIcicle(true);
  }

  function tell(node) {
    readout.textContent = "";
    readout.appendChild(make("b", "", node.data.text));
    const moved = mode === "live" ? "" : " net, " + size(node.value) + " moved";
    readout.append("  " + say(mode === "live" ? node.value : node.net) + moved + (total > 0 ? ", " + percent(node.value / total) + (mode === "live" ? " of live bytes" : " of all change") : ""));
  }

  function move(node, key) {
    const siblings = node.parent ? node.parent.children.filter(n => n.value > 0) : [node], i = siblings.indexOf(node);
    if (key === "ArrowUp") return node.parent;
    if (key === "ArrowDown") return (node.children || []).find(n => n.value > 0);
    if (key === "ArrowLeft") return siblings[i - 1];
    return siblings[i + 1];
  }

  function box(node, left, width, row, above) {
    const b = make("button", "box " + node.data.kind), text = node.data.text;
    b.type = "button";
    b.tabIndex = -1;
    b.style.left = 100 * left + "%";
    b.style.width = 100 * width + "%";
    b.style.top = row * ROW + "px";
    const px = width * icicle.clientWidth;
    if (px < 14) b.classList.add("thin");
    else b.textContent = text + "  " + say(mode === "live" ? node.value : node.net);
    if (above) b.classList.add("above");
    if (node.data.guilty) b.classList.add("guilty");
    if (mode !== "live" && node.data.kind !== "o") {
      b.classList.add(node.net >= 0 ? "grew" : "shrank");
      b.style.setProperty("--share", (0.12 + 0.3 * Math.abs(node.net) / Math.max(node.value, 1)).toFixed(2));
    }
    b.setAttribute("aria-label", text + ", " + say(mode === "live" ? node.value : node.net));
    b.title = text + "\n" + say(mode === "live" ? node.value : node.net);
    b.addEventListener("click", () => zoomTo(node));
    b.addEventListener("mouseenter", () => tell(node));
    b.addEventListener("focus", () => tell(node));
    b.addEventListener("keydown", event => {
      if (event.key === "Escape") { event.preventDefault(); focus = all.root; drawIcicle(true); return; }
      if (!event.key.startsWith("Arrow")) return;
      event.preventDefault();
      const next = move(node, event.key), target = next && Array.from(icicle.children).find(c => c.node === next);
      if (target) target.focus();
    });
    b.node = node;
    return b;
  }

  function drawIcicle(keepFocus) {
    const centre = tree.descendants().find(n => n.data === focus) || tree;
    const path = centre.ancestors().reverse(), span = centre.x1 - centre.x0, list = [];
    const share = n => span > 0 ? (n.x1 - n.x0) / span : 0;
    // Draws only as deep as boxes are readable: narrow deep stacks appear once they are zoomed into.
    let deepest = path.length;
    centre.each(n => { if (share(n) * icicle.clientWidth >= READABLE) deepest = Math.max(deepest, n.depth + 1); });
    deepest = Math.min(deepest, path.length + MOST_ROWS);
    path.slice(0, -1).forEach((n, row) => list.push(box(n, 0, 1, row, true)));
    centre.each(n => {
      if (share(n) >= 0.0015 && n.depth < deepest) list.push(box(n, (n.x0 - centre.x0) / span, share(n), n.depth, false));
    });
    icicle.replaceChildren(...list);
    icicle.style.height = deepest * ROW + "px";
    const home = list[path.length - 1];
    if (home) home.tabIndex = 0;
    if (home && keepFocus) home.focus({ preventScroll: true });
    tell(centre);
  }

  function drawKeys() {
    const list = mode === "live"
      ? [["p", "Python"], ["q", "Python library"], ["s", "native"], ["n", "native library"], ["guilty", "culprit"]]
      : [["grew", "grew"], ["shrank", "shrank"], ["guilty", "culprit"]];
    keys.replaceChildren(...list.map(([name, text]) => {
      const item = make("li");
      item.appendChild(make("i", name));
      item.append(text);
      return item;
    }));
  }

  function drawLargest() {
    // Sums by line of the program, because a line may allocate through many stacks.
    const places = new Map();
    shown().forEach(s => {
      const where = ownFrame(s.node).text, key = s.kind + " " + where, row = places.get(key) || { where, by: s.kind, v: 0, sites: 0 };
      const v = valueOf(s);
      places.set(key, Object.assign(row, { v: row.v + v, sites: row.sites + (v === 0 ? 0 : s.merged) }));
    });
    const rows = Array.from(places.values()).filter(r => r.v !== 0).sort((a, b) => Math.abs(b.v) - Math.abs(a.v)).slice(0, 8);
    const table = make("table", "sites"), head = table.appendChild(make("thead")).appendChild(make("tr")), body = table.appendChild(make("tbody"));
    const titles = [mode === "live" ? "Bytes" : "Change", "Share", "Where", "By"];
    titles.forEach((t, i) => head.appendChild(make("th", i < 2 ? "n" : "", t)));
    rows.forEach(r => {
      const tr = body.appendChild(make("tr"));
      const cells = [say(r.v), total > 0 ? percent(Math.abs(r.v) / total) : "", r.where + (r.sites > 1 ? " (" + count(r.sites) + " call stacks)" : ""), r.by];
      cells.forEach((text, i) => {
        const td = tr.appendChild(make("td", i < 2 ? "n" : i === 2 ? "wide where" : "", text));
        td.dataset.label = titles[i];
      });
    });
    largest.replaceChildren(make("h3", "", mode === "live" ? "Largest at this moment" : "Largest change"), rows.length ? table : make("p", "", "Nothing."));
  }

  function refresh() {
    modes.forEach(b => b.setAttribute("aria-pressed", String(b.dataset.mode === mode)));
    memories.forEach(b => b.setAttribute("aria-pressed", String(b.dataset.memory === memory)));
    quick.forEach(b => { b.hidden = mode === "growth"; });
    Object.keys(controls).forEach(name => {
      const c = controls[name], value = { at, from, to }[name], hidden = (name === "at") !== (mode === "live") || mode === "growth";
      c.input.value = value;
      c.out.textContent = place(all.moments[value]);
      c.input.setAttribute("aria-valuetext", place(all.moments[value]));
      c.label.hidden = c.input.hidden = c.out.hidden = hidden;
    });
    compute();
    summary.textContent = mode === "live" ? size(total) + " live at " + place(all.moments[at]) + "."
      : mode === "growth" ? change(tree.net) + " net: how much the lowest level of each site rose over the training."
      : change(tree.net) + " net from " + place(all.moments[from]) + " to " + place(all.moments[to]) + ".";
    drawIcicle(false);
    drawKeys();
    drawLargest();
    moments.shown = mode === "live" ? [{ t: all.moments[at], name: "moment" }]
      : mode === "diff" ? [{ t: all.moments[from], name: "from" }, { t: all.moments[to], name: "to" }] : [];
    timeline.drawMoments();
    holder.dataset.mode = mode;
  }

  moments.choose = (t, second) => {
    const i = upto(all.moments, t), nearest = i > 0 && (i === all.moments.length || t - all.moments[i - 1] <= all.moments[i] - t) ? i - 1 : Math.min(i, all.moments.length - 1);
    if (mode === "growth") mode = "live";
    set(mode === "live" ? "at" : second ? "from" : "to", nearest);
  };
  let width = 0;
  new ResizeObserver(() => {
    if (icicle.clientWidth && icicle.clientWidth !== width) { width = icicle.clientWidth; drawIcicle(false); }
  }).observe(holder);
  refresh();
}

// ---------------------------------------------------------------------------------------- begin

const chart = document.getElementById("chart"), view = document.getElementById("view");
chart.hidden = false;
const timeline = makeTimeline(chart);
const sites = readSites();
if (sites && view && sites.moments.length && sites.sites.length) {
  view.hidden = false;
  makeView(view, sites, timeline);
}
timeline.draw();
timeline.hint();
document.getElementById("static").hidden = true;
}());
