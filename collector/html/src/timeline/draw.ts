// Draws the lanes of the timeline into a canvas. Slices that are narrower than a pixel share it: it is as dense as they fill it.

import { manifest } from '../report';
import { cut, plain } from '../dom';
import { moment } from '../units';
import type { Data } from './data';
import { type Lane, nameOf } from './lanes';

export interface Selection {
  lane: number;
  /** The position in the lane's order. */
  at: number;
}

export interface Scene {
  data: Data;
  lanes: Lane[];
  /** The visible time. */
  from: number;
  to: number;
  /** How far the lanes are scrolled. */
  scrolled: number;
  width: number;
  height: number;
  selected: Selection | null;
  /** Of a search: which names of each kind match; null = no search. */
  matching: Record<string, boolean[]> | null;
}

export const RULER = 30;
const FONT = '11px system-ui, sans-serif';
/** About how wide a character is. */
const CHARACTER = 6;

/** The width of the labels at the left. */
export function gutter(width: number): number {
  return width < 600 ? 84 : 150;
}

export function x(scene: Scene, time: number): number {
  const left = gutter(scene.width);
  return left + ((time - scene.from) / (scene.to - scene.from)) * (scene.width - left);
}

export function timeAt(scene: Scene, position: number): number {
  const left = gutter(scene.width);
  return scene.from + ((position - left) / (scene.width - left)) * (scene.to - scene.from);
}

