// judge.mjs TOOLS CHROMIUM NAME PAGE REPORT OPERATIONS SCREEN [PICTURES]: opens a page in a browser without a screen, and compares
// it with what the same gpuspy says of the same traces: REPORT is `report --json`, OPERATIONS `report --operations`, SCREEN
// `report --section ranks,coverage`. PICTURES is a folder for pictures of the page. Says what is wrong, and exits with 1.
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import readline from 'node:readline';
import { text, withoutBlanks } from './texts.mjs';
import { figures } from './figures.mjs';

const [tools, executablePath, name, file, reportFile, operationsFile, screenFile, pictures] = process.argv.slice(2);
const { chromium } = createRequire(path.join(path.resolve(tools), 'package.json'))('playwright-core');
const report = JSON.parse(fs.readFileSync(reportFile, 'utf8'));
// Those of a run of over a million operations are only counted: a page has bins of them.
const isCounted = fs.statSync(operationsFile).size > 400e6;
const lines = [];
let timedOperations = 0;
for await (const line of readline.createInterface({ input: fs.createReadStream(operationsFile) })) {
  timedOperations += Number(line.includes('"clock":"host"'));
  if (!isCounted) lines.push(JSON.parse(line));
}
const screen = fs.readFileSync(screenFile, 'utf8');

const faults = [];
const expect = (holds, what) => holds || faults.push(what);
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });

/** Opens the page, which may ask for nothing and complain of nothing. */
async function open(options, section = '') {
  const page = await browser.newPage(options);
  page.on('console', (message) => faults.push(`the console says ${message.text()}`));
  page.on('pageerror', (error) => faults.push(`an error: ${error.message}`));
  page.on('request', (request) => request.url().split('#')[0] === url || faults.push(`a request for ${request.url().slice(0, 200)}`));
  const url = new URL(`file://${path.resolve(file).split('/').map(encodeURIComponent).join('/')}`).href;
  await page.goto(url + section);
  // The foot comes last. A page that cannot be drawn says so outside of its head.
  await page.waitForFunction(() => document.querySelector('footer, #page > .doubts'), null, { timeout: 60_000 });
  await page.evaluate(() => document.fonts.ready);
  return page;
}

const page = await open({ viewport: { width: 1280, height: 900 }, colorScheme: 'light' });
const ready = await page.evaluate(() => window.gpuspy?.readyAfter);
const hasTimeline = ready !== undefined;

// Everything that can be opened is.
await page.evaluate(() => {
  document.querySelectorAll('details').forEach((one) => (one.open = true));
  document.querySelectorAll('button.more').forEach((one) => one.hidden || one.click());
});

// Each figure is that of the report, and there is no other number.
const shown = await page.evaluate(() => Array.from(document.querySelectorAll('[data-path]'), (one) => ({ path: one.dataset.path, as: one.dataset.as, of: one.dataset.of, text: one.textContent })));
faults.push(...figures(shown, report));
const strays = await page.evaluate(() => {
  const walker = document.createTreeWalker(document.getElementById('page'), NodeFilter.SHOW_TEXT);
  const found = [];
  while (walker.nextNode()) {
    const { parentElement: parent, data } = walker.currentNode;
    if (/\d/.test(data) && !parent.closest('[data-path], [data-text], [data-own], dt, th')) found.push(data);
  }
  return found;
});
expect(strays.length === 0, `numbers that the report does not have: ${strays.slice(0, 5).join(' | ')}`);
const rows = { kernels: 'count', transfers: 'bytes', apis: 'host_ns', syncs: 'host_ns', lines: 'gpu_ns', ranges: 'host_ns', ranks: 'busy_ns', 'idle.sites': 'total_ns', 'memory.holders': 'bytes' };
if (hasTimeline) {
  const paths = new Set(shown.map((one) => one.path));
  for (const [list, key] of Object.entries(rows)) {
    const all = list.split('.').reduce((value, one) => value?.[one], report) ?? [];
    all.forEach((row, index) => {
      // A cause without any time has no bar, and so no places.
      if (list === 'idle.sites' && row.total_ns.value === 0) return;
      expect(paths.has(`${list}.${index}.${key}`), `${list}.${index} is not on the page`);
    });
  }
}

