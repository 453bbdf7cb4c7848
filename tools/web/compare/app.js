// The whole page and its state.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { GridMap } from '../common/grid_map.js';
import { html, SearchBox, Tabs } from '../common/html.js';
import { showCount } from '../common/numbers.js';
import { asked, askedIndex } from '../common/page_beside.js';
import { AboutRun, Header, shortPaths, useLanguage, useThemeTurns } from '../common/page.js';
import { Answer, pointsOf } from './answer.js';
import { CallTreeView, TensorTable } from './calls.js';
import { Details } from './details.js';
import { ErrorCurve } from './error_curve.js';
import { translator } from './text.js';
import { CallTree } from './tree.js';

const MOST_LISTED = 200; // pairs without numbers, as a list

// Pairs by step and rank, where they have numbers: {rows, columns, at: Map("row column" -> index)}.
function mapOf(run) {
  const unique = (list) => [...new Set(list)].sort((a, b) => a - b);
  const pairs = run.pairs.map((pair, index) => ({ ...pair, index })).filter((pair) => !pair.is_debug);
  const [steps, ranks] = ['step', 'rank'].map((key) => unique(pairs.map((pair) => pair[key] ?? -1)));
  return {
    steps,
    ranks,
    at: new Map(
      pairs.map((pair) => [`${ranks.indexOf(pair.rank ?? -1)} ${steps.indexOf(pair.step ?? -1)}`, pair.index]),
    ),
  };
}

function PairMap({ t, run, index, onPick, themeTurns }) {
  const map = useMemo(() => mapOf(run), [run]);
  const pairAt = (r, c) => run.pairs[map.at.get(`${r} ${c}`)];
  const css = getComputedStyle(document.documentElement);
  const colour = (r, c) => {
    const pair = pairAt(r, c);
    if (!pair) return null;
    const { tone } = pair;
    const base = css.getPropertyValue({ good: '--good', caution: '--warn', bad: '--alert' }[tone]).trim();
    const share = pair.counts.rows > 0 ? (pair.counts.differing + pair.counts.drifting) / pair.counts.rows : 1;
    return tone === 'good' ? `${base}88` : base + Math.round(110 + 145 * Math.sqrt(Math.min(1, share))).toString(16);
  };
  const tipOf = ({ name, word, counts, error, origin }) =>
    [
      `${name}: ${t.said(word)}`,
      `${showCount(counts.differing)} / ${showCount(counts.rows)}`,
      t.said(error || origin),
    ].join(' · ');
  const name = (number) => (number < 0 ? t('whole') : String(number));
  const picked =
    [...map.at]
      .find(([, item]) => item === index)?.[0]
      .split(' ')
      .map(Number) ?? null;
  return html`<section class="card"><h2>${t('pair_map')} <span class="muted">${t('pair_map_hint')}</span></h2>
    <${GridMap} id="pairs" label=${t('pair_map')} rows=${map.ranks.map((rank) => `${t('rank')} ${name(rank)}`)}
      columns=${map.steps.map(name)} corner=${t('step')}
      colourOf=${colour} picked=${picked} dependencies=${[themeTurns]}
        onPick=${(r, c) => onPick(map.at.get(`${r} ${c}`))}
      tipOf=${(r, c) => tipOf(pairAt(r, c))} />
    ${
      run.pairs.some((pair) => pair.is_debug) &&
      html`<div class="pair-list">${run.pairs.slice(0, MOST_LISTED).map(
        (pair, i) =>
          pair.is_debug &&
          html`
      <button class="plain" aria-pressed=${i === index} onClick=${() => onPick(i)}>${pair.name}</button>`,
      )}</div>`
    }</section>`;
}

