// What the figures are made from: the sentences of the terminal's section, and what the marks mean.

import { h } from '../dom';
import { about } from '../report';
import { section } from './section';

export function coverage(): HTMLElement {
  const [first, ...others] = about.sentences.coverage;
  const said = [(first ?? '').replace(/^Coverage\s+/, ''), ...others];
  return section(
    'coverage',
    'Coverage',
    'What was recorded and timed, what was not and why, and what that cost.',
    h('ul', { class: 'sentences' }, ...said.map((sentence) => h('li', { 'data-text': true }, sentence))),
    h('p', { class: 'dim', id: 'marks' }, 'Counts and bytes are exact. A time is a best value with bounds that contain the truth: ~ before it says that they are further apart than a fifth of it; rest the pointer on a figure to see them. On the timeline, small brackets below an operation show where it may have begun and ended.'),
  );
}

export function foot(): HTMLElement {
  return h('footer', { class: 'dim' }, h('p', { 'data-own': true }, `Made by gpuspy ${about.version}. This file needs no network and sends nothing. The same report as text: `, h('code', {}, about.commands.report)));
}
