// What is computed of a run for the page: measurements, answers of experiments, sentences.

/** @typedef {object} Measured At one moment, by normalizer.
 * @property {number} update
 * @property {number[][]} losses by seed, on the examples that are not trained on
 * @property {{gradient: number, angle: number, rate: number}[][]} layers means over the seeds */

/** Return the mean of the finite numbers; NaN where there is none.
 * @param {number[]} values */
function mean(values) {
  const finite = values.filter(Number.isFinite);
  return finite.reduce((sum, value) => sum + value, 0) / finite.length;
}

/** Return the statistics that batch norm uses where nothing is learned.
 * @param {State} state */
function statistics(state) {
  return state.mode === "training" ? "batch" : "running";
}

/** Measure all networks on the examples that are not trained on.
 * @param {Run} run
 * @returns {Measured} */
function measure(run) {
  const { state, updates } = run;
  const { x, y } = run.measured();
  const losses = run.networks.map((networks) =>
    networks.map((network) => {
      if (network.diverged) return NaN;
      network.forward(x, y.length, statistics(state));
      return network.loss(y);
    }),
  );
  const layers = run.networks.map((networks) =>
    networks[0].layers.map((_, l) => {
      const there = networks
        .filter(({ diverged }) => !diverged)
        .map((network) => network.layers[l]);
      const size = there.map(
        (layer) => euclidean(layer.W.value) ** (state.optimizer === "sgd" ? 2 : 1),
      );
      return {
        gradient: updates ? mean(there.map((layer) => layer.gradientNorm)) : NaN,
        angle: updates ? mean(there.map((layer) => layer.angle)) : NaN,
        rate: mean(size.map((value) => state.rate / value)),
      };
    }),
  );
  return { update: updates, losses, layers };
}

/** Return how an experiment ended: for each part and normalizer whether it is so, and the numbers.
 * @param {Experiment} experiment
 * @param {Measured} before the change
 * @param {Measured} now right after it
 * @param {Measured} later
 * @returns {{label: string, yes: boolean[], numbers: string[]}[]} */
function answer(experiment, before, now, later) {
  const twin = new Run(read(experiment.state).state);
  for (let k = 0; k < later.update; k++) twin.step();
  const without = measure(twin);
  const { layer } = twin.state;
  const angle = (at, i) => at.layers[i][layer - 1].angle;
  /** @type {Record<string, (i: number) => [number, number, (a: number, b: number) => boolean]>} */
  const kinds = {
    "loss now": (i) => [mean(before.losses[i]), mean(now.losses[i]), differs],
    "loss later": (i) => [mean(without.losses[i]), mean(later.losses[i]), differs],
    turns: (i) => [angle(before, i), angle(later, i), (_, b) => b > 1e-6],
    "turns more": (i) => [angle(without, i), angle(later, i), (a, b) => b > 1.5 * a],
  };
  return experiment.parts.map(({ label, kind }) => {
    const found = now.losses.map((_, i) => kinds[kind](i));
    const unit = kind.startsWith("turns") ? "°" : "";
    return {
      label,
      yes: found.map(([a, b, test]) => test(a, b)),
      numbers: found.map(([a, b]) => {
        const [first, second] = [digits(a) + unit, digits(b) + unit];
        const compared = kind.endsWith("later") || kind.endsWith("more");
        return compared ? `${second} (${first} without the change)` : `${first} → ${second}`;
      }),
    };
  });
}

/** Return whether two losses differ by more than 1 %. */
function differs(a, b) {
  return !(Math.abs(b - a) <= 0.01 * Math.abs(a));
}

/** Return a number with few digits, as a power of ten where it is very large or small. */
function digits(value, most = 3) {
  if (!Number.isFinite(value)) return "–";
  const rounded = Number(value.toPrecision(most));
  if (!rounded || (Math.abs(rounded) >= 1e-4 && Math.abs(rounded) < 1e5)) {
    return String(rounded).replace("-", "−");
  }
  const [factor, power] = rounded.toExponential().replace("e+", "e").split("e");
  const raised = [...power].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit] ?? "⁻").join("");
  return `${factor === "1" ? "" : `${factor.replace("-", "−")}·`}10${raised}`;
}

