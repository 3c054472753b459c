// What is known of the slice that was chosen: its interval, its call, its line, and what it waited for.

import { type Child, cut, h, name, place, plain } from '../dom';
import { about, at as inReport, list, manifest } from '../report';
import { bytes, count, duration, number, percent, plural } from '../units';
import type { Data, Operations } from './data';
import { isOpen, type Lane, nameOf, operationName } from './lanes';

/** From this on, ns, an operation is late: to start one takes less. */
const LATE = 20_000;

/** A time that the report's JSON does not have; `--operations` has those of operations. */
function ns(value: number, key?: string): HTMLElement {
  return h('span', { class: 'n', 'data-own': true, 'data-key': key, 'data-ns': value }, duration(value));
}

function when(value: number, lo: number, hi: number, key: string): Child {
  const wide = (hi - lo) * 5 > value && key === 'duration_ns' ? '~' : '';
  const shown = h('span', { class: 'n', 'data-own': true, 'data-key': key, 'data-ns': value }, wide + exact(value, key));
  if (hi === lo) return shown;
  return h('span', {}, shown, ' ', h('span', { class: 'dim' }, `(${exact(lo, key)} .. ${exact(hi, key)})`));
}

/** A duration, or a moment to the microsecond. */
function exact(value: number, key: string): string {
  return key === 'duration_ns' ? duration(value) : `${(value / 1e6).toFixed(3)} ms`;
}

function row(head: string, ...children: Child[]): HTMLElement {
  return h('div', {}, h('dt', {}, head), h('dd', {}, ...children));
}

/** How busy a bin was. Slices that lie inside each other, such as nested ranges, add up to more than its time. */
function busyFor(busy: number, binNs: number): string {
  if (busy <= binNs) return `${percent(busy, binNs)} of it, mostly or often with this`;
  return `${number(busy / binNs)} inside each other on average, mostly or often with this`;
}

export function detail(data: Data, lane: Lane, position: number): HTMLElement {
  const at = lane.order[position] as number;
  const { begin, end, busy, inside, binNs } = lane.slices;
  const title = h('h3', {}, lane.kind === 'steps' ? `step ${nameOf(lane, at)}` : name(nameOf(lane, at), 120));
  const from = begin[at] as number;
  const rows: HTMLElement[] = [];
  const whose = manifest.processes[lane.process];
  if (whose && manifest.processes.length > 1) {
    const pid = `${whose.pid ?? '?'}`;
    rows.push(whose.rank === null ? row('process', pid) : row('rank', `${whose.rank}, process ${pid}`));
  }
  if (binNs !== null && busy && inside) {
    rows.push(row('in this time', ns(binNs), ` from ${exact(from, '')}`));
    rows.push(row('busy', busyFor(busy[at] as number, binNs)));
    rows.push(row('begin in it', plural(inside[at] as number, 'slice', 'slices')));
    rows.push(row('one by one', h('code', {}, `${about.commands.of_part} --since ${Math.max(0, from / 1e9).toFixed(6)}s --until ${((end[at] as number) / 1e9).toFixed(6)}s --html page.html`)));
  } else if (lane.kind === 'stream' && data.operations.each) {
    rows.push(...operation(data, data.operations, data.operations.each, lane, position));
  } else {
    rows.push(row(lane.kind === 'calls' ? 'in the call' : 'length', isOpen(lane, position) ? 'not known: no step follows' : ns((end[at] as number) - from)));
    rows.push(row('began', exact(from, '')));
    if (lane.kind === 'calls') rows.push(...call(data, at));
  }
  const kind = lane.kind === 'stream' ? 'operation' : lane.kind;
  return h('div', { class: 'detail', 'data-kind': kind, 'data-at': at, 'data-own': true }, title, h('dl', {}, ...rows));
}

