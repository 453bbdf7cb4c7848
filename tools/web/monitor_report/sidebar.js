// The list of modules: search, order, what is wrong with each at a glance. Only rows in view exist.
import { useEffect, useRef, useState } from 'preact/hooks';
import { Choice, html } from '../common/html.js';
import { curveColour } from '../common/colours.js';
import { showCount } from '../common/numbers.js';

const ROW = 26;

const compareNames = new Intl.Collator('en', { numeric: true }).compare;

// Stable: what a rule leaves open stays in model order.
export function sorted(list, sort, scores) {
  if (sort === 'name') return [...list].sort((a, b) => compareNames(a.label, b.label));
  if (sort === 'score') return [...list].sort((a, b) => scores(b) - scores(a));
  if (sort === 'only') return [...list].sort((a, b) => b.only.localeCompare(a.only));
  return list;
}

export function Sidebar({ t, list, total, query, onQuery, sort, onSort, picked, onPick, badges, overlay }) {
  const scroller = useRef(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  useEffect(() => {
    const observer = new ResizeObserver(() => setHeight(scroller.current.clientHeight));
    observer.observe(scroller.current);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    scroller.current.scrollTop = 0;
    setTop(0);
  }, [query, sort]);
  const first = Math.max(0, Math.floor(top / ROW) - 4);
  const last = Math.min(list.length, Math.ceil((top + height) / ROW) + 4);
  return html`<aside>
    <div class="search"><input id="search" type="search" placeholder=${t('search')} aria-label=${t('search')}
      title=${t('search_hint')} value=${query}
      autocomplete="off" spellcheck=${false} onInput=${(event) => onQuery(event.target.value)} /></div>
    <div class="list-head"><span id="found">${t('found', showCount(list.length), showCount(total))}</span>
      <${Choice} id="sort" label="" name=${t('order')} value=${sort} onChange=${onSort}
        options=${[
          ['order', t('by_order')],
          ['score', t('by_score')],
          ['name', t('by_name')],
          ...(overlay ? [['only', t('by_only')]] : []),
        ]} /></div>
    <div class="list" id="modules" ref=${scroller} onScroll=${(event) => setTop(event.target.scrollTop)}>
      ${list.length === 0 && html`<p class="hint">${t('nothing_found')}</p>`}
      ${'' /* Names are of no language: another one of the page leaves them as they are drawn. */}
      <div lang="" style=${{ height: `${list.length * ROW}px`, position: 'relative' }}>
        ${list.slice(first, last).map((module, i) => {
          const at = picked.indexOf(module.key);
          const badge = badges(module);
          return html`<button key=${module.key} class=${`module${at >= 0 ? ' picked' : ''}`}
            style=${{ top: `${(first + i) * ROW}px` }}
            title=${module.label} onClick=${() => onPick(module.key)}>
            <i class="dot" style=${at >= 0 ? { background: curveColour(at) } : {}} />
            <span class="name"><bdi>${module.label}</bdi></span>
            ${module.only && html`<b class="badge only" lang=${t('language_code')}>${t('only', t(module.only))}</b>`}
            ${badge.alerts > 0 && html`<b class="badge alert">${badge.alerts}</b>`}
            ${badge.notFinite && html`<b class=${`badge ${badge.never ? 'never' : 'nan'}`}>NaN</b>`}
            <span class="score"><i style=${{ width: `${badge.share}%` }} /></span></button>`;
        })}
      </div></div></aside>`;
}
