// The Chinese of English texts that stand in the data of a page: {English: Chinese}, which the program has put beside
// them.
const texts = new Map();

// Members "zh" of the listings that a page reads.
export function addChinese(found) {
  for (const [english, chinese] of Object.entries(found ?? {})) texts.set(english, chinese);
}
export const inChinese = (text) => texts.get(text) ?? text;