const boundless = await page.evaluate(() => Array.from(document.querySelectorAll('[data-path]')).filter((one) => one.textContent.startsWith('~') && !one.title).map((one) => one.dataset.path));
expect(boundless.length === 0, `figures with ~ that do not say their bounds: ${boundless.slice(0, 5)}`);

// Each text is one of the report or of the terminal.
const texts = await page.evaluate(() => Array.from(document.querySelectorAll('[data-text]'), (one) => one.textContent));
faults.push(...text(texts, report, screen));
const doubts = await page.evaluate(() => document.querySelector('.doubts')?.textContent ?? '');
const { warnings, endings, ranks, coverage } = await page.evaluate(() => JSON.parse(document.getElementById('data-about').textContent).sentences);
for (const sentence of [...warnings, ...endings, ...ranks, ...coverage]) expect(withoutBlanks(screen).includes(withoutBlanks(sentence)), `the terminal does not say: ${sentence.slice(0, 200)}`);
for (const sentence of [...warnings, ...endings]) expect(doubts.includes(sentence.slice(0, 60)), `the page does not warn: ${sentence.slice(0, 200)}`);

/** Whether a sentence is about a rank: `ranks 0, 2 to 5 and 7 (node1): killed by SIGTERM`. */
function isAbout(sentence, rank) {
  const who = sentence.split(':')[0].replace(/ \(.*/, '');
  return Array.from(who.matchAll(/(\d+)(?: to (\d+))?/g)).some(([, first, last]) => Number(first) <= rank && rank <= Number(last ?? first));
}

// What the terminal says of ranks is on the page, and who ended badly in its head.
if (hasTimeline && report.ranks.length > 0) {
  expect(ranks.length > 0, 'nothing is said of the ranks');
  const section = await page.evaluate(() => document.querySelector('#ranks')?.textContent ?? '');
  for (const sentence of ranks) expect(section.includes(sentence), `the section of ranks does not say: ${sentence}`);
  const rows = await page.evaluate(() => Array.from(document.querySelectorAll('header tbody tr'), (row) => row.textContent));
  for (const { rank, pid, signal, exit_code } of report.processes) {
    if (!signal && !exit_code) continue;
    const how = signal ?? `code ${exit_code}`;
    expect(endings.some((said) => isAbout(said, rank) && said.endsWith(how)), `rank ${rank} ended with ${how}, and nothing says so`);
    expect(rows.some((row) => row.startsWith(`${pid}`) && row.includes(how)), `the list of processes does not have ${how} of rank ${rank}`);
  }
}

// The parts of the wall time are shown with what is known of them.
if (hasTimeline) {
  const paths = new Set(shown.map((one) => one.path));
  for (const [part, { value }] of Object.entries(report.identity.estimates)) {
    expect(value === report.identity[part], `the estimate of ${part} is ${value}, and not ${report.identity[part]}`);
    expect(value === 0 || paths.has(`identity.estimates.${part}`), `${part} of the wall time is without its bounds`);
  }
  for (const list of ['kernels', 'transfers', 'apis', 'syncs', 'implicit_syncs']) {
    report[list].forEach((row, index) => {
      const isPart = row.line && row.line_share !== null && row.line_share < 0.995;
      expect(!isPart || paths.has(`${list}.${index}.line_share`), `${list}.${index} does not say how much comes from its line`);
    });
  }
}

// The steps after the warm-up fill the plot, as in the terminal, and what takes longer is cut.
const means = report.steps?.plot_ns ?? [];
const steady = means.filter((mean) => mean <= (report.steps.max_ns ?? Infinity));
const most = Math.max(0, ...(steady.length > 0 ? steady : means));
if (hasTimeline && means.length >= 2 && most > 0) {
  const bars = await page.evaluate(() => Array.from(document.querySelectorAll('#steps .plot g'), (bar) => Array.from(bar.querySelectorAll('rect'), (one) => Number(one.getAttribute('height')))));
  const isDrawn = (mean, at) => (mean > most ? bars[at]?.length === 2 : Math.abs((bars[at]?.[0] ?? 0) - Math.max(1, (mean / most) * 100)) < 0.01);
  expect(means.every(isDrawn), 'the plot of the steps is not scaled to those after the warm-up');
}

// A lower bound of a throughput is shown where it says something, as on the terminal.
if (hasTimeline) {
  const paths = new Set(shown.map((one) => one.path));
  report.transfers.forEach(({ gbps, gbps_is_known: isKnown }, index) => {
    const isBounded = gbps !== null && !isKnown && 2 * gbps.lo >= gbps.value && gbps.lo >= 0.1;
    expect(paths.has(`transfers.${index}.gbps.lo`) === isBounded, `transfers.${index}: ${JSON.stringify(gbps)} ${isBounded ? 'lacks' : 'has'} its lower bound`);
  });
}

// The places of a cause can be told apart, and what is in none of them is said.
const causes = await page.evaluate(() => Array.from(document.querySelectorAll('.cause'), (one) => ({ path: one.querySelector('[data-path]').dataset.path, text: one.textContent, places: Array.from(one.querySelectorAll('tbody tr'), (row) => Array.from(row.children).slice(2).map((cell) => cell.textContent).join(' | ')) })));
for (const { path, text, places } of causes) {
  const { cause, total_ns: total } = report.idle.by_cause[Number(path.split('.')[2])];
  const listed = report.idle.sites.filter((site) => site.cause === cause).reduce((sum, site) => sum + site.total_ns.value, 0);
  expect(cause === 'undecided' || text.includes('not among the') === listed < total.value, `the places of ${cause} have ${listed} ns of ${total.value}: ${text.slice(-120)}`);
  const twice = places.find((place, at) => places.indexOf(place) !== at);
  expect(twice === undefined, `places of ${cause} that look alike: ${twice}`);
}

// Steps say whose they are where there are several processes, and where the host's part of a long one is.
if (hasTimeline && report.steps.count > 0) {
  const { rank, pid, timed_on: timedOn, outliers } = report.steps;
  const said = await page.evaluate(() => document.querySelector('#steps').textContent);
  expect(report.processes.length < 2 || said.includes(rank === null ? `of process ${pid}` : `of rank ${rank}`), `the steps do not say whose they are: ${said.slice(0, 200)}`);
  const both = outliers.length > 0 && timedOn === 'gpu' && `--step ${outliers[0].step}..${outliers[0].step + 1}`;
  expect(!both || said.includes(both), `the long steps do not name ${both}`);
  const drawn = await page.evaluate(() => document.querySelectorAll('#steps [data-path^="steps.slow_stretches."][data-path$=".mean_ns"]').length);
  expect(drawn === report.steps.slow_stretches.length && (name !== 'slower' || drawn > 0), `${drawn} of ${report.steps.slow_stretches.length} slow stretches are on the page`);
}

// The plot of memory says that its height is of one kind, and ends with the run.
const axis = await page.evaluate(() => document.querySelector('#memory .axis')?.textContent ?? null);
if (axis !== null) {
  expect(axis.includes('each kind by itself'), `the axis of memory is ${axis}`);
  const { from_ns: from, bucket_ns: bucket } = report.memory.timeline;
  const end = await page.evaluate(() => Number(document.querySelector('#memory .plot svg').getAttribute('viewBox').split(' ')[2]));
  expect(from + (end - 1) * bucket > report.wall_ns || from + end * bucket <= report.wall_ns * (1 + 1e-9), `memory is drawn until ${from + end * bucket} of ${report.wall_ns}`);
}

// Where no verdict is safe, nothing is said to be fine.
if (hasTimeline && report.findings.length === 0 && report.verdict.unsafe) {
  const said = await page.evaluate(() => document.querySelector('#findings')?.textContent ?? '');
  expect(said.includes(report.verdict.unsafe), `the page does not say that no verdict is safe: ${said}`);
}

// No name did what it might.
const harm = await page.evaluate(() => ({ harmed: window.harmed, text: document.body.innerText, long: Math.max(...Array.from(document.querySelectorAll('#page *'), (one) => one.title?.length ?? 0)) }));
expect(harm.harmed === undefined, 'a name was taken for markup');
expect(!/[\u202a-\u202e\u2028\u2066-\u2069]/.test(harm.text), 'a name turns text around');
expect(harm.long <= 400 && !/x{2000}/.test(harm.text), 'a name is as long as it likes');

// Nothing is wider than the page, and every control has a name.
for (const width of [1280, 390]) {
  await page.setViewportSize({ width, height: 844 });
  await page.waitForTimeout(50);
  const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  expect(over <= 0, `at ${width} pixels the page is ${over} too wide`);
}
await page.setViewportSize({ width: 1280, height: 900 });
const nameless = await page.evaluate(() => Array.from(document.querySelectorAll('button, input, canvas, svg, a, [role]'), (one) => [one.outerHTML.slice(0, 80), one.getAttribute('aria-label') || one.textContent.trim()]).filter(([, name]) => !name).map(([html]) => html));
expect(nameless.filter((html) => !/role="status"|class="more"/.test(html)).length === 0, `controls without a name: ${nameless}`);

let compared = 0;
if (hasTimeline) {
  compared = await operations();
  await timeline();
  await tables();
}
await printed();
if (hasTimeline) await linked();
for (const colorScheme of ['light', 'dark']) await contrast(colorScheme);
if (pictures) await picture();
await browser.close();

const size = fs.statSync(file).size;
console.log(`${name}: ${shown.length} figures and ${texts.length} texts of the report, ${compared} operations equal; ${(size / 1e6).toFixed(2)} MB${hasTimeline ? `, drawn after ${Math.round(ready)} ms` : ''}`);
faults.slice(0, 20).forEach((fault) => console.error(`${name}: ${fault}`));
process.exit(faults.length > 0 ? 1 : 0);

/** The decoded tables have what `--operations` prints, to the nanosecond. */
async function operations() {
  const timed = lines.filter((line) => line.start_ns && line.clock === 'host');
  const read = await page.evaluate(() => {
    const { operations: of, calls } = window.gpuspy.data;
    const { names, streams, processes } = JSON.parse(document.getElementById('data-timeline').textContent);
    if (!of.each) return null;
    const all = Object.fromEntries(Object.entries(of.each).map(([key, make]) => [key, make()]));
    const line = calls.each?.line();
    return Array.from({ length: of.count }, (_, at) => {
      const [stream, kind, call] = [streams[of.row[at]], names.operations[of.name[at]], all.call[at]];
      return [processes[stream.process].pid, all.correlation[at], stream.stream, kind.kind === 'communication' ? 'kernel' : kind.kind, of.begin[at], all.startLo[at], all.startHi[at], of.end[at], all.finishLo[at], all.finishHi[at], all.took[at], all.tookLo[at], all.tookHi[at], call >= 0 ? calls.begin[call] : null, call >= 0 && line?.[call] >= 0 ? names.lines[line[call]] : null];
    });
  });
  if (read === null) {
    const slices = await page.evaluate(() => JSON.parse(document.getElementById('data-timeline').textContent).tables.operations.slices);
    expect(slices === timedOperations, `${slices} operations are in bins, not ${timedOperations}`);
    const said = await page.evaluate(() => Array.from(document.querySelectorAll('.note'), (one) => one.textContent).join(' '));
    expect(said.includes('too many for a page one by one'), 'the page does not say that operations are left out');
    return slices;
  }
  expect(!isCounted && read.length === timed.length, `${read.length} operations, not ${timed.length}`);
  // Times count from the start of the run, of which the lines say nothing: the first operation of each process ties them.
  const zero = new Map();
  read.forEach((row, at) => {
    const line = timed[at];
    if (!line) return;
    const [pid, correlation, stream, kind, start] = row;
    if (!zero.has(pid)) zero.set(pid, line.start_ns.value - start);
    const moment = (ns) => ns - zero.get(pid);
    const { start_ns: s, finish_ns: f, duration_ns: d } = line;
    // A run's record is no call; its line is one that is not in the page.
    const isCall = row[13] !== null;
    const wanted = [line.pid, line.correlation, line.stream, line.kind, moment(s.value), moment(s.lo), moment(s.hi), moment(f.value), moment(f.lo), moment(f.hi), d.value, d.lo, d.hi, isCall ? moment(line.call_start_ns) : null, isCall ? line.line : null];
    const same = wanted.every((value, index) => value === row[index]);
    if (!same && faults.length < 5) faults.push(`operation ${correlation} is ${JSON.stringify(row)} of ${kind} on ${stream}, not ${JSON.stringify(wanted)}`);
    else if (!same) faults.push('another operation differs');
  });
  return read.length;
}

/** Keyboard, mouse and search move the view and choose slices. */
async function timeline() {
  const state = () => page.evaluate(() => window.gpuspy.timeline.state);
  const length = async () => (({ from, to }) => to - from)(await state());
  const canvas = page.locator('.timeline canvas');
  await canvas.scrollIntoViewIfNeeded();
  await canvas.focus();
  const whole = await length();
  await page.keyboard.press('+');
  expect(Math.abs((await length()) - whole / 2) <= 2, 'plus does not halve the time that is shown');
  const before = await state();
  await page.keyboard.press('ArrowRight');
  expect((await state()).from > before.from, 'the right arrow does not move');
  await page.keyboard.press('0');
  expect((await length()) === whole, '0 does not show the whole run');
  await page.keyboard.press('ArrowDown');
  expect((await state()).at >= 0, 'the down arrow chooses nothing');
  await page.keyboard.press('Enter');
  expect((await length()) <= whole, 'Enter does not zoom');
  await page.keyboard.press('Escape');
  expect((await state()).at === -1, 'Escape does not give up the choice');
  await page.keyboard.press('0');
  const box = await canvas.boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + 60);
  await page.keyboard.down('Control');
  await page.mouse.wheel(0, -200);
  await page.keyboard.up('Control');
  await page.waitForTimeout(50);
  expect((await length()) < whole, 'Ctrl and the wheel do not zoom');
  const dragged = await state();
  await page.mouse.down();
  await page.mouse.move(box.x + box.width / 2 + 80, box.y + 60, { steps: 4 });
  await page.mouse.up();
  expect((await state()).from < dragged.from, 'a drag does not move');
  await page.keyboard.press('0');
  await page.mouse.move(box.x + box.width * 0.4, box.y + 10);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 10, { steps: 4 });
  await page.mouse.up();
  expect((await length()) < whole * 0.4, 'a drag on the axis does not zoom');
  await canvas.focus();
  await page.keyboard.press('0');
  await lastSteps();
  await lateOperation();
  await search(whole, length);
}

