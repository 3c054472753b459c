// ask_speedscope.mjs TOOLS CHROMIUM SPEEDSCOPE FILE...: opens exports in speedscope, in a browser without a screen, and compares
// what it shows with the file: a flame graph's weights by function, or a Chrome trace's tracks and the lengths of their
// slices. TOOLS has playwright-core, SPEEDSCOPE is speedscope's own site.
import fs from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import path from 'node:path';

const [tools, executablePath, site, ...files] = process.argv.slice(2);
const { chromium } = createRequire(path.join(path.resolve(tools), 'package.json'))('playwright-core');
const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css' };
// What speedscope writes behind a number: ns, or bytes.
const UNITS = { ns: 1, µs: 1e3, ms: 1e6, s: 1e9, B: 1, KB: 2 ** 10, MB: 2 ** 20, GB: 2 ** 30, TB: 2 ** 40 };

/** Serves speedscope, and a file as its profile: a page that is opened as a file may not read another one. */
function serve(file) {
  const answer = (request, response) => {
    const { pathname } = new URL(request.url, 'http://localhost');
    const wanted = pathname === '/profile' ? file : path.join(site, pathname === '/' ? 'index.html' : pathname);
    response.setHeader('content-type', TYPES[path.extname(wanted)] ?? 'application/octet-stream');
    response.statusCode = fs.existsSync(wanted) ? 200 : 404;
    response.end(response.statusCode === 200 ? fs.readFileSync(wanted) : '');
  };
  return new Promise((resolve) => {
    const server = http.createServer(answer).listen(0, '127.0.0.1', () => resolve(server));
  });
}

/** A number that is shown, as `12.50ms (3%)`, and how far from it the truth may be. */
function shown(text) {
  const minutes = text.match(/^(\d+):(\d\d\.\d+) /);
  if (minutes) return { value: (Number(minutes[1]) * 60 + Number(minutes[2])) * 1e9, within: 0.005e9 };
  const [, digits, unit] = text.match(/^([\d.]+) ?([^\d\s]+) /) ?? [];
  if (!(unit in UNITS)) throw new Error(`speedscope shows ${text}`);
  const fraction = digits.split('.')[1] ?? '';
  return { value: Number(digits) * UNITS[unit], within: 0.501 * UNITS[unit] * 10 ** -fraction.length };
}

/** The rows of the table of functions: total, self and name. */
function rows(text) {
  const lines = text.slice(text.indexOf('Symbol Name\n')).split('\n').slice(1);
  const found = [];
  for (let at = 0; at + 2 < lines.length; at += 3) {
    found.push({ total: shown(lines[at].trim()), self: shown(lines[at + 1].trim()), name: lines[at + 2].trim() });
  }
  return found;
}

/** Adds to an entry of a map. */
const add = (sums, key, value) => sums.set(key, (sums.get(key) ?? 0) + value);

/** Compares the functions of a flame graph with what is shown of it. */
function compareStacks({ shared, profile }, table) {
  const [selves, totals, faults] = [new Map(), new Map(), []];
  profile.samples.forEach((stack, at) => {
    const names = stack.map((frame) => shared.frames[frame].name.trim());
    new Set(names).forEach((name) => add(totals, name, profile.weights[at]));
    if (names.length) add(selves, names.at(-1), profile.weights[at]);
  });
  const told = new Map();
  for (const { name, self } of table) {
    const sum = told.get(name) ?? { value: 0, within: 0 };
    told.set(name, { value: sum.value + self.value, within: sum.within + self.within });
  }
  for (const name of totals.keys()) {
    const self = selves.get(name) ?? 0;
    const { value, within } = told.get(name) ?? { value: NaN, within: 0 };
    if (!(Math.abs(value - self) <= within)) faults.push(`${profile.name}: ${name} has ${self}, and speedscope shows ${value}`);
  }
  if (told.size !== totals.size) faults.push(`${profile.name}: ${totals.size} functions, and speedscope shows ${told.size}`);
  return faults;
}

/** Compares the slices of tracks with what is shown of one of them. Returns the track that fits best, and what does not fit. */
function compareSlices(tracks, table) {
  const wrong = (lengths) =>
    table
      .filter(({ name, total }) => !(Math.abs(total.value - lengths.get(name)) <= total.within))
      .map(({ name, total }) => `${name} takes ${lengths.get(name)} ns, and speedscope shows ${total.value}`);
  const judged = [...tracks].map(([track, lengths]) => [track, wrong(lengths)]);
  return judged.reduce((best, one) => (one[1].length < best[1].length ? one : best));
}

/** What a Chrome trace contains: the lengths of each track's slices, ns, by the names that speedscope gives them, which have
 * their arguments. */
function slices(events) {
  const tracks = new Map();
  for (const { ph, name, args, pid, tid, dur } of events) {
    if (ph !== 'X') continue;
    const track = `${pid} ${tid}`;
    if (!tracks.has(track)) tracks.set(track, new Map());
    add(tracks.get(track), args && Object.keys(args).length ? `${name} ${JSON.stringify(args)}` : name, dur * 1000);
  }
  return tracks;
}

async function ask(browser, file) {
  const content = JSON.parse(fs.readFileSync(file, 'utf8'));
  const isTimeline = Array.isArray(content.traceEvents);
  const tracks = isTimeline ? slices(content.traceEvents) : null;
  const count = isTimeline ? tracks.size : content.profiles.length;
  const server = await serve(file);
  // So high that the table of a flame graph is drawn whole: only what can be seen is.
  const page = await browser.newPage({ viewport: { width: 1200, height: isTimeline ? 1000 : 20_000 } });
  const faults = [];
  page.on('pageerror', (error) => faults.push(`speedscope fails: ${error.message}`));
  await page.goto(`http://127.0.0.1:${server.address().port}/#profileURL=%2Fprofile&title=asked`);
  const text = () => page.evaluate(() => document.body.innerText);
  const until = (wanted) => page.waitForFunction((wanted) => document.body.innerText.includes(wanted), wanted, { timeout: 120_000 });
  for (let at = 0; at < count; at++) {
    await until(count === 1 ? 'asked' : `asked (${at + 1}/${count})`);
    if (at === 0) await page.keyboard.press('3');
    await until('Symbol Name');
    // Its rows come after the title; on a busy machine, that takes longer.
    let table = [];
    for (let waits = 0; waits < 100 && (waits === 0 || table.length === 0); waits++) {
      await page.waitForTimeout(200);
      table = rows(await text());
    }
    if (isTimeline) {
      const [track, wrong] = compareSlices(tracks, table);
      faults.push(...wrong);
      tracks.delete(track);
    } else {
      faults.push(...compareStacks({ shared: content.shared, profile: content.profiles[at] }, table));
    }
    await page.keyboard.press('n');
  }
  await page.close();
  server.close();
  faults.slice(0, 10).forEach((fault) => console.error(`${path.basename(file)}: ${fault}`));
  if (!faults.length) console.log(`${path.basename(file)}: speedscope shows ${count} profiles as the file has them`);
  return faults.length === 0;
}

const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--enable-unsafe-swiftshader'] });
const agreed = [];
for (const file of files) agreed.push(await ask(browser, path.resolve(file)));
await browser.close();
process.exit(agreed.every(Boolean) ? 0 : 1);
