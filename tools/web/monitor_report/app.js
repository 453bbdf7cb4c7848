// The whole page and its state.
import { useCallback, useEffect, useMemo, useState } from 'preact/hooks';
import { Choice, html, Tabs } from '../common/html.js';
import { curveColour, deviationScale, ratioScale, valueScale } from '../common/colours.js';
import { Curves } from './curves.js';
import { stepsOf } from './data.js';
import { HeatMap } from './heatmap.js';
import { badgesOf, countOnly, firstPicks, joinModules, moduleRows, oddSteps, ratioRow, scoreOf } from './modules.js';
import { lowerBound, showCount } from '../common/numbers.js';
import { Header, useLanguage, useThemeTurns } from '../common/page.js';
import { SearchIndex } from '../common/search.js';
import { About, Alerts, Findings, findingsOf } from './panels.js';
import { deviations, ranksToSteps, reduceToSteps } from './reduce.js';
import { Sidebar, sorted } from './sidebar.js';
import { translator } from './text.js';
import { Timeline } from './timeline.js';

const MOST_PICKED = 8;
const DWARFED = 20;

const unique = (list) => [...new Set(list)];

function useTable(runs, table, op) {
  const [data, setData] = useState(null);
  useEffect(() => {
    let wanted = true;
    Promise.all(runs.map((run) => run.load(table, op))).then((columns) => {
      if (wanted) setData({ table, op, modules: joinModules(runs, table, columns), steps: stepsOf(runs, table) });
    }); // a rejection is for main.js
    return () => {
      wanted = false;
    };
  }, [table, op]);
  return data;
}

