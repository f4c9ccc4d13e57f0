// What panels and figures need in JupyterLab: a style sheet for its dark theme where no panel
// brings it, patience, figures instead of pictures of them, and notebooks that stay unchanged.
{
  // anywidget gives a widget's script two seconds; on a page that is busy for longer, drawing
  // what a notebook shows, the widget is drawn and never again hears its kernel.
  const PATIENCE = 120_000;
  const timeout = AbortSignal.timeout.bind(AbortSignal);
  AbortSignal.timeout = (milliseconds) => {
    const asked = new Error().stack.includes("extensions/anywidget/");
    return timeout(asked ? PATIENCE : milliseconds);
  };

  // Of a figure that was saved JupyterLab shows a picture until the pointer comes to it. That stays
  // light in the dark, so the figure is drawn at once; not again where it is there already, which
  // Lab hides when a browser has taken its WebGL away.
  const draw = (picture) => {
    const saved = picture.matches?.(".jp-RenderedPlotly:not(:has(.plot-container)) > .plot-img[src]");
    if (saved && document.body.dataset.jpThemeLight === "false")
      picture.dispatchEvent(new MouseEvent("mouseenter"));
  };
  const all = () => document.querySelectorAll(".plot-img").forEach(draw);
  new MutationObserver(all).observe(document.body, { attributeFilter: ["data-jp-theme-light"] });
  document.addEventListener("load", (event) => draw(event.target), true);

  // Over a surface plotly takes the wheel to zoom and a finger to turn it, and the notebook stands
  // still: both are kept from it, so that they scroll. A mouse turns the surface.
  const ours = ".jp-RenderedPlotly:has(.main-svg[style*='background: white']) .gl-container";
  const keep = (event) => event.target.closest?.(ours) && event.stopPropagation();
  for (const kind of ["wheel", "touchstart", "touchmove", "touchend"])
    document.addEventListener(kind, keep, { capture: true, passive: true });

  const sheet = new URL("live_plot.css", document.currentScript.src);
  const put = () => {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = sheet;
    document.head.append(link);
    return {};
  };
  // A kernel writes its version into a notebook, and a figure its picture: neither is a change of
  // the reader's, and a notebook that was only opened is not marked as changed.
  const left = new Set(["language_info", "image/png"]);
  const sorted = (_, value) => {
    if (value?.constructor !== Object) return value;
    return Object.fromEntries(Object.entries(value).filter(([key]) => !left.has(key)).sort());
  };
  const text = (model) => JSON.stringify(model.toJSON(), sorted);
  const watch = async ({ context }) => {
    if (!context?.sessionContext) return; // no document
    await context.ready;
    const { model } = context;
    if (!model.stateChanged) return;
    let saved = text(model);
    context.saveState.connect((_, state) => state === "completed" && (saved = text(model)));
    const check = () => model.dirty && text(model) === saved && (model.dirty = false);
    model.stateChanged.connect((_, { name }) => name === "dirty" && setTimeout(check));
    check();
  };
  const unchanged = {
    id: "lnlab:unchanged",
    autoStart: true,
    activate: ({ docRegistry }) =>
      docRegistry.addWidgetExtension("Notebook", { createNew: (widget) => void watch(widget) }),
  };

  // all that JupyterLab asks of a module that it loads beside its own; it writes a name on the
  // object that comes back
  const modules = { "./style": put, "./extension": () => unchanged };
  (window._JUPYTERLAB ??= {}).lnlab = { init() {}, get: async (name) => modules[name] };
}