/** The last step of a process has no length, and is not drawn beyond what the process did. */
async function lastSteps() {
  const said = await page.evaluate(() => {
    const { timeline } = window.gpuspy;
    const { lanes } = timeline.scene;
    return lanes.flatMap((lane, index) => {
      if (lane.kind !== 'steps') return [];
      const did = lanes.filter((one) => one.process === lane.process && (one.kind === 'stream' || one.kind === 'calls'));
      timeline.choose(index, lane.order.length - 1);
      return [{ drawn: lane.reach.at(-1), ended: Math.max(...did.map((one) => one.reach.at(-1))), text: document.querySelector('.detail').textContent }];
    });
  });
  for (const { drawn, ended, text } of said) {
    expect(drawn <= ended, `the last step is drawn until ${drawn}, and its process did nothing after ${ended}`);
    expect(text.includes('no step follows'), `of the last step is said ${text}`);
  }
}

/** What begins long after its call and after what its stream had before it waited for something else. */
async function lateOperation() {
  const said = await page.evaluate(() => {
    const { timeline, data } = window.gpuspy;
    const { operations, calls } = data;
    if (!operations.each) return null;
    let [most, found] = [20_000, null];
    timeline.scene.lanes.forEach((lane, index) => {
      if (lane.kind !== 'stream') return;
      lane.order.forEach((at, position) => {
        const call = operations.each.call()[at];
        const before = position > 0 ? operations.end[lane.order[position - 1]] : 0;
        const late = call < 0 ? 0 : operations.each.startLo()[at] - Math.max(calls.end[call], before);
        if (late > most) [most, found] = [late, [index, position]];
      });
    });
    if (!found) return null;
    timeline.choose(...found);
    return [most, document.querySelector('.detail').textContent];
  });
  expect(said === null || said[1].includes('for work of another stream, or for its start'), `an operation that began ${said?.[0]} ns late waited: ${said?.[1]}`);
}

