// Draws each plotly figure of the page from the data that stands beside it.
for (const plot of document.querySelectorAll("figure.plot")) {
  const { data, layout, frames, config } = JSON.parse(plot.querySelector("script").textContent);
  const calm = { responsive: true, displaylogo: false, ...config };
  Plotly.newPlot(plot.querySelector("div"), { data, layout, frames, config: calm });
}
