// A picture of numbers: rows are modules or ranks, columns are steps or ranks. Only rows in view are
// drawn; where several columns share a pixel, the most striking of them shows.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Canvas, html } from '../common/html.js';
import { SPECIAL, specialColour, style } from '../common/colours.js';
import { showNumber, showShort } from '../common/numbers.js';

const VIEW_HEIGHT = 430;
const labelWidthOf = (width) => Math.min(230, Math.round(width * 0.33));
const AXIS_HEIGHT = 22;
const LABEL_FROM = 11; // pixels of a row that can carry text

const rowHeightOf = (count) => Math.max(3, Math.min(18, Math.floor((VIEW_HEIGHT - AXIS_HEIGHT) / Math.max(count, 1))));

// Columns `from` .. `to` of one row as pixels; `weight` says how striking a number is.
function paintRow(pixels, offset, width, row, from, to, scale) {
  const columns = to - from;
  for (let x = 0; x < width; x++) {
    const begin = from + Math.floor((x * columns) / width);
    const end = Math.max(begin + 1, from + Math.floor(((x + 1) * columns) / width));
    let place = -1;
    let special = 0;
    for (let i = begin; i < end; i++) {
      if (!row.present[i]) continue;
      const shown = row.shown[i];
      if (!Number.isFinite(shown)) {
        special = specialColour(shown);
        break;
      }
      const candidate = scale.place(shown);
      if (place < 0 || Math.abs(candidate - scale.calm) > Math.abs(place - scale.calm)) place = candidate;
    }
    pixels[offset + x] = special || (place < 0 ? 0 : scale.ramp[place]);
  }
}

// Measuring is slow, and names stay what they are.
const cuts = new Map();

function cut(context, text, width) {
  const key = `${context.font} ${width} ${text}`;
  if (!cuts.has(key)) cuts.set(key, cutAnew(context, text, width));
  return cuts.get(key);
}

function cutAnew(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let low = 0;
  let high = text.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (context.measureText(`…${text.slice(middle)}`).width <= width) high = middle;
    else low = middle + 1;
  }
  return `…${text.slice(low)}`;
}

