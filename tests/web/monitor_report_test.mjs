// The page of `msprobe monitor report` in a real Chromium, from file://, as a user meets it. Started by
// tests/cli/monitor_report_test.py, which writes the runs; FACTS.json tells where they are and what is true of them.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { boxOf, browser, check, everythingHasAName, facts, fitsTheWindow, headerIsReadable, open, runChecks, settled, text, timed } from './browser.mjs';
import { takePicture } from './pictures.mjs';

// The colours of a canvas as a set of "r,g,b" at a grid of points.
const coloursOf = (page, selector) => page.evaluate((chosen) => {
  const canvas = document.querySelector(chosen);
  const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  const seen = new Set();
  for (let i = 0; i < data.length; i += 4) seen.add(`${data[i]},${data[i + 1]},${data[i + 2]}`);
  return [...seen];
}, selector);
const NAN = '224,0,158';
const INFINITE = '255,157,0';

check('tells what the run is and what stands out', async () => {
  const { page, close } = await open('one.html');
  const header = await text(page, 'header');
  for (const part of ['0–199', '4 ranks', '120 series', '96,000 rows', '32 alerts', 'run_a']) assert.ok(header.includes(part), `${part} in ${header}`);
  const findings = await page.locator('.finding').allInnerTexts();
  assert.match(findings[0], /not finite\s+layers\.9\.mlp\.fc1\.output\s+actv · norm\s+rank 3, step 160/);
  assert.match(findings[1], /First alert\s+layers\.7\.mlp\.fc1\.output\s+actv · norm\s+rank 0, step 122/);
  assert.ok(findings.some((item) => /Largest deviation/.test(item) && /layers\.7\.mlp\.fc1/.test(item)), findings.join());
  await close();
});

check('finds modules by words', async () => {
  const { page, close } = await open('one.html');
  assert.equal(await text(page, '#found'), '60 of 60');
  await page.fill('#search', 'MLP layers.1');
  assert.equal(await text(page, '#found'), '6 of 60');  // 1, 10 and 11
  await page.fill('#search', 'mlp layers.1 -fc2');
  assert.equal(await text(page, '#found'), '3 of 60');
  const names = await page.locator('.module .name').allInnerTexts();
  assert.deepEqual(names, ['layers.1.mlp.fc1.output', 'layers.10.mlp.fc1.output', 'layers.11.mlp.fc1.output']);
  await page.fill('#search', 'nothing like this');
  assert.equal(await text(page, '#found'), '0 of 60');
  await page.fill('#search', '');
  await page.selectOption('#sort', 'score');
  assert.match(await text(page, '.module .name'), /layers\.7\.mlp\.fc1/);
  await close();
});

check('draws curves of what is picked and shows their numbers', async () => {
  const { page, close } = await open('one.html');
  await page.click('.chip >> nth=0');
  await page.fill('#search', facts.sample.name);
  await page.click('.module');
  await page.selectOption('#ranks', String(facts.sample.rank));
  const box = await boxOf(page, '#curves .u-over');
  await page.mouse.move(box.x + (box.width * facts.sample.step) / 199, box.y + 40);
  await settled(page);
  assert.ok((await text(page, '.at-step')).startsWith(`step ${facts.sample.step}`), await text(page, '.at-step'));
  const row = page.locator('.curve-row', { hasText: facts.sample.name });
  assert.equal(Number(await row.locator('b').innerText()), Number(facts.sample.norm));
  await close();
});

check('zooms with the brush, moves the window, and comes back', async () => {
  const { page, close } = await open('one.html');
  const box = await boxOf(page, '#timeline');
  const drag = async (from, to) => {
    await page.mouse.move(box.x + box.width * from, box.y + 30);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * to, box.y + 30, { steps: 5 });
    await page.mouse.up();
    await settled(page);
  };
  await drag(0.5, 0.75);
  const range = async () => (await text(page, '#range')).match(/\d+/g).map(Number);
  assert.deepEqual(await range(), [100, 149]);
  await drag(0.6, 0.7);  // inside of the window: moves it
  assert.deepEqual(await range(), [120, 169]);
  const shown = await page.evaluate(() => document.querySelector('#alerts').innerText);
  assert.ok(shown.includes('122') && !shown.includes('172'), 'alerts follow the brush');
  await page.dblclick('#timeline', { position: { x: 5, y: 30 } });
  assert.deepEqual(await range(), [0, 199]);
  const plot = await boxOf(page, '#curves .u-over');
  await page.mouse.move(plot.x + plot.width * 0.25, plot.y + 50);
  await page.mouse.down();
  await page.mouse.move(plot.x + plot.width * 0.5, plot.y + 60, { steps: 5 });
  await page.mouse.up();
  await settled(page);
  const [low, high] = await range();
  assert.ok(Math.abs(low - 50) <= 1 && Math.abs(high - 99) <= 1, `${low} to ${high}`);
  await page.click('#whole');
  assert.deepEqual(await range(), [0, 199]);
  await close();
});

