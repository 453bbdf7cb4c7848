// The run inside of this page, as src/analysis/compare/page writes it: the pairs at once, rows of a pair when it is
// looked at, their figures when somebody opens one.
import { unpackJson, unpackListing } from '../common/blocks.js';
import { asFloats, cellOf, codeFromDifference, isNothing, readColumn } from '../common/columns.js';
import { SearchIndex } from '../common/search.js';
import { orderOf } from '../common/table.js';

// How a row stands, worst last.
export const STANDINGS = ['not_compared', 'identical', 'agrees', 'alone', 'drifts', 'differs'];
const STANDING_OF_CODE = [0, 1, 2, 4, 5];
export const ALONE = 3;
export const DRIFTS = 4;
export const DIFFERS = 5;

const STATES = ['input', 'output', 'kwargs', 'parameters', 'parameters_grad', 'debug'];
const IS_OUTPUT = STATES.map((state) => ['output', 'parameters_grad', 'debug'].includes(state));
const SAME = 1; // a text of the reference side that is the other side's

export class Pair {
  constructor(id, listing, kind, relative, part) {
    this.id = id;
    this.rows = listing.rows;
    this.names = listing.names;
    this.parents = listing.parents;
    this.callCount = listing.call_count;
    this.parts = listing.parts;
    this.words = listing.words;
    this.texts = listing.texts;
    this.columns = listing.columns;
    this.stacks = listing.stacks ?? [];
    this.frames = listing.frames ?? [];
    this.codeLines = listing.code_lines ?? [];
    this.stackOf = listing.stack_of ?? [];
    this.benchOnly = listing.bench_only;
    this.found = listing;
    this.kind = kind;
    this.relativeCodes = relative;
    this.relative = asFloats(relative);
    this.part = part;
    this.#sumUp(listing.row_counts);
  }

