import { inChinese } from './chinese.js';

// What the pages themselves say, one text a row: key: [English, Chinese]. {0}, {1}: what differs. Words that several
// pages use are here, those of one page in its own text.js. What msprobe says about a run comes with the data.
const SHARED = {
  language_code: ['en', 'zh'],
  language: ['中文', 'English'],
  theme: ['Dark or light', '深色或浅色'],
  about: ['About', '关于'],
  close: ['Close', '关闭'],
  search: ['Search', '搜索'],
  search_hint: ['several words: all must occur; -word: must not', '多个词须同时出现；-词 表示排除'],
  found: ['{0} of {1}', '{0} / {1}'],
  nothing_found: ['Nothing found.', '未找到。'],
  cut: ['Reading this page failed: {0}', '读取页面失败：{0}'],
  licences: ['Third-party scripts in this file', '本文件内的第三方脚本'],
  warnings: ['Not everything could be read', '部分内容无法读取'],
  sort_by: ['sort by {0}', '按{0}排序'],
  against: ['against', '对比'],
  next: ['Next', '下一步'],
  notes: ['What is not in this page', '本页未包含的内容'],
  name: ['name', '名称'],
  all: ['all', '全部'],
  loading: ['Reading …', '正在读取 …'],
  stack: ['call stack', '调用栈'],
  step: ['step', '步'],
  rank: ['rank', 'rank'],
  steps: ['steps', '步'],
  ranks: ['ranks', '个 rank'],
  tensors: ['Tensors', '张量'],
  shape: ['shape', '形状'],
  test: ['test', '待比对'],
  reference: ['reference', '标杆'],
  only_differing: ['only what differs', '仅看差异'],
  standing: ['standing', '状态'],
  identical: ['identical', '相等'],
  agrees: ['agrees', '一致'],
  drifts: ['drifts', '漂移'],
  differs: ['differs', '不同'],
  alone: ['no partner', '无对应项'],
  not_compared: ['not compared', '未比对'],
};

const LANGUAGES = ['en', 'zh'];
export const preferredLanguage = () => (navigator.language.toLowerCase().startsWith('zh') ? 'zh' : 'en');

// `words`: {key: [English, Chinese]}. The translator of a language gives the page's own words, and with `said` those
// that come with the data.
export const translatorOf = (words) => (language) => {
  const place = LANGUAGES.indexOf(language);
  const t = (key, ...values) => (words[key] ?? SHARED[key])?.[place].replace(/{(\d)}/g, (_, i) => values[i]) ?? key;
  return Object.assign(t, { said: language === 'zh' ? inChinese : (text) => text });
};
