// One call: where it was made, and each of its tensors with the figures of both sides.
import { useEffect } from 'preact/hooks';
import { html, useLoaded } from '../common/html.js';
import { BesideLink } from '../common/page_beside.js';
import { showNumber } from '../common/numbers.js';
import { showError } from './answer.js';
import { Standing } from './calls.js';

const MOST_ROWS = 100;
const STATS = ['max', 'min', 'mean', 'norm'];
const METRICS = [
  'Cosine',
  'EucDist',
  'MaxAbsErr',
  'MaxRelativeErr',
  'One Thousandth Err Ratio',
  'Five Thousandths Err Ratio',
];

const show = (value) => (typeof value === 'string' ? value : showNumber(value));
const difference = (a, b) =>
  typeof a === 'number' && typeof b === 'number' ? showNumber(Number((a - b).toPrecision(5))) : '';

function Tensor({ t, run, pair, row, marked }) {
  const { npu, bench, metrics, message, relation, relative, absolute, ownNoise } = pair.figuresOf(row);
  const verdict = run.row_verdicts[pair.verdictOf(row)];
  const part = pair.parts[pair.part[row]];
  const type = (side) => [side.dtype, side.shape].filter((item) => item && item !== 'None').join(' ');
  const others = bench && type(bench) !== type(npu) ? ` ${t('against')} ${type(bench)}` : '';
  const any = [...npu.stats, ...(bench?.stats ?? [])].some((item) => item !== null);
  return html`<div class=${marked ? 'tensor marked' : 'tensor'} id=${marked ? 'marked' : undefined}>
    <div class="tensor-head"><b><bdi>${part}</bdi></b><span class="muted">${type(npu)}${others}</span>
      <${Standing} t=${t} standing=${pair.standing[row]} />
      ${
        relative !== null &&
        html`
        <span>${t('relative')} ${showError(relative)} · ${t('absolute')} ${showError(absolute)}</span>`
      }
      ${
        ownNoise > 0 &&
        typeof relative === 'number' &&
        html`
        <span>${t('times_noise', showNumber(Number((relative / ownNoise).toPrecision(2))))}</span>`
      }
      ${
        verdict &&
        html`<span class=${['pill', 'pill caution', 'pill bad'][pair.fillOf(row)]}
        title=${t('table_verdict')}>${t('table_verdict')} ${verdict}</span>`
      }</div>
    ${bench && bench.name !== npu.name && html`<div class="muted">${t('against')} <bdi>${bench.name}</bdi></div>`}
    ${!bench && html`<div class="muted">${t('no_partner')}</div>`}
    ${
      npu.layout &&
      html`<div class="muted">${t('layout')} <bdi>${npu.layout}</bdi>${
        bench && bench.layout !== npu.layout && html` ${t('against')} <bdi>${bench.layout}</bdi>`
      }</div>`
    }
    ${relation && html`<div>${t('what_it_is', relation)}</div>`}
    ${
      any &&
      html`<div class="wide"><table class="figures"><thead>
        <tr><th />${STATS.map((key) => html`<th>${t(key)}</th>`)}</tr></thead><tbody>
      <tr><th>${t('test')}</th>${npu.stats.map((value) => html`<td>${show(value)}</td>`)}</tr>
      ${
        bench &&
        html`<tr><th>${t('reference')}</th>${bench.stats.map((value) => html`<td>${show(value)}</td>`)}</tr>
      <tr class="muted"><th>${t('difference')}</th>
        ${npu.stats.map((value, i) => html`<td>${difference(value, bench.stats[i])}</td>`)}</tr>`
      }</tbody></table></div>`
    }
    ${
      npu.md5 &&
      html`<div>${t('checksum')} <code>${npu.md5}</code>
      ${bench && html` · <code>${bench.md5}</code>`}</div>`
    }
    ${
      metrics &&
      html`<div class="metrics">
      ${METRICS.map(
        (name, i) =>
          metrics[i] !== null &&
          html`
      <span><span class="muted">${name}</span> ${show(metrics[i])}</span>`,
      )}</div>`
    }
    ${message && html`<div class="message">${message}</div>`}</div>`;
}

export function Details({ t, run, about, pair, call, markedRow }) {
  const loaded = useLoaded(() => pair.loadFigures(), [pair], pair.loaded ?? null);
  useEffect(() => {
    document.getElementById('marked')?.scrollIntoView({ block: 'nearest' });
  }, [markedRow, loaded]);
  if (call < 0) return html`<div class="details" id="details"><p class="hint">${t('pick_call')}</p></div>`;
  const [from, to] = [pair.firstRow[call], pair.firstRow[call + 1]];
  const begin = markedRow >= from + MOST_ROWS ? Math.min(markedRow, to - MOST_ROWS) : from;
  const end = Math.min(to, begin + MOST_ROWS);
  const rows = Array.from({ length: end - begin }, (_, i) => begin + i);
  const stack = pair.stackOfCall(call);
  return html`<div class="details" id="details" tabindex="0" role="region" aria-label=${t('details')}>
    <h3 class="call-title"><bdi>${pair.names[call]}</bdi></h3>
    <${BesideLink} written=${run.graph_page} step=${about.step} rank=${about.rank} call=${pair.names[call]}>
      ${t('in_graph')}<//>
    ${stack?.line && html`<p><code>${stack.line}</code></p>`}
    ${
      stack &&
      html`<details><summary>${t('stack')} (${stack.frames.length})</summary>
      <pre>${stack.frames.map((frame) => frame.trimEnd()).join('\n')}</pre></details>`
    }
    ${
      loaded
        ? rows.map(
            (row) => html`<${Tensor} key=${row} t=${t} run=${run} pair=${pair} row=${row}
      marked=${row === markedRow} />`,
          )
        : html`<p class="hint">${t('loading')}</p>`
    }
    ${to - from > rows.length && html`<p class="hint">${t('more_rows', to - from - rows.length)}</p>`}</div>`;
}
