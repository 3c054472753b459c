// What to change, what that would save at most, and what shows it.

import { h, library, name, place, plain } from '../dom';
import { bounds } from '../figures';
import { list, short, text, value } from '../report';
import { section } from './section';

export function findings(): HTMLElement {
  const all = list('findings').map((_, index) => finding(`findings.${index}`, index));
  const unsafe = text('verdict.unsafe');
  if (all.length === 0 && unsafe) return section('findings', 'Findings', h('span', {}, 'None; no verdict is safe: ', h('span', { 'data-text': true }, plain(unsafe))));
  if (all.length === 0) return section('findings', 'Findings', 'Nothing was found that would save a noticeable part of the time.');
  return section('findings', 'Findings', 'What is wrong, and what to change, the largest gain first. A gain is what the change adds to those before it.', h('ol', { class: 'findings' }, ...all));
}

function finding(path: string, index: number): HTMLElement {
  const said = (key: string) => plain(text(`${path}.${key}`) ?? '');
  const promises = (value(`${path}.saves_ns`) ?? 0) > 0;
  const between = promises && bounds(`${path}.saves_ns`, 'ns');
  const from = [
    text(`${path}.evidence.kernel`) && h('span', {}, 'kernel ', name(short(text(`${path}.evidence.kernel`) ?? ''))),
    text(`${path}.evidence.api`) && h('span', {}, 'call ', name(text(`${path}.evidence.api`) ?? '')),
    text(`${path}.evidence.line`) && h('span', {}, 'line ', place(text(`${path}.evidence.line`))),
    text(`${path}.evidence.library`) && h('span', {}, 'library ', name(library(text(`${path}.evidence.library`)))),
  ];
  return h(
    'li',
    {},
    h('div', { class: 'headline' }, h('h3', { 'data-text': true }, said('title')), h('span', { class: promises ? 'gain' : 'dim', 'data-text': true }, said('gain'))),
    h('p', { class: 'fix', 'data-text': true }, said('fix')),
    h('p', { 'data-text': true }, said('evidence.text')),
    h('p', { class: 'from dim' }, ...from),
    h(
      'details',
      { open: index === 0 },
      h('summary', {}, 'Why, and how to check'),
      h('p', { 'data-text': true }, said('explanation')),
      between && h('p', {}, 'Between ', between, ' less.'),
      h('pre', { 'data-text': true }, said('verify_shown')),
    ),
  );
}
