// What the report is about, what makes it doubtful, the verdict, and where the wall time went.

import { type Child, cut, h, name, plain, styled } from '../dom';
import { figure, share } from '../figures';
import { about, at, list, text, value } from '../report';
import { table } from '../table';

/** What ran: the command, or of several processes how many. */
export function title(): string {
  const command = cut(plain(text('processes.0.command') ?? 'unknown command'), 160);
  return list('processes').length > 1 ? plain((about.sentences.about[0] ?? '').replace(/^gpuspy\s+/, '')) : command;
}

export function head(): HTMLElement {
  // Of one process the first line is `gpuspy  COMMAND`, and the others what ran and for how long.
  const [, ...more] = about.sentences.about;
  const { warnings, endings } = about.sentences;
  const doubts = [...warnings, ...endings].map((sentence) => h('p', { 'data-text': true }, sentence));
  const nothing = about.sentences.nothing && h('p', { 'data-text': true }, about.sentences.nothing);
  return h(
    'header',
    {},
    h('p', { class: 'brand' }, 'gpuspy'),
    h('h1', { class: 'name', dir: 'ltr', 'data-text': true }, title()),
    ...more.map((line) => h('p', { class: 'dim', 'data-text': true }, line)),
    processes(),
    (doubts.length > 0 || nothing) && h('div', { class: 'doubts', role: 'alert' }, ...doubts, nothing),
    nothing ? null : verdict(),
  );
}

/** The processes of a run of several, each with its command and how it ended. */
function processes(): HTMLElement | null {
  if (list('processes').length < 2) return null;
  const outcome = (path: string) => about.sentences.outcomes[Number(path.split('.').pop())] ?? '-';
  const rows = table({
    rows: 'processes',
    caption: 'processes',
    first: 16,
    text: (path) => `${value(`${path}.pid`) ?? ''} ${text(`${path}.command`)} ${outcome(path)}`,
    columns: [
      { head: 'pid', cell: (path) => id(path, 'pid'), by: (path) => value(`${path}.pid`) ?? -1 },
      { head: 'rank', cell: (path) => id(path, 'rank'), by: (path) => value(`${path}.rank`) ?? -1 },
      { head: 'command', cell: (path) => name(text(`${path}.command`) ?? '-', 80) },
      { head: 'ended', cell: (path) => h('span', { 'data-text': true }, outcome(path)) },
      { head: 'wall time', key: 'wall_ns', as: 'ns' },
      { head: 'launches', key: 'launches' },
      { head: 'lost records', key: 'dropped' },
    ],
  });
  const hasFailed = list('processes').some((_, index) => text(`processes.${index}.signal`) !== null || (value(`processes.${index}.exit_code`) ?? 0) > 0);
  return h('details', { open: hasFailed }, h('summary', {}, 'Processes'), rows);
}

/** A number that is a name. */
export function id(path: string, key: string): Child {
  const shown = value(`${path}.${key}`);
  return shown === null ? '-' : h('span', { class: 'n', 'data-path': `${path}.${key}` }, String(shown));
}

function verdict(): HTMLElement {
  const [first, ...others] = list('verdict.text').map((_, index) => `verdict.text.${index}`);
  // A number stays on the line of its unit.
  const sentence = (path: string) => plain(text(path) ?? '').replace(/(\d) (%|[nµm]?s\b|[KMGT]?i?B\b)/g, '$1\u00a0$2');
  const unsafe = text('verdict.unsafe');
  return h(
    'div',
    { class: unsafe ? 'verdict unsafe' : 'verdict' },
    first && h('p', { class: 'first', 'data-text': true }, sentence(first)),
    ...others.map((path) => h('p', { 'data-text': true }, sentence(path))),
    wall(),
  );
}

/** The parts of the report's `identity`, in the order of the bar. */
const PARTS: [string, string, string][] = [
  ['start_up_ns', 'start-up', 'edge'],
  ['compute_ns', 'compute', 'compute'],
  ['graph_ns', 'graphs', 'graph'],
  ['exposed_comm_ns', 'communication alone', 'comm'],
  ['exposed_copy_ns', 'copies alone', 'copy'],
  ['idle_ns', 'idle', 'idle'],
  ['undecided_ns', 'undecided', 'unknown'],
  ['tail_ns', 'tail', 'edge'],
];

/** The parts of the wall time of the GPU that was used most; they sum to it. */
function wall(): HTMLElement | null {
  if (at('identity.wall_ns') === null) return null;
  const parts = PARTS.filter(([key]) => (value(`identity.${key}`) ?? 0) > 0);
  // Those of the GPU have bounds; the time before and after it is exact.
  const bounded = (key: string) => (at(`identity.estimates.${key}`) === null ? `identity.${key}` : `identity.estimates.${key}`);
  const whole = value('identity.wall_ns') ?? 1;
  const bar = h('div', { class: 'wall', 'aria-hidden': 'true' });
  for (const [key, label, color] of parts) {
    const part = styled(h('span', { class: color, title: label }), { 'flex-grow': String((value(`identity.${key}`) ?? 0) / whole) });
    bar.append(part);
  }
  const legend = parts.map(([key, label, color]) =>
    h('li', {}, h('span', { class: `swatch ${color}`, 'aria-hidden': 'true' }), h('span', { class: 'what' }, label), figure(bounded(key), 'ns'), ' ', h('span', { class: 'dim' }, share(bounded(key), 'identity.wall_ns'))),
  );
  return h(
    'figure',
    {},
    h('figcaption', {}, 'Wall time ', figure('identity.wall_ns', 'ns'), list('devices').length > 1 ? ', of the GPU that was used most' : ''),
    bar,
    h('ul', { class: 'legend' }, ...legend),
  );
}
