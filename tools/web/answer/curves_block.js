// Lines over positions, such as a figure of many parameters over steps.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { curveColour } from '../common/colours.js';
import { html, onResizeOrTheme, SearchBox } from '../common/html.js';
import { showShort } from '../common/numbers.js';

const SHOWN_AT_FIRST = 6;
const NAMES_AT_ONCE = 300;
const HEIGHT = 260;
const FRAME = { left: 58, right: 10, top: 8, bottom: 24 };

const asNumber = (value) => (typeof value === 'number' ? value : Number(value)); // "NaN" and "Infinity" are texts

// Least and most of what is shown, and a little room.
function rangeOf(curves) {
  let least = Infinity;
  let most = -Infinity;
  for (const values of curves) {
    for (const value of values) {
      if (!Number.isFinite(value)) continue;
      if (value < least) least = value;
      if (value > most) most = value;
    }
  }
  if (least > most) return [0, 1];
  const room = (most - least) * 0.05 || Math.abs(most) * 0.05 || 0.5;
  return [least - room, most + room];
}

// Round numbers between least and most, about four: 1, 2 or 5 times a power of ten apart.
function ticksOf(least, most) {
  const rough = (most - least) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
  const first = Math.ceil(least / step);
  // Multiples: sums of steps would drift away from round numbers.
  return Array.from({ length: Math.max(0, Math.floor(most / step) - first + 1) }, (_, i) =>
    Number(((first + i) * step).toPrecision(12)),
  );
}

// A path with gaps where there is no number; a lone point is a dot.
function pathOf(values, x, y) {
  let path = '';
  values.forEach((value, i) => {
    if (!Number.isFinite(value)) return;
    const joins = i > 0 && Number.isFinite(values[i - 1]);
    const alone = !joins && !Number.isFinite(values[i + 1]);
    path += `${joins ? 'L' : 'M'}${x(i).toFixed(1)} ${y(value).toFixed(1)}${alone ? 'h3' : ''}`;
  });
  return path;
}

export function CurvesBlock({ t, block: { unit, axis, positions, curves } }) {
  const numbers = useMemo(() => curves.map(([, ...values]) => values.map(asNumber)), [curves]);
  const [shown, setShown] = useState(() => curves.slice(0, SHOWN_AT_FIRST).map((_, i) => i));
  const [at, setAt] = useState(-1);
  const [query, setQuery] = useState('');
  const place = useRef(null);
  const [width, setWidth] = useState(800);
  const [, redraw] = useState(0); // colours are of the theme
  useEffect(() => {
    const measure = () => {
      setWidth(place.current?.clientWidth || 800);
      redraw((n) => n + 1);
    };
    measure();
    return onResizeOrTheme(place.current, measure);
  }, []);
  const [least, most] = useMemo(() => rangeOf(shown.map((i) => numbers[i])), [numbers, shown]);
  const last = positions.length - 1;
  const x = (i) => FRAME.left + (last === 0 ? 0.5 : i / last) * (width - FRAME.left - FRAME.right);
  const y = (value) => FRAME.top + ((most - value) / (most - least)) * (HEIGHT - FRAME.top - FRAME.bottom);
  const heights = ticksOf(least, most);
  const step = Math.max(1, Math.ceil(positions.length / Math.max(2, Math.floor(width / 90))));
  const toggle = (i) => setShown(shown.includes(i) ? shown.filter((k) => k !== i) : [...shown, i]);
  const point = (event) => {
    const inside =
      (event.clientX - place.current.getBoundingClientRect().left - FRAME.left) /
      Math.max(1, width - FRAME.left - FRAME.right);
    setAt(Math.max(0, Math.min(last, Math.round(inside * last))));
  };
  const onKey = (event) => {
    const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!way) return;
    event.preventDefault();
    setAt(Math.max(0, Math.min(last, (at < 0 ? 0 : at) + way)));
  };
  const words = query.trim().toLowerCase();
  const names = curves.map(([name], i) => i).filter((i) => !words || curves[i][0].toLowerCase().includes(words));
  return html`<div class="curves-block"><div ref=${place} tabindex="0" role="group" aria-label=${`${unit}, ${axis}`}
    onKeyDown=${onKey} onPointerMove=${point}
    onPointerLeave=${() => setAt(-1)}>
    <svg class="curves" viewBox=${`0 0 ${width} ${HEIGHT}`} role="img" aria-label=${`${unit} / ${axis}`}>
      ${heights.map(
        (value) => html`<line class="frame" x1=${FRAME.left} x2=${width - FRAME.right} y1=${y(value)} y2=${y(value)} />
          <text x=${FRAME.left - 6} y=${y(value) + 4}
        text-anchor="end">${showShort(value)}</text>`,
      )}
      ${positions.map(
        (name, i) =>
          i % step === 0 &&
          html`
        <text x=${x(i)} y=${HEIGHT - 6} text-anchor="middle">${name}</text>`,
      )}
      ${shown.map((i) => html`<path d=${pathOf(numbers[i], x, y)} style=${{ stroke: curveColour(i) }} />`)}
      ${at >= 0 && html`<line class="at" x1=${x(at)} x2=${x(at)} y1=${FRAME.top} y2=${HEIGHT - FRAME.bottom} />`}
    </svg></div>
    <p class="hint" role="status">${
      at < 0
        ? `${unit}. ${t('curves_hint')}`
        : `${axis} ${positions[at]}: ${shown.map((i) => `${curves[i][0]} ${showShort(numbers[i][at])}`).join(' · ')}`
    }</p>
    ${
      curves.length > 12 &&
      html`<div class="list-controls">
      <${SearchBox} t=${t} value=${query} onSearch=${setQuery} /></div>`
    }
    <div class="curve-names">${names.slice(0, NAMES_AT_ONCE).map(
      (i) => html`<button class="plain" aria-pressed=${shown.includes(i) ? 'true' : 'false'}
      onClick=${() => toggle(i)}><i class="swatch" style=${{ background: curveColour(i) }} /> <bdi>
        ${curves[i][0]}</bdi></button>`,
    )}</div></div>`;
}
