import { unpackJson, unpackListing } from '../common/blocks.js';
import { start } from '../common/page.js';
import { App } from './app.js';
import { translator } from './text.js';

// What src/report/web_page.cpp wrote: the answer at once, each table as its own block that is read behind the first
// picture.
async function readAnswer() {
  const answer = await unpackListing('answer', 1);
  answer.tables.forEach((table, i) => {
    let cells = null;
    table.load = () => (cells ??= unpackJson(`t${i}`));
  });
  return answer;
}

start(readAnswer, App, translator);
