// The modules of a table, of one run or of two laid over each other: which there are, what is wrong
// with each, and their rows of the heat map.
import { FAR } from '../common/numbers.js';
import { deviations, reduceToSteps } from './reduce.js';

const unique = (list) => [...new Set(list)];

export const sideOf = (run) => (run.side === 'a' ? 'test' : 'reference');

// Two lists in model order as one: what only the second has stands behind what it follows there.
function inBothOrders(first, second) {
  const known = new Set(first.map((item) => item.key));
  const behind = new Map();
  let before = null;
  for (const item of second) {
    if (known.has(item.key)) before = item.key;
    else behind.set(before, [...(behind.get(before) ?? []), item]);
  }
  return [...(behind.get(null) ?? []), ...first.flatMap((item) => [item, ...(behind.get(item.key) ?? [])])];
}

// `columns`: per run what its load() gave. Returns [{key, label, main, other, only}]:
// main and other are {run, series, column} of the first and the second run; where only the second
// one has the module that is main. `only`: which of two runs has it, '' for both.
export function joinModules(runs, table, columns) {
  const [first, second] = runs.map((run, i) =>
    (run.byTable[run.tables.indexOf(table)] ?? [])
      .filter((series) => columns[i].has(series.index))
      .map((series) => ({ key: series.key, run, series, column: columns[i].get(series.index) })),
  );
  const ofSecond = new Map((second ?? []).map((item) => [item.key, item]));
  return inBothOrders(first, second ?? []).map((main) => {
    const other = main.run === runs[0] ? ofSecond.get(main.key) : undefined;
    const {
      key,
      series: { label },
    } = main;
    return { key, label, main, other, only: runs.length > 1 && !other ? sideOf(main.run) : '' };
  });
}

// How many series only one of two runs has: [first, second].
export function countOnly(runs) {
  return runs.map((run, i) => run.series.filter((series) => !runs[1 - i].find(series.key)).length);
}

export const scoreOf = ({ main: { run, series } }, op) => run.scores[run.ops.indexOf(op)]?.[series.index] ?? 0;

// What to show before anybody asked: the worst of the table.
export function firstPicks(runs, modules, op) {
  const keys = new Set(modules.map((module) => module.key));
  const broken = runs
    .flatMap((run) => run.nonFinite.map(({ step, series }) => ({ step, key: run.series[series].key })))
    .sort((a, b) => a.step - b.step)
    .filter((item) => keys.has(item.key))
    .slice(0, 1);
  const worst = modules
    .filter(({ main }) => !main.run.neverNumbers.has(main.series.index))
    .sort((a, b) => scoreOf(b, op) - scoreOf(a, op))
    .slice(0, broken.length > 0 ? 1 : 3);
  return unique([...broken, ...worst].map((item) => item.key));
}

// What the list shows beside a module.
export function badgesOf(runs, op) {
  const found = new Map(
    runs.map((run) => {
      const alerts = new Map();
      for (const item of run.alerts) if (item.series >= 0) alerts.set(item.series, (alerts.get(item.series) ?? 0) + 1);
      return [run, { alerts, broken: new Set(run.nonFinite.map((item) => item.series)) }];
    }),
  );
  const most = Math.log2(1 + 1000);
  return (module) => {
    const {
      run,
      series: { index },
    } = module.main;
    const { alerts, broken } = found.get(run);
    return {
      notFinite: broken.has(index) || run.neverNumbers.has(index),
      never: run.neverNumbers.has(index),
      alerts: alerts.get(index) ?? 0,
      share: Math.min(100, (100 * Math.log2(1 + scoreOf(module, op) / 10)) / most),
    };
  };
}

// Rows of the picture of all modules, each with its deviations.
export function moduleRows(modules, steps, how) {
  return modules.map((module) => {
    const reduced = reduceToSteps(module.main.series, module.main.column, steps, how);
    const label = module.only ? `${module.label} · ${module.only}` : module.label;
    return { label, key: module.key, module, ...reduced, deviation: deviations(reduced, module.main.run.rounding) };
  });
}

// A row of one run (A) over that of the other one (B), the reference: factors as powers of two. `other` is null where
// there is none: nothing to show then.
export function ratioRow(row, other) {
  if (!other) return { shown: row.values, present: new Uint8Array(row.values.length) };
  const shown = row.values.map((value, i) => {
    if (!other.present[i]) return 0;
    if (!Number.isFinite(value)) return value;
    if (!Number.isFinite(other.values[i])) return other.values[i];
    const [a, b] = [Math.abs(value), Math.abs(other.values[i])];
    // From or to zero: as far as the scale reaches.
    return a === b ? 0 : Math.max(-64, Math.min(64, Math.log2(a / b) || 0));
  });
  const present = row.present.map((there, i) => there & other.present[i]);
  return { shown, other: other.values, present };
}

// Per step how many modules are far from usual.
export function oddSteps(rows, steps) {
  const counts = new Float64Array(steps.length);
  for (const {
    module: { main },
    present,
    deviation,
  } of rows) {
    if (main.run.neverNumbers.has(main.series.index)) continue;
    for (let i = 0; i < counts.length; i++) if (present[i] && !(Math.abs(deviation[i]) <= FAR)) counts[i]++;
  }
  return { steps, counts: Array.from(counts) };
}