export function App({ data: run }) {
  const [t, otherLanguage] = useLanguage(translator);
  const themeTurns = useThemeTurns();
  const firstShown = run.hasRows(askedIndex(run.pairs))
    ? askedIndex(run.pairs)
    : (run.leading ?? run.pairs.findIndex((_, i) => run.hasRows(i)));
  const [index, setIndex] = useState(Math.max(0, firstShown));
  const [pair, setPair] = useState(null);
  const [call, setCall] = useState(-1);
  const [row, setRow] = useState(-1);
  const [view, setView] = useState('tree');
  const [query, setQuery] = useState('');
  const [onlyDiffering, setOnlyDiffering] = useState(false);
  const [found, setFound] = useState(0);
  const shown = run.pairs[index];
  const [npuName, benchName] = shown ? shortPaths(shown.npu_path, shown.bench_path) : [];
  useEffect(() => {
    let wanted = true;
    setPair(null);
    setCall(-1);
    setRow(-1);
    if (shown && run.hasRows(index))
      run.load(index).then((loaded) => {
        if (!wanted) return;
        const first = loaded.found.first_divergence ?? loaded.found.first_drift ?? loaded.found.first_unequal_bits;
        setPair(loaded);
        const called = askedIndex(run.pairs) === index ? loaded.callByName(asked().call) : -1;
        setCall(called >= 0 ? called : first ? loaded.callByName(first.call) : -1);
      });
    return () => {
      wanted = false;
    };
  }, [index]);
  useEffect(() => {
    if (pair || !run.hasRows(index)) performance.mark('msprobe-drawn');
  }, [pair]);
  useEffect(() => {
    if (!pair) return undefined;
    // Behind the first picture: what searching and opening a call need.
    const later = setTimeout(() => {
      void pair.callSearch;
      void pair.rowSearch;
      pair.loadFigures();
    }, 300);
    return () => clearTimeout(later);
  }, [pair]);
  useEffect(() => {
    document.title = `${t.said(run.word)} · msprobe compare`;
  }, [t]);

  const tree = useMemo(() => pair && new CallTree(pair), [pair]);
  const marks = useMemo(
    () =>
      pair
        ? pointsOf(pair)
            .slice(0, 1)
            .map(({ point }) => pair.callByName(point.call))
            .filter((item) => item >= 0)
        : [],
    [pair],
  );
  const selectCall = (item) => {
    setCall(item);
    setRow(-1);
  };
  const selectRow = (item) => {
    setCall(pair.callOf[item]);
    setRow(item);
  };
  const showPoint = (point) => {
    const item = pair.callByName(point.call);
    if (item < 0) return;
    setQuery('');
    let wanted = -1;
    for (let i = pair.firstRow[item]; i < pair.firstRow[item + 1]; i++) if (pair.nameOfRow(i) === point.row) wanted = i;
    setCall(item);
    setRow(wanted);
    document.getElementById('details')?.scrollIntoView({ block: 'nearest' });
  };
  const total = (what) => run.pairs.reduce((sum, item) => sum + what(item), 0);
  const facts = [
    ...(run.pairs.length > 1 ? [{ value: showCount(run.pairs.length), text: t('pairs') }] : []),
    { value: showCount(total((item) => item.calls)), text: t('calls') },
    { value: showCount(run.totals.rows), text: t('rows') },
    { value: showCount(run.totals.differing), text: t('differ'), kind: run.totals.differing > 0 ? 'alert' : '' },
    ...(run.totals.drifting > 0 ? [{ value: showCount(run.totals.drifting), text: t('drift') }] : []),
  ];
  const count = view === 'tensors' && pair ? t('found', showCount(found), showCount(pair.rows)) : '';
  return html`<div class="page">
    <${Header} t=${t} title=${t('title')} facts=${facts} onLanguage=${otherLanguage} marked=${run.notes.length > 0}
      name=${
        shown &&
        html`<bdi title=${shown.npu_path}>${npuName}</bdi> <span class="muted">${t('against')}</span> <bdi
        title=${shown.bench_path}>${benchName}</bdi>`
      }
      about=${html`<${AboutRun} run=${run}><p>${t('digits')}</p><//>`} />
    <main id="main">
      <${Answer} t=${t} run=${run} pair=${pair} index=${index} files=${shown?.files ?? []} onShow=${showPoint} />
      ${
        run.pairs.length > 1 &&
        html`<${PairMap} t=${t} run=${run} index=${index} onPick=${setIndex}
        themeTurns=${themeTurns} />`
      }
      ${
        !pair &&
        shown &&
        !run.hasRows(index) &&
        html`
        <section class="card"><p class="hint">${t('not_in_page', shown.files[0] ?? '–')}</p></section>`
      }
      ${
        pair &&
        html`<${ErrorCurve} t=${t} pair=${pair} selected=${call} marks=${marks} onSelect=${selectCall} />
      <div class="work"><section class="card list-card"><div class="list-controls">
          <${Tabs} id="view" value=${view} onChange=${setView} options=${[
            ['tree', t('calls_tree')],
            ['tensors', t('tensors')],
          ]} />
          <${SearchBox} t=${t} id="search" value=${query} onSearch=${setQuery} />
          <button class="plain" id="only" aria-pressed=${onlyDiffering}
            onClick=${() => setOnlyDiffering(!onlyDiffering)}>${t('only_differing')}</button>
          <span class="muted" id="found" role="status">${count}</span></div>
        ${
          view === 'tree'
            ? html`<${CallTreeView} t=${t} pair=${pair} tree=${tree} query=${query} onlyDiffering=${onlyDiffering}
              selected=${call} onSelect=${selectCall} />`
            : html`<${TensorTable} t=${t} run=${run} pair=${pair} query=${query} onlyDiffering=${onlyDiffering}
              selectedRow=${row} onSelectRow=${selectRow}
          onCount=${setFound} />`
        }</section>
        <section class="card"><${Details} t=${t} run=${run} about=${shown} pair=${pair} call=${call}
          markedRow=${row} /></section></div>
      ${
        pair.benchOnly.length > 0 &&
        html`<section class="card"><details><summary>${t('bench_only', showCount(shown.counts.bench_only))}${
          shown.counts.bench_only > pair.benchOnly.length ? ` ${t('first_of', showCount(pair.benchOnly.length))}` : ''
        }</summary>
        <pre class="names">${pair.benchOnly.join('\n')}</pre></details></section>`
      }`
      }
    </main></div>`;
}
