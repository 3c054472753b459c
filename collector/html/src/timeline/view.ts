// The timeline as an element: a canvas that is moved and zoomed by mouse, touch and keyboard, a search, and what was chosen.

import { h, plain } from '../dom';
import { about, manifest } from '../report';
import { count, duration, plural } from '../units';
import type { Data } from './data';
import { detail } from './detail';
import { type Colors, colors, draw, first, gutter, RULER, type Scene, timeAt, x } from './draw';
import { isOpen, type Lane, lanes as lanesOf, nameOf, operationName } from './lanes';

/** The most that the lanes take of the page, pixels; beyond it they scroll. */
const TALLEST = 520;
/** The shortest time that can be shown, ns. */
const SHORTEST = 100;

export class Timeline {
  readonly element: HTMLElement;
  private readonly canvas = h('canvas', {
    tabindex: 0,
    role: 'application',
    'aria-label': 'timeline: arrows move and choose rows, plus and minus zoom, comma and full stop choose slices, Enter zooms to one, 0 shows all',
  });
  private readonly scroller = h('div', { class: 'scroller' });
  private readonly hint = h('div', { class: 'hint', hidden: true, 'data-own': true });
  private readonly chosen = h('div', { class: 'chosen', 'aria-live': 'polite' });
  private readonly said = h('span', { class: 'dim', role: 'status', 'data-own': true });
  private readonly search = h('input', { type: 'search', placeholder: 'search names', 'aria-label': 'search the timeline' });
  private readonly scene: Scene;
  private readonly whole: [number, number];
  private color: Colors = {};
  private asked = false;
  private found = -1;

  constructor(data: Data) {
    const lanes = lanesOf(data);
    this.whole = extent(lanes);
    const [from, to] = this.whole;
    this.scene = { data, lanes, from, to, scrolled: 0, width: 0, height: 0, selected: null, matching: null };
    this.element = this.build();
    this.listen();
  }

  /** Shows a time, with some space around it. */
  show(from: number, to: number): void {
    const around = Math.max((to - from) * 0.25, SHORTEST / 2);
    this.look(from - around, to + around);
  }

  /** Whether operations are there one by one, so that one of them can be shown. */
  get hasOperations(): boolean {
    return this.scene.data.operations.each !== null;
  }

  /** Shows a gap, ns long, by the operations around it. Chooses the one that ended it, if that is on the timeline: what was not timed is not. */
  showGap(pid: number | null, rank: number | null, before: number, after: number, length: number): boolean {
    const ended = this.place(pid, rank, after);
    const began = ended ?? this.place(pid, rank, before);
    if (!began) return false;
    const { index, lane, at } = began;
    const slice = lane.order[at] as number;
    const [begin, end] = [lane.slices.begin[slice] as number, lane.slices.end[slice] as number];
    if (!ended) {
      this.clear();
      this.show(end, end + length);
      return true;
    }
    // What ran before the gap may be on another stream, or of another process.
    this.show(begin - length, end);
    this.choose(index, at);
    return true;
  }

  /** Returns where an operation is. Processes of several machines or containers may have the same id. */
  private place(pid: number | null, rank: number | null, correlation: number): { index: number; lane: Lane; at: number } | null {
    const each = this.scene.data.operations.each;
    if (!each) return null;
    for (const [index, lane] of this.scene.lanes.entries()) {
      const process = manifest.processes[lane.process];
      if (lane.kind !== 'stream' || (process?.pid ?? null) !== pid || (process?.rank ?? null) !== rank) continue;
      const at = lane.order.findIndex((one) => each.correlation()[one] === correlation);
      if (at >= 0) return { index, lane, at };
    }
    return null;
  }

  /** The visible time, and what is chosen, for checks. */
  get state(): { from: number; to: number; lane: number; at: number } {
    const { from, to, selected } = this.scene;
    return { from, to, lane: selected?.lane ?? -1, at: selected?.at ?? -1 };
  }