check('shows NaN and infinity in both heat maps, by rank where they are', async () => {
  const { page, close } = await open('one.html');
  let colours = await coloursOf(page, '#heat');
  assert.ok(colours.includes(NAN) && colours.includes(INFINITE), 'module × step');
  assert.ok(colours.length > 40, `${colours.length} colours`);
  await page.click('[data-key=ranks]');
  await settled(page);
  const heat = page.locator('#heat');
  const box = await boxOf(page, '#heat');
  assert.ok((await coloursOf(page, '#heat')).includes(NAN), 'rank × step');
  // Rank 3 of the broken module at its last step, rank 0 at the same place.
  await heat.hover({ position: { x: box.width - 3, y: 3.5 * 18 } });
  assert.match(await text(page, '.tip'), /rank 3\s+step 199\s+NaN/);
  await heat.hover({ position: { x: box.width - 3, y: 0.5 * 18 } });
  assert.match(await text(page, '.tip'), /rank 0\s+step 199\s+[\d.]+/);
  await page.click('[data-key=values]');
  await page.selectOption('#scale', 'log');
  await settled(page);
  colours = await coloursOf(page, '#heat');
  assert.ok(colours.includes(NAN) && colours.length > 5);
  await close();
});

check('goes where a finding or an alert leads', async () => {
  const { page, close } = await open('one.html');
  await page.locator('.finding').last().click();
  await page.click('#alerts tbody tr >> nth=0');
  await settled(page);
  assert.match(await text(page, '.chips'), /layers\.7\.mlp\.fc1\.output/);
  assert.equal(await page.inputValue('#table'), 'actv');
  await page.selectOption('#table', 'grad_reduced');
  await page.selectOption('#op', 'max');
  await settled(page);
  await page.waitForFunction(() => document.querySelector('.module .name').innerText.endsWith('.weight'));
  await close();
});

check('opens a finding with its own statistic and its own rank', async () => {
  const { page, close } = await open('one.html');
  await page.selectOption('#op', 'max');
  await page.locator('.finding').first().click();
  await settled(page);
  assert.equal(await page.inputValue('#op'), 'norm');
  assert.equal(await page.inputValue('#ranks'), '3');
  await page.locator('.finding', { hasText: 'First alert' }).click();
  await settled(page);
  assert.equal(await page.inputValue('#ranks'), '0');
  await close();
});

check('tells one event in all gradients in one line', async () => {
  const { page, close } = await open('burst.html');
  const findings = await page.locator('.finding').allInnerTexts();
  const events = findings.filter((item) => /step 60/.test(item));
  assert.equal(events.length, 1, findings.join('\n'));
  assert.match(events[0], /together[\s\S]*grad_reduced[\s\S]*10 of 10 series/);
  assert.match(await text(page, 'header .facts'), /\b1 rank\b/);
  await close();
});

check('does not call a run free of NaN that has some', async () => {
  const { page, close } = await open('never.html');
  const shown = await text(page, '.findings');
  assert.doesNotMatch(shown, /no NaN/);
  assert.match(shown, /NaN in every row: 2 series\s+layers\.0\.norm/);
  assert.match(await text(page, 'header .facts'), /[1-9][\d,]* NaN/);
  await close();
});

check('names what never had a tensor, and counts no NaN there', async () => {
  const { page, close } = await open('absent.html');
  const shown = await text(page, '.findings');
  assert.match(shown, /No tensor in any step: 2 series: \(root\)\.output of actv, \(root\)\.weight of grad_reduced/);
  assert.doesNotMatch(shown, /NaN in every row/);
  assert.match(await text(page, 'header .facts'), /\b0 NaN/);
  await close();
});

