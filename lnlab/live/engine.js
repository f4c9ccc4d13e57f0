// The networks of the playground, without a page: float64, and numbers that Python repeats
// (replay.py has the same generator, examples, batches and first weights).

const EPS = 1e-5; // inside the root of all normalizers but weight norm, as in torch
const NEWEST = 0.1; // the weight of the newest batch in the running statistics
const DIVERGED = 1e4; // a loss above this counts as diverged

/** Uniform numbers from a seed: mulberry32. */
class Uniform {
  constructor(seed) {
    this.state = seed >>> 0;
  }

  /** Return the next number, from 0 up to but not including 1, in steps of 2^-32. */
  next() {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let t = this.state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }

  /** Return 0, ..., n - 1 in random order (Fisher and Yates). */
  permutation(n) {
    const order = Int32Array.from({ length: n }, (_, i) => i);
    for (let i = n - 1; i > 0; i--) {
      const j = Math.floor(this.next() * (i + 1));
      [order[i], order[j]] = [order[j], order[i]];
    }
    return order;
  }
}

/** @type {(dataset: string) => Examples} */
const examples = (dataset) => {
  if (dataset !== "digits") {
    const x = Float64Array.from(POINTS[dataset].flatMap((point) => [...point, 1]));
    const y = Int32Array.from(POINTS[dataset], (_, i) => i % 2);
    return { x, y, inputs: 3, classes: 2, train: 300 };
  }
  // the label of each digit and its 64 pixels, A for 0 to Q for 16
  const y = Int32Array.from({ length: 600 }, (_, i) => +DIGITS[65 * i]);
  const pixel = (k) => DIGITS.charCodeAt(65 * Math.floor(k / 64) + 1 + (k % 64)) - 65;
  const x = Float64Array.from({ length: 64 * 600 }, (_, k) => pixel(k) / 16);
  return { x, y, inputs: 64, classes: 10, train: 500 };
};

/** Batches without replacement; what is left of an epoch that fills no batch is dropped. */
class Batches {
  constructor(/** @type {number} */ n, seed) {
    this.random = new Uniform(2000 + seed);
    this.n = n;
    this.order = this.random.permutation(n);
    this.next = 0;
  }

  /** Return the indices of the next examples. */
  take(size) {
    if (this.next + size > this.n) {
      this.order = this.random.permutation(this.n);
      this.next = 0;
    }
    this.next += size;
    return this.order.subarray(this.next - size, this.next);
  }
}

/** Return the Euclidean norm. */
function euclidean(/** @type {Float64Array} */ values) {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i] * values[i];
  return Math.sqrt(sum);
}

/** What is learned, its gradient, and what the optimizer remembers of it. */
class Parameter {
  constructor(size) {
    this.value = new Float64Array(size);
    this.grad = new Float64Array(size);
    this.first = new Float64Array(size); // momentum, or Adam's first moment
    this.second = new Float64Array(size);
  }
}

/** A layer: pre-activations a = W x, normalized to z = g (a - mu) / sigma + b, and h = f(z). */
class Layer {
  constructor(inputs, units, /** @type {Kind} */ kind, /** @type {Uniform} */ random) {
    this.inputs = inputs;
    this.units = units;
    this.norm = kind.norm;
    this.activation = kind.activation;
    this.W = new Parameter(units * inputs);
    this.b = new Parameter(units);
    this.g = new Parameter(kind.norm === "none" ? 0 : units);
    this.W.value = this.W.value.map(() => inputs ** -0.5 * (2 * random.next() - 1));
    this.g.value.fill(1);
    /** What is learned; RMS norm has no bias (Zhang and Sennrich, 2019). */
    this.parameters = kind.norm === "rms" ? [this.W, this.g] : [this.W, this.b, this.g];
    if (kind.norm === "weight") this.g.value = this.g.value.map((_, i) => this.rowNorm(i));
    this.runningMean = new Float64Array(units);
    this.runningVar = new Float64Array(units).fill(1);
    /** Whether values share a mean and sigma by unit; by example otherwise. */
    this.byUnit = kind.norm === "batch" || kind.norm === "weight";
    this.mean = new Float64Array(units); // of each unit or example, in the last forward pass
    this.sigma = new Float64Array(units).fill(1);
    this.gradientNorm = this.angle = 0;
    this.x = this.a = this.z = this.h = new Float64Array(0);
    this.normed = this.dz = this.x;
  }