/** The first position in a lane's order whose slice reaches to a moment. */
export function first(lane: Lane, time: number): number {
  let [low, high] = [0, lane.order.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((lane.reach[middle] as number) < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

export type Colors = Record<string, string>;

export function colors(element: Element): Colors {
  const style = getComputedStyle(element);
  const names = ['ink', 'dim', 'line', 'paper', 'band', 'compute', 'compute2', 'compute3', 'graph', 'comm', 'copy', 'copy2', 'fill', 'call', 'wait', 'memory', 'launch', 'range', 'range2', 'select'];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

const kernelColors = ['compute', 'compute2', 'compute3'];
const operationColors: Record<string, string> = {
  communication: 'comm',
  graph: 'graph',
  HtoD: 'copy',
  DtoH: 'copy2',
  DtoD: 'copy',
  HtoH: 'copy',
  PtoP: 'copy2',
  memset: 'fill',
};

function colorOf(lane: Lane, at: number): string {
  const name = lane.slices.name[at] as number;
  if (lane.kind === 'stream') return operationColors[manifest.names.operations[name]?.kind ?? ''] ?? (kernelColors[name % 3] as string);
  if (lane.kind === 'calls') return callColor(manifest.names.apis[name] ?? '');
  if (lane.kind === 'steps') return name % 2 === 0 ? 'range' : 'range2';
  return name % 2 === 0 ? 'range' : 'range2';
}

function callColor(api: string): string {
  if (/Synchronize|Query/.test(api)) return 'wait';
  if (/Launch/.test(api)) return 'launch';
  if (/Memcpy|Memset/.test(api)) return 'copy';
  if (/Malloc|Alloc|Free|MemPool/.test(api)) return 'memory';
  return 'call';
}

export function draw(context: CanvasRenderingContext2D, scene: Scene, color: Colors): void {
  const { width, height, lanes } = scene;
  const left = gutter(width);
  context.clearRect(0, 0, width, height);
  context.font = FONT;
  context.textBaseline = 'middle';
  ruler(context, scene, color);
  context.save();
  context.beginPath();
  context.rect(0, RULER, width, height - RULER);
  context.clip();
  lanes.forEach((lane, index) => {
    const top = RULER + lane.top - scene.scrolled;
    if (top + lane.height < RULER || top > height) return;
    label(context, lane, top, left, color);
    if (lane.kind === 'process') return uncertainty(context, scene, lane, top, color);
    context.fillStyle = color.band as string;
    context.fillRect(left, top, width - left, lane.height);
    context.save();
    context.beginPath();
    context.rect(left, top, width - left, lane.height);
    context.clip();
    slices(context, scene, lane, top, color, scene.selected?.lane === index ? scene.selected.at : -1);
    context.restore();
  });
  connection(context, scene, color);
  context.restore();
}

/** Draws the axis of time, and which part of the run is visible. */
function ruler(context: CanvasRenderingContext2D, scene: Scene, color: Colors): void {
  const { from, to, width, height } = scene;
  const left = gutter(width);
  const wanted = ((to - from) / (width - left)) * 110;
  const power = 10 ** Math.floor(Math.log10(wanted));
  const step = Math.max(1, ([1, 2, 5, 10].find((n) => n * power >= wanted) ?? 10) * power);
  context.strokeStyle = color.line as string;
  context.fillStyle = color.dim as string;
  context.lineWidth = 1;
  context.beginPath();
  for (let time = Math.ceil(from / step) * step; time <= to; time += step) {
    const at = Math.round(x(scene, time)) + 0.5;
    context.moveTo(at, RULER - 8);
    context.lineTo(at, height);
    const written = moment(time, step);
    if (at + written.length * CHARACTER < width) context.fillText(written, at + 3, RULER - 13);
  }
  context.stroke();
}

function label(context: CanvasRenderingContext2D, lane: Lane, top: number, left: number, color: Colors): void {
  const isHead = lane.kind === 'process';
  context.fillStyle = (isHead ? color.ink : color.dim) as string;
  context.font = isHead ? `600 ${FONT}` : FONT;
  context.fillText(cut(plain(lane.label), Math.floor((left - 8) / CHARACTER)), 2, top + Math.min(lane.height / 2, 10) + 1);
  context.font = FONT;
}

/** How far operations of a process may be from where they are drawn, as the clocks are known: to scale, at its head. */
function uncertainty(context: CanvasRenderingContext2D, scene: Scene, lane: Lane, top: number, color: Colors): void {
  const off = manifest.processes[lane.process]?.clock_off_by_ns ?? 0;
  const left = gutter(scene.width);
  const half = (off / (scene.to - scene.from)) * (scene.width - left);
  const middle = top + lane.height / 2;
  context.fillStyle = color.dim as string;
  const from = left + 6;
  const length = Math.max(1, Math.min(2 * half, scene.width - left - 12));
  context.fillRect(from, middle, length, 1);
  context.fillRect(from, middle - 4, 1, 9);
  context.fillRect(from + length, middle - 4, 1, 9);
  context.fillText(plain(lane.remark), Math.min(from + length + 6, scene.width - 190), middle + 1);
}

/** The most slices of which each has its uncertainty drawn. */
const MOST_BOUNDS = 400;

function slices(context: CanvasRenderingContext2D, scene: Scene, lane: Lane, top: number, color: Colors, selected: number): void {
  const { order, slices: of, depth } = lane;
  const { from, to, matching, width } = scene;
  const left = gutter(width);
  const scale = (width - left) / (to - from);
  const shown = matching?.[lane.kind];
  const rowHeight = depth ? 16 : lane.height;
  const [begin, end, busy] = [of.begin, of.end, of.busy];
  const wide: number[] = [];
  // The pixel that is being filled, how much of it, and with what most.
  let [pixel, filled, most, tone, level, dimmed] = [-1, 0, 0, '', 0, true];
  const flush = () => {
    if (pixel < 0) return;
    context.globalAlpha = (dimmed ? 0.15 : 1) * (0.3 + 0.7 * Math.min(1, filled));
    context.fillStyle = color[tone] as string;
    context.fillRect(pixel, top + level * 16 + 1, 1, rowHeight - 2);
    pixel = -1;
  };
  for (let index = first(lane, from); index < order.length; index += 1) {
    const at = order[index] as number;
    const start = begin[at] as number;
    if (start > to) break;
    const stop = end[at] as number;
    if (stop < from) continue;
    const isOut = shown !== undefined && !shown[of.name[at] as number];
    const [x0, x1] = [left + (start - from) * scale, left + (stop - from) * scale];
    const row = depth ? (depth[index] as number) : 0;
    const part = busy ? (busy[at] as number) / (stop - start) : 1;
    if (x1 - x0 >= 1.5) {
      flush();
      context.globalAlpha = (isOut ? 0.15 : 1) * (busy ? 0.2 + 0.8 * Math.min(1, part) : 1);
      context.fillStyle = color[colorOf(lane, at)] as string;
      // Neighbours stay apart where there is room.
      const space = busy || x1 - x0 < 4 ? 0 : 0.75;
      context.fillRect(Math.max(x0, left - 1), top + row * 16 + 1, Math.max(1, Math.min(x1, width + 1) - Math.max(x0, left - 1) - space), rowHeight - 2);
      if (x1 - x0 > 30 && !busy) wide.push(index);
    } else {
      const here = Math.floor(x0);
      if (here !== pixel || row !== level) {
        flush();
        [pixel, filled, most, level, dimmed] = [here, 0, -1, row, true];
      }
      const fill = Math.max((x1 - x0) * part, 0.02);
      filled += fill;
      if (!isOut) dimmed = false;
      if (fill > most) [most, tone] = [fill, colorOf(lane, at)];
    }
  }
  flush();
  context.globalAlpha = 1;
  for (const index of wide) inscribe(context, scene, lane, index, top, rowHeight, color);
  if (wide.length <= MOST_BOUNDS && lane.kind === 'stream') wide.forEach((index) => bounds(context, scene, order[index] as number, top, lane.height, color));
  if (selected >= 0) {
    const at = order[selected] as number;
    const [x0, x1] = [x(scene, begin[at] as number), x(scene, end[at] as number)];
    context.strokeStyle = color.select as string;
    context.lineWidth = 2;
    const row = depth ? (depth[selected] as number) : 0;
    context.strokeRect(x0 - 1, top + row * 16 + 1, Math.max(3, x1 - x0 + 1), rowHeight - 2);
    if (lane.kind === 'stream') bounds(context, scene, at, top, lane.height, color);
  }
}

function inscribe(context: CanvasRenderingContext2D, scene: Scene, lane: Lane, index: number, top: number, height: number, color: Colors): void {
  const at = lane.order[index] as number;
  const left = gutter(scene.width);
  const x0 = Math.max(left, x(scene, lane.slices.begin[at] as number));
  const x1 = Math.min(scene.width, x(scene, lane.slices.end[at] as number));
  const room = Math.floor((x1 - x0 - 8) / CHARACTER);
  if (room < 3) return;
  const row = lane.depth ? (lane.depth[index] as number) : 0;
  context.fillStyle = color.paper as string;
  const name = plain(nameOf(lane, at));
  context.fillText(name.length > room ? `${name.slice(0, room - 2)}..` : name, x0 + 4, top + row * 16 + height / 2 + 0.5);
}

/** Where an operation may have begun and ended, as far as that is wider than a pixel. */
function bounds(context: CanvasRenderingContext2D, scene: Scene, at: number, top: number, height: number, color: Colors): void {
  const each = scene.data.operations.each;
  if (!each) return;
  context.fillStyle = color.ink as string;
  const middle = top + height - 4;
  for (const [lo, hi] of [
    [each.startLo()[at], each.startHi()[at]],
    [each.finishLo()[at], each.finishHi()[at]],
  ]) {
    const [x0, x1] = [x(scene, lo as number), x(scene, hi as number)];
    if (x1 - x0 < 2) continue;
    context.globalAlpha = 0.75;
    context.fillRect(x0, middle, x1 - x0, 1);
    context.fillRect(x0, middle - 2, 1, 5);
    context.fillRect(x1 - 1, middle - 2, 1, 5);
    context.globalAlpha = 1;
  }
}

/** Draws a line from the call of the selected operation to it. */
function connection(context: CanvasRenderingContext2D, scene: Scene, color: Colors): void {
  const { selected, lanes, data } = scene;
  const lane = selected && lanes[selected.lane];
  if (!selected || lane?.kind !== 'stream' || !data.operations.each) return;
  const at = lane.order[selected.at] as number;
  const call = data.operations.each.call()[at] as number;
  const thread = data.calls.row[call];
  const other = lanes.find((one) => one.kind === 'calls' && one.slices.row[one.order[0] as number] === thread);
  if (call < 0 || !other) return;
  const place = (one: Lane, time: number): [number, number] => [x(scene, time), RULER + one.top - scene.scrolled + one.height / 2];
  context.strokeStyle = color.select as string;
  context.lineWidth = 1.5;
  context.setLineDash([4, 3]);
  context.beginPath();
  context.moveTo(...place(other, data.calls.begin[call] as number));
  context.lineTo(...place(lane, data.operations.begin[at] as number));
  context.stroke();
  context.setLineDash([]);
}
