// The error of every call in execution order: what enters as a line, what leaves as points by how the call stands.
import uPlot from 'uplot';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { style } from '../common/colours.js';
import { html, onResizeOrTheme } from '../common/html.js';
import { showShort } from '../common/numbers.js';
import { showError } from './answer.js';
import { ALONE, DIFFERS, DRIFTS } from './data.js';

const HEIGHT = 250;
const GROUPS = [
  ['agrees', (worst) => worst < DRIFTS],
  ['drifts', (worst) => worst === DRIFTS],
  ['differs', (worst) => worst === DIFFERS],
];
const COLOURS = { agrees: '--good', drifts: '--warn', differs: '--alert' };

// Ticks of a logarithmic axis: the powers of ten.
const decades = (_, values) =>
  values.map((value) => (Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-6 ? value : null));

// uPlot's data: call numbers, errors in, errors out by group. Zero has no place on a logarithmic axis; what is not
// finite stands at the top.
function dataOf(pair) {
  const { callCount, errorIn, errorOut, worstOut } = pair;
  let most = 0;
  let least = Infinity;
  for (const errors of [errorIn, errorOut]) {
    for (let i = 0; i < callCount; i++) {
      const error = errors[i];
      if (!(error > 0) || !Number.isFinite(error)) continue;
      if (error > most) most = error;
      if (error < least) least = error;
    }
  }
  const top = most > 0 ? most * 3 : 1;
  const place = (error) => (error === Infinity ? top : error > 0 ? error : null);
  let any = false;
  const columns = [new Array(callCount), new Array(callCount), ...GROUPS.map(() => new Array(callCount).fill(null))];
  for (let i = 0; i < callCount; i++) {
    columns[0][i] = i;
    columns[1][i] = place(errorIn[i]);
    const error = place(errorOut[i]);
    any ||= error !== null || columns[1][i] !== null;
    const worst = worstOut[i] === ALONE ? DIFFERS : worstOut[i];
    if (error !== null) columns[2 + GROUPS.findIndex(([, holds]) => holds(worst))][i] = error;
  }
  return { columns, any, range: [(least === Infinity ? top / 10 : least) / 2, top * 2] };
}

export function ErrorCurve({ t, pair, selected, marks, onSelect }) {
  const place = useRef(null);
  const [at, setAt] = useState(null);
  const [redraw, setRedraw] = useState(0);
  const { columns, any, range } = useMemo(() => dataOf(pair), [pair]);
  const latest = useRef({});
  latest.current = { selected, marks, onSelect };
  const plot = useRef(null);

  useEffect(() => onResizeOrTheme(place.current, () => setRedraw((count) => count + 1)), []);
  useEffect(() => {
    if (!any) return undefined;
    const axis = {
      stroke: style('--muted'),
      grid: { stroke: style('--grid'), width: 1 },
      ticks: { stroke: style('--grid'), width: 1, size: 4 },
      font: '11px system-ui, sans-serif',
    };
    const line = (self, call, colour, dash) => {
      if (call < self.scales.x.min || call > self.scales.x.max) return;
      const { ctx: context, bbox: box } = self;
      const x = Math.round(self.valToPos(call, 'x', true));
      context.save();
      context.strokeStyle = colour;
      context.setLineDash(dash);
      context.lineWidth = devicePixelRatio;
      context.beginPath();
      context.moveTo(x, box.top);
      context.lineTo(x, box.top + box.height);
      context.stroke();
      context.restore();
    };
    const self = new uPlot(
      {
        width: place.current.clientWidth,
        height: HEIGHT,
        legend: { show: false },
        scales: { x: { time: false }, y: { distr: 3, range: () => range } },
        series: [
          {},
          { stroke: style('--odd'), width: 1.2, spanGaps: false, points: { show: false } },
          ...GROUPS.map(([key]) => ({
            stroke: style(COLOURS[key]),
            width: 0,
            paths: () => null,
            points: { show: true, size: columns[0].length > 4000 ? 3 : 5, fill: style(COLOURS[key]), width: 0 },
          })),
        ],
        axes: [
          { ...axis, size: 30 },
          {
            ...axis,
            size: 58,
            filter: decades,
            grid: { ...axis.grid, filter: decades },
            ticks: { ...axis.ticks, filter: decades },
            values: (_, values) => values.map((value) => (value === null ? '' : showShort(value))),
          },
        ],
        cursor: { drag: { x: true, y: false }, points: { show: false } },
        hooks: {
          setCursor: [({ cursor }) => setAt(cursor.idx ?? null)],
          draw: [
            (drawn) => {
              for (const call of latest.current.marks) line(drawn, call, style('--alert'), [4, 4]);
              if (latest.current.selected >= 0) line(drawn, latest.current.selected, style('--accent'), []);
            },
          ],
        },
      },
      columns,
      place.current,
    );
    let downAt = 0;
    self.over.addEventListener('mousedown', (event) => {
      downAt = event.clientX;
    });
    self.over.addEventListener('mouseup', (event) => {
      if (Math.abs(event.clientX - downAt) < 3 && self.cursor.idx !== null && self.cursor.idx !== undefined)
        latest.current.onSelect(self.cursor.idx);
    });
    plot.current = self;
    return () => {
      plot.current = null;
      self.destroy();
    };
  }, [columns, redraw]);
  useEffect(() => plot.current?.redraw(false), [selected, marks]);

  const call = at ?? selected;
  const shown = call >= 0 && call < pair.callCount;
  return html`<section class="card"><h2>${t('curve')}</h2>
    <div ref=${place} id="curve" class="plot" role="img" aria-label=${t('curve')}
      style=${{ minHeight: any ? `${HEIGHT}px` : 0 }} />
    ${!any && html`<p class="hint">${t('all_zero')}</p>`}
    <div class="legend"><span><i class="swatch" style=${{ background: 'var(--odd)' }} />${t('error_in')}</span>
      ${GROUPS.map(
        ([key]) => html`<span><i class="swatch dot" style=${{ background: `var(${COLOURS[key]})` }} />
        ${t('error_out')}: ${t(key)}</span>`,
      )}
      <span class="muted">${t('curve_hint')}</span></div>
    <p class="curve-at" role="status">${
      shown &&
      html`${t('call_number', call + 1, pair.callCount)}: <bdi>${pair.names[call]}</bdi> · ${t(
        'in_out',
        showError(pair.errorIn[call]),
        showError(pair.errorOut[call]),
      )}`
    }\u00a0</p>
  </section>`;
}
