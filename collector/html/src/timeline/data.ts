// The timeline's tables: columns of whole numbers, as collector/src/report/html/columns.rs describes them.

import { manifest, type TableShape } from '../report';

/** What is drawn in rows, from one moment to another: ns since the start of the run. */
export interface Slices {
  count: number;
  row: Int32Array;
  name: Int32Array;
  begin: Float64Array;
  end: Float64Array;
  /** Of bins: how much of each is busy, ns, and how many slices begin in it. */
  busy: Float64Array | null;
  inside: Float64Array | null;
  /** The length of a bin, ns; null = each slice is there by itself. */
  binNs: number | null;
}

export interface Operations extends Slices {
  /** Null where rows are bins. */
  each: {
    call: () => Int32Array;
    shape: () => Int32Array;
    correlation: () => Float64Array;
    amount: () => Float64Array;
    startLo: () => Float64Array;
    startHi: () => Float64Array;
    finishLo: () => Float64Array;
    finishHi: () => Float64Array;
    took: () => Float64Array;
    tookLo: () => Float64Array;
    tookHi: () => Float64Array;
  } | null;
}

export interface Calls extends Slices {
  each: { line: () => Int32Array; untimed: () => Int32Array; calls: () => Int32Array } | null;
}

export interface Steps {
  process: Int32Array;
  number: Float64Array;
  begin: Float64Array;
}

export interface Data {
  operations: Operations;
  calls: Calls;
  ranges: Slices;
  steps: Steps;
}

export async function decode(): Promise<Data> {
  const [operations, calls, ranges, steps] = await Promise.all(['operations', 'calls', 'ranges', 'steps'].map(columns));
  if (!operations || !calls || !ranges || !steps) throw new Error('a table is missing');
  return { operations: ofOperations(operations), calls: ofCalls(calls), ranges: slices(ranges, 'thread'), steps: ofSteps(steps) };
}

interface Columns {
  shape: TableShape;
  get: (name: string) => Float64Array;
  ints: (name: string) => Int32Array;
}

async function columns(table: string): Promise<Columns> {
  const shape = manifest.tables[table];
  const element = document.getElementById(`table-${table}`);
  if (!shape || !element) throw new Error(`the table ${table} is missing`);
  const packed = fromBase64(element.textContent ?? '');
  element.remove();
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate'));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const places = new Map<string, number>();
  let next = 0;
  for (const name of shape.columns) {
    places.set(name, next);
    next += 1 + (bytes[next] ?? 0) * shape.rows;
  }
  const { rows } = shape;
  const find = (name: string): [number, number] => {
    const place = places.get(name);
    if (place === undefined) throw new Error(`the column ${name} is missing`);
    return [place + 1, bytes[place] ?? 0];
  };
  const get = (name: string) => {
    const values = new Float64Array(rows);
    const [place, planes] = find(name);
    if (planes <= 4) fill(values, bytes, place, planes);
    else fillWide(values, bytes, place, planes);
    return values;
  };
  const ints = (name: string) => {
    const values = new Int32Array(rows);
    const [place, planes] = find(name);
    if (planes > 4) return Int32Array.from(get(name));
    fill(values, bytes, place, planes);
    return values;
  };
  return { shape, get, ints };
}

/** Reads a column of at most four planes. A plane's bytes follow each other. */
function fill(values: Float64Array | Int32Array, bytes: Uint8Array, place: number, planes: number): void {
  const rows = values.length;
  const [one, two, three] = [place + rows, place + 2 * rows, place + 3 * rows];
  for (let row = 0; row < rows; row += 1) {
    let n = planes > 0 ? (bytes[place + row] as number) : 0;
    if (planes > 1) n |= (bytes[one + row] as number) << 8;
    if (planes > 2) n |= (bytes[two + row] as number) << 16;
    if (planes > 3) n |= (bytes[three + row] as number) << 24;
    // Zigzag: 0, -1, 1, -2, …
    values[row] = (n >>> 1) ^ -(n & 1);
  }
}

/** Reads a column of more planes, whose numbers are beyond 32 bits. */
function fillWide(values: Float64Array, bytes: Uint8Array, place: number, planes: number): void {
  const rows = values.length;
  for (let row = 0; row < rows; row += 1) {
    let n = 0;
    for (let plane = planes - 1; plane >= 0; plane -= 1) n = n * 256 + (bytes[place + plane * rows + row] as number);
    values[row] = n % 2 === 0 ? n / 2 : -(n + 1) / 2;
  }
}