/** A search finds a kernel, and what is shown of it is what `--operations` says. */
async function search(whole, length) {
  await page.keyboard.press('/');
  const focused = await page.evaluate(() => document.activeElement?.getAttribute('aria-label'));
  expect(focused === 'search the timeline', '/ does not go to the search');
  const wanted = await page.evaluate(() => JSON.parse(document.getElementById('data-timeline').textContent).names.operations.find((one) => one.short)?.short);
  if (!wanted) return;
  await page.keyboard.type(wanted.slice(0, 12));
  const said = await page.evaluate(() => document.querySelector('.timeline [role="status"]').textContent);
  const hasBins = await page.evaluate(() => window.gpuspy.data.operations.binNs !== null);
  expect(/of [\d\s]+ bins? mostly or often with it/.test(said) === hasBins, `${hasBins ? 'bins' : 'slices'} are counted as ${said}`);
  await page.keyboard.press('Enter');
  expect((await length()) <= whole, 'Enter in the search does not show what it found');
  const detail = await page.evaluate(() => {
    const one = document.querySelector('.detail');
    const read = (key) => Number(one?.querySelector(`[data-key="${key}"]`)?.dataset.ns);
    return one && { kind: one.dataset.kind, duration: read('duration_ns'), correlation: read('correlation'), pid: Number(one.querySelector('[data-pid]')?.dataset.pid) };
  });
  expect(detail !== null, 'the search chooses nothing');
  if (report.ranks.length > 0) {
    const { rank } = report.processes.find((one) => one.pid === detail?.pid) ?? {};
    const said = await page.evaluate(() => Array.from(document.querySelectorAll('.detail dl > div'), (one) => one.textContent));
    expect(said.some((row) => row.startsWith(`rank${rank},`)), `what was chosen does not name its rank: ${said.join(' | ')}`);
  }
  if (detail?.kind === 'operation' && !Number.isNaN(detail.duration)) {
    const line = lines.find((one) => one.correlation === detail.correlation && (one.pid ?? 0) === (detail.pid || 0) && one.duration_ns);
    expect(line?.duration_ns.value === detail.duration, `operation ${detail.correlation} took ${line?.duration_ns.value}, not ${detail.duration}`);
  }
  await page.locator('input[aria-label="search the timeline"]').fill('');
  if (await page.evaluate(() => window.gpuspy.data.operations.each !== null)) await gaps();
}

