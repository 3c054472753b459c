// picture.mjs TOOLS CHROMIUM PAGE OUTPUT: draws the top of a page, for the documents.
import { createRequire } from 'node:module';
import path from 'node:path';

const [tools, executablePath, file, output] = process.argv.slice(2);
const { chromium } = createRequire(path.join(path.resolve(tools), 'package.json'))('playwright-core');
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
const page = await browser.newPage({ viewport: { width: 1180, height: 1130 }, colorScheme: 'light' });
await page.goto(`file://${path.resolve(file)}`);
await page.waitForFunction(() => window.gpuspy);
// A part in which kernels, copies and calls can be told apart: around a kernel that waits behind another one.
await page.evaluate(() => {
  const { data, timeline } = window.gpuspy;
  const { names, processes } = JSON.parse(document.getElementById('data-timeline').textContent);
  const name = names.operations.findIndex((one) => one.short?.startsWith('input_backward'));
  const at = Array.from(data.operations.name.keys()).filter((one) => data.operations.name[one] === name)[40];
  const begin = data.operations.begin[at];
  timeline.showOperation(processes[0].pid, data.operations.each.correlation()[at]);
  timeline.show(begin - 6e6, begin + 8e6);
});
await page.mouse.move(0, 0);
await page.evaluate(() => {
  document.activeElement?.blur();
  scrollTo(0, 0);
});
await page.waitForTimeout(300);
await page.screenshot({ path: output });
await browser.close();
