// The trees of both sides on a canvas: rows of boxes, partners joined by lines. Only rows in view are drawn, whatever
// the size of the graph; the wheel scrolls, with Ctrl it zooms down to a line a node. A second canvas shows all rows at
// once.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { html, onResizeOrTheme } from '../common/html.js';
import { nodeColour, palette } from './colours.js';
import { shortName } from './rows.js';

const ROW = 24;
const INDENT = 16;
const MINIMAP = 72;
const ZOOMS = [0.12, 0.25, 0.5, 0.75, 1, 1.35];
const TEXT_FROM = 0.5; // zoom from which names can be read

function cut(context, text, width) {
  if (width < 12) return '';
  if (context.measureText(text).width <= width) return text;
  let low = 0;
  let high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`…${text.slice(text.length - middle)}`).width <= width) low = middle;
    else high = middle - 1;
  }
  return low > 0 ? `…${text.slice(text.length - low)}` : '';
}

const BETWEEN = 56; // for the lines between both trees
const LEAST_FOR_TWO = 480; // below, two trees would have no room for names: one tree has the nodes of both

// The width of a tree, and where that of the reference begins.
function columnsOf(wide, both) {
  if (!both || wide < LEAST_FOR_TWO) return [wide, 0];
  const half = Math.floor((wide - BETWEEN) / 2);
  return [half, half + BETWEEN];
}

