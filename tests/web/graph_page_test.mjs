// The page of `msprobe graph --format html` in a real Chromium, from file://, as a user meets it. Started by
// tests/cli/graph_page_test.py, which writes the dumps; its facts tell what is true of them.
import assert from 'node:assert/strict';
import { check, everythingHasAName, facts, fitsTheWindow, framesASecond, headerIsReadable, kPanGraph, kZoomGraph, LIMIT_FACTOR, open, runChecks, searchTime, settled, tellTimes, text } from './browser.mjs';
import { takePicture } from './pictures.mjs';

const selected = (page) => text(page, '#tree [role=status]');
const rows = async (page) => Number(await page.getAttribute('#tree', 'data-rows'));
const press = async (page, ...keys) => { await page.focus('#tree'); for (const key of keys) await page.keyboard.press(key); await settled(page); };
// Colours on the canvas of the trees: [number of colours, of pixels that are dark].
const colours = (page, selector = '.graph-canvas') => page.evaluate((chosen) => {
  const canvas = document.querySelector(chosen);
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const seen = new Map();
  for (let i = 0; i < data.length; i += 4) { const key = `${data[i]},${data[i + 1]},${data[i + 2]}`; seen.set(key, (seen.get(key) ?? 0) + 1); }
  return [...seen].filter(([, count]) => count > 60).length;
}, selector);

check('opens where the runs part, with the way to it', async () => {
  const { page, close } = await open('example.html');
  assert.equal(await text(page, '.verdict .pill'), 'DIFFERENT');
  assert.match(await text(page, '.verdict'), /it starts with a parameter of blocks\.0\.mlp\.fc1/);
  assert.equal(await selected(page), 'Module.blocks.0.mlp.fc1.Linear.forward.0');
  assert.match(await text(page, '.crumbs'), /DefaultModel[\s\S]*blocks\.0[\s\S]*mlp/);
  assert.match(await text(page, '#details'), /weights of the first step must be exactly equal/);
  assert.ok(await rows(page) > 15);
  assert.ok(await colours(page) > 6, 'boxes in several colours');
  await press(page, 'Home');
  assert.equal(await selected(page), 'DefaultModel');
  await page.click('#to_origin');
  await settled(page);
  assert.match(await selected(page), /mlp\.fc1/);
  await close();
});

check('shows the tensors of both sides, the stack, and what receives the result', async () => {
  const { page, close } = await open('example.html');
  await page.waitForSelector('#details table');
  const tensors = await text(page, '#details table');
  assert.match(tensors, /parameters\.weight[\s\S]*relative error 0\.001/i);
  assert.match(tensors, /test[\s\S]*reference/);
  assert.match(await text(page, '#details pre'), /models\.py, line 43/);
  await page.waitForSelector('.node-list .link');
  await page.click('.node-list .link');
  await settled(page);
  assert.match(await selected(page), /mlp\.act/);
  await close();
});

check('is walked by keyboard alone', async () => {
  const { page, close } = await open('example.html');
  await press(page, 'ArrowLeft');
  assert.match(await selected(page), /mlp\.MLP\.forward/);
  const before = await rows(page);
  await press(page, 'ArrowLeft');
  assert.ok(await rows(page) < before, 'closed');
  await press(page, 'Enter');
  assert.equal(await rows(page), before);
  await press(page, 'Home', 'n');
  const first = await selected(page);
  await press(page, 'n');
  assert.notEqual(await selected(page), first);
  await press(page, 'N');
  assert.equal(await selected(page), first);
  await press(page, 'o');
  assert.match(await selected(page), /fc1/);
  await press(page, '/');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'search');
  await close();
});

check('searches names and code lines, and shows only what differs', async () => {
  const { page, close } = await open('example.html');
  await page.fill('#search', 'layernorm backward');
  await settled(page);
  const found = await text(page, '#found');
  assert.match(found, /^[1-9]\d* of 69$/);
  await page.press('#search', 'Enter');
  await settled(page);
  assert.match(await selected(page), /LayerNorm\.backward/);
  await page.fill('#search', 'nothing like this');
  await settled(page);
  assert.match(await text(page, '#found'), /^0 of/);
  await page.fill('#search', '');
  await page.click('#open_all');
  await settled(page);
  const all = await rows(page);
  await page.click('#only');
  await settled(page);
  const differing = await rows(page);
  assert.ok(differing < all);
  await page.click('#close_all');
  await settled(page);
  assert.ok(await rows(page) < differing / 2, 'nothing but the top');
  await close();
});

check('tells nodes without partner, of either side, and why', async () => {
  const { page, close } = await open('unmatched.html');
  await press(page, 'Home', 'u');
  assert.equal(await selected(page), 'Functional.op1.3.forward');
  assert.match(await text(page, '#details dl'), /no partner[\s\S]*none: \S+/);
  await close();
  const other = await open('unmatched_bench.html');
  await other.page.click('#open_all');
  await settled(other.page);
  const names = [];
  await press(other.page, 'Home');
  for (let i = 0, last = ''; i < 80; i++) {
    await other.page.keyboard.press('ArrowDown');
    await other.page.waitForTimeout(5);
    last = await selected(other.page);
    names.push(last);
  }
  assert.ok(names.includes('Functional.op2.5.forward'), 'a row of the other side alone');
  await other.close();
});