  #sumUp(rowCounts) {
    const calls = this.callCount;
    this.firstRow = new Uint32Array(calls + 1);
    this.callOf = new Uint32Array(this.rows);
    this.standing = new Uint8Array(this.rows);
    this.errorIn = new Float32Array(calls).fill(NaN);
    this.errorOut = new Float32Array(calls).fill(NaN);
    this.worst = new Uint8Array(calls);
    this.worstOut = new Uint8Array(calls);
    this.differing = new Uint32Array(calls);
    let row = 0;
    for (let call = 0; call < calls; call++) {
      this.firstRow[call] = row;
      for (const end = row + rowCounts[call]; row < end; row++) {
        this.callOf[row] = call;
        const code = this.kind[row];
        const standing = (code >> 12) & 3 ? ALONE : STANDING_OF_CODE[code & 7];
        this.standing[row] = standing;
        if (standing > this.worst[call]) this.worst[call] = standing;
        if (standing >= DRIFTS) this.differing[call]++;
        const output = IS_OUTPUT[(code >> 3) & 7];
        if (output && standing > this.worstOut[call]) this.worstOut[call] = standing;
        if (isNothing(this.relativeCodes[row])) continue;
        const errors = output ? this.errorOut : this.errorIn;
        if (!(errors[call] >= this.relative[row])) errors[call] = this.relative[row];
      }
    }
    this.firstRow[calls] = row;
  }

  nameOfRow(row) {
    const call = this.names[this.callOf[row]];
    const part = this.parts[this.part[row]];
    return part.startsWith(call) ? part : `${call}.${part}`;
  }

  // A number that rises with the name of a row.
  nameOrder(row) {
    const places = (names) => {
      const all = new Uint32Array(names.length);
      orderOf(names.length, { key: (i) => names[i] }).forEach((name, place) => {
        all[name] = place;
      });
      return all;
    };
    this.namePlaces ??= [places(this.names), places(this.parts)];
    const [ofCalls, ofParts] = this.namePlaces;
    return ofCalls[this.callOf[row]] * this.parts.length + ofParts[this.part[row]];
  }

  // Made once, when somebody searches or before.
  get callSearch() {
    return (this.calls ??= new SearchIndex(this.names.slice(0, this.callCount)));
  }

  get rowSearch() {
    return (this.all ??= new SearchIndex(
      Array.from(this.part, (part, row) => `${this.names[this.callOf[row]]}.${this.parts[part]}`),
    ));
  }

  callByName(name) {
    this.numberOf ??= new Map(this.names.slice(0, this.callCount).map((item, i) => [item, i]));
    return this.numberOf.get(name) ?? -1;
  }

  verdictOf(row) {
    return (this.kind[row] >> 8) & 15;
  }
  fillOf(row) {
    return (this.kind[row] >> 6) & 3;
  }

  stackOfCall(call) {
    const stack = this.stackOf[call] ?? -1;
    return stack < 0
      ? null
      : { line: this.codeLines[stack], frames: this.stacks[stack].map((frame) => this.frames[frame]) };
  }

  // What is beside names and errors: dtypes, shapes, statistics, metrics.
  loadFigures() {
    this.figures ??= Promise.all(
      this.columns
        .filter((name) => !['kind', 'relative', 'part'].includes(name))
        .map(async (name) => [name, await readColumn(`${this.id}_${name}`, this.rows)]),
    ).then((all) => {
      const columns = Object.fromEntries(all);
      columns.absoluteFloats = asFloats(columns.absolute);
      this.loaded = columns;
      return columns;
    });
    return this.figures;
  }

  #ofBench(row, name) {
    const code = this.loaded[`${name}_b`][row];
    return code === 0 ? null : code === SAME ? this.textOf(row, name) : this.words[code - SAME - 1];
  }

  textOf(row, name) {
    return this.words[this.loaded[name][row]];
  }

  // {name, dtype, shape, stats, md5, layout} of both sides, metrics, relation and the table's message; only when figures are loaded.
  figuresOf(row) {
    const { loaded, texts } = this;
    const stats = [0, 1, 2, 3].map((i) => loaded[`stat${i}`][row]);
    const npu = {
      name: this.nameOfRow(row),
      dtype: this.textOf(row, 'dtype'),
      shape: this.textOf(row, 'shape'),
      stats: stats.map((code) => cellOf(code, texts)),
      md5: loaded.md5 && this.textOf(row, 'md5'),
      layout: loaded.layout && this.textOf(row, 'layout'),
    };
    const name = loaded.name_b[row];
    const bench =
      name === 0
        ? null
        : {
            name: name === SAME ? npu.name : this.words[name - SAME - 1],
            dtype: this.#ofBench(row, 'dtype'),
            shape: this.#ofBench(row, 'shape'),
            stats: stats.map((code, i) => cellOf(codeFromDifference(loaded[`stat_b${i}`][row], code), texts)),
            md5: loaded.md5 && this.#ofBench(row, 'md5'),
            layout: loaded.layout && this.#ofBench(row, 'layout'),
          };
    const metrics = loaded.metric0 ? [0, 1, 2, 3, 4, 5].map((i) => cellOf(loaded[`metric${i}`][row], texts)) : null;
    return {
      npu,
      bench,
      metrics,
      message: loaded.message[row] ? this.words[loaded.message[row] - 1] : '',
      relation: loaded.relation?.[row] ? this.words[loaded.relation[row] - 1] : '',
      relative: cellOf(this.relativeCodes[row], texts),
      absolute: cellOf(loaded.absolute[row], texts),
      ownNoise: loaded.own_noise ? cellOf(loaded.own_noise[row], texts) : null,
    };
  }
}

export class Run {
  constructor(listing) {
    Object.assign(this, listing);
    this.loaded = new Map();
  }

  hasRows(index) {
    return this.pairs[index]?.rows_shown > 0;
  }

  load(index) {
    if (!this.loaded.has(index)) this.loaded.set(index, this.#load(index));
    return this.loaded.get(index);
  }

  async #load(index) {
    const id = `p${index}`;
    const count = this.pairs[index].rows_shown;
    const [listing, ...columns] = await Promise.all([
      unpackJson(id),
      ...['kind', 'relative', 'part'].map((name) => readColumn(`${id}_${name}`, count)),
    ]);
    return new Pair(id, listing, ...columns);
  }
}

export const readRun = async () => new Run(await unpackListing('run', 1));
