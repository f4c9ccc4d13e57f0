// Small pictures of the notebooks, each drawn when it comes into sight: figures of the run, at
// their own size and made smaller. They are taken out before figures.js looks for figures.

const WIDTH = 760;

for (const thumbnail of document.querySelectorAll(".thumbnail")) {
  const text = thumbnail.querySelector("script")?.textContent;
  thumbnail.replaceChildren();
  if (!text) continue;
  new IntersectionObserver(async ([{ isIntersecting }], observer) => {
    if (!isIntersecting) return;
    observer.disconnect();
    const { data, layout } = JSON.parse(text);
    const picture = thumbnail.appendChild(document.createElement("div"));
    const { title, height = 450, margin = {}, meta = {}, ...rest } = layout;
    const { above = 0, signature = 0, light = false } = meta;
    thumbnail.classList.toggle("light", light);
    const t = (margin.t ?? 100) - above;
    const b = (margin.b ?? 80) - signature;
    const size = { width: WIDTH, height: height - above - signature, margin: { ...margin, t, b } };
    // a static plot shows no surface in three dimensions
    const staticPlot = !Object.keys(rest).some((key) => key.startsWith("scene"));
    await Plotly.newPlot(picture, data, { ...rest, ...size }, { staticPlot, displayModeBar: false });
    // the whole figure, in the middle, so that no word is cut off; of a long list its beginning
    const { clientWidth, clientHeight } = thumbnail;
    const widest = clientWidth / WIDTH;
    const scale = Math.min(widest, Math.max(clientHeight / size.height, widest / 2));
    const left = (clientWidth - scale * WIDTH) / 2;
    const top = Math.max(0, (clientHeight - scale * size.height) / 2);
    picture.style.transform = `translate(${left}px, ${top}px) scale(${scale})`;
  }).observe(thumbnail);
}