  private build(): HTMLElement {
    const button = (text: string, label: string, run: () => void) => h('button', { type: 'button', 'aria-label': label, title: label, onclick: run }, text);
    const controls = h(
      'div',
      { class: 'controls' },
      this.search,
      this.said,
      h('span', { class: 'spring' }),
      button('+', 'zoom in', () => this.zoom(0.5)),
      button('−', 'zoom out', () => this.zoom(2)),
      button('‹', 'earlier', () => this.pan(-0.25)),
      button('›', 'later', () => this.pan(0.25)),
      button('all', 'show the whole run', () => this.look(...this.whole)),
    );
    const lanes = this.scene.lanes;
    const last = lanes[lanes.length - 1];
    const total = last ? last.top + last.height + 4 : 40;
    this.scroller.style.height = `${Math.min(total, TALLEST) + RULER}px`;
    const inner = h('div');
    inner.style.height = `${total + RULER}px`;
    this.scroller.append(this.canvas, inner);
    const help = h('p', { class: 'dim help', 'data-own': true }, 'Drag moves, Ctrl + wheel zooms, a drag on the axis zooms to it, a click chooses. Keys: ← → move, + − zoom, ↑ ↓ and , . choose, Enter zooms to it, 0 shows all, / searches.');
    return h('div', { class: 'timeline' }, controls, h('div', { class: 'stage' }, this.scroller, this.hint), this.chosen, help, ...this.leftOut());
  }

  /** Says what is not drawn, or not one by one. */
  private leftOut(): HTMLElement[] {
    const said: string[] = [];
    for (const [table, what] of [['operations', 'operations'], ['calls', 'calls'], ['ranges', 'ranges'], ['steps', 'steps']] as const) {
      const shape = manifest.tables[table];
      if (!shape || shape.bin_ns === null) continue;
      said.push(
        table === 'steps'
          ? `The ${count(shape.slices)} steps are too many to draw.`
          : `The ${count(shape.slices)} ${what} are too many for a page one by one: it has how busy each row was in every ${duration(shape.bin_ns)}, and with what. A part has them one by one: ${about.commands.of_part} --since 1s --until 2s --html page.html`,
      );
    }
    const { untimed, off_the_line: off } = manifest.left_out;
    const { captured = 0, ...others } = untimed;
    const total = Object.values(others).reduce((sum, n) => sum + n, 0);
    if (total > 0) said.push(`${count(total)} operations without a GPU time of their own are not drawn, only their calls: ${Object.entries(others).map(([why, n]) => `${count(n)} ${why.replaceAll('_', ' ')}`).join(', ')}.`);
    if (captured > 0) said.push(`${count(captured)} operations were captured into graphs and did not run.`);
    if (off > 0) said.push(`${count(off)} operations are not drawn: nothing ties their GPU's clock to the host's.`);
    if (new Set(manifest.processes.map((one) => one.machine)).size > 1) said.push('The processes ran on machines whose clocks cannot be compared: times of each machine count from its own first process.');
    return said.map((sentence) => h('p', { class: 'note', 'data-own': true }, sentence));
  }

