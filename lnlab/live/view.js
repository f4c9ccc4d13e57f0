// The page of the playground: controls, pictures, experiments; and its life in a notebook.

const SIZE = 32; // places of a map along each side
const KEPT = 300; // moments of the curves that are kept, about
const JUMPS = 20; // changes whose moments before and after are kept
const PREFIX = "#playground="; // every address that holds a state begins so

/** What the histograms of a layer show; RMS norm has no bias. */
const CAPTIONS = {
  none: { a: "pre-activations W x", z: "with bias, W x + b" },
  rms: { a: "pre-activations W x, before the norm", z: "after the norm, with gain" },
  others: { a: "pre-activations W x, before the norm", z: "after the norm, with gain and bias" },
};

/** Make an element; attributes that begin with "on" are listeners. */
function make(tag, attributes = {}, ...children) {
  const element = /** @type {any} */ (document.createElement(tag));
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** Make a button. */
function button(text, onclick, attributes = {}) {
  return make("button", { type: "button", onclick, ...attributes }, text);
}

class Playground {
  /** @param {(settings: object) => void} changed hears of the settings that are not defaults */
  constructor(/** @type {HTMLElement} */ root, /** @type {unknown} */ settings, changed) {
    this.root = root;
    this.changed = changed;
    this.calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.run = new Run(read(settings).state);
    this.history = [measure(this.run)];
    this.experiment = /** @type {Experiment | null} */ (null);
    this.before = this.now = this.history[0]; // an experiment's change
    this.until = Infinity; // where an experiment ends
    this.shows = /** @type {(() => void)[]} */ ([]); // each shows a setting in its control
    this.visible = true;
    this.debt = this.drawn = this.cost = this.frame = 0;
    this.build();
    this.open(settings);
    if (this.run.state.playing) this.update();
    performance.mark("lnlab: first update"); // benchmarks/playground.py reads it
    this.leave = new AbortController();
    const { signal } = this.leave;
    document.addEventListener("visibilitychange", () => this.wake(), { signal });
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", () => this.draw(), { signal });
    const seen = new IntersectionObserver((entries) => {
      this.visible = entries[entries.length - 1].isIntersecting; // one call may bring several
      this.wake();
    });
    const theme = new MutationObserver(() => this.draw()); // JupyterLab's
    theme.observe(document.body, { attributeFilter: ["data-jp-theme-light"] });
    const size = new ResizeObserver(() => this.draw());
    for (const watcher of [seen, size]) watcher.observe(root);
    this.watchers = [seen, size, theme];
  }

  close() {
    this.leave.abort();
    for (const watcher of this.watchers) watcher.disconnect();
    cancelAnimationFrame(this.frame);
    this.root.replaceChildren();
  }

  /** @type {(selector: string) => any} */
  find = (selector) => this.root.querySelector(selector);

  /** @type {(selector: string) => any[]} */
  all = (selector) => [...this.root.querySelectorAll(selector)];

  /** Build the elements, once. */
  build() {
    const { root } = this;
    root.innerHTML = MARKUP;
    root.classList.add("lnlab-playground");
    root.dataset.lmSuppressShortcuts = "true"; // or JupyterLab takes the keys
    if (!document.getElementById("lnlab-playground")) {
      document.head.append(make("style", { id: "lnlab-playground" }, STYLE));
    }
    const { content } = this.find("template");
    this.run.state.norms.forEach(() => this.find(".columns").append(content.cloneNode(true)));
    this.all(".head select").forEach((select, i) => {
      select.setAttribute("aria-label", `Normalizer ${i + 1}`);
      for (const norm of FIELDS.norms.choices) {
        select.append(make("option", { value: norm }, word("norms", norm)));
      }
      select.onchange = () => {
        const { norms } = this.run.state;
        this.set({ norms: norms.map((norm, k) => (k === i ? select.value : norm)) });
      };
    });
    for (const experiment of EXPERIMENTS) {
      this.find(".experiments").append(button(experiment.title, () => this.begin(experiment)));
    }
    this.shows = this.all("[data-control]").map((element) => {
      const name = element.dataset.control;
      return FIELDS[name].choices ? this.choice(element, name) : this.slider(element, name);
    });
    this.find(".play").onclick = () => this.set({ playing: !this.run.state.playing });
    this.find(".step").onclick = () => {
      this.set({ playing: false });
      this.update();
    };
    const back = (selector, settings) => {
      const element = this.find(selector);
      element.onclick = () => {
        this.restart({ ...this.run.state, ...settings, playing: false });
        this.say(element.dataset.said);
        this.keep();
      };
    };
    back(".reset", { weights: 1, scale: 1, shift: 0 });
    const { simple, ...others } = defaults();
    back(".defaults", others);
    this.find(".copy").onclick = () => this.copy();
    this.find("details").ontoggle = () => this.draw();
  }

  /** Make a list to choose from; return what shows a value in it. */
  choice(element, name) {
    const { label, choices } = FIELDS[name];
    const onchange = () => this.set({ [name]: JSON.parse(select.value) });
    const select = make("select", { onchange });
    for (const value of choices) {
      select.append(make("option", { value: JSON.stringify(value) }, word(name, value)));
    }
    element.append(`${label} `, select);
    return () => {
      const most = { layer: this.run.state.depth, shown: this.run.state.seeds }[name] ?? Infinity;
      for (const option of select.options) option.hidden = option.disabled = option.value > most;
      select.value = JSON.stringify(this.run.state[name]);
    };
  }

  /** Make a slider, logarithmic where it cannot be 0; return what shows a value in it. */
  slider(element, name) {
    const { label, from, to, step = 0.05 } = FIELDS[name];
    const place = (value) => (from > 0 ? Math.log10(value) : value);
    const change = (value) => {
      const next = Math.min(to, Math.max(from, Number(value.toPrecision(6))));
      if (next !== this.run.state[name]) this.set({ [name]: next });
      else this.say(`“${words.textContent}” is already at the limit, ${digits(next)}.`);
    };
    const oninput = () => change(from > 0 ? 10 ** +input.value : +input.value);
    const input = make("input", { type: "range", min: place(from), max: place(to), step, oninput });
    const times = (factor, text) => button(text, () => change(this.run.state[name] * factor));
    const buttons = "times" in element.dataset ? [times(0.1, "÷10"), times(10, "×10")] : [];
    const [words, output] = [make("span"), make("output")];
    element.classList.add("slider");
    element.append(make("div", {}, words, output), make("div", {}, input, ...buttons));
    return () => {
      const value = this.run.state[name];
      words.textContent = label.replace("LAYER", String(this.run.state.layer));
      input.setAttribute("aria-label", words.textContent);
      input.setAttribute("aria-valuetext", (output.textContent = digits(value)));
      input.value = place(value);
      for (const button of buttons) {
        button.setAttribute("aria-label", `${words.textContent} ${button.textContent}`);
      }
    };
  }

  /** Show the settings in the controls. */
  sync() {
    const { state } = this.run;
    for (const show of this.shows) show();
    this.find(".play").textContent = state.playing ? "Pause" : "Play";
    this.root.classList.toggle("simple", state.simple);
    this.find(".controls").inert = this.until < Infinity; // while an experiment runs
    const key = state.norms.map((norm) => {
      return make("span", { style: `--color: var(--${norm})` }, word("norms", norm));
    });
    this.find(".key").replaceChildren(...key);
    for (const sentence of this.all(".norms span")) {
      sentence.hidden = !state.norms.includes(sentence.dataset.norm ?? "");
    }
    this.all(".column").forEach((column, i) => {
      column.querySelector(".swatch").style.background = `var(--${state.norms[i]})`;
      const select = column.querySelector("select");
      select.value = state.norms[i];
      for (const option of select.options) {
        option.disabled = option.value !== state.norms[i] && state.norms.includes(option.value);
      }
      const captions = CAPTIONS[state.norms[i]] ?? CAPTIONS.others;
      for (const part of ["a", "z"]) {
        const canvas = column.querySelector(`[data-part=${part}]`);
        canvas.setAttribute("aria-label", `Histogram: ${captions[part]}`);
        canvas.nextElementSibling.textContent = captions[part];
      }
    });
    this.all(".experiments button").forEach((button, i) => {
      button.setAttribute("aria-pressed", String(EXPERIMENTS[i] === this.experiment));
    });
    if (!this.experiment) this.find(".experiment").replaceChildren();
    this.draw();
    this.wake();
  }

  /** Begin with settings from elsewhere. */
  open(settings) {
    const { state, refused } = read(settings);
    this.restart({ ...state, playing: state.playing && !this.calm });
    const { said, refusal } = this.find(".sentence").dataset;
    this.say(refused.length ? refusal.replace("REFUSED", refused.join(", ")) : said);
  }

  /** Begin a new run. */
  restart(/** @type {State} */ state, /** @type {Experiment | null} */ experiment = null) {
    this.run = new Run(read(state).state);
    this.experiment = experiment;
    this.history = [measure(this.run)];
    this.until = Infinity;
    this.debt = 0;
    this.sync();
  }

  /** Make one update, and measure. */
  update() {
    this.run.step();
    this.history.push(measure(this.run));
    this.draw();
  }

  /** Go on, if anybody sees it: the one place that asks for a frame. */
  wake() {
    cancelAnimationFrame(this.frame);
    if (!this.run.state.playing || document.hidden || !this.visible) return;
    this.frame = requestAnimationFrame(() => this.advance());
  }

  /** Make the updates of one frame. */
  advance() {
    const { run } = this;
    const start = performance.now();
    const before = run.updates;
    for (this.debt += run.state.speed; this.debt >= 1 && run.updates < this.until; this.debt--) {
      run.step();
      if (performance.now() - start > 50) this.debt = 1; // on a slow machine fewer than asked for
    }
    const ended = run.updates >= this.until;
    // pictures take at most a third of the time
    if (run.updates > before && (ended || start > this.drawn + 2 * this.cost)) {
      const pictures = performance.now();
      this.history.push(measure(run));
      if (this.history.length > KEPT) this.thinOut();
      this.draw();
      this.drawn = performance.now();
      this.cost = this.drawn - pictures;
    }
    if (ended) this.finish();
    this.wake();
  }

  /** Leave out every second moment, but no end of one of the newest jumps. */
  thinOut() {
    const jumps = [...new Set(this.run.changes.map(([update]) => update))].slice(-JUMPS);
    this.history = this.history.filter(({ update }, k, all) => {
      const inside = all[k - 1]?.update === update && all[k + 1]?.update === update;
      return k % 2 === 0 || (jumps.includes(update) && !inside);
    });
  }

  /** Change one setting, as the reader asks. */
  set(settings) {
    const { run } = this;
    const [name] = Object.keys(settings);
    if (FIELDS[name].live) {
      const before = measure(run);
      run.set(settings);
      const now = measure(run);
      // not every update is measured while they run
      if (this.history[this.history.length - 1].update < run.updates) this.history.push(before);
      if (!["playing", "speed", "shown", "layer"].includes(name)) {
        this.history.push(now); // a jump has two ends
        this.say(sentence(run.state, name, before, now));
      }
      this.sync();
    } else {
      this.restart({ ...run.state, weights: 1, ...settings });
      // in the past tense: the sentence stays while they train
      const said = run.state.playing ? " and started again." : ". Press Play to train.";
      this.say(`The networks went back to update 0${said}${constantOutputs(this.run.state)}`);
    }
    if (name !== "playing") this.keep();
  }

  /** Let the address or the kernel have the settings. */
  keep() {
    const entries = Object.entries(this.run.state).filter(([key, value]) => {
      return key !== "playing" && JSON.stringify(value) !== JSON.stringify(FIELDS[key].default);
    });
    this.changed(Object.fromEntries(entries));
  }

  /** Say what just happened. */
  say(...parts) {
    this.find(".sentence").replaceChildren(...parts);
  }

  /** Copy the lines of Python that repeat the run. */
  async copy() {
    const lines = python(this.run);
    const upTo = `run up to update ${this.run.updates}`;
    try {
      await navigator.clipboard.writeText(lines);
      this.say(`Copied: Python that repeats the ${upTo} with lnlab and torch.`);
    } catch {
      const text = make("textarea", { readonly: "", rows: 8, "aria-label": "Python" });
      text.value = lines;
      this.say(`The browser lets nothing be copied; copy the ${upTo} here: `, text);
    }
  }

  /** Draw what was measured last. */
  draw() {
    const { run, history } = this;
    const { state } = run;
    const last = history[history.length - 1];
    const lines = (element, values) => {
      const series = state.norms.map((name, i) => ({
        name,
        points: history.map((moment) => {
          const all = values(moment, i).filter(Number.isFinite);
          const range = { low: Math.min(...all), high: Math.max(...all) };
          return { x: moment.update, mid: mean(all), ...range };
        }),
      }));
      const now = (norm, i) => `${word("norms", norm)} ${digits(mean(values(last, i)))}`;
      const { textContent } = element.nextElementSibling;
      const text = run.updates ? `Now: ${state.norms.map(now).join(", ")}` : "No update yet";
      element.setAttribute("aria-label", `${textContent}. ${text}`);
      draw(element, drawLines, series, run.changes.map(([update]) => update));
    };
    this.find(".counter").textContent = `Update ${run.updates}`;
    lines(this.find(".loss canvas"), (moment, i) => moment.losses[i]);
    for (const canvas of this.all("[data-curve]")) {
      const { curve } = canvas.dataset;
      lines(canvas, (moment, i) => [moment.layers[i][state.layer - 1][curve]]);
    }
    this.all(".column").forEach((column, i) => this.drawColumn(column, i, mean(last.losses[i])));
    if (!this.find("details").open) return;
    const rows = last.layers.flatMap((layers, i) =>
      layers.map(({ gradient, angle, rate }, l) => {
        const name = l < state.depth ? l + 1 : "output";
        const numbers = [gradient, angle, rate].map((value) => digits(value));
        const cells = [word("norms", state.norms[i]), name, ...numbers];
        return make("tr", {}, ...cells.map((text) => make("td", {}, String(text))));
      }),
    );
    this.find("details tbody").replaceChildren(...rows);
  }

  /** Draw what one normalizer does. */
  drawColumn(column, i, loss) {
    const { run } = this;
    const { state, data } = run;
    const network = run.networks[i][state.shown - 1];
    const lost = divergence(run.networks[i]);
    const note = column.querySelector(".note");
    note.textContent = lost || `mean loss ${digits(loss)}`;
    note.classList.toggle("lost", lost !== "");
    const { x, y, how } = run.measured();
    const outputs = network.forward(x, y.length, how);
    const chosen = Array.from(y, (_, k) => {
      const row = outputs.subarray(k * data.classes, (k + 1) * data.classes);
      return row.indexOf(Math.max(...row));
    });
    const layer = network.layers[state.layer - 1];
    for (const canvas of column.querySelectorAll("[data-part]")) {
      const values = layer[canvas.dataset.part].subarray(0, y.length * state.units);
      draw(canvas, drawHistogram, values, state.norms[i]);
    }
    const [map, caption] = column.querySelector(".map").children;
    const right = chosen.filter((label, k) => label === y[k]).length;
    const key = data.classes > 2 ? "; row: the digit, column: what it is taken for" : "";
    caption.textContent = `network ${state.shown}: ${right} of ${y.length} right${key}`;
    map.setAttribute("aria-label", `${word("norms", state.norms[i])}, ${caption.textContent}`);
    if (data.classes > 2) {
      const counts = Array.from({ length: data.classes }, () => Array(data.classes).fill(0));
      y.forEach((label, k) => counts[label][chosen[k]]++);
      return draw(map, drawConfusion, counts);
    }
    const along = Array.from({ length: SIZE }, (_, k) => ((k + 0.5) / SIZE) * 2.2 - 1.1);
    const places = along.flatMap((_, row) => along.flatMap((across) => [across, -along[row], 1]));
    const scaled = Float64Array.from(places, (value) => value * state.scale + state.shift);
    const there = network.forward(scaled, SIZE * SIZE, how === "batch" ? "last" : how);
    draw(map, drawMap, there, SIZE, { x: data.x.subarray(3 * data.train), y });
  }

  /** Set up an experiment and ask its question. */
  begin(/** @type {Experiment} */ experiment) {
    const set = settingsInWords(experiment, this.run.state.norms);
    const run = this.approach(experiment);
    this.keep();
    this.say(`${experiment.before} updates are made. The change follows your prediction.`);
    const rows = experiment.parts.map(({ label }) => {
      const cells = run.state.norms.map((norm) => {
        const guess = make("input", { type: "checkbox" });
        return make("td", {}, make("label", {}, guess, ` ${word("norms", norm)}`));
      });
      return make("tr", {}, make("th", { scope: "row" }, label), ...cells);
    });
    const perform = () => this.perform(experiment);
    const go = button("This is my prediction: run it", perform, { class: "go" });
    const table = make("table", {}, make("tbody", {}, ...rows));
    const question = `${experiment.question} Tick all that apply; none is an answer, too.`;
    const texts = [make("p", {}, question), make("p", { class: "set" }, set)];
    this.find(".experiment").replaceChildren(...texts, table, go);
    this.draw();
  }

  /** Make the updates before the change of an experiment. */
  approach(/** @type {Experiment} */ experiment) {
    this.restart({ ...read(experiment.state).state, playing: false }, experiment);
    const { run } = this;
    while (run.updates < experiment.before) {
      run.step();
      const last = run.updates === experiment.before;
      if (last || run.updates % 4 === 0) this.history.push(measure(run));
    }
    return run;
  }

  /** Run an experiment that was begun: anew, as the reader may have changed something since. */
  perform(experiment) {
    const run = this.approach(experiment);
    this.find(".go").remove();
    this.before = measure(run);
    this.set(experiment.change);
    this.now = measure(run);
    this.until = run.updates + experiment.after;
    run.set({ playing: true, speed: this.calm ? 1000 : experiment.after > 50 ? 4 : 0.2 });
    this.sync();
  }

  /** Show how the experiment ended. */
  finish() {
    this.until = Infinity;
    this.run.set({ playing: false, speed: 1 });
    this.sync();
    const { experiment } = this;
    if (!experiment) return;
    const found = answer(experiment, this.before, this.now, measure(this.run));
    const guesses = this.all(".experiment input");
    const hits = found.map(({ yes, numbers }, k) => {
      const hit = guesses[k].checked === yes;
      const text = `${hit ? "✓" : "✗"} ${yes ? "yes" : "no"}: ${numbers}`;
      guesses[k].disabled = true;
      guesses[k].closest("td").append(make("div", { class: hit ? "right" : "wrong" }, text));
      return hit;
    });
    const score = `${hits.filter(Boolean).length} of ${hits.length} predicted correctly.`;
    this.find(".experiment").append(make("p", { role: "status" }, `${score} ${experiment.why}`));
  }
}

/** Return the settings in the address: others if it has none, null if they cannot be read. */
function address(settings) {
  try {
    const hash = decodeURIComponent(location.hash);
    if (hash.length < 2 || document.getElementById(hash.slice(1))) return settings;
    return hash.startsWith(PREFIX) ? JSON.parse(hash.slice(PREFIX.length)) : null;
  } catch {
    return null;
  }
}

/** Show a playground on a page; the first one has its settings in the address. */
function show(root) {
  const settings = JSON.parse(root.dataset.playground);
  const first = root === document.querySelector("[data-playground]");
  const playground = new Playground(root, first ? address(settings) : settings, (now) => {
    const hash = PREFIX + encodeURIComponent(JSON.stringify(now));
    if (first) history.replaceState(null, "", hash);
  });
  addEventListener("hashchange", () => {
    if (first && location.hash.startsWith(PREFIX)) playground.open(address(settings));
  });
}

/** Show a playground in a notebook. */
function render({ model, el }) {
  const root = el.appendChild(make("div"));
  let told = "";
  const playground = new Playground(root, model.get("state"), (now) => {
    told = JSON.stringify(now);
    model.set("state", now);
    model.save_changes();
  });
  const hear = () => {
    const settings = model.get("state");
    if (JSON.stringify(settings) !== told) playground.open(settings);
  };
  model.on("change:state", hear);
  return () => {
    model.off("change:state", hear);
    playground.close();
  };
}

if (globalThis.document) document.querySelectorAll("[data-playground]").forEach(show);

export default { render };
