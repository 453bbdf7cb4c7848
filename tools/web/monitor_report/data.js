// The runs inside of this page: what is listed at once, columns of numbers when they are asked for.
import { unpack, unpackListing } from '../common/blocks.js';
import { decodeColumns } from './column_code.js';

function expandGrid(groups) {
  const length = groups.reduce((sum, group) => sum + group[1], 0);
  const steps = new Float64Array(length);
  const parts = [];
  let at = 0;
  for (const [rank, count, first, by] of groups) {
    parts.push({ rank, begin: at, end: at + count });
    for (let i = 0; i < count; i++) steps[at + i] = Array.isArray(first) ? first[i] : first + i * by;
    at += count;
  }
  return { length, steps, parts, rankDistance: groups.length ? groups[0][1] : 0 };
}

// The root module has no name: its rows are called ".input".
const shownName = (name) => (name === '' || name.startsWith('.') ? `(root)${name}` : name);

export class Run {
  constructor(listing, side) {
    this.side = side;
    this.name = listing.name;
    this.rows = listing.rows;
    this.rounding = listing.rounding; // what all numbers are multiples of; 0: of nothing in common
    this.unmeasured = listing.unmeasured;
    this.warnings = listing.warnings;
    this.tables = listing.tables;
    this.ops = listing.ops;
    this.grids = listing.grids.map(expandGrid);
    this.tableOps = listing.table_ops; // per table, places in ops
    this.scores = listing.scores;
    this.nonFinite = listing.non_finite.map(([series, op, count, step, rank]) => ({ series, op, count, step, rank }));
    this.peaks = new Map(listing.peaks.map(([series, op, step, rank]) => [`${series} ${op}`, { step, rank }]));
    this.neverNumbers = new Set(listing.never_numbers);
    this.alertCount = listing.alert_count;
    this.alertSteps = [];
    for (let i = 0; i < listing.alert_steps.length; i += 2) {
      this.alertSteps.push({ step: listing.alert_steps[i], count: listing.alert_steps[i + 1] });
    }
    this.alerts = listing.alerts.map(([step, rank, series, tag, message]) => ({ step, rank, series, tag, message }));
    this.chunks = [];
    for (let i = 0; i < listing.chunks.length; i += 2) {
      this.chunks.push({ id: i / 2, first: listing.chunks[i], count: listing.chunks[i + 1] });
    }
    this.series = this.#nameSeries(listing.series);
    this.byTable = this.tables.map(() => []);
    for (const series of this.series) this.byTable[series.table].push(series);
    this.loaded = new Map();
    const ranks = new Set();
    let first = Infinity;
    let last = -Infinity;
    for (const grid of this.grids) {
      for (const part of grid.parts) {
        ranks.add(part.rank);
        first = Math.min(first, grid.steps[part.begin]);
        last = Math.max(last, grid.steps[part.end - 1]);
      }
    }
    this.ranks = [...ranks].sort((a, b) => a - b);
    this.firstStep = first;
    this.lastStep = last;
  }

  // The stage and the micro step are shown where there are several.
  #nameSeries(listed) {
    const stages = new Set(listed.map((item) => item[1]));
    const microSteps = this.tables.map(() => new Set());
    for (const item of listed) microSteps[item[0]].add(item[3]);
    return listed.map(([table, stage, name, microStep, grid], index) => {
      const micro = microStep >= 0 && microSteps[table].size > 1 ? ` · ${microStep}` : '';
      const label = `${stages.size > 1 ? `${stage}:` : ''}${shownName(name)}${micro}`;
      return {
        index,
        table,
        stage,
        name,
        microStep,
        grid: this.grids[grid],
        label,
        key: JSON.stringify([this.tables[table], stage, name, microStep]),
      };
    });
  }

  // The statistics of a table, its main one first.
  opsOf(tableName) {
    return (this.tableOps[this.tables.indexOf(tableName)] ?? []).map((op) => this.ops[op]);
  }

  // Columns of one statistic of a table, by the index of the series: Map(index -> Float64Array).
  load(tableName, opName) {
    const [table, op] = [this.tables.indexOf(tableName), this.ops.indexOf(opName)];
    if (!this.tableOps[table]?.includes(op)) return new Map();
    const key = `${table} ${op}`;
    if (!this.loaded.has(key)) this.loaded.set(key, this.#load(table, op));
    return this.loaded.get(key);
  }

  async #load(table, op) {
    const columns = new Map();
    const chunks = this.chunks.filter((chunk) => this.series[chunk.first].table === table);
    await Promise.all(
      chunks.map(async (chunk) => {
        const members = this.series.slice(chunk.first, chunk.first + chunk.count);
        const bytes = await unpack(`${this.side}${chunk.id}_${op}`);
        const shapes = members.map((series) => ({
          length: series.grid.length,
          rankDistance: series.grid.rankDistance,
        }));
        decodeColumns(bytes, shapes).forEach((values, i) => values && columns.set(members[i].index, values));
      }),
    );
    return columns;
  }

  find(key) {
    this.byKey ??= new Map(this.series.map((series) => [series.key, series]));
    return this.byKey.get(key);
  }
}

export async function readRuns() {
  const listing = await unpackListing('listing', 1);
  const runs = listing.runs.map((run, i) => new Run(run, 'ab'[i]));
  // Where two runs diverge: {compared, first: {table, op, step, name, ...} or null}; null for one run.
  runs.divergence = listing.divergence;
  return runs;
}

// All steps of a table, rising.
export function stepsOf(runs, tableName) {
  const all = new Set();
  for (const run of runs) {
    const seen = new Set();
    for (const series of run.byTable[run.tables.indexOf(tableName)] ?? []) {
      if (seen.has(series.grid)) continue;
      seen.add(series.grid);
      for (const step of series.grid.steps) all.add(step);
    }
  }
  return Float64Array.from(all).sort();
}
