// The whole page and its state.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { Choice, html, SearchBox, Tabs, turned } from '../common/html.js';
import { showCount } from '../common/numbers.js';
import { asked, askedIndex } from '../common/page_beside.js';
import { AboutRun, Header, shortPaths, useLanguage, useThemeTurns } from '../common/page.js';
import { ERROR_STEPS, palette } from './colours.js';
import { DIFFERS, DRIFTS } from './data.js';
import { Details } from './details.js';
import { nextNode, visibleRows, withAncestors } from './rows.js';
import { translator } from './text.js';
import { TreeCanvas } from './tree_canvas.js';

function Answer({ t, run, rank, about, onShow }) {
  const unmatched = rank ? about.nodes - about.matched : undefined;
  return html`<section class="card"><p class="verdict">${
    run.is_comparison
      ? html`<span class=${`pill ${about.tone}`}>${t.said(about.word)}</span> ${
          about.title
            ? html`<span>${t('starts')} <button class="link" id="to_origin" onClick=${onShow}>
              ${t.said(about.title)}</button></span>`
            : ''
        }`
      : html`<span class="pill">${t('built')}</span>`
  }</p>
    <div class="facts">${[
      [about.nodes, t('nodes')],
      ...(run.is_comparison
        ? [
            [about.matched, t('matched')],
            [unmatched, t('unmatched')],
            [about.failed, t(about.failed === 1 ? 'error' : 'errors_count')],
            [about.warned, t(about.warned === 1 ? 'warning' : 'warnings_count')],
          ].filter(([value]) => value >= 0)
        : []),
      ...(about.overflowing > 0 ? [[about.overflowing, t('overflowing')]] : []),
    ].map(([value, text]) => html`<span><b>${showCount(value)}</b> ${text}</span>`)}</div>
    ${
      run.notes.length > 0 &&
      html`<div class="notes">
      <ul>${run.notes.map((note) => html`<li>${t.said(note)}</li>`)}</ul></div>`
    }</section>`;
}

function Legend({ t, by, themeTurns }) {
  const colours = useMemo(palette, [themeTurns]);
  const items =
    by === 'error'
      ? ERROR_STEPS.map((text, i) => [colours.errors[i], i === 0 ? '< 1e-7' : `≥ ${text}`])
      : by === 'figure'
        ? [1, 2, 3].map((i) => [colours.figures[i], t(['', 'pass', 'warning', 'error'][i])])
        : by === 'level'
          ? [1, 2, 3].map((i) => [colours.levels[i], t(['', 'medium', 'high', 'critical'][i])])
          : [
              [1, 'identical'],
              [4, 'drifts'],
              [5, 'differs'],
              [3, 'alone'],
              [0, 'not_compared'],
            ].map(([i, name]) => [colours.standings[i], t(name)]);
  return html`<div class="legend">
    ${items.map(([colour, text]) => html`<span><i class="swatch" style=${{ background: colour }}></i>${text}</span>`)}
    </div>`;
}

