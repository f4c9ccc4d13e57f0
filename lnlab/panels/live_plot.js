// A plotly figure that is patched in place, and drawn anew where it has other traces.

// One plotly.js per page: the script arrives, compressed, in the state of one model per
// kernel (live_plot.py), so no request has to wait for a busy kernel.
async function evaluate(packed) {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const source = await new Response(stream).text();
  const module = { exports: {} };
  // As CommonJS: leaves no global, and cannot meet a page's own AMD loader.
  new Function("module", "exports", "define", source)(module, module.exports, undefined);
  return module.exports;
}

async function sharedPlotly(model) {
  const id = model.get("script").replace("IPY_MODEL_", "");
  const script = await model.widget_manager.get_model(id);
  const version = script.get("version");
  const page = (globalThis[Symbol.for("lnlab.plotly")] ??= {});
  page[version] ??= evaluate(script.get("packed"));
  return page[version];
}

const ARRAYS = { float32: Float32Array, float64: Float64Array };

// A patch holds {"buffer": index, "dtype", "shape"} where Python had an array.
function decode(value, buffers) {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map((item) => decode(item, buffers));
  if (value.buffer === undefined) {
    return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, decode(v, buffers)]));
  }
  const view = buffers[value.buffer];
  const bytes = view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength);
  const flat = new ARRAYS[value.dtype](bytes);
  if (value.shape.length < 2) return flat;
  const width = value.shape[1];
  return Array.from({ length: value.shape[0] }, (_, row) =>
    flat.subarray(row * width, (row + 1) * width),
  );
}

// Where only points and texts of scatter traces move, plotly's own animation step draws just
// those traces: 2.5 times as fast as any way that goes through the whole figure. It cannot draw
// maps, and empties a subplot that has one: their figures are drawn whole.
const MOVES = new Set(["x", "y", "text"]);
const AT_ONCE = { mode: "immediate", transition: { duration: 0 }, frame: { duration: 0, redraw: false } };

// An animation step empties every subplot of which it is given no trace.
function oneOfEachSubplot(plot, traces) {
  const subplot = (index) => `${plot.data[index].xaxis ?? "x"} ${plot.data[index].yaxis ?? "y"}`;
  const given = new Set([...traces.keys()].map(subplot));
  const all = new Map(traces);
  plot.data.forEach(({ visible }, index) => {
    if (visible === false || given.has(subplot(index))) return;
    given.add(subplot(index));
    all.set(index, {});
  });
  return all;
}

// A layout as it is in a plot of some width: its `meta.narrow` has what differs on a phone.
function fitted(layout, width) {
  const { narrow } = layout.meta ?? {};
  if (!narrow || width >= narrow.below) return layout;
  const plain = (value) => value?.constructor === Object;
  const others = Object.entries(narrow.layout).map(([name, value]) => [
    name,
    plain(value) ? { ...layout[name], ...value } : value,
  ]);
  return { ...layout, ...Object.fromEntries(others) };
}

// `plot.wide` is the layout as it is in a wide window. Of what a patch leaves alone only `fit`,
// after the window has become narrow or wide, changes the place: a reader's zoom stays.
async function draw(Plotly, plot, { whole, traces, layout, fit }) {
  const light =
    !whole &&
    !fit &&
    Object.keys(layout).length === 0 &&
    plot.data.every(({ type, visible }) => type === "scatter" || visible === false) &&
    [...traces.values()].every((patch) => Object.keys(patch).every((key) => MOVES.has(key)));
  if (light) {
    const all = oneOfEachSubplot(plot, traces);
    const moved = { data: [...all.values()], traces: [...all.keys()] };
    // Drawn before this task ends; what is waited for would be the next frame. A step that
    // the next one overtakes is rejected without a reason.
    Plotly.animate(plot, moved, AT_ONCE).catch((reason) => {
      if (reason) throw reason;
    });
  } else {
    const { data } = whole ?? plot;
    for (const [index, patch] of traces) Object.assign(data[index], patch);
    plot.wide = { ...(whole?.layout ?? plot.wide), ...layout };
    const width = plot.clientWidth;
    if (whole) return Plotly.react(plot, data, fitted(structuredClone(plot.wide), width));
    Object.assign(plot.layout, layout);
    const sized = fitted(structuredClone(fit ? plot.wide : plot.layout), width);
    for (const name of Object.keys(plot.wide.meta?.narrow?.layout ?? {}))
      plot.layout[name] = sized[name];
    await Plotly.redraw(plot);
  }
}