check('says which of two runs is A and which is B', async () => {
  const { page, close } = await open('two.html');
  assert.match(await text(page, 'header .run'), /test run_a compared with reference run_b/);
  assert.match(await text(page, '.at-step'), /test run_a solid, reference run_b dashed/);
  await close();
});

check('says first where two runs part', async () => {
  const divergence = await open('divergence.html');
  assert.match(await text(divergence.page, '.finding'), /The runs diverge first\s+layers\.\d[^\n]* grad_reduced · norm\s+[\d.]+ against [\d.]+, rank 0, step 60/);
  await divergence.close();
  const agree = await open('agree.html');
  assert.match(await text(agree.page, '.findings'), /✓ The runs agree/);
  await agree.close();
});

check('takes the logarithmic scale by itself where one run dwarfs the other', async () => {
  const scaled = await open('scaled.html');
  assert.equal(await scaled.page.inputValue('#scale'), 'log');
  await scaled.page.selectOption('#scale', 'linear');
  assert.equal(await scaled.page.inputValue('#scale'), 'linear');
  await scaled.close();
  const agree = await open('agree.html');
  assert.equal(await agree.page.inputValue('#scale'), 'linear');
  await agree.close();
});

check('fits phones, tablets and desks', async () => {
  for (const width of [390, 800, 1400]) {
    const { page, close } = await open('two.html', { width, height: 900, scheme: width === 800 ? 'dark' : 'light' });
    await fitsTheWindow(page);
    await headerIsReadable(page);
    const list = await boxOf(page, '#modules');
    // Side by side each scrolls of its own, one below the other the page does.
    const scrolls = await page.evaluate(() => document.documentElement.scrollHeight > innerHeight);
    assert.equal(scrolls, width < 900);
    assert.ok(list.width >= Math.min(220, width * 0.8) && list.height >= 120, JSON.stringify(list));
    // Words of an alert have room.
    const message = await boxOf(page, '#alerts td.message');
    assert.ok(message.width >= Math.min(300, width * 0.6), JSON.stringify(message));
    await close();
  }
});

check('lays two runs over each other', async () => {
  const { page, close } = await open('two.html');
  assert.match(await text(page, 'header'), /test run_a compared with reference run_b/);
  const rows = await page.locator('.curve-row .name').allInnerTexts();
  assert.ok(rows.some((name) => name.endsWith('· test')) && rows.some((name) => name.endsWith('· reference')), rows.join());
  await page.click('[data-key=ratio]');
  await settled(page);
  const box = await boxOf(page, '#heat');
  await page.locator('#heat').hover({ position: { x: 300, y: 10 } });
  const tip = await text(page, '.tip');
  assert.match(tip, /[\d.]+ against [\d.]+/);
  assert.ok(box.height > 100);
  assert.equal(await text(page, '[data-key=ratio]'), 'test / reference');
  assert.match(await page.innerText('main'), /test run_a over reference run_b, as a power of two: above 0 where the test is larger/);
  await close();
});

