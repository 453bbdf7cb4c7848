// Curves of the picked series over steps: one line per rank or one over all of them, both runs, what
// is not finite as marks at the edge, alerts as lines.
import uPlot from 'uplot';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { html, onResizeOrTheme } from '../common/html.js';
import { curveColour, SPECIAL, style } from '../common/colours.js';
import { sideOf } from './modules.js';
import { reduceToSteps } from './reduce.js';
import { showNumber, showShort } from '../common/numbers.js';

const HEIGHT = 330;

const withGaps = ({ values, present }) =>
  Array.from(values, (value, i) => (present[i] && Number.isFinite(value) ? value : null));
const notFinite = ({ values, present }, steps) => {
  const marks = [];
  for (let i = 0; i < values.length; i++)
    if (present[i] && !Number.isFinite(values[i])) marks.push({ step: steps[i], value: values[i], index: i });
  return marks;
};

const fade = (colour, share) =>
  colour +
  Math.round(share * 255)
    .toString(16)
    .padStart(2, '0');

// What is drawn for one series of one run: {name, colour, dash, line, rank?, low?, high?, reduced}.
// Not in any language: curves stay as they are when that changes.
function linesOf({ run, series, column }, { steps, how, colour, overlay }) {
  const name = overlay ? `${series.label} · ${sideOf(run)}` : series.label;
  const dash = run.side === 'b' ? [6, 4] : undefined;
  const item = (reduction) => {
    const reduced = reduceToSteps(series, column, steps, reduction);
    return { name, colour, dash, reduced, line: withGaps(reduced), marks: notFinite(reduced, steps) };
  };
  if (how === 'each') {
    const { parts } = series.grid;
    return parts.map((part, i) => ({
      ...item(part.rank),
      rank: part.rank,
      colour: fade(colour, 1 - (0.6 * i) / Math.max(parts.length - 1, 1)),
    }));
  }
  const main = item(how);
  if (how === 'median' && series.grid.parts.length > 1) {
    main.low = withGaps(reduceToSteps(series, column, steps, 'lowest'));
    main.high = withGaps(reduceToSteps(series, column, steps, 'highest'));
  }
  return [main];
}

// Neighbours of one kind as one: [{from, to, value, index}].
function spansOf(marks) {
  const spans = [];
  for (const { step, value, index } of marks) {
    const before = spans.at(-1);
    if (before && before.index === index - 1 && Object.is(before.value, value))
      Object.assign(before, { to: step, index });
    else spans.push({ from: step, to: step, value, index });
  }
  return spans;
}

// A bar at the edge where the numbers would be: on top NaN and +Inf, below -Inf.
function drawSpan(plot, { from, to, value }, ratio) {
  const { ctx: context, bbox: box } = plot;
  const size = 5 * ratio;
  const left = plot.valToPos(from, 'x', true) - size / 2;
  const width = Math.max(plot.valToPos(to, 'x', true) - left, 0) + size / 2;
  const below = value === -Infinity;
  const y = below ? box.top + box.height - size : box.top;
  context.fillStyle = Number.isNaN(value) ? SPECIAL.nan : below ? SPECIAL.minus : SPECIAL.plus;
  context.fillRect(left, y, width, size);
  context.font = `600 ${10 * ratio}px system-ui, sans-serif`;
  context.textAlign = 'left';
  context.textBaseline = 'alphabetic';
  const text = showNumber(value);
  const place = Math.min(left, box.left + box.width - context.measureText(text).width);
  const line = Number.isNaN(value) ? 11 : 22; // an infinity often stands right before a NaN
  context.fillText(text, place, below ? y - 4 * ratio : y + (line + 3) * ratio);
}

function drawMarks(plot, lines, alerts) {
  const { ctx: context, bbox: box } = plot;
  const ratio = window.devicePixelRatio || 1;
  const inside = (step) => step >= plot.scales.x.min && step <= plot.scales.x.max;
  context.save();
  context.strokeStyle = style('--alert');
  context.lineWidth = ratio;
  context.setLineDash([2 * ratio, 3 * ratio]);
  for (const step of alerts) {
    if (!inside(step)) continue;
    const x = Math.round(plot.valToPos(step, 'x', true));
    context.beginPath();
    context.moveTo(x, box.top);
    context.lineTo(x, box.top + box.height);
    context.stroke();
  }
  context.setLineDash([]);
  for (const line of lines) {
    for (const span of spansOf(line.marks.filter((mark) => inside(mark.step)))) drawSpan(plot, span, ratio);
  }
  context.restore();
}

