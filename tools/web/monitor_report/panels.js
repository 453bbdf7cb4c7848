// The smaller parts: what stands out, alerts, about.
import { html } from '../common/html.js';
import { sideOf } from './modules.js';
import { FAR, showCount, showShort } from '../common/numbers.js';
import { AboutRun } from '../common/page.js';

const MOST_SHOWN = 200;

const sideName = (t, runs, run) => (runs.length > 1 && run ? `${t(sideOf(run))} · ` : '');

const SEVERAL = 3; // series of one table that are odd at one step: one event

// The statistic that an alert is about stands in its message: ('<tag>', '<statistic>').
function statisticOf(run, { series, message }) {
  const named = /', '(\w+)'\)/.exec(message)?.[1];
  return run.opsOf(run.tables[run.series[series].table]).includes(named) ? named : null;
}

const MOST_NAMES = 3;
const someOf = (names) => names.slice(0, MOST_NAMES).join(', ') + (names.length > MOST_NAMES ? ', …' : '');

// Where two runs part, as a finding; null where they do not, or where there is one run.
function divergenceOf(runs) {
  const first = runs.divergence?.first;
  if (!first) return null;
  for (const run of runs) {
    const series = run.series.find(
      (item) =>
        run.tables[item.table] === first.table &&
        item.name === first.name &&
        item.stage === first.stage &&
        (item.microStep === first.micro_step || item.microStep < 0),
    );
    if (series)
      return {
        kind: 'part',
        words: 'runs_part',
        run,
        series,
        op: first.op,
        step: first.step,
        rank: first.rank,
        values: [first.a, first.b],
      };
  }
  return null;
}

// Series far from their own history: what happens to several of a table at one step is one event, shown by the worst of
// them.
function oddEvents(run) {
  // By the main statistic of their table.
  const judged = run.series
    .map((series) => {
      const op = run.tableOps[series.table][0];
      return { series, op, score: run.scores[op]?.[series.index] ?? 0, peak: run.peaks.get(`${series.index} ${op}`) };
    })
    .filter((item) => item.score > FAR * 10 && item.peak);
  const events = new Map();
  for (const item of judged) {
    const key = `${item.series.table} ${item.peak.step}`;
    events.set(key, [...(events.get(key) ?? []), item]);
  }
  return [...events.values()]
    .flatMap((members) => {
      members.sort((a, b) => b.score - a.score);
      const [{ series, op, score, peak }] = members;
      const item = { kind: 'odd', words: 'far_off', run, series, op: run.ops[op], ...peak, score };
      return members.length < SEVERAL
        ? members.map((member) => ({ ...item, series: member.series, ...member.peak, score: member.score }))
        : [{ ...item, words: 'many_far_off', count: members.length, of: run.byTable[series.table].length }];
    })
    .sort((a, b) => b.score - a.score);
}

// What a tired person should look at first: [{kind, words, run, series, op, step, rank, score?, count?, of?, values?}].
export function findingsOf(runs) {
  const findings = [divergenceOf(runs)].filter(Boolean);
  for (const run of runs) {
    const earliest = run.nonFinite.reduce((best, item) => (best && best.step <= item.step ? best : item), null);
    if (earliest) {
      const { series, op, step, rank } = earliest;
      const count = new Set(run.nonFinite.map((item) => item.series)).size;
      findings.push({
        kind: 'nan',
        words: 'first_not_finite',
        run,
        series: run.series[series],
        op: run.ops[op],
        step,
        rank,
        others: count - 1,
      });
    }
    const alert = run.alerts.find((item) => item.series >= 0);
    if (alert) {
      const { series, step, rank } = alert;
      findings.push({
        kind: 'alert',
        words: 'first_alert',
        run,
        series: run.series[series],
        op: statisticOf(run, alert),
        step,
        rank,
      });
    }
    findings.push(...oddEvents(run).slice(0, runs.length > 1 ? 2 : 3));
  }
  for (const run of runs) {
    if (run.neverNumbers.size > 0) {
      const series = run.series[Math.min(...run.neverNumbers)];
      findings.push({ kind: 'never', words: 'never_numbers', run, series, op: null, count: run.neverNumbers.size });
    }
  }
  return findings;
}

