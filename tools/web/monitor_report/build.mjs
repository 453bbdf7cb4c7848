// Bundles the page of `msprobe monitor report` into one HTML file without data.
//
//   node build.mjs MODULES OUTPUT     MODULES: the folder that `npm ci` made beside package.json
//
// Called by tools/dev/build_web.sh. The same sources and packages give the same bytes.
import { createHash } from 'node:crypto';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const [modules, output] = process.argv.slice(2).map((path) => resolve(path));
const esbuild = createRequire(join(modules, 'esbuild/'))('esbuild');

const common = {
  bundle: true, minify: true, write: false, charset: 'ascii', legalComments: 'none',
  nodePaths: [modules], target: ['chrome103', 'firefox113', 'safari16.4'], logLevel: 'warning',
};
const bundle = async (entry, options) =>
  (await esbuild.build({ ...common, ...options, entryPoints: [join(here, entry)] })).outputFiles[0].text.trim();

// esbuild leaves templates with a tag as they are; their escapes mean the same.
const script = (await bundle('src/main.js', { format: 'iife' })).replaceAll('</script', '<\\/script')
  .replace(/[^\n -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
const style = await bundle('src/style.css', {});

// Text of an element that is no script: ASCII, as the rest of the page.
const escapeText = (text) => text.replace(/[&<]|[^\n -~]/gu, (letter) => `&#${letter.codePointAt(0)};`);
const licences = ['uplot', 'preact', 'htm'].map((name) => {
  const about = JSON.parse(readFileSync(join(modules, name, 'package.json'), 'utf8'));
  return `${name} ${about.version} (${about.license})\n\n${readFileSync(join(modules, name, 'LICENSE'), 'utf8').trim()}`;
}).join('\n\n\n');

const parts = {
  style, script,
  script_sha256: createHash('sha256').update(script).digest('base64'),
  licences: escapeText(licences),
  data: '<!--msprobe:data-->',
};
const page = readFileSync(join(here, 'page.html'), 'utf8').replace(/{{(\w+)}}/g, (_, name) => parts[name]);
if (page.split('<!--msprobe:data-->').length !== 2) throw new Error('the page must have one place for data');
writeFileSync(`${output}.new`, page);
renameSync(`${output}.new`, output);
console.log(`${output}: ${Math.round(page.length / 1000)} kB`);
