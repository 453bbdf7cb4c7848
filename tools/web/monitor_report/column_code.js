// Columns of numbers as src/analysis/monitor/report/report.h packs them.

const KIND_FLOAT = 16;
const KIND_DOUBLE = 17;
const KIND_ABSENT = 255;
const SPECIAL = [NaN, Infinity, -Infinity];

const floatBits = new Int32Array(1);
const floatValue = new Float32Array(floatBits.buffer);

function floatOf(integer) {
  floatBits[0] = integer >= 0 ? integer : (-integer - 1) | 0x80000000;
  return floatValue[0];
}

function doublesOf(codes, planes) {
  const bytes = new Uint8Array(8 * codes.length);
  planes.forEach((plane, p) => {
    for (let i = 0; i < codes.length; i++) bytes[8 * i + p] = plane[i];
  });
  const view = new DataView(bytes.buffer);
  return codes.map((_, i) => view.getFloat64(8 * i, true));
}

// One column; `planes` are views of its bytes, the lowest first.
function decodeColumn(kind, distance, planes, length) {
  const values = new Float64Array(length);
  if (kind === KIND_DOUBLE) return doublesOf(values, planes);
  for (let p = planes.length - 1; p >= 0; p--) {
    const plane = planes[p];
    for (let i = 0; i < length; i++) values[i] = values[i] * 256 + plane[i];
  }
  const integers = new Float64Array(length);
  const scale = kind < KIND_FLOAT ? 10 ** kind : 0;
  for (let i = 0; i < length; i++) {
    const before = distance > 0 && i >= distance ? integers[i - distance] : 0;
    const code = values[i];
    if (code < SPECIAL.length) {
      integers[i] = before;
      values[i] = SPECIAL[code];
      continue;
    }
    const zigzag = code - SPECIAL.length;
    const integer = before + (zigzag % 2 === 0 ? zigzag / 2 : -(zigzag + 1) / 2);
    integers[i] = integer;
    values[i] = kind === KIND_FLOAT ? floatOf(integer) : integer / scale;
  }
  return values;
}

// `shapes`: per column {length, rankDistance}. Returns per column a Float64Array, or null where the
// series lacks the statistic.
export function decodeColumns(bytes, shapes) {
  const heads = shapes.map((shape, i) => ({
    ...shape,
    kind: bytes[4 * i],
    distance: [0, 1, shape.rankDistance][bytes[4 * i + 1]],
    count: bytes[4 * i + 2],
    planes: [],
  }));
  let at = 4 * shapes.length;
  for (let plane = 0; plane < 8; plane++) {
    for (const head of heads) {
      if (head.count <= plane) continue;
      head.planes.push(bytes.subarray(at, at + head.length));
      at += head.length;
    }
  }
  return heads.map((head) =>
    head.kind === KIND_ABSENT ? null : decodeColumn(head.kind, head.distance, head.planes, head.length),
  );
}
