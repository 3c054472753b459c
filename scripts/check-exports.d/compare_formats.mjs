// compare_formats.mjs ENGINE FILE...: loads Chrome traces (.json), one after the other, and Perfetto traces (.pftrace) of the same, put
// together, into Perfetto's trace processor. Errors and lost data of the Perfetto trace fail, and so does any
// difference in slices, arrows, counters, arguments, rows and their names. Prints sizes and the median times of loading.
//
// What differs by the nature of the two, and is translated here:
// - A Chrome trace counts from its base, and the other's times are of the real-time clock.
// - A GPU is a process in a Chrome trace, with a label (`GPU 0`) that the trace processor leaves out, and in the other a group of the
//   process that used it. So the rows of a GPU are compared by the names of program, label and row, without a pid.
// - Arguments are `args.*` and `debug.*`, and of their names `debug.*` has `_` for a dot.
// - An instant at the last ns of a slice is inside it in a Chrome trace and behind it in the other, where the slice has ended.
// - A Chrome trace has six decimals. Counters have `bytes` in their names, or as their unit.
import fs from 'node:fs';
import zlib from 'node:zlib';
import { Loaded } from './engine.mjs';

const ROUNDS = 5;
const [folder, ...paths] = process.argv.slice(2);
const read = (path) => (path.endsWith('.gz') ? zlib.gunzipSync(fs.readFileSync(path)) : fs.readFileSync(path));
const chromes = paths.filter((path) => path.includes('.json')).map((path) => new Uint8Array(read(path)));
const perfetto = new Uint8Array(Buffer.concat(paths.filter((path) => path.includes('.pftrace')).map(read)));

/** The labels of a Chrome trace's GPUs by their pids. */
function labels(chrome) {
  const labelled = /"process_labels","ts":0,"pid":(\d+),.*"labels":"(GPU [^",]*)[^"]*"/g;
  return new Map([...new TextDecoder().decode(chrome).matchAll(labelled)].map(([, pid, label]) => [Number(pid), label]));
}
// All files of a run have one.
const base = BigInt(/"baseTimeNanoseconds": (\d+)/.exec(new TextDecoder().decode(chromes[0].slice(0, 4096)))[1]);

// A slice with the names of its process, its group and its row. In a Chrome trace all rows are threads.
const inChrome = `
  select s.id, s.ts, s.dur, s.depth, ifnull(s.category, '') as category, s.name, s.arg_set_id, p.name as program,
    p.pid as place, ifnull(t.name, '') as row
  from slice s join thread_track k on s.track_id = k.id join thread t using (utid) join process p using (upid)`;
// There, rows that are not threads are tracks of their process; those of a GPU are below its group.
const inPerfetto = `
  select s.id, s.ts, s.dur, s.depth, ifnull(s.category, '') as category, s.name, s.arg_set_id, p.name as program, p.pid as place,
    ifnull(t.name, '') as row
  from slice s join thread_track k on s.track_id = k.id join thread t using (utid) join process p using (upid)
  union all
  select s.id, s.ts, s.dur, s.depth, ifnull(s.category, '') as category, s.name, s.arg_set_id, p.name as program,
    ifnull(g.name, p.pid) as place, k.name as row
  from slice s join process_track k on s.track_id = k.id join process p using (upid) left join track g on k.parent_id = g.id`;

