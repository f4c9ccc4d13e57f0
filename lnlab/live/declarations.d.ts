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
  /** What a change is called, with VALUE and LAYER: of any value, of the default, of 1. */
  said?: string;
  neutral?: string;
  single?: string;
  /** What else is to be said of batch norm with a value of 1. */
  alone?: string;
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

/** What a layer does with its pre-activations. */
interface Kind {
  norm: Norm;
  activation: "tanh" | "relu" | "linear";
}

/** What the reader changed: the number of updates made before, and the new settings. */
type Change = [number, Partial<State>];

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

/**
 * Examples: the first `train` are trained on, the rest is for measuring. There are 300 points and
 * 100, or 500 digits of 8 x 8 pixels and 100, the same in every run. A point of the plane is
 * x, y and 1: with x and y alone, layer norm could not see how far from the middle a point is.
 */
interface Examples {
  x: Float64Array;
  y: Int32Array;
  inputs: number;
  classes: number;
  train: number;
}

/** What a picture is drawn with, in CSS pixels. */
interface Canvas {
  context: CanvasRenderingContext2D;
  width: number;
  height: number;
  /** Return a colour of the style sheet. */
  color: (name: string) => string;
  /** Write a text in the quiet colour. */
  write: (
    text: string,
    x: number,
    y: number,
    align?: CanvasTextAlign,
    baseline?: CanvasTextBaseline,
  ) => void;
}

/** A picture of values. */
type Picture<Values extends any[]> = (canvas: Canvas, ...values: Values) => void;

/**
 * Clears a canvas and draws a picture of values on it; nothing where it has no size, as in a part
 * of the page that is closed.
 */
type Draw = <Values extends any[]>(
  element: HTMLCanvasElement,
  picture: Picture<Values>,
  ...values: Values
) => void;

/** Points of the plane: x, y, 1 of each, from -1.1 to 1.1, and their classes. */
interface Labelled {
  x: ArrayLike<number>;
  y: ArrayLike<number>;
}

/** A curve, and the name of its colour. */
interface Series {
  name: string;
  points: Point[];
}

/** Examples to compute a loss of, and where batch norm takes its mean and variance from. */
interface Cases {
  x: Float64Array;
  y: Int32Array;
  how: Statistics;
}

/** A moment of a curve. */
interface Point {
  x: number;
  mid: number;
  low: number;
  high: number;
}

/** What is measured at one moment, by normalizer. */
interface Measured {
  update: number;
  /** By seed, on the examples that are not trained on. */
  losses: number[][];
  /** Means over the seeds. */
  layers: { gradient: number; angle: number; rate: number }[][];
}

/** What an experiment compares, of the i-th normalizer, and how. */
type Comparison = (i: number) => [number, number, (a: number, b: number) => boolean];

/**
 * How an experiment ended, from what was measured before the change, right after it, and later: for
 * each part, and in it for each normalizer, whether it is so, and the numbers.
 */
type Answer = (
  experiment: Experiment,
  before: Measured,
  now: Measured,
  later: Measured,
) => { yes: boolean; numbers: string }[];
