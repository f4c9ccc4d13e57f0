// Draws the plotly figures of the page from the data beside them, and puts before the reader
// what can be chosen in them.

const CALM = { responsive: true, displayModeBar: false };

// Text of plotly, which may hold tags and entities, as plain text.
function plain(text) {
  return new DOMParser().parseFromString(text.replace(/<br\s*\/?>/g, " "), "text/html").body.textContent;
}

function element(tag, parent, attributes = {}, text = "") {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  parent.append(made);
  return made;
}

// Title, caption and signature of the figure leave the picture: on the page they are words, which
// break lines on a phone and are read aloud.
function unpacked(spec) {
  const layout = { ...spec.layout };
  const { above = 0, signature = 0, caption = "", choices = [], frames = "", suggestions = [], narrow } = layout.meta ?? {};
  const heading = layout.title;
  const title = above ? plain(heading.text) : "";
  if (above) delete layout.title;
  const { t, b } = layout.margin ?? {};
  if (above + signature) {
    layout.height -= above + signature;
    layout.margin = { ...layout.margin, t: t - above, b: signature ? b - signature : b };
  }
  const signs = ({ name }) => signature && name === "signature";
  const signed = layout.annotations?.filter(signs) ?? [];
  layout.annotations = layout.annotations?.filter((note) => !signs(note));
  return { data: spec.data, layout, config: spec.config, choices, frames, suggestions, narrow, heading, above, signature, signed, title, caption };
}

// The frames as `panels/playable.py` packs them: the frame of a name, its values in their places.
async function framed(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const { parts, frames } = await new Response(plain).json();
  // a copy: plotly writes into what it draws
  const values = (numbers) =>
    Object.fromEntries(Object.entries(numbers).map(([name, part]) => [name, structuredClone(parts[part])]));
  return (name) => ({
    traces: Object.entries(frames[name].traces).map(([index, numbers]) => [index, values(numbers)]),
    layout: values(frames[name].layout),
  });
}

// A layout as it is in a figure of some width: `narrow` has what differs on a phone.
function fitted(layout, narrow, width) {
  if (!narrow || width >= narrow.below) return layout;
  const plain = (value) => value?.constructor === Object;
  const others = Object.entries(narrow.layout).map(([name, value]) => [
    name,
    plain(value) ? { ...layout[name], ...value } : value,
  ]);
  return { ...layout, ...Object.fromEntries(others) };
}

// Over a surface plotly takes the wheel to zoom and a finger to turn it, and the page stands still:
// both are kept from it, so that they scroll. A mouse turns the surface.
function letScroll(plot) {
  const keep = (event) => event.target.closest(".gl-container") && event.stopPropagation();
  for (const kind of ["wheel", "touchstart", "touchmove", "touchend"])
    plot.addEventListener(kind, keep, { capture: true, passive: true });
}

// A figure on the page: `show` brings it to a stop of every choice.
async function draw(figure) {
  const plot = figure.querySelector(".picture");
  const spec = unpacked(JSON.parse(figure.querySelector("script").textContent));
  const title = figure.querySelector(".title");
  const caption = figure.querySelector("figcaption");
  const about = plot.getAttribute("aria-label");

  function say(heading, sentence) {
    title.textContent = heading;
    caption.textContent = sentence;
    title.hidden = !heading;
    caption.hidden = !sentence;
    plot.setAttribute("aria-label", [heading, sentence].filter(Boolean).join(": ") || about);
  }

  let heading = spec.heading;
  // Saved, a figure has the title, caption and signature again that the page has beside it.
  function save(format) {
    const layout = { ...plot.layout, title: heading, width: plot.clientWidth };
    layout.height = plot.clientHeight + spec.above + spec.signature;
    layout.margin = { ...layout.margin };
    if (spec.above) layout.margin.t += spec.above;
    if (spec.signature) layout.margin.b += spec.signature;
    layout.annotations = [...(layout.annotations ?? []), ...spec.signed];
    const words = title.textContent || document.title;
    const filename = `${plot.id} ${words}`.replace(/[^\p{L}\p{N}.,=-]+/gu, "_").slice(0, 80);
    const picture = { data: plot.data, layout };
    return Plotly.downloadImage(picture, { format, filename, width: layout.width, height: layout.height, scale: format === "png" ? 2 : 1 });
  }

  const buttons = element("p", figure, { class: "save" });
  for (const format of ["png", "svg"]) {
    const button = element("button", buttons, { type: "button" }, `Save as ${format.toUpperCase()}`);
    button.addEventListener("click", () => save(format));
  }

  letScroll(plot);
  const config = { ...CALM, ...spec.config };
  // What is drawn is a copy, for plotly writes into it. A zoom or a turn of the reader's own stays:
  // in space it is put back, as plotly leaves traces of a surface that it is told to change.
  let again = () => {}; // draws what is shown once more
  const put = (data, wide, narrow) => {
    again = () => put(data, wide, narrow);
    const layout = fitted(structuredClone(wide), narrow, plot.clientWidth);
    if (!layout.scene) return Plotly.react(plot, data, { uirevision: "kept", ...layout }, config);
    const camera = plot.layout?.scene?.camera ?? layout.scene.camera;
    return Plotly.newPlot(plot, data, { ...layout, scene: { ...layout.scene, camera } }, config);
  };
  say(spec.title, plain(spec.caption));
  await put(structuredClone(spec.data), spec.layout, spec.narrow);
  if (spec.narrow) {
    plot.dataset.below = spec.narrow.below;
    let width = plot.clientWidth;
    new ResizeObserver(() => {
      const other = plot.clientWidth < spec.narrow.below !== width < spec.narrow.below;
      width = plot.clientWidth;
      if (other) again();
    }).observe(plot);
  }
  const scenes = plot._fullLayout._subplots.gl3d;
  if (scenes.length) {
    const views = Object.fromEntries(scenes.map((name) => [`${name}.camera`, plot._fullLayout[name]._scene.getCamera()]));
    const button = element("button", buttons, { type: "button" }, "Reset view");
    button.addEventListener("click", () => Plotly.relayout(plot, structuredClone(views)));
  }
  // drawn again, a colour bar may move by a pixel, and then stays: before anybody looks
  if (plot.querySelector(".colorbar") && !spec.layout.scene) await Plotly.redraw(plot);
  const at = spec.frames && (await framed(spec.frames));
  return {
    figure,
    choices: spec.choices,
    suggestions: spec.suggestions,
    async show(stops) {
      const frame = at(stops.join(","));
      const { title, meta, ...layout } = frame.layout;
      const data = structuredClone(spec.data);
      for (const [index, values] of frame.traces) Object.assign(data[index], values);
      heading = title;
      say(plain(title.text), plain(meta.caption));
      await put(data, { ...spec.layout, ...layout }, meta.narrow);
    },
  };
}

