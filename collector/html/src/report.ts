// What the page was given: the report, which is the JSON of `gpuspy report --json` (collector/schema/report.schema.json), what
// the terminal says of it, and the timeline's description.

import { cut, plain } from './dom';

/** A number whose truth is in [lo, hi]. */
export interface Estimate {
  value: number;
  lo: number;
  /** Null: it may be any. */
  hi: number | null;
  kind: string;
}

/** The report's JSON. Its parts are read by path, so that each number on the page is one of it. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export interface About {
  version: string;
  /** What prints the report, and what does so of a part of the time, whose options are added. */
  commands: { report: string; of_part: string };
  sentences: {
    warnings: string[];
    /** Which ranks did not end well. */
    endings: string[];
    about: string[];
    /** How each process ended, in the order of the report's processes. */
    outcomes: string[];
    nothing: string | null;
    ranks: string[];
    coverage: string[];
  };
  /** What causes of idle time are called. */
  causes: Record<string, string>;
}

export interface Manifest {
  processes: { pid: number | null; rank: number | null; machine: number; clock_off_by_ns: number }[];
  streams: { process: number; device: number | null; context: number; stream: number }[];
  threads: { process: number; tid: number | null; is_of_process: boolean }[];
  names: {
    operations: { kind: string; name: string | null; short: string | null; host_memory: string | null }[];
    apis: string[];
    lines: string[];
    reasons: string[];
    ranges: string[];
    shapes: number[][];
  };
  left_out: { untimed: Record<string, number>; off_the_line: number };
  tables: Record<string, TableShape>;
}

export interface TableShape {
  rows: number;
  slices: number;
  bin_ns: number | null;
  columns: string[];
}

function read<T>(id: string): T {
  return JSON.parse(document.getElementById(id)?.textContent ?? 'null') as T;
}

export const report = read<Json>('data-report');
export const about = read<About>('data-about');
export const manifest = read<Manifest>('data-timeline');

/** What the report has at a path such as `kernels.0.total_ns`. */
export function at(path: string): Json {
  let value: Json = report;
  for (const key of path.split('.')) {
    if (value === null || typeof value !== 'object') return null;
    value = (value as Record<string, Json>)[key] ?? null;
  }
  return value;
}

export function list(path: string): Json[] {
  const value = at(path);
  return Array.isArray(value) ? value : [];
}

export function text(path: string): string | null {
  const value = at(path);
  return typeof value === 'string' ? value : null;
}

/** A number, or the best value of an estimate. */
export function value(path: string): number | null {
  const found = at(path);
  if (typeof found === 'number') return found;
  return isEstimate(found) ? (found as unknown as Estimate).value : null;
}

export function isEstimate(value: Json): boolean {
  return value !== null && typeof value === 'object' && 'value' in value && 'lo' in value;
}

const shorts = new Map(manifest.names.operations.map((one) => [one.name, one.short]));
/** Names that are longer than a page has them: where two dots are, something is left out. */
const cuts = manifest.names.operations.filter((one) => (one.name?.length ?? 0) >= 300);

/** A kernel's name as tables have it: different names stay different. */
export function short(kernel: string): string {
  const name = plain(kernel);
  const isCutOf = ({ name: shown }: { name: string | null }) => {
    const dots = (shown ?? '').lastIndexOf('..');
    return dots > 0 && name.startsWith((shown ?? '').slice(0, dots)) && name.endsWith((shown ?? '').slice(dots + 2));
  };
  return shorts.get(name) ?? cuts.find(isCutOf)?.short ?? cut(name, 64);
}