/** Return names as words: "a, b and c".
 * @param {string[]} names */
function list(names) {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

/** Return the sentence of what a change of one setting did at once.
 * @param {State} state after the change
 * @param {string} name of the setting
 * @param {Measured} before
 * @param {Measured} now */
function sentence(state, name, before, now) {
  const field = FIELDS[name];
  const value = /** @type {any} */ (state)[name];
  const shown = field.names?.[value] ?? digits(value);
  const neutral = value === field.default;
  const what =
    {
      weights: neutral
        ? `the weights of layer ${state.layer} are back to normal (× 1)`
        : `the weights of layer ${state.layer} are ${shown} times as large, counted from the start`,
      scale: neutral ? "the inputs are back to normal (× 1)" : `all inputs are multiplied by ${shown}`,
      shift: neutral ? "the inputs are back to normal (+ 0)" : `${shown} is added to all inputs`,
      mode: `batch norm takes its mean and variance from ${shown}`,
      batch: `each batch has ${shown} ${value === 1 ? "example" : "examples"}`,
    }[name] ?? `the ${field.label[0].toLowerCase()}${field.label.slice(1)} is ${shown}`;
  const names = state.norms.map((norm) => FIELDS.norms.names?.[norm] ?? norm);
  const losses = state.norms.map((_, i) => [mean(before.losses[i]), mean(now.losses[i])]);
  const lost = losses.map(([a]) => Number.isNaN(a));
  const moved = losses.map(([a, b], i) => !lost[i] && differs(a, b));
  const still = names.filter((_, i) => !moved[i] && !lost[i]);
  const changes = names
    .map((norm, i) => `${norm} ${digits(losses[i][0])} → ${digits(losses[i][1])}`)
    .filter((_, i) => moved[i]);
  const parts = [];
  if (changes.length) {
    parts.push(`the loss changed at once by more than 1 %: ${changes.join(", ")}`);
    if (still.length) parts.push(`not with ${list(still)}`);
  } else if (still.length) parts.push("no loss changed at once by more than 1 %");
  if (lost.includes(true)) {
    parts.push(`diverged before: ${list(names.filter((_, i) => lost[i]))}`);
  }
  if (name === "weights" && !neutral) {
    const factor = value ** (state.optimizer === "sgd" ? 2 : 1);
    const way = factor > 1 ? `${digits(factor)} times lower` : `${digits(1 / factor)} times higher`;
    parts.push(`where the layer is normalized, its effective learning rate is ${way} by this`);
  }
  if (
    name === "batch" &&
    value === 1 &&
    state.mode === "training" &&
    state.norms.includes("batch")
  ) {
    parts.push(
      "with one example, batch norm outputs only its bias; the loss shown takes mean and variance from all of its 100 examples",
    );
  }
  return `From update ${now.update} on ${what}; ${parts.join("; ")}.`;
}

/** Return which networks diverged, in words; "" if none did.
 * @param {Network[]} networks of one normalizer */
function divergence(networks) {
  const lost = networks.filter(({ diverged }) => diverged);
  if (!lost.length) return "";
  const first = lost
    .map(({ diverged }) => diverged)
    .reduce((a, b) => (b && a && b.update < a.update ? b : a));
  const which = lost.length === networks.length ? "all" : `${lost.length} of ${networks.length}`;
  return `${which} diverged at update ${first?.update}, learning rate ${digits(first?.rate ?? NaN)}`;
}

/** Return the lines of Python that repeat a run.
 * @param {Run} run */
function python(run) {
  const words = (value) =>
    JSON.stringify(value).replace(
      /\b(true|false)\b/g,
      (word) => word[0].toUpperCase() + word.slice(1),
    );
  const { shown, speed, playing, simple, ...start } = run.start;
  return TEMPLATE.replace("start = {}", () => `start = ${words(start)}`)
    .replace("changes = []", () => `changes = ${words(run.changes)}`)
    .replace("updates = 0", () => `updates = ${run.updates}`);
}
