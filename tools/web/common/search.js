// Search by words: all must occur, words behind "-" must not.
function wordsOf(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const isUnwanted = (word) => word.startsWith('-') && word !== '-';
  return {
    wanted: words.filter((word) => !isUnwanted(word)),
    unwanted: words.filter(isUnwanted).map((word) => word.slice(1)),
  };
}

// Many texts as one long text in lower case: a browser finds a word in it many times faster than in one text after the
// other.
export class SearchIndex {
  constructor(texts) {
    this.count = texts.length;
    this.text = texts
      .map((text) => (text.includes('\n') ? text.replaceAll('\n', ' ') : text))
      .join('\n')
      .toLowerCase();
    this.ends = new Uint32Array(this.count);
    for (let i = 0, at = -1; i + 1 < this.count; i++) {
      at = this.text.indexOf('\n', at + 1);
      this.ends[i] = at;
    }
    if (this.count > 0) this.ends[this.count - 1] = this.text.length;
    this.found = new Map(); // of the words searched last: while somebody types, all but one stay
  }

  // One byte per text: whether `word` occurs in it.
  #textsWith(word) {
    const { text, ends } = this;
    const marks = new Uint8Array(this.count);
    let i = 0;
    for (let at = text.indexOf(word); at >= 0 && i < this.count; at = text.indexOf(word, ends[i - 1] + 1)) {
      while (ends[i] < at) i++;
      marks[i++] = 1;
    }
    return marks;
  }

  // One byte per text: whether it fits; null where the query has no words, so that all do.
  match(query) {
    const { wanted, unwanted } = wordsOf(query);
    const words = [...wanted, ...unwanted];
    this.found = new Map(words.map((word) => [word, this.found.get(word) ?? this.#textsWith(word)]));
    if (words.length === 0) return null;
    const fits = new Uint8Array(this.count).fill(1);
    for (const word of wanted) {
      const marks = this.found.get(word);
      for (let i = 0; i < fits.length; i++) fits[i] &= marks[i];
    }
    for (const word of unwanted) {
      const marks = this.found.get(word);
      for (let i = 0; i < fits.length; i++) fits[i] &= marks[i] ^ 1;
    }
    return fits;
  }
}
