import { call } from '../api.js';
import { ask, field } from '../dialogs.js';
import { button, h } from '../dom.js';
import { number } from '../format.js';
import { announce } from '../notices.js';

const inWords = ({ limit, own_limit: own }) => {
  if (limit === null) return 'no limit: as many as there are slots';
  return `${number(limit)} at a time${own === null ? ' (setting)' : ' (set here)'}`;
};

const edit = (queue) =>
  ask({
    title: `Global limit of ${queue.type}`,
    text: 'How many jobs of this type run at a time on the whole installation. Empty: what the settings say.',
    fields: [
      field(
        'At a time',
        h('input', { type: 'number', name: 'limit', min: 1, max: 1_000_000, step: 1, value: queue.own_limit ?? '' }),
        `now ${inWords(queue)}`,
      ),
    ],
    confirm: 'Set limit',
    work: async (data) => {
      const text = data.get('limit');
      await call('PUT', `/ops/api/queues/${queue.type}/limit`, { limit: text === '' ? null : Number(text) });
      announce(`The limit of ${queue.type} is set.`);
    },
  });

/** Shows how many jobs of a type run at a time on the whole installation, and lets that be set. */
export const globalLimit = (type) => {
  let queue = { type, limit: null, own_limit: null };
  const text = h('span', { class: 'muted small' });
  const change = button('Limit', () => edit(queue), { 'aria-label': `Global limit of ${type}` });
  const set = (next) => {
    queue = next;
    text.textContent = `Global limit: ${inWords(next)}`;
  };
  return { change, text, set };
};
