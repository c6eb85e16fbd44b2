// The page's chart: picks one figure of every run, draws it over load, and says what is under the
// pointer. All data stands in the page; nothing is fetched.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const QUANTILES = [["p50", "p50"], ["p90", "p90"], ["p99", "p99"], ["p99_9", "p99.9"], ["max", "max"], ["mean", "mean"]];
  const state = {
    workload: data.curves[0]?.workload ?? "", class: "", metric: "sojourn_ns", quantile: "p99", samples: "all", axis: "log",
  };
  const hidden = new Set();
  let plot = null;
  let shown = [];

  // Figures as people read them, as in the table.
  const three = (v) => { const a = Math.abs(v); return a < 9.995 ? v.toFixed(2) : a < 99.95 ? v.toFixed(1) : v.toFixed(0); };
  const scaled = (v, units) => {
    const [scale, unit] = units.find(([s]) => Math.abs(v) < 999.5 * s) ?? units[units.length - 1];
    const n = v / scale;
    return (scale === 1 && Number.isInteger(n) ? String(n) : three(n)) + unit;
  };
  const duration = (v) => scaled(v, [[1, " ns"], [1e3, " µs"], [1e6, " ms"], [1e9, " s"]]);
  const rate = (v) => scaled(v, [[1, " /s"], [1e3, " k/s"], [1e6, " M/s"]]);
  const ratio = (v) => Math.abs(v) < 999.5 ? three(v) : Math.round(v).toLocaleString("en-US");
  const trimmed = (text) => text.replace(/(\.\d*?)0+(?= |$)/, "$1").replace(/\.(?= |$)/, "");
  const show = (v) => state.metric === "sojourn_ns" ? duration(v) : ratio(v);

  const runsOf = (workload) => data.curves.filter((c) => c.workload === workload).flatMap((c) => c.runs.map((r) => data.runs[r]));
  const classesOf = (workload) => [...new Set(runsOf(workload).flatMap((run) => run.classes.map((c) => c.name)))];
  const loads = () => runsOf(state.workload).every((run) => run.load !== null);
  const xOf = (run) => loads() ? run.load : run.offered_rps;
  const ofClass = (from) => state.class === "" ? from : from.classes.find((c) => c.name === state.class);

  function figure(run) {
    const from = ofClass(state.samples === "all" ? run : run.undisturbed);
    const value = from?.[state.metric]?.[state.quantile];
    return Number.isFinite(value) && (value > 0 || state.axis === "linear") ? value : null;
  }

  // One point for each load: the median of the valid runs there, or of the others where none is.
  function points(curve) {
    const at = new Map();
    for (const index of curve.runs) {
      const run = data.runs[index], y = figure(run);
      if (y === null) continue;
      const x = Number(xOf(run).toPrecision(9));
      if (!at.has(x)) at.set(x, []);
      at.get(x).push({ run, y });
    }
    return [...at].sort((a, b) => a[0] - b[0]).map(([x, all]) => {
      const valid = all.some((p) => p.run.valid);
      const used = all.filter((p) => p.run.valid === valid).sort((a, b) => a.y - b.y);
      const y = (used[(used.length - 1) >> 1].y + used[used.length >> 1].y) / 2;
      return { x, y, valid, used, others: all.length - used.length };
    });
  }

  const colour = (curve) => dark.matches ? curve.colour[1] : curve.colour[0];
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Curves differ in shape as well as in colour.
  function trace(shape, x, y, r) {
    const path = new Path2D();
    if (shape === 0) path.arc(x, y, r, 0, 2 * Math.PI);
    else {
      const turn = [0, Math.PI / 4, -Math.PI / 2, 0][shape], sides = shape === 2 ? 3 : 4;
      for (let i = 0; i < sides; i++) {
        const a = turn + (2 * Math.PI * i) / sides;
        path[i ? "lineTo" : "moveTo"](x + 1.25 * r * Math.cos(a), y + 1.25 * r * Math.sin(a));
      }
      path.closePath();
    }
    return path;
  }
  const SHAPES = ['<circle cx="7" cy="7" r="4.5"/>', '<rect x="2.8" y="2.8" width="8.4" height="8.4"/>',
    '<path d="M7 1.6 12 10.4H2z"/>', '<path d="M7 1.2 12.8 7 7 12.8 1.2 7z"/>'];
  function mark(curve, hollow) {
    const holder = document.createElement("span");
    holder.innerHTML = `<svg class="mark" viewBox="0 0 14 14" aria-hidden="true">${SHAPES[curve.shape]}</svg>`;
    const svg = holder.firstChild;
    svg.style.fill = hollow ? "none" : colour(curve);
    svg.style.stroke = colour(curve);
    svg.style.strokeWidth = "2";
    return svg;
  }

  const quantileName = () => QUANTILES.find(([key]) => key === state.quantile)[1];
  const metricName = () => state.metric === "sojourn_ns" ? "sojourn time" : "slowdown";
  function titles() {
    const who = state.class === "" ? "All requests" : `Class “${state.class}”`;
    byId("title").textContent = `${who}: ${quantileName()} ${metricName()} by load`;
    const what = state.metric === "sojourn_ns" ? "From scheduled arrival to completion" : "Sojourn time over the request’s own service time";
    const samples = state.samples === "all" ? "" : " Only requests that no gap of the machine overlapped.";
    byId("what").textContent = `${what}; lower is better.${samples}`;
  }

  // Horizontal lines: what the service alone takes, and objectives that were asked for.
  function lines() {
    const found = data.lines.filter((l) => l.metric === state.metric && (l.class ?? "") === state.class &&
      (l.quantile === null || l.quantile === state.quantile));
    if (data.ideal && state.metric === "slowdown") found.push({ value: 1, name: "ideal: 1" });
    if (data.ideal && state.metric === "sojourn_ns" && state.class !== "") {
      const mean = runsOf(state.workload).map((run) => ofClass(run)?.service_ns_mean).find((v) => v > 0);
      if (mean) found.push({ value: mean, name: `service alone: ${trimmed(duration(mean))}` });
    }
    return found;
  }

  function range(values) {
    const low = Math.min(...values), high = Math.max(...values);
    if (state.axis === "linear") return [0, high * 1.06 || 1];
    const nice = (v, up) => {
      const decade = 10 ** Math.floor(Math.log10(v)), steps = [1, 2, 5, 10].map((s) => s * decade);
      return up ? steps.find((s) => s >= v * 1.04) ?? 20 * decade : steps.reverse().find((s) => s <= v / 1.04) ?? decade / 2;
    };
    const [from, to] = [nice(low, false), nice(high, true)];
    return to / from >= 10 ? [from, to] : [from, from * 10];
  }

  function drawMarks(u, rules) {
    const { ctx, bbox } = u, px = devicePixelRatio;
    ctx.save();
    ctx.font = `${12 * px}px system-ui, "Liberation Sans", sans-serif`;
    ctx.textAlign = "left";
    ctx.textBaseline = "bottom";
    ctx.lineWidth = px;
    for (const rule of rules) {
      const y = u.valToPos(rule.value, "y", true);
      ctx.setLineDash([5 * px, 5 * px]);
      ctx.strokeStyle = css("--faint");
      ctx.beginPath(); ctx.moveTo(bbox.left, y); ctx.lineTo(bbox.left + bbox.width, y); ctx.stroke();
    }
    ctx.setLineDash([]);
    ctx.lineWidth = 2 * px;
    for (const { curve, points } of shown) {
      ctx.strokeStyle = colour(curve);
      for (const p of points) {
        ctx.fillStyle = p.valid ? colour(curve) : css("--paper");
        const path = trace(curve.shape, u.valToPos(p.x, "x", true), u.valToPos(p.y, "y", true), 4.2 * px);
        ctx.fill(path); ctx.stroke(path);
      }
    }
    if (u.root.clientWidth > 640) drawNames(u, px, rules);
    else for (const rule of rules) {
      ctx.fillStyle = css("--faint");
      ctx.fillText(rule.name, bbox.left + 8 * px, u.valToPos(rule.value, "y", true) - 4 * px);
    }
    ctx.restore();
  }

  // The names stand in the margin, each curve's beside its last point, each line's at its height,
  // moved apart where two would overlap.
  function drawNames(u, px, rules) {
    const places = [
      ...shown.map(({ curve, points }) => ({ name: curve.label, colour: colour(curve), weight: 600, y: points[points.length - 1].y })),
      ...rules.map((rule) => ({ name: rule.name, colour: css("--faint"), weight: 400, y: rule.value })),
    ].map((p) => ({ ...p, y: u.valToPos(p.y, "y", true) })).sort((a, b) => a.y - b.y);
    const step = 17 * px;
    places.forEach((p, i) => { if (i) p.y = Math.max(p.y, places[i - 1].y + step); });
    let floor = u.bbox.top + u.bbox.height;
    for (const p of [...places].reverse()) { p.y = Math.min(p.y, floor); floor = p.y - step; }
    u.ctx.textBaseline = "middle";
    for (const p of places) {
      u.ctx.font = `${p.weight} ${13 * px}px system-ui, "Liberation Sans", sans-serif`;
      u.ctx.fillStyle = p.colour;
      u.ctx.fillText(p.name, u.bbox.left + u.bbox.width + 12 * px, p.y);
    }
  }

  function tip(u) {
    const box = byId("tip"), x = u.cursor.idx === null ? undefined : u.data[0][u.cursor.idx];
    if (x === undefined || u.cursor.left < 0) { box.style.display = "none"; return; }
    const rows = shown.map(({ curve, points }) => ({ curve, p: points.find((p) => p.x === x) }))
      .filter((row) => row.p).sort((a, b) => b.p.y - a.p.y);
    const head = document.createElement("strong"), table = document.createElement("table");
    const offered = rows[0]?.p.used[0].run.offered_rps;
    head.textContent = loads() ? `load ${x.toFixed(2)} · ${rate(offered)} offered` : `${rate(x)} offered`;
    for (const { curve, p } of rows) {
      const cells = [0, 1, 2].map(() => document.createElement("td"));
      cells[0].append(mark(curve, !p.valid), ` ${curve.label}`);
      cells[1].textContent = show(p.y);
      cells[2].textContent = remark(p);
      table.insertRow().append(...cells);
    }
    box.replaceChildren(head, table);
    box.style.display = "block";
    const left = u.over.offsetLeft + u.valToPos(x, "x"), room = byId("chart").clientWidth;
    const beside = left + 18 + box.offsetWidth <= room ? left + 18 : Math.max(0, left - 18 - box.offsetWidth);
    box.style.left = `${beside}px`;
    box.style.top = `${Math.max(8, Math.min(u.cursor.top - 20, u.over.clientHeight - box.offsetHeight))}px`;
  }

  function remark(p) {
    const said = [];
    if (p.used.length > 1) said.push(`median of ${p.used.length} (${show(p.used[0].y)} – ${show(p.used[p.used.length - 1].y)})`);
    if (!p.valid) said.push(`not valid: ${p.used[0].run.invalid_reason ?? "no reason given"}`);
    else if (p.others) said.push(`${p.others} more not valid`);
    return said.join("; ");
  }

  function draw() {
    titles();
    plot?.destroy();
    plot = null;
    byId("nothing")?.remove();
    byId("tip").style.display = "none";
    const mine = data.curves.filter((c) => c.workload === state.workload);
    legend(mine);
    shown = mine.filter((c) => !hidden.has(c.label)).map((curve) => ({ curve, points: points(curve) })).filter((s) => s.points.length);
    if (!shown.length) {
      const none = document.createElement("p");
      none.id = "nothing";
      none.textContent = "No run that is shown has this figure.";
      byId("chart").append(none);
      return;
    }
    const xs = [...new Set(shown.flatMap((s) => s.points.map((p) => p.x)))].sort((a, b) => a - b);
    const ys = shown.map((s) => xs.map((x) => { const p = s.points.find((p) => p.x === x); return p?.valid ? p.y : null; }));
    plot = new uPlot(options(xs), [xs, ...ys], byId("chart"));
    describe(xs);
  }

  function options(xs) {
    const rules = lines();
    const width = byId("chart").clientWidth, wide = width > 640;
    const bounds = range([...shown.flatMap((s) => s.points.map((p) => p.y)), ...rules.map((r) => r.value)]);
    const names = Math.max(...shown.map((s) => s.curve.label.length), ...rules.map((r) => r.name.length));
    const font = '12px system-ui, "Liberation Sans", sans-serif';
    const axis = { stroke: css("--faint"), font, labelFont: font, ticks: { show: false }, labelSize: 24 };
    const few = (v) => state.axis === "linear" || [1, 2, 5].some((s) => Math.abs(v / 10 ** Math.floor(Math.log10(v) + 1e-9) - s) < 1e-6);
    const decades = Math.log10(bounds[1] / Math.max(bounds[0], 1e-12));
    const labelled = (v) => state.axis === "linear" || (decades <= 2.5 ? few(v) : Math.abs(Math.log10(v) - Math.round(Math.log10(v))) < 1e-6);
    const pad = (xs[xs.length - 1] - xs[0]) * 0.04 || xs[0] * 0.1 || 0.05;
    return {
      width, height: Math.max(360, Math.min(520, Math.round(width * 0.46))),
      padding: [14, wide ? Math.min(240, 30 + names * 8) : 14, 0, 6],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
      scales: {
        x: { time: false, range: () => [loads() ? Math.max(0, xs[0] - pad) : xs[0] - pad, xs[xs.length - 1] + pad] },
        y: { distr: state.axis === "log" ? 3 : 1, range: () => bounds },
      },
      axes: [
        { ...axis, size: 30, space: 80, grid: { show: false }, label: loads() ? "offered load (share of the workers’ capacity)" : "offered requests per second",
          values: (_, splits) => splits.map((v) => loads() ? String(Number(v.toFixed(3))) : trimmed(rate(v))) },
        { ...axis, size: 66, grid: { stroke: css("--grid"), width: 1, filter: (_, splits) => splits.map((v) => few(v) ? v : null) },
          filter: (_, splits) => splits.map((v) => labelled(v) ? v : null),
          label: `${quantileName()} ${metricName()}${state.axis === "log" ? " (log)" : ""}`,
          values: (_, splits) => splits.map((v) => v === null ? "" : trimmed(show(v))) },
      ],
      series: [{}, ...shown.map(({ curve }) => ({ label: curve.label, stroke: colour(curve), width: 2.25, spanGaps: true, points: { show: false } }))],
      hooks: { draw: [(u) => drawMarks(u, rules)], setCursor: [tip] },
    };
  }

  // What a reader who cannot see the chart is told; the table holds every figure.
  function describe(xs) {
    const x = (v) => loads() ? `load ${v.toFixed(2)}` : rate(v);
    const said = shown.map(({ curve, points }) => {
      const a = points[0], b = points[points.length - 1];
      return `${curve.label}: ${show(a.y)} at ${x(a.x)}` + (a === b ? "" : `, ${show(b.y)} at ${x(b.x)}`);
    });
    byId("chart").setAttribute("aria-label", `${byId("title").textContent}, from ${x(xs[0])} to ${x(xs[xs.length - 1])}. ${said.join("; ")}. Arrow keys step through the loads.`);
  }

  function legend(curves) {
    const buttons = curves.map((curve) => {
      const button = document.createElement("button");
      button.type = "button";
      button.setAttribute("aria-pressed", String(!hidden.has(curve.label)));
      button.title = "Show or hide this curve";
      button.append(mark(curve, false), curve.label);
      button.onclick = () => {
        if (!hidden.delete(curve.label)) hidden.add(curve.label);
        draw();
        [...byId("curves").querySelectorAll("button")][curves.indexOf(curve)].focus();
      };
      return button;
    });
    const key = document.createElement("span");
    key.className = "key";
    key.textContent = "Hollow points, off the line: runs that are not valid.";
    byId("curves").replaceChildren(...buttons, ...(curves.some((c) => c.runs.some((r) => !data.runs[r].valid)) ? [key] : []));
  }

  function choice(name, title, options, off = () => false) {
    const set = document.createElement("fieldset"), head = document.createElement("legend"), row = document.createElement("div");
    head.textContent = title;
    row.className = "choices";
    for (const [value, text] of options) {
      const label = document.createElement("label"), input = document.createElement("input"), span = document.createElement("span");
      Object.assign(input, { type: "radio", name, value, checked: state[name] === value, disabled: off(value) });
      input.onchange = () => { state[name] = value; controls(); draw(); byId("controls").querySelector(`input[name="${name}"]:checked`).focus(); };
      span.textContent = text;
      label.append(input, span);
      row.append(label);
    }
    set.append(head, row);
    return set;
  }

  function controls() {
    const workloads = [...new Set(data.curves.map((c) => c.workload))], classes = classesOf(state.workload);
    if (!classes.includes(state.class)) state.class = "";
    if (state.metric === "slowdown" && state.quantile === "p90") state.quantile = "p99";
    const parts = [];
    if (workloads.length > 1) parts.push(choice("workload", "Workload", workloads.map((w) => [w, w])));
    if (classes.length > 1) parts.push(choice("class", "Class", [["", "all"], ...classes.map((c) => [c, c])]));
    parts.push(choice("metric", "Metric", [["sojourn_ns", "sojourn time"], ["slowdown", "slowdown"]],
      (m) => m === "slowdown" && !runsOf(state.workload).some((run) => run.slowdown?.p99 !== undefined)));
    parts.push(choice("quantile", "Percentile", QUANTILES, (q) => q === "p90" && state.metric === "slowdown"));
    if (data.runs.some((run) => run.noise.gaps > 0 && run.undisturbed.sojourn_ns.p99 !== undefined)) {
      parts.push(choice("samples", "Requests", [["all", "all"], ["undisturbed", "undisturbed"]]));
    }
    parts.push(choice("axis", "Axis", [["log", "log"], ["linear", "linear"]]));
    byId("controls").replaceChildren(...parts);
  }

  // The arrow keys step through the loads, as the pointer does.
  byId("chart").addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") plot?.setCursor({ left: -10, top: -10 });
    if (!plot || !step) return;
    event.preventDefault();
    const last = plot.data[0].length - 1, now = plot.cursor.left >= 0 ? plot.cursor.idx : null;
    const next = now === null ? (step > 0 ? 0 : last) : Math.max(0, Math.min(last, now + step));
    plot.setCursor({ left: plot.valToPos(plot.data[0][next], "x"), top: 40 });
  });
  dark.addEventListener("change", () => { controls(); draw(); });
  let width = 0;
  new ResizeObserver(() => {
    const now = byId("chart").clientWidth;
    if (now !== width) { width = now; draw(); }
  }).observe(byId("chart"));

  const first = classesOf(state.workload);
  if (first.length > 1) state.class = first[0];
  controls();
})();