export function Findings({ t, runs, findings, only, onShow }) {
  const detailOf = ({ score, rank, step, values, others, count, of }) =>
    [
      of && t('several', showCount(count), showCount(of)),
      score && t('times_usual', showShort(score / 10)),
      values && values.map(showShort).join(` ${t('against')} `),
      rank >= 0 && `${t('rank')} ${rank}`,
      step !== undefined && `${t('step')} ${step}`,
      others > 0 && t('and_others', showCount(others)),
    ]
      .filter(Boolean)
      .join(', ');
  return html`<section class="card findings"><h2>${t('findings')}</h2>
    ${
      runs.divergence &&
      !runs.divergence.first &&
      html`
      <p class="calm">✓ ${t('runs_agree', showCount(runs.divergence.compared))}</p>`
    }
    ${findings.length === 0 && html`<p class="calm">✓ ${t('nothing')}</p>`}
    <ul>${findings.map(
      (item) => html`<li><button class="finding" onClick=${() => onShow(item)}>
      <i class=${`mark ${item.kind}`} /><span class="what">${t(item.words, showCount(item.count ?? 0))}</span>
      <span class="where">${sideName(t, runs, item.words === 'runs_part' ? null : item.run)}
        <bdi>${item.series.label}</bdi> <span
        class="muted">${item.run.tables[item.series.table]}${item.op ? ` · ${item.op}` : ''}</span></span>
      <span class="detail">${detailOf(item)}</span></button></li>`,
    )}</ul>
    ${runs
      .filter((run) => run.unmeasured.length > 0)
      .map(
        (run) => html`
      <p class="hint unmeasured">${sideName(t, runs, run)}
        ${t('unmeasured', showCount(run.unmeasured.length))}: <bdi>${someOf(run.unmeasured)}</bdi></p>`,
      )}
    ${
      only.some((count) => count > 0) &&
      html`<p class="hint" id="only">
      ${t('only_counts', ...only.map(showCount))}</p>`
    }
  </section>`;
}

export function Alerts({ t, runs, low, high, onShow }) {
  const all = runs.flatMap((run) =>
    run.alerts.filter((item) => item.step >= low && item.step <= high).map((item) => ({ run, ...item })),
  );
  all.sort((a, b) => a.step - b.step);
  const count = runs.reduce(
    (sum, run) =>
      sum + run.alertSteps.reduce((part, item) => part + (item.step >= low && item.step <= high ? item.count : 0), 0),
    0,
  );
  const shown = all.slice(0, MOST_SHOWN);
  return html`<section class="card"><h2>${t('alerts')} <span class="muted">
    ${t('in_range')}: ${showCount(count)}</span></h2>
    ${
      shown.length === 0
        ? html`<p class="hint">${t('alerts_none')}</p>`
        : html`<div class="alert-table"><table id="alerts"><thead><tr>
      <th>${t('step')}</th><th>${t('rank')}</th><th>${t('module')}</th><th>${t('message')}</th></tr></thead>
      <tbody lang="">${shown.map(
        (item) => html`<tr tabindex="0" class=${item.series >= 0 ? 'link' : ''}
        onClick=${() => item.series >= 0 && onShow({ ...item, op: statisticOf(item.run, item) })}
        onKeyDown=${(event) =>
          event.key === 'Enter' && item.series >= 0 && onShow({ ...item, op: statisticOf(item.run, item) })}>
        <td data-label=${t('step')}>${item.step}</td><td data-label=${t('rank')}>${sideName(t, runs, item.run)}
          ${item.rank}</td>
        <td><bdi>${item.series >= 0 ? item.run.series[item.series].label : item.tag}</bdi></td>
          <td class="message">${item.message}</td></tr>`,
      )}</tbody></table></div>
      ${
        count > shown.length &&
        html`<p class="hint">
        ${t('show_first', showCount(shown.length), showCount(count))}</p>`
      }`
    }
  </section>`;
}

export function About({ t, runs }) {
  const warnings = runs.flatMap((run) => run.warnings.map((text) => `${sideName(t, runs, run)}${text}`));
  return html`<${AboutRun} run=${{ command: 'monitor report' }}><p>${t('precision')}</p><//>
    ${
      warnings.length > 0 &&
      html`<h3>${t('warnings')}</h3>
      <ul>${warnings.map((text) => html`<li>${text}</li>`)}</ul>`
    }`;
}
