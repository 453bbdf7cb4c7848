// A table of any length: sorted by a click on a column's head, only rows in view exist.
import { useMemo } from 'preact/hooks';
import { html } from './html.js';
import { lowerBound } from './numbers.js';
import { ROW_HEIGHT, VirtualList } from './virtual_list.js';

// As in .row of theme.css.
const GAP = 12;
const EDGE = 12;

const isMissing = (key) => key === null || key === undefined || key === '' || Number.isNaN(key);

// Letters without their case, numbers by their size: "layers.9" stands before "layers.10".
const naturalKey = (text) => text.toLowerCase().replace(/\d+/g, (digits) => digits.padStart(12, '0'));

// The place of each key among the different ones in rising order, and how many those are. NaN and what is empty: one
// behind them all.
function placesOf(keys) {
  const places = new Uint32Array(keys.length);
  const there = keys.filter((key) => !isMissing(key));
  if (there.every((key) => typeof key === 'number')) {
    const sorted = Float64Array.from(there).sort();
    let different = 0;
    for (let i = 0; i < sorted.length; i++) if (i === 0 || sorted[i] !== sorted[i - 1]) sorted[different++] = sorted[i];
    const values = sorted.subarray(0, different);
    for (let i = 0; i < keys.length; i++) places[i] = isMissing(keys[i]) ? different : lowerBound(values, keys[i]);
    return [places, different];
  }
  const texts = keys.map((key) => (isMissing(key) ? '' : naturalKey(String(key))));
  const sorted = [...new Set(texts)].filter((text) => text !== '').sort();
  const placeOf = new Map(sorted.map((text, i) => [text, i]));
  placeOf.set('', sorted.length);
  for (let i = 0; i < keys.length; i++) places[i] = placeOf.get(texts[i]);
  return [places, sorted.length];
}

// The places 0 .. count - 1 of rows in the order that a column wants. key(row) is a number or a text; empty ones and
// NaN stay behind whatever the direction, and what is equal stays in order.
export function orderOf(count, column, descending) {
  const keys = new Array(count);
  for (let row = 0; row < count; row++) keys[row] = column.key(row);
  const [places, different] = placesOf(keys);
  if (descending)
    for (let row = 0; row < count; row++) if (places[row] < different) places[row] = different - 1 - places[row];
  const begins = new Uint32Array(different + 2);
  for (let row = 0; row < count; row++) begins[places[row] + 1]++;
  for (let i = 0; i <= different; i++) begins[i + 1] += begins[i];
  const order = new Uint32Array(count);
  for (let row = 0; row < count; row++) order[begins[places[row]]++] = row;
  return order;
}

function inOrder(count) {
  const order = new Uint32Array(count);
  for (let row = 0; row < count; row++) order[row] = row;
  return order;
}

// Loops, as functions per row take ten times as long.
function onlyFitting(order, fits) {
  const shown = new Uint32Array(order.length);
  let count = 0;
  for (let i = 0; i < order.length; i++) if (fits[order[i]]) shown[count++] = order[i];
  return shown.subarray(0, count);
}

// The rows of 0 .. count - 1 that are to be shown, in the order of `sort`, {id, descending} or null. fits: one byte per
// row, or null for all. Searching does not sort again.
export function useShownRows(count, columns, sort, fits) {
  const order = useMemo(() => {
    const column = sort && columns.find((item) => item.id === sort.id);
    return column ? orderOf(count, column, sort.descending) : inOrder(count);
  }, [count, columns, sort]);
  return useMemo(() => (fits ? onlyFitting(order, fits) : order), [order, fits]);
}

// columns: [{id, label, width, key(row), render(row), right, plain}]; a column whose order says nothing is `plain`.
// `rows` are in order. `sort` and `onSort`: see useShownRows. `current`: a place in rows.
export function DataTable({
  t,
  id,
  label,
  columns,
  rows,
  sort,
  onSort,
  current = -1,
  onCurrent,
  onTake,
  rowClass = () => '',
  empty,
  rowTitle,
}) {
  const template = columns.map((column) => column.width).join(' ');
  const ends = []; // of the columns from the left, as long as they are no wider than they have to be
  for (const { width } of columns)
    ends.push((ends.at(-1) ?? EDGE) + (Number.parseInt(width.replace('minmax(', ''), 10) || 80) + GAP);
  const least = ends.at(-1) ?? 0;
  // With many columns, only those in view exist, too.
  const isSeen = (c, [left, right]) => right - left >= least || (ends[c] >= left && (ends[c - 1] ?? 0) <= right);
  const turn = (column) =>
    onSort(
      sort?.id !== column.id
        ? { id: column.id, descending: column.falling ?? false }
        : sort.descending === (column.falling ?? false)
          ? { id: column.id, descending: !sort.descending }
          : null,
    );
  const head = html`<div class="row head" role="row" aria-rowindex="1" style=${{ gridTemplateColumns: template }}>
    ${columns.map((column) => {
      const sorted = sort?.id === column.id;
      return html`<div role="columnheader" class=${column.right ? 'right' : ''}
        aria-sort=${sorted ? (sort.descending ? 'descending' : 'ascending') : 'none'}>
      ${
        column.plain
          ? column.label
          : html`<button data-sort=${column.id} title=${t('sort_by', column.label)} onClick=${() => turn(column)}>
            ${column.label}${sorted ? (sort.descending ? ' ↓' : ' ↑') : ''}</button>`
      }</div>`;
    })}</div>`;
  const row = (i, view) =>
    html`<div class="row" role="presentation" style=${{ gridTemplateColumns: template }}>${columns.map(
      (column, c) =>
        isSeen(c, view) &&
        html`
    <div key=${c} role="gridcell" aria-colindex=${c + 1} style=${{ gridColumn: c + 1 }}
      class=${column.right ? 'right' : ''}>${column.render(rows[i])}</div>`,
    )}</div>`;
  return html`<${VirtualList} id=${id} label=${label} role="grid" itemRole="row" count=${rows.length} row=${row}
    current=${current} onCurrent=${onCurrent}
    onTake=${onTake} head=${head} headHeight=${ROW_HEIGHT} width=${`${least}px`} empty=${empty}
    attributes=${{ 'aria-rowcount': rows.length + 1, 'aria-colcount': columns.length }}
    attributesOf=${(i) => ({
      class: rowClass(rows[i]),
      'aria-rowindex': i + 2,
      'aria-selected': i === current,
      title: rowTitle?.(rows[i]),
    })} />`;
}
