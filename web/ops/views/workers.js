import { empty, h, keyed, setChildren, setHidden, setText } from '../dom.js';
import { number, shortId, when } from '../format.js';

const runs = ({ id, type, project_id: project, project_name: name, function_name: run, started_at: at, attempt }) =>
  h(
    'li',
    {},
    h('a', { href: `#/jobs/${id}`, title: id }, type, ' ', run ?? h('code', {}, shortId(id))),
    h('a', { href: `#/jobs?project=${project}`, class: 'plain-link' }, name ?? shortId(project)),
    attempt > 1 && h('span', { class: 'muted' }, `attempt ${attempt}`),
    h('span', { class: 'muted' }, when(at)),
  );

const queue = ({ type, slots, running }) =>
  h(
    'li',
    {},
    h('span', {}, type),
    h('meter', { min: 0, max: Math.max(1, slots), value: running, 'aria-label': `${type}: running of its slots` }),
    h('span', { class: 'muted' }, `${number(running)} of ${number(slots)}`),
  );

/** How well it fences functions in, by language. */
const fences = (sandbox) =>
  Object.entries(sandbox ?? {}).map(([language, level]) =>
    h(
      'li',
      { class: level === 'strict' ? 'chip' : 'chip bad', title: 'sandbox of functions' },
      `${language}: ${level}`,
    ),
  );

const card = (first) => {
  const [queues, jobs] = [h('ul', { class: 'queues' }), h('ul', { class: 'runs' })];
  const idle = empty('Runs nothing just now.');
  const since = h('p', { class: 'muted small' }, 'started ', when(first.started_at), ' · ', h('code', {}, first.id));
  const title = h('h2');
  const sandbox = h('ul', { class: 'chips' });
  const node = h(
    'article',
    { class: 'card', 'aria-label': first.name },
    h('header', {}, title),
    since,
    sandbox,
    queues,
    h('h3', {}, 'Runs'),
    jobs,
    idle,
  );
  const update = (worker) => {
    setText(title, worker.name);
    setChildren(queues, ...worker.queues.map(queue));
    setChildren(sandbox, ...fences(worker.sandbox));
    setHidden(sandbox, worker.sandbox === null);
    setChildren(jobs, ...worker.jobs.map(runs));
    setHidden(idle, worker.jobs.length > 0);
  };
  return { node, update };
};

/** The workers that are alive, and what each runs; a second old at most. */
export const workers = ({ live }) => {
  const grid = h('div', { class: 'grid' });
  const none = empty('');
  none.hidden = true;
  const show = keyed(grid, ({ id }) => id, card);
  const close = live.listen(({ workers: alive, redis }) => {
    show(alive);
    setText(none, redis ? 'No worker is alive. Jobs wait until one starts.' : 'Unknown while Redis does not answer.');
    setHidden(none, alive.length > 0);
  });
  return { title: 'Workers', node: h('div', {}, none, grid), close };
};
