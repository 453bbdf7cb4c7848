// The answer: the verdict, where it starts and why, what to do next.
import { FileLink, html } from '../common/html.js';
import { showCount } from '../common/numbers.js';
import { VerdictLine } from '../common/page.js';

export const showError = (error) =>
  error === null || error === undefined || Number.isNaN(error)
    ? '–'
    : typeof error === 'string'
      ? error
      : !Number.isFinite(error)
        ? 'NaN/Inf'
        : error === 0
          ? '0'
          : error.toExponential(1).replace('e', 'e');

// The points that were found in a pair, the first origin in front: [{key, kind, point}].
export function pointsOf({ found }) {
  const list = Object.entries(found.first_by_kind)
    .filter(([, point]) => point)
    .map(([kind, point]) => ({ key: kind, kind, point }));
  const first = found.first_divergence;
  list.sort(
    (a, b) =>
      (b.point.row === first?.row && b.key === first?.kind) - (a.point.row === first?.row && a.key === first?.kind),
  );
  for (const key of ['first_drift', 'first_unequal_bits']) {
    if (found[key] && (key === 'first_drift' || !first)) list.push({ key, point: found[key] });
  }
  return list;
}

function Point({ t, item, first, onShow }) {
  const { point } = item;
  const lines = [
    ['error', t('in_out', showError(point.input_error), showError(point.output_error))],
    point.layer && ['layer', html`<bdi>${point.layer}</bdi>`],
    point.code && ['code', html`<code>${point.code}</code>`],
    point.note && ['note', t.said(point.note)],
    point.relation && ['relation', t.said(point.relation.text)],
    point.wrong_side && [
      'wrong',
      html`<b>${t(`wrong_${point.wrong_side}`)}</b> <span class="muted">(${t.said(point.wrong_side_reason)})</span>`,
    ],
    point.reason && [
      'why',
      html`${t.said(point.reason)} <span class="muted">(${t('confidence', t.said(point.confidence))})</span>`,
    ],
  ].filter(Boolean);
  return html`<li class=${first ? 'point first' : 'point'}>
    <div class="point-head"><span class="pill ${first ? 'bad' : ''}">
        ${item.kind ? t.said(item.kind) : t(item.key)}</span>
      <button class="link" onClick=${() => onShow(point)} title=${t('show')}><bdi>${point.row}</bdi></button></div>
    <dl>${lines.map(([key, value]) => html`<dt>${t(key)}</dt><dd>${value}</dd>`)}</dl>
    ${
      point.stack?.length > 0 &&
      html`
      <details><summary>${t('stack')} (${point.stack.length})</summary>
        <pre>${point.stack.map((frame) => frame.trimEnd()).join('\n')}</pre></details>`
    }</li>`;
}

export function Answer({ t, run, pair, index, files, onShow }) {
  const points = pair ? pointsOf(pair) : [];
  const first = pair?.found.first_divergence;
  const hint = run.pairs.map((item) => item.hint).find(Boolean);
  const next = run.pairs[index]?.next;
  return html`<section class="card answer" aria-label=${t('where')}>
    <${VerdictLine} t=${t} run=${{ ...run, verdict: run.answer }} />
    ${hint && html`<p>${t.said(hint)}</p>`}
    ${run.pairs
      .filter((item) => item.error)
      .slice(0, 5)
      .map((item) => html`<p class="bad-text">${item.name}: ${t.said(item.error)}</p>`)}
    <${Counts} t=${t} counts=${run.totals} />
    ${
      points.length > 0 &&
      html`<h2>${run.pairs.length > 1 ? t('where_of', run.pairs[index].name) : t('where')}</h2>
      <ul class="points">${points.map(
        (item, i) => html`
        <${Point} t=${t} item=${item} first=${i === 0 && first} onShow=${onShow} />`,
      )}</ul>`
    }
    ${next && html`<p class="next"><b>${t('next')}</b> ${t.said(next)}</p>`}
    ${
      pair?.found.amplifiers.length > 0 &&
      html`<details><summary>${t('amplifiers')} (${pair.found.amplifiers.length})</summary>
      <div class="wide"><table><thead>
        <tr>${['factor', 'in', 'out', 'name', 'layer'].map((key) => html`<th>${t(key)}</th>`)}</tr></thead>
      <tbody>${pair.found.amplifiers.map(
        (point) => html`
        <tr><td>${Number(point.amplification.toPrecision?.(3) ?? NaN)}</td><td>${showError(point.input_error)}</td>
          <td>${showError(point.output_error)}</td>
        <td><button class="link" onClick=${() => onShow(point)}><bdi>${point.call}</bdi></button></td>
          <td><bdi>${point.layer}</bdi></td></tr>`,
      )}</tbody></table></div></details>`
    }
    ${[
      ['alone_npu', run.npu_only],
      ['alone_bench', run.bench_only],
    ].map(
      ([key, names]) =>
        names.length > 0 &&
        html`
      <p class="hint">${t(key, names.slice(0, 20).join(', ') + (names.length > 20 ? ' …' : ''))}</p>`,
    )}
    ${
      files.length > 0 &&
      html`<p class="hint files">
      ${t('tables')} ${files.map((name) => html`<${FileLink} path=${name}>${name}<//> `)}</p>`
    }
    ${
      run.notes.length > 0 &&
      html`<div class="notes" role="note"><b>${t('notes')}</b>
      <ul>${run.notes.map((note) => html`<li>${t.said(note)}</li>`)}</ul></div>`
    }
  </section>`;
}

const MANY = { agrees: 'agree', drifts: 'drift', differs: 'differ' };

// How many tensors stand how, as one bar.
function Counts({ t, counts }) {
  const alone = counts.npu_only + counts.shape_mismatch + counts.dtype_mismatch;
  const parts = [
    ['identical', counts.identical],
    ['agrees', counts.agreeing - counts.identical],
    ['drifts', counts.drifting],
    ['differs', counts.differing],
    ['alone', alone],
    ['not_compared', counts.not_compared],
  ].filter(([, count]) => count > 0);
  const whole = parts.reduce((sum, [, count]) => sum + count, 0);
  if (whole === 0) return null;
  return html`<div class="counts"><div class="count-bar" aria-hidden="true">${parts.map(
    ([key, count]) => html`<i class=${`part ${key}`}
    style=${{ flexGrow: count / whole }} />`,
  )}</div>
    <div class="legend">${parts.map(
      ([key, count]) => html`<span><i
      class=${`swatch part ${key}`} />${showCount(count)} ${t(count === 1 ? key : (MANY[key] ?? key))}</span>`,
    )}</div></div>`;
}
