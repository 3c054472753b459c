// Why the GPU was idle: a bar for each cause, which opens into the places and the longest gaps of that cause.

import { h, library, name, place, styled } from '../dom';
import { figure, ofGpuWall, share } from '../figures';
import { about, at, list, manifest, short, text, value } from '../report';
import type { Timeline } from '../timeline/view';
import { duration } from '../units';
import { section } from './section';
import { id } from './top';

export function idle(timeline: Timeline): HTMLElement | null {
  const causes = list('idle.by_cause').map((_, index) => `idle.by_cause.${index}`).filter((path) => (value(`${path}.total_ns`) ?? 0) > 0);
  if (causes.length === 0) return null;
  const most = Math.max(...causes.map((path) => value(`${path}.total_ns`) ?? 0));
  return section('idle', 'Why the GPU was idle', 'What the host was doing while the GPU had nothing to do. A cause opens into where in the program, and into its longest gaps.', h('div', { class: 'causes' }, ...causes.map((path) => cause(path, most, timeline))));
}

function cause(path: string, most: number, timeline: Timeline): HTMLElement {
  const which = text(`${path}.cause`) ?? '';
  const bar = styled(h('span', { class: 'bar', 'aria-hidden': 'true' }), { '--part': String((value(`${path}.total_ns`) ?? 0) / most) });
  const head = h('summary', {}, h('span', { class: 'what' }, about.causes[which] ?? which), bar, figure(`${path}.total_ns`, 'ns'), h('span', { class: 'dim' }, share(`${path}.total_ns`, 'gpu_wall_ns'), ` ${ofGpuWall()}`));
  const gaps = h('span', {}, figure(`${path}.count`, 'count'), value(`${path}.count`) === 1 ? ' gap' : ' gaps');
  const running =
    at(`${path}.runnable_ns`) !== null && h('span', {}, '; its thread was running, or waited for a processor, for ', figure(`${path}.runnable_ns`, 'ns'));
  const sites = list('idle.sites').map((_, index) => `idle.sites.${index}`).filter((site) => text(`${site}.cause`) === which);
  const longest = list('gaps.largest').map((_, index) => `gaps.largest.${index}`).filter((gap) => text(`${gap}.causes.0.cause`) === which);
  return h('details', { class: 'cause' }, head, h('p', { class: 'dim' }, gaps, running), sites.length > 0 && places(sites), beyond(path, sites), longest.length > 0 && gapList(longest, timeline));
}

/** Says how much of a cause is in no place of the list, which has those with most idle time of all causes. */
function beyond(path: string, sites: string[]): HTMLElement | null {
  const rest = sites.reduce((left, site) => left - (value(`${site}.total_ns`) ?? 0), value(`${path}.total_ns`) ?? 0);
  if (rest <= 0 || text(`${path}.cause`) === 'undecided') return null;
  const all = sites.length === 0 ? 'All of it is in places' : `The rest, ${duration(rest)}, is in other places,`;
  return h('p', { class: 'dim', 'data-own': true }, `${all} that are not among the ${list('idle.sites').length} with most idle time.`);
}

/** The rank or the process of a thread, where there are several and one of them has it. */
function whose(tid: number | null): string {
  const { processes, threads } = manifest;
  const [process, ...others] = new Set(threads.filter((one) => one.tid === tid).map((one) => one.process));
  if (tid === null || processes.length < 2 || process === undefined || others.length > 0) return '';
  const { rank, pid } = processes[process] as (typeof processes)[number];
  return rank !== null ? ` of rank ${rank}` : ` of ${pid ?? '?'}`;
}

function places(sites: string[]): HTMLElement {
  const row = (site: string) => {
    const wait = text(`${site}.after_wait`);
    return h(
      'tr',
      {},
      h('td', { class: 'right' }, figure(`${site}.total_ns`, 'ns')),
      h('td', { class: 'right' }, figure(`${site}.count`, 'count')),
      h('td', {}, text(`${site}.api`) ? name(text(`${site}.api`) ?? '') : 'outside CUDA'),
      h('td', {}, place(text(`${site}.line`)), ' ', h('span', { class: 'dim' }, name(library(text(`${site}.library`))))),
      h('td', {}, id(site, 'tid'), h('span', { class: 'dim', 'data-own': true }, whose(value(`${site}.tid`)))),
      h('td', {}, text(`${site}.range`) && name(text(`${site}.range`) ?? '')),
      h('td', {}, wait && h('span', {}, 'after ', name(wait), ' at ', place(text(`${site}.after_wait_line`)))),
    );
  };
  const heads = ['total', 'gaps', 'in', 'line', 'thread', 'NVTX range', 'owed to'].map((head, index) => h('th', { scope: 'col', class: index < 2 ? 'right' : undefined }, head));
  return h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'places' }, h('table', {}, h('thead', {}, h('tr', {}, ...heads)), h('tbody', {}, ...sites.map(row))));
}

function gapList(gaps: string[], timeline: Timeline): HTMLElement {
  return h('ul', { class: 'gaps' }, ...gaps.map((gap) => h('li', {}, ...described(gap, timeline))));
}

function described(gap: string, timeline: Timeline): HTMLElement[] {
  const found = h('span', {}, 'a gap of ', figure(`${gap}.duration_ns`, 'ns'), ' between ', side(`${gap}.before`), ' and ', side(`${gap}.after`), ' ');
  if (!timeline.hasOperations) return [found];
  const [pid, rank, before, after, length] = ['pid', 'rank', 'before.correlation', 'after.correlation', 'duration_ns.value'].map((key) => at(`${gap}.${key}`));
  const number = (found: unknown) => (typeof found === 'number' ? found : null);
  const show: HTMLElement = h('button', { type: 'button', onclick: () => {
    if (timeline.showGap(number(pid), number(rank), Number(before), Number(after), Number(length))) timeline.element.scrollIntoView({ behavior: 'smooth', block: 'start' });
    else show.replaceWith(h('span', { class: 'dim', 'data-own': true }, 'not on the timeline'));
  } }, 'show');
  return [found, show];
}

function side(path: string): HTMLElement {
  const [kernel, kind] = [text(`${path}.name`), text(`${path}.kind`) ?? '?'];
  if (kernel) return name(short(kernel), 48);
  const bytes = at(`${path}.bytes`) !== null && h('span', {}, ' of ', figure(`${path}.bytes`, 'bytes'));
  const kernels = at(`${path}.kernels`) !== null && h('span', {}, ' of ', figure(`${path}.kernels`, 'count'), ' kernels');
  return h('span', {}, h('span', { class: 'name' }, kind), bytes, kernels);
}
