// Resources: what jobs and the store use, over the last ten minutes, live.

import { Card, onScheme } from "./chart.js";
import { element, framed, write } from "./element.js";
import { LineChart } from "./line_chart.js";
import { percent, UseTable } from "./resources_table.js";
import { counted, lines, now, peak, Slots, sum, used } from "./series.js";
import { bytes, clock, count, title } from "./words.js";

const number = (value) => String(Math.round(value));
const KEYS = "Left and right: the values at a moment. Escape: none.";

export const open = (place, app) => new Resources(place, app);

class Resources {
  constructor(place, app) {
    Object.assign(this, { place, app });
    this.slots = new Slots();
    this.hidden = new Set(); // ids of lines that are switched off
    this.cursor = null; // a time
    this.build();
    this.redraw = framed(() => this.draw());
    const seen = () => this.redraw();
    document.addEventListener("visibilitychange", seen);
    this.sizes = new ResizeObserver(() => this.redraw());
    this.sizes.observe(this.charts);
    this.ends = [
      app.jobs.onchange(() => this.redraw()),
      onScheme(() => this.redraw()),
      () => this.sizes.disconnect(),
      () => document.removeEventListener("visibilitychange", seen),
    ];
    this.redraw();
  }

  close() {
    for (const end of this.ends) end();
    this.isClosed = true;
  }

  // -- its nodes -------------------------------------------------------------------------------------

  build() {
    this.cpu = new LineChart({ title: "CPU", words: percent, isStacked: true });
    this.memory = new LineChart({ title: "Memory", words: bytes, base: 1024 });
    this.disk = new LineChart({ title: "Disk of the store", words: bytes, base: 1024 });
    this.jobs = new LineChart({ title: "Jobs", words: number, isStep: true, isWhole: true });
    this.all = [this.cpu, this.memory, this.disk, this.jobs];
    this.legend = element("div", { class: "series", role: "group", "aria-label": "Jobs in the charts" });
    this.charts = element(
      "div",
      {
        class: "charts",
        tabindex: "0",
        role: "application",
        "aria-label": "Charts of the last ten minutes",
        "aria-description": KEYS,
        onkeydown: (event) => this.onKey(event),
        onblur: () => this.point(null),
      },
      this.all.map((chart) => chart.node),
    );
    this.empty = element(
      "p",
      { class: "note", hidden: true },
      "No job runs. What jobs use is shown while they run, and for ten minutes after.",
    );
    this.table = new UseTable();
    this.said = element("p", { class: "unseen", "aria-live": "polite" });
    this.place.append(
      element("h2", { class: "unseen" }, "Resources"),
      element("div", { class: "resources-scroll" }, this.legend, this.charts, this.empty, this.table.node),
      this.said,
    );
    this.card = new Card(this.charts);
    for (const chart of this.all) this.listen(chart);
  }

  listen(chart) {
    const { canvas } = chart;
    const place = (event) => ({ x: event.offsetX, y: event.offsetY });
    canvas.addEventListener("pointermove", (event) => this.hover(chart, place(event)));
    canvas.addEventListener("pointerdown", (event) => this.hover(chart, place(event)));
    canvas.addEventListener("pointerleave", () => this.point(null));
    canvas.addEventListener("click", (event) => {
      if (event.pointerType === "touch") return; // a finger has shown the values
      const line = chart.lineAt(event.offsetX, event.offsetY);
      if (this.app.jobs.rows.has(line?.id)) this.app.go({ job: line.id });
    });
  }

  // -- what it shows ---------------------------------------------------------------------------------

