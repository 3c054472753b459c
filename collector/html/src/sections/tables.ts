// Kernels, transfers, lines, calls and NVTX ranges, as tables.

import { type Child, cut, h, library, name, place, plain } from '../dom';
import { figure, ofGpuWall } from '../figures';
import { about, at, list, short, text, value } from '../report';
import { type Column, table } from '../table';
import { section } from './section';

const of = (path: string, key: string): string => text(`${path}.${key}`) ?? '';

/** The share from which on a line is shown as the one that all comes from, as on the terminal. */
const WHOLE = 0.995;
const line: Column = { head: 'line', means: 'the line of the program that most of it comes from, and its share unless that is all', cell: mainLine };
/** What times on the host are shares of, and what times on GPUs are. */
const [wall, gpuWall] = ['wall_ns', 'gpu_wall_ns'];

export function kernels(): HTMLElement | null {
  return list('kernels').length === 0
    ? null
    : section(
        'kernels',
        'Kernels',
        null,
        table({
          rows: 'kernels',
          caption: 'kernels',
          text: (path) => `${of(path, 'name')} ${of(path, 'line')}`,
          columns: [
            { head: 'name', cell: (path) => named(of(path, 'name')) },
            { head: 'total', means: 'time on the GPU, of all launches', key: 'total_ns', as: 'ns', bar: true },
            { head: ofGpuWall(), key: 'total_ns', of: gpuWall },
            { head: 'launches', key: 'count' },
            { head: 'timed', means: 'launches with a GPU time', key: 'timed' },
            { head: 'mean', key: 'avg_ns', as: 'ns' },
            { head: 'median', key: 'median_ns', as: 'ns' },
            { head: 'shortest', key: 'min_ns', as: 'ns' },
            { head: 'longest', key: 'max_ns', as: 'ns' },
            line,
          ],
        }),
      );
}

function mainLine(path: string): Child {
  const share = value(`${path}.line_share`) ?? 1;
  const shown = place(of(path, 'line'));
  return share < WHOLE && of(path, 'line') ? h('span', {}, shown, ' ', h('span', { class: 'dim' }, figure(`${path}.line_share`, 'percent'))) : shown;
}

function named(kernel: string): Child {
  return h('span', { class: 'name', dir: 'ltr', title: cut(plain(kernel), 400), 'data-text': true }, short(kernel));
}

export function transfers(): HTMLElement | null {
  return list('transfers').length === 0
    ? null
    : section(
        'transfers',
        'Transfers',
        null,
        table({
          rows: 'transfers',
          caption: 'copies and memsets',
          sorted: 'GPU time',
          text: (path) => `${of(path, 'kind')} ${of(path, 'host_memory')} ${of(path, 'line')}`,
          columns: [
            { head: 'kind', cell: (path) => h('span', {}, of(path, 'kind'), ' ', h('span', { class: 'dim' }, of(path, 'host_memory') === 'none' ? '' : of(path, 'host_memory'))) },
            { head: 'bytes', key: 'bytes', as: 'bytes', bar: true },
            { head: 'count', key: 'count' },
            { head: 'GPU time', key: 'total_ns', as: 'ns' },
            { head: ofGpuWall(), key: 'total_ns', of: gpuWall },
            { head: 'GB/s', cell: (path) => rate(path), by: (path) => value(`${path}.gbps`) ?? -1 },
            { head: 'in calls', means: 'host time in the calls', key: 'host.total_ns', as: 'ns' },
            line,
          ],
        }),
      );
}

/** A rate is shown where the GPU time is known well enough, and else its lower bound if that is at least half of it, as on the terminal. */
function rate(path: string): Child {
  if (at(`${path}.gbps`) === null) return '-';
  if (at(`${path}.gbps_is_known`) === true) return figure(`${path}.gbps`, 'number');
  const [best, least] = [value(`${path}.gbps`) ?? 0, value(`${path}.gbps.lo`) ?? 0];
  return 2 * least >= best && least >= 0.1 ? h('span', { title: 'at least' }, '>', figure(`${path}.gbps.lo`, 'number')) : '-';
}

export function lines(): HTMLElement | null {
  return list('lines').length === 0
    ? null
    : section(
        'lines',
        'Lines of the program',
        'What each line causes by its calls.',
        table({
          rows: 'lines',
          caption: 'lines of the program',
          text: (path) => `${of(path, 'file')}:${value(`${path}.line`) ?? ''} ${of(path, 'function')}`,
          columns: [
            { head: 'line', cell: sourceLine },
            { head: 'GPU time', key: 'gpu_ns', as: 'ns', bar: true },
            { head: 'idle', means: list('processes').length > 1 ? 'idle gaps that its operations ended; each process counts its own, also while others use the same GPU' : 'idle gaps that its operations ended', key: 'idle_ns', as: 'ns' },
            { head: 'waits', means: 'how long its calls waited for the GPU', key: 'wait_ns', as: 'ns' },
            { head: 'moved', key: 'bytes', as: 'bytes' },
            { head: 'allocated', key: 'allocated_bytes', as: 'bytes' },
            { head: 'launches', key: 'launches' },
          ],
        }),
      );
}

