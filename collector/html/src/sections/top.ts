// What the report is about, what makes it doubtful, the verdict, and where the wall time went.

import { type Child, cut, h, plain, styled } from '../dom';
import { figure, share } from '../figures';
import { about, at, list, text, value } from '../report';

export function title(): string {
  return cut(plain(text('processes.0.command') ?? 'unknown command'), 160);
}

export function head(): HTMLElement {
  // The first line is `gpuspy  COMMAND`, the second one what ran and for how long.
  const [, ...more] = about.sentences.about;
  const doubts = about.sentences.warnings.map((sentence) => h('p', { 'data-text': true }, sentence));
  const nothing = about.sentences.nothing && h('p', { 'data-text': true }, about.sentences.nothing);
  return h(
    'header',
    {},
    h('p', { class: 'brand' }, 'gpuspy'),
    h('h1', { class: 'name', dir: 'ltr', 'data-text': true }, title()),
    ...(list('processes').length > 1 ? processes(more) : more.map((line) => h('p', { class: 'dim', 'data-text': true }, line))),
    (doubts.length > 0 || nothing) && h('div', { class: 'doubts', role: 'alert' }, ...doubts, nothing),
    nothing ? null : verdict(),
  );
}

function processes(lines: string[]): Child[] {
  return [h('details', {}, h('summary', { 'data-text': true }, lines[0] ?? 'processes'), h('pre', { 'data-text': true }, lines.slice(1).join('\n')))];
}

function verdict(): HTMLElement {
  const [first, ...others] = list('verdict.text').map((_, index) => `verdict.text.${index}`);
  const sentence = (path: string) => plain(text(path) ?? '');
  const unsafe = text('verdict.unsafe');
  return h(
    'div',
    { class: unsafe ? 'verdict unsafe' : 'verdict' },
    first && h('p', { class: 'first', 'data-text': true }, sentence(first)),
    ...others.map((path) => h('p', { 'data-text': true }, sentence(path))),
    wall(),
  );
}

const PARTS: [string, string, string][] = [
  ['start_up_ns', 'start-up', 'edge'],
  ['compute_ns', 'compute', 'compute'],
  ['graph_ns', 'graphs', 'graph'],
  ['exposed_comm_ns', 'communication alone', 'comm'],
  ['exposed_copy_ns', 'copies alone', 'copy'],
  ['idle_ns', 'idle', 'idle'],
  ['undecided_ns', 'undecided', 'unknown'],
  ['unobserved_ns', 'not observed', 'unknown'],
  ['tail_ns', 'tail', 'edge'],
];

/** The parts of the wall time of the GPU that was used most; they sum to it. */
function wall(): HTMLElement | null {
  if (at('identity.wall_ns') === null) return null;
  const parts = PARTS.filter(([key]) => (value(`identity.${key}`) ?? 0) > 0);
  const whole = value('identity.wall_ns') ?? 1;
  const bar = h('div', { class: 'wall', 'aria-hidden': 'true' });
  for (const [key, label, color] of parts) {
    const part = styled(h('span', { class: color, title: label }), { 'flex-grow': String((value(`identity.${key}`) ?? 0) / whole) });
    bar.append(part);
  }
  const legend = parts.map(([key, label, color]) =>
    h('li', {}, h('span', { class: `swatch ${color}`, 'aria-hidden': 'true' }), h('span', { class: 'what' }, label), figure(`identity.${key}`, 'ns'), ' ', h('span', { class: 'dim' }, share(`identity.${key}`, 'identity.wall_ns'))),
  );
  return h(
    'figure',
    {},
    h('figcaption', {}, 'Wall time ', figure('identity.wall_ns', 'ns'), list('devices').length > 1 ? ', of the GPU that was used most' : ''),
    bar,
    h('ul', { class: 'legend' }, ...legend),
  );
}
