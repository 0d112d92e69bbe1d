import { call, inWords, queryOf } from '../api.js';
import { button, empty, h, setChildren } from '../dom.js';
import { refreshing } from '../refresh.js';
import { bulkButtons } from './bulk.js';
import { filterOf, goTo, input, localTime, select, statuses, timeInput, typeFilter, valuesIn } from './filters.js';
import { jobTable, pager } from './job-table.js';

const limit = 50;
const names = ['project', 'function', 'type', 'status', 'error_code', 'error', 'request_id', 'since', 'until', 'id'];

/** Local times of the form become the API's, in UTC. */
const utc = (fields) => {
  const times = ['since', 'until']
    .filter((name) => fields[name])
    .map((name) => [name, new Date(fields[name]).toISOString()]);
  return { ...fields, ...Object.fromEntries(times) };
};

const filterForm = (wanted, refresh) => {
  const form = h(
    'form',
    { class: 'filters', role: 'search', 'aria-label': 'Jobs' },
    input('project', 'Project', wanted.project, { size: 18, placeholder: 'name, slug, ref or id' }),
    input('function', 'Function', wanted.function, { size: 18, placeholder: 'name, slug or id' }),
    typeFilter(wanted.type),
    select({ name: 'status', label: 'Status', options: statuses, value: wanted.status }),
    input('error_code', 'Error code', wanted.error_code, { size: 12 }),
    input('error', 'Error text', wanted.error, { size: 16, placeholder: 'a part of it' }),
    input('request_id', 'Request id', wanted.request_id, { size: 16 }),
    timeInput('since', 'Accepted from', localTime(wanted.since)),
    timeInput('until', 'Accepted before', localTime(wanted.until)),
    input('id', 'Job id', wanted.id, { size: 16 }),
    h('button', { type: 'submit', class: 'primary' }, 'Search'),
    button('Refresh', () => refresh(), { class: 'quiet' }),
  );
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const before = location.hash;
    goTo('jobs', utc(valuesIn(form)), 0);
    if (location.hash === before) void refresh();
  });
  return form;
};

/** Finds jobs of all projects, and changes those that were found. */
export const jobs = ({ query }) => {
  const wanted = filterOf(query, names);
  const filter = Object.fromEntries(Object.entries(wanted).filter(([, value]) => value !== ''));
  const offset = Number(query.get('offset') ?? 0);
  const list = h('div', { class: 'list' });
  const said = h('div', { role: 'status' });
  const show = ({ jobs: found, total, total_is_exact: exact }) =>
    setChildren(
      list,
      found.length === 0 ? empty('No job is like that.') : jobTable('Jobs, newest first', found),
      pager({ offset, limit, shown: found.length, total, exact }, (to) => goTo('jobs', wanted, to)),
    );
  const results = refreshing(0, () => call('GET', `/ops/api/jobs${queryOf({ ...wanted, limit, offset })}`), show);
  const report = (kind, text) => setChildren(said, h('p', { class: `notice ${kind}` }, text));
  const bulk = bulkButtons(filter, {
    show: (text) => report('warn', text),
    fail: (error) => report('bad', inWords(error)),
    refresh: results.now,
  });
  void results.now();
  return {
    title: 'Jobs',
    node: h(
      'div',
      {},
      filterForm(wanted, results.now),
      h('div', { class: 'bar-of-list' }, bulk),
      said,
      results.fault,
      list,
    ),
    close: results.close,
  };
};
