// Pictures on a canvas: numbers in, lines and colours out.

/** @type {Draw} */
const draw = (element, picture, ...values) => {
  const { clientWidth: width, clientHeight: height } = element;
  const context = element.getContext("2d");
  if (!width || !height || !context) return;
  const ratio = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (element.width !== w || element.height !== h) [element.width, element.height] = [w, h];
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  const style = getComputedStyle(element);
  context.font = `12px ${style.fontFamily}`;
  const color = (name) => style.getPropertyValue(`--${name}`);
  /** @type {Canvas["write"]} */
  const write = (text, x, y, align = "left", baseline = "alphabetic") => {
    context.fillStyle = color("quiet");
    context.textAlign = align;
    context.textBaseline = baseline;
    context.fillText(text, x, y);
  };
  picture({ context, width, height, color, write }, ...values);
};

/** Draw lines with bands over the updates, on a logarithmic axis, and marks at some updates.
 * @type {Picture<[series: Series[], marks: number[]]>} */
const drawLines = ({ context, width, height, color, write }, series, marks) => {
  const last = Math.max(...series.flatMap(({ points }) => points.map(({ x }) => x)));
  if (!last) return write("no update yet", width / 2, height / 2, "center");
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
  context.strokeStyle = color("line");
  for (const tick of ticks(bottom, top, height < 160 ? 3 : 6)) {
    stroke(context, [left, y(tick)], [width - right, y(tick)]);
    write(digits(tick, 2), left - 5, y(tick), "right", "middle");
  }
  write(`update ${end}`, width - right, height - 5, "right");
  write("0", left, height - 5);
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
};

/** Return at most so many round numbers between two, for a logarithmic axis. */
function ticks(bottom, top, most) {
  const lowest = Math.floor(Math.log10(bottom)); // the axis has at most seven decades
  const powers = Array.from({ length: 9 }, (_, k) => 10 ** (lowest + k));
  const seen = (tick) => tick >= bottom && tick <= top;
  const all = [[1, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]].map((steps) =>
    powers.flatMap((power) => steps.map((step) => step * power)).filter(seen),
  );
  const few = all.find((found) => found.length <= most);
  return few ?? all[3].filter((_, i) => i % Math.ceil(all[3].length / most) === 0);
}

/** Draw a line from point to point. */
function stroke(/** @type {CanvasRenderingContext2D} */ context, ...points) {
  context.beginPath();
  for (const [x, y] of points) context.lineTo(x, y);
  context.stroke();
}

/** Draw a map of size x size places from the top left, in colours of the more probable class.
 * @type {Picture<[outputs: Float64Array, size: number, points: Labelled]>} */
const drawMap = ({ context, width, height, color }, outputs, size, points) => {
  const edge = (k) => Math.round((k / size) * width); // without gaps
  for (let k = 0; k < size * size; k++) {
    const p = 1 / (1 + Math.exp(outputs[2 * k] - outputs[2 * k + 1]));
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
};

/** Draw a confusion matrix: rows are labels, columns predictions.
 * @type {Picture<[counts: number[][]]>} */
const drawConfusion = ({ context, width, height, color, write }, counts) => {
  const n = counts.length;
  const [w, h] = [(width - 14) / n, (height - 14) / n];
  counts.forEach((row, i) => {
    write(String(i), 6, 14 + (i + 0.5) * h, "center", "middle");
    write(String(i), 14 + (i + 0.5) * w, 7, "center", "middle");
    const total = row.reduce((a, b) => a + b) || 1;
    row.forEach((count, j) => {
      context.fillStyle = color(i === j ? "class-0" : "class-1");
      context.globalAlpha = 0.06 + (0.94 * count) / total;
      context.fillRect(14 + j * w, 14 + i * h, w - 1, h - 1);
    });
    context.globalAlpha = 1;
  });
};

/** Draw how often values are how large, in the colour of that name.
 * @type {Picture<[values: Float64Array, name: string]>} */
const drawHistogram = ({ context, width, height, color, write }, values, name) => {
  const largest = values.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-9);
  const decade = 10 ** Math.floor(Math.log10(largest));
  const range = decade * ([1, 2, 5, 10].find((step) => step * decade >= largest) ?? 10);
  const counts = Array(29).fill(0);
  for (const value of values.filter(Number.isFinite)) {
    counts[Math.floor(((value / range + 1) / 2) * 28.999)]++;
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
  write(digits(-range), 0, height - 3);
  write(digits(range), width, height - 3, "right");
};
