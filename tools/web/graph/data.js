// The graphs inside of this page, as src/analysis/graph/graph_page.cpp writes them: the list of ranks at once, the
// trees of a rank when it is looked at, then its tensors. Where they come from is one object with two functions: this
// file, or `msprobe serve`, which hands out the same parts one by one.
import { checkedListing, jsonOf, unpackJson } from '../common/blocks.js';
import { asFloats, cellOf, columnOf, isNothing, readColumn } from '../common/columns.js';
import { SearchIndex } from '../common/search.js';

// How a node stands, worst last; ALONE: it has no partner.
export const STANDINGS = ['not_compared', 'identical', 'agrees', 'alone', 'drifts', 'differs'];
export const ALONE = 3;
export const DRIFTS = 4;
export const DIFFERS = 5;
export const FIGURES = ['', 'pass', 'warning', 'error'];
export const LEVELS = ['', 'medium', 'high', 'critical'];
const TYPES = { 0: 'module', 1: 'call', 9: 'collection' };

const embedded = { json: unpackJson, column: readColumn };

// Asks the server that this page came from: its address, followed by '?' and the part's name.
async function ask(name) {
  const answer = await fetch(`?${name}`);
  const bytes = new Uint8Array(await answer.arrayBuffer());
  if (!answer.ok) throw new Error(new TextDecoder().decode(bytes));
  return bytes;
}
const served = {
  json: async (name) => jsonOf(await ask(name)),
  column: async (name, count) => columnOf(await ask(name), count),
};

class Side {
  constructor(names, columns, words) {
    this.names = names;
    this.count = names.length;
    this.parents = columns.parent;
    this.types = columns.type;
    this.micro = columns.micro;
    this.stacks = columns.stack;
    this.words = words;
    this.children = names.map(() => []);
    const order = new Uint32Array(this.count).map((_, i) => i).sort((a, b) => columns.place[a] - columns.place[b]);
    for (const node of order) if (this.parents[node] > 0) this.children[this.parents[node] - 1].push(node);
  }

  parentOf(node) {
    return this.parents[node] - 1;
  }
  typeOf(node) {
    return TYPES[this.types[node]] ?? 'module';
  }

  pathOf(node) {
    const path = [];
    for (let at = node; at >= 0 && path.length <= this.count; at = this.parentOf(at)) path.unshift(at);
    return path;
  }

  stackOf(node) {
    const stack = this.stacks[node];
    return stack === 0 ? [] : this.words.stacks[stack - 1].map((frame) => this.words.frames[frame]);
  }
}

export class Rank {
  constructor(source, id, listing, columns, about) {
    this.source = source;
    this.id = id;
    this.about = about;
    this.listing = listing;
    const side = (prefix) =>
      Object.fromEntries(
        ['parent', 'place', 'type', 'micro', 'stack'].map((name) => [name, columns[`${prefix}_${name}`]]),
      );
    this.npu = new Side(listing.names, side('n'), listing);
    this.bench = null;
    this.match = columns.match ?? null;
    if (listing.bench_names) {
      const partner = new Int32Array(listing.bench_nodes).fill(-1);
      this.match.forEach((place, node) => {
        if (place > 0) partner[place - 1] = node;
      });
      this.partner = partner;
      this.bench = new Side(
        listing.bench_names.map((name, i) => name || listing.names[partner[i]]),
        side('b'),
        listing,
      );
    }
    this.codes = columns.code;
    this.errorIn = asFloats(columns.in);
    this.errorOut = asFloats(columns.out);
    this.inCodes = columns.in;
    this.outCodes = columns.out;
    this.#sumUp();
  }

  standingOf(node) {
    return this.match && this.match[node] === 0 ? ALONE : this.codes[node] & 15;
  }
  figureOf(node) {
    return (this.codes[node] >> 4) & 15;
  }
  levelOf(node) {
    return (this.codes[node] >> 8) & 15;
  }
  errorOf(codes, node) {
    return isNothing(codes[node]) ? null : cellOf(codes[node], this.listing.texts);
  }

