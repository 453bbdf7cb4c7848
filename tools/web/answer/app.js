// The whole page: the verdict, then the sections in order.
import { useEffect, useState } from 'preact/hooks';
import { html } from '../common/html.js';
import { AboutRun, Header, shortPaths, useLanguage, useThemeTurns, VerdictLine } from '../common/page.js';
import { BarsBlock, FilesBlock, ListBlock, MapBlock, TreeBlock } from './blocks.js';
import { CurvesBlock } from './curves_block.js';
import { TableBlock } from './table_block.js';
import { translator } from './text.js';

export function App({ data: answer }) {
  const [t, otherLanguage] = useLanguage(translator);
  const themeTurns = useThemeTurns();
  const [wanted, setWanted] = useState(null); // {text}: what a click into a map looks for
  useEffect(() => {
    document.title = `${answer.word || answer.verdict} · msprobe ${answer.command}`;
    performance.mark('msprobe-drawn');
  }, []);
  const [first, second] = answer.sides;
  const [firstName, secondName] = shortPaths(first, second);
  const draw = (block) => {
    if (block.kind === 'text')
      return html`<p class=${`said ${block.tone ? `${block.tone}-text` : ''}`}>${t.said(block.text)}</p>`;
    if (block.kind === 'list') return html`<${ListBlock} t=${t} block=${block} />`;
    if (block.kind === 'files') return html`<${FilesBlock} t=${t} block=${block} />`;
    if (block.kind === 'table')
      return html`<${TableBlock} t=${t} id=${`table${block.table}`} table=${answer.tables[block.table]}
        query=${wanted} />`;
    if (block.kind === 'bars') return html`<${BarsBlock} t=${t} block=${block} />`;
    if (block.kind === 'curves') return html`<${CurvesBlock} t=${t} block=${block} />`;
    if (block.kind === 'tree') return html`<${TreeBlock} t=${t} block=${block} />`;
    return html`<${MapBlock} t=${t} block=${block} themeTurns=${themeTurns}
      onSearch=${(text) => setWanted({ text })} />`;
  };
  return html`<div class="page">
    <${Header} t=${t} title=${answer.command} onLanguage=${otherLanguage}
      marked=${answer.notes.length + answer.warnings.length > 0}
      name=${
        first &&
        html`<bdi title=${first}>${firstName}</bdi>
        ${second && html` <span class="muted">${t('against')}</span> <bdi title=${second}>${secondName}</bdi>`}`
      }
      facts=${answer.facts.map(([value, text, tone]) => ({
        value,
        text: t.said(text),
        kind: { bad: 'alert' }[tone] ?? '',
      }))}
      about=${html`<${AboutRun} run=${answer}><p>${t('digits')}</p><//>`} />
    <main id="main">
      <section class="card answer"><${VerdictLine} t=${t} run=${answer} />
        ${answer.next.map((text) => html`<p class="next"><b>${t('next')}</b> ${t.said(text)}</p>`)}
        ${[
          ['notes', answer.notes],
          ['warnings', answer.warnings],
        ].map(
          ([key, list]) =>
            list.length > 0 &&
            html`<div class="notes"
          role="note"><b>${t(key)}</b><ul>${list.map((item) => html`<li>${t.said(item)}</li>`)}</ul></div>`,
        )}</section>
      ${answer.sections.map(
        (section) =>
          html`<section class="card"><h2 class="name">${t.said(section.title) || t('answer')} ${
            section.hint &&
            html`
        <span class="muted">${t.said(section.hint)}</span>`
          }</h2>${section.blocks.map(draw)}</section>`,
      )}
    </main></div>`;
}
