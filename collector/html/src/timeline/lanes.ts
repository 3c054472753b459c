// The rows of the timeline: of each process its steps, its streams, and its threads with their NVTX ranges.

import { manifest } from '../report';
import { duration } from '../units';
import type { Data, Slices } from './data';

export type Kind = 'process' | 'steps' | 'stream' | 'ranges' | 'calls';

export interface Lane {
  kind: Kind;
  label: string;
  /** A remark below or behind the label. */
  remark: string;
  process: number;
  slices: Slices;
  /** Its slices in the order in which they begin. */
  order: Uint32Array;
  /** For each of them the latest end up to it, so that a search finds the first that reaches into the view. */
  reach: Float64Array;
  /** Of ranges: how deep each is inside others. */
  depth: Uint8Array | null;
  deepest: number;
  height: number;
  top: number;
}

const HEIGHTS: Record<Kind, number> = { process: 26, steps: 14, stream: 26, ranges: 16, calls: 20 };
/** Ranges that are deeper are drawn at this depth. */
const DEEPEST = 12;

const EMPTY: Slices = {
  count: 0,
  row: new Int32Array(0),
  name: new Int32Array(0),
  begin: new Float64Array(0),
  end: new Float64Array(0),
  busy: null,
  inside: null,
  binNs: null,
};

export function lanes(data: Data): Lane[] {
  const { processes, streams, threads } = manifest;
  const ended = ends(data);
  const byStream = rows(data.operations, streams.length);
  const byThread = rows(data.calls, threads.length);
  const ofRanges = rows(data.ranges, threads.length);
  const all: Lane[] = [];
  const push = (kind: Kind, process: number, label: string, remark: string, slices: Slices, order: Uint32Array) => {
    if (order.length === 0 && kind !== 'process') return;
    const lane: Lane = { kind, label, remark, process, slices, order, reach: reach(slices, order), depth: null, deepest: 0, height: HEIGHTS[kind], top: 0 };
    if (kind === 'ranges' && slices.binNs === null) nest(lane);
    all.push(lane);
  };
  const order = processes.map((_, index) => index).sort((a, b) => (processes[a]?.rank ?? 0) - (processes[b]?.rank ?? 0));
  for (const process of order) {
    const { rank, pid, clock_off_by_ns: off } = processes[process] as (typeof processes)[number];
    const clock = off > 0 ? `GPU clock ± ${duration(off)} at most` : '';
    const named = rank !== null ? `rank ${rank}` : `process ${pid ?? '?'}`;
    if (processes.length > 1) push('process', process, named, clock, EMPTY, new Uint32Array(0));
    push('steps', process, 'steps', '', ...steps(data, process, ended[process] ?? 0));
    const several = new Set(streams.filter((one) => one.process === process).map((one) => one.device)).size > 1;
    streams.forEach((one, number) => {
      if (one.process !== process) return;
      const gpu = several ? `GPU ${one.device ?? '?'} · ` : '';
      push('stream', process, `${gpu}stream ${one.stream}`, processes.length > 1 ? '' : clock, data.operations, byStream[number] ?? new Uint32Array(0));
    });
    threads.forEach((one, number) => {
      if (one.process !== process) return;
      const thread = one.is_of_process ? 'started ranges' : `thread ${one.tid ?? '?'}`;
      push('ranges', process, one.is_of_process ? thread : 'NVTX ranges', thread, data.ranges, ofRanges[number] ?? new Uint32Array(0));
      push('calls', process, thread, '', data.calls, byThread[number] ?? new Uint32Array(0));
    });
  }
  let top = 0;
  for (const lane of all) {
    lane.top = top;
    top += lane.height + 2;
  }
  return all;
}

