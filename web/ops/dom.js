// Everything that is shown goes through here as text: no part of the page is ever made from markup.

const svgNames = new Set(['svg', 'path', 'rect', 'line', 'title', 'g']);
const svgSpace = 'http://www.w3.org/2000/svg';

const apply = (node, name, value) => {
  if (value === undefined || value === null || value === false) return;
  if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
  else node.setAttribute(name, value === true ? '' : String(value));
};

/** An element: `h('a', { href: '#/', class: 'x' }, 'text', otherElement)`. Null children are left out. */
export const h = (name, attributes = {}, ...children) => {
  const node = svgNames.has(name) ? document.createElementNS(svgSpace, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) apply(node, key, value);
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
};

/** Sets a text only when it is another one, so that nothing is read out or selected away without need. */
export const setText = (node, text) => {
  if (node.textContent !== String(text)) node.textContent = String(text);
};

/** Makes `children` what is in `node`; what would look the same stays as it is, with its focus and selection. */
export const setChildren = (node, ...children) => {
  const fresh = [...h('div', {}, ...children).childNodes];
  if (fresh.length !== node.childNodes.length) {
    node.replaceChildren(...fresh);
    return;
  }
  for (const [i, child] of [...node.childNodes].entries())
    if (!child.isEqualNode(fresh[i])) child.replaceWith(fresh[i]);
};

export const setHidden = (node, hidden) => {
  if (node.hidden !== hidden) node.hidden = hidden;
};

/**
 * Keeps one element for each item: what stays is updated in place, so that focus and selection survive a refresh.
 * @param create (item) → { node, update(item) }
 */
export const keyed = (container, keyOf, create) => {
  const known = new Map();
  return (items) => {
    const present = new Set();
    // An element that is moved loses the focus.
    const focused = container.contains(document.activeElement) ? document.activeElement : null;
    let before = container.firstElementChild;
    for (const item of items) {
      const key = keyOf(item);
      present.add(key);
      const entry = known.get(key) ?? create(item);
      known.set(key, entry);
      entry.update?.(item);
      if (entry.node === before) before = before.nextElementSibling;
      else container.insertBefore(entry.node, before);
    }
    for (const [key, { node }] of known) {
      if (present.has(key)) continue;
      node.remove();
      known.delete(key);
    }
    if (focused?.isConnected && focused !== document.activeElement) focused.focus({ preventScroll: true });
  };
};

/** A table whose rows become cards on a narrow screen; `columns` are `[{ label, class? }]`. */
export const table = (caption, columns) => {
  const body = h('tbody');
  const node = h(
    'table',
    {},
    h('caption', { class: 'unseen' }, caption),
    h(
      'thead',
      {},
      h(
        'tr',
        {},
        columns.map((column) => h('th', { scope: 'col', class: column.class }, column.label)),
      ),
    ),
    body,
  );
  const row = (cells) =>
    h(
      'tr',
      {},
      cells.map((cell, i) => h('td', { 'data-label': columns[i].label, class: columns[i].class }, cell)),
    );
  return { node, body, row };
};

/** A button that cannot be pressed twice while its work is on the way. */
export const button = (label, work, attributes = {}) => {
  const node = h('button', { type: 'button', ...attributes }, label);
  node.addEventListener('click', async () => {
    if (node.getAttribute('aria-busy') === 'true') return;
    node.setAttribute('aria-busy', 'true');
    try {
      await work(node);
    } finally {
      node.removeAttribute('aria-busy');
    }
  });
  return node;
};

export const badge = (text, kind = 'plain') => h('span', { class: `badge ${kind}` }, text);

export const empty = (text) => h('p', { class: 'empty' }, text);
