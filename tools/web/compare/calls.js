// The calls in order as a tree of modules, with the error that enters and the error that leaves; or all tensors as a
// table.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { html, turned, useLoaded } from '../common/html.js';
import { showCount } from '../common/numbers.js';
import { DataTable, useShownRows } from '../common/table.js';
import { ROW_HEIGHT, VirtualList } from '../common/virtual_list.js';
import { showError } from './answer.js';
import { ALONE, DRIFTS, STANDINGS } from './data.js';

const TONE = { drifts: 'caution', differs: 'bad', alone: 'caution', identical: 'good', agrees: 'good' };

export const Standing = ({ t, standing }) =>
  html`<span class=${`${TONE[STANDINGS[standing]] ?? 'muted'}-text`}>${t(STANDINGS[standing])}</span>`;

// From 1e-8 to 1 on a line.
const Bar = ({ error, worst }) => {
  const share = error === Infinity ? 1 : error > 0 ? Math.max(0.03, Math.min(1, 1 + Math.log10(error) / 8)) : 0;
  return html`<span class="error-bar" aria-hidden="true">
    <i class=${`part ${STANDINGS[worst]}`} style=${{ width: `${share * 100}%` }} /></span>`;
};

export function CallTreeView({ t, pair, tree, query, onlyDiffering, selected, onSelect }) {
  const [open, setOpen] = useState(new Set());
  const [currentNode, setCurrentNode] = useState(-1);
  // What is chosen elsewhere is shown here.
  useEffect(() => {
    setCurrentNode(selected);
    setOpen(
      (before) =>
        new Set([
          ...before,
          ...(tree.roots.length <= 3 ? tree.roots : []),
          ...(selected >= 0 ? tree.ancestorsOf(selected) : []),
        ]),
    );
  }, [tree, selected]);
  const list = useMemo(() => {
    if (query.trim() === '') return tree.visible(open, onlyDiffering);
    const fits = pair.callSearch.match(query);
    const found = [];
    for (let node = 0; node < pair.callCount; node++)
      if (fits[node] && !(onlyDiffering && pair.worst[node] < ALONE)) found.push({ node, depth: 0 });
    return found;
  }, [tree, open, query, onlyDiffering]);
  const current = useMemo(
    () => (currentNode >= 0 ? list.findIndex((item) => item.node === currentNode) : -1),
    [currentNode, list],
  );
  const setCurrent = (i) => setCurrentNode(list[i]?.node ?? -1);

  const isRecorded = (node) => node < pair.callCount;
  const turn = (node, wanted) => setOpen((before) => turned(before, node, wanted));
  const take = (i) => {
    const { node } = list[i];
    if (isRecorded(node)) onSelect(node);
    else turn(node);
  };
  const onKey = (event) => {
    const item = list[current];
    if (!item) return false;
    if (event.key === 'ArrowRight') {
      if (!open.has(item.node)) turn(item.node, true);
      else if (tree.children[item.node].length > 0) setCurrent(current + 1);
      return true;
    }
    if (event.key === 'ArrowLeft') {
      if (open.has(item.node) && tree.children[item.node].length > 0) turn(item.node, false);
      else if (tree.parents[item.node] >= 0) setCurrentNode(tree.parents[item.node]);
      return true;
    }
    return false;
  };
  const row = (i) => {
    const { node, depth } = list[i];
    const [name, about] = tree.labelOf(node, query.trim() !== '');
    const inner = tree.children[node].length > 0 && query.trim() === '';
    const recorded = isRecorded(node);
    return html`<div class="row call"><div class="call-name" style=${{ paddingLeft: `${Math.min(depth, 14) * 14}px` }}>
        ${
          inner
            ? html`<button class="twist" tabindex="-1" aria-hidden="true"
          onClick=${(event) => {
            event.stopPropagation();
            turn(node);
          }}>${open.has(node) ? '▾' : '▸'}</button>`
            : html`<i class="twist" />`
        }
        <i class=${`dot part ${STANDINGS[tree.worst[node]]}`} />
          <bdi>${name}</bdi> <span class="muted">${about}</span></div>
      <div class="right">${recorded ? showError(pair.errorIn[node]) : ''}</div>
      <div class="right">${recorded ? showError(pair.errorOut[node]) : ''}</div>
      <div>${recorded && html`<${Bar} error=${pair.errorOut[node]} worst=${pair.worst[node]} />`}</div>
      <div class="right ${tree.differing[node] > 0 ? 'bad-text' : 'muted'}">
        ${tree.differing[node] > 0 ? showCount(tree.differing[node]) : ''}</div></div>`;
  };
  const head = html`<div class="row head call"><div>${t('name')}</div><div class="right">${t('in')}</div>
    <div class="right">${t('out')}</div><div />
    <div class="right">${t('differing')}</div></div>`;
  return html`<${VirtualList} id="tree" label=${t('calls_tree')} role="tree" itemRole="treeitem" count=${list.length}
    row=${row} current=${current} onCurrent=${setCurrent}
    onTake=${take} onKey=${onKey} head=${head} headHeight=${ROW_HEIGHT} width="var(--call-width)"
      empty=${t('nothing_found')}
    attributesOf=${(i) => ({
      title: pair.names[list[i].node],
      'aria-level': list[i].depth + 1,
      'aria-selected': list[i].node === selected,
      'aria-expanded': tree.children[list[i].node].length > 0 ? open.has(list[i].node) : undefined,
    })} />`;
}