  /** Make room for so many examples. */
  grow(n) {
    const size = n * this.units;
    this.a = new Float64Array(size);
    this.normed = new Float64Array(size); // (a - mu) / sigma
    this.z = new Float64Array(size);
    this.h = new Float64Array(size);
    this.dz = new Float64Array(size); // in turn dL/dh, dL/dz and dL/da
    if (this.byUnit) return;
    this.mean = new Float64Array(n);
    this.sigma = new Float64Array(n);
  }

  /** Return the norm of row i of W. */
  rowNorm(i) {
    return euclidean(this.W.value.subarray(i * this.inputs, (i + 1) * this.inputs));
  }

  /** Return h of n examples; x has one after the other. */
  forward(/** @type {Float64Array} */ x, n, /** @type {Statistics} */ statistics) {
    if (n * this.units > this.a.length) this.grow(n);
    const { inputs, units, a, z, h } = this;
    const W = this.W.value;
    this.x = x;
    for (let k = 0, out = 0; k < n; k++) {
      for (let i = 0, w = 0; i < units; i++) {
        let sum = 0;
        for (let d = k * inputs, end = d + inputs; d < end; d++) sum += W[w++] * x[d];
        a[out++] = sum;
      }
    }
    this.normalize(n, statistics);
    const size = n * units;
    const [g, b] = [this.g.value, this.b.value];
    for (let j = 0; j < size; j++) {
      const i = j % units;
      z[j] = this.norm === "none" ? a[j] + b[i] : g[i] * this.normed[j] + b[i];
    }
    if (this.activation === "tanh") for (let j = 0; j < size; j++) h[j] = Math.tanh(z[j]);
    else if (this.activation === "relu") for (let j = 0; j < size; j++) h[j] = z[j] > 0 ? z[j] : 0;
    else h.set(z.subarray(0, size));
    return h;
  }

  /** Return the values with the k-th mean and sigma: the first, the end, the step, how many. */
  group(k, n) {
    const { units } = this;
    return this.byUnit ? [k, n * units, units, n] : [k * units, (k + 1) * units, 1, units];
  }

  /** Set (a - mu) / sigma from a. */
  normalize(n, /** @type {Statistics} */ statistics) {
    const { units, norm, a, normed, mean, sigma } = this;
    if (norm === "none") return;
    for (let k = 0; k < (this.byUnit ? units : n); k++) {
      if (norm === "weight") sigma[k] = this.rowNorm(k);
      else if (norm !== "batch" || statistics !== "last") this.moments(k, n, statistics);
      const [from, to, step] = this.group(k, n);
      for (let j = from; j < to; j += step) normed[j] = (a[j] - mean[k]) / sigma[k];
    }
  }

  /** Set the k-th mean and sigma; RMS norm's mean is 0. */
  moments(k, n, /** @type {Statistics} */ statistics) {
    const { norm, a, runningMean, runningVar } = this;
    let [mean, variance] = [0, runningVar[k]];
    if (norm === "batch" && statistics === "running") mean = runningMean[k];
    else {
      const [from, to, step, count] = this.group(k, n);
      if (norm !== "rms") for (let j = from; j < to; j += step) mean += a[j] / count;
      let square = 0;
      for (let j = from; j < to; j += step) square += (a[j] - mean) ** 2;
      variance = square / count;
      if (norm === "batch" && statistics === "remember") {
        runningMean[k] = (1 - NEWEST) * runningMean[k] + NEWEST * mean;
        // the unbiased variance, as in torch; one example has none
        const kept = (1 - NEWEST) * runningVar[k];
        if (n > 1) runningVar[k] = kept + (NEWEST * square) / (n - 1);
      }
    }
    this.mean[k] = mean;
    this.sigma[k] = Math.sqrt(variance + EPS);
  }

