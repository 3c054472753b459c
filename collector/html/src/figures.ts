// Each number of the report on the page says in `data-path` where the report has it, and in `data-as` how it is written, so
// that a check can compare all of them with `gpuspy report --json`.

import { h } from './dom';
import { at, type Estimate, isEstimate, value } from './report';
import { bytes, count, duration, number, percent } from './units';

export type As = 'ns' | 'bytes' | 'count' | 'number' | 'percent';

const formats: Record<As, (value: number) => string> = {
  ns: duration,
  bytes,
  count,
  number,
  percent: (value) => percent(value, 1),
};

/** Whether an interval is wider than a fifth of the value, so that the value alone would be misleading. */
function isWide({ value, lo, hi }: Estimate): boolean {
  return hi === null || (hi - lo) * 5 > value;
}

/** The bounds of an estimate in words; none where it is exact. */
function between({ lo, hi }: Estimate, written: (n: number) => string): string | undefined {
  return lo === hi ? undefined : `between ${written(lo)} and ${hi === null ? 'any' : written(hi)}`;
}

/** The report's number at a path. An estimate with a wide interval is marked with `~`; its title has the interval. */
export function figure(path: string, as: As): HTMLElement {
  const found = at(path);
  const written = (n: number) => formats[as](n);
  if (isEstimate(found)) {
    const estimate = found as unknown as Estimate;
    if (estimate.value === null) return none();
    const wide = isWide(estimate) ? '~' : '';
    return h('span', { class: 'n', 'data-path': path, 'data-as': as, title: between(estimate, written) }, wide + written(estimate.value));
  }
  if (typeof found !== 'number') return none();
  return h('span', { class: 'n', 'data-path': path, 'data-as': as }, written(found));
}

/** The report's number at a path as a share of another one. */
export function share(path: string, of: string): HTMLElement {
  const [part, whole] = [value(path), value(of)];
  if (part === null || whole === null || whole === 0) return none();
  const found = at(path);
  const estimate = isEstimate(found) ? (found as unknown as Estimate) : null;
  const wide = estimate && isWide(estimate) ? '~' : '';
  return h('span', { class: 'n', 'data-path': path, 'data-of': of, title: estimate ? between(estimate, (n) => percent(n, whole)) : undefined }, wide + percent(part, whole));
}

/** What shares of `gpu_wall_ns` are called: of several GPUs, that is more than the wall time. */
export function ofGpuWall(): string {
  return (value('gpu_wall_ns') ?? 0) > (value('wall_ns') ?? 0) ? "of GPUs' wall" : 'of wall';
}

/** The bounds of an estimate, where they print differently. */
export function bounds(path: string, as: As): HTMLElement | null {
  const found = at(path);
  if (!isEstimate(found)) return null;
  const { lo, hi } = found as unknown as Estimate;
  if (hi !== null && formats[as](lo) === formats[as](hi)) return null;
  return h('span', { class: 'dim' }, figure(`${path}.lo`, as), ' .. ', figure(`${path}.hi`, as));
}

export function none(): HTMLElement {
  return h('span', { class: 'dim' }, '-');
}
