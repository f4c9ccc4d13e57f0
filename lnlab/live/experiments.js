// What is computed of a run for the page: measurements, answers of experiments, sentences.

/** Return the mean of the finite numbers; NaN where there is none. */
function mean(/** @type {number[]} */ values) {
  const finite = values.filter(Number.isFinite);
  return finite.reduce((sum, value) => sum + value, 0) / finite.length;
}

/** Measure all networks on the examples that are not trained on. */
function measure(/** @type {Run} */ run) {
  const { state, updates } = run;
  const cases = run.measured();
  const losses = run.networks.map((networks) =>
    networks.map((network) => (network.diverged ? NaN : network.loss(cases))),
  );
  const power = state.optimizer === "sgd" ? 2 : 1;
  const layers = run.networks.map((networks, i) => {
    const ratio = (layer) => state.rate / euclidean(layer.W.value) ** power;
    const there = networks.filter(({ diverged }) => !diverged);
    return networks[0].layers.map((_, l) => {
      const rated = l < state.depth && cancelsLength(state, state.norms[i]);
      /** @type {(value: (layer: Layer) => number) => number} */
      const over = (value) => mean(there.map((network) => value(network.layers[l])));
      return {
        gradient: updates ? over((layer) => layer.gradientNorm) : NaN,
        angle: updates ? over((layer) => layer.angle) : NaN,
        rate: rated ? over(ratio) : NaN,
      };
    });
  });
  return { update: updates, losses, layers };
}

/** Return whether a normalizer makes the output independent of the length of the weights; only
 * then is there an effective learning rate. Running averages do not follow the weights. */
function cancelsLength(/** @type {State} */ state, /** @type {Norm} */ norm) {
  return norm !== "none" && (norm !== "batch" || state.mode === "training");
}

/** @type {Answer} */
const answer = (experiment, before, now, later) => {
  const twin = new Run(read(experiment.state).state);
  for (let k = 0; k < later.update; k++) twin.step();
  const without = measure(twin);
  const { layer } = twin.state;
  const angle = (at, i) => at.layers[i][layer - 1].angle;
  /** @type {Record<string, Comparison>} */
  const kinds = {
    "loss now": (i) => [mean(before.losses[i]), mean(now.losses[i]), differs],
    "loss later": (i) => [mean(without.losses[i]), mean(later.losses[i]), differs],
    turns: (i) => [angle(before, i), angle(later, i), (_, b) => b > 1e-6],
    "turns more": (i) => [angle(without, i), angle(later, i), (a, b) => b > 1.5 * a],
  };
  return experiment.parts.flatMap(({ kind }) => {
    const unit = kind.startsWith("turns") ? "°" : "";
    const compared = kind.endsWith("later") || kind.endsWith("more");
    return now.losses.map((_, i) => {
      const [a, b, test] = kinds[kind](i);
      const [from, to] = [digits(a) + unit, digits(b) + unit];
      const numbers = compared ? `${to} (${from} without the change)` : `${from} → ${to}`;
      return { yes: test(a, b), numbers };
    });
  });
};

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

const LIST = new Intl.ListFormat("en-GB"); // "a, b and c"

/** Return the word for what a setting can be. */
const word = (name, value) => FIELDS[name].names?.[value] ?? String(value);

/** Return the sentence of what a change of one setting did at once; `state` has it. */
function sentence(state, name, /** @type {Measured} */ before, /** @type {Measured} */ now) {
  const field = FIELDS[name];
  const value = /** @type {any} */ (state)[name];
  const shown = field.names?.[value] ?? digits(value);
  const neutral = value === field.default;
  const { label, said = `the ${startSmall(label)} is VALUE` } = field;
  const changed = (neutral && field.neutral) || (value === 1 && field.single) || said;
  const what = changed.replace("LAYER", String(state.layer)).replace("VALUE", shown);
  const names = state.norms.map((norm) => word("norms", norm));
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
    if (still.length) parts.push(`not with ${LIST.format(still)}`);
  } else if (still.length) parts.push("no loss changed at once by more than 1 %");
  const gone = names.filter((_, i) => lost[i]);
  if (gone.length) parts.push(`diverged before: ${LIST.format(gone)}`);
  if (name === "weights" && !neutral) {
    const factor = value ** (state.optimizer === "sgd" ? 2 : 1);
    const way = factor > 1 ? `${digits(factor)} times lower` : `${digits(1 / factor)} times higher`;
    const rated = names.filter((_, i) => cancelsLength(state, state.norms[i]));
    parts.push(`this makes the effective learning rate of ${LIST.format(rated)} ${way}`);
  }
  const single = value === 1 && state.mode === "training" && state.norms.includes("batch");
  if (single && field.alone) parts.push(field.alone);
  return `From update ${now.update} on ${what}; ${parts.join("; ")}.`;
}

/** Return what an experiment sets before its first update, in words. */
function settingsInWords(/** @type {Experiment} */ experiment, /** @type {Norm[]} */ shownBefore) {
  const { norms } = read(experiment.state).state;
  const { norms: _, ...values } = experiment.state;
  const missing = (all, some) => all.filter((norm) => !some.includes(norm));
  const named = (all) => LIST.format(all.map((norm) => word("norms", norm)));
  const added = missing(norms, shownBefore);
  const removed = missing(shownBefore, norms);
  const replaced = added.length ? ` (${named(added)} in place of ${named(removed)})` : "";
  const others = Object.entries(values).map(([name, value]) => {
    return `${startSmall(FIELDS[name].label)} ${word(name, value)}`;
  });
  const parts = [named(norms) + replaced, ...others, "the defaults otherwise"];
  return `Set for this experiment: ${parts.join("; ")}. These settings remain afterwards.`;
}

/** Return a text whose first letter is small. */
function startSmall(/** @type {string} */ text) {
  return text[0].toLowerCase() + text.slice(1);
}

/** Return a sentence on networks that cannot learn with one unit in a layer; "" elsewhere. */
function constantOutputs(/** @type {State} */ { units, norms }) {
  if (units > 1 || !norms.includes("layer")) return "";
  return " With one unit in a layer, layer norm outputs only its bias.";
}

/** Return which networks of one normalizer diverged, in words; "" if none did. */
function divergence(/** @type {Network[]} */ networks) {
  const lost = networks.flatMap(({ diverged }) => diverged ?? []);
  if (!lost.length) return "";
  const { update, rate } = lost.reduce((a, b) => (b.update < a.update ? b : a));
  const which = lost.length === networks.length ? "all" : `${lost.length} of ${networks.length}`;
  return `${which} diverged at update ${update}, learning rate ${digits(rate)}`;
}

/** Return the lines of Python that repeat a run. */
function python(/** @type {Run} */ run) {
  // no setting that is left is true or false, which Python writes otherwise
  const { shown, speed, playing, simple, ...start } = run.start;
  return TEMPLATE.replace("start = {}", () => `start = ${JSON.stringify(start)}`)
    .replace("changes = []", () => `changes = ${JSON.stringify(run.changes)}`)
    .replace("updates = 0", () => `updates = ${run.updates}`);
}
