import { inChinese } from './chinese.js';

// What pages say in both languages. Each page has its own words; these are of all of them. {0}, {1}: what stands there differs.
const SHARED = {
  en: {
    code: 'en', language: '中文', theme: 'Dark or light', about: 'About', close: 'Close', search: 'Search',
    search_hint: 'several words: all must occur; -word: must not', found: '{0} of {1}', nothing_found: 'Nothing found.',
    cut: 'Reading this page failed: {0}', licences: 'Third-party scripts in this file',
    warnings: 'Not everything could be read', sort_by: 'sort by {0}', no_script: '', skip: 'Skip to the results',
  },
  zh: {
    code: 'zh', language: 'English', theme: '深色或浅色', about: '关于', close: '关闭', search: '搜索',
    search_hint: '多个词须同时出现；-词 表示排除', found: '{0} / {1}', nothing_found: '未找到。',
    cut: '读取页面失败：{0}', licences: '本文件内的第三方脚本',
    warnings: '部分内容无法读取', sort_by: '按{0}排序', no_script: '', skip: '跳至结果',
  },
};

export const preferredLanguage = () => (navigator.language.toLowerCase().startsWith('zh') ? 'zh' : 'en');

// `words`: {en: {key: text}, zh: {key: text}}.
// The translator of a language gives the page's own words, and with `said` those that stand in the data.
export const translatorOf = (words) => (language) => Object.assign((key, ...values) =>
  (words[language][key] ?? SHARED[language][key] ?? key).replace(/{(\d)}/g, (_, i) => values[i]), { said: language === 'zh' ? inChinese : (text) => text });
