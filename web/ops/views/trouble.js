import { call } from '../api.js';
import { badge, h, setChildren } from '../dom.js';
import { refreshing } from '../refresh.js';

const words = { bad: 'trouble', warn: 'warning' };

const entry = ({ severity, title, detail, view }) =>
  h(
    'li',
    { class: severity },
    badge(words[severity] ?? severity, severity),
    h(
      'div',
      {},
      view === '' ? h('strong', {}, title) : h('a', { href: `#/${view}` }, title),
      h('p', { class: 'muted' }, detail),
    ),
  );

/** The present problems; causes stand before their consequences. */
export const trouble = () => {
  const list = h('ol', { class: 'troubles' });
  const section = h(
    'section',
    { class: 'panel wrong', 'aria-labelledby': 'wrong-now' },
    h('h2', { id: 'wrong-now' }, 'What is wrong now'),
    list,
  );
  const found = refreshing(
    5000,
    () => call('GET', '/ops/api/trouble'),
    ({ troubles }) => {
      section.dataset.state = troubles.length === 0 ? 'fine' : troubles[0].severity;
      setChildren(
        list,
        ...(troubles.length === 0
          ? [h('li', { class: 'fine' }, badge('fine', 'good'), h('p', {}, 'Nothing that this page knows of.'))]
          : troubles.map(entry)),
      );
    },
  );
  section.prepend(found.fault);
  void found.now();
  return { node: section, close: found.close };
};
