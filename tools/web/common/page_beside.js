// Pages of one run in one folder lead to each other: that of `compare` to the same call in that of `graph`, and back.
// The page that was written last knows the other by its file's name; the other learns it from the address by which it
// is opened:
// #step=0&rank=0&call=NAME&page=FILE
import { html } from './html.js';

const IN_THIS_FOLDER = /^[^/\\:]+\.(?:html|vis\.db)$/;

// What the address asks for: {step, rank, call, page}; null: nothing.
export function asked() {
  const given = new URLSearchParams(location.hash.slice(1));
  if (!given.has('call')) return null;
  const page = given.get('page') ?? '';
  return {
    step: Number(given.get('step')),
    rank: Number(given.get('rank')),
    call: given.get('call'),
    page: IN_THIS_FOLDER.test(page) ? page : '',
  };
}

// Where the address leads among `items` with step and rank, which a dump without such folders lacks; -1: nowhere.
export function askedIndex(items) {
  const wanted = asked();
  if (!wanted) return -1;
  return items.length === 1
    ? 0
    : items.findIndex((item) => (item.step ?? 0) === wanted.step && (item.rank ?? 0) === wanted.rank);
}

// `written`: the name that this page was written with; may be empty.
export function BesideLink({ written, step, rank, call, children }) {
  const page = asked()?.page || written;
  if (!page) return null;
  const own = decodeURIComponent(location.pathname.split('/').pop());
  const place = new URLSearchParams({ step: step ?? 0, rank: rank ?? 0, call, page: own });
  return html`<a class="beside" title=${page} href=${`./${encodeURIComponent(page)}#${place}`}>${children}</a>`;
}
