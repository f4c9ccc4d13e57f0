// What bundle.py puts in front of the scripts, and types that they share.

/** The settings (state.json): what each starts with, what it can be, and its words. */
declare const FIELDS: Record<string, Field>;

/** The experiments (experiments.json). */
declare const EXPERIMENTS: Experiment[];

/** Points of the datasets in the plane, of class 0 and 1 in turns. */
declare const POINTS: Record<string, [number, number][]>;

/** 600 digits: the label of each, then its 64 pixels, A for 0 to Q for 16. */
declare const DIGITS: string;

/** The lines of Python that repeat a run (template.py). */
declare const TEMPLATE: string;

/** The elements of the page (markup.html). */
declare const MARKUP: string;

/** The style sheet (style.css). */
declare const STYLE: string;

interface Field {
  default: any;
  choices: any[];
  from: number;
  to: number;
  step?: number;
  live?: boolean;
  label: string;
  names?: Record<string, string>;
}

interface Experiment {
  title: string;
  question: string;
  state: Partial<State>;
  before: number;
  change: Partial<State>;
  after: number;
  parts: { label: string; kind: string }[];
  why: string;
}

type Norm = "none" | "batch" | "layer" | "rms" | "weight";

/**
 * Where batch norm takes its mean and variance from: the examples at hand (which "remember" also
 * adds to the running averages), the running averages, or the last forward pass.
 */
type Statistics = "batch" | "remember" | "running" | "last";

/** Everything that can be set. */
interface State {
  dataset: string;
  norms: Norm[];
  depth: number;
  units: number;
  activation: "tanh" | "relu";
  optimizer: "sgd" | "adam";
  seeds: number;
  layer: number;
  weights: number;
  scale: number;
  shift: number;
  rate: number;
  momentum: number;
  decay: number;
  batch: number;
  mode: "training" | "evaluation";
  shown: number;
  speed: number;
  playing: boolean;
  simple: boolean;
}

/** Examples: the first `train` are trained on, the rest is for measuring. */
interface Examples {
  x: Float64Array;
  y: Int32Array;
  inputs: number;
  classes: number;
  train: number;
}

/** A moment of a curve. */
interface Point {
  x: number;
  mid: number;
  low: number;
  high: number;
}
