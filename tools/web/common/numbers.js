// Numbers for people.

export const FAR = 6; // usual spreads: what is called far from usual (kFarScore of report_model.cpp)

// Up to 7 digits, which is what the page holds for certain.
export function showNumber(value) {
  if (value === undefined || value === null) return '–';
  if (Number.isNaN(value)) return 'NaN';
  if (!Number.isFinite(value)) return value > 0 ? '+Inf' : '-Inf';
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size >= 1e7 || size < 1e-4) return value.toExponential(4).replace(/\.?0+e/, 'e');
  return String(Number(value.toPrecision(7)));
}

export function showShort(value) {
  if (!Number.isFinite(value) || value === 0) return showNumber(value);
  const size = Math.abs(value);
  return size >= 1e5 || size < 1e-3 ? value.toExponential(1).replace('.0e', 'e') : String(Number(value.toPrecision(3)));
}

// A cell of a table: up to 5 digits, counts whole.
export function showCell(value) {
  return Number.isInteger(value) || !Number.isFinite(value)
    ? showNumber(value)
    : showNumber(Number(value.toPrecision(5)));
}

export const showCount = (count) => count.toLocaleString('en-US');

export function lowerBound(sorted, value) {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