function sourceLine(path: string): Child {
  const [file, number] = [text(`${path}.file`), value(`${path}.line`)];
  if (file === null && text(`${path}.function`) === null) return h('span', { class: 'dim' }, 'no line is known');
  const where = number === null ? library(file) : `${file}:${number}`;
  return h('span', {}, place(where), ' ', h('span', { class: 'dim' }, name(of(path, 'function'), 40)));
}

export function calls(): HTMLElement | null {
  if (list('apis').length === 0) return null;
  const times: Column[] = [
    { head: 'total', key: 'host_ns', as: 'ns', bar: true },
    { head: 'of wall', key: 'host_ns', of: wall },
    { head: 'calls', key: 'count' },
    { head: 'mean', key: 'avg_ns', as: 'ns' },
    { head: 'median', key: 'median_ns', as: 'ns' },
    { head: 'longest', key: 'max_ns', as: 'ns' },
    line,
  ];
  const called: Column = { head: 'name', cell: (path) => name(of(path, 'name') || of(path, 'api')) };
  const text = (path: string) => `${of(path, 'name')} ${of(path, 'api')} ${of(path, 'line')}`;
  return section(
    'calls',
    'Calls',
    'Host time in calls, of all threads.',
    table({ rows: 'apis', caption: 'calls', sorted: 'total', text, columns: [called, ...times] }),
    list('syncs').length > 0 && h('h3', {}, 'Calls that wait for the GPU'),
    list('syncs').length > 0 && table({ rows: 'syncs', caption: 'synchronizing calls', sorted: 'total', text, columns: [called, ...times] }),
    list('implicit_syncs').length > 0 && h('h3', {}, 'Other calls that waited for it'),
    list('implicit_syncs').length > 0 &&
      table({
        rows: 'implicit_syncs',
        caption: 'implicit synchronization',
        sorted: 'waited',
        text,
        columns: [called, { head: 'because of', cell: (path) => of(path, 'cause').replaceAll('_', ' ') }, { head: 'waited', key: 'waited', as: 'ns', bar: true }, { head: 'in calls', key: 'host_ns', as: 'ns' }, { head: 'calls', key: 'count' }, line],
      }),
  );
}

export function ranges(): HTMLElement | null {
  return list('ranges').length === 0
    ? null
    : section(
        'ranges',
        'NVTX ranges',
        null,
        table({
          rows: 'ranges',
          caption: 'NVTX ranges',
          sorted: 'on the host',
          text: (path) => `${of(path, 'domain')} ${of(path, 'name')}`,
          columns: [
            { head: 'name', cell: (path) => h('span', {}, text(`${path}.domain`) && name(`${of(path, 'domain')}: `), name(of(path, 'name'))) },
            { head: 'on the host', key: 'host_ns', as: 'ns', bar: true },
            { head: 'on the GPU', means: 'from the first operation in a range to the last', key: 'gpu_ns', as: 'ns' },
            { head: 'ranges', key: 'count' },
            { head: 'mean', key: 'host_avg_ns', as: 'ns' },
            { head: 'median', key: 'host_median_ns', as: 'ns' },
            { head: 'longest', key: 'host_max_ns', as: 'ns' },
            { head: 'operations', key: 'operations' },
          ],
        }),
      );
}

export function ranks(): HTMLElement | null {
  const hasHosts = new Set(list('ranks').map((_, index) => at(`ranks.${index}.host`))).size > 1;
  const isCompared = list('ranks').some((_, index) => at(`ranks.${index}.straggler`) !== null);
  return list('ranks').length === 0
    ? null
    : section(
        'ranks',
        'Ranks',
        isCompared && 'Late is by how much a rank came later than half of the ranks, over all collectives; a score of one is the best rank.',
        h('ul', { class: 'sentences' }, ...about.sentences.ranks.map((sentence) => h('li', { 'data-text': true }, sentence))),
        table({
          rows: 'ranks',
          caption: 'ranks',
          first: 16,
          text: (path) => `rank ${value(`${path}.rank`)}`,
          columns: [
            { head: 'rank', key: 'rank' },
            ...(hasHosts ? [{ head: 'host', key: 'host' } as const] : []),
            { head: 'busy', key: 'busy_ns', as: 'ns', bar: true },
            { head: 'idle', key: 'idle_ns', as: 'ns' },
            { head: 'comm. alone', key: 'exposed_comm_ns', as: 'ns' },
            { head: 'median step', key: 'step_median_ns', as: 'ns' },
            { head: 'late', key: 'straggler.late_ns', as: 'ns' },
            { head: 'came last', key: 'straggler.last_arrivals' },
            { head: 'score', key: 'straggler.vs_best', as: 'number' },
            { head: 'memory', key: 'memory_peak_bytes', as: 'bytes' },
            { head: 'findings', key: 'findings' },
          ],
        }),
      );
}
