// The whole page and its state.
import { useCallback, useEffect, useLayoutEffect, useMemo, useState } from 'preact/hooks';
import { Choice, html, Tabs } from './html.js';
import { curveColour, deviationScale, ratioScale, valueScale } from './colours.js';
import { Curves } from './curves.js';
import { stepsOf } from './data.js';
import { HeatMap } from './heatmap.js';
import { badgesOf, countOnly, firstPicks, joinModules, moduleRows, oddSteps, ratioRow, scoreOf } from './modules.js';
import { lowerBound, showCount } from './numbers.js';
import { About, Alerts, Findings, findingsOf } from './panels.js';
import { deviations, ranksToSteps, reduceToSteps } from './reduce.js';
import { matcher, Sidebar, sorted } from './sidebar.js';
import { preferredLanguage, translator } from './text.js';
import { Timeline } from './timeline.js';

const MOST_PICKED = 8;

const unique = (list) => [...new Set(list)];

function useTable(runs, table, op) {
  const [data, setData] = useState(null);
  useEffect(() => {
    let wanted = true;
    Promise.all(runs.map((run) => run.load(table, op))).then((columns) => {
      if (wanted) setData({ table, op, modules: joinModules(runs, table, columns), steps: stepsOf(runs, table) });
    });  // a rejection is for main.js
    return () => { wanted = false; };
  }, [table, op]);
  return data;
}

export function App({ runs }) {
  const [run] = runs;
  const [language, setLanguage] = useState(preferredLanguage);
  const t = useMemo(() => translator(language), [language]);
  const tables = useMemo(() => unique(runs.flatMap((one) => one.tables)), [runs]);
  const findings = useMemo(() => findingsOf(runs), [runs]);
  const only = useMemo(() => (runs.length > 1 ? countOnly(runs) : [0, 0]), [runs]);
  // Where something stands out, rather than at the beginning.
  const [table, setTable] = useState(() => (findings[0] ? findings[0].run.tables[findings[0].series.table] : tables[0]));
  // Tables differ in their statistics: the chosen one where there is one, else the table's first.
  const [chosenOp, setOp] = useState(null);
  const ops = useMemo(() => unique(runs.flatMap((one) => one.opsOf(table))), [runs, table]);
  const op = ops.includes(chosenOp) ? chosenOp : ops[0];
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
  // Before anything is drawn: fonts depend on it.
  useLayoutEffect(() => { document.documentElement.lang = language; }, [language]);
  useEffect(() => { document.title = `${run.name} · msprobe`; }, [run]);
  useEffect(() => { if (data) performance.mark('msprobe-drawn'); }, [data]);

  const ranks = useMemo(() => unique(runs.flatMap((one) => one.ranks)).sort((a, b) => a - b), [runs]);
  const first = Math.min(...runs.map((one) => one.firstStep));
  const last = Math.max(...runs.map((one) => one.lastStep));
  const setZoom = useCallback((range) => setZoomState(range && range[0] <= first && range[1] >= last ? null : range), [first, last]);
  const [low, high] = zoom ?? [first, last];

  const heatHow = how === 'each' ? 'median' : how;
  const rows = useMemo(() => (data ? moduleRows(data.modules, data.steps, heatHow) : []), [data, heatHow]);
  const odd = useMemo(() => (data ? oddSteps(rows, data.steps) : { steps: [], counts: [] }), [rows]);
  const matches = useMemo(() => matcher(query), [query]);
  const list = useMemo(() => (data ? sorted(data.modules.filter(matches), sort, (module) => scoreOf(module, op)) : []),
    [data, matches, sort, op]);
  const badges = useMemo(() => badgesOf(runs, op), [runs, op]);
  const keys = useMemo(() => (data ? (picked ?? firstPicks(runs, data.modules, op)) : []), [picked, data]);
  const pickedModules = useMemo(() => {
    const byKey = new Map(data?.modules.map((module) => [module.key, module]));
    return keys.map((key) => byKey.get(key)).filter(Boolean);
  }, [keys, data]);
  const shownKeys = pickedModules.map((module) => module.key);

  const focused = pickedModules.find((module) => module.key === focus) ?? pickedModules[0];
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

  const alertsOfPicked = useMemo(() => unique(pickedModules.flatMap(({ main: { run: from, series } }) =>
    from.alerts.filter((one) => one.series === series.index).map((one) => one.step))), [pickedModules]);
  const alertSteps = useMemo(() => runs.flatMap((one) => one.alertSteps), [runs]);
  const notFiniteSteps = useMemo(() => unique(runs.flatMap((one) => one.nonFinite.map((found) => found.step))), [runs]);

  const heat = useMemo(() => {
    if (!data) return null;
    const colourOf = new Map(shownKeys.map((key, i) => [key, curveColour(i)]));
    const coloured = (row, other) => {
      if (colour === 'ratio') return { ...row, ...ratioRow(row, other && reduceToSteps(other.series, other.column, data.steps, row.rank ?? heatHow)) };
      return { ...row, shown: colour === 'deviation' ? row.deviation : row.values };
    };
    let shownRows;
    if (picture === 'ranks') {
      shownRows = !focused ? [] : ranksToSteps(focused.main.series, focused.main.column, data.steps).map((row) => coloured(
        { ...row, label: `${t('rank')} ${row.rank}`, key: focused.key, deviation: colour === 'deviation' ? deviations(row) : null }, focused.other));
    } else {
      const wanted = new Map(rows.map((row) => [row.key, row]));
      shownRows = list.map((module) => coloured({ ...wanted.get(module.key), colour: colourOf.get(module.key) }, module.other));
    }
    let scale;
    if (colour === 'deviation') scale = { ...deviationScale(), calm: 127.5 };
    else if (colour === 'ratio') scale = { ...ratioScale(), calm: 127.5 };
    else {
      scale = valueScale(finiteOf(shownRows), log);
      scale.calm = scale.place(0);
    }
    return { rows: shownRows, scale };
  }, [data, rows, list, picture, colour, log, keys.join('|'), focused?.key, themeTurns, picture === 'ranks' ? t : null, heatHow]);

  const from = data ? Math.max(0, Math.min(lowerBound(data.steps, low), data.steps.length - 1)) : 0;
  const to = data ? Math.max(from + 1, lowerBound(data.steps, high + 1e-9)) : 0;
  const hows = [['median', t('median')], ['largest', t('largest')], ['spread', t('spread')],
    ...(ranks.length > 1 ? [['each', t('each_rank')]] : []), ...ranks.map((rank) => [rank, t('one_rank', rank)])];
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
      <${Sidebar} t=${t} list=${list} total=${data ? data.modules.length : 0} query=${query} onQuery=${setQuery} sort=${sort} onSort=${setSort}
        picked=${shownKeys} onPick=${choose} badges=${badges} overlay=${runs.length > 1} />
      <main>
        <${Findings} t=${t} runs=${runs} findings=${findings} only=${only} onShow=${show} />
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
          ${data && html`<${Curves} t=${t} picked=${pickedModules} steps=${data.steps} how=${how} log=${log} range=${[low, high === low ? low + 1 : high]}
            onZoom=${setZoom} onRemove=${toggle} alerts=${alertsOfPicked} overlay=${runs.length > 1} />`}</section>
        <section class="card"><div class="heat-head"><h2>${t('heat')} ${picture === 'ranks' && focused ? html`<span class="muted"><bdi>${focused.label}</bdi></span>` : ''}</h2>
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