export function TensorTable({ t, run, pair, query, onlyDiffering, selectedRow, onSelectRow, onCount }) {
  const figures = useLoaded(() => pair.loadFigures(), [pair], pair.loaded ?? null);
  const [sort, setSort] = useState(null);
  const [current, setCurrent] = useState(-1);
  const fits = useMemo(() => {
    const found = pair.rowSearch.match(query);
    if (!onlyDiffering) return found;
    const fits = new Uint8Array(pair.rows);
    for (let row = 0; row < pair.rows; row++) if (pair.standing[row] >= ALONE && (!found || found[row])) fits[row] = 1;
    return fits;
  }, [pair, query, onlyDiffering]);
  const verdict = (row) => run.row_verdicts[pair.verdictOf(row)];
  const columns = useMemo(
    () => [
      {
        id: 'name',
        label: t('name'),
        width: 'minmax(260px, 3fr)',
        key: (row) => pair.nameOrder(row),
        render: (row) => pair.nameOfRow(row),
      },
      {
        id: 'standing',
        label: t('standing'),
        width: '90px',
        falling: true,
        key: (row) => pair.standing[row],
        render: (row) => html`<${Standing} t=${t}
      standing=${pair.standing[row]} />`,
      },
      {
        id: 'relative',
        label: t('relative'),
        width: '86px',
        right: true,
        falling: true,
        key: (row) => pair.relative[row],
        render: (row) => showError(pair.relative[row]),
      },
      {
        id: 'absolute',
        label: t('absolute'),
        width: '86px',
        right: true,
        falling: true,
        key: (row) => figures?.absoluteFloats[row] ?? NaN,
        render: (row) => (figures ? showError(figures.absoluteFloats[row]) : ''),
      },
      {
        id: 'verdict',
        label: t('table_verdict'),
        width: '86px',
        key: verdict,
        render: (row) => html`
      <span class=${['', 'caution-text', 'bad-text'][pair.fillOf(row)]}>${verdict(row)}</span>`,
      },
      {
        id: 'dtype',
        label: t('dtype'),
        width: '110px',
        key: (row) => (figures ? pair.textOf(row, 'dtype') : ''),
        render: (row) => (figures ? pair.textOf(row, 'dtype') : ''),
      },
      {
        id: 'shape',
        label: t('shape'),
        width: '120px',
        key: (row) => (figures ? pair.textOf(row, 'shape') : ''),
        render: (row) => (figures ? pair.textOf(row, 'shape') : ''),
      },
    ],
    [t, pair, figures],
  );
  const shown = useShownRows(pair.rows, columns, sort, fits);
  useEffect(() => onCount(shown.length), [shown.length]);
  useEffect(() => {
    setCurrent(shown.indexOf(selectedRow));
  }, [shown, selectedRow]);
  return html`<${DataTable} t=${t} id="tensors" label=${t('tensors')} columns=${columns} rows=${shown} sort=${sort}
    onSort=${setSort} current=${current} onCurrent=${setCurrent}
    onTake=${(i) => onSelectRow(shown[i])} empty=${t('nothing_found')} rowTitle=${(row) => pair.nameOfRow(row)} />`;
}