  // For each node of the test side and all below it: the worst standing, figure and error.
  #sumUp() {
    const { npu } = this;
    this.worst = new Uint8Array(npu.count);
    this.worstFigure = new Uint8Array(npu.count);
    this.worstError = new Float32Array(npu.count).fill(NaN);
    this.worstLevel = new Uint8Array(npu.count);
    const order = [];
    const open = [0];
    while (open.length > 0) {
      const node = open.pop();
      order.push(node);
      for (const child of npu.children[node]) open.push(child);
    }
    for (let k = order.length - 1; k >= 0; k--) {
      const node = order[k];
      this.worst[node] = Math.max(this.worst[node], this.standingOf(node));
      this.worstFigure[node] = Math.max(this.worstFigure[node], this.figureOf(node));
      this.worstLevel[node] = Math.max(this.worstLevel[node], this.levelOf(node));
      const own = this.errorOut[node];
      if (!isNothing(this.outCodes[node]) && !(this.worstError[node] >= own)) this.worstError[node] = own;
      const parent = npu.parentOf(node);
      if (parent < 0) continue;
      this.worst[parent] = Math.max(this.worst[parent], this.worst[node]);
      this.worstFigure[parent] = Math.max(this.worstFigure[parent], this.worstFigure[node]);
      this.worstLevel[parent] = Math.max(this.worstLevel[parent], this.worstLevel[node]);
      if (!Number.isNaN(this.worstError[node]) && !(this.worstError[parent] >= this.worstError[node]))
        this.worstError[parent] = this.worstError[node];
    }
    // The nodes of the reference that have no partner.
    this.alone = [];
    if (this.bench)
      for (let node = 0; node < this.bench.count; node++) if (this.partner[node] < 0) this.alone.push(node);
  }

  nodeByName(name) {
    this.byName ??= new Map(this.npu.names.map((item, i) => [item, i]));
    return this.byName.get(name) ?? -1;
  }

  // Names, and the lines of the stacks.
  get search() {
    this.index ??= new SearchIndex(
      this.npu.names.map((name, node) => `${name} ${this.npu.typeOf(node)} ${this.npu.stackOf(node)[0] ?? ''}`),
    );
    return this.index;
  }

  // Nodes that fit; all of them where the query has no words.
  find(query) {
    const fits = this.search.match(query);
    const nodes = [];
    for (let node = 0; node < this.npu.count; node++) if (!fits || fits[node]) nodes.push(node);
    return nodes;
  }

  get isReady() {
    return this.tensors !== undefined;
  }

  // {rowsOf(node, ofBench)}; null where the page has no tensors of this rank.
  loadTensors() {
    this.loading ??= this.#loadTensors();
    return this.loading;
  }

  async #loadTensors() {
    if (!this.about.has_tensors) {
      this.tensors = null;
      return null;
    }
    const listing = await this.source.json(`${this.id}_tensors`);
    const names = ['label', 'dtype', 'shape', 'sum', 'stat0', 'stat1', 'stat2', 'stat3'];
    const read = async (prefix, nodes, rows) => {
      const [counts, ...columns] = await Promise.all([
        this.source.column(`${this.id}_${prefix}_rows`, nodes),
        ...names.map((name) => this.source.column(`${this.id}_${prefix}_${name}`, rows)),
      ]);
      const first = new Uint32Array(nodes + 1);
      for (let i = 0; i < nodes; i++) first[i + 1] = first[i] + counts[i];
      return { first, ...Object.fromEntries(names.map((name, i) => [name, columns[i]])) };
    };
    const npu = await read('t', this.npu.count, listing.rows);
    npu.error = await this.source.column(`${this.id}_error`, listing.rows);
    const bench = this.bench ? await read('u', this.bench.count, listing.bench_rows) : null;
    this.tensors = new Tensors(listing, npu, bench);
    return this.tensors;
  }
}

class Tensors {
  constructor(listing, npu, bench) {
    this.listing = listing;
    this.npu = npu;
    this.bench = bench;
  }

  #row(side, i) {
    const { words, texts } = this.listing;
    return {
      label: words[side.label[i]],
      dtype: words[side.dtype[i]],
      shape: words[side.shape[i]],
      sum: words[side.sum[i]],
      stats: [0, 1, 2, 3].map((k) => cellOf(side[`stat${k}`][i], texts)),
      error: side.error && !isNothing(side.error[i]) ? cellOf(side.error[i], texts) : null,
    };
  }

  rowsOf(node, ofBench = false) {
    const side = ofBench ? this.bench : this.npu;
    if (!side || node < 0) return [];
    const rows = [];
    for (let i = side.first[node]; i < side.first[node + 1]; i++) rows.push(this.#row(side, i));
    return rows;
  }

  #isOutput(i) {
    return this.listing.words[this.npu.label[i]].startsWith('output');
  }

  // What tells one tensor from others: dtype, shape and statistics. The dump does not record which tensor goes where.
  #keyOf(i) {
    const { npu } = this;
    return `${npu.dtype[i]} ${npu.shape[i]} ${npu.stat0[i]} ${npu.stat1[i]} ${npu.stat2[i]} ${npu.stat3[i]}`;
  }

  // Nodes that receive a tensor equal to an output of `node`.
  consumersOf(node) {
    if (!this.receivers) {
      this.receivers = new Map();
      for (let at = 0; at + 1 < this.npu.first.length; at++) {
        for (let i = this.npu.first[at]; i < this.npu.first[at + 1]; i++) {
          if (this.#isOutput(i) || isNothing(this.npu.stat3[i]) || !this.listing.words[this.npu.shape[i]].includes(','))
            continue;
          const key = this.#keyOf(i);
          const list = this.receivers.get(key);
          if (!list) this.receivers.set(key, [at]);
          else if (list[list.length - 1] !== at) list.push(at);
        }
      }
    }
    const found = new Set();
    for (let i = this.npu.first[node]; i < this.npu.first[node + 1]; i++) {
      if (this.#isOutput(i))
        for (const other of this.receivers.get(this.#keyOf(i)) ?? []) if (other !== node) found.add(other);
    }
    return [...found];
  }
}

export class Run {
  constructor(listing, source) {
    Object.assign(this, listing);
    this.source = source;
    this.loaded = new Map();
  }

  load(index) {
    if (!this.loaded.has(index)) this.loaded.set(index, this.#load(index));
    return this.loaded.get(index);
  }

  async #load(index) {
    const id = `g${index}`;
    const about = this.ranks[index];
    const listing = await this.source.json(id);
    Object.assign(about, listing.counts); // of a served graph they are known now
    const names = (prefix) => ['parent', 'place', 'type', 'micro', 'stack'].map((name) => `${prefix}_${name}`);
    const wanted = [
      ...names('n').map((name) => [name, listing.nodes]),
      ...['code', 'in', 'out'].map((name) => [name, listing.nodes]),
    ];
    if (listing.bench_names)
      wanted.push(...names('b').map((name) => [name, listing.bench_nodes]), ['match', listing.nodes]);
    const columns = await Promise.all(wanted.map(([name, count]) => this.source.column(`${id}_${name}`, count)));
    return new Rank(this.source, id, listing, Object.fromEntries(wanted.map(([name], i) => [name, columns[i]])), about);
  }
}

export async function readRun() {
  const source = document.querySelector('meta[name="msprobe-parts"]') ? served : embedded;
  return new Run(checkedListing(await source.json('run'), 1), source);
}
