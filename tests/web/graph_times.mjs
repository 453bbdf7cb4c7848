// How quickly pages of graphs open, scroll and zoom: what tests/bench/graph_bench.sh tells of them. facts.pages: their names in the folder.
import { check, facts, framesASecond, kPanGraph, kZoomGraph, open, runChecks, settled } from './browser.mjs';

for (const name of facts.pages) {
  check(name, async () => {
    const { page, close } = await open(name);
    const usable = await page.evaluate(() => performance.getEntriesByName('msprobe-drawn')[0].startTime);
    await page.click('#open_all');
    await settled(page);
    const panning = await framesASecond(page, kPanGraph);
    const zooming = await framesASecond(page, kZoomGraph);
    console.log(`  usable after ${(usable / 1000).toFixed(2)} s, panning ${panning.toFixed(0)} and zooming ${zooming.toFixed(0)} frames a second`);
    await close();
  });
}

await runChecks(async () => {});
