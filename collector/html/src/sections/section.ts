import { type Child, h } from '../dom';

/** A section of the page, with a heading that the contents link to. */
export function section(id: string, title: string, lead: Child, ...children: Child[]): HTMLElement {
  return h('section', { id, 'aria-labelledby': `${id}-title` }, h('h2', { id: `${id}-title` }, title), lead && h('p', { class: 'lead' }, lead), ...children);
}

/** Figures side by side, each with what it is. */
export function figures(...all: [string, Child][]): HTMLElement {
  return h('dl', { class: 'figures' }, ...all.map(([what, shown]) => h('div', {}, h('dt', {}, what), h('dd', {}, shown))));
}

/** Shapes of SVG. */
export function svg(tag: string, attributes: Record<string, string | number>, ...children: Node[]): SVGElement {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}
