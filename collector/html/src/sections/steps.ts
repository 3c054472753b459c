// What the program repeats, and how long that takes.

import { h } from '../dom';
import { figure, none } from '../figures';
import { about, at, list, value } from '../report';
import type { Timeline } from '../timeline/view';
import { duration } from '../units';
import { figures, section, svg } from './section';
import { id } from './top';

/** The most long steps that the report has. */
const MOST = 10;

export function steps(timeline: Timeline): HTMLElement | null {
  if (!value('steps.count')) return null;
  const figureOf = (key: string) => (at(`steps.${key}`) === null ? none() : figure(`steps.${key}`, 'ns'));
  const undecided: [string, HTMLElement][] = value('steps.per_step.undecided_ns') ? [['undecided, on average', figureOf('per_step.undecided_ns')]] : [];
  // Where the host runs ahead, its times from call to call say nothing of a single step.
  const lengths: [string, HTMLElement][] =
    at('steps.timed_on') === 'host_ahead'
      ? [['on average', figureOf('mean_ns')]]
      : [['median', figureOf('median_ns')], ['95 % take at most', figureOf('p95_ns')], ['99 %', figureOf('p99_ns')], ['longest', figureOf('max_ns')]];
  const source: Record<string, string> = { launches: 'Found by the sequence of launches, which repeats.', nvtx: 'Found by an NVTX range that is opened in each step.', graphs: 'Found by a graph that is launched in each step.' };
  return section(
    'steps',
    'Steps',
    h('span', {}, source[String(at('steps.source'))] ?? '', whose()),
    figures(['steps', figure('steps.count', 'count')], ['warm-up', figure('steps.warm_up', 'count')], ...lengths, ['GPU busy, on average', figureOf('per_step.busy_ns')], ['GPU idle, on average', figureOf('per_step.idle_ns')], ...undecided),
    plot(),
    slowStretches(timeline),
    outliers(timeline),
  );
}

/** Says which of several processes these steps are of. */
function whose(): HTMLElement | null {
  if (list('processes').length < 2) return null;
  const key = at('steps.rank') === null ? 'pid' : 'rank';
  return h('span', {}, key === 'rank' ? ' These are the steps of rank ' : ' These are the steps of process ', id('steps', key), ', which stand for those of the others.');
}

// The warm-up can take so much longer that all other steps would look alike.
/** What the highest bar stands for, as in the terminal: the longest mean that is no longer than the longest step after the warm-up. */
function scale(means: number[]): number {
  const longest = value('steps.max_ns') ?? Infinity;
  const steady = means.filter((mean) => mean <= longest);
  return Math.max(...(steady.length > 0 ? steady : means));
}

function plot(): HTMLElement | null {
  const means = list('steps.plot_ns').map(Number);
  const most = scale(means);
  if (means.length < 2 || most === 0) return null;
  const bars = means.map((mean, index) => {
    const part = (y: number, height: number) => svg('rect', { x: index * 10 + 1, y, width: 8, height });
    const height = Math.max(1, (mean / most) * 100);
    // A bar that would be higher is cut: there is a gap below its end.
    const parts = mean > most ? [part(0, 6), part(12, 88)] : [part(100 - height, height)];
    return svg('g', {}, ...parts, svg('title', {}, document.createTextNode(duration(mean))));
  });
  const cut = means.some((mean) => mean > most) && '; those with a gap took longer';
  const picture = svg('svg', { viewBox: `0 0 ${means.length * 10} 100`, preserveAspectRatio: 'none', role: 'img', 'data-own': '', 'aria-label': 'step times over the run' }, ...bars);
  return h('figure', { class: 'plot' }, picture, h('figcaption', { class: 'dim' }, 'Step times from the first to the last; a bar is the mean of equally many, the highest ', figure(`steps.plot_ns.${means.indexOf(most)}`, 'ns'), cut));
}

/** A button that shows a step or several, which begin and last as the report says at a path. */
function shown(timeline: Timeline, path: string): HTMLElement {
  const [start, length] = [value(`${path}.start_ns`) ?? 0, value(`${path}.duration_ns`) ?? 0];
  const show = () => {
    timeline.show(start, start + length);
    timeline.element.scrollIntoView({ behavior: 'smooth', block: 'start' });
  };
  return h('button', { type: 'button', onclick: show }, 'show');
}

/** How many times as long the same kernels take on a GPU that is slower, as in the terminal. */
const SLOWER = 1.05;

/** Where steps in a row took longer, and whether that was the GPU. */
function slowStretches(timeline: Timeline): HTMLElement | null {
  const all = list('steps.slow_stretches').map((_, index) => `steps.slow_stretches.${index}`);
  if (all.length === 0) return null;
  const why = (path: string): (string | HTMLElement)[] => {
    const times = value(`${path}.same_kernels`);
    if (times === null) return [];
    if (times < SLOWER) return ['; the same kernels took about as long'];
    return ['; the same kernels took ', figure(`${path}.same_kernels`, 'number'), ' times as long on the GPU'];
  };
  const row = (path: string) =>
    h('li', {}, 'steps ', figure(`${path}.first_step`, 'count'), ' to ', figure(`${path}.last_step`, 'count'), ', ', figure(`${path}.duration_ns`, 'ns'), ', took ', figure(`${path}.mean_ns`, 'ns'), ' each instead of ', figure(`${path}.usual_ns`, 'ns'), ...why(path), ' ', shown(timeline, path));
  return h('div', {}, h('p', { 'data-own': true }, 'Steps in a row that took longer than the others:'), h('ul', { class: 'gaps' }, ...all.map(row)));
}

function outliers(timeline: Timeline): HTMLElement | null {
  const all = list('steps.outliers').map((_, index) => `steps.outliers.${index}`);
  if (all.length === 0) return null;
  const row = (path: string) => h('li', {}, 'step ', figure(`${path}.step`, 'count'), ' took ', figure(`${path}.duration_ns`, 'ns'), ' ', shown(timeline, path));
  const summary = all.length === MOST ? `Steps that took much longer, the longest ${MOST}` : 'Steps that took much longer';
  return h('details', {}, h('summary', { 'data-own': true }, summary), h('ul', { class: 'gaps' }, ...all.map(row)), both(value('steps.outliers.0.step') ?? 0));
}

/** Says where to look for what the host did in a step that is timed on the GPU. */
function both(step: number): HTMLElement | null {
  if (at('steps.timed_on') !== 'gpu') return null;
  const command = h('code', {}, `${about.commands.of_part} --step ${step}..${step + 1}`);
  return h('p', { class: 'dim', 'data-own': true }, 'A step begins on the GPU with its first operation: what the host did before that lies in the step before. Both are in: ', command);
}