check('lists modules of the second run only, marked, with their curves', async () => {
  const { page, close } = await open('two.html');
  await page.selectOption('#table', 'actv');
  await page.selectOption('#op', 'norm');
  await settled(page);
  assert.equal(await text(page, '#found'), '61 of 61');
  assert.match(await text(page, '#only'), /2 series of the test, 2 of the reference/);  // in either table
  await page.selectOption('#sort', 'only');
  const shown = (await page.locator('.module').allInnerTexts()).slice(0, 3).map((item) => item.replace(/\s+/g, ' ').trim());
  assert.match(shown[0], /^layers\.5\.norm\.output only test/);
  assert.match(shown[1], /^layers\.5\.adapter\.output only reference/);
  assert.doesNotMatch(shown[2], /only/);
  await page.selectOption('#sort', 'order');
  await page.fill('#search', 'layers.5.');
  const names = await page.locator('.module .name').allInnerTexts();
  assert.deepEqual(names, ['adapter', 'attention.dense', 'attention.qkv', 'mlp.fc1', 'mlp.fc2', 'norm'].map((part) => `layers.5.${part}.output`));
  while (await page.locator('.chip').count() > 0) await page.click('.chip >> nth=0');
  await page.click('.module >> nth=0');
  await page.selectOption('#ranks', String(facts.only.rank));
  const box = await boxOf(page, '#curves .u-over');
  await page.mouse.move(box.x + (box.width * facts.only.step) / 199, box.y + 40);
  await settled(page);
  const rows = await page.locator('.curve-row').allInnerTexts();
  assert.deepEqual(rows.map((row) => row.split(/\s+/).filter(Boolean)), [[facts.only.name, '·', 'reference', String(Number(facts.only.norm))]]);
  // Its numbers are in the heat map, and no factor.
  await page.locator('#heat').hover({ position: { x: 400, y: 9 } });
  assert.match(await text(page, '.tip'), /layers\.5\.adapter\.output · reference\s+step \d+\s+[\d.]+/);
  await page.click('[data-key=ratio]');
  await page.locator('#heat').hover({ position: { x: 420, y: 9 } });
  assert.match(await text(page, '.tip'), /layers\.5\.adapter\.output · reference\s+step \d+\s+no row/);
  await page.click('[data-key=ranks]');
  await settled(page);
  await page.locator('#heat').hover({ position: { x: 440, y: 9 } });
  assert.match(await text(page, '.tip'), /rank 0\s+step \d+\s+no row/);
  await close();
});

check('offers of each table the statistics that it has', async () => {
  const { page, close } = await open('hooks.html');
  const ops = () => page.locator('#op option').allInnerTexts();
  await page.selectOption('#table', 'actv');
  assert.equal((await ops())[0], 'norm');
  await page.selectOption('#op', 'max');
  await page.selectOption('#table', 'attention_hook');
  await settled(page);
  assert.deepEqual(await ops(), ['entropy', 'softmax_max']);
  assert.equal(await page.inputValue('#op'), 'entropy');
  assert.equal(await text(page, '#found'), '4 of 4');
  while (await page.locator('.chip').count() > 0) await page.click('.chip >> nth=0');
  await page.locator('.module', { hasText: facts.hook.name }).click();
  await page.selectOption('#ranks', String(facts.hook.rank));
  const box = await boxOf(page, '#curves .u-over');
  await page.mouse.move(box.x + (box.width * facts.hook.step) / 19, box.y + 40);
  await settled(page);
  assert.equal(Number(await text(page, '.curve-row b')), Number(facts.hook.entropy));
  await page.selectOption('#table', 'linear_hook');
  await settled(page);
  assert.deepEqual(await ops(), ['sr', 'kernel_norm']);
  assert.equal(await text(page, '#found'), '4 of 4');
  await page.selectOption('#table', 'actv');
  assert.equal(await page.inputValue('#op'), 'max');  // what was chosen there
  await close();
});

