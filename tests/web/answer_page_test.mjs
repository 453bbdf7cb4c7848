// The pages of `--format html` that perf_compare and ckpt_compare write, in a real Chromium, from file://. Started by
// tests/cli/answer_page_test.py.
import assert from 'node:assert/strict';
import { boxOf, check, everythingHasAName, facts, fitsTheWindow, headerIsReadable, LIMIT_FACTOR, open, runChecks, searchTime, settled, tellTimes, text, timed } from './browser.mjs';
import { takePicture } from './pictures.mjs';

check('maps layers and kinds of parameters, and leads to the rows', async () => {
  const { page, close } = await open('ckpt.html');
  assert.equal(await text(page, '.verdict .pill'), 'DIFFERENT');
  assert.match(await text(page, '.headline'), /9 of 73 common parameters/);
  const box = await boxOf(page, '#map canvas');
  const colours = await page.evaluate(() => {
    const canvas = document.querySelector('#map canvas');
    const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    const seen = new Set();
    for (let i = 0; i < data.length; i += 4) if (data[i + 3] === 255) seen.add(`${data[i]},${data[i + 1]},${data[i + 2]}`);
    return seen.size;
  });
  assert.ok(colours > 8 && box.height > 100, `${colours} colours`);
  await page.focus('#map');
  for (let i = 0; i < 5; i++) await page.keyboard.press('ArrowDown');
  for (let i = 0; i < 2; i++) await page.keyboard.press('ArrowRight');
  const tip = await text(page, '.grid-tip');
  assert.match(tip, /layers\.5 · mlp\.fc1\.weight: 0\.00\d+ · 1 of 1 parameter different, most of all layers\.5\.mlp\.fc1\.weight/);
  await page.keyboard.press('Enter');
  await settled(page);
  assert.match(await text(page, '.found'), /^1 of 73/);
  assert.match(await page.locator('#table0 .item').first().innerText(), /layers\.5\.mlp\.fc1\.weight[\s\S]*different/);
  await close();
});

check('sorts by any column, what has no number last', async () => {
  const { page, close } = await open('ckpt.html');
  await page.locator('#table0 .head button', { hasText: 'Relative l2' }).click();
  await settled(page);
  const first = await page.locator('#table0 .item').first().innerText();
  assert.match(first, /layers\.11\.mlp\.fc1\.weight/);
  await close();
});

check('shows what got slower as a tree down to kernels, and both sides as bars', async () => {
  const { page, close } = await open('perf.html');
  assert.equal(await text(page, '.verdict .pill'), 'SLOWER');
  assert.match(await text(page, '.headline'), /aten::mm/);
  assert.deepEqual((await page.locator('.bar-label').allInnerTexts()).slice(0, 2), ['test', 'reference']);
  const rows = await page.locator('#tree .item').allInnerTexts();
  assert.match(rows[0], /end to end/);
  assert.match(rows[1], /computing[\s\S]*\+/);
  const levels = await page.locator('#tree .item').evaluateAll((items) => items.map((item) => Number(item.getAttribute('aria-level'))));
  assert.ok(levels.includes(4), `kernels below families: ${levels}`);
  await page.focus('#tree');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowLeft');
  await settled(page);
  assert.equal(await page.locator('#tree .item').count(), 1);
  assert.match(await page.locator('#table0 .item').first().innerText(), /aten::mm/);
  await close();
});

