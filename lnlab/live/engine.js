// The networks of the playground, without a page: float64, and numbers that Python repeats
// (replay.py has the same generator, examples, batches and first weights).

/** The epsilon inside the root of all normalizers but weight norm, as in torch. */
const EPS = 1e-5;

/** The weight of the newest batch in the running statistics. */
const NEWEST = 0.1;

/** A loss above this counts as diverged. */
const DIVERGED = 1e4;

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

/** Return the examples of a dataset: 300 points to train on and 100 to measure, or 500 and 100
 * digits of 8 x 8 pixels, the same in every run. A point is x, y and 1: with x and y alone, layer
 * norm could not see how far from the middle a point is.
 * @returns {Examples} */
function examples(dataset) {
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
}

/** Batches without replacement; what is left of an epoch that fills no batch is dropped. */
class Batches {
  /** @param {number} n the number of examples */
  constructor(n, seed) {
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

/** Return the Euclidean norm.
 * @param {Float64Array} values */
function euclidean(values) {
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
  /** @param {Norm} norm
   * @param {"tanh" | "relu" | "linear"} activation
   * @param {Uniform} random */
  constructor(inputs, units, norm, activation, random) {
    this.inputs = inputs;
    this.units = units;
    this.norm = norm;
    this.activation = activation;
    this.W = new Parameter(units * inputs);
    this.b = new Parameter(units);
    this.g = new Parameter(norm === "none" ? 0 : units);
    const bound = inputs ** -0.5;
    for (let i = 0; i < this.W.value.length; i++) {
      this.W.value[i] = bound * (2 * random.next() - 1);
    }
    this.g.value.fill(1);
    /** What is learned; RMS norm has no bias (Zhang and Sennrich, 2019). */
    this.parameters = norm === "rms" ? [this.W, this.g] : [this.W, this.b, this.g];
    if (norm === "weight") for (let i = 0; i < units; i++) this.g.value[i] = this.rowNorm(i);
    this.runningMean = new Float64Array(units);
    this.runningVar = new Float64Array(units).fill(1);
    this.mean = new Float64Array(units); // batch norm's last mean and sigma
    this.sigma = new Float64Array(units).fill(1);
    this.gradientNorm = 0;
    this.angle = 0;
    this.x = this.a = this.z = this.h = new Float64Array(0);
    this.normed = this.dz = this.caseSigma = this.x;
  }

  /** Make room for so many examples. */
  grow(n) {
    const size = n * this.units;
    this.a = new Float64Array(size);
    this.normed = new Float64Array(size); // (a - mu) / sigma
    this.z = new Float64Array(size);
    this.h = new Float64Array(size);
    this.dz = new Float64Array(size); // in turn dL/dh, dL/dz and dL/da
    this.caseSigma = new Float64Array(n);
  }

  /** @param {number} i a row of W */
  rowNorm(i) {
    return euclidean(this.W.value.subarray(i * this.inputs, (i + 1) * this.inputs));
  }

  /** @param {Float64Array} x inputs, one example after the other
   * @param {number} n the number of examples
   * @param {Statistics} statistics */
  forward(x, n, statistics) {
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

  /** Set (a - mu) / sigma from a.
   * @param {Statistics} statistics */
  normalize(n, statistics) {
    const { units, a, normed } = this;
    if (this.norm === "batch") {
      for (let i = 0; i < units; i++) {
        if (statistics !== "last") this.batchStatistics(i, n, statistics);
        for (let j = i; j < n * units; j += units)
          normed[j] = (a[j] - this.mean[i]) / this.sigma[i];
      }
    } else if (this.norm === "weight") {
      for (let i = 0; i < units; i++) {
        this.sigma[i] = this.rowNorm(i);
        for (let j = i; j < n * units; j += units) normed[j] = a[j] / this.sigma[i];
      }
    } else if (this.norm !== "none") {
      for (let k = 0; k < n; k++) {
        const [from, to] = [k * units, (k + 1) * units];
        let [mean, square] = [0, 0];
        if (this.norm === "layer") for (let j = from; j < to; j++) mean += a[j] / units;
        for (let j = from; j < to; j++) square += (a[j] - mean) ** 2;
        this.caseSigma[k] = Math.sqrt(square / units + EPS);
        for (let j = from; j < to; j++) normed[j] = (a[j] - mean) / this.caseSigma[k];
      }
    }
  }

  /** Set batch norm's mean and sigma of unit i.
   * @param {Statistics} statistics */
  batchStatistics(i, n, statistics) {
    const { units, a } = this;
    let [mean, variance] = [this.runningMean[i], this.runningVar[i]];
    if (statistics !== "running") {
      let [sum, square] = [0, 0];
      for (let j = i; j < n * units; j += units) sum += a[j];
      mean = sum / n;
      for (let j = i; j < n * units; j += units) square += (a[j] - mean) ** 2;
      variance = square / n;
      if (statistics === "remember") {
        this.runningMean[i] = (1 - NEWEST) * this.runningMean[i] + NEWEST * mean;
        // the unbiased variance, as in torch; one example has none
        const kept = (1 - NEWEST) * this.runningVar[i];
        if (n > 1) this.runningVar[i] = kept + (NEWEST * square) / (n - 1);
      }
    }
    this.mean[i] = mean;
    this.sigma[i] = Math.sqrt(variance + EPS);
  }

  /** Turn dL/dh, which `dz` holds, into dL/da, and set the gradients of W, g and b.
   * @param {boolean} throughBatch whether batch norm's statistics came from these examples
   * @param {Float64Array | null} dx takes dL/dx, where the layer below wants it */
  backward(n, throughBatch, dx) {
    const { inputs, units, x, z, h, dz } = this;
    const size = n * units;
    if (this.activation === "tanh") for (let j = 0; j < size; j++) dz[j] *= 1 - h[j] * h[j];
    if (this.activation === "relu") for (let j = 0; j < size; j++) if (z[j] <= 0) dz[j] = 0;
    const W = this.W.value;
    const dW = this.W.grad.fill(0);
    this.b.grad.fill(0);
    for (let j = 0; j < size; j++) this.b.grad[j % units] += dz[j];
    if (this.norm !== "none") this.backwardNorm(n, throughBatch);
    for (let k = 0, j = 0; k < n; k++) {
      for (let i = 0, w = 0; i < units; i++) {
        const da = dz[j++];
        for (let d = k * inputs, end = d + inputs; d < end; d++) dW[w++] += da * x[d];
      }
    }
    if (!dx) return;
    dx.fill(0, 0, n * inputs);
    for (let k = 0, j = 0; k < n; k++) {
      for (let i = 0, w = 0; i < units; i++) {
        const da = dz[j++];
        for (let d = k * inputs, end = d + inputs; d < end; d++) dx[d] += da * W[w++];
      }
    }
  }

  /** Turn dL/dz into dL/da, and set the gradient of g; weight norm's adds to that of W. */
  backwardNorm(n, throughBatch) {
    const { units, norm, normed, dz, sigma } = this;
    const size = n * units;
    const g = this.g.value;
    const dg = this.g.grad.fill(0);
    for (let j = 0; j < size; j++) {
      dg[j % units] += dz[j] * normed[j];
      dz[j] *= g[j % units]; // dL/d normed
    }
    if (norm === "batch") {
      for (let i = 0; i < units; i++)
        this.project(i, size, units, sigma[i], throughBatch, throughBatch);
    } else if (norm === "weight") {
      for (let i = 0; i < units; i++) {
        // sigma = ||w||: the part of the gradient along w is taken out
        const along = (g[i] * dg[i]) / sigma[i] ** 2;
        for (let d = i * this.inputs; d < (i + 1) * this.inputs; d++) {
          this.W.grad[d] = -along * this.W.value[d];
        }
        for (let j = i; j < size; j += units) dz[j] /= sigma[i];
      }
    } else {
      for (let k = 0; k < n; k++) {
        this.project(k * units, (k + 1) * units, 1, this.caseSigma[k], norm === "layer", true);
      }
    }
  }

  /** Turn dL/d normed into dL/da over values that share mu and sigma: what lies along 1 (if the
   * mean was taken out) and along the normalized values (if they were divided) is removed. */
  project(from, to, step, sigma, centred, divided) {
    const { normed, dz } = this;
    let [sum, along, m] = [0, 0, 0];
    for (let j = from; j < to; j += step) {
      sum += dz[j];
      along += dz[j] * normed[j];
      m += 1;
    }
    const mean = centred ? sum / m : 0;
    const slope = divided ? along / m : 0;
    for (let j = from; j < to; j += step) dz[j] = (dz[j] - mean - normed[j] * slope) / sigma;
  }
}

/** A network: hidden layers with one normalizer, then a linear layer, and cross-entropy. */
class Network {
  /** @param {number[]} widths of the inputs, the hidden layers and the outputs
   * @param {Norm} norm
   * @param {"tanh" | "relu"} activation
   * @param {number} seed of the first weights, which do not depend on the normalizer */
  constructor(widths, norm, activation, seed) {
    const random = new Uniform(1000 + seed);
    const last = widths.length - 2;
    this.layers = widths.slice(1).map((units, l) => {
      const [by, f] = l < last ? [norm, activation] : [/** @type {Norm} */ ("none"), "linear"];
      return new Layer(widths[l], units, by, /** @type {"tanh"} */ (f), random);
    });
    this.classes = widths[last + 1];
    this.updates = 0;
    /** @type {{update: number, rate: number} | null} */
    this.diverged = null;
  }

  /** Return the outputs (logits) of n examples.
   * @param {Float64Array} x
   * @param {Statistics} statistics */
  forward(x, n, statistics) {
    return this.layers.reduce((h, layer) => layer.forward(h, n, statistics), x);
  }

  /** Return the mean cross-entropy of the last forward pass, and leave its gradient by the outputs.
   * @param {Int32Array} y */
  loss(y) {
    const { classes } = this;
    const { h, dz } = this.layers[this.layers.length - 1];
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

  /** Make one update and return the loss before it; a network that has diverged stays as it is.
   * @param {Float64Array} x
   * @param {Int32Array} y
   * @param {Pick<State, "mode" | "optimizer" | "rate" | "momentum" | "decay">} state */
  step(x, y, state) {
    if (this.diverged) return NaN;
    const training = state.mode === "training";
    this.forward(x, y.length, training ? "remember" : "running");
    const loss = this.loss(y);
    this.updates += 1;
    if (!(loss < DIVERGED)) {
      this.diverged = { update: this.updates, rate: state.rate };
      return NaN;
    }
    for (let l = this.layers.length - 1; l >= 0; l--) {
      this.layers[l].backward(y.length, training, l ? this.layers[l - 1].dz : null);
    }
    for (const layer of this.layers) {
      layer.gradientNorm = euclidean(layer.W.grad);
      const before = layer.W.value.slice();
      for (const parameter of layer.parameters) this.update(parameter, state);
      layer.angle = angle(before, layer.W.value);
    }
    return loss;
  }

  /** Update as torch.optim.SGD or torch.optim.Adam, whose weight decay adds to the gradient.
   * @param {Parameter} parameter
   * @param {Pick<State, "optimizer" | "rate" | "momentum" | "decay">} state */
  update({ value, grad, first, second }, { optimizer, rate, momentum, decay }) {
    if (optimizer === "sgd") {
      for (let i = 0; i < value.length; i++) {
        const slope = grad[i] + decay * value[i];
        if (momentum) first[i] = momentum * first[i] + slope;
        value[i] -= rate * (momentum ? first[i] : slope);
      }
      return;
    }
    const unbiased = rate / (1 - 0.9 ** this.updates);
    const root = Math.sqrt(1 - 0.999 ** this.updates);
    for (let i = 0; i < value.length; i++) {
      const slope = grad[i] + decay * value[i];
      first[i] = 0.9 * first[i] + 0.1 * slope;
      second[i] = 0.999 * second[i] + 0.001 * slope * slope;
      value[i] -= (unbiased * first[i]) / (Math.sqrt(second[i]) / root + 1e-8);
    }
  }
}

/** Return the angle between two vectors in degrees; acos would round small ones away.
 * @param {Float64Array} a
 * @param {Float64Array} b */
function angle(a, b) {
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

/** Return a state with the settings that can be read, and the names of those that cannot.
 * @param {unknown} settings
 * @returns {{state: State, refused: string[]}} */
function read(settings) {
  const state = defaults();
  if (typeof settings !== "object" || !settings || Array.isArray(settings)) {
    return { state, refused: ["all of it"] };
  }
  const refused = Object.entries(settings)
    .filter(([name, value]) => !fits(name, value))
    .map(([name]) => name);
  if (!refused.length) Object.assign(state, settings);
  state.layer = Math.min(state.layer, state.depth);
  state.shown = Math.min(state.shown, state.seeds);
  return { state, refused };
}

/** Return whether a value is one that the setting of that name can have.
 * @param {any} value */
function fits(name, value) {
  if (!Object.hasOwn(FIELDS, name)) return false;
  const { choices, from, to } = FIELDS[name];
  if (name !== "norms") return choices ? choices.includes(value) : value >= from && value <= to;
  const known = Array.isArray(value) && value.every((norm) => choices.includes(norm));
  return known && value.length === 3 && new Set(value).size === 3;
}

/** All networks of the playground, updated together on the same batches. */
class Run {
  /** @param {State} state */
  constructor(state) {
    this.start = { ...state };
    this.state = { ...state };
    this.data = examples(state.dataset);
    const { inputs, classes, train } = this.data;
    const widths = [inputs, ...Array(state.depth).fill(state.units), classes];
    const seeds = Array.from({ length: state.seeds }, (_, seed) => seed);
    this.batches = seeds.map((seed) => new Batches(train, seed));
    /** By normalizer and seed. */
    this.networks = state.norms.map((norm) =>
      seeds.map((seed) => new Network(widths, norm, state.activation, seed)),
    );
    this.updates = 0;
    /** What the reader changed: the number of updates made before, and the new settings.
     * @type {[number, Partial<State>][]} */
    this.changes = [];
    this.factors = Array(state.depth + 1).fill(1);
    this.rescale(state.layer, state.weights);
  }

  /** Multiply the weights of a hidden layer in all networks, so that they are `factor` times as
   * large as they would be untouched.
   * @param {number} layer 1 is the first */
  rescale(layer, factor) {
    const ratio = factor / this.factors[layer];
    this.factors[layer] = factor;
    for (const network of this.networks.flat()) {
      const { value } = network.layers[layer - 1].W;
      for (let i = 0; i < value.length; i++) value[i] *= ratio;
    }
  }

  /** Change settings while the networks learn.
   * @param {Partial<State>} settings */
  set(settings) {
    Object.assign(this.state, settings);
    const { layer, weights } = this.state;
    if ("weights" in settings) this.rescale(layer, weights);
    else this.state.weights = this.factors[layer];
    const { shown, speed, playing, simple, ...matters } = settings;
    if (!Object.keys(matters).length) return;
    this.changes.push([this.updates, matters]);
  }

  /** Return the inputs of examples, as large and shifted as the state says.
   * @param {ArrayLike<number>} indices */
  gather(indices) {
    const { data, state } = this;
    const x = new Float64Array(indices.length * data.inputs);
    for (let k = 0, j = 0; k < indices.length; k++) {
      for (let d = 0; d < data.inputs; d++) {
        x[j++] = data.x[indices[k] * data.inputs + d] * state.scale + state.shift;
      }
    }
    return x;
  }

  /** Return the examples that are not trained on. */
  measured() {
    const { y, train } = this.data;
    return { x: this.gather(Array.from(y.keys()).slice(train)), y: y.subarray(train) };
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
