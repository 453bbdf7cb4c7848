// Columns of a table's numbers, as src/report/web_page.cpp writes them.
import { unpack } from './blocks.js';

// One column of 32-bit values.
export const readColumn = async (id, count) => columnOf(await unpack(id), count);

export function columnOf(bytes, count) {
  const values = new Uint32Array(count);
  for (let plane = 0; plane < bytes[0]; plane++) {
    const from = 1 + plane * count;
    for (let i = 0; i < count; i++) values[i] |= bytes[from + i] << (8 * plane);
  }
  return values;
}

const NOTHING = 0x7fe00000;
const isText = (code) => (code & 0xfff00000) === 0x7fd00000;
const scratch = new Uint32Array(1);
const scratchFloat = new Float32Array(scratch.buffer);

// What a code stands for: a number, a text, or null for nothing.
export function cellOf(code, texts) {
  if (code === NOTHING) return null;
  if (isText(code)) return texts[code & 0xfffff];
  scratch[0] = code;
  return scratchFloat[0];
}

// Codes as numbers; texts and nothing are NaN. Shares the memory of `codes`.
export const asFloats = (codes) => new Float32Array(codes.buffer);
export const isNothing = (code) => code === NOTHING;

const inOrder = (bits) => (bits & 0x80000000 ? ~bits : bits | 0x80000000) >>> 0;
const fromOrder = (value) => (value & 0x80000000 ? value & 0x7fffffff : ~value) >>> 0;

// The code that a difference of codes was taken from.
export function codeFromDifference(difference, base) {
  const signed = (difference >>> 1) ^ -(difference & 1);
  return fromOrder((inOrder(base) + signed) >>> 0);
}
