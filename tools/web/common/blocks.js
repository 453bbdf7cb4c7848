import { addChinese } from './chinese.js';

// The blocks of data inside of a page, as src/report/web_page.cpp writes them: deflate in base 85.
const DIGITS = '!#%()*+,./0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_abcdefghijklmnopqrstuvwxyz{|}~';
const DIGIT_OF = new Uint8Array(128);
for (let i = 0; i < DIGITS.length; i++) DIGIT_OF[DIGITS.charCodeAt(i)] = i;

// Through bytes: reading a string of megabytes letter by letter takes a hundred times as long.
function bytesOf(text) {
  const letters = new TextEncoder().encode(text);
  const bytes = new Uint8Array(Math.floor((letters.length * 4) / 5));
  const last = DIGITS.length - 1;
  for (let i = 0, at = 0; i < letters.length; i += 5, at += 4) {
    let group = 0;
    for (let k = 0; k < 5; k++) group = group * 85 + (i + k < letters.length ? DIGIT_OF[letters[i + k]] : last);
    bytes[at] = group >>> 24; // the last group may reach beyond the array: that is left out
    bytes[at + 1] = group >>> 16;
    bytes[at + 2] = group >>> 8;
    bytes[at + 3] = group;
  }
  return bytes;
}

export async function unpack(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`this file lacks its part "${id}": was it cut?`);
  const stream = new Blob([bytesOf(element.textContent)]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

export const jsonOf = (bytes) => JSON.parse(new TextDecoder().decode(bytes));
export const unpackJson = async (id) => {
  const value = jsonOf(await unpack(id));
  addChinese(value.zh);
  return value;
};

// A listing of a format that this page reads.
export const unpackListing = async (id, format) => checkedListing(await unpackJson(id), format);

export function checkedListing(listing, format) {
  if (listing.format !== format) throw new Error(`the data are of format ${listing.format}, this page reads ${format}`);
  return listing;
}
