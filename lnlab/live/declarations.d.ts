// What bundle.py puts in front of the scripts.

/** state.json: the settings, their defaults and what they can be. */
declare const FIELDS: Record<
  string,
  { default: any; choices: any[]; from: number; to: number; live?: boolean }
>;

/** 600 digits: the label of each, then its 64 pixels, A for 0 to Q for 16. */
declare const DIGITS: string;

/** template.py: the lines of Python that repeat a run. */
declare const TEMPLATE: string;