// A single step is drawn as soon as it comes. Of many, one is drawn a frame, just before it
// is painted: meanwhile the kernel is asked for the next, and what arrives is merged, so
// that nothing can queue.
const SINGLE = 150; // milliseconds

function painter(Plotly, plot) {
  let waiting = null;
  let frame = 0;
  let busy = false;
  let last = 0;

  function schedule() {
    if (waiting === null || frame || busy) return;
    const single = performance.now() - last > SINGLE;
    last = performance.now();
    if (single) next();
    else frame = requestAnimationFrame(next);
  }

  async function next() {
    const patch = waiting;
    waiting = null;
    frame = 0;
    busy = true;
    try {
      await draw(Plotly, plot, patch);
      plot.dataset.frames = Number(plot.dataset.frames) + 1;
    } finally {
      busy = false;
      schedule();
    }
  }

  return {
    whole(figure) {
      waiting = { whole: structuredClone(figure), traces: new Map(), layout: {} };
      schedule();
    },
    paint(content, buffers) {
      waiting ??= { traces: new Map(), layout: {} };
      for (const [index, patch] of content.traces) {
        waiting.traces.set(index, { ...waiting.traces.get(index), ...decode(patch, buffers) });
      }
      Object.assign(waiting.layout, decode(content.layout, buffers));
      schedule();
    },
    fit() {
      waiting ??= { traces: new Map(), layout: {} };
      waiting.fit = true;
      schedule();
    },
    close() {
      cancelAnimationFrame(frame);
      waiting = null;
    },
  };
}

// Over a surface plotly takes the wheel to zoom and a finger to turn it, and the notebook stands
// still: both are kept from it, so that they scroll. A mouse turns the surface.
function letScroll(plot) {
  const keep = (event) => event.target.closest(".gl-container") && event.stopPropagation();
  for (const kind of ["wheel", "touchstart", "touchmove", "touchend"])
    plot.addEventListener(kind, keep, { capture: true, passive: true });
}

async function render({ model, el }) {
  const plot = document.createElement("div");
  plot.className = "lnlab-plot";
  plot.setAttribute("role", "img");
  const label = () => plot.setAttribute("aria-label", model.get("label"));
  label();
  plot.style.minWidth = `${model.get("least_width")}px`;
  el.classList.add("lnlab-plot-frame");
  el.append(plot);

  letScroll(plot);

  const Plotly = await sharedPlotly(model);
  const figure = structuredClone(model.get("figure"));
  plot.classList.toggle("lnlab-light", Boolean(figure.layout.meta?.light));
  plot.wide = structuredClone(figure.layout);
  await Plotly.newPlot(plot, figure.data, fitted(figure.layout, plot.clientWidth), {
    displaylogo: false,
    displayModeBar: "hover",
    modeBarButtonsToRemove: ["lasso2d", "select2d"],
  });

  plot.dataset.frames = 0;
  const frame = painter(Plotly, plot);
  const message = (content, buffers) => {
    if (content.kind === "patch") frame.paint(content, buffers);
    const camera = model.get("figure").layout.scene?.camera;
    if (content.kind === "reset" && camera)
      Plotly.relayout(plot, { "scene.camera": structuredClone(camera) });
  };
  model.on("msg:custom", message);
  const whole = () => frame.whole(model.get("figure"));
  model.on("change:figure", whole);
  model.on("change:label", label);
  model.send({ kind: "ready" });

  let width = el.clientWidth;
  const sizes = new ResizeObserver(() => {
    if (el.clientWidth === 0 || el.clientWidth === width) return;
    const { below = 0 } = plot.wide.meta?.narrow ?? {};
    if (width < below !== el.clientWidth < below) frame.fit();
    width = el.clientWidth;
    Plotly.Plots.resize(plot);
  });
  sizes.observe(el);

  return () => {
    frame.close();
    sizes.disconnect();
    model.off("msg:custom", message);
    model.off("change:figure", whole);
    model.off("change:label", label);
    Plotly.purge(plot);
    plot.remove();
  };
}

export default { render };
