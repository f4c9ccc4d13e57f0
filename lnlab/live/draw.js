// Pictures on a canvas: numbers in, lines and colours out.

/** Clear a canvas and return what is needed to draw on it, in CSS pixels; null where it has no
 * size, as in a part of the page that is closed.
 * @param {HTMLCanvasElement} element */
function prepare(element) {
  const { clientWidth: width, clientHeight: height } = element;
  const context = element.getContext("2d");
  if (!width || !height || !context) return null;
  const ratio = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (element.width !== w || element.height !== h) [element.width, element.height] = [w, h];
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  const style = getComputedStyle(element);
  context.font = `12px ${style.fontFamily}`;
  return { context, width, height, color: (name) => style.getPropertyValue(`--${name}`) };
}

/** Draw lines with bands over the updates, on a logarithmic axis.
 * @param {HTMLCanvasElement} element
 * @param {{name: string, points: Point[]}[]} series
 * @param {number[]} marks updates at which the reader changed something */
function drawLines(element, series, marks) {
  const canvas = prepare(element);
  if (!canvas) return;
  const { context, width, height, color } = canvas;
  const last = Math.max(...series.flatMap(({ points }) => points.map(({ x }) => x)));
  if (!last) {
    context.fillStyle = color("quiet");
    context.textAlign = "center";
    return context.fillText("no update yet", width / 2, height / 2);
  }
  const values = series.flatMap(({ points }) => points.flatMap(({ low, high }) => [low, high]));
  const positive = values.filter((value) => value > 1e-9 && value < Infinity);
  const top = Math.max(1e-6, ...positive) * 1.1;
  const bottom = Math.max(Math.min(top / 3, ...positive) / 1.1, top / 1e7);
  const end = Math.max(10, last);
  const [left, right, above, below] = [46, 8, 6, 20];
  const x = (update) => left + (update / end) * (width - left - right);
  const span = Math.log(top / bottom);
  const y = (value) => {
    const part = Math.log(Math.min(Math.max(value, bottom), top) / bottom) / span;
    return height - below - part * (height - above - below);
  };
  context.lineWidth = 1;
  context.fillStyle = color("quiet");
  context.strokeStyle = color("line");
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const tick of ticks(bottom, top, height < 160 ? 3 : 6)) {
    stroke(context, [left, y(tick)], [width - right, y(tick)]);
    context.fillText(digits(tick, 2), left - 5, y(tick));
  }
  context.textBaseline = "alphabetic";
  context.fillText(`update ${end}`, width - right, height - 5);
  context.textAlign = "left";
  context.fillText("0", left, height - 5);
  context.setLineDash([2, 3]);
  context.strokeStyle = color("quiet");
  for (const mark of marks) stroke(context, [x(mark), above], [x(mark), height - below]);
  context.setLineDash([]);
  for (const { name, points: all } of series) {
    const points = all.filter(({ mid }) => Number.isFinite(mid));
    context.strokeStyle = context.fillStyle = color(name);
    context.globalAlpha = 0.15;
    context.beginPath();
    for (const { x: at, high } of points) context.lineTo(x(at), y(high));
    for (const { x: at, low } of [...points].reverse()) context.lineTo(x(at), y(low));
    context.fill();
    context.globalAlpha = 1;
    context.lineWidth = 2;
    stroke(context, ...points.map(({ x: at, mid }) => [x(at), y(mid)]));
  }
}

/** Return at most so many round numbers between two, for a logarithmic axis. */
function ticks(bottom, top, most) {
  /** @param {number[]} steps */
  const round = (steps) => {
    const found = [];
    for (let e = Math.floor(Math.log10(bottom)); 10 ** e <= top; e++) {
      found.push(...steps.map((step) => step * 10 ** e).filter((v) => v >= bottom && v <= top));
    }
    return found;
  };
  const all = [[1, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]].map(round);
  const few = all.find((found) => found.length <= most);
  return few ?? all[3].filter((_, i) => i % Math.ceil(all[3].length / most) === 0);
}

/** Draw a line from point to point.
 * @param {CanvasRenderingContext2D} context */
function stroke(context, ...points) {
  context.beginPath();
  for (const [x, y] of points) context.lineTo(x, y);
  context.stroke();
}

