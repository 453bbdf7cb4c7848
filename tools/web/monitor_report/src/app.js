// The whole page and its state.
import { useCallback, useEffect, useMemo, useState } from 'preact/hooks';
import { Choice, html, Tabs } from './html.js';
import { curveColour, deviationScale, ratioScale, valueScale } from './colours.js';
import { Curves } from './curves.js';
import { stepsOf } from './data.js';
import { HeatMap } from './heatmap.js';
import { FAR, lowerBound, showCount } from './numbers.js';
import { About, Alerts, Findings, findingsOf } from './panels.js';
import { deviations, ranksToSteps, reduceToSteps } from './reduce.js';
import { matcher, Sidebar, sorted } from './sidebar.js';
import { preferredLanguage, translator } from './text.js';
import { Timeline } from './timeline.js';

const MOST_PICKED = 8;

const unique = (list) => [...new Set(list)];

// Rows of the picture of all modules of a table, each with its deviations.
function moduleRows(data, how) {
  return data.list.map((series) => {
    const reduced = reduceToSteps(series, data.columns.get(series.index), data.steps, how);
    return { label: series.label, key: series.key, series, ...reduced, deviation: deviations(reduced) };
  });
}

function ratioRow(row, other) {
  const shown = row.values.map((value, i) => {
    if (!other.present[i]) return 0;
    if (!Number.isFinite(other.values[i])) return other.values[i];
    if (!Number.isFinite(value)) return value;
    const [a, b] = [Math.abs(value), Math.abs(other.values[i])];
    return a === b ? 0 : Math.log2(b / a) || 0;
  });
  // From or to zero: as far as the scale reaches.
  const clamped = shown.map((value, i) => (Number.isFinite(row.values[i]) && Number.isFinite(other.values[i]) ? Math.max(-64, Math.min(64, value)) : value));
  const present = row.present.map((there, i) => there & other.present[i]);
  return { shown: clamped, other: other.values, present };
}

function oddSteps(run, rows, steps) {
  const counts = new Float64Array(steps.length);
  for (const row of rows) {
    if (run.neverNumbers.has(row.series.index)) continue;
    for (let i = 0; i < counts.length; i++) if (row.present[i] && !(Math.abs(row.deviation[i]) <= FAR)) counts[i]++;
  }
  return { steps, counts: Array.from(counts) };
}

function useTable(runs, table, op) {
  const [data, setData] = useState(null);
  useEffect(() => {
    let wanted = true;
    const columnsOf = async (run) => {
      const [tableIndex, opIndex] = [run.tables.indexOf(table), run.ops.indexOf(op)];
      return tableIndex < 0 || opIndex < 0 ? new Map() : run.load(tableIndex, opIndex);
    };
    Promise.all(runs.map(columnsOf)).then(([columns, otherColumns]) => {
      if (!wanted) return;
      const [run, other] = runs;
      const tableIndex = run.tables.indexOf(table);
      const list = (tableIndex >= 0 ? run.byTable[tableIndex] : []).filter((series) => columns.has(series.index));
      setData({ table, op, columns, otherColumns, other, list, steps: stepsOf(runs, table) });
    });  // a rejection is for main.js
    return () => { wanted = false; };
  }, [table, op]);
  return data;
}

// What to show before anybody asked: the worst of the table.
function firstPicks(run, list, op) {
  const scores = run.scores[run.ops.indexOf(op)] ?? [];
  const broken = [...run.nonFinite].sort((a, b) => a.step - b.step).map((one) => one.series);
  const here = new Set(list.map((series) => series.index));
  const worst = list.filter((series) => !run.neverNumbers.has(series.index)).sort((a, b) => (scores[b.index] ?? 0) - (scores[a.index] ?? 0) || a.index - b.index).map((series) => series.index);
  const first = broken.filter((index) => here.has(index)).slice(0, 1);
  return unique([...first, ...worst.slice(0, first.length > 0 ? 1 : 3)]).map((index) => run.series[index].key);
}

