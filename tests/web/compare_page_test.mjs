// The page of `msprobe compare --format html` in a real Chromium, from file://, as a user meets it. Started by
// tests/cli/compare_page_test.py, which writes the dumps; its facts tell what is true of them.
import assert from 'node:assert/strict';
import { boxOf, check, everythingHasAName, facts, fitsTheWindow, headerIsReadable, LIMIT_FACTOR, open, runChecks, searchTime, settled, tellTimes, text, timed } from './browser.mjs';
import { takePicture } from './pictures.mjs';

check('says first where it starts and why', async () => {
  const { page, close } = await open('example.html');
  assert.match(await text(page, 'header .run'), /^npu\/step0\/\S+ against bench\/step0\//);
  assert.equal(await text(page, '.verdict .pill'), 'DIFFERENT');
  assert.match(await text(page, '.headline'), /it starts with a parameter of blocks\.0\.mlp\.fc1/);
  const point = await text(page, '.point');
  assert.match(point, /parameter[\s\S]*blocks\.0\.mlp\.fc1[\s\S]*why/);
  assert.match(await text(page, '.next'), /same weights/);
  assert.match(await page.locator('.files a').first().getAttribute('href'), /^\.\/compare_result_\S+\.xlsx$/);
  await close();
});

check('shows calls as a tree, and every tensor of a call with both sides', async () => {
  const { page, close } = await open('example.html');
  // The origin is chosen and in view.
  const current = page.locator('#tree .item.current');
  assert.match(await current.getAttribute('title'), /blocks\.0\.mlp\.fc1/);
  assert.ok(Number(await current.getAttribute('aria-level')) >= 3, 'inside of its modules');
  assert.match(await text(page, '#details .call-title'), /Module\.blocks\.0\.mlp\.fc1\.Linear\.forward\.0/);
  await page.waitForSelector('#details .tensor');
  const tensors = await page.locator('#details .tensor').allInnerTexts();
  assert.ok(tensors.some((entry) => /parameters\.weight/.test(entry) && /differs/.test(entry) && /test/i.test(entry) && /reference/i.test(entry)), tensors.join('\n'));
  assert.match(await text(page, '#details summary'), /call stack \(\d+\)/);
  // Closed and opened again from the keyboard; the arrow to the left leads to the module around it.
  await page.focus('#tree');
  await page.keyboard.press('ArrowLeft');
  await settled(page);
  assert.match(await current.getAttribute('title'), /Module\.blocks\.0\.mlp\.[A-Z]/);
  assert.equal(await current.getAttribute('aria-expanded'), 'true');
  const before = await page.locator('#tree .item').count();
  await page.keyboard.press('ArrowLeft');
  await settled(page);
  assert.equal(await current.getAttribute('aria-expanded'), 'false');
  assert.ok(await page.locator('#tree .item').count() < before);
  await close();
});

check('measures by the own noise of a call where it was recorded', async () => {
  const { page, close } = await open('repeated.html');
  assert.match(await text(page, '.point'), /apart by [\d.]+ x this call's own noise \(4\.2 significant digits\)/);
  await page.waitForSelector('#details .tensor');
  const tensors = await page.locator('#details .tensor').allInnerTexts();
  assert.match(tensors.at(-1), /output[\s\S]*\d × own noise/);
  assert.doesNotMatch(tensors[0], /own noise/);
  await close();
  const plain = await open('example.html');
  await plain.page.waitForSelector('#details .tensor');
  assert.doesNotMatch(await plain.page.innerText('main'), /own noise/);
  await plain.close();
});

check('lists tensors: searched, sorted, only what differs', async () => {
  const { page, close } = await open('example.html');
  await page.click('[data-key=tensors]');
  await settled(page);
  await page.fill('#search', 'fc1 weight');
  await settled(page);
  const shown = await page.locator('#tensors .item').allInnerTexts();
  assert.ok(shown.length > 0 && shown.every((entry) => /fc1/.test(entry) && /weight/.test(entry)), shown.join());
  await page.fill('#search', '');
  await page.click('[data-sort=relative]');
  await settled(page);
  assert.equal(await page.getAttribute('#tensors [role=columnheader]:nth-child(3)', 'aria-sort'), 'descending');
  const errors = (await page.locator('#tensors .item [role=gridcell]:nth-child(3)').allInnerTexts()).slice(0, 10).map(Number);
  assert.deepEqual(errors, [...errors].sort((a, b) => b - a));
  await page.click('#only');
  await settled(page);
  const standings = new Set(await page.locator('#tensors .item [role=gridcell]:nth-child(2)').allInnerTexts());
  assert.ok(!standings.has('identical') && standings.has('differs'), [...standings].join());
  await page.click('#tensors .item >> nth=2');
  assert.match(await text(page, '#details .tensor.marked'), /differs|drifts|partner/);
  await page.fill('#search', 'nothing like this');
  await settled(page);
  assert.equal((await text(page, '#found')).split(' ')[0], '0');
  await close();
});

check('draws the error over execution order and leads to a call', async () => {
  const { page, close } = await open('large.html');
  const box = await boxOf(page, '#curve .u-over');
  const colours = await page.evaluate(() => {
    const canvas = document.querySelector('#curve canvas');
    const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    const seen = { left: 0, right: 0 };
    for (let y = 0; y < canvas.height; y++) for (let x = 0; x < canvas.width; x++) {
      const i = (y * canvas.width + x) * 4;
      if (data[i] > 200 && data[i + 1] < 90 && data[i + 2] < 90) seen[x < canvas.width * 0.5 ? 'left' : 'right']++;
    }
    return seen;
  });
  assert.ok(colours.right > 500 && colours.right > colours.left * 3, JSON.stringify(colours));  // it starts at three fifths
  await page.mouse.click(box.x + box.width * 0.1, box.y + 60);
  await settled(page);
  const [, number] = (await text(page, '.curve-at')).match(/call (\d+) of 20000/);
  assert.ok(Math.abs(Number(number) - 2000) < 60, number);
  await close();
});

check('maps steps and ranks, and shows the pair that is chosen', async () => {
  const { page, close } = await open('ranks.html');
  assert.match(await text(page, '.headline'), /\(step1\/rank2\)/);
  const box = await boxOf(page, '#pairs canvas');
  assert.match(await text(page, 'header .facts'), /12 pairs/);
  await page.focus('#pairs');
  await page.keyboard.press('ArrowUp');  // from the picked one
  assert.match(await text(page, '.grid-tip'), /step1\/rank1: IDENTICAL/);
  await page.keyboard.press('ArrowRight');
  assert.match(await text(page, '.grid-tip'), /step2\/rank1: DIFFERENT/);
  await page.keyboard.press('Enter');
  await settled(page);
  assert.match(await text(page, '.answer h2'), /step2\/rank1/i);
  assert.ok(box.width > 100);
  await close();
});

check('tells how it was made', async () => {
  const { page, close } = await open('ranks.html');
  await page.click('#about');
  assert.match(await text(page, '#command_line'), /^msprobe compare \S+ \S+ -o \S+ --format html -c$/);
  assert.match(await text(page, '#inputs'), /ranks\/npu\s+\S*ranks\/bench/);
  assert.match(await text(page, '.dialog h2'), /^msprobe compare \d+\.\d+/);
  await close();
});

check('says when all is equal', async () => {
  const { page, close } = await open('same.html');
  assert.equal(await text(page, '.verdict .pill'), 'IDENTICAL');
  assert.match(await page.innerText('#main'), /No call has an error other than zero/);
  await close();
});

check('runs nothing of what names and stacks hold', async () => {
  const { page, close } = await open('hostile.html');
  await page.click('[data-key=tensors]');
  await page.fill('#search', 'layers');
  await settled(page);
  const shown = (await page.locator('#tensors .item').evaluateAll((items) => items.map((item) => item.title))).join('\n');
  for (const name of facts.hostile.slice(0, 3)) assert.ok(shown.includes(name), `${name} in ${shown}`);
  await page.click('#tensors .item >> nth=0');
  await page.locator('#details summary').first().click();
  assert.match(await text(page, '#details pre'), /<script>window\.hurt=1<\/script>/);
  await page.click('#about');
  assert.equal(await page.evaluate(() => window.hurt), undefined);
  assert.equal(await page.locator('img').count(), 0);
  await page.keyboard.press('Escape');
  assert.equal(await page.locator('.dialog').count(), 0);
  await close();
});

check('fits phones, tablets and desks, light and dark, in both languages', async () => {
  for (const width of [390, 800, 1400]) {
    for (const scheme of ['light', 'dark']) {
      const { page, close } = await open('ranks.html', { width, scheme, height: 900, locale: scheme === 'dark' ? 'zh-CN' : 'en-US' });
      await fitsTheWindow(page);
      await headerIsReadable(page);
      await page.click('[data-key=tensors]');
      await settled(page);
      await fitsTheWindow(page);
      const ground = (await page.evaluate(() => getComputedStyle(document.body).backgroundColor)).match(/\d+/g).map(Number).reduce((a, b) => a + b);
      assert.ok(scheme === 'dark' ? ground < 200 : ground > 600, `${scheme}: ${ground}`);
      await page.click('#theme');
      assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), scheme === 'dark' ? 'light' : 'dark');
      await page.click('#language');
      assert.match(await text(page, 'h1'), scheme === 'dark' ? /Comparison/ : /精度比对/);
      assert.doesNotMatch(await page.evaluate(() => document.body.innerText), /undefined|\[object|\{0\}/);
      await close();
    }
  }
});

check('has names for all that can be reached by keyboard', async () => {
  const { page, close } = await open('ranks.html');
  await everythingHasAName(page);
  await close();
});

check('stays quick and small with 100,000 tensors, and exact', async () => {
  assert.ok(facts.large.bytes <= 5_000_000, `${facts.large.bytes} bytes`);
  const { page, close } = await open('large.html');
  const times = {
    'first paint': await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0].startTime),
    'first picture': await page.evaluate(() => performance.getEntriesByName('msprobe-drawn')[0].startTime),
  };
  await page.waitForTimeout(1500);
  await page.click('[data-key=tensors]');
  await settled(page);
  times.search = await searchTime(page, '#search', 'matmul.4000.forward output');
  assert.match(await text(page, '#found'), /^1 of 100,000/);
  times['search one letter'] = await searchTime(page, '#search', 'o');
  await page.click('[data-key=tree]');
  await settled(page);
  times['search, tree'] = await searchTime(page, '#search', 'layers.77');
  await page.click('[data-key=tensors]');
  await page.fill('#search', 'matmul.4000.forward output');
  await settled(page);
  await page.click('#tensors .item >> nth=0');
  await settled(page);
  const cells = await page.locator('#details .tensor.marked .figures td').allInnerTexts();
  const keys = ['Max', 'Min', 'Mean', 'Norm'];
  facts.large.truth.forEach((side, i) => keys.forEach((key, k) => assert.ok(Math.abs(Number(cells[i * 4 + k]) - side[key]) <= Math.abs(side[key]) * 1e-6, `${key}: ${cells[i * 4 + k]} of ${side[key]}`)));
  await page.fill('#search', '');
  times.sort = await timed(page, '() => document.querySelector("[data-sort=relative]").click()');
  times['scroll'] = await timed(page, '() => { document.querySelector("#tensors").scrollTop = 1000000; }');
  tellTimes(times);
  console.log(`  ${'file'.padEnd(20)} ${Math.round(facts.large.bytes / 1000).toString().padStart(5)} kB`);
  assert.ok(times['first paint'] < 1000 * LIMIT_FACTOR, `first paint: ${times['first paint']} ms`);
  for (const name of ['search', 'search one letter', 'search, tree']) assert.ok(times[name] < 100 * LIMIT_FACTOR, `${name}: ${times[name]} ms`);
  await close();
});

check('tells what is not in the page', async () => {
  const cut = await open('cut.html');
  assert.match(await text(cut.page, '.notes'), /the page holds 100,000 of the 122,500 rows/);
  const counts = [...(await text(cut.page, '.counts')).matchAll(/([\d,]+) /g)].map(([, count]) => Number(count.replaceAll(',', '')));
  assert.equal(counts.reduce((sum, count) => sum + count), 122_500);  // of the whole pair
  // What stands out is there to its end; what was left out is equal.
  await cut.page.click('[data-key=tensors]');
  await cut.page.fill('#search', 'functional.matmul.6124');
  await settled(cut.page);
  assert.ok(await cut.page.locator('#tensors .item', { hasText: 'differs' }).count() > 0);
  await cut.close();
  const { page, close } = await open('example.html');
  assert.equal(await page.locator('.notes').count(), 0);
  await close();
});

async function takePictures() {
  await takePicture('compare.png', 'example.html', { height: 1130 });
  await takePicture('compare_ranks.png', 'ranks.html', { scheme: 'dark', height: 760 });
  await takePicture('compare_phone.png', 'ranks.html', { width: 390, height: 800 });
}

await runChecks(takePictures);