export function TreeCanvas({ t, rank, rows, selected, origin, by, themeTurns, onSelect, onToggle, onKey, request }) {
  const box = useRef(null);
  const canvas = useRef(null);
  const map = useRef(null);
  const [zoom, setZoom] = useState(4);
  const [size, setSize] = useState([800, 560]);
  const view = useRef({ top: 0 });
  const rowHeight = ROW * ZOOMS[zoom];
  const height = rows.length * rowHeight;
  const selectedPlace = rows.findIndex((row) =>
    selected.node >= 0 ? row.node === selected.node : row.node < 0 && row.bench === selected.bench,
  );

  const drawMap = (colours) => {
    const element = map.current;
    const context = element.getContext('2d');
    const [, tall] = size;
    context.clearRect(0, 0, MINIMAP, tall);
    const each = Math.min(rowHeight, tall / Math.max(1, rows.length));
    // The worst of what falls on a line of the screen is what it shows.
    const step = Math.max(1, Math.floor(rows.length / (tall * 2)));
    for (let i = 0; i < rows.length; i += step) {
      let row = rows[i];
      for (let k = i; k < Math.min(rows.length, i + step); k++)
        if (rows[k].node >= 0 && (row.node < 0 || rank.worst[rows[k].node] > rank.worst[row.node])) row = rows[k];
      context.fillStyle = nodeColour(rank, colours, by, row.node, row.open);
      context.fillRect(
        6 + Math.min(row.depth * 4, 36),
        i * each,
        MINIMAP - 12 - Math.min(row.depth * 4, 36),
        Math.max(1, each * step),
      );
    }
    const scale = each / rowHeight;
    context.strokeStyle = colours.accent;
    context.lineWidth = 1.5;
    context.strokeRect(1, view.current.top * scale + 0.5, MINIMAP - 2, Math.max(6, Math.min(size[1], height) * scale));
  };

  const draw = () => {
    const element = canvas.current;
    if (!element) return;
    const [wide, tall] = size;
    const ratio = window.devicePixelRatio || 1;
    for (const [target, width] of [
      [element, wide],
      [map.current, MINIMAP],
    ]) {
      if (target.width !== Math.round(width * ratio) || target.height !== Math.round(tall * ratio)) {
        target.width = Math.round(width * ratio);
        target.height = Math.round(tall * ratio);
      }
      target.getContext('2d').setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    const colours = palette();
    const context = element.getContext('2d');
    context.fillStyle = colours.card;
    context.fillRect(0, 0, wide, tall);
    const { top } = view.current;
    const both = rank.bench !== null;
    const [half, second] = columnsOf(wide, both);
    const first = Math.max(0, Math.floor(top / rowHeight));
    const last = Math.min(rows.length, Math.ceil((top + tall) / rowHeight));
    const readable = ZOOMS[zoom] >= TEXT_FROM;
    context.font = `${Math.round(
      12.5 * Math.min(1.1, Math.max(0.75, ZOOMS[zoom])),
    )}px system-ui, "Noto Sans CJK SC", sans-serif`;
    context.textBaseline = 'middle';
    const drawBox = (side, node, colour, x, width, y, row, isSelected) => {
      const left = x + 4 + Math.min(row.depth * INDENT, width * 0.45);
      const inside = x + width - left - 4;
      const gap = readable ? 2 : Math.min(1, rowHeight * 0.15);
      context.fillStyle = isSelected ? colours.soft : colours.ground;
      context.fillRect(left, y + gap, inside, rowHeight - 2 * gap);
      context.fillStyle = colour;
      context.fillRect(left, y + gap, readable ? 7 : inside, rowHeight - 2 * gap);
      if (isSelected) {
        context.strokeStyle = colours.accent;
        context.lineWidth = 1.5;
        context.strokeRect(left + 0.5, y + gap + 0.5, inside - 1, rowHeight - 2 * gap - 1);
      }
      if (!readable) return left;
      let text = left + 13;
      if (row.childCount > 0) {
        context.fillStyle = colours.muted;
        context.fillText(row.open ? '▾' : '▸', text, y + rowHeight / 2);
      }
      text += 14;
      const [name, kind] = shortName(side, node);
      const about = side === rank.bench && second === 0 ? [kind, t('reference')].filter(Boolean).join(' · ') : kind;
      const shown = cut(context, name, inside - 34);
      context.fillStyle = colours.text;
      context.fillText(shown, text, y + rowHeight / 2);
      const behind = text + context.measureText(shown).width + 8;
      context.fillStyle = colours.muted;
      context.fillText(cut(context, about, left + inside - behind - 4), behind, y + rowHeight / 2);
      return left;
    };
    for (let i = first; i < last; i++) {
      const row = rows[i];
      const y = i * rowHeight - top;
      const colour = nodeColour(rank, colours, by, row.node, row.open);
      const isSelected = i === selectedPlace;
      if (row.node >= 0) drawBox(rank.npu, row.node, colour, 0, half, y, row, isSelected);
      if (both && row.bench >= 0 && (second > 0 || row.node < 0)) {
        const left = drawBox(rank.bench, row.bench, colour, second, half, y, row, isSelected);
        if (row.node >= 0) {
          context.strokeStyle = colour;
          context.lineWidth = Math.max(0.5, Math.min(2, rowHeight / 10));
          context.beginPath();
          context.moveTo(half - 2, y + rowHeight / 2);
          context.lineTo(left, y + rowHeight / 2);
          context.stroke();
        }
      }
      if (row.node >= 0 && row.node === origin) {
        context.fillStyle = colours.alert;
        context.beginPath();
        context.arc(half - 10, y + rowHeight / 2, Math.max(2, Math.min(5, rowHeight / 4)), 0, 7);
        context.fill();
      }
    }
    drawMap(colours);
  };

  const latest = useRef(draw);
  latest.current = draw;
  const pending = useRef(0);
  const redraw = () => {
    if (pending.current === 0)
      pending.current = requestAnimationFrame(() => {
        pending.current = 0;
        latest.current();
      });
  };
  const scrollTo = (top) => {
    box.current.scrollTop = Math.max(0, Math.min(top, height - box.current.clientHeight));
  };

  useEffect(() => {
    const observer = new ResizeObserver(() => {
      if (box.current) setSize([box.current.clientWidth, box.current.clientHeight]);
    });
    observer.observe(box.current);
    const stop = onResizeOrTheme(box.current, redraw);
    const onWheel = (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoomBy(event.deltaY > 0 ? -1 : 1);
    };
    const element = box.current;
    element.addEventListener('wheel', onWheel, { passive: false });
    return () => {
      observer.disconnect();
      stop();
      element.removeEventListener('wheel', onWheel);
    };
  }, []);
  useEffect(() => {
    latest.current();
  }, [rows, selectedPlace, by, zoom, size, themeTurns, origin]);
  // What is selected is in view.
  useLayoutEffect(() => {
    if (selectedPlace < 0) return;
    const y = selectedPlace * rowHeight;
    if (y < box.current.scrollTop || y + rowHeight > box.current.scrollTop + box.current.clientHeight)
      scrollTo(y - box.current.clientHeight / 3);
  }, [selectedPlace, request, rows]);

  const zoomBy = (step) =>
    setZoom((now) => {
      const next = Math.max(0, Math.min(ZOOMS.length - 1, now + step));
      const middle = (view.current.top + box.current.clientHeight / 2) / (ROW * ZOOMS[now]);
      requestAnimationFrame(() => scrollTo(middle * ROW * ZOOMS[next] - box.current.clientHeight / 2));
      return next;
    });
  const rowAt = (event) =>
    rows[Math.floor((event.clientY - canvas.current.getBoundingClientRect().top + view.current.top) / rowHeight)];
  const onClick = (event) => {
    const row = rowAt(event);
    if (!row) return;
    const x = event.clientX - canvas.current.getBoundingClientRect().left;
    const [half, second] = columnsOf(size[0], rank.bench !== null);
    const base = x >= second ? second : 0;
    const left = base + 4 + Math.min(row.depth * INDENT, half * 0.45);
    if (row.childCount > 0 && x >= left && x < left + 28) onToggle(row);
    onSelect(row);
  };
  const move = (step) => {
    const row = rows[Math.max(0, Math.min(rows.length - 1, selectedPlace + step))];
    if (row) onSelect(row);
  };
  const page = Math.max(1, Math.floor(size[1] / rowHeight) - 2);
  const onKeyDown = (event) => {
    const row = rows[selectedPlace];
    const keys = {
      ArrowDown: () => move(1),
      ArrowUp: () => move(-1),
      PageDown: () => move(page),
      PageUp: () => move(-page),
      Home: () => onSelect(rows[0]),
      End: () => onSelect(rows[rows.length - 1]),
      Enter: () => row && onToggle(row),
      ' ': () => row && onToggle(row),
      ArrowRight: () => {
        if (row && row.childCount > 0 && !row.open) onToggle(row);
        else move(1);
      },
      ArrowLeft: () => {
        if (row && row.open) onToggle(row);
        else if (row)
          for (let i = selectedPlace - 1; i >= 0; i--)
            if (rows[i].depth < row.depth) {
              onSelect(rows[i]);
              break;
            }
      },
      '+': () => zoomBy(1),
      '-': () => zoomBy(-1),
    };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (keys[event.key]) {
      event.preventDefault();
      keys[event.key]();
    } else if (onKey(event.key)) event.preventDefault();
  };
  const onMap = (event) => {
    if (event.buttons !== 1) return;
    const each = Math.min(rowHeight, size[1] / Math.max(1, rows.length));
    const y = event.clientY - map.current.getBoundingClientRect().top;
    scrollTo((y / each) * rowHeight - size[1] / 2);
  };
  const row = rows[selectedPlace];
  return html`<div class="graph-view">
    <div class="graph-box" id="tree" ref=${box} data-rows=${rows.length} tabindex="0" role="tree"
      data-trees=${columnsOf(size[0], rank.bench !== null)[1] > 0 ? 2 : 1}
      aria-label=${t('trees')} onKeyDown=${onKeyDown}
      onScroll=${(event) => {
        view.current.top = event.target.scrollTop;
        redraw();
      }}>
      <div role="presentation" style=${{ height: `${Math.max(height, 1)}px` }}>
        <canvas ref=${canvas} class="graph-canvas" style=${{ height: `${size[1]}px` }} onClick=${onClick}
        onDblClick=${(event) => {
          const hit = rowAt(event);
          if (hit) onToggle(hit);
        }} /></div>
      <span class="unseen" role="status">${
        row ? `${row.node >= 0 ? rank.npu.names[row.node] : rank.bench.names[row.bench]}` : ''
      }</span></div>
    <canvas ref=${map} class="minimap" style=${{ width: `${MINIMAP}px`, height: `${size[1]}px` }} aria-hidden="true"
      onPointerDown=${onMap} onPointerMove=${onMap} />
    <div class="zoom"><button class="plain" id="zoom_in" aria-label=${t('zoom_in')} title=${`${t('zoom_in')} (+)`}
      onClick=${() => zoomBy(1)}>+</button>
      <button class="plain" id="zoom_out" aria-label=${t('zoom_out')} title=${`${t('zoom_out')} (−)`}
        onClick=${() => zoomBy(-1)}>−</button></div></div>`;
}