  private listen(): void {
    const { canvas, scroller } = this;
    new ResizeObserver(() => this.resize()).observe(scroller);
    scroller.addEventListener('scroll', () => {
      this.scene.scrolled = scroller.scrollTop;
      this.draw();
    });
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.restyle());
    canvas.addEventListener('wheel', (event) => this.wheel(event), { passive: false });
    canvas.addEventListener('keydown', (event) => this.key(event));
    canvas.addEventListener('dblclick', (event) => this.zoom(0.25, timeAt(this.scene, event.offsetX)));
    this.search.addEventListener('input', () => this.find());
    this.search.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') this.next(event.shiftKey ? -1 : 1);
    });
    document.addEventListener('keydown', (event) => {
      if (event.key === '/' && !(event.target instanceof HTMLInputElement)) {
        event.preventDefault();
        this.search.focus();
      }
    });
    this.pointers();
  }

  private pointers(): void {
    const { canvas } = this;
    const down = new Map<number, { x: number; y: number }>();
    let moved = 0;
    let marked: number | null = null;
    const spread = () => {
      const [a, b] = [...down.values()];
      return a && b ? { distance: Math.abs(a.x - b.x), middle: (a.x + b.x) / 2 } : null;
    };
    canvas.addEventListener('pointerdown', (event) => {
      down.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
      canvas.setPointerCapture(event.pointerId);
      moved = 0;
      marked = event.offsetY < RULER && down.size === 1 ? event.offsetX : null;
    });
    canvas.addEventListener('pointermove', (event) => {
      const was = down.get(event.pointerId);
      if (!was) return this.hover(event);
      const before = spread();
      down.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
      const after = spread();
      moved += Math.abs(event.offsetX - was.x) + Math.abs(event.offsetY - was.y);
      if (before && after && before.distance > 8) return this.zoom(before.distance / Math.max(8, after.distance), timeAt(this.scene, after.middle));
      if (marked !== null) return;
      const { from, to, width } = this.scene;
      const shift = ((event.offsetX - was.x) * (to - from)) / (width - gutter(width));
      this.look(from - shift, to - shift);
      this.scroller.scrollTop -= event.offsetY - was.y;
    });
    const up = (event: PointerEvent) => {
      if (!down.delete(event.pointerId) || down.size > 0) return;
      if (marked !== null && Math.abs(event.offsetX - marked) > 4) {
        const [a, b] = [timeAt(this.scene, marked), timeAt(this.scene, event.offsetX)];
        this.look(Math.min(a, b), Math.max(a, b));
      } else if (moved < 5 && event.type === 'pointerup') {
        const hit = this.hit(event.offsetX, event.offsetY);
        if (hit) this.choose(...hit);
        else this.clear();
      }
      marked = null;
    };
    canvas.addEventListener('pointerup', up);
    canvas.addEventListener('pointercancel', up);
    canvas.addEventListener('pointerleave', () => (this.hint.hidden = true));
  }

  private wheel(event: WheelEvent): void {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 200))), timeAt(this.scene, event.offsetX));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      this.pan((event.deltaX || event.deltaY) / 800);
    }
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const actions: Record<string, () => void> = {
      ArrowLeft: () => this.pan(-0.15),
      ArrowRight: () => this.pan(0.15),
      '+': () => this.zoom(0.5),
      '=': () => this.zoom(0.5),
      '-': () => this.zoom(2),
      '0': () => this.look(...this.whole),
      Home: () => this.look(...this.whole),
      ArrowDown: () => this.chooseLane(1),
      ArrowUp: () => this.chooseLane(-1),
      '.': () => this.step(1),
      ',': () => this.step(-1),
      Enter: () => this.zoomToChosen(),
      Escape: () => this.clear(),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  private zoom(factor: number, around?: number): void {
    const { from, to, selected, lanes } = this.scene;
    let center = around ?? (from + to) / 2;
    const lane = selected && lanes[selected.lane];
    if (around === undefined && selected && lane) {
      const begin = lane.slices.begin[lane.order[selected.at] as number] as number;
      if (begin > from && begin < to) center = begin;
    }
    this.look(center - (center - from) * factor, center + (to - center) * factor);
  }

  private pan(part: number): void {
    const { from, to } = this.scene;
    this.look(from + part * (to - from), to + part * (to - from));
  }

  private look(from: number, to: number): void {
    const [first, last] = this.whole;
    const length = Math.min(Math.max(to - from, SHORTEST), last - first);
    const start = Math.min(Math.max(from - Math.max(0, length - (to - from)) / 2, first), last - length);
    [this.scene.from, this.scene.to] = [start, start + length];
    this.draw();
  }

  private hit(atX: number, atY: number): [number, number] | null {
    const { scene } = this;
    const y = atY - RULER + scene.scrolled;
    const index = scene.lanes.findIndex((lane) => y >= lane.top && y < lane.top + lane.height);
    const lane = scene.lanes[index];
    if (!lane || atX < gutter(scene.width) || atY < RULER) return null;
    // Three pixels on either side count as a hit.
    const [from, time, to] = [timeAt(scene, atX - 3), timeAt(scene, atX), timeAt(scene, atX + 3)];
    const depth = Math.floor((y - lane.top) / 16);
    let [best, least] = [-1, Number.POSITIVE_INFINITY];
    for (let at = first(lane, from); at < lane.order.length; at += 1) {
      const slice = lane.order[at] as number;
      const [begin, end] = [lane.slices.begin[slice] as number, lane.slices.end[slice] as number];
      if (begin > to) break;
      if (end < from || (lane.depth && lane.depth[at] !== depth)) continue;
      const away = begin <= time && time <= end ? 0 : Math.min(Math.abs(begin - time), Math.abs(end - time));
      if (away < least) [best, least] = [at, away];
    }
    return best < 0 ? null : [index, best];
  }

  private hover(event: PointerEvent): void {
    const hit = this.hit(event.offsetX, event.offsetY);
    this.hint.hidden = hit === null;
    this.canvas.style.cursor = hit ? 'pointer' : event.offsetY < RULER ? 'col-resize' : 'grab';
    const lane = hit && this.scene.lanes[hit[0]];
    if (!hit || !lane) return;
    const slice = lane.order[hit[1]] as number;
    const length = (lane.slices.end[slice] as number) - (lane.slices.begin[slice] as number);
    const busy = lane.slices.busy ? 'mostly ' : '';
    const took = isOpen(lane, hit[1]) ? '' : ` · ${duration(length)}`;
    this.hint.textContent = plain(`${busy}${lane.kind === 'steps' ? 'step ' : ''}${nameOf(lane, slice)}${took}`);
    this.hint.style.left = `${Math.min(event.offsetX + 12, Math.max(0, this.scene.width - 260))}px`;
    this.hint.style.top = `${event.offsetY + 16}px`;
  }

  private choose(index: number, at: number): void {
    const lane = this.scene.lanes[index];
    if (!lane) return;
    this.scene.selected = { lane: index, at };
    this.chosen.replaceChildren(detail(this.scene.data, lane, at));
    const [top, bottom] = [lane.top, lane.top + lane.height];
    const seen = this.scroller.clientHeight - RULER;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (bottom > this.scroller.scrollTop + seen) this.scroller.scrollTop = bottom - seen;
    this.draw();
  }

  private clear(): void {
    this.scene.selected = null;
    this.chosen.replaceChildren();
    this.draw();
  }

  /** Chooses the slice before or after the chosen one, and shows it. */
  private step(by: number): void {
    const { selected, lanes } = this.scene;
    const lane = selected && lanes[selected.lane];
    if (!selected || !lane) return this.chooseLane(1);
    const at = Math.min(Math.max(selected.at + by, 0), lane.order.length - 1);
    this.choose(selected.lane, at);
    this.reveal(lane, at);
  }

  private chooseLane(by: number): void {
    const { selected, lanes, from, to } = this.scene;
    const current = selected ? lanes[selected.lane]?.order[selected.at] : undefined;
    const moment = selected && current !== undefined ? (lanes[selected.lane]?.slices.begin[current] as number) : (from + to) / 2;
    for (let index = selected ? selected.lane + by : by > 0 ? 0 : lanes.length - 1; index >= 0 && index < lanes.length; index += by) {
      const lane = lanes[index] as Lane;
      if (lane.order.length === 0) continue;
      const at = Math.min(first(lane, moment), lane.order.length - 1);
      this.choose(index, at);
      return this.reveal(lane, at);
    }
  }

  /** Moves the view so that a slice is in it. */
  private reveal(lane: Lane, at: number): void {
    const { from, to } = this.scene;
    const begin = lane.slices.begin[lane.order[at] as number] as number;
    if (begin < from || begin > to) this.look(begin - (to - from) / 2, begin + (to - from) / 2);
  }

  private zoomToChosen(): void {
    const { selected, lanes } = this.scene;
    const lane = selected && lanes[selected.lane];
    if (!selected || !lane) return;
    const slice = lane.order[selected.at] as number;
    this.show(lane.slices.begin[slice] as number, lane.slices.end[slice] as number);
  }

  private find(): void {
    const wanted = this.search.value.toLowerCase();
    this.found = -1;
    const has = (names: string[]) => names.map((one) => one.toLowerCase().includes(wanted));
    const { operations, apis, ranges } = manifest.names;
    this.scene.matching = wanted
      ? { stream: operations.map((one, at) => `${operationName(at)} ${one.name ?? ''}`.toLowerCase().includes(wanted)), calls: has(apis), ranges: has(ranges) }
      : null;
    this.said.textContent = wanted ? `${this.howMany()}; Enter shows the next` : '';
    this.draw();
  }

  /** Says how much was found. A bin knows one of its names, so that of bins nothing can be counted, and rare names are in none. */
  private howMany(): string {
    const { lanes, matching } = this.scene;
    const bins = lanes.filter((lane) => lane.slices.binNs !== null && matching?.[lane.kind]).reduce((sum, lane) => sum + lane.order.length, 0);
    const all = this.matches();
    const inBins = all.filter(([, index]) => (lanes[index] as Lane).slices.binNs !== null).length;
    const found = `${count(all.length - inBins)} found`;
    if (bins === 0) return found;
    const said = `${count(inBins)} of ${plural(bins, 'bin', 'bins')} mostly or often with it, what is rarer in its bin is not found`;
    return all.length > inBins ? `${found}, and ${said}` : said;
  }

  private matches(): [number, number, number][] {
    const { lanes, matching } = this.scene;
    const all: [number, number, number][] = [];
    lanes.forEach((lane, index) => {
      const names = matching?.[lane.kind];
      if (!names) return;
      lane.order.forEach((slice, at) => {
        if (names[lane.slices.name[slice] as number]) all.push([lane.slices.begin[slice] as number, index, at]);
      });
    });
    return all.sort((a, b) => a[0] - b[0]);
  }

  private next(by: number): void {
    const matches = this.matches();
    if (matches.length === 0) return;
    const start = this.found < 0 && by < 0 ? 0 : this.found;
    this.found = (start + by + matches.length) % matches.length;
    const [begin, index, at] = matches[this.found] as [number, number, number];
    const lane = this.scene.lanes[index] as Lane;
    const end = lane.slices.end[lane.order[at] as number] as number;
    this.choose(index, at);
    const { from, to } = this.scene;
    if (x(this.scene, end) - x(this.scene, begin) < 20) this.look(begin - (end - begin) * 10, end + (end - begin) * 10);
    else if (begin < from || end > to) this.show(begin, end);
    this.said.textContent = `${count(this.found + 1)} of ${count(matches.length)}`;
  }

  private resize(): void {
    const { scroller, canvas, scene } = this;
    [scene.width, scene.height] = [scroller.clientWidth, scroller.clientHeight];
    const ratio = devicePixelRatio || 1;
    [canvas.width, canvas.height] = [Math.round(scene.width * ratio), Math.round(scene.height * ratio)];
    [canvas.style.width, canvas.style.height] = [`${scene.width}px`, `${scene.height}px`];
    canvas.getContext('2d')?.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.restyle();
  }

  private restyle(): void {
    this.color = colors(document.documentElement);
    this.draw(true);
  }

  private draw(now = false): void {
    const paint = () => {
      this.asked = false;
      const context = this.canvas.getContext('2d');
      if (context && this.scene.width > 0) draw(context, this.scene, this.color);
    };
    if (now) return paint();
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(paint);
  }
}

function extent(lanes: Lane[]): [number, number] {
  let [from, to] = [0, 1000];
  for (const lane of lanes) {
    if (lane.order.length === 0) continue;
    from = Math.min(from, lane.slices.begin[lane.order[0] as number] as number);
    to = Math.max(to, lane.reach[lane.reach.length - 1] as number);
  }
  return [from, to + (to - from) * 0.01];
}

