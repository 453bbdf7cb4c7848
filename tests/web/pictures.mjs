// Pictures for the docs: small PNG files with a palette, made of what a browser shows.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { deflateSync } from 'node:zlib';
import { browser, facts, open, settled } from './browser.mjs';

const MOST_BYTES = 150_000;

// Runs in the browser: {width, height, palette: [r, g, b, ...], pixels: base64 of places in the palette}. 128 frequent colours
// stay, and 128 that are far from all others: none is lost for being seldom. The rest becomes the nearest of them.
async function reduceColours(png) {
  const bitmap = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
  const { width, height } = bitmap;
  const context = new OffscreenCanvas(width, height).getContext('2d');
  context.drawImage(bitmap, 0, 0);
  const { data } = context.getImageData(0, 0, width, height);
  const colourAt = (i) => (data[4 * i] << 16) | (data[4 * i + 1] << 8) | data[4 * i + 2];
  const counts = new Map();
  for (let i = 0; i < width * height; i++) counts.set(colourAt(i), (counts.get(colourAt(i)) ?? 0) + 1);
  const distance = (a, b) => [16, 8, 0].reduce((sum, shift) => sum + (((a >> shift) & 255) - ((b >> shift) & 255)) ** 2, 0);
  const colours = [...counts].sort((a, b) => b[1] - a[1]).map(([colour]) => colour);
  const kept = colours.slice(0, 128);
  const nearest = colours.map((colour) => kept.reduce((least, item) => Math.min(least, distance(colour, item)), Infinity));
  while (kept.length < 256) {
    const farthest = nearest.reduce((best, item, i) => (item > nearest[best] ? i : best), 0);
    if (nearest[farthest] === 0) break;
    kept.push(colours[farthest]);
    colours.forEach((colour, i) => { nearest[i] = Math.min(nearest[i], distance(colour, colours[farthest])); });
  }
  const placeOf = new Map(colours.map((colour) => {
    let best = 0;
    for (let k = 1; k < kept.length; k++) if (distance(colour, kept[k]) < distance(colour, kept[best])) best = k;
    return [colour, best];
  }));
  let pixels = '';
  for (let i = 0; i < width * height; i++) pixels += String.fromCharCode(placeOf.get(colourAt(i)));
  return { width, height, palette: kept.flatMap((colour) => [colour >> 16, (colour >> 8) & 255, colour & 255]), pixels: btoa(pixels) };
}

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value;
});

function chunk(type, content) {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), content]);
  const [length, crc] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(content.length);
  crc.writeUInt32BE((body.reduce((value, byte) => CRC_TABLE[(value ^ byte) & 255] ^ (value >>> 8), 0xffffffff) ^ 0xffffffff) >>> 0);
  return Buffer.concat([length, body, crc]);
}

function encode({ width, height, palette, pixels }) {
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 3, 0, 0, 0], 8);  // 8 bits, places in a palette
  const places = Buffer.from(pixels, 'base64');
  const rows = Buffer.alloc((width + 1) * height);  // a 0 before each: not filtered
  for (let y = 0; y < height; y++) places.copy(rows, y * (width + 1) + 1, y * width, (y + 1) * width);
  return Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), chunk('IHDR', head), chunk('PLTE', Buffer.from(palette)),
    chunk('IDAT', deflateSync(rows, { level: 9, memLevel: 9 })), chunk('IEND', Buffer.alloc(0))]);
}

// A picture NAME of a page, as `prepare(page)` leaves it. `options`: those of open().
export async function takePicture(name, file, options, prepare) {
  const { page, close } = await open(file, { width: 1100, ...options });
  await page.waitForTimeout(500);
  await prepare?.(page);
  await page.mouse.move(0, 0);
  await settled(page);
  const shot = (await page.screenshot()).toString('base64');
  await close();
  const context = await browser.newContext();
  const picture = encode(await (await context.newPage()).evaluate(reduceColours, shot));
  await context.close();
  if (picture.length > MOST_BYTES) throw new Error(`${name}: ${picture.length} bytes are too many for the docs`);
  writeFileSync(join(facts.pictures, name), picture);
  console.log(`  ${name.padEnd(36)} ${Math.round(picture.length / 1000)} kB`);
}
