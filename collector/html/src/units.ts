// Numbers for people, as collector/src/units.rs formats them: three significant digits and a fitting unit.

export function duration(ns: number): string {
  if (ns < 0) return `-${duration(-ns)}`;
  const seconds = Math.floor(ns / 1e9);
  if (ns < 1e3) return `${Math.round(ns)} ns`;
  if (ns < 999_500) return scaled(ns / 1e3, 'µs');
  if (ns < 999_500_000) return scaled(ns / 1e6, 'ms');
  if (ns < 600e9) return scaled(ns / 1e9, 's');
  if (ns < 36_000e9) return `${Math.floor(seconds / 60)} min ${two(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${two(Math.floor(seconds / 60) % 60)} min`;
}

const two = (n: number) => String(n).padStart(2, '0');

export function bytes(n: number): string {
  if (n < 0) return `-${bytes(-n)}`;
  if (n < 1024) return `${Math.round(n)} B`;
  const units = ['KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
  let value = n / 1024;
  let unit = 0;
  while (value >= 999.5 && unit + 1 < units.length) {
    value /= 1024;
    unit += 1;
  }
  return scaled(value, units[unit] ?? '');
}

function scaled(value: number, unit: string): string {
  const digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return `${value.toFixed(digits)} ${unit}`;
}

/** A count with separated thousands: `1 204 331`. The separator does not break lines. */
export function count(n: number): string {
  return String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, ' ');
}

export function plural(n: number, one: string, many: string): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** A share of a whole. A share above zero is never 0 %, and one below the whole never 100 %. */
export function percent(part: number, whole: number): string {
  if (whole === 0) return '-';
  const value = (part / whole) * 100;
  if (part > 0 && value < 0.05) return '<0.1 %';
  if (part < whole && value >= 99.95) return '>99.9 %';
  return `${value.toFixed(1)} %`;
}

/** A plain number with three significant digits. */
export function number(value: number): string {
  if (value !== 0 && Math.abs(value) < 0.01) return '<0.01';
  if (Math.abs(value) >= 99.95) return count(value);
  return value.toFixed(Math.abs(value) < 9.995 ? 2 : 1);
}

/** A moment on an axis whose marks are `step` ns apart: enough digits to tell marks apart. */
export function moment(ns: number, step: number): string {
  const [unit, size] = Math.abs(ns) >= 1e9 || step >= 1e9 ? ['s', 1e9] : step >= 1e6 || Math.abs(ns) >= 1e6 ? ['ms', 1e6] : step >= 1e3 || Math.abs(ns) >= 1e3 ? ['µs', 1e3] : ['ns', 1];
  const digits = Math.min(9, Math.max(0, Math.ceil(-Math.log10(step / (size as number)) - 1e-9)));
  return `${(ns / (size as number)).toFixed(digits)} ${unit}`;
}
