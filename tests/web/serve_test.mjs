// `msprobe serve` in a real Chromium: from the list to a graph out of its database, and to a page of the folder. Started by
// tests/cli/serve_page_test.py.
import assert from 'node:assert/strict';
import { check, facts, open, runChecks, settled, text } from './browser.mjs';

const selected = (page) => text(page, '#tree [role=status]');
const drawn = (page) => page.waitForFunction(() => performance.getEntriesByName('msprobe-drawn').length > 0);

check('the list leads to a graph, which opens where the runs part', async () => {
  const { page, close } = await open(facts.server, { drawn: false });
  assert.match(await text(page, 'tbody'), /differ\s+it starts with a parameter of blocks\.0\.mlp\.fc1/);
  assert.match(await text(page, 'tbody'), /found\s+rank 1 made the first \+inf, in Torch\.exp\.0\.forward · msprobe nan_analyze/i);
  await page.setViewportSize({ width: 390, height: 844 });
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth), 0);
  await page.setViewportSize({ width: 1440, height: 1200 });
  await page.click('a[href$=".vis.db"]');
  await drawn(page);
  await settled(page);
  assert.equal(await text(page, '.verdict .pill'), 'DIFFERENT');
  assert.equal(await selected(page), 'Module.blocks.0.mlp.fc1.Linear.forward.0');
  assert.match(await text(page, '.facts'), /68\s+nodes|nodes/);
  assert.match(await text(page, '#details'), /weights of the first step must be exactly equal/);
  await close();
});

check('tensors, stacks and receivers come from the database', async () => {
  const { page, close } = await open(facts.graph);
  await page.waitForSelector('#details table');
  assert.match(await text(page, '#details table'), /parameters\.weight[\s\S]*0\.2496245[\s\S]*0\.2493751/i);
  assert.match(await text(page, '#details pre'), /models\.py, line 43/);
  await page.waitForSelector('.node-list .link');
  await page.click('.node-list .link');
  await settled(page);
  assert.match(await selected(page), /mlp\.act/);
  await page.fill('#search', 'layernorm backward');
  await settled(page);
  assert.ok(Number(await page.getAttribute('#tree', 'data-rows')) > 3);
  await close();
});

check('a graph and the page of compare beside it lead to each other', async () => {
  const { page, trouble } = await open(facts.graph);
  await page.click('a.beside');
  await drawn(page);
  await settled(page);
  assert.match(decodeURIComponent(page.url()), /compare_result_[\d_]+\.html#.*page=compare_[\d_]+\.vis\.db/);
  await page.waitForSelector('a.beside');
  await page.click('a.beside');
  await page.waitForURL(/vis\.db#/);
  await drawn(page);
  assert.equal(await selected(page), 'Module.blocks.0.mlp.fc1.Linear.forward.0');
  assert.deepEqual(trouble, []);
});

check('a page of the folder cannot ask the server', async () => {
  const { page } = await open(facts.foreign, { drawn: false });
  await page.waitForFunction(() => document.title.startsWith('done'));
  assert.equal(await page.title(), 'done: null refused');
});

check('a damaged graph is told in words', async () => {
  const { page } = await open(facts.damaged, { drawn: false });
  assert.match(await text(page, 'body'), /cannot be read[\s\S]*damaged\.vis\.db/);
});

runChecks(async () => {});
