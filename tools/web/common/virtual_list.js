// Rows of equal height in a box that scrolls; only those in view exist. One of them is current: arrows move it, Enter
// takes it.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { html } from './html.js';

const SPARE = 4; // rows above and below those in view

export const ROW_HEIGHT = 26;

// row(i, [left, right]): the content of place i, which is seen from `left` to `right`; attributesOf(i): of its element.
// `current`: a place or -1. `head`: stands above the rows and moves sideways with them; `headHeight` is its height.
// onKey(event): keys that are not of the list itself; returns whether it took one.
export function VirtualList({
  id,
  label,
  role = 'listbox',
  itemRole = 'option',
  count,
  row,
  attributesOf = () => ({}),
  current = -1,
  onCurrent,
  onTake,
  onKey,
  head,
  headHeight = 0,
  width,
  empty,
  attributes = {},
}) {
  const scroller = useRef(null);
  const [top, setTop] = useState(0);
  const [left, setLeft] = useState(0);
  const [[wide, height], setSize] = useState([1000, 500]);
  useEffect(() => {
    const observer = new ResizeObserver(
      () => scroller.current && setSize([scroller.current.clientWidth, scroller.current.clientHeight]),
    );
    observer.observe(scroller.current);
    return () => observer.disconnect();
  }, []);
  // What is current is in view.
  useLayoutEffect(() => {
    if (current < 0 || current >= count) return;
    const box = scroller.current;
    const inside = box.clientHeight - headHeight;
    const y = current * ROW_HEIGHT;
    if (y < box.scrollTop || y + ROW_HEIGHT > box.scrollTop + inside) box.scrollTop = Math.max(0, y - inside / 3);
    setTop(box.scrollTop);
  }, [current, count]);

  const first = Math.max(0, Math.floor(top / ROW_HEIGHT) - SPARE);
  const last = Math.min(count, Math.ceil((top + height) / ROW_HEIGHT) + SPARE);
  const move = (to) => onCurrent?.(Math.max(0, Math.min(count - 1, to)));
  const page = Math.max(1, Math.floor(height / ROW_HEIGHT) - 2);
  const keys = {
    ArrowDown: () => move(current + 1),
    ArrowUp: () => move(current - 1),
    PageDown: () => move(current + page),
    PageUp: () => move(current - page),
    Home: () => move(0),
    End: () => move(count - 1),
    Enter: () => current >= 0 && onTake?.(current),
    ' ': () => current >= 0 && onTake?.(current),
  };
  const onKeyDown = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== event.currentTarget) return;
    if (onKey?.(event)) event.preventDefault();
    else if (keys[event.key] && count > 0) {
      event.preventDefault();
      keys[event.key]();
    }
  };
  const items = [];
  for (let i = first; i < last; i++) {
    const { class: names = '', ...rest } = attributesOf(i);
    items.push(html`<div key=${i} id=${`${id}_${i}`} role=${itemRole}
      class=${`item${i === current ? ' current' : ''} ${names}`}
      style=${{ top: `${i * ROW_HEIGHT}px` }} onClick=${() => {
        onCurrent?.(i);
        onTake?.(i);
      }} ...${rest}>${row(i, [left, left + wide])}</div>`);
  }
  return html`<div class="virtual" id=${id} ref=${scroller} role=${role} aria-label=${label} tabindex="0"
    onKeyDown=${onKeyDown}
      aria-activedescendant=${current >= 0 ? `${id}_${current}` : undefined} onScroll=${({ target }) => {
        setTop(target.scrollTop);
        setLeft(target.scrollLeft);
      }} ...${attributes}>
    ${head && html`<div class="virtual-head" style=${{ minWidth: width, height: `${headHeight}px` }}>${head}</div>`}
    ${count === 0 && html`<p class="hint">${empty}</p>`}
    <div role="presentation" style=${{ height: `${count * ROW_HEIGHT}px`, position: 'relative', minWidth: width }}>
      ${items}</div></div>`;
}