  /** Turn dL/dh, which `dz` holds, into dL/da, set the gradients of W, g and b, and let the layer
   * below have dL/dx. `throughBatch`: batch norm's statistics came from these examples. */
  backward(n, throughBatch, /** @type {Layer | undefined} */ below) {
    const { inputs, units, x, z, h, dz } = this;
    const size = n * units;
    if (this.activation === "tanh") for (let j = 0; j < size; j++) dz[j] *= 1 - h[j] * h[j];
    if (this.activation === "relu") for (let j = 0; j < size; j++) if (z[j] <= 0) dz[j] = 0;
    const W = this.W.value;
    const dW = this.W.grad.fill(0);
    this.b.grad.fill(0);
    for (let j = 0; j < size; j++) this.b.grad[j % units] += dz[j];
    if (this.norm !== "none") this.backwardNorm(n, throughBatch);
    const dx = below?.dz.fill(0, 0, n * inputs);
    for (let k = 0, j = 0; k < n; k++) {
      for (let i = 0, w = 0; i < units; i++) {
        const da = dz[j++];
        for (let d = k * inputs, end = d + inputs; d < end; d++, w++) {
          dW[w] += da * x[d];
          if (dx) dx[d] += da * W[w];
        }
      }
    }
  }

  /** Turn dL/dz into dL/da, and set the gradient of g; weight norm's adds to that of W. */
  backwardNorm(n, throughBatch) {
    const { units, norm, normed, dz, sigma } = this;
    const g = this.g.value;
    const dg = this.g.grad.fill(0);
    for (let j = 0; j < n * units; j++) {
      dg[j % units] += dz[j] * normed[j];
      dz[j] *= g[j % units]; // dL/d normed
    }
    const centred = norm === "layer" || (norm === "batch" && throughBatch);
    const divided = centred || norm === "rms";
    for (let k = 0; k < (this.byUnit ? units : n); k++) this.project(k, n, centred, divided);
    if (norm !== "weight") return;
    for (let w = 0; w < this.W.grad.length; w++) {
      // sigma = ||w||: the part of the gradient along w is taken out
      const i = Math.floor(w / this.inputs);
      this.W.grad[w] = (-g[i] * dg[i] * this.W.value[w]) / sigma[i] ** 2;
    }
  }

  /** Turn dL/d normed into dL/da over the values of the k-th sigma: what lies along 1 (if the
   * mean was taken out) and along the normalized values (if they were divided) is removed. */
  project(k, n, centred, divided) {
    const { normed, dz } = this;
    const [from, to, step, count] = this.group(k, n);
    let [sum, along] = [0, 0];
    for (let j = from; j < to; j += step) {
      sum += dz[j];
      along += dz[j] * normed[j];
    }
    const mean = centred ? sum / count : 0;
    const slope = divided ? along / count : 0;
    for (let j = from; j < to; j += step) {
      dz[j] = (dz[j] - mean - normed[j] * slope) / this.sigma[k];
    }
  }
}

/** @type {Kind} */
const OUTPUT = { norm: "none", activation: "linear" };

/** A network: hidden layers with one normalizer, then a linear layer, and cross-entropy. */
class Network {
  /** Widths are of inputs, hidden layers and outputs; the seed alone sets the first weights. */
  constructor(/** @type {number[]} */ widths, /** @type {Kind} */ kind, seed) {
    const random = new Uniform(1000 + seed);
    const last = widths.length - 2;
    this.layers = widths.slice(1).map((units, l) => {
      return new Layer(widths[l], units, l < last ? kind : OUTPUT, random);
    });
    this.updates = 0;
    this.diverged = /** @type {{update: number, rate: number} | null} */ (null);
  }