/** Each of the longest gaps leads to the operation that ended it, on whatever stream, and to the whole gap. */
async function gaps() {
  for (const gap of await page.locator('.cause .gaps li').all()) {
    const length = report.gaps.largest[Number((await gap.locator('[data-path$=".duration_ns"]').getAttribute('data-path')).split('.')[2])].duration_ns.value;
    await gap.locator('button').click();
    if ((await gap.locator('button').count()) === 0) continue;
    const { said, after, from, to, lane } = await page.evaluate(() => ({
      said: document.querySelector('.detail')?.textContent ?? '',
      after: Number(document.querySelector('.detail [data-key="start_ns"]')?.dataset.ns),
      ...window.gpuspy.timeline.state,
    }));
    // What ended it may not be on the timeline: then it is shown by what ran before.
    if (lane < 0) {
      expect(to - from >= length, `a gap of ${length} ns shows ${from} to ${to}`);
      continue;
    }
    expect(said.includes('longest gaps of the GPU'), 'a gap does not lead to the operation that ended it');
    expect(from <= after - length && after <= to, `a gap of ${length} ns before ${after} shows ${from} to ${to}`);
  }
}

/** Tables sort and filter. */
async function tables() {
  await sortedByText();
  if (report.processes.length > 1) {
    const filter = page.locator('header input');
    const { pid } = report.processes.at(-1);
    if ((await filter.count()) > 0) {
      await filter.fill(`${pid}`);
      const rows = await page.evaluate(() => Array.from(document.querySelectorAll('header tbody tr'), (row) => row.textContent));
      expect(rows.length > 0 && rows.length < report.processes.length, `${rows.length} processes have the id ${pid}`);
      await filter.fill('');
    }
  }
  if (report.kernels.length < 2) return;
  const column = () => page.evaluate(() => Array.from(document.querySelectorAll('#kernels [data-path$=".count"]'), (one) => Number(one.textContent.replace(/\D/g, ''))));
  await page.locator('#kernels th button', { hasText: 'launches' }).click();
  const counts = await column();
  expect(counts.every((n, at) => at === 0 || counts[at - 1] >= n), 'kernels are not sorted by their launches');
  await page.locator('#kernels th button', { hasText: 'launches' }).click();
  const ascending = await column();
  expect(ascending.every((n, at) => at === 0 || ascending[at - 1] <= n), 'kernels are not sorted upwards');
  const filter = page.locator('#kernels input');
  if ((await filter.count()) === 0) return;
  await filter.fill('no such kernel');
  expect((await column()).length === 0, 'the filter leaves rows that do not match');
  await filter.fill('');
}

