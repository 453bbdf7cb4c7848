// What tests of pages share: a real Chromium that opens files as a user does, from file://, or the address of a server. Their first argument is a JSON file
// with what they need to know: folder (of the pages), chromium, modules (with playwright-core), pictures (a folder, or null).
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

export const facts = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const { chromium } = createRequire(join(facts.modules, 'playwright-core/'))('playwright-core');

export const browser = await chromium.launch({
  executablePath: facts.chromium,
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
});

// A page and what it should not do: ask the network, fail, run what stood in a name.
export async function open(name, { scheme = 'light', width = 1440, height = 1200, locale = 'en-US', drawn = true } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, locale });
  const page = await context.newPage();
  const trouble = [];
  page.on('pageerror', (error) => trouble.push(`error: ${error.message}`));
  // Reading pixels back is the tests' doing.
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && !message.text().includes('getImageData') && trouble.push(message.text()));
  const address = name.startsWith('http:') ? name : `file://${join(facts.folder, name)}`;
  const allowed = name.startsWith('http:') ? facts.server : 'file://';
  page.on('request', (request) => !request.url().startsWith(allowed) && trouble.push(`request: ${request.url()}`));
  await page.goto(address);
  if (drawn) await page.waitForFunction(() => performance.getEntriesByName('msprobe-drawn').length > 0);
  await settled(page);
  return { page, trouble, close: async () => { assert.deepEqual(trouble, []); await context.close(); } };
}

// What was asked for is drawn: pictures follow one frame behind the text around them.
export const settled = async (page) => {
  await page.waitForFunction(() => document.querySelector('[aria-busy=true]') === null);
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 120)))));
};

// Where an element is, once it is there: pictures are made anew when what they show changes.
export async function boxOf(page, selector) {
  await settled(page);
  await page.waitForFunction((chosen) => document.querySelector(chosen)?.getBoundingClientRect().width > 0, selector);
  return page.locator(selector).first().evaluate((element) => element.getBoundingClientRect().toJSON());
}

// Milliseconds from an input inside of the page until the frame behind the one that its pictures are drawn in: until it is seen.
export const timed = (page, action) => page.evaluate(`(async () => {
  const begin = performance.now();
  await (${action})();
  for (let frame = 0; frame < 2; frame++) await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - begin;
})()`);

// The median of several times that words take in a search field, each typed into the empty field.
export async function searchTime(page, selector, words) {
  const type = (value) => `() => { const e = document.querySelector(${JSON.stringify(selector)}); e.value = ${JSON.stringify(value)}; e.dispatchEvent(new Event('input', { bubbles: true })); }`;
  const times = [];
  for (let i = 0; i < 5; i++) {
    await timed(page, type(''));
    times.push(await timed(page, type(words)));
  }
  return times.sort((a, b) => a - b)[2];
}

// Frames a second while `step`, a function (of the element that scrolls, number of the frame) as a text, acts in each of 90 of them.
export const framesASecond = (page, step) => page.evaluate(`(async () => {
  const box = document.getElementById('tree');
  const act = ${step};
  const begin = performance.now();
  for (let i = 0; i < 90; i++) {
    act(box, i);
    await new Promise((done) => requestAnimationFrame(done));
  }
  return 90000 / (performance.now() - begin);
})()`);
// The trees of a graph scrolled, and made smaller and larger.
export const kPanGraph = '(box, i) => { box.scrollTop += 2111; }';
export const kZoomGraph = "(box, i) => { document.getElementById(i % 12 < 6 ? 'zoom_out' : 'zoom_in').click(); }";

// What a page promises of itself holds on a quiet machine (MSPROBE_WEB_LIMITS=1); a busy one is no fault of the page.
export const LIMIT_FACTOR = process.env.MSPROBE_WEB_LIMITS ? 1 : 20;

export function tellTimes(times) {
  for (const [name, time] of Object.entries(times)) console.log(`  ${name.padEnd(20)} ${time.toFixed(0).padStart(5)} ms`);
}

export const text = (page, selector) => page.locator(selector).first().innerText();

// That nothing sticks out of the window sideways; what scrolls in itself may be wider.
export async function fitsTheWindow(page) {
  const [wide, window_] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(wide <= window_, `${wide} px of content in a window of ${window_} px`);
}

// What can be reached by keyboard tells what it is: by its text, its label, or the label around it.
export async function everythingHasAName(page) {
  const nameless = await page.evaluate(() => [...document.querySelectorAll('a, button, input, select, summary, [tabindex="0"]')]
    .filter((item) => !item.hidden && !(item.textContent.trim() || item.getAttribute('aria-label') || item.getAttribute('aria-hidden') || item.closest('label'))
      || (['INPUT', 'SELECT'].includes(item.tagName) && !item.getAttribute('aria-label') && !item.closest('label')?.textContent.trim())).map((item) => item.outerHTML.slice(0, 120)));
  assert.deepEqual(nameless, []);
}

// That the header can be read: its title is whole, and nothing of it covers something else.
export async function headerIsReadable(page) {
  const trouble = await page.evaluate(() => {
    const title = document.querySelector('h1');
    if (title.scrollWidth > title.clientWidth) return `the title is cut: ${title.innerText}`;
    const boxes = [...document.querySelectorAll('header h1, header .run, header .facts, header button')].map((item) => [item.innerText, item.getBoundingClientRect()]);
    for (const [name, a] of boxes) {
      if (a.left < 0 || a.right > innerWidth + 0.5) return `${name} sticks out`;
      for (const [other, b] of boxes) {
        if (name !== other && a.left < b.right - 0.5 && b.left < a.right - 0.5 && a.top < b.bottom - 0.5 && b.top < a.bottom - 0.5) return `${name} covers ${other}`;
      }
    }
    return '';
  });
  assert.equal(trouble, '');
}

const checks = [];
export const check = (name, body) => checks.push({ name, body });

// Runs the checks, or takes the pictures of the docs, and ends the process.
export async function runChecks(takePictures) {
  const list = facts.pictures ? [{ name: 'takes pictures', body: takePictures }] : checks;
  let failed = 0;
  try {
    for (const { name, body } of list) {
      try {
        await body();
        console.log(`ok    ${name}`);
      } catch (error) {
        failed += 1;
        console.log(`FAIL  ${name}\n      ${error.stack.replaceAll('\n', '\n      ')}`);
      }
    }
  } finally {
    await browser.close();
  }
  console.log(`${list.length - failed} passed, ${failed} failed`);
  process.exit(failed === 0 ? 0 : 1);
}
