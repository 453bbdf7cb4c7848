// The pieces an answer is made of, but tables.
import { useMemo, useState } from 'preact/hooks';
import { rampOf, style } from '../common/colours.js';
import { GridMap } from '../common/grid_map.js';
import { FileLink, html, SearchBox, turned } from '../common/html.js';
import { showCount, showNumber, showShort } from '../common/numbers.js';
import { SearchIndex } from '../common/search.js';
import { ROW_HEIGHT, VirtualList } from '../common/virtual_list.js';

const asNumber = (value) => (typeof value === 'number' ? value : Number(value)); // "NaN" and "Infinity" are texts

const SHOWN_AT_ONCE = 300; // items of a list

// [the first of a long list, the button for more]
function useFirst(t, items) {
  const [count, setCount] = useState(SHOWN_AT_ONCE);
  const rest = items.length - count;
  return [
    items.slice(0, count),
    rest > 0 &&
      html`<button class="plain" onClick=${() => setCount(count + 1000)}>${t(
        'show_more',
        showCount(Math.min(rest, 1000)),
      )}</button>`,
  ];
}

const itemsOf = (t, items) =>
  items.map(
    ([label, text, tone, source, details]) => html`<li class=${tone ? `${tone}-text` : ''}>
  ${label && html`<span class="label">${t.said(label)}</span> `}
    <span class="words">${t.said(text)}</span>${source && !text.includes(source) && html` <code>${source}</code>`}
  ${details.length > 0 && html`<ul>${itemsOf(t, details)}</ul>`}</li>`,
  );

// Items are [label, text, tone, source line, details]; details are items.
export function ListBlock({ t, block: { style: kind, items } }) {
  const [first, more] = useFirst(t, items);
  const shown = itemsOf(t, first);
  return html`${
    kind === 'numbered'
      ? html`<ol class="list list-numbered">${shown}</ol>`
      : html`<ul class=${`list list-${kind}`}>${shown}</ul>`
  }
    ${more}`;
}

// Items are [path, what it is, the path from this page or '' for a file elsewhere].
export function FilesBlock({ t, block: { items } }) {
  const [first, more] = useFirst(t, items);
  return html`<ul class="list">${first.map(
    ([path, what, beside]) =>
      html`<li>${
        beside
          ? html`
    <${FileLink} path=${beside}>${path}<//>`
          : path
      } <span class="muted">${t.said(what)}</span></li>`,
  )}</ul>${more}`;
}

const PART_COLOURS = [
  'var(--accent)',
  'var(--alert)',
  'var(--warn)',
  'var(--calm)',
  'var(--good)',
  'var(--odd)',
  'var(--nan)',
  'var(--muted)',
];

export function BarsBlock({ t, block: { names: english, bars, unit } }) {
  const names = english.map(t.said);
  const sums = bars.map(([, ...parts]) => parts.reduce((sum, part) => sum + Math.max(0, asNumber(part) || 0), 0));
  const most = Math.max(...sums, 1e-300);
  return html`<div class="bars">${bars.map(
    ([label, ...parts], i) => html`<div class="bar-row"><span class="bar-label"><bdi>${t.said(label)}</bdi></span>
      <span class="bar" role="img"
        aria-label=${parts.map((part, k) => `${names[k]} ${showShort(asNumber(part))} ${unit}`).join(', ')}>${parts.map(
          (part, k) => html`
        <i style=${{ width: `${(Math.max(0, asNumber(part) || 0) / most) * 100}%`, background: PART_COLOURS[k % 8] }}
          title=${`${names[k]}: ${showNumber(asNumber(part))} ${unit}`} />`,
        )}</span>
      <span class="bar-sum">${showShort(sums[i])} ${unit}</span></div>`,
  )}
    <div class="legend">${names.map(
      (name, k) =>
        bars.some((bar) => asNumber(bar[k + 1]) !== 0) &&
        html`<span><i class="swatch" style=${{ background: PART_COLOURS[k % 8] }} />${name}${
          bars.length === 2
            ? html` <b>${showShort(asNumber(bars[1][k + 1]))} → ${showShort(asNumber(bars[0][k + 1]))}</b>`
            : ''
        }</span>`,
    )}</div></div>`;
}

