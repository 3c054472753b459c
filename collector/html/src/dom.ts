// Elements, made of text and never of markup: names are the program's own and may be anything.

export type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | ((event: Event) => void) | undefined>;

/** Makes an element. Attributes that begin with `on` are listeners; `undefined` and `false` leave one out. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== undefined && value !== false) element.setAttribute(name, String(value));
  }
  add(element, ...children);
  return element;
}

export function add(element: Node, ...children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.appendChild(typeof child === 'string' ? document.createTextNode(plain(child)) : child);
  }
}

/** Sets properties of an element's style; the page's policy allows this, and no `style` attribute. */
export function styled<E extends HTMLElement>(element: E, style: Record<string, string>): E {
  for (const [name, value] of Object.entries(style)) element.style.setProperty(name, value);
  return element;
}

// Control characters, and invisible ones that join, separate or change direction: as in collector/src/harmless.rs.
const HARMFUL = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** Text with `?` for each character that could reorder or hide what is shown. */
export function plain(text: string): string {
  return text.replace(HARMFUL, '?');
}

/** Text of at most so many characters; if it is longer, its middle is left out, which two dots show. */
export function cut(text: string, most: number): string {
  if (text.length <= most) return text;
  const keep = most - 2;
  const tail = Math.floor(keep / 3);
  return `${text.slice(0, keep - tail)}..${text.slice(text.length - tail)}`;
}

/** A name of the program's, shortened; its title has more of it. */
export function name(text: string, most = 64): HTMLElement {
  const shown = cut(plain(text), most);
  const title = shown === text ? undefined : cut(plain(text), 400);
  return h('span', { class: 'name', dir: 'ltr', title, 'data-text': true }, shown);
}

/** A line of the program, `file:line`, without the file's directory. */
export function place(text: string | null | undefined): Child {
  if (!text) return h('span', { class: 'dim' }, '-');
  const shown = /:\d+$/.test(text) ? (text.split('/').pop() ?? text) : text;
  return h('span', { class: 'name', dir: 'ltr', title: cut(plain(text), 400), 'data-text': true }, cut(plain(shown), 40));
}

/** A library's file name without its directory. */
export function library(path: string | null | undefined): string {
  return path ? cut(path.split('/').pop() ?? path, 32) : '?';
}
