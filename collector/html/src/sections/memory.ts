// How much memory was held over time, by kind, and who held it at the peak.

import { h, library, name, place } from '../dom';
import { figure, none } from '../figures';
import { at, list, text, value } from '../report';
import { table } from '../table';
import { bytes, duration } from '../units';
import { figures, section, svg } from './section';
import { id } from './top';

const COLORS = ['compute', 'copy', 'graph', 'comm', 'copy2', 'fill'];

export function memory(): HTMLElement | null {
  const kinds = Object.keys((at('memory.by_kind') as object | null) ?? {});
  if (kinds.length === 0) return null;
  const rows = kinds.map((kind, index) =>
    h('tr', {}, h('th', { scope: 'row' }, h('span', { class: `swatch ${COLORS[index % COLORS.length]}` }), kind.replaceAll('_', ' ')), ...(['peak_bytes', 'live_bytes'] as const).map((key) => h('td', { class: 'right' }, figure(`memory.by_kind.${kind}.${key}`, 'bytes'))), ...(['allocations', 'frees'] as const).map((key) => h('td', { class: 'right' }, figure(`memory.by_kind.${kind}.${key}`, 'count')))),
  );
  const heads = ['kind', 'peak', 'at the end', 'allocations', 'frees'].map((head, index) => h('th', { scope: 'col', class: index ? 'right' : undefined }, head));
  return section(
    'memory',
    'Memory',
    null,
    figures(
      ['device memory at its peak', figure('memory.peak_bytes', 'bytes')],
      ['reached at', at('memory.peak_ns') === null ? none() : figure('memory.peak_ns', 'ns')],
      ['at the end', figure('memory.live_bytes', 'bytes')],
      ['allocations', figure('memory.allocations', 'count')],
    ),
    plot(kinds),
    h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'memory by kind' }, h('table', {}, h('thead', {}, h('tr', {}, ...heads)), h('tbody', {}, ...rows))),
    holders(),
  );
}

function plot(kinds: string[]): HTMLElement | null {
  const [from, bucket] = [value('memory.timeline.from_ns') ?? 0, value('memory.timeline.bucket_ns') ?? 0];
  const series = kinds.map((kind) => list(`memory.timeline.by_kind.${kind}`).map(Number));
  const buckets = Math.max(0, ...series.map((one) => one.length));
  const most = Math.max(0, ...series.flat());
  if (buckets < 2 || most === 0) return null;
  const paths = series.map((one, index) => {
    let line = `M0,100`;
    one.forEach((held, at) => (line += `L${at},${100 - (held / most) * 98}L${at + 1},${100 - (held / most) * 98}`));
    const shape = svg('path', { d: `${line}L${one.length},100Z`, class: COLORS[index % COLORS.length] as string });
    shape.append(svg('title', {}, document.createTextNode(kinds[index] ?? '')));
    return shape;
  });
  const label = `memory by kind over time, at most ${bytes(most)} of a kind`;
  // The run may end inside of the last bucket.
  const ended = value('wall_ns') ?? 0;
  const end = Math.ceil((ended - from) / bucket) === buckets ? ended : from + buckets * bucket;
  const picture = svg('svg', { viewBox: `0 0 ${(end - from) / bucket} 100`, preserveAspectRatio: 'none', role: 'img', 'data-own': '', 'aria-label': label }, ...paths);
  const axis = h('div', { class: 'axis dim', 'data-own': true }, h('span', {}, duration(from)), h('span', {}, `each kind by itself; the highest: ${bytes(most)}`), h('span', {}, duration(end)));
  return h('figure', { class: 'plot area' }, picture, axis);
}

function holders(): HTMLElement | null {
  if (list('memory.holders').length === 0) return null;
  const of = (path: string, key: string) => text(`${path}.${key}`);
  // Of several processes, what each held at its own peak.
  const several = list('processes').length > 1;
  const whose = { head: 'process', cell: (path: string) => id(path, 'pid'), by: (path: string) => value(`${path}.pid`) ?? -1 };
  return h(
    'div',
    {},
    h('h3', {}, several ? 'Held at its process’s peak by' : 'Held at the peak by'),
    table({
      rows: 'memory.holders',
      caption: 'holders of memory',
      text: (path) => `${of(path, 'line')} ${of(path, 'api')} ${of(path, 'library')} ${of(path, 'pool')} ${of(path, 'range')} ${value(`${path}.pid`)}`,
      columns: [
        { head: 'bytes', key: 'bytes', as: 'bytes', bar: true },
        { head: 'blocks', key: 'blocks' },
        { head: 'line', cell: (path) => place(of(path, 'line')) },
        { head: 'by', cell: (path) => name(of(path, 'pool') ?? library(of(path, 'library'))) },
        { head: 'call', cell: (path) => name(of(path, 'api') ?? '-') },
        ...(several ? [whose] : []),
        { head: 'NVTX range', cell: (path) => of(path, 'range') && name(of(path, 'range') ?? '') },
      ],
    }),
  );
}