// Nodes are [parent, label, first, second, first count, second count, note]; the largest changes first below each.
export function TreeBlock({ t, block: { nodes, unit } }) {
  const children = useMemo(() => {
    const all = nodes.map(() => []);
    all.roots = [];
    nodes.forEach(([parent, , first, second], i) => {
      // What is 0 on both sides says nothing.
      if (parent < 0) all.roots.push(i);
      else if (asNumber(first) !== 0 || asNumber(second) !== 0) all[parent].push(i);
    });
    const change = (i) => Math.abs(asNumber(nodes[i][3]) - asNumber(nodes[i][2]));
    for (const list of [all.roots, ...all]) list.sort((a, b) => change(b) - change(a));
    return all;
  }, [nodes]);
  const [open, setOpen] = useState(() => {
    // Along the largest change.
    const way = new Set(children.roots);
    for (let at = children.roots[0]; at !== undefined && children[at].length > 0; [at] = children[at]) way.add(at);
    return way;
  });
  const [current, setCurrent] = useState(-1);
  const [query, setQuery] = useState('');
  const search = useMemo(() => new SearchIndex(nodes.map(([, label]) => String(label))), [nodes]);
  const list = useMemo(() => {
    if (query.trim() !== '') {
      const fits = search.match(query);
      return nodes.map((_, node) => ({ node, depth: 0 })).filter(({ node }) => fits[node]);
    }
    const rows = [];
    const stack = [...children.roots].reverse().map((node) => ({ node, depth: 0 }));
    while (stack.length > 0) {
      const item = stack.pop();
      rows.push(item);
      if (open.has(item.node))
        for (const child of [...children[item.node]].reverse()) stack.push({ node: child, depth: item.depth + 1 });
    }
    return rows;
  }, [children, open, query]);
  const most = Math.max(
    ...nodes.map(([, , first, second]) => Math.abs(asNumber(second) - asNumber(first)) || 0),
    1e-300,
  );
  const turn = (node, wanted) => setOpen((before) => turned(before, node, wanted));
  const onKey = (event) => {
    const item = list[current];
    if (!item || !['ArrowRight', 'ArrowLeft'].includes(event.key)) return false;
    if (event.key === 'ArrowRight') turn(item.node, true);
    else if (open.has(item.node) && children[item.node].length > 0) turn(item.node, false);
    else
      setCurrent(
        Math.max(
          0,
          list.findIndex(({ node }) => node === nodes[item.node][0]),
        ),
      );
    return true;
  };
  const signed = (value) => `${value > 0 ? '+' : ''}${showShort(value)}`;
  const row = (i) => {
    const { node, depth } = list[i];
    const [, label, first, second, firstCount, secondCount] = nodes[node];
    const difference = asNumber(second) - asNumber(first);
    const change = Math.abs(difference) < most * 1e-4 ? 0 : difference; // rounding of clocks
    return html`<div class="row tree-row"><div class="call-name" style=${{ paddingLeft: `${depth * 14}px` }}>
        <i class="twist">${children[node].length > 0 && query.trim() === '' ? (open.has(node) ? '▾' : '▸') : ''}</i>
          <bdi>${t.said(label)}</bdi></div>
      <div class="right">${showShort(asNumber(second))}</div><div class="right">${showShort(asNumber(first))}</div>
      <div class="right ${change > 0 ? 'bad-text' : change < 0 ? 'good-text' : 'muted'}">${signed(change)}</div>
      <div class="change-bar" aria-hidden="true"><i class=${change > 0 ? 'up' : 'down'}
        style=${{ width: `${(Math.abs(change) / most) * 50}%` }} /></div>
      <div class="right muted">${
        firstCount >= 0
          ? firstCount === secondCount
            ? showCount(firstCount)
            : `${showCount(firstCount)} → ${showCount(secondCount)}`
          : ''
      }</div></div>`;
  };
  const head = html`<div class="row head tree-row"><div>${t('name')}</div>
    <div class="right" title=${`${t('test')}, ${unit}`}>${t('test')} <span class="unit">${unit}</span></div>
    <div class="right" title=${`${t('reference')}, ${unit}`}>${t('reference')} <span class="unit">${unit}</span></div>
    <div class="right">${t('change')}</div><div /><div class="right">${t('count')}</div></div>`;
  const chosen = current >= 0 && list[current] ? nodes[list[current].node][6] : '';
  return html`<div class="table-block">
    ${
      nodes.length > 12 &&
      html`<div class="list-controls">
      <${SearchBox} t=${t} value=${query} onSearch=${setQuery} /></div>`
    }
    <div class="table-box" style=${{ height: `${Math.min(520, Math.max(list.length, Math.min(nodes.length, 8)) * ROW_HEIGHT + 46)}px` }}>
    <${VirtualList} id="tree" label=${t('change')} role="tree" itemRole="treeitem" count=${list.length} row=${row}
      current=${current} onCurrent=${setCurrent}
      onTake=${(i) => turn(list[i].node)} onKey=${onKey}
      head=${head} headHeight=${ROW_HEIGHT} width="var(--tree-width)" empty=${t('nothing_found')}
      attributesOf=${(i) => ({
        title: t.said(nodes[list[i].node][1]),
        'aria-level': list[i].depth + 1,
        'aria-expanded': children[list[i].node].length > 0 ? open.has(list[i].node) : undefined,
      })} /></div>
    ${chosen && html`<pre>${chosen}</pre>`}</div>`;
}

