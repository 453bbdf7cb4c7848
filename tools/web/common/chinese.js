// The Chinese of English texts that stand in the data of a page.
import ADVICE from '../../../config/advice.json';

// What msprobe advises in the commands of the page, as rows [English, Chinese]: build.mjs makes them of the table.
export { ADVICE };

const DEEPEST = 3;  // sentences in sentences

// `words`: whole texts, {English: Chinese}; `sentences`: rows with {0}, {1} for what differs, where "(s)" is a plural. The function gives a
// text back as it is where there is no Chinese for it; of several rows that fit the first counts.
export function chineseOf(words, sentences) {
  const patterns = sentences.map(([english, chinese]) => {
    const order = [];
    const pattern = english.replace(/[.*+?^$|[\]\\()]/g, '\\$&').replaceAll('\\(s\\)', 's?').replace(/{(\d)}/g, (_, i) => { order.push(Number(i)); return '(.+?)'; });
    return { pattern: new RegExp(`^${pattern}$`, 's'), order, chinese };
  });
  const inChinese = (text, depth) => {
    if (typeof text !== 'string' || text === '') return text;
    if (Object.hasOwn(words, text)) return words[text];
    if (depth >= DEEPEST) return text;
    for (const { pattern, order, chinese } of patterns) {
      const found = pattern.exec(text);
      if (!found) continue;
      const parts = [];
      order.forEach((place, i) => { parts[place] = inChinese(found[i + 1], depth + 1); });
      return chinese.replace(/{(\d)}/g, (_, i) => parts[i]);
    }
    return text;
  };
  return (text) => inChinese(text, 0);
}
