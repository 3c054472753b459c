// ask_perfetto.mjs ENGINE TRACE: loads a trace into Perfetto's trace processor and says what that met: errors and lost data fail,
// and so does an export whose calls, operations, ranges, marks and arrows are not all there. ENGINE is the folder of the trace processor, made
// for a browser's worker: it is given what it uses of one, and no `process`, so that it does not take this for Node.
import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';

// It warns of a field that its own trace processor sends.
console.warn = () => {};
const [folder, trace] = process.argv.slice(2);
const { EngineBase } = await import(path.resolve(folder, 'engine.mjs'));
const code = fs.readFileSync(path.join(folder, 'engine_bundle.node.js'), 'utf8');

// What the worker fetches lies in the folder.
class XMLHttpRequest {
  open(_method, url) {
    this.file = path.join(folder, path.basename(url));
  }
  setRequestHeader() {}
  send() {
    const bytes = fs.readFileSync(this.file);
    this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
    this.status = 200;
    this.onload?.();
  }
}

class Engine extends EngineBase {
  port = { postMessage: (bytes) => this.onRpcResponseBytes(Uint8Array.from(bytes)) };
  constructor() {
    super();
    const location = { href: 'http://worker/engine.js', protocol: 'http:' };
    const self = { location };
    const log = () => {};
    vm.runInNewContext(code, {
      self, location, XMLHttpRequest, WorkerGlobalScope() {}, importScripts() {}, performance, TextDecoder, TextEncoder, crypto,
      setTimeout, clearTimeout, URL, Uint8Array, console: { log, warn: log, error: log },
    });
    self.onmessage({ data: this.port });
  }
  rpcSendRequestBytes(data) {
    this.port.onmessage({ data });
  }
}

/** An engine that answers. A worker takes a moment to start, says nothing, and is lost if it is asked before: then another. */
async function start() {
  for (let patience = 250; ; patience *= 2) {
    const engine = new Engine();
    await new Promise((done) => setTimeout(done, patience));
    try {
      await engine.query('select 1');
      return engine;
    } catch (error) {
      if (patience > 20_000) throw error;
    }
  }
}

const engine = await start();
const bytes = new Uint8Array(fs.readFileSync(trace));
for (let at = 0; at < bytes.length; at += 16 << 20) await engine.parse(bytes.slice(at, at + (16 << 20)));
await engine.notifyEof();

/** The rows of an answer, each the values of these columns. */
async function ask(sql, columns) {
  const rows = [];
  const answer = await engine.query(sql);
  for (const row = answer.iter({}); row.valid(); row.next()) rows.push(columns.map((column) => row.get(column)));
  return rows;
}

/** How many rows the rest of a query names, or what else of them. */
async function count(from, what = 'count(*)') {
  const [[n]] = await ask(`select ${what} as n from ${from}`, ['n']);
  return Number(n);
}
// Questions in a row are one slice.
const eachCall = "ifnull(sum(ifnull(extract_arg(arg_set_id, 'args.calls'), 1)), 0)";

const losses = await ask("select name, value from stats where value > 0 and severity in ('error', 'data_loss')", [
  'name',
  'value',
]);
const seen = {
  calls: await count("slice where category in ('cuda_driver', 'cuda_runtime')", eachCall),
  operations: await count("slice where category in ('kernel', 'gpu_memcpy', 'gpu_memset')"),
  annotations: await count("slice where category in ('user_annotation', 'gpu_user_annotation')"),
  arrows: await count('flow'),
};
const { gpuspy, traceEvents } = JSON.parse(new TextDecoder().decode(bytes));
const arrows = traceEvents.filter((event) => event.ph === 's').length;
const { calls, operations, annotations } = gpuspy;
const expected = { calls, operations, annotations, arrows };
const differ = JSON.stringify(seen) !== JSON.stringify(expected);

for (const [name, value] of losses) console.error(`Perfetto met ${name}: ${value}`);
console.log(`Perfetto sees ${JSON.stringify(seen)}`);
if (differ) console.error(`the export has ${JSON.stringify(expected)}`);
process.exit(losses.length > 0 || differ ? 1 : 0);
