// Filters, sorts and downloads the claims above it; an address with their id opens one.

for (const root of document.querySelectorAll(".lnlab-claims:not([data-ready])")) {
  const form = root.querySelector("form");
  if (!form) continue; // some statements alone, without controls
  root.dataset.ready = "";
  const records = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
  const sections = [...root.querySelectorAll("section")];
  const rows = [...root.querySelectorAll("details[id]")];
  rows.forEach((row, place) => { row.place = place; });
  const WORDS = ["supported", "correct", "mixed", "ambiguous", "no difference that matters", "inconclusive", "contradicted", "wrong as printed", "not tested"];
  const number = (text, none) => (text === "" ? none : Number(text));
  const KEYS = {
    "": (row) => row.place,
    effect: (row) => -number(row.dataset.effect, -Infinity),
    word: (row) => WORDS.indexOf(row.dataset.word),
    q: (row) => number(row.dataset.q, Infinity),
  };

  function update() {
    const wanted = ["paper", "theme", "word"].map((name) => [name, form.elements[name].value]);
    const words = form.elements.search.value.toLowerCase().split(/\s+/);
    for (const row of rows) {
      row.hidden = wanted.some(([name, value]) => value && row.dataset[name] !== value)
        || !words.every((word) => row.textContent.toLowerCase().includes(word));
    }
    const key = KEYS[form.elements.sort.value];
    for (const section of sections) {
      const own = [...section.querySelectorAll("details[id]")];
      own.sort((a, b) => key(a) - key(b) || a.place - b.place).forEach((row) => section.append(row));
      section.hidden = own.every((row) => row.hidden);
    }
    form.querySelector("output").textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} statements shown`;
  }

  function download(name, type, text) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    URL.revokeObjectURL(link.href);
  }

  const shown = () => records.filter((record) => !rows.find((row) => row.id === record.id).hidden);
  const cell = (value) => `"${(Array.isArray(value) ? value.join(" to ") : value ?? "").toString().replaceAll('"', '""')}"`;
  form.elements.csv.onclick = () => {
    const names = Object.keys(records[0]);
    const lines = [names, ...shown().map((record) => names.map((name) => record[name]))];
    download("claims.csv", "text/csv", lines.map((line) => line.map(cell).join(",")).join("\n") + "\n");
  };
  form.elements.json.onclick = () => download("claims.json", "application/json", JSON.stringify(shown(), null, 1));

  function open() {
    const row = rows.find((one) => `#${one.id}` === decodeURIComponent(location.hash));
    if (row) { row.open = true; row.scrollIntoView(); }
  }
  form.oninput = update;
  window.addEventListener("hashchange", open);
  update();
  open();
}
