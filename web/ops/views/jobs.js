import { call, queryOf } from '../api.js';
import { button, empty, h, setChildren } from '../dom.js';
import { refreshing } from '../refresh.js';
import { goTo, input, select, statuses, typeFilter, valuesIn } from './filters.js';
import { jobTable, pager } from './job-table.js';

const limit = 50;
const names = ['id', 'project_id', 'type', 'status', 'error_code'];

const filterForm = (asked, refresh) => {
  const form = h(
    'form',
    { class: 'filters', role: 'search', 'aria-label': 'Jobs' },
    input('id', 'Job id', asked.id, { size: 28 }),
    input('project_id', 'Project id', asked.project_id, { size: 28 }),
    typeFilter(asked.type),
    select({ name: 'status', label: 'Status', options: statuses, value: asked.status }),
    input('error_code', 'Error code', asked.error_code, { size: 12 }),
    h('button', { type: 'submit', class: 'primary' }, 'Search'),
    button('Refresh', () => refresh(), { class: 'quiet' }),
  );
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const before = location.hash;
    goTo('jobs', valuesIn(form), 0);
    if (location.hash === before) void refresh();
  });
  return form;
};

/** Finds jobs of all projects. */
export const jobs = ({ query }) => {
  const asked = Object.fromEntries(names.map((name) => [name, query.get(name) ?? '']));
  const offset = Number(query.get('offset') ?? 0);
  const list = h('div', { class: 'list' });
  const show = ({ jobs: found, total, total_is_exact: exact }) =>
    setChildren(
      list,
      found.length === 0 ? empty('No job is like that.') : jobTable('Jobs, newest first', found),
      pager({ offset, limit, shown: found.length, total, exact }, (to) => goTo('jobs', asked, to)),
    );
  const results = refreshing(0, () => call('GET', `/ops/api/jobs${queryOf({ ...asked, limit, offset })}`), show);
  void results.now();
  return {
    title: 'Jobs',
    node: h('div', {}, filterForm(asked, results.now), results.fault, list),
    close: results.close,
  };
};
