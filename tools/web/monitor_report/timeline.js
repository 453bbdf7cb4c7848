// The whole run on one strip: alerts, what is not finite, how many modules are far from usual; and
// the window of steps that everything below shows.
import { useRef } from 'preact/hooks';
import { Canvas, html } from '../common/html.js';
import { style, SPECIAL } from '../common/colours.js';

const HEIGHT = 58;
const EDGE = 6; // pixels around an edge of the window that take hold of it

export function Timeline({ t, first, last, zoom, onZoom, alertSteps, notFiniteSteps, odd }) {
  const drag = useRef(null);
  const width = Math.max(last - first, 1);
  const toX = (step, pixels) => ((step - first) / width) * (pixels - 2) + 1;
  const toStep = (x, pixels) => first + ((x - 1) / (pixels - 2)) * width;
  const [low, high] = zoom ?? [first, last];

  const draw = (context, pixels, height) => {
    context.clearRect(0, 0, pixels, height);
    const most = Math.max(1, ...odd.counts);
    context.fillStyle = style('--odd');
    const bar = Math.min(14, Math.max(1, (pixels / Math.max(odd.steps.length, 1)) * 0.85));
    odd.counts.forEach((count, i) => {
      if (count > 0) {
        const size = Math.max(2, (count / most) * (height - 20));
        context.fillRect(toX(odd.steps[i], pixels) - bar / 2, height - size, bar, size);
      }
    });
    context.fillStyle = style('--alert');
    for (const { step } of alertSteps) context.fillRect(toX(step, pixels) - 1, 0, 2, 8);
    context.fillStyle = SPECIAL.nan;
    for (const step of notFiniteSteps) context.fillRect(toX(step, pixels) - 1.5, 9, 3, 8);
    if (zoom) {
      context.fillStyle = style('--veil');
      context.fillRect(0, 0, toX(low, pixels), height);
      context.fillRect(toX(high, pixels), 0, pixels, height);
      context.fillStyle = style('--accent');
      for (const edge of [low, high]) context.fillRect(toX(edge, pixels) - 1, 0, 2, height);
    }
  };

  const place = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    return { x: event.clientX - box.left, pixels: box.width };
  };
  const onPointerDown = (event) => {
    if (event.button !== 0) return;
    const { x, pixels } = place(event);
    event.currentTarget.setPointerCapture(event.pointerId);
    const [left, right] = [toX(low, pixels), toX(high, pixels)];
    const start = toStep(x, pixels);
    if (zoom && Math.abs(x - left) <= EDGE) drag.current = { kind: 'range', anchor: high };
    else if (zoom && Math.abs(x - right) <= EDGE) drag.current = { kind: 'range', anchor: low };
    else if (zoom && x > left && x < right) drag.current = { kind: 'move', start, low, high };
    else drag.current = { kind: 'range', anchor: start };
  };
  const onPointerMove = (event) => {
    const { x, pixels } = place(event);
    const now = drag.current;
    if (!now) {
      const near = zoom && Math.min(Math.abs(x - toX(low, pixels)), Math.abs(x - toX(high, pixels))) <= EDGE;
      event.currentTarget.style.cursor = near
        ? 'ew-resize'
        : zoom && x > toX(low, pixels) && x < toX(high, pixels)
          ? 'grab'
          : 'crosshair';
      return;
    }
    const step = toStep(x, pixels);
    if (now.kind === 'move') {
      const shift = Math.max(first - now.low, Math.min(last - now.high, step - now.start));
      onZoom([now.low + shift, now.high + shift]);
    } else {
      const range = [Math.min(now.anchor, step), Math.max(now.anchor, step)];
      if ((range[1] - range[0]) / width > 0.004) onZoom([Math.max(first, range[0]), Math.min(last, range[1])]);
    }
  };
  const onPointerUp = () => {
    drag.current = null;
  };

  return html`<div class="timeline">
    <${Canvas} id="timeline" height=${HEIGHT} draw=${draw} title=${t('brush_hint')}
      dependencies=${[low, high, zoom === null, odd, alertSteps, notFiniteSteps]}
      onPointerDown=${onPointerDown} onPointerMove=${onPointerMove} onPointerUp=${onPointerUp}
        onPointerCancel=${onPointerUp}
      onDblClick=${() => onZoom(null)} />
    <div class="legend">
      <span><i class="mark alert" />${t('alerts')}</span><span><i class="mark nan" />${t('not_finite')}</span>
      <span><i class="mark odd" />${t('odd_modules')}</span>
    </div></div>`;
}