  draw() {
    if (this.isClosed || document.hidden) return;
    const { samples, store, rows } = this.app.jobs;
    const found = used(samples, store);
    const span = { from: found.from, to: found.to, cursor: this.cursor };
    const most = this.slots.take(found.jobs);
    const length = found.times.length;
    this.showLegend(lines(found.jobs, most, this.slots, "cpu", length, this.nameOf));
    const linesOf = (what) =>
      lines(found.jobs, most, this.slots, what, length, this.nameOf).filter(
        (line) => !this.hidden.has(line.id),
      );
    this.drawCpu(found, { ...span, times: found.times, lines: linesOf("cpu") });
    this.drawMemory(found, { ...span, times: found.times, lines: linesOf("memory") });
    this.drawDisk(store, span);
    this.drawJobs(counted(rows.values(), found.from, found.to), span);
    this.table.show(found.jobs, rows, this.nameOf);
    this.empty.hidden = found.jobs.length > 0;
    this.table.node.hidden = this.legend.hidden = !found.jobs.length;
  }

  nameOf = (id) => {
    const row = this.app.jobs.rows.get(id);
    return row ? title(row) : id.slice(0, 8);
  };

  // What all jobs that run use together.
  current({ jobs }, what) {
    const isOver = ({ id }) => this.app.jobs.rows.get(id)?.group === "ended";
    return jobs.reduce((total, job) => total + (isOver(job) ? 0 : (now(job[what]) ?? 0)), 0);
  }

  drawCpu(found, scene) {
    const total = sum(
      found.jobs.map((job) => job.cpu),
      found.times.length,
    );
    const cpus = this.app.store?.cpus;
    const all = {
      value: 100 * cpus,
      text: `${count(cpus ?? 0, "processor")} of this machine`,
      colour: "--quiet",
    };
    this.cpu.draw({ ...scene, limits: cpus ? [{ ...all, isLoose: true }] : [] });
    tell(
      this.cpu,
      percent(this.current(found, "cpu")),
      `peak ${percent(peak(total))}; 100% is one processor`,
    );
  }

  drawMemory(found, scene) {
    const total = sum(
      found.jobs.map((job) => job.memory),
      found.times.length,
    );
    const machine = this.app.store?.memory_bytes;
    const limits = scene.lines.flatMap(({ id, name, colour }) => {
      const limit = this.app.jobs.rows.get(id)?.limits?.memory_bytes;
      return limit ? [{ value: limit, text: `limit of ${name}: ${bytes(limit)}`, colour }] : [];
    });
    if (machine)
      limits.push({
        value: machine,
        text: `memory of this machine: ${bytes(machine)}`,
        colour: "--quiet",
        isLoose: true,
      });
    this.memory.draw({ ...scene, limits });
    tell(this.memory, bytes(this.current(found, "memory")), `peak ${bytes(peak(total))}`);
  }

  drawDisk(store, span) {
    const limit = this.app.store?.settings?.max_store_bytes;
    const used = store.bytes.map((value) => value ?? NaN);
    const full =
      store.at.length && store.bytes.at(-1) !== null ? store.bytes.at(-1) + store.free.at(-1) : null;
    const limits = [
      limit && { value: limit, text: `limit: ${bytes(limit)}`, colour: "--bad" },
      full && { value: full, text: "disk full", colour: "--quiet", isLoose: true },
    ].filter(Boolean);
    this.disk.draw({
      ...span,
      times: store.at,
      lines: [{ id: "disk", name: "", colour: "--series-1", values: used }],
      limits,
    });
    const free = store.free.at(-1);
    const note = [
      limit ? `of at most ${bytes(limit)}` : "no limit is set",
      free && `${bytes(free)} free on its disk`,
    ];

    tell(
      this.disk,
      used.length && !Number.isNaN(used.at(-1)) ? bytes(used.at(-1)) : "…",
      note.filter(Boolean).join("; "),
    );
  }

  drawJobs({ times, running, queued }, span) {
    const most = this.app.store?.settings?.max_jobs;
    const both = [
      { id: "running", name: "running", colour: "--run", values: running },
      { id: "queued", name: "queued", colour: "--wait", values: queued },
    ];
    const isQueued = queued.some((value) => value > 0);
    this.jobs.draw({
      ...span,
      times,
      lines: isQueued ? both : both.slice(0, 1),
      limits: most ? [{ value: most, text: `at most ${most}`, colour: "--bad" }] : [],
    });
    tell(
      this.jobs,
      `${running.at(-1)} running`,
      [most && `at most ${most}`, queued.at(-1) && `${queued.at(-1)} queued`].filter(Boolean).join("; "),
    );
  }

