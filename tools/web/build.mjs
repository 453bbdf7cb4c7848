// Bundles each page of msprobe into one HTML file without data.
//
//   node build.mjs MODULES FOLDER     MODULES: the folder that `npm ci` made beside package.json
//
// A page is a folder with main.js and style.css; PAGES lists them.
// Called by tools/dev/build_web.sh. The same sources and packages give the same bytes.
import { createHash } from 'node:crypto';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const PAGES = {
  monitor_report: { title: 'msprobe monitor report', uses: ['uplot', 'preact', 'htm'] },
  answer: { title: 'msprobe', uses: ['preact', 'htm'] },
  graph: { title: 'msprobe graph', uses: ['preact', 'htm'] },
  compare: { title: 'msprobe compare', uses: ['uplot', 'preact', 'htm'] },
};

const here = dirname(fileURLToPath(import.meta.url));
const [modules, folder] = process.argv.slice(2).map((path) => resolve(path));
const esbuild = createRequire(join(modules, 'esbuild/'))('esbuild');

const common = {
  bundle: true, minify: true, write: false, charset: 'ascii', legalComments: 'none',
  nodePaths: [modules], target: ['chrome103', 'firefox113', 'safari16.4'], logLevel: 'warning',
};
const bundle = async (entry, options) => {
  const built = await esbuild.build({ ...common, ...options, entryPoints: [join(here, entry)] });
  // A key that is there twice, say: one of two texts would never be seen.
  if (built.warnings.length) throw new Error(`${entry}: ${built.warnings.length} warnings of esbuild, see above`);
  return built.outputFiles[0].text.trim();
};

// As a policy names a script or a style sheet that it allows.
const sha256 = (text) => createHash('sha256').update(text).digest('base64');

// Text of an element that is not a script: ASCII, as the rest of the page.
const escapeText = (text) => text.replace(/[&<]|[^\n -~]/gu, (letter) => `&#${letter.codePointAt(0)};`);
const licenceOf = (name) => {
  const about = JSON.parse(readFileSync(join(modules, name, 'package.json'), 'utf8'));
  const licence = readFileSync(join(modules, name, 'LICENSE'), 'utf8').trim();
  return `${name} ${about.version} (${about.license})\n\n${licence}`;
};

for (const [name, { title, uses }] of Object.entries(PAGES)) {
  // esbuild leaves templates with a tag as they are; their escapes mean the same.
  const script = (await bundle(`${name}/main.js`, { format: 'iife' })).replaceAll('</script', '<\\/script')
    .replace(/[^\n -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
  const style = await bundle(`${name}/style.css`, {});
  const parts = {
    title, script, style,
    policy: [
      "default-src 'none'", `script-src 'sha256-${sha256(script)}'`, `style-src 'sha256-${sha256(style)}'`,
      "base-uri 'none'", "form-action 'none'",
    ].join('; '),
    licences: escapeText(uses.map(licenceOf).join('\n\n\n')),
    data: '<!--msprobe:data-->',
  };
  const page = readFileSync(join(here, 'page.html'), 'utf8').replace(/{{(\w+)}}/g, (_, part) => parts[part]);
  if (page.split('<!--msprobe:data-->').length !== 2) throw new Error('a page must have one place for data');
  const output = join(folder, `${name}.html`);
  writeFileSync(`${output}.new`, page);
  renameSync(`${output}.new`, output);
  console.log(`${output}: ${Math.round(page.length / 1000)} kB`);
}