/** What a format says, each part a list of texts. */
async function said(loaded, slices, prefix, zero, labels) {
  const args = new Map();
  const values = ['arg_set_id', 'key', 'int_value', 'string_value', 'real_value'];
  const ofArgs = `select a.arg_set_id, key, int_value, string_value, real_value from args a
    where arg_set_id in (select arg_set_id from slice)`;
  for (const [set, key, int, text, real] of await loaded.ask(ofArgs, values)) {
    if (!key.startsWith(prefix)) throw new Error(`an argument is called ${key}`);
    const name = key.slice(prefix.length).replace(/\./g, '_');
    const value = text ?? (real === null ? int : Number(real).toFixed(6));
    const list = args.get(set) ?? [];
    list.push(`${name}=${value}`);
    args.set(set, list);
  }
  const columns = ['id', 'ts', 'dur', 'depth', 'category', 'name', 'arg_set_id', 'program', 'place', 'row'];
  const shown = new Map();
  for (const [id, ts, dur, depth, category, name, set, program, place, row] of await loaded.ask(slices, columns)) {
    const told = (args.get(set) ?? []).sort().join(' ');
    const group = labels.get(Number(place)) ?? place;
    shown.set(id, [program, group, row, category, name, BigInt(ts) - zero, dur, Number(dur) === 0 ? 'any depth' : depth, told].join('|'));
  }
  const all = await loaded.count('slice');
  if (all !== shown.size) throw new Error(`${all - shown.size} slices are on no row that is known`);
  const arrows = await loaded.ask('select slice_out, slice_in from flow', ['slice_out', 'slice_in']);
  const counted = await loaded.ask(
    `select c.ts, c.value, k.name, ifnull(k.unit, '') as unit, p.name as program, p.pid from counter c
     join process_counter_track k on c.track_id = k.id join process p using (upid)`,
    ['ts', 'value', 'name', 'unit', 'program', 'pid'],
  );
  const counters = counted.map(([ts, value, name, unit, ...of]) =>
    [...of, unit === 'bytes' || unit === 'sizeBytes' ? `${name} bytes` : name, BigInt(ts) - zero, value].join('|'),
  );
  const ends = arrows.map(([from, to]) => `${shown.get(from)} -> ${shown.get(to)}`);
  return { slices: [...shown.values()].sort(), arrows: ends.sort(), counters: counters.sort() };
}

const median = (numbers) => numbers.sort((a, b) => a - b)[numbers.length >> 1];
const times = { chrome: [], perfetto: [] };
let faults = 0;
let both;
for (let round = 0; round < ROUNDS; round++) {
  const theirs = { slices: [], arrows: [], counters: [] };
  let seconds = 0;
  for (const chrome of chromes) {
    const loaded = await Loaded.of(folder, chrome);
    seconds += loaded.seconds;
    if (round > 0) continue;
    const found = await said(loaded, inChrome, 'args.', 0n, labels(chrome));
    for (const part of Object.keys(theirs)) theirs[part] = theirs[part].concat(found[part]);
  }
  const ours = await Loaded.of(folder, perfetto);
  times.chrome.push(seconds);
  times.perfetto.push(ours.seconds);
  if (round > 0) continue;
  for (const [name, value] of await ours.losses()) {
    console.error(`Perfetto met ${name}: ${value}`);
    faults += 1;
  }
  for (const texts of Object.values(theirs)) texts.sort();
  both = [theirs, await said(ours, inPerfetto, 'debug.', base, new Map())];
}
for (const part of Object.keys(both[0])) {
  const [theirs, ours] = both.map((one) => one[part]);
  const at = theirs.findIndex((text, index) => text !== ours[index]);
  if (at < 0 && theirs.length === ours.length) continue;
  const [one, other] = [theirs, ours].map((texts) => texts[at < 0 ? Math.min(theirs.length, ours.length) : at]);
  console.error(`${part} differ (${theirs.length}, ${ours.length}):\n  Chrome:   ${one}\n  Perfetto: ${other}`);
  faults += 1;
}
const { slices, arrows, counters } = both[1];
const chrome = Buffer.concat(chromes);
const size = (bytes) => `${(bytes.length / 1e6).toFixed(3)} MB`;
const gz = zlib.gzipSync(chrome, { level: 1 });
const smaller = (bytes) => `${(bytes.length / perfetto.length).toFixed(1)} times smaller`;
console.log(
  `${faults > 0 ? 'the formats differ' : 'both formats say the same'}: ${slices.length} slices, ${arrows.length} arrows, ${counters.length} values of counters\n` +
    `  size:           Perfetto ${size(perfetto)}, Chrome ${size(chrome)} (Perfetto is ${smaller(chrome)}), as .gz ${size(gz)} (${smaller(gz)})\n` +
    `  time to load:   Chrome ${median(times.chrome).toFixed(2)} s, Perfetto ${median(times.perfetto).toFixed(2)} s`,
);
process.exit(faults > 0 ? 1 : 0);
