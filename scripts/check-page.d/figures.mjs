// Does what is written of a number agree with the report? Written a second time, not taken from the page: a text says a number
// to a certain number of digits, and the report's number must round to it.

const UNITS = { ns: 1, µs: 1e3, ms: 1e6, s: 1e9, B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40, PiB: 2 ** 50, EiB: 2 ** 60, '%': 0.01, '': 1 };

/** What a text says: a number, and how far from it the truth may be. */
export function said(text) {
  const plain = text.replace(/^[~>]+/, '').replaceAll('\u00a0', '').trim();
  const long = plain.match(/^(\d+) min (\d+) s$/) ?? plain.match(/^(\d+) h (\d+) min$/);
  if (long) {
    const [, more, less] = long.map(Number);
    const size = plain.endsWith('s') ? 1e9 : 60e9;
    return { value: (more * 60 + less) * size, within: size };
  }
  const match = plain.match(/^(<?)(-?[\d ]+(?:\.(\d+))?)\s*([^\d\s]*)$/);
  if (!match) return null;
  const [, below, digits, fraction = '', unit] = match;
  const size = UNITS[unit];
  if (size === undefined) return null;
  const value = Number(digits.replaceAll(' ', '')) * size;
  if (below) return { value: 0, within: value };
  if (text.startsWith('>') && unit === '%') return { value: 1, within: 1 - value };
  // Three digits are shown: 999 ns is exact, 123 ms is to the millisecond.
  return { value, within: (size / 2) * 10 ** -fraction.length * 1.0001 };
}

const at = (report, path) => path.split('.').reduce((value, key) => value?.[key], report);
const best = (value) => (value !== null && typeof value === 'object' ? value.value : value);
const isWide = (value) => value !== null && typeof value === 'object' && (value.hi === null || (value.hi - value.lo) * 5 > value.value);

/** Returns what is wrong with figures of a page. */
export function figures(shown, report) {
  const faults = [];
  for (const { path, of, text } of shown) {
    const found = at(report, path);
    const truth = of ? best(found) / best(at(report, of)) : best(found);
    const read = said(text);
    if (typeof truth !== 'number' || !read || Math.abs(read.value - truth) > read.within) faults.push(`${path}${of ? ` of ${of}` : ''} is ${truth}, and the page says ${text}`);
    if (text.startsWith('~') !== isWide(found)) faults.push(`${path}: ${JSON.stringify(found)} is written as ${text}`);
  }
  return faults;
}