  /** Return the outputs (logits) of n examples. */
  forward(/** @type {Float64Array} */ x, n, /** @type {Statistics} */ statistics) {
    return this.layers.reduce((h, layer) => layer.forward(h, n, statistics), x);
  }

  /** Return the mean cross-entropy, and leave its gradient by the outputs. */
  loss(/** @type {Cases} */ { x, y, how }) {
    this.forward(x, y.length, how);
    const { h, dz, units: classes } = this.layers[this.layers.length - 1];
    let total = 0;
    for (let k = 0; k < y.length; k++) {
      const row = k * classes;
      let [largest, sum] = [-Infinity, 0];
      for (let j = row; j < row + classes; j++) largest = Math.max(largest, h[j]);
      for (let j = row; j < row + classes; j++) sum += dz[j] = Math.exp(h[j] - largest);
      total += largest + Math.log(sum) - h[row + y[k]];
      for (let j = row; j < row + classes; j++) dz[j] /= sum * y.length;
      dz[row + y[k]] -= 1 / y.length;
    }
    return total / y.length;
  }

  /** Make one update and return the loss before it; a network that has diverged stays as it is. */
  step(/** @type {Float64Array} */ x, /** @type {Int32Array} */ y, /** @type {State} */ state) {
    if (this.diverged) return NaN;
    const training = state.mode === "training";
    const loss = this.loss({ x, y, how: training ? "remember" : "running" });
    this.updates += 1;
    if (!(loss < DIVERGED)) {
      this.diverged = { update: this.updates, rate: state.rate };
      return NaN;
    }
    for (let l = this.layers.length - 1; l >= 0; l--) {
      this.layers[l].backward(y.length, training, this.layers[l - 1]);
    }
    for (const layer of this.layers) {
      layer.gradientNorm = euclidean(layer.W.grad);
      const before = layer.W.value.slice();
      for (const parameter of layer.parameters) this.update(parameter, state);
      layer.angle = angle(before, layer.W.value);
    }
    return loss;
  }

  /** Update as torch.optim.SGD or torch.optim.Adam, whose weight decay adds to the gradient. */
  update(/** @type {Parameter} */ parameter, /** @type {State} */ state) {
    const { value, grad, first, second } = parameter;
    const { optimizer, rate, momentum, decay } = state;
    const unbiased = rate / (1 - 0.9 ** this.updates);
    const root = Math.sqrt(1 - 0.999 ** this.updates);
    for (let i = 0; i < value.length; i++) {
      const slope = grad[i] + decay * value[i];
      if (optimizer === "sgd") {
        if (momentum) first[i] = momentum * first[i] + slope;
        value[i] -= rate * (momentum ? first[i] : slope);
      } else {
        first[i] = 0.9 * first[i] + 0.1 * slope;
        second[i] = 0.999 * second[i] + 0.001 * slope * slope;
        value[i] -= (unbiased * first[i]) / (Math.sqrt(second[i]) / root + 1e-8);
      }
    }
  }
}

/** Return the angle between two vectors in degrees; acos would round small ones away. */
function angle(/** @type {Float64Array} */ a, /** @type {Float64Array} */ b) {
  const [along, across] = [euclidean(a), euclidean(b)];
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += (a[i] / along - b[i] / across) ** 2;
  return (2 * Math.asin(Math.min(1, Math.sqrt(sum) / 2)) * 180) / Math.PI;
}

/** Return the state in which everything has its default. */
function defaults() {
  const values = Object.entries(FIELDS).map(([name, field]) => [name, field.default]);
  return /** @type {State} */ (Object.fromEntries(values));
}