export function App({ data: runs }) {
  const [run] = runs;
  const [t, otherLanguage] = useLanguage(translator);
  const tables = useMemo(() => unique(runs.flatMap((item) => item.tables)), [runs]);
  const findings = useMemo(() => findingsOf(runs), [runs]);
  const only = useMemo(() => (runs.length > 1 ? countOnly(runs) : [0, 0]), [runs]);
  // Where something stands out, rather than at the beginning.
  const [table, setTable] = useState(() =>
    findings[0] ? findings[0].run.tables[findings[0].series.table] : tables[0],
  );
  // Tables differ in their statistics: the chosen one where there is one, else the table's first.
  const [chosenOp, setOp] = useState(null);
  const ops = useMemo(() => unique(runs.flatMap((item) => item.opsOf(table))), [runs, table]);
  const op = ops.includes(chosenOp) ? chosenOp : ops[0];
  const [how, setHow] = useState('median');
  const [chosenLog, setLog] = useState(null); // null: what suits the curves
  const [query, setQuery] = useState('');
  const [sort, setSort] = useState('order');
  const [picked, setPicked] = useState(null);
  const [focus, setFocus] = useState(null); // whose ranks are shown
  const [zoom, setZoomState] = useState(null);
  const [picture, setPicture] = useState('modules');
  const [colour, setColour] = useState('deviation');
  const themeTurns = useThemeTurns();
  const data = useTable(runs, table, op);
  useEffect(() => {
    document.title = `${run.name} · msprobe`;
  }, [run]);
  useEffect(() => {
    if (data) performance.mark('msprobe-drawn');
  }, [data]);

  const ranks = useMemo(() => unique(runs.flatMap((item) => item.ranks)).sort((a, b) => a - b), [runs]);
  const first = Math.min(...runs.map((item) => item.firstStep));
  const last = Math.max(...runs.map((item) => item.lastStep));
  const setZoom = useCallback(
    (range) => setZoomState(range && range[0] <= first && range[1] >= last ? null : range),
    [first, last],
  );
  const [low, high] = zoom ?? [first, last];

  const heatHow = how === 'each' ? 'median' : how;
  const rows = useMemo(() => (data ? moduleRows(data.modules, data.steps, heatHow) : []), [data, heatHow]);
  const odd = useMemo(() => (data ? oddSteps(rows, data.steps) : { steps: [], counts: [] }), [rows]);
  const search = useMemo(() => new SearchIndex(data ? data.modules.map((module) => module.label) : []), [data]);
  const list = useMemo(() => {
    const fits = search.match(query);
    return data
      ? sorted(fits ? data.modules.filter((_, i) => fits[i]) : data.modules, sort, (module) => scoreOf(module, op))
      : [];
  }, [data, search, query, sort, op]);
  const badges = useMemo(() => badgesOf(runs, op), [runs, op]);
  const keys = useMemo(() => (data ? (picked ?? firstPicks(runs, data.modules, op)) : []), [picked, data]);
  const pickedModules = useMemo(() => {
    const byKey = new Map(data?.modules.map((module) => [module.key, module]));
    return keys.map((key) => byKey.get(key)).filter(Boolean);
  }, [keys, data]);
  const shownKeys = pickedModules.map((module) => module.key);

  const focused = pickedModules.find((module) => module.key === focus) ?? pickedModules[0];
  const toggle = (key) =>
    setPicked(
      shownKeys.includes(key)
        ? shownKeys.filter((item) => item !== key)
        : [...shownKeys.slice(-(MOST_PICKED - 1)), key],
    );
  const choose = (key) => {
    setFocus(key);
    toggle(key);
  };
  const pick = (key) => (shownKeys.includes(key) ? setFocus(key) : choose(key));
  // A finding opens with its own statistic and its own rank.
  const show = ({ run: from, series, op: wantedOp, rank }) => {
    const target = typeof series === 'number' ? from.series[series] : series;
    setTable(from.tables[target.table]);
    setOp(wantedOp ?? from.opsOf(from.tables[target.table])[0]);
    if (rank >= 0 && ranks.length > 1) setHow(rank);
    setPicked([target.key]);
    setFocus(target.key);
    setQuery('');
  };

  const log = chosenLog ?? pickedModules.some(({ main, other }) => other && dwarfs(main.column, other.column));
  const alertsOfPicked = useMemo(
    () =>
      unique(
        pickedModules.flatMap(({ main: { run: from, series } }) =>
          from.alerts.filter((item) => item.series === series.index).map((item) => item.step),
        ),
      ),
    [pickedModules],
  );
  const alertSteps = useMemo(() => runs.flatMap((item) => item.alertSteps), [runs]);
  const notFiniteSteps = useMemo(
    () => unique(runs.flatMap((item) => item.nonFinite.map((found) => found.step))),
    [runs],
  );

  const heat = useMemo(() => {
    if (!data) return null;
    const colourOf = new Map(shownKeys.map((key, i) => [key, curveColour(i)]));
    const coloured = (row, other) => {
      if (colour === 'ratio')
        return {
          ...row,
          ...ratioRow(row, other && reduceToSteps(other.series, other.column, data.steps, row.rank ?? heatHow)),
        };
      return { ...row, shown: colour === 'deviation' ? row.deviation : row.values };
    };
    let shownRows;
    if (picture === 'ranks') {
      shownRows = !focused
        ? []
        : ranksToSteps(focused.main.series, focused.main.column, data.steps).map((row) =>
            coloured(
              {
                ...row,
                label: `${t('rank')} ${row.rank}`,
                key: focused.key,
                deviation: colour === 'deviation' ? deviations(row, focused.main.run.rounding) : null,
              },
              focused.other,
            ),
          );
    } else {
      const wanted = new Map(rows.map((row) => [row.key, row]));
      shownRows = list.map((module) =>
        coloured({ ...wanted.get(module.key), colour: colourOf.get(module.key) }, module.other),
      );
    }
    let scale;
    if (colour === 'deviation') scale = { ...deviationScale(), calm: 127.5 };
    else if (colour === 'ratio') scale = { ...ratioScale(), calm: 127.5 };
    else {
      scale = valueScale(finiteOf(shownRows), log);
      scale.calm = scale.place(0);
    }
    return { rows: shownRows, scale };
  }, [
    data,
    rows,
    list,
    picture,
    colour,
    log,
    keys.join('|'),
    focused?.key,
    themeTurns,
    picture === 'ranks' ? t : null,
    heatHow,
  ]);

  const from = data ? Math.max(0, Math.min(lowerBound(data.steps, low), data.steps.length - 1)) : 0;
  const to = data ? Math.max(from + 1, lowerBound(data.steps, high + 1e-9)) : 0;
  const hows = [
    ['median', t('median')],
    ['largest', t('largest')],
    ['spread', t('spread')],
    ...(ranks.length > 1 ? [['each', t('each_rank')]] : []),
    ...ranks.map((rank) => [rank, t('one_rank', rank)]),
  ];
  const total = (what) => runs.reduce((sum, item) => sum + what(item), 0);
  const notFiniteCount = total((item) => item.nonFinite.reduce((sum, found) => sum + found.count, 0));
  const plural = (count, what) => ({ value: showCount(count), text: t(count === 1 ? `one_${what}` : what) });
  const alertCount = total((item) => item.alertCount);
  const facts = [
    { value: `${first}–${last}`, text: t('steps') },
    plural(ranks.length, 'ranks'),
    plural(run.series.length, 'series'),
    plural(
      total((item) => item.rows),
      'rows',
    ),
    { ...plural(alertCount, 'alerts'), kind: alertCount > 0 ? 'alert' : '' },
    { value: showCount(notFiniteCount), text: t('not_finite'), kind: notFiniteCount > 0 ? 'nan' : '' },
  ];
  const colours = [
    ['deviation', t('deviation')],
    ['values', t('values')],
    ...(runs.length > 1 ? [['ratio', t('ratio')]] : []),
  ];
  const note =
    colour === 'deviation'
      ? t('deviation_hint')
      : colour === 'ratio'
        ? t('ratio_hint', ...runs.map((item) => item.name))
        : '';

  return html`<div class="page">
    <${Header} t=${t} title=${t('title')} onLanguage=${otherLanguage}
      marked=${total((item) => item.warnings.length) > 0}
      name=${
        runs.length > 1
          ? html`<span class="muted">${t('test')}</span> <bdi>${run.name}</bdi> <span class="muted">
        ${t('compared_with')} ${t('reference')}</span> <bdi>${runs[1].name}</bdi>`
          : html`<bdi>${run.name}</bdi>`
      }
      facts=${facts} about=${html`<${About} t=${t} runs=${runs} />`} />
    <div class="columns">
      <${Sidebar} t=${t} list=${list} total=${data ? data.modules.length : 0} query=${query} onQuery=${setQuery}
        sort=${sort} onSort=${setSort}
        picked=${shownKeys} onPick=${choose} badges=${badges} overlay=${runs.length > 1} />
      <main>
        <${Findings} t=${t} runs=${runs} findings=${findings} only=${only} onShow=${show} />
        <div class="controls card">
          <div class="selects"><${Choice} id="table" label=${t('table')} value=${table} onChange=${(name) => {
            setTable(name);
            setPicked(null);
          }}
            options=${tables.map((name) => [name, name])} />
          <${Choice} id="op" label=${t('statistic')} value=${op} onChange=${setOp}
            options=${ops.map((name) => [name, name])} />
          <${Choice} id="ranks" label=${t('over_ranks')} value=${how}
            onChange=${(value) => setHow(/^\d+$/.test(value) ? Number(value) : value)} options=${hows} />
          <${Choice} id="scale" label=${t('scale')} value=${log ? 'log' : 'linear'}
            onChange=${(value) => setLog(value === 'log')}
            options=${[
              ['linear', t('linear')],
              ['log', t('log')],
            ]} />
          <span class="range"><b id="range">${t('range', Math.ceil(low), Math.floor(high))}</b>
            ${
              zoom &&
              html`<button id="whole" class="plain" onClick=${() => setZoom(null)}>
              ${t('whole_range')}</button>`
            }</span></div>
          <${Timeline} t=${t} first=${first} last=${last} zoom=${zoom} onZoom=${setZoom} alertSteps=${alertSteps}
            notFiniteSteps=${notFiniteSteps} odd=${odd} />
        </div>
        <section class="card"><h2>${t('curves')} <span class="muted">
          ${data ? `${data.table} · ${data.op}` : ''}</span></h2>
          ${
            data &&
            html`<${Curves} t=${t} picked=${pickedModules} steps=${data.steps} how=${how} log=${log}
              range=${[low, high === low ? low + 1 : high]}
            onZoom=${setZoom} onRemove=${toggle} alerts=${alertsOfPicked}
              overlay=${runs.length > 1 && t('overlay', ...runs.map((item) => item.name))} />`
          }</section>
        <section class="card"><div class="heat-head">
          <h2>${t('heat')} ${
            picture === 'ranks' && focused
              ? html`
          <span class="muted"><bdi>${focused.label}</bdi></span>`
              : ''
          }</h2>
          <${Tabs} id="picture" value=${picture} onChange=${setPicture} options=${[
            ['modules', t('modules_by_step')],
            ['ranks', t('ranks_by_step')],
          ]} />
          <${Tabs} id="colour" value=${colour} onChange=${setColour} options=${colours} /></div>
          ${
            heat &&
            (heat.rows.length === 0
              ? html`<p class="hint">${picture === 'ranks' ? t('pick') : t('nothing_found')}</p>`
              : html`
            <${HeatMap} t=${t} rows=${heat.rows} columns=${data.steps} from=${from} to=${to} scale=${heat.scale}
              columnName=${t('step')}
              note=${note} onPick=${(row) => pick(row.key)} />`)
          }</section>
        <${Alerts} t=${t} runs=${runs} low=${low} high=${high} onShow=${show} />
      </main></div>
  </div>`;
}

// One run's numbers are so much larger that the other's would be a line at the bottom.
function dwarfs(first, second) {
  const largest = (column) =>
    column.reduce((most, value) => (Number.isFinite(value) ? Math.max(most, Math.abs(value)) : most), 0);
  const [a, b] = [largest(first), largest(second)];
  return a > 0 && b > 0 && Math.max(a / b, b / a) > DWARFED;
}

function* finiteOf(rows) {
  for (const row of rows) {
    for (let i = 0; i < row.values.length; i++)
      if (row.present[i] && Number.isFinite(row.values[i])) yield row.values[i];
  }
}
