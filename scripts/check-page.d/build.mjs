// build.mjs TOOLS SOURCES OUTPUT: bundles the page's script and style, and puts them into its shell with the hashes that the
// page's content security policy names.
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';

const [tools, sources, output] = process.argv.slice(2);
const { build } = createRequire(path.join(path.resolve(tools), 'package.json'))('esbuild');
const options = { bundle: true, write: false, minify: true, target: ['chrome109', 'firefox115', 'safari16.4'], charset: 'ascii', legalComments: 'none', absWorkingDir: path.resolve(sources) };
const bundled = async (file) => (await build({ ...options, entryPoints: [file] })).outputFiles[0].text.trim();
const [js, css] = [await bundled('src/main.ts'), await bundled('page.css')];
if (/<\/(script|style)|<!--/i.test(js + css)) throw new Error('the bundle would end its own element');
const hash = (text) => createHash('sha256').update(text).digest('base64');
const values = { script: hash(js), style: hash(css), css, js };
const shell = fs.readFileSync(path.join(sources, 'shell.html'), 'utf8');
fs.mkdirSync(path.dirname(output), { recursive: true });
fs.writeFileSync(output, shell.replace(/\{(script|style|css|js)\}/g, (_, key) => values[key]));
