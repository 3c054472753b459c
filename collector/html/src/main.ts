// Puts the page together. The verdict is drawn before the timeline's tables are decoded.

import { h } from './dom';
import { about } from './report';
import { coverage, foot } from './sections/coverage';
import { findings } from './sections/findings';
import { idle } from './sections/idle';
import { memory } from './sections/memory';
import { section } from './sections/section';
import { steps } from './sections/steps';
import { calls, kernels, lines, ranges, ranks, transfers } from './sections/tables';
import { head, title } from './sections/top';
import { decode } from './timeline/data';
import { Timeline } from './timeline/view';

declare global {
  interface Window {
    /** For checks of the page. */
    gpuspy?: { timeline: Timeline; data: Awaited<ReturnType<typeof decode>>; readyAfter: number };
  }
}

async function main(): Promise<void> {
  document.title = `${title()} · gpuspy`;
  const page = document.getElementById('page') as HTMLElement;
  page.append(head());
  if (about.sentences.nothing) {
    page.append(coverage(), foot());
    return;
  }
  const data = await decode();
  const timeline = new Timeline(data);
  const sections = [
    section('timeline', 'Timeline', null, timeline.element),
    findings(),
    idle(timeline),
    ranks(),
    steps(timeline),
    memory(),
    kernels(),
    transfers(),
    lines(),
    calls(),
    ranges(),
    coverage(),
  ].filter((one) => one !== null);
  page.append(contents(sections), h('main', {}, ...sections), foot());
  // The browser looked for what the address names before it was here.
  document.getElementById(location.hash.slice(1))?.scrollIntoView();
  window.gpuspy = { timeline, data, readyAfter: performance.now() };
}

function contents(sections: HTMLElement[]): HTMLElement {
  const links = sections.map((one) => h('a', { href: `#${one.id}` }, one.querySelector('h2')?.textContent ?? one.id));
  return h('nav', { 'aria-label': 'sections' }, ...links);
}

main().catch((error: unknown) => {
  document.getElementById('page')?.append(h('p', { class: 'doubts', role: 'alert' }, `This page cannot be drawn: ${error}. gpuspy report prints the same report as text.`));
});