// What two figures of a cell have both as title or caption is said once, above the first.
function once(figures) {
  for (const part of [".title", "figcaption"]) {
    const [first, ...others] = figures.map(({ figure }) => figure.querySelector(part));
    for (const other of others) other.hidden = !other.textContent || other.textContent === first.textContent;
  }
}

// One control for each choice, above the first of the figures that follow it.
function controls(figures) {
  const { choices, suggestions, figure } = figures[0];
  const stops = choices.map(({ at }) => at);
  figure.dataset.stops = stops.join(",");
  const place = element("div", figure, { class: "choices" });
  figure.prepend(place);
  once(figures);

  let busy = false;
  let wanted = null;
  // What is chosen faster than it can be drawn is left out: only the last is waited for.
  async function follow() {
    if (busy) return;
    busy = true;
    while (wanted !== null) {
      const next = wanted;
      wanted = null;
      for (const each of figures) await each.show(next);
      once(figures);
      figure.dataset.stops = next.join(",");
    }
    busy = false;
  }

  const inputs = choices.map((choice, index) => {
    const label = element("label", place);
    element("span", label, {}, plain(choice.name));
    const control = choice.slides ? scale(label, choice) : list(label, choice);
    control.addEventListener("input", () => {
      stops[index] = Number(control.value);
      wanted = [...stops];
      follow();
    });
    return control;
  });
  if (suggestions.length) {
    const tries = element("div", figure, { class: "suggestions" });
    figure.prepend(tries);
    element("p", tries, {}, "Things to try:");
    for (const { text, stops } of suggestions) {
      element("button", tries, { type: "button" }, plain(text)).addEventListener("click", () =>
        stops.forEach((stop, index) => {
          inputs[index].value = stop;
          inputs[index].dispatchEvent(new Event("input"));
        }),
      );
    }
  }
}

function scale(label, { stops, at }) {
  const control = element("input", label, { type: "range", min: 0, max: stops.length - 1, step: 1 });
  const said = element("output", label);
  const say = () => {
    const words = plain(stops[control.value]);
    said.textContent = words;
    control.setAttribute("aria-valuetext", words);
  };
  control.value = at;
  control.addEventListener("input", say);
  say();
  return control;
}

function list(label, { stops, at }) {
  const control = element("select", label);
  stops.forEach((words, stop) => element("option", control, { value: stop }, plain(words)));
  control.value = at;
  return control;
}

// Pixels between the margins of a sheet of A4, with the margins that browsers set.
const SHEET = 650;

// The figures that are printed: closed, one has no width, and is fitted when it is opened.
const plots = () =>
  [...document.querySelectorAll("figure.plot .picture")].filter((plot) => !plot.closest("details:not([open])"));

// A browser prints a figure as it was drawn for the screen, and cuts off what is wider than the
// sheet. So it is drawn again, before printing, in the width of a sheet; one that needs more for
// its words is made smaller. In space plotly draws too late for that: it is made smaller only.
function fitToSheet(plot) {
  const { width, _subplots } = plot._fullLayout;
  const { below } = plot.dataset;
  const least = width >= below ? Number(below) : parseFloat(plot.style.minWidth);
  const printed = _subplots.gl3d.length ? width : Math.max(SHEET, least);
  plot.style.zoom = Math.min(1, SHEET / printed);
  if (printed !== width) Plotly.relayout(plot, { width: printed });
}

function fitToScreen(plot) {
  plot.style.zoom = "";
  Plotly.relayout(plot, { width: null });
}

// Figures of one cell that have the same choices follow the same controls.
async function start() {
  const groups = new Map();
  for (const figure of document.querySelectorAll("figure.plot")) {
    const drawn = await draw(figure);
    if (!drawn.choices.length) continue;
    const cell = [...document.querySelectorAll(".cell")].indexOf(figure.closest(".cell"));
    const key = JSON.stringify([cell, drawn.choices]);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(drawn);
  }
  for (const figures of groups.values()) controls(figures);
  addEventListener("beforeprint", () => plots().forEach(fitToSheet));
  addEventListener("afterprint", () => plots().forEach(fitToScreen));
  for (const covered of document.querySelectorAll("details.covered")) {
    // drawn while it was covered, a figure knows no width
    covered.addEventListener("toggle", () => {
      for (const plot of covered.querySelectorAll(".picture")) Plotly.Plots.resize(plot);
    });
  }
  document.body.dataset.drawn = "";
}

start();
