// Colours of curves and heat maps.

import { isDark as dark } from './theme.js';

export const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Eight that stay apart for most kinds of colour vision, on light and dark ground.
const CURVES = {
  light: ['#0b6bcb', '#d1570a', '#0a8a5f', '#b6339b', '#8a6d00', '#5b4bd6', '#c22f3d', '#3c7d8c'],
  dark: ['#5aa9ff', '#ff9a4d', '#3ecf9b', '#ef7fd6', '#e3c341', '#a79bff', '#ff7d87', '#7cc6d6'],
};
export const curveColour = (i) => CURVES[dark() ? 'dark' : 'light'][i % 8];

const hex = (text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
const pack = ([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;

// 256 steps through the anchors, as ImageData takes them (ABGR).
function ramp(anchors) {
  const points = anchors.map(hex);
  return Uint32Array.from({ length: 256 }, (_, i) => {
    const place = (i / 255) * (points.length - 1);
    const k = Math.min(Math.floor(place), points.length - 2);
    return pack(points[k].map((from, c) => Math.round(from + (points[k + 1][c] - from) * (place - k))));
  });
}

const RAMPS = {
  light: {
    diverging: ramp(['#08306b', '#2171b5', '#7fb5dc', '#eef2f6', '#f6a582', '#d6453d', '#7f0d1d']),
    rising: ramp(['#f3f6f2', '#c3e2cc', '#76c3b8', '#2f92ae', '#245d98', '#2a2a6b']),
  },
  dark: {
    diverging: ramp(['#b9dcff', '#4a9be8', '#1f5690', '#20262e', '#8f3a2c', '#e8705a', '#ffd2bf']),
    rising: ramp(['#1b2230', '#283f73', '#2a6f97', '#34a59a', '#8fd47e', '#f7f3a0']),
  },
};
export const rampOf = (kind) => RAMPS[dark() ? 'dark' : 'light'][kind];

// Not of any ramp: what is not finite must be seen at a glance.
export const SPECIAL = { nan: '#e0009e', plus: '#ff9d00', minus: '#00b2cc' };
const packed = Object.fromEntries(Object.entries(SPECIAL).map(([name, colour]) => [name, pack(hex(colour))]));
export const specialColour = (value) => (Number.isNaN(value) ? packed.nan : value > 0 ? packed.plus : packed.minus);

const DEVIATIONS = 32; // shown in full colour
const OCTAVES = 3;

// Places in a ramp, 0 .. 255, of numbers of one picture.
export function deviationScale() {
  const full = Math.log2(1 + DEVIATIONS);
  return {
    ramp: rampOf('diverging'),
    place: (value) => clamp(127.5 + (127.5 * Math.sign(value) * Math.log2(1 + Math.abs(value))) / full),
    ticks: [-DEVIATIONS, -8, -2, 0, 2, 8, DEVIATIONS].map((value) => ({
      value,
      text: value > 0 ? `+${value}` : String(value),
    })),
  };
}

export function ratioScale() {
  return {
    ramp: rampOf('diverging'),
    place: (value) => clamp(127.5 + (127.5 * value) / OCTAVES),
    ticks: [-3, -2, -1, 0, 1, 2, 3].map((value) => ({
      value,
      text: value < 0 ? `1/${2 ** -value}` : `${2 ** value}×`,
    })),
  };
}

// `log`: by size; signed numbers by the logarithm of their size, too, with zero in the middle.
export function valueScale(finite, log) {
  let low = Infinity;
  let high = -Infinity;
  let smallest = Infinity;
  for (const value of finite) {
    if (value < low) low = value;
    if (value > high) high = value;
    const size = Math.abs(value);
    if (size > 0 && size < smallest) smallest = size;
  }
  if (!(low <= high)) return { ramp: rampOf('rising'), place: () => 0, ticks: [] };
  const signed = low < 0;
  const reach = Math.max(Math.abs(low), Math.abs(high));
  const tick = (value) => ({ value });
  if (log && reach > 0) {
    // Nine powers of ten are enough to tell apart.
    const floor = Math.max(smallest, reach * 1e-9);
    const range = Math.log10(reach / floor) || 1;
    const size = (value) => Math.max(0, Math.log10(Math.abs(value) / floor)) / range;
    if (!signed) {
      return {
        ramp: rampOf('rising'),
        place: (value) => (value === 0 ? 0 : clamp(255 * size(value))),
        ticks: [floor, Math.sqrt(floor) * Math.sqrt(reach), reach].map(tick),
      };
    }
    return {
      ramp: rampOf('diverging'),
      place: (value) => clamp(127.5 + 127.5 * Math.sign(value) * size(value)),
      ticks: [-reach, 0, reach].map(tick),
    };
  }
  if (signed) {
    return {
      ramp: rampOf('diverging'),
      place: (value) => clamp(127.5 + (127.5 * value) / reach),
      ticks: [-reach, 0, reach].map(tick),
    };
  }
  const width = high - low || 1;
  return {
    ramp: rampOf('rising'),
    place: (value) => clamp((255 * (value - low)) / width),
    ticks: [low, low + width / 2, high].map(tick),
  };
}

const clamp = (place) => Math.max(0, Math.min(255, Math.round(place)));
