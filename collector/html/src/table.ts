// A table that sorts and filters. On a narrow screen it scrolls sideways by itself.

import { type Child, h } from './dom';
import { type As, figure, share } from './figures';
import { list, value } from './report';
import { count } from './units';

export interface Column {
  head: string;
  /** What the head means, for its title. */
  means?: string;
  /** A column of numbers: the key in the row, and how it is written. */
  key?: string;
  as?: As;
  /** The number is shown as a share of this path of the report. */
  of?: string;
  /** A column of something else. */
  cell?: (path: string) => Child;
  /** What it sorts by, if not by the number or the text that is shown. */
  by?: (path: string) => number | string;
  /** A bar behind the number shows its part of the largest. */
  bar?: boolean;
}

export interface Options {
  /** The report's list that has the rows. */
  rows: string;
  columns: Column[];
  /** Which text of a row the filter looks at. */
  text: (path: string) => string;
  caption: string;
  /** How many rows are shown at first. */
  first?: number;
  /** The column that it is sorted by at first, the largest first; the report's order without it. */
  sorted?: string;
}

export function table(options: Options): HTMLElement {
  const { caption, first = 10 } = options;
  const paths = list(options.rows).map((_, index) => `${options.rows}.${index}`);
  // A column without a known value in any row is left out, as on the terminal.
  const isKnown = (column: Column) =>
    paths.some((path) => (column.key === undefined ? !/^[-\s]*$/.test(h('td', {}, column.cell?.(path)).textContent) : value(`${path}.${column.key}`) !== null));
  const columns = options.columns.filter(isKnown);
  let [sorted, descending, filter, all] = [columns.findIndex((column) => column.head === options.sorted), true, '', false];
  const body = h('tbody');
  const more = h('button', { type: 'button', class: 'more', onclick: () => ((all = !all), draw()) });
  const said = h('span', { class: 'dim', role: 'status' });
  const heads = columns.map((column, index) => {
    const isNumber = column.key !== undefined;
    const sort = () => {
      descending = sorted === index ? !descending : isNumber;
      sorted = index;
      draw();
    };
    const button = h('button', { type: 'button', title: column.means, onclick: sort }, column.head);
    return h('th', { scope: 'col', class: isNumber ? 'right' : undefined }, button);
  });
  const search = h('input', {
    type: 'search',
    placeholder: 'filter',
    'aria-label': `filter ${caption}`,
    oninput: (event) => {
      filter = (event.target as HTMLInputElement).value.toLowerCase();
      draw();
    },
  });

  const number = (column: Column, path: string) => value(`${path}.${column.key}`);
  const most = columns.map((column) => (column.bar ? Math.max(1, ...paths.map((path) => number(column, path) ?? 0)) : 0));

  function cell(column: Column, index: number, path: string): HTMLElement {
    if (column.key === undefined) return h('td', {}, column.cell?.(path));
    const field = `${path}.${column.key}`;
    const shown = column.of ? share(field, column.of) : figure(field, column.as ?? 'count');
    const td = h('td', { class: column.bar ? 'right bar' : 'right' }, shown);
    if (column.bar) td.style.setProperty('--part', String((number(column, path) ?? 0) / (most[index] ?? 1)));
    return td;
  }

  function key(path: string): number | string {
    const column = columns[sorted];
    if (!column) return 0;
    return column.by?.(path) ?? (column.key === undefined ? cell(column, sorted, path).textContent.toLowerCase() : (number(column, path) ?? -1));
  }

  function draw(): void {
    let shown = paths.filter((path) => options.text(path).toLowerCase().includes(filter));
    const matching = shown.length;
    if (sorted >= 0) {
      const sign = descending ? -1 : 1;
      shown = shown.map((path) => [key(path), path] as const).sort(([a], [b]) => (a < b ? -sign : a > b ? sign : 0)).map(([, path]) => path);
    }
    if (!all) shown = shown.slice(0, first);
    body.replaceChildren(...shown.map((path) => h('tr', {}, ...columns.map((column, index) => cell(column, index, path)))));
    heads.forEach((head, index) => head.setAttribute('aria-sort', index !== sorted ? 'none' : descending ? 'descending' : 'ascending'));
    const hidden = matching - shown.length;
    more.hidden = matching <= first;
    more.textContent = all ? 'show fewer' : `show ${count(hidden)} more`;
    said.textContent = filter ? `${count(matching)} of ${count(paths.length)}` : '';
    more.setAttribute('data-own', '');
    said.setAttribute('data-own', '');
  }

  draw();
  const controls = paths.length > first ? h('div', { class: 'controls' }, search, said) : null;
  const inner = h('table', {}, h('caption', { class: 'unseen' }, caption), h('thead', {}, h('tr', {}, ...heads)), body);
  return h('div', { class: 'table' }, controls, h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption }, inner), more);
}
