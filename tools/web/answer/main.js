import { unpackJson, unpackListing } from '../common/blocks.js';
import { start } from '../common/page.js';
import { App } from './app.js';
import { translator } from './text.js';

// What src/report/answer_page.cpp wrote: the answer at once, each table as its own block.
async function readAnswer() {
  const answer = await unpackListing('answer', 1);
  answer.tables = await Promise.all(answer.tables.map(async (table, i) => ({ ...table, cells: await unpackJson(`t${i}`) })));
  return answer;
}

start(readAnswer, App, translator);
