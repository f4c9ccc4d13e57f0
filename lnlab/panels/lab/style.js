// What panels and figures ask of a JupyterLab: the looks in its dark theme where no panel brings
// them, one style sheet, and patience; and figures instead of pictures of them.
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
  // all that JupyterLab asks of a module that it loads beside its own; it writes a name on the
  // object that comes back
  (window._JUPYTERLAB ??= {}).lnlab = { init() {}, get: async () => put };
}
