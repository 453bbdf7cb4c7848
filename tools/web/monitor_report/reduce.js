// From a column over (rank, step) to one number per step.

// What is not finite on any rank must be seen: NaN before infinities; undefined when all are finite.
function worstOf(values, count) {
  let infinite;
  for (let i = 0; i < count; i++) {
    if (Number.isNaN(values[i])) return NaN;
    if (!Number.isFinite(values[i])) infinite ??= values[i];
  }
  return infinite;
}

function median(values, count) {
  // Few ranks: an insertion sort in place beats everything else.
  for (let i = 1; i < count; i++) {
    const value = values[i];
    let at = i;
    for (; at > 0 && values[at - 1] > value; at--) values[at] = values[at - 1];
    values[at] = value;
  }
  const middle = count >> 1;
  return count % 2 === 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

function extreme(values, count, better) {
  let best = values[0];
  for (let i = 1; i < count; i++) if (better(values[i], best)) best = values[i];
  return best;
}

const largest = (values, count) => extreme(values, count, (a, b) => Math.abs(a) > Math.abs(b));
const highest = (values, count) => extreme(values, count, (a, b) => a > b);
const lowest = (values, count) => extreme(values, count, (a, b) => a < b);
const REDUCTIONS = {
  median,
  largest,
  highest,
  lowest,
  spread: (values, count) => highest(values, count) - lowest(values, count),
};

// How to get from steps of a table to places of a grid; the same for all series that share the grid.
function placesOf(grid, steps) {
  grid.places ??= new Map();
  if (!grid.places.has(steps)) {
    const columnOf = new Map();
    steps.forEach((step, i) => columnOf.set(step, i));
    grid.places.set(
      steps,
      Int32Array.from(grid.steps, (step) => columnOf.get(step)),
    );
  }
  return grid.places.get(steps);
}

// `how`: a name of REDUCTIONS over all ranks, or the number of a rank. Returns {values, present}:
// values[i] belongs to steps[i] where present[i] is 1.
export function reduceToSteps(series, column, steps, how) {
  const values = new Float64Array(steps.length);
  const present = new Uint8Array(steps.length);
  if (!column) return { values, present };
  const { grid } = series;
  const places = placesOf(grid, steps);
  const wanted = typeof how === 'number' ? grid.parts.filter((part) => part.rank === how) : grid.parts;
  if (wanted.length <= 1) {
    for (const part of wanted) {
      for (let i = part.begin; i < part.end; i++) {
        values[places[i]] = how === 'spread' && Number.isFinite(column[i]) ? 0 : column[i];
        present[places[i]] = 1;
      }
    }
    return { values, present };
  }
  const cursors = wanted.map((part) => part.begin);
  const reduce = REDUCTIONS[how];
  const scratch = new Float64Array(wanted.length);
  for (let step = 0; step < steps.length; step++) {
    let count = 0;
    for (let p = 0; p < wanted.length; p++) {
      if (cursors[p] < wanted[p].end && places[cursors[p]] === step) scratch[count++] = column[cursors[p]++];
    }
    if (count === 0) continue;
    present[step] = 1;
    values[step] = worstOf(scratch, count) ?? reduce(scratch, count);
  }
  return { values, present };
}

// Rows of a picture, {values, present} of one series per rank.
export function ranksToSteps(series, column, steps) {
  return series.grid.parts.map((part) => ({ rank: part.rank, ...reduceToSteps(series, column, steps, part.rank) }));
}

const SPREAD_OF_ZEROS = 1e-6;

// Distance from the row's median in units of its usual distance, as series_score.h judges; only
// finite numbers count.
export function deviations({ values, present }, rounding) {
  const finite = [];
  for (let i = 0; i < values.length; i++) if (present[i] && Number.isFinite(values[i])) finite.push(values[i]);
  const result = Float64Array.from(values);
  if (finite.length < 3) {
    for (let i = 0; i < result.length; i++) if (Number.isFinite(result[i])) result[i] = 0;
    return result;
  }
  const sorted = Float64Array.from(finite).sort();
  const middle = sorted[sorted.length >> 1];
  const distances = sorted.map((value) => Math.abs(value - middle)).sort();
  const spread =
    Math.max(1.4826 * distances[distances.length >> 1], 1e-3 * Math.abs(middle), rounding) || SPREAD_OF_ZEROS;
  for (let i = 0; i < result.length; i++) {
    if (Number.isFinite(result[i])) result[i] = (result[i] - middle) / spread;
  }
  return result;
}
