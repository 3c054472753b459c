// Perfetto's trace processor under Node. It is made for a browser's worker: it is given what it uses of one, and no `process`, so
// that it does not take this for Node.
import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';

// It warns of a field that its own trace processor sends.
console.warn = () => {};

/** An engine that answers, from its folder. A worker takes a moment to start, says nothing, and is lost if it is asked before: then another. */
async function start(folder) {
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

/** A trace in an engine of its own. */
export class Loaded {
  static async of(folder, bytes) {
    const loaded = new Loaded();
    loaded.engine = await start(folder);
    const began = performance.now();
    for (let at = 0; at < bytes.length; at += 16 << 20) await loaded.engine.parse(bytes.slice(at, at + (16 << 20)));
    await loaded.engine.notifyEof();
    loaded.seconds = (performance.now() - began) / 1000;
    return loaded;
  }

  /** The rows of an answer, each the values of these columns. */
  async ask(sql, columns) {
    const rows = [];
    const answer = await this.engine.query(sql);
    for (const row = answer.iter({}); row.valid(); row.next()) rows.push(columns.map((column) => row.get(column)));
    return rows;
  }

  /** How many rows the rest of a query names, or what else of them. */
  async count(from, what = 'count(*)') {
    const [[n]] = await this.ask(`select ${what} as n from ${from}`, ['n']);
    return Number(n);
  }

  /** Errors and lost data, by name. */
  losses() {
    return this.ask("select name, value from stats where value > 0 and severity in ('error', 'data_loss')", ['name', 'value']);
  }
}
