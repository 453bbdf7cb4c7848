// What is known of one node: how it stands and why, its place, its tensors on both sides, its stack, what receives its
// results.
import { html, useLoaded } from '../common/html.js';
import { BesideLink } from '../common/page_beside.js';
import { showNumber, showShort } from '../common/numbers.js';
import { FIGURES, LEVELS, STANDINGS } from './data.js';
import { shortName } from './rows.js';

const STATISTICS = ['max', 'min', 'mean', 'norm'];
const MOST_CONSUMERS = 12;

const show = (value) =>
  value === null || value === undefined ? '' : typeof value === 'number' ? showNumber(value) : value;
const showError = (value) => (typeof value === 'number' ? showShort(value) : show(value));

function NodeLink({ rank, node, onShow, side = rank.npu }) {
  const [name] = shortName(side, node);
  return html`<button class="link" title=${side.names[node]} onClick=${() => onShow(node)}>${name}</button>`;
}

// Rows of both sides with the same label beside each other.
function pairRows(npu, bench) {
  const other = new Map(bench.map((row) => [row.label, row]));
  const pairs = npu.map((row) => {
    const partner = other.get(row.label);
    other.delete(row.label);
    return [row, partner];
  });
  return [...pairs, ...[...other.values()].map((row) => [null, row])];
}

function TensorTable({ t, rank, node, bench }) {
  const tensors = useLoaded(() => rank.loadTensors(), [rank], rank.isReady ? rank.tensors : undefined);
  if (tensors === undefined) return html`<p class="hint">${t('loading')}</p>`;
  if (tensors === null) return html`<p class="hint">${t('no_tensors')}</p>`;
  const pairs = pairRows(node >= 0 ? tensors.rowsOf(node) : [], bench >= 0 ? tensors.rowsOf(bench, true) : []);
  if (pairs.length === 0) return html`<p class="hint">${t('nothing_recorded')}</p>`;
  const typeOf = (row) => [row.dtype, row.shape].filter(Boolean).join(' ');
  const types = (...sides) => [...new Set(sides.filter(Boolean).map(typeOf))].join(` ${t('against')} `);
  const line = (row, side) =>
    row &&
    html`<tr><td class="muted">${rank.bench ? t(side) : ''}</td>
    ${row.stats.map((value) => html`<td class="right">${show(value)}</td>`)}<td>${row.sum}</td></tr>`;
  return html`<div class="wide"><table class="figures">
    <thead><tr><th></th>${STATISTICS.map(
      (name) => html`
    <th class="right">${name}</th>`,
    )}<th></th></tr></thead>
    ${pairs.map(
      ([npu, other]) =>
        html`<tbody><tr><th colspan="6">${(npu ?? other).label} <span class="muted">${types(npu, other)}</span>${
          npu && npu.error !== null && npu.error !== undefined
            ? html`<span class="muted"> · ${t('relative_error')} ${showError(npu.error)}</span>`
            : ''
        }</th></tr>${line(npu, 'test')}${line(other, 'reference')}</tbody>`,
    )}</table></div>`;
}

function Consumers({ t, rank, node, onShow }) {
  const found = useLoaded(() => rank.loadTensors().then((tensors) => tensors?.consumersOf(node)), [rank, node]);
  if (!found || found.length === 0) return null;
  return html`<h3>${t('consumers')} <span class="muted">${t('consumers_hint')}</span></h3><p class="node-list">${found
    .slice(0, MOST_CONSUMERS)
    .map(
      (other) => html`
    <${NodeLink} rank=${rank} node=${other} onShow=${onShow} />`,
    )}${found.length > MOST_CONSUMERS ? ` … ${found.length - MOST_CONSUMERS}` : ''}</p>`;
}

export function Details({ t, run, about, rank, selected, onShow }) {
  const { node, bench } = selected;
  const side = node >= 0 ? rank.npu : rank.bench;
  const at = node >= 0 ? node : bench;
  if (!side || at < 0) return html`<p class="hint">${t('pick')}</p>`;
  const standing = node >= 0 ? STANDINGS[rank.standingOf(node)] : 'alone';
  const origin = node >= 0 ? rank.listing.origins[node] : null;
  const why = node >= 0 ? rank.listing.npu_unmatched[node] : rank.listing.bench_unmatched[bench];
  const stack = side.stackOf(at);
  const partners = rank.listing.partners[side.names[at]];
  const facts = [];
  if (rank.bench) {
    facts.push([
      t('standing'),
      html`
      <span class=${
        { differs: 'bad-text', drifts: 'caution-text', identical: 'good-text', agrees: 'good-text' }[standing] ?? ''
      }>${t(standing)}</span>`,
    ]);
    if (node >= 0 && rank.figureOf(node) > 0) facts.push([t('figure'), t(FIGURES[rank.figureOf(node)])]);
    const [into, out] =
      node >= 0 ? [rank.errorOf(rank.inCodes, node), rank.errorOf(rank.outCodes, node)] : [null, null];
    if (into !== null || out !== null) facts.push([t('errors'), t('in_out', showError(into), showError(out))]);
    if (origin) facts.push([t('origin'), html`<b class="bad-text">${t.said(origin[1])}</b>`]);
    facts.push([
      t('partner'),
      node >= 0 && bench >= 0 ? html`<bdi>${rank.bench.names[bench]}</bdi>` : t('none_because', t.said(why ?? '')),
    ]);
  }
  if (node >= 0 && rank.levelOf(node) > 0)
    facts.push([t('level'), html`<b class="bad-text">${t(LEVELS[rank.levelOf(node)])}</b>`]);
  const path = side.pathOf(at).slice(0, -1);
  return html`<div class="details" id="details"><h2 class="call-title name"><bdi>${side.names[at]}</bdi></h2>
    ${
      path.length > 0 &&
      html`<p class="crumbs">${path.map(
        (above, i) =>
          html`${i > 0 ? ' › ' : ''}${
            node >= 0 ? html`<${NodeLink} rank=${rank} node=${above} onShow=${onShow} />` : side.names[above]
          }`,
      )}</p>`
    }
    ${facts.length > 0 && html`<dl>${facts.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`}
    ${
      rank.bench &&
      node >= 0 &&
      html`<p><${BesideLink} written=${run.compare_page} step=${about.step}
      rank=${about.rank} call=${side.names[at]}>${t('in_compare')}<//></p>`
    }
    <h3>${t('tensors')}</h3><${TensorTable} t=${t} rank=${rank} node=${node} bench=${bench} />
    ${node >= 0 && html`<${Consumers} t=${t} rank=${rank} node=${node} onShow=${onShow} />`}
    ${partners && html`<h3>${t('partners')}</h3><pre>${JSON.stringify(partners, null, 1)}</pre>`}
    ${stack.length > 0 && html`<h3>${t('stack')}</h3><pre>${stack.join('\n')}</pre>`}</div>`;
}