  // -- legend and table ------------------------------------------------------------------------------

  showLegend(all) {
    const key = JSON.stringify(all.map((line) => [line.id, line.name, line.colour]));
    if (key === this.legendKey) return;
    this.legendKey = key;
    const focused = document.activeElement?.dataset?.line;
    this.legend.replaceChildren(...all.map((line) => this.toggle(line)));
    if (focused) this.legend.querySelector(`[data-line="${CSS.escape(focused)}"]`)?.focus();
  }

  toggle({ id, name, colour }) {
    const swatch = element("span", { class: "swatch" });
    swatch.style.background = `var(${colour})`;
    const button = element(
      "button",
      {
        type: "button",
        "data-line": id,
        "aria-pressed": String(!this.hidden.has(id)),
        title: "Show or hide",
        onclick: () => {
          if (!this.hidden.delete(id)) this.hidden.add(id);
          button.setAttribute("aria-pressed", !this.hidden.has(id));
          this.redraw();
        },
      },
      swatch,
      element("span", { class: "who" }, name),
    );
    return button;
  }

  // -- the values at a moment ------------------------------------------------------------------------

  hover(chart, { x, y }) {
    if (!chart.scene) return;
    chart.canvas.style.cursor = this.app.jobs.rows.has(chart.lineAt(x, y)?.id) ? "pointer" : "";
    this.point(chart.at(Math.max(chart.left, Math.min(chart.right, x))));
    const values = chart.valuesAt(this.cursor);
    this.card.show(
      chart.canvas.offsetLeft + x,
      chart.canvas.offsetTop + y,
      ...momentCard(this.cursor, values, chart),
    );
  }

  point(time) {
    this.cursor = time;
    if (time === null) this.card.hide();
    this.redraw();
  }

  onKey(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const { times } = this.cpu.scene ?? { times: [] };
    if (event.key === "Escape" && this.cursor !== null) this.point(null);
    else if (step && times.length) this.step(step, times);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  step(by, times) {
    const at =
      this.cursor === null
        ? times.length - 1
        : Math.max(0, Math.min(times.length - 1, this.cpu.placeAt(this.cursor) + by));
    this.point(times[at]);
    const words = this.all
      .map((chart) => [chart, chart.valuesAt(this.cursor)])
      .filter(([, values]) => values.length)
      .map(
        ([chart, values]) =>
          `${chart.title}: ${values.map((each) => `${each.name} ${chart.words(each.value)}`.trim()).join(", ")}`,
      );
    write(this.said, `${clock(this.cursor)}. ${words.join(". ")}`);
    this.card.show(
      this.cpu.x(this.cursor),
      this.cpu.canvas.offsetTop + this.cpu.top,
      ...momentCard(this.cursor, this.cpu.valuesAt(this.cursor), this.cpu),
    );
  }
}

function momentCard(time, values, chart) {
  const total = values.reduce((sum, each) => sum + each.value, 0);
  const line = ({ name, colour, value }) => {
    const swatch = element("span", { class: "swatch" });
    swatch.style.background = `var(${colour})`;
    return element(
      "p",
      { class: "value" },
      swatch,
      element("span", {}, name || chart.title),
      element("b", {}, chart.words(value)),
    );
  };
  return [
    element("p", { class: "quiet" }, clock(time)),
    ...(values.length ? values.map(line) : [element("p", {}, "nothing was measured then")]),
    values.length > 1 &&
      chart.isStacked &&
      element(
        "p",
        { class: "value total" },
        element("span", {}, "together"),
        element("b", {}, chart.words(total)),
      ),
  ].filter(Boolean);
}

function tell(chart, value, note) {
  write(chart.value, value);
  write(chart.note, note);
}
