// Calls as a tree of modules: by what the dump says contains each call, else by the paths of modules.
import { DRIFTS } from './data.js';

const MODULE = /^(Module|Cell)\.(.+)\.([^.]+)\.(forward|backward)\.(\d+)$/;
const GRADIENTS = /^(Module|Cell)\.(.+)\.([^.]+)\.parameters_grad$/;
const CALL = /^([^.]+\..+)\.(\d+)\.(forward|backward)$/;

function partsOf(name) {
  let found = MODULE.exec(name);
  if (found) return { path: found[2], about: found[3], direction: found[4], call: found[5] };
  found = GRADIENTS.exec(name);
  if (found) return { path: found[2], about: found[3], direction: 'gradients' };
  found = CALL.exec(name);
  return found ? { short: found[1], direction: found[3], call: found[2] } : { short: name };
}

// The parent of each name where the dump has no construct.json: the module whose path is the longest beginning of the
// name's.
function parentsByPath(names, parts) {
  const modules = new Map();
  parts.forEach(({ path, direction }, i) => {
    if (path && direction !== 'gradients') modules.set(`${direction} ${path}`, i);
  });
  return parts.map(({ path, direction }, i) => {
    if (!path) return -1;
    for (let end = path.lastIndexOf('.'); end > 0; end = path.lastIndexOf('.', end - 1)) {
      const parent = modules.get(`${direction} ${path.slice(0, end)}`);
      if (parent !== undefined && parent !== i) return parent;
    }
    return -1;
  });
}

export class CallTree {
  constructor(pair) {
    const { names } = pair;
    this.pair = pair;
    this.parts = names.map(partsOf);
    this.parents = pair.parents.length === names.length ? [...pair.parents] : parentsByPath(names, this.parts);
    // Gradients of parameters stand in no construct.json: they arrive with the module's backward.
    const backward = new Map();
    this.parts.forEach(({ path, direction }, i) => {
      if (path && direction === 'backward') backward.set(path, i);
    });
    this.parts.forEach(({ path, direction }, i) => {
      if (direction === 'gradients' && this.parents[i] < 0) this.parents[i] = backward.get(path) ?? -1;
    });
    this.#breakCircles();
    this.children = names.map(() => []);
    this.roots = [];
    this.parents.forEach((parent, i) => (parent < 0 ? this.roots : this.children[parent]).push(i));
    this.#sumUp();
  }

  // A damaged file may run in circles: what comes back to itself stands at the top.
  #breakCircles() {
    const state = new Uint8Array(this.parents.length); // 1: on the way, 2: done
    for (let i = 0; i < state.length; i++) {
      const way = [];
      let at = i;
      while (at >= 0 && state[at] === 0) {
        state[at] = 1;
        way.push(at);
        at = this.parents[at];
      }
      if (at >= 0 && state[at] === 1) this.parents[at] = -1;
      for (const item of way) state[item] = 2;
    }
  }

  // For each node and all below it: the place of its first call, the worst standing, how many rows differ.
  #sumUp() {
    const { pair } = this;
    const count = this.parents.length;
    this.place = new Float64Array(count).fill(Infinity);
    this.worst = new Uint8Array(count);
    this.differing = new Uint32Array(count);
    for (let i = 0; i < pair.callCount; i++) {
      this.place[i] = i;
      this.worst[i] = pair.worst[i];
      this.differing[i] = pair.differing[i];
    }
    const down = [];
    const stack = [...this.roots];
    while (stack.length > 0) {
      const node = stack.pop();
      down.push(node);
      for (const child of this.children[node]) stack.push(child);
    }
    for (let k = down.length - 1; k >= 0; k--) {
      const node = down[k];
      this.children[node].sort((a, b) => this.place[a] - this.place[b]);
      const parent = this.parents[node];
      if (parent < 0) continue;
      this.worst[parent] = Math.max(this.worst[parent], this.worst[node]);
      this.differing[parent] += this.differing[node];
      // A call that is recorded stands where it was recorded; others where the first inside of them is.
      if (parent >= pair.callCount) this.place[parent] = Math.min(this.place[parent], this.place[node]);
    }
    this.roots.sort((a, b) => this.place[a] - this.place[b]);
  }

  ancestorsOf(node) {
    const all = [];
    for (let at = this.parents[node]; at >= 0; at = this.parents[at]) all.push(at);
    return all;
  }

  // [{node, depth}] in order, of what is open. `onlyDiffering`: without what agrees.
  visible(open, onlyDiffering) {
    const list = [];
    const stack = [...this.roots].reverse().map((node) => ({ node, depth: 0 }));
    while (stack.length > 0) {
      const item = stack.pop();
      if (onlyDiffering && this.worst[item.node] < DRIFTS && this.worst[item.node] !== 3) continue;
      list.push(item);
      if (!open.has(item.node)) continue;
      for (let k = this.children[item.node].length - 1; k >= 0; k--)
        stack.push({ node: this.children[item.node][k], depth: item.depth + 1 });
    }
    return list;
  }

  // [what it is called below its parent, what else is known of it]
  labelOf(node, alone) {
    const { path, short, about, direction, call } = this.parts[node];
    if (!path) return [short, [call, direction].filter(Boolean).join(' · ')];
    const parent = this.parents[node] >= 0 && !alone ? this.parts[this.parents[node]].path : '';
    const rest = parent && path.startsWith(`${parent}.`) ? path.slice(parent.length + 1) : path;
    return [rest, [about, direction, call].filter((item) => item !== undefined && item !== '').join(' · ')];
  }
}