function badgesOf(run, opIndex) {
  const broken = new Set(run.nonFinite.map((one) => one.series));
  const alerts = new Map();
  for (const one of run.alerts) if (one.series >= 0) alerts.set(one.series, (alerts.get(one.series) ?? 0) + 1);
  const scores = run.scores[opIndex] ?? [];
  const most = Math.log2(1 + 1000);
  return (series) => ({
    notFinite: broken.has(series.index) || run.neverNumbers.has(series.index), never: run.neverNumbers.has(series.index),
    alerts: alerts.get(series.index) ?? 0,
    share: Math.min(100, (100 * Math.log2(1 + (scores[series.index] ?? 0) / 10)) / most),
  });
}

export function App({ runs }) {
  const [run] = runs;
  const [language, setLanguage] = useState(preferredLanguage);
  const t = useMemo(() => translator(language), [language]);
  const tables = useMemo(() => unique(runs.flatMap((one) => one.tables)), [runs]);
  const ops = useMemo(() => unique(runs.flatMap((one) => one.ops)), [runs]);
  const findings = useMemo(() => findingsOf(runs, t), [runs, t]);
  // Where something stands out, rather than at the beginning.
  const [table, setTable] = useState(() => (findings[0] ? findings[0].run.tables[findings[0].series.table] : tables[0]));
  const [op, setOp] = useState(ops[0]);
  const [how, setHow] = useState('median');
  const [log, setLog] = useState(false);
  const [query, setQuery] = useState('');
  const [sort, setSort] = useState('order');
  const [picked, setPicked] = useState(null);
  const [focus, setFocus] = useState(null);  // whose ranks are shown
  const [zoom, setZoomState] = useState(null);
  const [picture, setPicture] = useState('modules');
  const [colour, setColour] = useState('deviation');
  const [about, setAbout] = useState(false);
  const [themeTurns, setThemeTurns] = useState(0);
  const data = useTable(runs, table, op);
  const [scheme] = useState(() => matchMedia('(prefers-color-scheme: dark)'));
  useEffect(() => {
    const turn = () => setThemeTurns((count) => count + 1);
    scheme.addEventListener('change', turn);
    return () => scheme.removeEventListener('change', turn);
  }, []);
  useEffect(() => { document.documentElement.lang = language; document.title = `${run.name} · msprobe`; }, [language]);
  useEffect(() => { if (data) performance.mark('msprobe-drawn'); }, [data]);

  const first = Math.min(...runs.map((one) => one.firstStep));
  const last = Math.max(...runs.map((one) => one.lastStep));
  const setZoom = useCallback((range) => setZoomState(range && range[0] <= first && range[1] >= last ? null : range), [first, last]);
  const [low, high] = zoom ?? [first, last];

  const heatHow = how === 'each' ? 'median' : how;
  const rows = useMemo(() => (data ? moduleRows(data, heatHow) : []), [data, heatHow]);
  const odd = useMemo(() => (data ? oddSteps(run, rows, data.steps) : { steps: [], counts: [] }), [rows]);
  const opIndex = run.ops.indexOf(op);
  const matches = useMemo(() => matcher(query), [query]);
  const list = useMemo(() => (data ? sorted(data.list.filter(matches), sort, (series) => run.scores[opIndex]?.[series.index] ?? 0) : []),
    [data, matches, sort, opIndex]);
  const badges = useMemo(() => badgesOf(run, opIndex), [opIndex]);
  const keys = useMemo(() => (data ? (picked ?? firstPicks(run, data.list, op)) : []), [picked, data]);

  const pickedSeries = useMemo(() => (data ? keys.map((key) => run.find(key)).filter((series) => series && run.tables[series.table] === data.table && data.columns.has(series.index)).map((series) => {
    const other = data.other?.find(series.key);
    return { series, column: data.columns.get(series.index), other, otherColumn: other && data.otherColumns.get(other.index) };
  }) : []), [keys, data]);
  const shownKeys = pickedSeries.map((one) => one.series.key);

  const focused = pickedSeries.find((one) => one.series.key === focus) ?? pickedSeries[0];
  const toggle = (key) => setPicked(shownKeys.includes(key) ? shownKeys.filter((one) => one !== key) : [...shownKeys.slice(-(MOST_PICKED - 1)), key]);
  const choose = (key) => { setFocus(key); toggle(key); };
  const pick = (key) => (shownKeys.includes(key) ? setFocus(key) : choose(key));
  const show = ({ run: from, series, op: wantedOp }) => {
    const target = typeof series === 'number' ? from.series[series] : series;
    setTable(from.tables[target.table]);
    if (wantedOp) setOp(wantedOp);
    setPicked([target.key]);
    setFocus(target.key);
    setQuery('');
  };

  const alertsOfPicked = useMemo(() => {
    const wanted = new Set(pickedSeries.map((one) => one.series.index));
    return unique(run.alerts.filter((one) => wanted.has(one.series)).map((one) => one.step));
  }, [pickedSeries]);
  const alertSteps = useMemo(() => runs.flatMap((one) => one.alertSteps), [runs]);
  const notFiniteSteps = useMemo(() => unique(runs.flatMap((one) => one.nonFinite.map((found) => found.step))), [runs]);

  const heat = useMemo(() => {
    if (!data) return null;
    const colourOf = new Map(shownKeys.map((key, i) => [key, curveColour(i)]));
    const shownOf = (row) => (colour === 'deviation' ? { shown: row.deviation } : { shown: row.values });
    let shownRows;
    if (picture === 'ranks') {
      const main = focused;
      shownRows = !main ? [] : ranksToSteps(main.series, main.column, data.steps).map((row) => {
        const whole = { ...row, label: `${t('rank')} ${row.rank}`, key: main.series.key, deviation: colour === 'deviation' ? deviations(row) : null };
        if (colour !== 'ratio' || !main.other) return { ...whole, ...(colour === 'ratio' ? { shown: row.values } : shownOf(whole)) };
        return { ...whole, ...ratioRow(row, reduceToSteps(main.other, main.otherColumn, data.steps, row.rank)) };
      });
    } else {
      const wanted = new Map(rows.map((row) => [row.key, row]));
      shownRows = list.map((series) => {
        const row = { ...wanted.get(series.key), colour: colourOf.get(series.key) };
        if (colour !== 'ratio') return { ...row, ...shownOf(row) };
        const other = data.other?.find(series.key);
        if (!other) return { ...row, present: new Uint8Array(data.steps.length), shown: row.values };
        return { ...row, ...ratioRow(row, reduceToSteps(other, data.otherColumns.get(other.index), data.steps, heatHow)) };
      });
    }
    let scale;
    if (colour === 'deviation') scale = { ...deviationScale(), calm: 127.5 };
    else if (colour === 'ratio') scale = { ...ratioScale(), calm: 127.5 };
    else {
      scale = valueScale(finiteOf(shownRows), log);
      scale.calm = scale.place(0);
    }
    return { rows: shownRows, scale };
  }, [data, rows, list, picture, colour, log, keys.join('|'), focused?.series.key, themeTurns, picture === 'ranks' ? t : null, heatHow]);

  const from = data ? Math.max(0, Math.min(lowerBound(data.steps, low), data.steps.length - 1)) : 0;
  const to = data ? Math.max(from + 1, lowerBound(data.steps, high + 1e-9)) : 0;
  const hows = [['median', t('median')], ['largest', t('largest')], ['spread', t('spread')],
    ...(run.ranks.length > 1 ? [['each', t('each_rank')]] : []), ...run.ranks.map((rank) => [rank, t('one_rank', rank)])];
  const total = (what) => runs.reduce((sum, one) => sum + what(one), 0);
  const notFiniteCount = total((one) => one.nonFinite.reduce((sum, found) => sum + found.count, 0));
  const colours = [['deviation', t('deviation')], ['values', t('values')], ...(runs.length > 1 ? [['ratio', t('ratio')]] : [])];
  const note = colour === 'deviation' ? t('deviation_hint') : colour === 'ratio' ? t('ratio_hint') : '';

  return html`<div class="page">
    <header>
      <div class="brand"><svg viewBox="0 0 24 24" width="22" height="22"><path d="M2 14h4l3-9 4 15 3-9 2 3h4" fill="none" stroke="currentColor" stroke-width="2" stroke-linejoin="round" stroke-linecap="round"/></svg>
        <h1>${t('title')}</h1><span class="run"><bdi>${run.name}</bdi>${runs.length > 1 ? html` <span class="muted">${t('compared_with')}</span> <bdi>${runs[1].name}</bdi>` : ''}</span></div>
      <div class="facts">
        <span><b>${first}–${last}</b> ${t('steps')}</span><span><b>${showCount(run.ranks.length)}</b> ${t('ranks')}</span>
        <span><b>${showCount(run.series.length)}</b> ${t('series')}</span><span><b>${showCount(total((one) => one.rows))}</b> ${t('rows')}</span>
        <span class=${total((one) => one.alertCount) > 0 ? 'alert' : ''}><b>${showCount(total((one) => one.alertCount))}</b> ${t('alerts')}</span>
        <span class=${notFiniteCount > 0 ? 'nan' : ''}><b>${showCount(notFiniteCount)}</b> ${t('not_finite')}</span>
      </div>
      <div class="buttons"><button id="language" onClick=${() => setLanguage(language === 'en' ? 'zh' : 'en')}>${t('language')}</button>
        <button id="about" onClick=${() => setAbout(true)}>${t('about')}${total((one) => one.warnings.length) > 0 ? ' ⚠' : ''}</button></div>
    </header>
    <div class="columns">
      <${Sidebar} t=${t} list=${list} total=${data ? data.list.length : 0} query=${query} onQuery=${setQuery} sort=${sort} onSort=${setSort}
        picked=${shownKeys} onPick=${choose} badges=${badges} />
      <main>
        <${Findings} t=${t} runs=${runs} findings=${findings} onShow=${show} />
        <div class="controls card">
          <div class="selects"><${Choice} id="table" label=${t('table')} value=${table} onChange=${(name) => { setTable(name); setPicked(null); }} options=${tables.map((name) => [name, name])} />
          <${Choice} id="op" label=${t('statistic')} value=${op} onChange=${setOp} options=${ops.map((name) => [name, name])} />
          <${Choice} id="ranks" label=${t('over_ranks')} value=${how} onChange=${(value) => setHow(/^\d+$/.test(value) ? Number(value) : value)} options=${hows} />
          <${Choice} id="scale" label=${t('scale')} value=${log ? 'log' : 'linear'} onChange=${(value) => setLog(value === 'log')}
            options=${[['linear', t('linear')], ['log', t('log')]]} />
          <span class="range"><b id="range">${t('range', Math.ceil(low), Math.floor(high))}</b>
            ${zoom && html`<button id="whole" onClick=${() => setZoom(null)}>${t('whole_range')}</button>`}</span></div>
          <${Timeline} t=${t} first=${first} last=${last} zoom=${zoom} onZoom=${setZoom} alertSteps=${alertSteps} notFiniteSteps=${notFiniteSteps} odd=${odd} />
        </div>
        <section class="card"><h2>${t('curves')} <span class="muted">${data ? `${data.table} · ${data.op}` : ''}</span></h2>
          ${data && html`<${Curves} t=${t} picked=${pickedSeries} steps=${data.steps} how=${how} log=${log} range=${[low, high === low ? low + 1 : high]}
            onZoom=${setZoom} onRemove=${toggle} alerts=${alertsOfPicked} overlay=${runs.length > 1} />`}</section>
        <section class="card"><div class="heat-head"><h2>${t('heat')} ${picture === 'ranks' && focused ? html`<span class="muted"><bdi>${focused.series.label}</bdi></span>` : ''}</h2>
          <${Tabs} id="picture" value=${picture} onChange=${setPicture} options=${[['modules', t('modules_by_step')], ['ranks', t('ranks_by_step')]]} />
          <${Tabs} id="colour" value=${colour} onChange=${setColour} options=${colours} /></div>
          ${heat && (heat.rows.length === 0 ? html`<p class="hint">${picture === 'ranks' ? t('pick') : t('nothing_found')}</p>` : html`
            <${HeatMap} t=${t} rows=${heat.rows} columns=${data.steps} from=${from} to=${to} scale=${heat.scale} columnName=${t('step')}
              note=${note} onPick=${(row) => pick(row.key)} />`)}</section>
        <${Alerts} t=${t} runs=${runs} low=${low} high=${high} onShow=${show} />
      </main></div>
    ${about && html`<${About} t=${t} runs=${runs} onClose=${() => setAbout(false)} />`}
  </div>`;
}

function* finiteOf(rows) {
  for (const row of rows) {
    for (let i = 0; i < row.values.length; i++) if (row.present[i] && Number.isFinite(row.values[i])) yield row.values[i];
  }
}
