// The site of docs/ in a real Chromium, from file://: search in both languages, the way between them, no request to a host. Started by
// tests/cli/site_test.py.
import assert from 'node:assert/strict';
import { check, open, runChecks } from './browser.mjs';

// Addresses of the pages that a search for `words` finds.
async function search(language, words) {
  const { page, close } = await open(`${language}/search.html?q=${encodeURIComponent(words)}`, { drawn: false });
  await page.waitForSelector('#search-results ul.search li a', { timeout: 20_000 });
  await page.waitForTimeout(500);
  const found = await page.$$eval('#search-results ul.search li a', (links) => links.map((link) => link.getAttribute('href').replace(/[?#].*/, '')));
  await close();
  return found;
}

for (const [language, words, page] of [
  ['en', 'divergence', 'how-to/find-the-first-divergence.html'],
  ['en', '--fail-on different', 'commands/compare.html'],
  ['zh', '偏差点', 'how-to/find-the-first-divergence.html'],
  ['zh', '标杆', 'first-ten-minutes.html'],
  ['zh', '退出码', 'agents.html'],
  ['zh', '显', 'about.html'],
]) {
  check(`a search for ${words} finds ${page}`, async () => {
    const found = await search(language, words);
    assert.ok(found.includes(page), `found: ${found.join(' ') || 'nothing'}`);
  });
}

check('what stands nowhere is not found', async () => {
  const { page, close } = await open(`zh/search.html?q=${encodeURIComponent('量子纠缠')}`, { drawn: false });
  await page.waitForFunction(() => document.querySelector('#search-results p.search-summary, #search-results p')?.textContent.length > 0);
  await page.waitForTimeout(500);
  assert.equal(await page.locator('#search-results ul.search li').count(), 0);
  await close();
});

check('each language leads to the same page of the other', async () => {
  const { page, close } = await open('en/how-to/first-capture.html', { drawn: false });
  await page.click('article >> text=中文');
  await page.waitForFunction(() => location.pathname.endsWith('/zh/how-to/first-capture.html'));
  assert.equal(await page.getAttribute('html', 'lang'), 'zh-CN');
  await close();
});

await runChecks();