// Columns whose number is a round one, about every 90 pixels.
function axisTicks(columns, from, to, width) {
  const span = columns[to - 1] - columns[from];
  const rough = Math.max(span / Math.max(1, width / 90), 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const every = power * ([1, 2, 5].find((factor) => factor * power >= rough) ?? 10);
  const ticks = [];
  for (let i = from, before = -Infinity; i < to; i++) {
    const multiple = Math.floor(columns[i] / every);
    if (multiple > before && (columns[i] % every === 0 || before > -Infinity)) ticks.push(i);
    before = Math.max(before, multiple);
  }
  return ticks.length > 0 ? ticks : [from];
}

// rows: [{label, key, values, shown, present, picked}]; `shown` are the numbers that get a colour,
// `values` those that people read. columns: what stands on the axis.
export function HeatMap({ t, rows, columns, from, to, scale, columnName, onPick, note }) {
  const scroller = useRef(null);
  const [top, setTop] = useState(0);
  const [hover, setHover] = useState(null);
  const rowHeight = rowHeightOf(rows.length);
  const bodyHeight = Math.max(rowHeight, Math.min(VIEW_HEIGHT - AXIS_HEIGHT, rows.length * rowHeight));
  const version = useMemo(() => ({}), [rows, columns, from, to, scale]);
  useEffect(() => {
    scroller.current.scrollTop = 0;
    setTop(0);
  }, [rows.length]);

  const draw = (context, width) => {
    context.clearRect(0, 0, width, bodyHeight + AXIS_HEIGHT);
    const labelWidth = labelWidthOf(width);
    const pixelWidth = Math.max(1, Math.round(width - labelWidth));
    const firstRow = Math.floor(top / rowHeight);
    const count = Math.min(rows.length - firstRow, Math.ceil(bodyHeight / rowHeight) + 1);
    if (count <= 0 || to <= from) return;
    const image = new ImageData(pixelWidth, count);
    const pixels = new Uint32Array(image.data.buffer);
    for (let i = 0; i < count; i++) paintRow(pixels, i * pixelWidth, pixelWidth, rows[firstRow + i], from, to, scale);
    const sheet = document.createElement('canvas');
    sheet.width = pixelWidth;
    sheet.height = count;
    sheet.getContext('2d').putImageData(image, 0, 0);
    const shift = firstRow * rowHeight - top;
    context.imageSmoothingEnabled = false;
    context.save();
    context.beginPath();
    context.rect(0, 0, width, bodyHeight);
    context.clip();
    context.drawImage(sheet, labelWidth, shift, pixelWidth, count * rowHeight);
    context.textBaseline = 'middle';
    context.textAlign = 'right';
    for (let i = 0; i < count; i++) {
      const row = rows[firstRow + i];
      const y = shift + i * rowHeight;
      if (rowHeight >= LABEL_FROM) {
        context.font = `${row.colour ? '600 ' : ''}${Math.min(11, rowHeight - 2)}px system-ui, sans-serif`;
        context.fillStyle = row.colour ?? style('--muted');
        context.fillText(cut(context, row.label, labelWidth - 18), labelWidth - 10, y + rowHeight / 2);
        if (rowHeight > 6) {
          context.fillStyle = style('--card');
          context.fillRect(labelWidth, y + rowHeight - 1, pixelWidth, 1);
        }
      } else if (row.colour) {
        context.fillStyle = row.colour;
        context.fillRect(labelWidth - 8, y, 6, rowHeight);
      }
    }
    if (rowHeight < LABEL_FROM) {
      context.font = '11px system-ui, sans-serif';
      context.fillStyle = style('--muted');
      // One name for every so many rows that they do not touch.
      const every = Math.ceil(16 / rowHeight);
      for (let i = every - 1 - (firstRow % every); i < count; i += every) {
        const y = shift + (i + 0.5) * rowHeight;
        if (y + 6 <= bodyHeight)
          context.fillText(cut(context, rows[firstRow + i].label, labelWidth - 22), labelWidth - 12, y);
      }
    }
    context.restore();
    context.font = '11px system-ui, sans-serif';
    context.fillStyle = style('--muted');
    context.textAlign = 'left';
    const cell = pixelWidth / (to - from);
    for (const column of axisTicks(columns, from, to, pixelWidth)) {
      const x = labelWidth + (column - from) * cell;
      context.fillRect(x, bodyHeight, 1, 4);
      context.fillText(String(columns[column]), x + 3, bodyHeight + 13);
    }
    if (hover) {
      context.strokeStyle = style('--text');
      context.lineWidth = 1;
      context.strokeRect(
        labelWidth + (hover.column - from) * cell - 0.5,
        hover.row * rowHeight - top - 0.5,
        Math.max(cell, 3) + 1,
        rowHeight + 1,
      );
    }
  };

  const locate = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const labelWidth = labelWidthOf(box.width);
    const x = event.clientX - box.left - labelWidth;
    const y = event.clientY - box.top;
    const row = Math.floor((y + top) / rowHeight);
    if (y >= bodyHeight || row >= rows.length || row < 0) return null;
    const column = from + Math.floor((x / (box.width - labelWidth)) * (to - from));
    return { row, column: x < 0 ? null : Math.min(column, to - 1), x: event.clientX - box.left, y, width: box.width };
  };
  const onMove = (event) => {
    const found = locate(event);
    if (!found || found.column === null) setHover(null);
    else if (!hover || hover.row !== found.row || hover.column !== found.column) setHover(found);
  };
  const onClick = (event) => {
    const found = locate(event);
    if (found) onPick(rows[found.row], found.column);
  };
  const tip = hover && rows[hover.row];
  return html`<div class="heat">
    <div class="heat-frame">
      <div class="heat-scroll" ref=${scroller} style=${{ height: `${bodyHeight + AXIS_HEIGHT}px` }}
        onScroll=${(event) => setTop(event.target.scrollTop)}>
        <div style=${{ height: `${rows.length * rowHeight + AXIS_HEIGHT}px` }}>
          <${Canvas} id="heat" class="heat-canvas" height=${bodyHeight + AXIS_HEIGHT} draw=${draw}
            dependencies=${[version, top, hover]}
            onMouseMove=${onMove} onMouseLeave=${() => setHover(null)} onClick=${onClick} />
        </div>
      </div>
      ${
        tip &&
        html`<div class="tip" style=${{
          left: `${Math.max(0, Math.min(hover.x + 14, hover.width - 260))}px`,
          top: `${hover.y + 16}px`,
        }}>
        <b><bdi>${tip.label}</bdi></b><div>${columnName} ${columns[hover.column]}</div>
        <div>${tip.present[hover.column] ? showNumber(tip.values[hover.column]) : t('missing')}
        ${tip.other && html` ${t('against')} ${showNumber(tip.other[hover.column])}`}
        ${
          tip.shown !== tip.values &&
          tip.present[hover.column] &&
          Number.isFinite(tip.shown[hover.column]) &&
          !tip.other &&
          html` <span class="muted">(${tip.shown[hover.column] > 0 ? '+' : ''}
            ${showShort(tip.shown[hover.column])})</span>`
        }</div></div>`
      }
    </div>
    <${Scale} t=${t} scale=${scale} note=${note} />
  </div>`;
}

function Scale({ t, scale, note }) {
  const draw = (context, width, height) => {
    for (let x = 0; x < width; x++) {
      const value = scale.ramp[Math.floor((x / width) * 255)];
      context.fillStyle = `rgb(${value & 255},${(value >> 8) & 255},${(value >> 16) & 255})`;
      context.fillRect(x, 0, 1, height);
    }
  };
  return html`<div class="scale">
    <div class="scale-bar"><${Canvas} height=${10} draw=${draw} dependencies=${[scale]} />
      <div class="ticks">${scale.ticks.map(
        ({ value, text }) => html`
        <span style=${{ left: `${(scale.place(value) / 255) * 100}%` }}>${text ?? showShort(value)}</span>`,
      )}</div></div>
    <div class="legend">
      <span><i class="swatch" style=${{ background: SPECIAL.nan }} />NaN</span>
        <span><i class="swatch" style=${{ background: SPECIAL.plus }} />+Inf</span>
      <span><i class="swatch" style=${{ background: SPECIAL.minus }} />-Inf</span>
        <span><i class="swatch none" />${t('missing')}</span>
      <span class="muted">${note}</span></div></div>`;
}
