// A table of the answer: searched, sorted, without the columns of which all cells are the same.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { html, SearchBox, useLoaded } from '../common/html.js';
import { showCell, showCount } from '../common/numbers.js';
import { SearchIndex } from '../common/search.js';
import { DataTable, useShownRows } from '../common/table.js';
import { ROW_HEIGHT } from '../common/virtual_list.js';

const SEARCHED = 8; // rows from which on a table is searched, and columns of one value are listed below it
const FILLS = ['', 'yellow', 'red'];
const NOT_FINITE = ['NaN', 'Infinity', '-Infinity']; // JSON has no such numbers

const show = (cell) => (cell === null ? '' : typeof cell === 'number' ? showCell(cell) : cell);

// Columns as {index, label}: those to show, and of the others {label, value}, or {label} where the cells are the first
// column's.
function sortOut({ columns }, rows) {
  const shown = [];
  const constant = [];
  columns.forEach((label, index) => {
    const at = index + 1;
    if (index === 0 || rows.length <= SEARCHED) shown.push({ index, label });
    else if (rows.every((row) => row[at] === rows[0][at])) constant.push({ label, value: show(rows[0][at]) || '–' });
    else if (rows.every((row) => row[at] === row[1])) constant.push({ label });
    else shown.push({ index, label });
  });
  return { shown, constant };
}

// On a phone the first column leaves room for the numbers, which come next. Of a path of names the end tells more;
// all of it is in the row's title.
const isNarrow = () => innerWidth < 600;
const PHONE_NAME = 140; // pixels
const cutName = (name) =>
  typeof name === 'string' && name.length > 18 && !name.includes(' ') ? `…${name.slice(-17)}` : name;
// In letters of the Latin alphabet: those of Chinese are wider.
const lettersOf = (text) => Array.from(text).reduce((sum, letter) => sum + (letter > '\u2e80' ? 1.75 : 1), 0);

function columnOf({ index, label: english }, rows, amounts, t) {
  const label = t.said(english);
  const at = index + 1;
  const sample = rows.slice(0, 200).map((row) => row[at]);
  const numeric =
    sample.some((cell) => typeof cell === 'number') &&
    sample.every((cell) => cell === null || typeof cell === 'number' || NOT_FINITE.includes(cell));
  const longest = sample.reduce((most, cell) => Math.max(most, lettersOf(t.said(String(show(cell))))), lettersOf(label));
  const most = isNarrow() ? (index === 0 ? PHONE_NAME : 200) : 320;
  const least = Math.min(most, Math.max(60, longest * 8, lettersOf(label) * 8 + 16));
  return {
    id: String(index),
    label,
    right: numeric || amounts.includes(index),
    falling: numeric,
    width: `minmax(${least}px, ${numeric ? 1 : Math.min(4, Math.ceil(longest / 12))}fr)`,
    key: (row) => {
      const cell = rows[row][at];
      return numeric && cell !== null ? Number(cell) : cell;
    },
    render: (row) => {
      const said = t.said(show(rows[row][at]));
      return index === 0 && isNarrow() ? cutName(said) : said;
    },
  };
}

// `table`: {columns, rows: how many the answer has, load()}; load() gives those of the page as [fill, cell, cell, ...].
// `query`: {text} that somebody asked for elsewhere.
export function TableBlock({ t, id, table, query }) {
  const rows = useLoaded(() => table.load(), [table]);
  if (rows) return html`<${LoadedTable} t=${t} id=${id} table=${table} rows=${rows} given=${query} />`;
  return html`<p class="hint" aria-busy="true" style=${{ minHeight: `${heightOf(table.rows)}px` }}>${t('loading')}</p>`;
}

const heightOf = (count) => Math.min(560, (count + 1) * ROW_HEIGHT + 20);

// What is highlighted comes first, the strongest of it in front.
function LoadedTable({ t, id, table, rows: inOrder, given }) {
  const rows = useMemo(() => [...inOrder].sort(([a], [b]) => b - a), [inOrder]);
  const [query, setQuery] = useState('');
  const [onlyMarked, setOnlyMarked] = useState(false);
  const [sort, setSort] = useState(null);
  const [current, setCurrent] = useState(-1);
  useEffect(() => {
    if (given) {
      setQuery(given.text);
      setOnlyMarked(false);
    }
  }, [given]);
  // Words of the rows; the first column's words need not be searched twice, and digits are not searched for.
  const search = useMemo(
    () =>
      new SearchIndex(
        rows.map((row) => row.filter((cell, i) => typeof cell === 'string' && (i === 1 || cell !== row[1])).join(' ')),
      ),
    [rows],
  );
  const { shown: kept, constant } = useMemo(() => sortOut(table, rows), [rows]);
  const columns = useMemo(() => {
    const [first, ...others] = kept.map((item) => columnOf(item, rows, table.amounts, t));
    const inRow = isNarrow() ? [...others.filter(({ right }) => right), ...others.filter(({ right }) => !right)] : others;
    return [first, ...inRow];
  }, [kept, t]);
  const marked = useMemo(() => rows.reduce((count, [fill]) => count + (fill > 0 ? 1 : 0), 0), [rows]);
  const fits = useMemo(() => {
    const found = search.match(query);
    return onlyMarked ? Uint8Array.from(rows, ([fill], i) => (fill > 0 && (!found || found[i]) ? 1 : 0)) : found;
  }, [search, query, onlyMarked]);
  const shown = useShownRows(rows.length, columns, sort, fits);
  const controls =
    rows.length > SEARCHED &&
    html`<div class="list-controls">
    <${SearchBox} t=${t} id=${`${id}_search`} value=${query} onSearch=${setQuery} />
    ${
      marked > 0 &&
      marked < rows.length &&
      html`<button class="plain" id=${`${id}_marked`} aria-pressed=${onlyMarked}
      onClick=${() => setOnlyMarked(!onlyMarked)}>${t('only_marked', showCount(marked))}</button>`
    }
    <span class="muted found" role="status">${t('found', showCount(shown.length), showCount(table.rows))}</span></div>`;
  return html`<div class="table-block">${controls}
    <div class="table-box" style=${{ height: `${heightOf(rows.length)}px` }}>
      <${DataTable} t=${t} id=${id} label=${t('name')} columns=${columns} rows=${shown} sort=${sort}
      onSort=${setSort} current=${current} onCurrent=${setCurrent} empty=${t('nothing_found')}
        rowClass=${(row) => FILLS[rows[row][0]]}
      rowTitle=${(row) => String(show(rows[row][1]))} /></div>
    ${
      constant.length > 0 &&
      html`<p class="hint constant">${t('constant')} ${constant.map(
        ({ label, value }) => html`
      <span><b>${t.said(label)}</b> ${value === undefined ? t('as', t.said(table.columns[0])) : t.said(value)}</span>`,
      )}</p>`
    }</div>`;
}
