// What panels and figures ask of a JupyterLab: the looks in its dark theme where no panel brings
// them, one style sheet, and patience.
{
  // anywidget gives a widget's script two seconds; on a page that is busy for longer, drawing
  // what a notebook shows, the widget is drawn and never again hears its kernel.
  const PATIENCE = 120_000;
  const timeout = AbortSignal.timeout.bind(AbortSignal);
  AbortSignal.timeout = (milliseconds) => {
    const asked = new Error().stack.includes("extensions/anywidget/");
    return timeout(asked ? PATIENCE : milliseconds);
  };

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
