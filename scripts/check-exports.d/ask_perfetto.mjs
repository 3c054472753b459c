// ask_perfetto.mjs ENGINE TRACE: loads a Chrome trace into Perfetto's trace processor and says what that met: errors and lost data
// fail, and so does an export whose calls, operations, ranges, operators, functions, marks and arrows are not all there. ENGINE is its folder.
import fs from 'node:fs';
import { Loaded } from './engine.mjs';

const [folder, trace] = process.argv.slice(2);
const bytes = new Uint8Array(fs.readFileSync(trace));
const loaded = await Loaded.of(folder, bytes);
const count = (from, what) => loaded.count(from, what);

// Questions in a row are one slice.
const eachCall = "ifnull(sum(ifnull(extract_arg(arg_set_id, 'args.calls'), 1)), 0)";

const losses = await loaded.losses();
const seen = {
  calls: await count("slice where category in ('cuda_driver', 'cuda_runtime')", eachCall),
  operations: await count("slice where category in ('kernel', 'gpu_memcpy', 'gpu_memset')"),
  annotations: await count("slice where category in ('user_annotation', 'gpu_user_annotation')"),
  operators: await count("slice where category = 'cpu_op'"),
  functions: await count("slice where category = 'python_function'"),
  arrows: await count('flow'),
};
const { gpuspy, traceEvents } = JSON.parse(new TextDecoder().decode(bytes));
const arrows = traceEvents.filter((event) => event.ph === 's').length;
const { calls, operations, annotations, operators, functions } = gpuspy;
const expected = { calls, operations, annotations, operators, functions, arrows };
const differ = JSON.stringify(seen) !== JSON.stringify(expected);

for (const [name, value] of losses) console.error(`Perfetto met ${name}: ${value}`);
console.log(`Perfetto sees ${JSON.stringify(seen)}`);
if (differ) console.error(`the export has ${JSON.stringify(expected)}`);
process.exit(losses.length > 0 || differ ? 1 : 0);