/** Draw a map of the plane, in the colours of the more probable class, and points.
 * @param {HTMLCanvasElement} element
 * @param {Float64Array} margins of size x size places from the top left, of class 1 over class 0
 * @param {{x: ArrayLike<number>, y: ArrayLike<number>}} points x, y, 1 from -1.1 to 1.1, and classes */
function drawMap(element, margins, size, points) {
  const canvas = prepare(element);
  if (!canvas) return;
  const { context, width, height, color } = canvas;
  const edge = (k) => Math.round((k / size) * width); // without gaps
  for (let k = 0; k < size * size; k++) {
    const p = 1 / (1 + Math.exp(-margins[k]));
    context.fillStyle = color(p > 0.5 ? "class-1" : "class-0");
    context.globalAlpha = 0.15 + 0.75 * Math.abs(2 * p - 1);
    const [i, j] = [k % size, Math.floor(k / size)];
    context.fillRect(edge(i), edge(j), edge(i + 1) - edge(i), edge(j + 1) - edge(j));
  }
  context.globalAlpha = 1;
  for (let k = 0; k < points.y.length; k++) {
    const [x, y] = [points.x[3 * k], points.x[3 * k + 1]];
    context.fillStyle = color(points.y[k] ? "point-1" : "point-0");
    context.strokeStyle = color("paper");
    context.beginPath();
    const [across, down] = [((x + 1.1) / 2.2) * width, ((1.1 - y) / 2.2) * height];
    if (points.y[k]) context.rect(across - 2.5, down - 2.5, 5, 5);
    else context.arc(across, down, 2.8, 0, 7);
    context.fill();
    context.stroke();
  }
}

/** Draw a confusion matrix: rows are labels, columns predictions.
 * @param {HTMLCanvasElement} element
 * @param {number[][]} counts */
function drawConfusion(element, counts) {
  const canvas = prepare(element);
  if (!canvas) return;
  const { context, width, height, color } = canvas;
  const n = counts.length;
  const [w, h] = [(width - 14) / n, (height - 14) / n];
  context.textAlign = "center";
  context.textBaseline = "middle";
  counts.forEach((row, i) => {
    context.fillStyle = color("quiet");
    context.fillText(String(i), 6, 14 + (i + 0.5) * h);
    context.fillText(String(i), 14 + (i + 0.5) * w, 7);
    const total = row.reduce((a, b) => a + b) || 1;
    row.forEach((count, j) => {
      context.fillStyle = color(i === j ? "class-0" : "class-1");
      context.globalAlpha = 0.06 + (0.94 * count) / total;
      context.fillRect(14 + j * w, 14 + i * h, w - 1, h - 1);
    });
    context.globalAlpha = 1;
  });
}

/** Draw how often values are how large.
 * @param {HTMLCanvasElement} element
 * @param {ArrayLike<number>} values
 * @param {string} name of the colour */
function drawHistogram(element, values, name) {
  const canvas = prepare(element);
  if (!canvas) return;
  const { context, width, height, color } = canvas;
  let largest = 1e-9;
  for (let k = 0; k < values.length; k++) largest = Math.max(largest, Math.abs(values[k]));
  const decade = 10 ** Math.floor(Math.log10(largest));
  const range = decade * ([1, 2, 5, 10].find((step) => step * decade >= largest) ?? 10);
  const counts = Array(29).fill(0);
  for (let k = 0; k < values.length; k++) {
    if (Number.isFinite(values[k])) counts[Math.floor(((values[k] / range + 1) / 2) * 28.999)]++;
  }
  const most = Math.max(1, ...counts);
  const [w, floor] = [width / counts.length, height - 15];
  context.fillStyle = color(name);
  counts.forEach((count, i) => {
    context.fillRect(i * w, floor - (count / most) * floor, w - 1, (count / most) * floor);
  });
  context.fillStyle = color("quiet");
  context.fillRect(0, floor, width, 1);
  context.fillRect(width / 2, 0, 1, floor);
  context.textAlign = "left";
  context.fillText(digits(-range), 0, height - 3);
  context.textAlign = "right";
  context.fillText(digits(range), width, height - 3);
}