function makePlot(place, { steps, lines, alerts, range, log, onZoom, onStep }) {
  const data = [Array.from(steps)];
  const series = [{}];
  const bands = [];
  for (const line of lines) {
    data.push(line.line);
    series.push({
      stroke: line.colour,
      width: line.rank === undefined ? 1.8 : 1.1,
      dash: line.dash,
      spanGaps: false,
      points: { size: 5, show: steps.length < 60 ? undefined : false },
    });
    if (line.low) {
      const at = data.length;
      data.push(line.high, line.low);
      for (let i = 0; i < 2; i++) series.push({ stroke: fade(line.colour, 0.25), width: 0.6, points: { show: false } });
      bands.push({ series: [at, at + 1], fill: fade(line.colour, 0.13) });
    }
  }
  let positive = true;
  let smallest = Infinity;
  for (const column of data.slice(1)) {
    for (const value of column) {
      if (value === null) continue;
      if (value <= 0) positive = false;
      if (value !== 0) smallest = Math.min(smallest, Math.abs(value));
    }
  }
  const y = {};
  if (log && Number.isFinite(smallest)) Object.assign(y, positive ? { distr: 3 } : { distr: 4, asinh: smallest * 10 });
  const axis = {
    stroke: style('--muted'),
    grid: { stroke: style('--grid'), width: 1 },
    ticks: { stroke: style('--grid'), width: 1, size: 4 },
    font: '11px system-ui, sans-serif',
  };
  const plot = new uPlot(
    {
      width: place.clientWidth,
      height: HEIGHT,
      legend: { show: false },
      bands,
      series,
      scales: { x: { time: false, range: () => range }, y },
      axes: [
        {
          ...axis,
          values: (_, values) => values.map((value) => (Number.isInteger(value) ? String(value) : '')),
          size: 30,
        },
        { ...axis, size: 66, values: (_, values) => values.map((value) => (value === null ? '' : showShort(value))) },
      ],
      cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 7 } },
      hooks: {
        setSelect: [
          (self) => {
            if (self.select.width < 4) return;
            onZoom([self.posToVal(self.select.left, 'x'), self.posToVal(self.select.left + self.select.width, 'x')]);
            self.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          },
        ],
        setCursor: [(self) => onStep(self.cursor.idx ?? null)],
        draw: [(self) => drawMarks(self, lines, alerts)],
      },
    },
    data,
    place,
  );
  plot.over.addEventListener('dblclick', () => onZoom(null));
  return plot;
}

export function Curves({ t, picked, steps, how, log, range, onZoom, onRemove, alerts, overlay }) {
  const place = useRef(null);
  const [index, setIndex] = useState(null);
  const [redraw, setRedraw] = useState(0);
  const lines = useMemo(
    () =>
      picked.flatMap(({ main, other }, i) =>
        [main, other].filter(Boolean).flatMap((side) => linesOf(side, { steps, how, colour: curveColour(i), overlay })),
      ),
    [picked, steps, how, overlay, redraw],
  );
  const nameOf = (line) => (line.rank === undefined ? line.name : `${line.name} · ${t('rank')} ${line.rank}`);

  useEffect(() => onResizeOrTheme(place.current, () => setRedraw((count) => count + 1)), []);
  useEffect(() => {
    const plot = makePlot(place.current, { steps, lines, alerts, range, log, onZoom, onStep: setIndex });
    return () => plot.destroy();
  }, [lines, alerts, range[0], range[1], log]);

  const at = index !== null && index < steps.length ? index : null;
  return html`<div class="curves">
    <div ref=${place} id="curves" class="plot" title="" />
    <div class="curve-list">
      <div class="at-step">${at === null ? t('curves_hint') : `${t('step')} ${steps[at]}`}
        ${overlay ? ` · ${overlay}` : ''}</div>
      ${
        picked.length === 0
          ? html`<p class="hint">${t('pick')}</p>`
          : lines.map(
              (line) => html`
        <div class="curve-row"><i class="line"
          style=${{ borderTopColor: line.colour, borderTopStyle: line.dash ? 'dashed' : 'solid' }} />
          <span class="name" title=${nameOf(line)}><bdi>${nameOf(line)}</bdi></span>
          <b class=${at !== null && line.reduced.present[at] && !Number.isFinite(line.reduced.values[at]) ? 'bad' : ''}>
            ${at !== null && line.reduced.present[at] ? showNumber(line.reduced.values[at]) : ''}</b></div>`,
            )
      }
      ${
        picked.length > 0 &&
        html`<div class="chips">${picked.map(
          ({ key, label }, i) => html`
        <button class="chip" title=${`${t('remove')}: ${label}`} onClick=${() => onRemove(key)}>
          <i class="dot" style=${{ background: curveColour(i) }} /><span><bdi>${label}</bdi></span>✕</button>`,
        )}</div>`
      }
    </div></div>`;
}