/** Return a state with the settings that can be read, and the names of those that cannot. */
function read(/** @type {unknown} */ settings) {
  const state = defaults();
  if (typeof settings !== "object" || !settings || Array.isArray(settings)) {
    return { state, refused: ["all of it"] };
  }
  const refused = Object.keys(settings).filter((name) => !fits(name, settings[name]));
  if (!refused.length) Object.assign(state, settings);
  state.layer = Math.min(state.layer, state.depth);
  state.shown = Math.min(state.shown, state.seeds);
  return { state, refused };
}

/** Return whether a value is one that the setting of that name can have. */
function fits(name, /** @type {any} */ value) {
  if (!Object.hasOwn(FIELDS, name)) return false;
  const { choices, from, to } = FIELDS[name];
  if (name !== "norms") return choices ? choices.includes(value) : value >= from && value <= to;
  const known = Array.isArray(value) && value.every((norm) => choices.includes(norm));
  return known && value.length === 3 && new Set(value).size === 3;
}

/** All networks of the playground, updated together on the same batches. */
class Run {
  constructor(/** @type {State} */ state) {
    this.start = { ...state };
    this.state = { ...state };
    this.data = examples(state.dataset);
    const { inputs, classes, train } = this.data;
    const widths = [inputs, ...Array(state.depth).fill(state.units), classes];
    const seeds = Array.from({ length: state.seeds }, (_, seed) => seed);
    this.batches = seeds.map((seed) => new Batches(train, seed));
    /** By normalizer and seed. */
    this.networks = state.norms.map((norm) =>
      seeds.map((seed) => new Network(widths, { norm, activation: state.activation }, seed)),
    );
    this.updates = 0;
    this.changes = /** @type {Change[]} */ ([]);
    this.factors = Array(state.depth + 1).fill(1);
    this.rescale(state.layer, state.weights);
  }

  /** Make the weights of a hidden layer `factor` times as large as they would be untouched. */
  rescale(layer, factor) {
    const ratio = factor / this.factors[layer];
    this.factors[layer] = factor;
    for (const network of this.networks.flat()) {
      const { value } = network.layers[layer - 1].W;
      for (let i = 0; i < value.length; i++) value[i] *= ratio;
    }
  }

  /** Change settings while the networks learn. */
  set(/** @type {Partial<State>} */ settings) {
    Object.assign(this.state, settings);
    const { layer, weights } = this.state;
    if ("weights" in settings) this.rescale(layer, weights);
    else this.state.weights = this.factors[layer];
    const { shown, speed, playing, simple, ...matters } = settings;
    if (!Object.keys(matters).length) return;
    this.changes.push([this.updates, matters]);
  }

  /** Return the inputs of examples, as large and shifted as the state says. */
  gather(/** @type {ArrayLike<number>} */ indices) {
    const { data, state } = this;
    const x = new Float64Array(indices.length * data.inputs);
    for (let k = 0, j = 0; k < indices.length; k++) {
      for (let d = 0; d < data.inputs; d++) {
        x[j++] = data.x[indices[k] * data.inputs + d] * state.scale + state.shift;
      }
    }
    return x;
  }

  /** Return the examples that are not trained on, and how batch norm measures them. */
  measured() {
    const { y, train } = this.data;
    /** @type {Statistics} */
    const how = this.state.mode === "training" ? "batch" : "running";
    return { x: this.gather(Array.from(y.keys()).slice(train)), y: y.subarray(train), how };
  }

  /** Make one update of every network; return the losses by normalizer and seed. */
  step() {
    const losses = this.networks.map(/** @returns {number[]} */ () => []);
    this.batches.forEach((batches, seed) => {
      const indices = batches.take(this.state.batch);
      const x = this.gather(indices);
      const y = Int32Array.from(indices, (index) => this.data.y[index]);
      this.networks.forEach((networks, i) => losses[i].push(networks[seed].step(x, y, this.state)));
    });
    this.updates += 1;
    return losses;
  }
}
