// The smaller parts: what stands out, alerts, about.
import { html } from './html.js';
import { sideOf } from './modules.js';
import { FAR, showCount, showShort } from './numbers.js';

const MOST_SHOWN = 200;

const sideName = (runs, run) => (runs.length > 1 ? `${sideOf(run)} · ` : '');

// What a tired person should look at first: [{kind, words, run, series, op, step, rank, score?}].
export function findingsOf(runs) {
  const findings = [];
  for (const run of runs) {
    const earliest = run.nonFinite.reduce((best, one) => (best && best.step <= one.step ? best : one), null);
    if (earliest) {
      const { series, op, step, rank } = earliest;
      findings.push({ kind: 'nan', words: 'first_not_finite', run, series: run.series[series], op: run.ops[op], step, rank });
    }
    const alert = run.alerts.find((one) => one.series >= 0);
    if (alert) {
      const { series, step, rank } = alert;
      findings.push({ kind: 'alert', words: 'first_alert', run, series: run.series[series], op: null, step, rank });
    }
    // By the main statistic of their table.
    const judged = run.series.map((series) => {
      const op = run.tableOps[series.table][0];
      return { series, op, score: run.scores[op]?.[series.index] ?? 0, peak: run.peaks.get(`${series.index} ${op}`) };
    });
    const worst = judged.filter((one) => one.score > FAR * 10 && one.peak).sort((a, b) => b.score - a.score);
    for (const { series, op, score, peak } of worst.slice(0, runs.length > 1 ? 2 : 3)) {
      findings.push({ kind: 'odd', words: 'far_off', run, series, op: run.ops[op], ...peak, score });
    }
  }
  return findings;
}

export function Findings({ t, runs, findings, only, onShow }) {
  const never = runs.reduce((sum, run) => sum + run.neverNumbers.size, 0);
  const detailOf = ({ score, rank, step }) => `${score ? `${t('times_usual', showShort(score / 10))}, ` : ''}${t('rank')} ${rank}, ${t('step')} ${step}`;
  return html`<section class="card findings"><h2>${t('findings')}</h2>
    ${findings.length === 0 && html`<p class="calm">✓ ${t('nothing')}</p>`}
    <ul>${findings.map((one) => html`<li><button class="finding" onClick=${() => onShow(one)}>
      <i class=${`mark ${one.kind}`} /><span class="what">${t(one.words)}</span>
      <span class="where">${sideName(runs, one.run)}<bdi>${one.series.label}</bdi> <span class="muted">${one.run.tables[one.series.table]}${one.op ? ` · ${one.op}` : ''}</span></span>
      <span class="detail">${detailOf(one)}</span></button></li>`)}</ul>
    ${never > 0 && html`<p class="hint">${t('never_numbers', showCount(never))}</p>`}
    ${only.some((count) => count > 0) && html`<p class="hint" id="only">${t('only_counts', ...only.map(showCount))}</p>`}
  </section>`;
}

export function Alerts({ t, runs, low, high, onShow }) {
  const all = runs.flatMap((run) => run.alerts.filter((one) => one.step >= low && one.step <= high).map((one) => ({ run, ...one })));
  all.sort((a, b) => a.step - b.step);
  const count = runs.reduce((sum, run) => sum + run.alertSteps.reduce((part, one) => part + (one.step >= low && one.step <= high ? one.count : 0), 0), 0);
  const shown = all.slice(0, MOST_SHOWN);
  return html`<section class="card"><h2>${t('alerts')} <span class="muted">${t('in_range')}: ${showCount(count)}</span></h2>
    ${shown.length === 0 ? html`<p class="hint">${t('alerts_none')}</p>` : html`<div class="alert-table"><table id="alerts"><thead><tr>
      <th>${t('step')}</th><th>${t('rank')}</th><th>${t('module')}</th><th>${t('message')}</th></tr></thead>
      <tbody lang="">${shown.map((one) => html`<tr tabindex="0" class=${one.series >= 0 ? 'link' : ''} onClick=${() => one.series >= 0 && onShow(one)}
        onKeyDown=${(event) => event.key === 'Enter' && one.series >= 0 && onShow(one)}>
        <td>${one.step}</td><td>${sideName(runs, one.run)}${one.rank}</td>
        <td><bdi>${one.series >= 0 ? one.run.series[one.series].label : one.tag}</bdi></td><td class="message">${one.message}</td></tr>`)}</tbody></table></div>
      ${count > shown.length && html`<p class="hint">${t('show_first', showCount(shown.length), showCount(count))}</p>`}`}
  </section>`;
}

export function About({ t, runs, onClose }) {
  const warnings = runs.flatMap((run) => run.warnings.map((text) => `${sideName(runs, run)}${text}`));
  return html`<div class="veil" onClick=${(event) => event.target === event.currentTarget && onClose()}>
    <div class="dialog" role="dialog"><button class="close" onClick=${onClose}>${t('close')}</button>
      <h2>msprobe monitor report</h2><p>${t('precision')}</p>
      ${warnings.length > 0 && html`<h3>${t('warnings')}</h3><ul>${warnings.map((text) => html`<li>${text}</li>`)}</ul>`}
      <h3>${t('licences')}</h3><pre>${document.getElementById('licences').textContent}</pre></div></div>`;
}