/** Makes something when it is first asked for: the first picture needs no bounds. */
function lazily<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const decoder = Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> };
  if (decoder.fromBase64) return decoder.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at += 1) bytes[at] = binary.charCodeAt(at);
  return bytes;
}

/** Begins and ends from the distances to the end of the slice before in the same row. */
function times(row: Int32Array, gap: Float64Array, length: Float64Array): { begin: Float64Array; end: Float64Array } {
  const [begin, end] = [gap, length];
  let rows = 0;
  for (let at = 0; at < row.length; at += 1) rows = Math.max(rows, (row[at] as number) + 1);
  const last = new Float64Array(rows);
  for (let at = 0; at < row.length; at += 1) {
    const of = row[at] as number;
    const start = (last[of] as number) + (gap[at] as number);
    const stop = start + (length[at] as number);
    begin[at] = start;
    end[at] = stop;
    last[of] = stop;
  }
  return { begin, end };
}

function slices(of: Columns, rowName: string, nameName = 'name'): Slices {
  const { shape, get, ints } = of;
  const binNs = shape.bin_ns;
  const count = shape.rows;
  if (binNs !== null) {
    const bin = get('bin');
    const begin = bin.map((at) => at * binNs);
    const end = bin.map((at) => (at + 1) * binNs);
    return { count, row: ints('row'), name: ints('name'), begin, end, busy: get('busy'), inside: get('slices'), binNs };
  }
  const row = ints(rowName);
  return { count, row, name: ints(nameName), ...times(row, get('gap'), get('length')), busy: null, inside: null, binNs };
}

function ofOperations(of: Columns): Operations {
  const all = slices(of, 'stream');
  if (all.binNs !== null) return { ...all, each: null };
  const { get, ints } = of;
  const { begin, end, row } = all;
  const minus = (from: Float64Array, less: Float64Array) => less.map((n, at) => (from[at] as number) - n);
  const plus = (from: Float64Array, more: Float64Array) => more.map((n, at) => (from[at] as number) + n);
  const call = lazily(() => {
    const call = ints('call');
    for (let at = 1; at < call.length; at += 1) (call[at] as number) += call[at - 1] as number;
    return call;
  });
  const correlation = lazily(() => {
    const correlation = get('correlation');
    const last = new Map<number, number>();
    for (let at = 0; at < all.count; at += 1) {
      const stream = row[at] as number;
      (correlation[at] as number) += last.get(stream) ?? 0;
      last.set(stream, correlation[at] as number);
    }
    return correlation;
  });
  const startLo = lazily(() => minus(begin, get('start_lo')));
  const startHi = lazily(() => plus(begin, get('start_hi')));
  const finishLo = lazily(() => minus(end, get('finish_lo')));
  const finishHi = lazily(() => plus(end, get('finish_hi')));
  const took = lazily(() => get('took').map((n, at) => n + (end[at] as number) - (begin[at] as number)));
  const tookLo = lazily(() => get('took_lo').map((n, at) => n + Math.max(0, (finishLo()[at] as number) - (startHi()[at] as number))));
  const tookHi = lazily(() => get('took_hi').map((n, at) => n + (finishHi()[at] as number) - (startLo()[at] as number)));
  const shape = lazily(() => ints('shape'));
  const amount = lazily(() => get('amount'));
  return { ...all, each: { call, shape, correlation, amount, startLo, startHi, finishLo, finishHi, took, tookLo, tookHi } };
}

function ofCalls(of: Columns): Calls {
  const all = slices(of, 'thread', 'api');
  if (all.binNs !== null) return { ...all, each: null };
  return { ...all, each: { line: lazily(() => of.ints('line')), untimed: lazily(() => of.ints('untimed')), calls: lazily(() => of.ints('calls')) } };
}

function ofSteps(of: Columns): Steps {
  if (of.shape.bin_ns !== null) return { process: new Int32Array(0), number: new Float64Array(0), begin: new Float64Array(0) };
  const process = of.ints('process');
  const begin = of.get('gap');
  times(process, begin, new Float64Array(begin.length));
  return { process, number: of.get('number'), begin };
}