check('speaks Chinese when asked, and by itself to those who do', async () => {
  const english = await open('one.html');
  await english.page.evaluate(() => { window.curves = document.querySelector('#curves .uplot'); });
  await english.page.click('#language');
  await settled(english.page);
  assert.ok(await english.page.evaluate(() => window.curves.isConnected), 'curves are in no language: nothing to draw again');
  assert.match(await text(english.page, 'h1'), /训练监控/);
  assert.equal(await english.page.evaluate(() => document.documentElement.lang), 'zh');
  await english.close();
  const chinese = await open('one.html', { locale: 'zh-CN' });
  assert.match(await text(chinese.page, 'h1'), /训练监控/);
  const shown = await chinese.page.evaluate(() => document.body.innerText);
  assert.doesNotMatch(shown, /undefined|\[object/);
  await chinese.close();
});

check('is dark where the system is', async () => {
  const luminance = async (scheme) => {
    const { page, close } = await open('one.html', { scheme });
    const colour = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    assert.ok((await coloursOf(page, '#heat')).includes(NAN));
    await close();
    return colour.match(/\d+/g).map(Number).reduce((a, b) => a + b);
  };
  assert.ok((await luminance('light')) > 600 && (await luminance('dark')) < 200);
});

check('has names for all that can be reached by keyboard', async () => {
  const { page, close } = await open('two.html');
  await everythingHasAName(page);
  await close();
});

check('runs nothing of what names hold', async () => {
  const { page, close } = await open('hostile.html');
  const names = await page.locator('.module .name').allInnerTexts();
  for (const name of facts.hostile) assert.ok(names.includes(`${name}.output`), `${name} in ${names.join(' | ')}`);
  await page.click('.module >> nth=0');
  await page.click('.module >> nth=1');
  await page.locator('#heat').hover({ position: { x: 400, y: 9 } });
  await page.click('#about');
  assert.match(await text(page, '.dialog pre'), /uplot[\s\S]*MIT[\s\S]*preact[\s\S]*htm/);
  assert.equal(await page.evaluate(() => window.hurt), undefined);
  assert.equal(await page.locator('img').count(), 0);
  await close();
});

check('says what is wrong with a file that was cut', async () => {
  const context = await browser.newContext({ locale: 'en-US' });
  const page = await context.newPage();
  await page.goto(`file://${join(facts.folder, 'cut.html')}`);
  await page.waitForSelector('.failed');
  assert.match(await text(page, '.failed'), /lacks its part "a0_0"/);
  await context.close();
});

check('stays quick with 200 steps of 500 modules', async () => {
  const { page, close } = await open('large.html');
  const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0].startTime);
  const drawn = await page.evaluate(() => performance.getEntriesByName('msprobe-drawn')[0].startTime);
  const times = { 'first paint': paint, 'first picture': drawn };
  const inputs = {
    search: () => { const e = document.querySelector('#search'); e.value = 'mlp'; e.dispatchEvent(new Event('input', { bubbles: true })); },
    'search cleared': () => { const e = document.querySelector('#search'); e.value = ''; e.dispatchEvent(new Event('input', { bubbles: true })); },
    'pick a module': () => document.querySelectorAll('.module')[5].click(),
    'ranks picture': () => document.querySelector('[data-key=ranks]').click(),
    'modules picture': () => document.querySelector('[data-key=modules]').click(),
    'values, log': () => { document.querySelector('[data-key=values]').click(); const e = document.querySelector('#scale'); e.value = 'log'; e.dispatchEvent(new Event('change', { bubbles: true })); },
    sort: () => { const e = document.querySelector('#sort'); e.value = 'score'; e.dispatchEvent(new Event('change', { bubbles: true })); },
    language: () => document.querySelector('#language').click(),
    zoom: () => {
      const canvas = document.querySelector('#timeline');
      const box = canvas.getBoundingClientRect();
      canvas.setPointerCapture = () => {};
      for (const [kind, share] of [['pointerdown', 0.3], ['pointermove', 0.6], ['pointerup', 0.6]]) {
        canvas.dispatchEvent(new PointerEvent(kind, { bubbles: true, button: 0, pointerId: 1, clientX: box.left + box.width * share, clientY: box.top + 20 }));
      }
    },
    'heat map scrolled': () => { document.querySelector('.heat-scroll').scrollTop = 500; },
  };
  for (const [name, action] of Object.entries(inputs)) {
    await settled(page);
    times[name] = await timed(page, action);
  }
  await page.waitForFunction(() => document.querySelector('#op'));
  for (const [name, time] of Object.entries(times)) console.log(`  ${name.padEnd(20)} ${time.toFixed(0).padStart(5)} ms`);
  // No limits here: a busy machine is no fault of the page. docs/performance.md has figures of a quiet one.
  assert.ok(Object.values(times).every((time) => time > 0 && time < 30000));
  await close();
});

async function takePictures() {
  await takePicture('monitor_report.png', 'one.html', { width: 1280, height: 1180 });
  await takePicture('monitor_report_ranks.png', 'one.html', { width: 1280, scheme: 'dark', height: 1180 }, async (page) => {
    await page.click('[data-key=ranks]');
    await page.selectOption('#ranks', 'each');
    const box = await boxOf(page, '#timeline');
    await page.mouse.move(box.x + box.width * 0.55, box.y + 30);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.95, box.y + 30, { steps: 4 });
    await page.mouse.up();
  });
  await takePicture('monitor_report_two_runs.png', 'two.html', { width: 1280, height: 1180 }, async (page) => {
    await page.selectOption('#scale', 'log');
    await page.click('[data-key=ratio]');
  });
  await takePicture('monitor_report_zh.png', 'one.html', { width: 1280, locale: 'zh-CN', height: 780 });
}

await runChecks(takePictures);