/** A column of text is sorted by that text. */
async function sortedByText() {
  const wrong = await page.evaluate(() => {
    const found = [];
    for (const table of document.querySelectorAll('table')) {
      table.querySelectorAll('th:not(.right) button').forEach((button) => {
        const column = Array.from(button.closest('tr').children).indexOf(button.parentElement);
        button.click();
        const shown = Array.from(table.querySelectorAll('tbody tr'), (row) => row.children[column].textContent.toLowerCase());
        // Ids and rates are numbers.
        if (shown.some((one) => /^[>~]*\d/.test(one))) return;
        const [up, down] = [1, -1].map((sign) => shown.every((one, at) => at === 0 || (shown[at - 1] < one ? sign : shown[at - 1] > one ? -sign : 0) >= 0));
        if (!up && !down) found.push(`${table.textContent.slice(0, 20)}: ${button.textContent}`);
      });
    }
    return found;
  });
  expect(wrong.length === 0, `columns that are not sorted by their text: ${wrong.join(', ')}`);
}

/** Tables have their headings also on paper. */
async function printed() {
  await page.emulateMedia({ media: 'print' });
  const headless = await page.evaluate(() => Array.from(document.querySelectorAll('th')).filter((one) => one.textContent.trim() && !one.innerText.trim() && one.checkVisibility()).map((one) => one.textContent));
  expect(headless.length === 0, `headings that are not printed: ${headless.slice(0, 5)}`);
  await page.emulateMedia({ media: 'screen' });
}