const FLOOR = 1e-9; // of a map's colours: nine powers of ten are enough to tell apart
const LEAST = 12; // the place in the ramp of the smallest difference: not that of none
const cssOf = (abgr) => `rgb(${abgr & 255}, ${(abgr >> 8) & 255}, ${(abgr >> 16) & 255})`;

export function MapBlock({ t, block: { rows, columns, cells }, themeTurns, onSearch }) {
  const at = useMemo(() => new Map(cells.map((cell) => [cell[0] * columns.length + cell[1], cell])), [cells]);
  const most = cells.reduce(
    (largest, cell) => (Number.isFinite(asNumber(cell[2])) ? Math.max(largest, asNumber(cell[2])) : largest),
    0,
  );
  const floor = Math.max(FLOOR, most * FLOOR);
  const ramp = rampOf('rising');
  const none = style('--grid');
  const [picked, setPicked] = useState(null);
  const colourOf = (r, c) => {
    const cell = at.get(r * columns.length + c);
    if (!cell) return null;
    const value = asNumber(cell[2]);
    if (value <= 0) return none;
    if (Number.isNaN(value) || value === Infinity) return 'rgb(224, 0, 158)';
    const place = Math.max(
      LEAST,
      Math.round(255 * Math.max(0, Math.log(value / floor) / Math.log(Math.max(most, floor * 10) / floor))),
    );
    return cssOf(ramp[Math.min(255, place)]);
  };
  return html`<p class="hint">${t('map_hint')}</p>
    <${GridMap} id="map" label=${t('map_hint')} rows=${rows} columns=${columns} colourOf=${colourOf} picked=${picked}
    dependencies=${[themeTurns]}
    tipOf=${(r, c) => {
      const cell = at.get(r * columns.length + c);
      return `${rows[r]} · ${columns[c]}: ${showShort(asNumber(cell[2]))} · ${t.said(cell[3])}`;
    }}
    onPick=${(r, c) => {
      setPicked([r, c]);
      const cell = at.get(r * columns.length + c);
      if (cell[4]) onSearch(cell[4]);
    }} />
    <div class="legend"><span><i class="swatch" style=${{ background: none }} />${t('none')}</span>
      ${
        most > 0 &&
        html`<span>${showShort(floor)} <i class="strip"
        style=${{
          background: `linear-gradient(90deg, ${[LEAST, 80, 140, 200, 255]
            .map((place) => cssOf(ramp[place]))
            .join(', ')})`,
        }} /> ${showShort(most)}</span>`
      }
      <span><i class="swatch" style=${{ background: 'rgb(224, 0, 158)' }} />NaN / Inf</span></div>`;
}
