// What every page has: a beginning, a header with language and theme, a dialog about the page.
import { render } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { html } from './html.js';
import { preferredLanguage } from './text.js';
import { onTheme, toggleTheme } from './theme.js';

// Draws `App` with what `read` gives; what goes wrong stands in the page. `translator`: of the page's words.
export function start(read, App, translator) {
  const place = document.getElementById('app');
  const fail = (error) => {
    place.textContent = translator(preferredLanguage())('cut', error.message);
    place.className = 'failed';
  };
  addEventListener('unhandledrejection', (event) => fail(event.reason));
  read()
    .then((data) => {
      place.textContent = '';
      render(html`<${App} data=${data} />`, place);
    })
    .catch(fail);
}

// [t, switch to the other language]
export function useLanguage(translator) {
  const [language, setLanguage] = useState(preferredLanguage);
  const t = useMemo(() => translator(language), [language]);
  // Before anything is drawn: fonts depend on it.
  useLayoutEffect(() => {
    document.documentElement.lang = language;
  }, [language]);
  return [t, () => setLanguage(language === 'en' ? 'zh' : 'en')];
}

// Counts up when light turns to dark: what draws with colours depends on it.
export function useThemeTurns() {
  const [turns, setTurns] = useState(0);
  useEffect(() => onTheme(() => setTurns((count) => count + 1)), []);
  return turns;
}

// Paths of both sides as people tell them apart: without the folders they share, and of what is still long the end.
export function shortPaths(first, second) {
  const [a, b] = [first, second].map((path) => path.split('/'));
  let same = 0;
  while (same < Math.min(a.length, b.length) - 1 && a[same] === b[same]) same++;
  return [a, b].map((parts) => parts.slice(same).slice(-4).join('/'));
}

// facts: [{key, value, text, kind}]; `about`: what the dialog holds above the licences; `marked`: that there is
// something to read.
export function Header({ t, title, name, facts, onLanguage, about, marked }) {
  const [open, setOpen] = useState(false);
  return html`<header>
    <div class="brand"><svg viewBox="0 0 24 24" width="22" height="22" aria-hidden="true">
      <path d="M2 14h4l3-9 4 15 3-9 2 3h4" fill="none" stroke="currentColor" stroke-width="2"
      stroke-linejoin="round" stroke-linecap="round"/></svg>
      <h1>${title}</h1><span class="run">${name}</span></div>
    <div class="facts">${facts.map(
      ({ value, text, kind }) => html`
      <span class=${kind ?? ''}><b>${value}</b> ${text}</span>`,
    )}</div>
    <div class="buttons"><button id="language" onClick=${onLanguage}>${t('language')}</button>
      <button id="theme" aria-label=${t('theme')} title=${t('theme')} onClick=${toggleTheme}>◐</button>
      <button id="about" onClick=${() => setOpen(true)}>${t('about')}${marked ? ' ⚠' : ''}</button></div>
    ${
      open &&
      html`<${Dialog} t=${t} onClose=${() => setOpen(false)}>${about}
      <h3>${t('licences')}</h3><pre>${document.getElementById('licences').textContent}</pre><//>`
    }
  </header>`;
}

// What every dialog says of the run that made the page, as PutRun of src/report/web_page.cpp writes it: the version,
// then `children`, what was read, and the command line. The page of `monitor report` is the same wherever its run
// lies, and has none of them.
export function AboutRun({ run, children }) {
  return html`<h2 class="name">msprobe ${run.command} ${run.version ?? ''}</h2>${children}
    ${
      run.inputs?.length > 0 &&
      html`<p id="inputs">
      ${run.inputs.map((path, i) => html`${i > 0 && html`<br />`}<bdi>${path}</bdi>`)}</p>`
    }
    ${run.command_line && html`<p><code id="command_line">${run.command_line}</code></p>`}`;
}

// The answer in one line: its word on a ground of its tone, and the rest. The line begins with the word.
export function VerdictLine({ t, run: { word, verdict, tone } }) {
  const [head, line] = [t.said(word), t.said(verdict)];
  const rest = line.startsWith(head) ? line.slice(head.length).replace(/^[:：,]/, '') : line;
  return html`<p class="verdict">${word && html`<span class="pill ${tone}">${head}</span> `}<span
    class="headline">${rest.trim().replaceAll(' -> ', ' → ')}</span></p>`;
}

function Dialog({ t, onClose, children }) {
  const button = useRef(null);
  useLayoutEffect(() => {
    // before anybody can press a key
    const before = document.activeElement;
    button.current.focus();
    return () => before?.focus();
  }, []);
  return html`<div class="veil" onClick=${(event) => event.target === event.currentTarget && onClose()}
      onKeyDown=${(event) => event.key === 'Escape' && onClose()}>
    <div class="dialog" role="dialog" aria-modal="true" aria-label=${t('about')}>
      <button class="close" ref=${button} onClick=${onClose}>${t('close')}</button>${children}</div></div>`;
}
