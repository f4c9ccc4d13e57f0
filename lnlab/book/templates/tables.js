// Makes tables of class "lnlab-table" answer: a field that filters their rows by words, headers
// that sort them. What belongs together, a row and the texts below it, stands in one tbody.

(() => {
  const LOOK = `
    .lnlab-rows { max-height: 80vh; overflow: auto; }
    .lnlab-rows thead { position: sticky; top: 0; background: var(--jp-layout-color0, var(--paper, white)); }
    .lnlab-table :is(td, th) { text-align: left !important; vertical-align: top; white-space: normal; }
    .lnlab-table thead button { font: inherit; font-weight: 600; color: inherit; background: none; border: 0; padding: 0; cursor: pointer; }
    .lnlab-table [aria-sort="ascending"] button::after { content: " ↑"; }
    .lnlab-table [aria-sort="descending"] button::after { content: " ↓"; }
    .lnlab-table .under td { padding-left: 2.5em; opacity: 0.75; }
    .lnlab-table .under div { white-space: pre-line; position: sticky; left: 0; width: fit-content; max-width: min(100%, 100vw - 6em); }
    .lnlab-table .option { white-space: nowrap; }
    .lnlab-table tr:has(+ .under) > * { border-bottom: 0; }
    .lnlab-filter input { font: inherit; width: min(20rem, 42vw); }
    @media print {
      .lnlab-filter { display: none; }
      .lnlab-rows { max-height: none; }
    }`;

  if (!document.querySelector("style.lnlab-tables")) {
    const style = document.createElement("style");
    style.className = "lnlab-tables";
    style.textContent = LOOK;
    document.head.append(style);
  }

  const number = (text) => (/^[-+]?[\d.]/.test(text) ? parseFloat(text) : NaN);

  function compare(a, b) {
    const [x, y] = [number(a), number(b)];
    if (Number.isNaN(x) !== Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1;
    return Number.isNaN(x) ? a.localeCompare(b) : x - y;
  }

  function answer(table) {
    table.dataset.answers = "";
    const bodies = [...table.tBodies];
    const heads = [...table.tHead.rows[0].cells];

    const line = document.createElement("p");
    line.className = "lnlab-filter";
    const label = document.createElement("label");
    const field = document.createElement("input");
    const count = document.createElement("output");
    field.type = "search";
    label.append("only rows with ", field);
    line.append(label, " ", count);
    table.parentElement.before(line);

    const filter = () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const body of bodies) {
        const text = body.textContent.toLowerCase();
        body.hidden = !words.every((word) => text.includes(word));
      }
      count.textContent = `${bodies.filter(({ hidden }) => !hidden).length} of ${bodies.length}`;
    };
    field.addEventListener("input", filter);
    filter();

    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      button.title = `sort by ${head.textContent}`;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const text = (body) => body.rows[0].cells[column].textContent;
        const sorted = [...bodies].sort((a, b) => compare(text(a), text(b)));
        table.append(...(down ? sorted.reverse() : sorted));
      });
    });
  }

  const all = () => document.querySelectorAll("table.lnlab-table:not([data-answers])").forEach(answer);
  all();
  // JupyterLab runs the script of an output before it puts the output on the page
  requestAnimationFrame(all);
  setTimeout(all, 500);
})();
