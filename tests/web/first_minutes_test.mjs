// The pages of docs/first-ten-minutes.md in a real Chromium, from file://. Started by tests/cli/first_minutes_test.py.
import assert from 'node:assert/strict';
import { check, facts, open, runChecks, text } from './browser.mjs';
import { takePicture } from './pictures.mjs';

for (const name of ['compare', 'graph']) {
  check(`the page of ${name} opens with the wrong kernel`, async () => {
    const { page, close } = await open(facts[name]);
    assert.equal(await text(page, '.verdict .pill'), 'DIFFERENT');
    assert.match(await text(page, '.verdict'), /the computation of Functional\.gelu\.0\.forward/);
    await close();
  });
}

async function takePictures() {
  await takePicture('first_compare.png', facts.compare, { height: 900 });
  await takePicture('first_graph.png', facts.graph, { width: 1300, height: 800 });
}

await runChecks(takePictures);
