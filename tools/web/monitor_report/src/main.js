import { render } from 'preact';
import { App } from './app.js';
import { readRuns } from './data.js';
import { html } from './html.js';
import { preferredLanguage, translator } from './text.js';

const place = document.getElementById('app');

function fail(error) {
  place.textContent = translator(preferredLanguage())('cut', error.message);
  place.className = 'failed';
}

addEventListener('unhandledrejection', (event) => fail(event.reason));
readRuns().then((runs) => {
  place.textContent = '';
  render(html`<${App} runs=${runs} />`, place);
}).catch(fail);