export function App({ data: run }) {
  const [t, otherLanguage] = useLanguage(translator);
  const themeTurns = useThemeTurns();
  const [index, setIndex] = useState(() =>
    Math.max(0, askedIndex(run.ranks) >= 0 ? askedIndex(run.ranks) : run.ranks.findIndex((rank) => rank.is_leading)),
  );
  const [rank, setRank] = useState(null);
  const [open, setOpen] = useState(() => new Set([0]));
  const [selected, setSelected] = useState({ node: -1, bench: -1 });
  const [query, setQuery] = useState('');
  const [onlyDiffering, setOnlyDiffering] = useState(false);
  const [microStep, setMicroStep] = useState(-1);
  const [by, setBy] = useState(
    run.is_comparison && run.ranks.some((item) => item.verdict) ? 'error' : run.is_comparison ? 'standing' : 'level',
  );
  const [request, setRequest] = useState(0);
  const about = run.ranks[index];

  const partnerOf = (loaded, node) =>
    loaded.match && node >= 0 && loaded.match[node] > 0 ? loaded.match[node] - 1 : -1;
  // Opens everything above a node and selects it.
  const show = (loaded, node) => {
    if (node < 0) return;
    setOpen((now) => {
      const next = new Set(now);
      for (const above of loaded.npu.pathOf(node).slice(0, -1)) next.add(above);
      return next;
    });
    setSelected({ node, bench: partnerOf(loaded, node) });
    setRequest((count) => count + 1);
  };
  const originOf = (loaded) => (about.first_node ? loaded.nodeByName(about.first_node) : -1);

  useEffect(() => {
    let wanted = true;
    setRank(null);
    run.load(index).then((loaded) => {
      if (!wanted) return;
      // The first two levels, or the way to where the runs part.
      const first = new Set([0, ...loaded.npu.children[0].slice(0, 200)]);
      const called = askedIndex(run.ranks) === index ? loaded.nodeByName(asked().call) : -1;
      const origin = called >= 0 ? called : originOf(loaded);
      if (origin >= 0) for (const above of loaded.npu.pathOf(origin).slice(0, -1)) first.add(above);
      setOpen(first);
      setSelected({ node: origin >= 0 ? origin : 0, bench: partnerOf(loaded, origin >= 0 ? origin : 0) });
      setMicroStep(-1);
      setRank(loaded);
    });
    return () => {
      wanted = false;
    };
  }, [index]);
  useEffect(() => {
    if (rank) performance.mark('msprobe-drawn');
  }, [rank]);
  useEffect(() => {
    if (!rank) return undefined;
    const later = setTimeout(() => {
      void rank.search;
      rank.loadTensors();
    }, 300);
    return () => clearTimeout(later);
  }, [rank]);
  useEffect(() => {
    document.title = run.is_comparison ? `${t.said(run.word)} · msprobe graph` : 'msprobe graph';
  }, [t]);

  const found = useMemo(() => (rank && query.trim() ? rank.find(query) : null), [rank, query]);
  const wantedNodes = useMemo(() => (found ? withAncestors(rank.npu, found) : null), [found]);
  const shownOpen = useMemo(
    () => (wantedNodes && wantedNodes.size < 20000 ? new Set([...open, ...wantedNodes]) : open),
    [open, wantedNodes],
  );
  const rows = useMemo(
    () => (rank ? visibleRows(rank, shownOpen, { onlyDiffering, microStep, found: wantedNodes }) : []),
    [rank, shownOpen, onlyDiffering, microStep, wantedNodes],
  );

  const toggle = (row) => {
    const key = row.node >= 0 ? row.node : -2 - row.bench;
    setOpen((now) => turned(now, key));
  };
  const step = (forward, test) => {
    const node = nextNode(rank, selected.node, forward, test);
    if (node >= 0) show(rank, node);
  };
  const isBad = (node) => rank.standingOf(node) >= DRIFTS || rank.figureOf(node) > 1 || rank.levelOf(node) > 0;
  const onKey = (key) => {
    const keys = {
      n: () => step(true, isBad),
      N: () => step(false, isBad),
      u: () => step(true, (node) => rank.match && rank.match[node] === 0),
      o: () => show(rank, originOf(rank)),
      '/': () => document.getElementById('search').focus(),
      f: () => found?.length > 0 && step(true, (node) => found.includes(node)),
    };
    if (!keys[key]) return false;
    keys[key]();
    return true;
  };
  const onSearchKey = (event) => {
    if (event.key !== 'Enter' || !(found?.length > 0)) return;
    show(rank, found[0]);
    document.getElementById('tree').focus();
  };
  const openAll = () =>
    setOpen(
      new Set(rank.npu.children.map((children, node) => (children.length > 0 ? node : -1)).filter((node) => node >= 0)),
    );
  const [npuName, benchName] = about?.npu_path ? shortPaths(about.npu_path, about.bench_path) : ['', ''];
  const total = (key) => run.ranks.reduce((sum, item) => sum + (item[key] ?? 0), 0);
  const colourings = [
    ...(run.is_comparison
      ? [
          ['error', t('errors')],
          ['standing', t('standing')],
          ['figure', t('figure')],
        ]
      : []),
    ['level', t('by_level')],
  ];
  const facts = [
    { value: showCount(total('nodes')), text: t('nodes') },
    ...['steps', 'ranks'].flatMap((what) => {
      const count = new Set(run.ranks.map((item) => (what === 'steps' ? item.step : item.rank))).size;
      return count > 1 ? [{ value: showCount(count), text: t(what) }] : [];
    }),
  ];
  const worst = rank ? rank.worst[0] : 0;
  return html`<div class="page">
    <${Header} t=${t} title=${t('title')} facts=${facts} onLanguage=${otherLanguage} marked=${run.notes.length > 0}
      name=${
        npuName &&
        html`<bdi title=${about.npu_path}>${npuName}</bdi> <span class="muted">
        ${t('against')}</span> <bdi title=${about.bench_path}>${benchName}</bdi>`
      }
      about=${html`<${AboutRun} run=${{ ...run, command: 'graph' }}>
        <p>${t('keys')}</p><p>${t('recorded')}</p><//>`} />
    <main id="main" class=${worst === DIFFERS ? 'differs' : ''}>
      ${
        about &&
        html`<${Answer} t=${t} run=${run} rank=${rank} about=${about}
        onShow=${() => rank && show(rank, originOf(rank))} />`
      }
      <div class="work"><section class="card list-card"><div class="list-controls">
        ${
          run.ranks.length > 1 &&
          html`<${Choice} id="rank" label=${t('graph_of')} value=${index} onChange=${(value) => setIndex(Number(value))}
          options=${run.ranks.map((item, i) => [
            i,
            `${t('step')} ${item.step} · ${t('rank')} ${item.rank}${item.title ? ` · ${t.said(item.title)}` : ''}`,
          ])} />`
        }
        ${
          rank &&
          rank.listing.micro_steps > 1 &&
          html`<${Choice} id="micro" label=${t('micro_step')} value=${microStep}
            onChange=${(value) => setMicroStep(Number(value))}
          options=${[[-1, t('all')], ...Array.from({ length: rank.listing.micro_steps }, (_, i) => [i, String(i)])]} />`
        }
        <${SearchBox} t=${t} id="search" value=${query} onSearch=${setQuery} onKeyDown=${onSearchKey} />
        <span class="muted" id="found" role="status">${
          found ? t('found', showCount(found.length), showCount(rank.npu.count)) : ''
        }</span>
        ${
          run.is_comparison &&
          html`<button class="plain" id="only" aria-pressed=${onlyDiffering}
          onClick=${() => setOnlyDiffering(!onlyDiffering)}>${t('only_differing')}</button>`
        }
        <button class="plain" id="open_all" onClick=${openAll}>${t('open_all')}</button>
        <button class="plain" id="close_all" onClick=${() => setOpen(new Set([0]))}>${t('close_all')}</button>
        ${colourings.length > 1 && html`<${Tabs} id="by" value=${by} onChange=${setBy} options=${colourings} />`}</div>
        ${
          rank
            ? html`<${TreeCanvas} t=${t} rank=${rank} rows=${rows} selected=${selected} origin=${originOf(rank)}
              by=${by} themeTurns=${themeTurns} request=${request}
          onSelect=${({ node, bench }) => setSelected({ node, bench })} onToggle=${toggle} onKey=${onKey} />`
            : html`<p class="hint">${t('loading')}</p>`
        }
        <${Legend} t=${t} by=${by} themeTurns=${themeTurns} /></section>
        <section class="card details-card">${
          rank &&
          html`<${Details} t=${t} run=${run} about=${about} rank=${rank} selected=${selected}
          onShow=${(node) => show(rank, node)} />`
        }</section></div>
    </main></div>`;
}
