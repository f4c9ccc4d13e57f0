// The page of the playground: controls, pictures, experiments; and its life in a notebook.

/** Places of a map along each side. */
const SIZE = 32;

/** Moments of the curves that are kept. */
const KEPT = 300;

/** Every address that holds a state begins so. */
const PREFIX = "#playground=";

/** Make an element; attributes that begin with "on" are listeners.
 * @returns {any} */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** Return the word for what a setting can be. */
const word = (name, value) => FIELDS[name].names?.[value] ?? String(value);

class Playground {
  /** @param {HTMLElement} root
   * @param {unknown} settings
   * @param {(settings: object) => void} changed hears of the settings that are not defaults */
  constructor(root, settings, changed) {
    this.root = root;
    this.changed = changed;
    this.calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.run = new Run(read(settings).state);
    this.history = [measure(this.run)];
    this.experiment = /** @type {Experiment | null} */ (null);
    this.before = this.now = this.history[0]; // an experiment's change
    this.until = Infinity; // where an experiment ends
    /** @type {any[][]} */
    this.guesses = [];
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

  /** Return the element of a selector.
   * @returns {any} */
  find(selector) {
    return this.root.querySelector(selector);
  }

  /** @returns {any[]} */
  all(selector) {
    return [...this.root.querySelectorAll(selector)];
  }

  /** Build the elements, once. */
  build() {
    const { root } = this;
    root.innerHTML = MARKUP;
    root.classList.add("lnlab-playground");
    root.dataset.lmSuppressShortcuts = "true"; // or JupyterLab takes the keys
    if (!document.getElementById("lnlab-playground")) {
      document.head.append(make("style", { id: "lnlab-playground" }, STYLE));
    }
    const columns = this.find(".columns");
    const column = this.find("template").content;
    this.run.state.norms.forEach(() => columns.append(column.cloneNode(true)));
    this.all(".head select").forEach((select, i) => {
      select.setAttribute("aria-label", `Normalizer ${i + 1}`);
      select.append(
        ...FIELDS.norms.choices.map((norm) => make("option", { value: norm }, word("norms", norm))),
      );
      select.onchange = () =>
        this.set({ norms: this.run.state.norms.map((norm, k) => (k === i ? select.value : norm)) });
    });
    for (const experiment of EXPERIMENTS) {
      const onclick = () => this.begin(experiment);
      this.find(".experiments").append(
        make("button", { type: "button", onclick }, experiment.title),
      );
    }
    this.shows = Object.fromEntries(
      this.all("[data-control]").map((element) => [
        element.dataset.control,
        FIELDS[element.dataset.control].choices ? this.choice(element) : this.slider(element),
      ]),
    );
    this.find(".play").onclick = () => this.set({ playing: !this.run.state.playing });
    this.find(".step").onclick = () => {
      this.set({ playing: false });
      this.update();
    };
    this.find(".reset").onclick = () => {
      this.restart({ ...this.run.state, weights: 1, scale: 1, shift: 0, playing: false });
      this.say(
        "Back at update 0, with the first weights and the inputs as they are (× 1, + 0). All other settings stay: learning rate, momentum, weight decay, batch size and mode, data and networks.",
      );
      this.keep();
    };
    this.find(".defaults").onclick = () => {
      this.restart({ ...defaults(), simple: this.run.state.simple, playing: false });
      this.say("All settings are the defaults, at update 0.");
      this.keep();
    };
    this.find(".copy").onclick = () => this.copy();
    this.find("details").ontoggle = () => this.draw();
  }

  /** Make a list to choose from; return what shows a value in it. */
  choice(element) {
    const name = element.dataset.control;
    const { label, choices } = FIELDS[name];
    const select = make("select", {
      onchange: () => this.set({ [name]: JSON.parse(select.value) }),
    });
    for (const value of choices) {
      select.append(make("option", { value: JSON.stringify(value) }, word(name, value)));
    }
    element.append(`${label} `, select);
    return (value) => {
      const most = { layer: this.run.state.depth, shown: this.run.state.seeds }[name] ?? Infinity;
      for (const option of select.options) option.hidden = option.disabled = option.value > most;
      select.value = JSON.stringify(value);
    };
  }

  /** Make a slider, logarithmic where it cannot be 0; return what shows a value in it. */
  slider(element) {
    const name = element.dataset.control;
    const { label, from, to, step = 0.05 } = FIELDS[name];
    const place = (value) => (from > 0 ? Math.log10(value) : value);
    const change = (value) => {
      const next = Math.min(to, Math.max(from, Number(value.toPrecision(6))));
      if (next !== this.run.state[name]) this.set({ [name]: next });
      else this.say(`“${words.textContent}” is already at the limit, ${digits(next)}.`);
    };
    const oninput = () => change(from > 0 ? 10 ** +input.value : +input.value);
    const input = make("input", { type: "range", min: place(from), max: place(to), step, oninput });
    const times = (factor, text) => {
      const onclick = () => change(this.run.state[name] * factor);
      return make("button", { type: "button", onclick }, text);
    };
    const buttons = "times" in element.dataset ? [times(0.1, "÷10"), times(10, "×10")] : [];
    const [words, output] = [make("span"), make("output")];
    element.classList.add("slider");
    element.append(make("div", {}, words, output), make("div", {}, input, ...buttons));
    return (value) => {
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
    for (const [name, show] of Object.entries(this.shows)) show(state[name]);
    this.find(".play").textContent = state.playing ? "Pause" : "Play";
    this.root.classList.toggle("simple", state.simple);
    this.find(".controls").inert = this.until < Infinity; // while an experiment runs
    this.all(".column").forEach((column, i) => {
      column.querySelector(".swatch").style.background = `var(--${state.norms[i]})`;
      const select = column.querySelector("select");
      select.value = state.norms[i];
      for (const option of select.options) {
        option.disabled = option.value !== state.norms[i] && state.norms.includes(option.value);
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
    this.say(
      refused.length
        ? `The settings in the address could not be read (${refused.join(", ")}): all settings are back to the defaults.`
        : "All networks start from the same weights and see the same batches. Change something.",
    );
  }

  /** Begin a new run.
   * @param {State} state
   * @param {Experiment | null} experiment */
  restart(state, experiment = null) {
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
      if (this.history.length > KEPT) this.history = this.history.filter((_, k) => k % 2 === 0);
      this.draw();
      this.drawn = performance.now();
      this.cost = this.drawn - pictures;
    }
    if (ended) this.finish();
    this.wake();
  }

  /** Change one setting, as the reader asks. */
  set(settings) {
    const { run } = this;
    const [name] = Object.keys(settings);
    if (FIELDS[name].live) {
      const before = measure(run);
      run.set(settings);
      const now = measure(run);
      if (!["playing", "speed", "shown", "layer"].includes(name)) {
        this.history.push(now);
        this.say(sentence(run.state, name, before, now));
      }
      this.sync();
    } else {
      const untouched = { weights: 1, playing: !this.calm };
      this.restart({ ...run.state, ...untouched, ...settings });
      this.say("The networks start again, from update 0.");
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
  say(text) {
    this.find(".sentence").textContent = text;
  }

  /** Copy the lines of Python that repeat the run. */
  async copy() {
    const lines = python(this.run);
    try {
      await navigator.clipboard.writeText(lines);
      this.say(
        `Copied: Python that repeats the run up to update ${this.run.updates} with lnlab and torch.`,
      );
    } catch {
      const text = make("textarea", { readonly: "", rows: 8, "aria-label": "Python" });
      text.value = lines;
      this.find(".sentence").replaceChildren(
        `The browser lets nothing be copied; copy the run up to update ${this.run.updates} here: `,
        text,
      );
    }
  }

  /** Draw what was measured last. */
  draw() {
    const { run, history } = this;
    const { state } = run;
    const marks = run.changes.map(([update]) => update);
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
      const words = state.norms.map(
        (norm, i) => `${word("norms", norm)} ${digits(mean(values(last, i)))}`,
      );
      const { textContent } = element.nextElementSibling;
      const text = run.updates ? `Now: ${words.join(", ")}` : "No update yet";
      element.setAttribute("aria-label", `${textContent}. ${text}`);
      drawLines(element, series, marks);
    };
    this.find(".counter").textContent = `Update ${run.updates}`;
    lines(this.find(".loss canvas"), (moment, i) => moment.losses[i]);
    if (!state.simple) {
      for (const canvas of this.all("[data-curve]")) {
        const { curve } = canvas.dataset;
        lines(canvas, (moment, i) => [moment.layers[i][state.layer - 1][curve]]);
      }
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
    const name = word("norms", state.norms[i]);
    const lost = divergence(run.networks[i]);
    const note = column.querySelector(".note");
    note.textContent = lost || `loss ${digits(loss)}`;
    note.classList.toggle("lost", lost !== "");
    const { x, y } = run.measured();
    const outputs = network.forward(x, y.length, statistics(state)).slice();
    const chosen = Array.from(y, (_, k) => {
      const row = outputs.subarray(k * data.classes, (k + 1) * data.classes);
      return row.indexOf(Math.max(...row));
    });
    const layer = network.layers[state.layer - 1];
    if (!state.simple) {
      for (const canvas of column.querySelectorAll("[data-part]")) {
        const values = layer[canvas.dataset.part].subarray(0, y.length * state.units);
        drawHistogram(canvas, values, state.norms[i]);
      }
    }
    const [map, caption] = column.querySelector(".map").children;
    const right = chosen.filter((label, k) => label === y[k]).length;
    const key = data.classes > 2 ? "; row: the digit, column: what it is taken for" : "";
    caption.textContent = `network ${state.shown}: ${right} of ${y.length} right${key}`;
    map.setAttribute("aria-label", `${name}, ${caption.textContent}`);
    if (data.classes > 2) {
      const counts = Array.from({ length: data.classes }, () => Array(data.classes).fill(0));
      y.forEach((label, k) => counts[label][chosen[k]]++);
      return drawConfusion(map, counts);
    }
    const along = Array.from({ length: SIZE }, (_, k) => ((k + 0.5) / SIZE) * 2.2 - 1.1);
    const places = along.flatMap((_, row) => along.flatMap((across) => [across, -along[row], 1]));
    const scaled = Float64Array.from(places, (value) => value * state.scale + state.shift);
    const how = state.mode === "training" ? "last" : "running";
    const z = network.forward(scaled, SIZE * SIZE, how);
    const margins = Float64Array.from({ length: SIZE * SIZE }, (_, k) => z[2 * k + 1] - z[2 * k]);
    drawMap(map, margins, SIZE, { x: data.x.subarray(3 * data.train), y });
  }

  /** Set up an experiment and ask its question.
   * @param {Experiment} experiment */
  begin(experiment) {
    const run = this.approach(experiment);
    this.say(`${experiment.before} updates are made; nothing has been changed yet.`);
    this.guesses = experiment.parts.map(() =>
      run.state.norms.map(() => make("input", { type: "checkbox" })),
    );
    const rows = experiment.parts.map(({ label }, p) => {
      const cells = run.state.norms.map((norm, i) =>
        make("td", {}, make("label", {}, this.guesses[p][i], ` ${word("norms", norm)}`)),
      );
      return make("tr", {}, make("th", { scope: "row" }, label), ...cells);
    });
    const onclick = () => this.perform(experiment);
    const go = make(
      "button",
      { type: "button", class: "go", onclick },
      "This is my prediction: run it",
    );
    const table = make("table", {}, make("tbody", {}, ...rows));
    const question = `${experiment.question} Tick all that apply; none is an answer, too.`;
    this.find(".experiment").replaceChildren(make("p", {}, question), table, go);
    this.draw();
  }

  /** Make the updates before the change of an experiment.
   * @param {Experiment} experiment */
  approach(experiment) {
    this.restart({ ...read(experiment.state).state, playing: false }, experiment);
    const { run } = this;
    while (run.updates < experiment.before) {
      run.step();
      if (run.updates % 4 === 0) this.history.push(measure(run));
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
    const hits = found.flatMap(({ yes, numbers }, p) =>
      this.guesses[p].map((guess, i) => {
        const hit = guess.checked === yes[i];
        const text = `${hit ? "✓" : "✗"} ${yes[i] ? "yes" : "no"}: ${numbers[i]}`;
        guess.disabled = true;
        guess.closest("td").append(make("div", { class: hit ? "right" : "wrong" }, text));
        return hit;
      }),
    );
    const score = `${hits.filter(Boolean).length} of ${hits.length} predicted.`;
    this.find(".experiment").append(make("p", { role: "status" }, `${score} ${experiment.why}`));
  }
}

/** Return the settings that the address holds, others where it holds none, null where they cannot
 * be read. */
function address(settings) {
  const { hash } = location;
  try {
    if (hash.length < 2 || document.getElementById(decodeURIComponent(hash.slice(1)))) {
      return settings;
    }
    if (!hash.startsWith(PREFIX)) return null;
    return JSON.parse(decodeURIComponent(hash.slice(PREFIX.length)));
  } catch {
    return null;
  }
}

/** Show a playground on a page; the first one has its settings in the address. */
function show(root) {
  const settings = JSON.parse(root.dataset.playground);
  if (root !== document.querySelector("[data-playground]")) {
    return new Playground(root, settings, () => {});
  }
  const playground = new Playground(root, address(settings), (now) => {
    history.replaceState(null, "", PREFIX + encodeURIComponent(JSON.stringify(now)));
  });
  addEventListener("hashchange", () => {
    if (location.hash.startsWith(PREFIX)) playground.open(address(settings));
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
