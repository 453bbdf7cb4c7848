// A table of any length: sorted by a click on a column's head, only rows in view exist.
import { useMemo } from 'preact/hooks';
import { html } from './html.js';
import { ROW_HEIGHT, VirtualList } from './virtual_list.js';

const compareTexts = new Intl.Collator('en', { numeric: true }).compare;
const isMissing = (key) => key === null || key === undefined || key === '' || Number.isNaN(key);

// Infinity - Infinity is no order.
const byNumber = (a, b) => (a === b ? 0 : a - b);

// `rows` as a column wants them. key(row) is a number or a text; empty ones and NaN stay behind whatever the direction, and what is
// equal stays in order.
export function sortRows(rows, column, descending) {
  const keys = rows.map((row) => column.key(row));
  const there = [];
  const missing = [];
  for (let i = 0; i < rows.length; i++) (isMissing(keys[i]) ? missing : there).push(i);
  const numeric = there.every((i) => typeof keys[i] === 'number');
  if (numeric) there.sort(descending ? (a, b) => byNumber(keys[b], keys[a]) : (a, b) => byNumber(keys[a], keys[b]));
  else {
    // Comparing texts is slow: each text once.
    const texts = [...new Set(there.map((i) => String(keys[i])))].sort(compareTexts);
    const place = new Map(texts.map((text, i) => [text, i]));
    const places = keys.map((key) => place.get(String(key)));
    there.sort(descending ? (a, b) => places[b] - places[a] : (a, b) => places[a] - places[b]);
  }
  return [...there, ...missing].map((i) => rows[i]);
}

// The rows of a table in the order of `sort`, {id, descending} or null.
export const useSorted = (rows, columns, sort) => useMemo(() => {
  const column = sort && columns.find((one) => one.id === sort.id);
  return column ? sortRows(rows, column, sort.descending) : rows;
}, [rows, sort]);

// columns: [{id, label, width, key(row), render(row), right, plain}]; a column whose order says nothing is `plain`. `rows` are in order.
// `sort` and `onSort`: see useSorted. `current`: a place in rows.
export function DataTable({ t, id, label, columns, rows, sort, onSort, current = -1, onCurrent, onTake, rowClass = () => '', empty, rowTitle }) {
  const template = columns.map((column) => column.width).join(' ');
  const least = columns.reduce((sum, { width }) => sum + (Number.parseInt(width.replace('minmax(', ''), 10) || 80) + 12, 12);
  const turn = (column) => onSort(sort?.id !== column.id ? { id: column.id, descending: column.falling ?? false }
    : sort.descending === (column.falling ?? false) ? { id: column.id, descending: !sort.descending } : null);
  const head = html`<div class="row head" role="row" aria-rowindex="1" style=${{ gridTemplateColumns: template }}>${columns.map((column) => {
    const sorted = sort?.id === column.id;
    return html`<div role="columnheader" class=${column.right ? 'right' : ''} aria-sort=${sorted ? (sort.descending ? 'descending' : 'ascending') : 'none'}>
      ${column.plain ? column.label : html`<button data-sort=${column.id} title=${t('sort_by', column.label)} onClick=${() => turn(column)}>${column.label}${
        sorted ? (sort.descending ? ' ↓' : ' ↑') : ''}</button>`}</div>`;
  })}</div>`;
  const row = (i) => html`<div class="row" role="presentation" style=${{ gridTemplateColumns: template }}>${columns.map((column) => html`
    <div role="gridcell" class=${column.right ? 'right' : ''}>${column.render(rows[i])}</div>`)}</div>`;
  return html`<${VirtualList} id=${id} label=${label} role="grid" itemRole="row" count=${rows.length} row=${row} current=${current} onCurrent=${onCurrent}
    onTake=${onTake} head=${head} headHeight=${ROW_HEIGHT} width=${`${least}px`} empty=${empty}
    attributes=${{ 'aria-rowcount': rows.length + 1, 'aria-colcount': columns.length }}
    attributesOf=${(i) => ({ class: rowClass(rows[i]), 'aria-rowindex': i + 2, 'aria-selected': i === current, title: rowTitle?.(rows[i]) })} />`;
}
