import { call, inWords, queryOf } from '../api.js';
import { button, empty, h, setChildren } from '../dom.js';
import { refreshing } from '../refresh.js';
import { bulkButtons } from './bulk.js';
import { askedIn, goTo, input, localTime, select, statuses, timeInput, typeFilter, valuesIn } from './filters.js';
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

const filterForm = (asked, refresh) => {
  const form = h(
    'form',
    { class: 'filters', role: 'search', 'aria-label': 'Jobs' },
    input('project', 'Project', asked.project, { size: 18, placeholder: 'name, slug, ref or id' }),
    input('function', 'Function', asked.function, { size: 18, placeholder: 'name, slug or id' }),
    typeFilter(asked.type),
    select({ name: 'status', label: 'Status', options: statuses, value: asked.status }),
    input('error_code', 'Error code', asked.error_code, { size: 12 }),
    input('error', 'Error text', asked.error, { size: 16, placeholder: 'a part of it' }),
    input('request_id', 'Request id', asked.request_id, { size: 16 }),
    timeInput('since', 'Accepted from', localTime(asked.since)),
    timeInput('until', 'Accepted before', localTime(asked.until)),
    input('id', 'Job id', asked.id, { size: 16 }),
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
  const asked = askedIn(query, names);
  const filter = Object.fromEntries(Object.entries(asked).filter(([, value]) => value !== ''));
  const offset = Number(query.get('offset') ?? 0);
  const list = h('div', { class: 'list' });
  const said = h('div', { role: 'status' });
  const show = ({ jobs: found, total, total_is_exact: exact }) =>
    setChildren(
      list,
      found.length === 0 ? empty('No job is like that.') : jobTable('Jobs, newest first', found),
      pager({ offset, limit, shown: found.length, total, exact }, (to) => goTo('jobs', asked, to)),
    );
  const results = refreshing(0, () => call('GET', `/ops/api/jobs${queryOf({ ...asked, limit, offset })}`), show);
  const tell = (kind, text) => setChildren(said, h('p', { class: `notice ${kind}` }, text));
  const bulk = bulkButtons(filter, {
    show: (text) => tell('warn', text),
    fail: (error) => tell('bad', inWords(error)),
    refresh: results.now,
  });
  void results.now();
  return {
    title: 'Jobs',
    node: h(
      'div',
      {},
      filterForm(asked, results.now),
      h('div', { class: 'bar-of-list' }, bulk),
      said,
      results.fault,
      list,
    ),
    close: results.close,
  };
};
