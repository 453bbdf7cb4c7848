// Light or dark: as the system is, until somebody chooses.
const scheme = matchMedia('(prefers-color-scheme: dark)');
let chosen = null;

export const isDark = () => document.documentElement.dataset.theme === 'dark';

function apply() {
  document.documentElement.dataset.theme = chosen ?? (scheme.matches ? 'dark' : 'light');
  dispatchEvent(new Event('msprobe-theme'));
}

export function toggleTheme() {
  chosen = isDark() ? 'light' : 'dark';
  apply();
}

// Calls `change` whenever light turns to dark or back; returns how to stop that.
export function onTheme(change) {
  addEventListener('msprobe-theme', change);
  return () => removeEventListener('msprobe-theme', change);
}

scheme.addEventListener('change', apply);
apply();