check('fits phones, tablets and desks, light and dark, in both languages', async () => {
  for (const name of ['ckpt.html', 'perf.html', 'config_check.html', 'nan_analyze.html', 'rl_compare.html', 'grad_compare.html']) {
    for (const width of [390, 800, 1400]) {
      const dark = width === 800;
      const { page, close } = await open(name, { width, height: 900, scheme: dark ? 'dark' : 'light', locale: dark ? 'zh-CN' : 'en-US' });
      await fitsTheWindow(page);
      await headerIsReadable(page);
      const ground = (await page.evaluate(() => getComputedStyle(document.body).backgroundColor)).match(/\d+/g).map(Number).reduce((a, b) => a + b);
      assert.ok(dark ? ground < 200 : ground > 600, `${ground}`);
      assert.doesNotMatch(await page.evaluate(() => document.body.innerText), /undefined|\[object|NaN ms/);
      await close();
    }
  }
});

check('says in Chinese what it found, not only its own words', async () => {
  const chinese = /[\u4e00-\u9fff]/;
  const pages = {'ckpt.html': ['不同', /73 个共有参数中 9 个/], 'perf.html': ['变慢', /主要在计算/], 'config_check.html': ['不是同一实验', /6 项检查中 5 项不通过/], 'nan_analyze.html': ['已找到', /rank 1 产生了首个 \+inf，位于 Torch\.exp\.0\.forward/]};
  for (const [name, [word, headline]] of Object.entries(pages)) {
    const { page, close } = await open(name, { locale: 'zh-CN' });
    assert.equal(await text(page, '.verdict .pill'), word, name);
    assert.match(await text(page, '.headline'), headline);
    const said = async (where) => (await page.locator(where).allInnerTexts()).map((item) => item.trim()).filter(Boolean);
    const untold = (items, allowed) => items.filter((item) => !chinese.test(item) && !allowed.test(item));
    assert.deepEqual(untold(await said('main h2'), /^rank \d+ +\w+\./), [], name);
    assert.deepEqual(untold(await said('.next'), /^$/), [], name);
    assert.deepEqual(untold(await said('[role=columnheader], .head button'), /^(l2|cos|Rank|ms)\W*$/), [], name);
    assert.deepEqual(untold(await said('.list-numbered > li > .words, .list-numbered > li > ul > li > .label'), /^[\w.-]+: /), [], name);
    await page.click('#language');
    assert.doesNotMatch(await text(page, '.verdict'), chinese);
    await close();
  }
});

check('shows answers of commands that have no page of their own kind', async () => {
  const packs = await open('config_check.html');
  assert.equal(await text(packs.page, '.verdict .pill'), 'NOT THE SAME EXPERIMENT');
  const differing = await packs.page.locator('.list-numbered > li').allInnerTexts();
  assert.match(differing[0], /hyperparameters[\s\S]*attention-dropout: 0\.1 \/ 0\.0[\s\S]*why[\s\S]*fix/);
  assert.match(await text(packs.page, '#table0'), /weights\s+FAIL\s+3/);
  assert.equal(await packs.page.locator('a', { hasText: 'result.json' }).getAttribute('href'), './result.json');
  await packs.close();
  const found = await open('nan_analyze.html');
  assert.match(await text(found.page, '.headline'), /rank 1 made the first \+inf, in Torch\.exp\.0\.forward/);
  assert.match(await text(found.page, '.next'), /range of its inputs/);
  assert.match(await found.page.innerText('main'), /train\.py:12[\s\S]*How it spread: 3 ranks of 4/);
  await found.close();
  const runs = await open('rl_compare.html');
  assert.equal(await text(runs.page, '.verdict .pill'), 'DIFFERENT');
  assert.match(await text(runs.page, '#table0 .item:has-text("log_prob")'), /0\.00050002[\s\S]*step 0, rank 0/);
  await runs.close();
  const gradients = await open('grad_compare.html');
  assert.equal(await text(gradients.page, '.verdict .pill'), 'DIVERGED');
  assert.match(await text(gradients.page, '.headline'), /step 0: 96\.19 % of the signs agree/);
  assert.match(await text(gradients.page, '#table0 .item'), /b\.0\.qkv\.bias/);
  const lines = () => gradients.page.locator('svg.curves polyline, svg.curves path').count();
  const drawn = await lines();
  assert.ok(drawn > 0, 'no curve is drawn');
  const heights = await gradients.page.locator('svg.curves text[text-anchor=end]').allTextContents();
  assert.ok(heights.length >= 3 && heights.every((height) => height.replace(/[-.]|^0+|0+$/g, '').length <= 2), heights.join());  // round numbers
  await gradients.page.focus('.curves-block [role=group]');
  await gradients.page.keyboard.press('ArrowRight');
  assert.match(await text(gradients.page, '.curves-block [role=status]'), /step 1: summary 0\.956/);
  await gradients.page.locator('.curve-names button', { hasText: 'summary' }).click();
  assert.ok(await lines() < drawn, 'a curve goes when its name is clicked');
  await gradients.close();
  const hostile = await open('hostile.html');
  assert.match(await hostile.page.innerText('main'), /<img src=x onerror=window\.hurt=1>/);
  assert.equal(await hostile.page.locator('img').count(), 0);
  assert.equal(await hostile.page.evaluate(() => window.hurt), undefined);
  await hostile.close();
});

check('tells columns of one value once, below the table', async () => {
  const { page, close } = await open('ckpt.html');
  const heads = await text(page, '#table0 .head');
  assert.match(heads, /Relative l2/);
  assert.doesNotMatch(heads, /Test name|Test dtype/);
  assert.match(await text(page, '.constant'), /Test name as Name[\s\S]*Test dtype float32/);
  await close();
});

check('changes are told from the reference to the test, without what is 0 on both sides', async () => {
  const { page, close } = await open('perf.html');
  const section = page.locator('section', { hasText: 'What the time consists of' });
  const labels = await section.locator('.bar').evaluateAll((bars) => bars.map((bar) => bar.getAttribute('aria-label')));
  const [test, reference] = labels.map((label) => label.match(/computing ([\d.]+) ms/)[1]);
  const legend = await section.locator('.legend').innerText();
  assert.ok(legend.includes(`${reference} → ${test}`), `${legend} ${labels}`);
  assert.doesNotMatch(legend, / 0 → 0/);
  await close();
});

check('a phone shows the numbers of a table, and the end of long names', async () => {
  const perf = await open('perf.html', { width: 390, height: 844 });
  const head = await perf.page.locator('#table0 .head > div').evaluateAll((cells) => cells.map((cell) => [cell.innerText, cell.getBoundingClientRect().right]));
  assert.deepEqual(head.slice(0, 3).map(([name]) => name), ['Where', 'Test', 'Reference']);
  assert.ok(head[2][1] < 390, head.join());
  await perf.close();
  const checkpoints = await open('ckpt.html', { width: 390, height: 844 });
  assert.match(await text(checkpoints.page, '#table0 .item'), /^….*fc1\.weight/);
  await checkpoints.close();
});

check('shows how much of the communication is hidden on both sides', async () => {
  const { page, close } = await open('perf.html');
  const section = page.locator('section', { hasText: 'Communication and what hides it' });
  assert.deepEqual(await section.locator('.bar-label').allInnerTexts(), ['test', 'reference']);
  const said = await section.locator('.bar').first().getAttribute('aria-label');
  const [hidden, transfer, waiting] = [...said.matchAll(/ ([\d.]+) ms/g)].map((entry) => Number(entry[1]));
  assert.match(said, /hidden by computing [\d.]+ ms, transfer not hidden [\d.]+ ms, waiting not hidden [\d.]+ ms/);
  const time = page.locator('section', { hasText: 'What the time consists of' }).locator('.bar').first();
  const seen = Number((await time.getAttribute('aria-label')).match(/communication not hidden ([\d.]+)/)[1]);
  assert.ok(hidden > 0 && Math.abs(transfer + waiting - seen) <= seen * 0.01, said);
  await close();
});

check('has names for all that can be reached by keyboard', async () => {
  for (const name of ['ckpt.html', 'perf.html', 'config_check.html']) {
    const { page, close } = await open(name);
    await everythingHasAName(page);
    await close();
  }
});

check('runs nothing of what names hold', async () => {
  const { page, close } = await open('ckpt.html');
  await page.fill('#table0_search', 'onerror');
  await settled(page);
  assert.ok((await page.locator('#table0 .item').first().innerText()).includes(facts.hostile_name));
  assert.equal(await page.evaluate(() => window.hurt), undefined);
  await close();
});

check('stays quick and small with 100,000 parameters, and tells what it leaves out', async () => {
  assert.ok(facts.large_bytes <= 5_000_000, `${facts.large_bytes} bytes`);
  const { page, close } = await open('large.html');
  const times = {
    'first paint': await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0].startTime),
    'first picture': await page.evaluate(() => performance.getEntriesByName('msprobe-drawn')[0].startTime),
  };
  assert.match(await text(page, '.notes'), /Parameters: the page holds 100,000 of 105,001 rows, the highlighted ones first; the other formats hold all/);
  assert.match(await text(page, 'main'), /18 layers share a row/);
  await page.waitForTimeout(1500);
  times.search = await searchTime(page, '#table0_search', 'layers.77 fc1');
  assert.match(await text(page, '.found'), /of 105,001/);
  times['search one letter'] = await searchTime(page, '#table0_search', 'o');
  await page.fill('#table0_search', '');
  times.sort = await timed(page, '() => document.querySelector("#table0 .head button").click()');
  tellTimes(times);
  console.log(`  ${'file'.padEnd(20)} ${Math.round(facts.large_bytes / 1000).toString().padStart(5)} kB`);
  assert.ok(times['first paint'] < 1000 * LIMIT_FACTOR, JSON.stringify(times));
  for (const name of ['search', 'search one letter']) assert.ok(times[name] < 100 * LIMIT_FACTOR, JSON.stringify(times));
  // All that differ are among the rows that were kept, the last one too.
  await page.click('#table0_marked');
  await settled(page);
  assert.match(await text(page, '.found'), /^17,497 of 105,001/);
  await page.fill('#table0_search', 'layers.17499.mlp.fc1.weight');
  await settled(page);
  assert.match(await text(page, '.found'), /^1 of/);
  await close();
});

async function takePictures() {
  await takePicture('ckpt_compare.png', 'ckpt.html', { height: 900 });
  await takePicture('config_check.png', 'config_check.html', { height: 700 });
  await takePicture('nan_analyze.png', 'nan_analyze.html', { scheme: 'dark', height: 640 });
  await takePicture('perf_compare.png', 'perf.html', { scheme: 'dark', height: 900 });
}

await runChecks(takePictures);
