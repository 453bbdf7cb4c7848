// Markup in template strings, and what all parts use of it.
import { h } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import htm from 'htm';
import { onTheme } from './theme.js';

export const html = htm.bind(h);

// A canvas of the width of its place that draw(context, width, height) fills again when a
// dependency changes, the width changes, or the system turns light or dark.
export function Canvas({ height, draw, dependencies, ...rest }) {
  const canvas = useRef(null);
  const latest = useRef(draw);
  latest.current = draw;
  const paint = () => {
    const element = canvas.current;
    if (!element) return;
    const width = element.clientWidth;
    const ratio = window.devicePixelRatio || 1;
    element.width = Math.round(width * ratio);
    element.height = Math.round(height * ratio);
    const context = element.getContext('2d');
    context.scale(ratio, ratio);
    latest.current(context, width, height);
  };
  useEffect(paint, [height, ...dependencies]);
  useEffect(() => onResizeOrTheme(canvas.current, paint), [height]);
  return html`<canvas ref=${canvas} style=${{ height: `${height}px` }} ...${rest} />`;
}

// Calls `change` when the element's width or the colour scheme changes; returns how to stop that.
export function onResizeOrTheme(element, change) {
  let width = element.clientWidth;
  const observer = new ResizeObserver(() => {
    if (element.clientWidth !== width) {
      width = element.clientWidth;
      change();
    }
  });
  observer.observe(element);
  const stop = onTheme(change);
  return () => {
    observer.disconnect();
    stop();
  };
}

// What load() promises, and `before` until it is there. Loads again when a dependency changes; what comes too late is
// dropped.
export function useLoaded(load, dependencies, before) {
  const [value, setValue] = useState(before);
  useEffect(() => {
    let wanted = true;
    setValue(before);
    load().then((loaded) => wanted && setValue(loaded));
    return () => {
      wanted = false;
    };
  }, dependencies);
  return value;
}

// `rest`: further attributes.
export const SearchBox = ({
  t,
  value,
  onSearch,
  ...rest
}) => html`<input class="search-box" type="search" placeholder=${t('search')}
  aria-label=${t('search')} title=${t('search_hint')} value=${value} autocomplete="off" spellcheck=${false}
  onInput=${(event) => onSearch(event.target.value)} ...${rest} />`;

// `name` is for those who do not see what stands around it, where there is no label.
export function Choice({ label, name, value, options, onChange, id }) {
  return html`<label class="choice"><span>${label}</span>
    <select id=${id} aria-label=${name} value=${value} onChange=${(event) => onChange(event.target.value)}>
      ${options.map(
        ([key, text]) => html`<option value=${key} selected=${String(key) === String(value)}>
        ${text}</option>`,
      )}
    </select></label>`;
}

// A file that stands beside this page: `path` is relative. Whatever it is called, it is a name and no address.
export const FileLink = ({ path, children }) =>
  html`<a href=${`./${path.split('/').map(encodeURIComponent).join('/')}`}>${children}</a>`;

export function Tabs({ value, options, onChange, id }) {
  return html`<div class="tabs" role="tablist" id=${id}>
    ${options.map(
      ([key, text]) => html`<button role="tab" data-key=${key} aria-selected=${key === value}
      onClick=${() => onChange(key)}>${text}</button>`,
    )}</div>`;
}

// A set of open nodes with one of them turned the other way, or as wanted.
export function turned(open, node, wanted = !open.has(node)) {
  const after = new Set(open);
  if (wanted) after.add(node);
  else after.delete(node);
  return after;
}