function operation(data: Data, of: Operations, each: NonNullable<Operations['each']>, lane: Lane, position: number): HTMLElement[] {
  const at = lane.order[position] as number;
  const get = (column: Float64Array | Int32Array) => column[at] as number;
  const { process, stream, device } = manifest.streams[get(of.row)] as (typeof manifest.streams)[number];
  const known = manifest.names.operations[get(of.name)];
  const rows = [
    row('on the GPU', when(get(each.took()), get(each.tookLo()), get(each.tookHi()), 'duration_ns')),
    row('began', when(get(of.begin), get(each.startLo()), get(each.startHi()), 'start_ns')),
    row('ended', when(get(of.end), get(each.finishLo()), get(each.finishHi()), 'finish_ns')),
  ];
  const amount = get(each.amount());
  if (known?.kind === 'kernel' || known?.kind === 'communication') {
    if (known.name && known.name !== known.short) rows.push(row('kernel', h('span', { class: 'name' }, plain(known.name))));
    const shape = manifest.names.shapes[get(each.shape())];
    if (shape) {
      const [gx, gy, gz, bx, by, bz, shared] = shape;
      rows.push(row('launch', `grid ${gx} × ${gy} × ${gz}, block ${bx} × ${by} × ${bz}${shared ? `, ${bytes(shared)} shared` : ''}`));
    }
  } else if (known?.kind === 'graph') rows.push(row('ran', plural(amount, 'kernel', 'kernels')));
  else if (known?.kind === 'run' || known?.kind === 'burst') rows.push(row('timed together', plural(amount, 'launch', 'launches')));
  else {
    const rate = get(each.took()) > 0 && get(each.tookHi()) - get(each.tookLo()) < get(each.took()) / 5 ? `, ${(amount / get(each.took())).toFixed(1)} GB/s` : '';
    rows.push(row('moved', bytes(amount) + rate));
  }
  rows.push(row('stream', `${stream}${device === null ? '' : ` of GPU ${device}`}`));
  const number = get(each.call());
  if (number >= 0) {
    const begin = data.calls.begin[number] as number;
    rows.push(row('call', name(manifest.names.apis[data.calls.name[number] as number] ?? '?'), ' took ', ns((data.calls.end[number] as number) - begin), `, began at ${exact(begin, '')}`), ...call(data, number));
  }
  const waited = waits(data, of, each, lane, position);
  if (waited.length > 0) rows.push(row('waited', h('ul', {}, ...waited.map((one) => h('li', {}, ...one)))));
  const pid = manifest.processes[process]?.pid;
  rows.push(row('correlation', h('span', { 'data-key': 'correlation', 'data-ns': get(each.correlation()), 'data-pid': pid ?? undefined }, `${get(each.correlation())}`)));
  return rows;
}

/** The line of a call, and why its operation has no time. */
function call(data: Data, number: number): HTMLElement[] {
  const each = data.calls.each;
  if (!each) return [];
  const rows: HTMLElement[] = [];
  const line = each.line()[number] as number;
  if (line >= 0) rows.push(row('line', place(manifest.names.lines[line])));
  const { tid } = manifest.threads[data.calls.row[number] as number] ?? {};
  if (tid) rows.push(row('thread', `${tid}`));
  const calls = each.calls()[number] as number;
  if (calls > 1) rows.push(row('calls', `${count(calls)} in a row`));
  const why = manifest.names.reasons[each.untimed()[number] as number];
  if (why) rows.push(row('no GPU time', why === 'captured' ? 'captured: it became a node of a graph' : why.replaceAll('_', ' ')));
  return rows;
}

/** What an operation waited for, as far as its stream's order, its call and the report say. Best values are compared. */
function waits(data: Data, of: Operations, each: NonNullable<Operations['each']>, lane: Lane, position: number): Child[][] {
  const at = lane.order[position] as number;
  const begin = of.begin[at] as number;
  const said: Child[][] = [];
  const number = each.call()[at] as number;
  const called = number >= 0 ? (data.calls.begin[number] as number) : null;
  const returned = number >= 0 ? (data.calls.end[number] as number) : null;
  const before = position > 0 ? (lane.order[position - 1] as number) : null;
  const ended = before === null ? null : (of.end[before] as number);
  if (before !== null && ended !== null && called !== null && ended > called) {
    said.push(['in the queue behind ', name(operationName(of.name[before] as number)), ', from its call until that ended: ', ns(Math.max(0, ended - called))]);
  } else if (called !== null && ended !== null && begin - ended > 0) {
    said.push(['not in the queue: when it was launched, its stream had been empty for ', ns(called - ended)]);
  }
  // Its turn had come: its call was over, and so was what its own stream had before it.
  const turn = returned === null ? null : Math.max(returned, ended ?? 0);
  if (turn !== null && (each.startLo()[at] as number) - turn > LATE) {
    said.push(['from then on for work of another stream, or for its start: ', ns(begin - turn)]);
  }
  const process = manifest.processes[manifest.streams[of.row[at] as number]?.process ?? 0];
  list('gaps.largest').forEach((_, index) => {
    const path = `gaps.largest.${index}`;
    if (inReport(`${path}.after.correlation`) !== each.correlation()[at] || inReport(`${path}.pid`) !== process?.pid || inReport(`${path}.rank`) !== process?.rank) return;
    const causes = list(`${path}.causes`).map((_, one) => {
      const cause = String(inReport(`${path}.causes.${one}.cause`));
      return `${about.causes[cause] ?? cause} ${duration(Number(inReport(`${path}.causes.${one}.total_ns`)))}`;
    });
    said.push(['it ended one of the longest gaps of the GPU; meanwhile the host was: ', cut(causes.join(', '), 300)]);
  });
  return said;
}
