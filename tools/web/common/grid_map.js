// A map of coloured cells with names at both edges, such as ranks by steps: hover or arrows tell what a cell holds, a
// click takes it.
import { useMemo, useRef, useState } from 'preact/hooks';
import { Canvas, html } from './html.js';
import { style } from './colours.js';

const FLAT_HEAD = 20;
const TILTED = Math.PI / 5; // names that are wider than their column
const LETTER = 6.4; // pixels of one, about
const LONGEST = 33;
const MOST_HEIGHT = 460;

// rows, columns: names. colourOf(row, column): a CSS colour, or null for a cell that is not there. tipOf(row, column):
// what is said of it. `picked`: [row, column] or null.
export function GridMap({ id, label, rows, columns, colourOf, tipOf, picked, onPick, dependencies = [], corner = '' }) {
  const [at, setAt] = useState(null);
  const frame = useRef(null);
  const cell = Math.max(6, Math.min(22, Math.floor((MOST_HEIGHT - FLAT_HEAD) / Math.max(rows.length, 1))));
  const longest = useMemo(() => rows.reduce((most, name) => Math.max(most, name.length), 0), [rows]);
  const left = Math.min(220, 14 + longest * LETTER);
  const cellWidth = Math.max(6, Math.min(64, 900 / columns.length));
  const beyond = Math.min(220, (columns.at(-1)?.length ?? 0) * LETTER); // what the last name sticks out
  const width = Math.ceil(left + columns.length * cellWidth + beyond + 2);
  const shown = (name) => (name.length > LONGEST ? `…${name.slice(1 - LONGEST)}` : name);
  const widest = useMemo(
    () => columns.reduce((most, name) => Math.max(most, shown(name).length), 1) * LETTER + 8,
    [columns],
  );
  // Numbers are left out where they do not fit, names are tilted.
  const tilted = widest > cellWidth && columns.some((name) => !/^\d+$/.test(name));
  const HEAD = tilted ? Math.ceil(widest * Math.sin(TILTED)) + 14 : FLAT_HEAD;
  const height = HEAD + rows.length * cell + 2;

  const draw = (context) => {
    context.clearRect(0, 0, width, height);
    context.font = '11px system-ui, sans-serif';
    context.textBaseline = 'middle';
    context.fillStyle = style('--muted');
    context.textAlign = 'left';
    context.fillText(corner, 0, HEAD / 2);
    const every = Math.max(1, Math.ceil((tilted ? 14 : widest) / cellWidth));
    for (let c = 0; c < columns.length; c += every) {
      context.save();
      context.translate(left + (c + 0.5) * cellWidth, tilted ? HEAD - 5 : HEAD / 2);
      context.textAlign = tilted ? 'left' : 'center';
      if (tilted) context.rotate(-TILTED);
      context.fillText(shown(columns[c]), 0, 0);
      context.restore();
    }
    const everyRow = Math.max(1, Math.ceil(12 / cell));
    context.textAlign = 'right';
    for (let r = 0; r < rows.length; r += everyRow) {
      context.fillText(shown(rows[r]), left - 6, HEAD + (r + 0.5) * cell, left - 6);
    }
    const gap = cell > 8 ? 1 : 0;
    for (let r = 0; r < rows.length; r++) {
      for (let c = 0; c < columns.length; c++) {
        const colour = colourOf(r, c);
        if (!colour) continue;
        context.fillStyle = colour;
        context.fillRect(left + c * cellWidth, HEAD + r * cell, cellWidth - gap, cell - gap);
      }
    }
    for (const [place, colour] of [
      [picked, '--text'],
      [at, '--accent'],
    ]) {
      if (!place) continue;
      context.strokeStyle = style(colour);
      context.lineWidth = 2;
      context.strokeRect(left + place[1] * cellWidth, HEAD + place[0] * cell, cellWidth - gap, cell - gap);
    }
  };
  const locate = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const r = Math.floor((event.clientY - box.top - HEAD) / cell);
    const c = Math.floor((event.clientX - box.left - left) / cellWidth);
    return r >= 0 && r < rows.length && c >= 0 && c < columns.length ? [r, c] : null;
  };
  const moves = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] };
  const onKeyDown = (event) => {
    const move = moves[event.key];
    const from = at ?? picked ?? [0, 0];
    if (move) {
      event.preventDefault();
      setAt([
        Math.max(0, Math.min(rows.length - 1, from[0] + move[0])),
        Math.max(0, Math.min(columns.length - 1, from[1] + move[1])),
      ]);
    } else if (event.key === 'Enter' && colourOf(...from)) onPick?.(...from);
  };
  const tip = at && colourOf(...at) ? tipOf(...at) : '';
  return html`<div class="grid-map" ref=${frame}>
    <div class="grid-scroll" id=${id} tabindex="0" role="application" aria-label=${label} onKeyDown=${onKeyDown}>
      <div style=${{ width: `${width}px` }}><${Canvas} height=${height} draw=${draw}
        dependencies=${[at, picked, rows, columns, ...dependencies]}
        aria-hidden="true" onMouseMove=${(event) => {
          const found = locate(event);
          if (String(found) !== String(at)) setAt(found);
        }} onMouseLeave=${() => setAt(null)}
        onClick=${(event) => {
          const found = locate(event);
          if (found && colourOf(...found)) onPick?.(...found);
        }} /></div></div>
    <p class="grid-tip" role="status">${tip}\u00a0</p></div>`;
}