check('leads to the same call in the page of compare, and back, and nowhere else', async () => {
  const { page, close } = await open(facts.beside);
  await press(page, 'Home', 'ArrowDown', 'ArrowDown');
  const name = await selected(page);
  await page.click('#details .beside');
  await page.waitForURL(/compare_result_/);
  await page.waitForFunction(() => document.querySelector('#details .beside'));
  assert.equal(await text(page, '.call-title'), name);
  await page.click('#details .beside');
  await page.waitForURL((url) => !url.href.split('#')[0].includes('compare_result_'));
  await page.waitForFunction(() => performance.getEntriesByName('msprobe-drawn').length > 0);
  await settled(page);
  assert.equal(await selected(page), name);
  await close();
  for (const other of ['https://elsewhere/a.html', '../a.html', 'javascript:x.html', 'a.txt']) {
    const hostile = await open(`${facts.beside}#step=0&rank=0&call=none&page=${encodeURIComponent(other)}`);
    assert.match(await hostile.page.getAttribute('#details .beside', 'href'), /^\.\/compare_result_\w+\.html#/);
    await hostile.close();
  }
  const alone = await open('example.html');
  assert.equal(await alone.page.locator('.beside').count(), 0);
  await alone.close();
});

check('shows one dump without a comparison', async () => {
  const { page, close } = await open('one.html');
  assert.equal(await text(page, '.verdict .pill'), 'BUILT');
  assert.equal(await page.locator('#only').count(), 0);
  await press(page, 'ArrowDown');
  await page.waitForSelector('#details table');
  await close();
});

check('tells how it was made', async () => {
  const { page, close } = await open('ranks.html');
  await page.click('#about');
  assert.match(await text(page, '#command_line'), /^msprobe graph \S+ \S+ -o \S+ --format html/);
  assert.match(await text(page, '#inputs'), /npu\s+\S*bench/);
  assert.match(await text(page, '.dialog h2'), /^msprobe graph \d+\.\d+/);
  await close();
});

check('shows a convolutional network that agrees', async () => {
  const { page, close } = await open('cnn.html');
  assert.equal(await text(page, '.verdict .pill'), 'IDENTICAL');
  await page.click('[data-key=standing]');
  await settled(page);
  assert.match(await text(page, '.legend'), /identical/);
  await close();
});

check('leads to the rank that differs, and to every other', async () => {
  const { page, close } = await open('ranks.html');
  assert.match(await page.locator('#rank option:checked').innerText(), /rank 5/);
  assert.match(await selected(page), /layers\.4|\.4\./);
  await page.selectOption('#rank', '0');
  await page.waitForFunction(() => document.querySelector('.verdict .pill')?.textContent === 'IDENTICAL');
  await settled(page);
  await close();
});

check('counts steps and ranks apart', async () => {
  const steps = await open('steps.html');
  assert.match(await text(steps.page, 'header .facts'), /\b4 steps\b/);
  assert.doesNotMatch(await text(steps.page, 'header .facts'), /rank/);
  await steps.close();
  const ranks = await open('ranks.html');
  assert.match(await text(ranks.page, 'header .facts'), /\b8 ranks\b/);
  assert.doesNotMatch(await text(ranks.page, 'header .facts'), /step/);
  await ranks.close();
});

check('runs nothing that stands in names or stacks', async () => {
  const { page, close } = await open('hostile.html');
  await page.click('#open_all');
  await settled(page);
  for (let i = 0; i < 12; i++) await press(page, 'ArrowDown');
  assert.equal(await page.evaluate(() => window.hurt), undefined);
  assert.match(await text(page, '#details'), /<\/script>/);
  await close();
});

check('stands 20,000 calls of one module', async () => {
  const { page, close } = await open('wide.html');
  await page.click('#open_all');
  await settled(page);
  assert.ok(await rows(page) > 20_000);
  await press(page, 'End');
  assert.match(await selected(page), /op19999/);
  assert.ok(await colours(page, '.minimap') >= 1);
  await close();
});

check('fits phones and desks, light and dark, in both languages', async () => {
  for (const [width, scheme, locale] of [[390, 'light', 'en-US'], [820, 'dark', 'zh-CN'], [1440, 'dark', 'en-US'], [1440, 'light', 'zh-CN']]) {
    const { page, close } = await open('example.html', { width, height: 900, scheme, locale });
    await fitsTheWindow(page);
    await headerIsReadable(page);
    await everythingHasAName(page);
    // A phone has room for one tree with names; the figures of a tensor fit beside it on a desk.
    assert.equal(await page.getAttribute('#tree', 'data-trees'), width === 390 ? '1' : '2');
    await page.waitForSelector('#details .figures');
    if (width === 1440) assert.ok(await page.locator('#details .wide').evaluate((box) => box.scrollWidth <= box.clientWidth), 'figures are cut');
    if (locale === 'zh-CN') assert.match(await text(page, '#only'), /仅看有差异/);
    await close();
  }
});

check('is quick with 24,000 nodes', async () => {
  const { page, close } = await open('large.html');
  const times = { usable: await page.evaluate(() => performance.getEntriesByName('msprobe-drawn')[0].startTime) };
  await page.click('#open_all');
  await settled(page);
  assert.equal(await rows(page), facts.large.nodes);
  const panning = await framesASecond(page, kPanGraph);
  const zooming = await framesASecond(page, kZoomGraph);
  times.search = await searchTime(page, '#search', 'op1 59');
  tellTimes(times);
  console.log(`  panning ${panning.toFixed(0)} frames a second, zooming ${zooming.toFixed(0)}`);
  assert.ok(times.usable < 1000 * LIMIT_FACTOR, `usable after ${times.usable} ms`);
  assert.ok(panning > 30 / LIMIT_FACTOR && zooming > 30 / LIMIT_FACTOR, `${panning} and ${zooming} frames a second`);
  await close();
});

await runChecks(async () => {
  await takePicture('graph.png', 'example.html', { width: 1440, height: 900 });
  await takePicture('graph_dark.png', 'ranks.html', { width: 1440, height: 900, scheme: 'dark' });
  await takePicture('graph_cnn.png', 'cnn.html', { width: 1440, height: 640 });
});