/** The slices of each row, in the order in which they begin. */
function rows(slices: Slices, count: number): Uint32Array[] {
  const sizes = new Uint32Array(count);
  for (let at = 0; at < slices.count; at += 1) (sizes[slices.row[at] as number] as number) += 1;
  const of = Array.from(sizes, (size) => new Uint32Array(size));
  const filled = new Uint32Array(count);
  for (let at = 0; at < slices.count; at += 1) {
    const row = slices.row[at] as number;
    (of[row] as Uint32Array)[filled[row] as number] = at;
    (filled[row] as number) += 1;
  }
  const { begin, end } = slices;
  const before = (a: number, b: number) => (begin[a] as number) - (begin[b] as number) || (end[b] as number) - (end[a] as number);
  for (const one of of) {
    let sorted = true;
    for (let at = 1; sorted && at < one.length; at += 1) sorted = before(one[at - 1] as number, one[at] as number) <= 0;
    // What begins together contains what ends first.
    if (!sorted) one.sort(before);
  }
  return of;
}

function reach(slices: Slices, order: Uint32Array): Float64Array {
  const reached = new Float64Array(order.length);
  let most = Number.NEGATIVE_INFINITY;
  for (let at = 0; at < order.length; at += 1) {
    most = Math.max(most, slices.end[order[at] as number] as number);
    reached[at] = most;
  }
  return reached;
}

function nest(lane: Lane): void {
  const { slices, order } = lane;
  const open: number[] = [];
  lane.depth = new Uint8Array(order.length);
  order.forEach((at, index) => {
    while (open.length > 0 && (open[open.length - 1] as number) <= (slices.begin[at] as number)) open.pop();
    const depth = Math.min(open.length, DEEPEST);
    (lane.depth as Uint8Array)[index] = depth;
    lane.deepest = Math.max(lane.deepest, depth);
    open.push(slices.end[at] as number);
  });
  lane.height = HEIGHTS.ranges * (lane.deepest + 1);
}

/** When the last operation or call of each process ended. */
function ends(data: Data): Float64Array {
  const { processes, streams, threads } = manifest;
  const ended = new Float64Array(processes.length);
  for (const [slices, rows] of [[data.operations, streams], [data.calls, threads]] as const) {
    for (let at = 0; at < slices.count; at += 1) {
      const process = rows[slices.row[at] as number]?.process ?? 0;
      ended[process] = Math.max(ended[process] as number, slices.end[at] as number);
    }
  }
  return ended;
}

function steps(data: Data, process: number, ended: number): [Slices, Uint32Array] {
  const { process: of, number, begin } = data.steps;
  const mine: number[] = [];
  of.forEach((one, at) => one === process && mine.push(at));
  const starts = Float64Array.from(mine, (at) => begin[at] as number);
  // The last step has no end that is known: it is drawn as long as the one before, if the process ran for so long.
  const begun = starts.at(-1) ?? 0;
  const last = Math.max(begun, Math.min(ended, 2 * begun - (starts.at(-2) ?? Number.NEGATIVE_INFINITY)));
  const end = starts.map((_, at) => starts[at + 1] ?? last);
  const name = Int32Array.from(mine, (at) => number[at] as number);
  const slices: Slices = { count: mine.length, row: new Int32Array(mine.length), name, begin: starts, end, busy: null, inside: null, binNs: null };
  return [slices, Uint32Array.from(mine, (_, at) => at)];
}

/** Whether a slice has no end that is known: a step lasts until the next one begins. */
export function isOpen(lane: Lane, position: number): boolean {
  return lane.kind === 'steps' && position === lane.order.length - 1;
}

/** What a slice is called. */
export function nameOf(lane: Lane, at: number): string {
  const name = lane.slices.name[at] as number;
  switch (lane.kind) {
    case 'stream':
      return operationName(name);
    case 'calls':
      return manifest.names.apis[name] ?? '?';
    case 'ranges':
      return manifest.names.ranges[name] ?? '?';
    default:
      return `${name}`;
  }
}

export function operationName(name: number): string {
  const one = manifest.names.operations[name];
  if (!one) return '?';
  return one.short ?? (one.host_memory && one.host_memory !== 'none' ? `${one.kind} ${one.host_memory}` : one.kind);
}

