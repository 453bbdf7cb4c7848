// Words must all occur, words behind "-" must not. Texts are in lower case.
export function textMatcher(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = words.filter((word) => !word.startsWith('-') || word === '-');
  const unwanted = words.filter((word) => word.startsWith('-') && word !== '-').map((word) => word.slice(1));
  return (text) => wanted.every((word) => text.includes(word)) && !unwanted.some((word) => text.includes(word));
}