/** A link to a section shows that when the page is opened. */
async function linked() {
  const one = await open({ viewport: { width: 1280, height: 900 } }, '#coverage');
  await one.waitForTimeout(100);
  const { top, left } = await one.evaluate(() => ({ top: document.getElementById('coverage').getBoundingClientRect().top, left: document.documentElement.scrollHeight - innerHeight - scrollY }));
  expect(top < 80 || left < 2, `a link to a section shows the page ${Math.round(top)} pixels above it`);
  await one.close();
}

/** Text is readable: 4.5 to 1, as WCAG asks. */
async function contrast(colorScheme) {
  await page.emulateMedia({ colorScheme });
  const low = await page.evaluate(() => {
    const style = getComputedStyle(document.documentElement);
    const channel = (n) => (n <= 0.03928 ? n / 12.92 : ((n + 0.055) / 1.055) ** 2.4);
    const light = (name) => {
      const hex = style.getPropertyValue(`--${name}`).trim();
      const [r, g, b] = [1, 3, 5].map((at) => channel(Number.parseInt(hex.slice(at, at + 2), 16) / 255));
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
    const pairs = [['ink', 'paper'], ['dim', 'paper'], ['dim', 'band'], ['accent', 'paper'], ['alarm', 'paper'], ['ink', 'alarm-paper']].map((pair) => [...pair, 4.5]);
    // Names inside slices are there twice: in what is shown of a slice, too.
    for (const color of ['compute', 'compute2', 'compute3', 'graph', 'comm', 'copy', 'copy2', 'fill', 'call', 'launch', 'wait', 'memory', 'range', 'range2']) pairs.push(['paper', color, 3]);
    return pairs.filter(([a, b, least]) => ratio(a, b) < least).map(([a, b]) => `${a} on ${b}: ${ratio(a, b).toFixed(2)}`);
  });
  expect(low.length === 0, `in ${colorScheme}: ${low.join(', ')}`);
}

async function picture() {
  fs.mkdirSync(pictures, { recursive: true });
  for (const [width, colorScheme] of [[1280, 'light'], [1280, 'dark'], [390, 'light']]) {
    const one = await open({ viewport: { width, height: width > 600 ? 900 : 844 }, colorScheme });
    await one.waitForTimeout(200);
    const picture = path.join(pictures, `${name}-${width}-${colorScheme}`);
    await one.screenshot({ path: `${picture}.png` });
    await one.screenshot({ path: `${picture}-whole.png`, fullPage: true });
    await one.close();
  }
}
