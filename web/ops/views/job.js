import { call, inWords } from '../api.js';
import { ask } from '../dialogs.js';
import { button, empty, h, setChildren, setHidden, setText, table } from '../dom.js';
import { number, pretty, seconds, when } from '../format.js';
import { announce } from '../notices.js';
import { refreshing } from '../refresh.js';
import { functionLink, statusBadge } from './job-table.js';

const reasons = {
  project_limit: 'its project is at its limit',
  global_limit: 'all workers are busy',
  organization_limit: 'its organization runs as many jobs as it may',
  paused: 'it is paused',
  queue: 'workers take it next',
};

const placeOf = ({ status, place, next_run_at: next }) => {
  if (status !== 'queued') return null;
  if (next !== null) return h('span', {}, 'the next attempt is due ', when(next));
  if (place === null) return 'unknown while Redis does not answer';
  if (place.state === 'handed over') return 'handed to workers';
  if (place.state === 'absent') return 'not at the gate yet; it is found within some seconds';
  return `number ${number(place.position)} of its project${place.reason ? `: ${reasons[place.reason]}` : ''}`;
};

const took = ({ started_at: start, finished_at: end }) =>
  start === null || end === null ? null : seconds((Date.parse(end) - Date.parse(start)) / 1000);

const facts = (job) =>
  [
    [
      'Project',
      h('a', { href: `#/jobs?project=${job.project_id}` }, job.project_name ?? job.project_ref ?? job.project_id),
    ],
    ['Function', job.function_id === null ? null : functionLink(job)],
    ['Attempt', `${job.attempt} of ${job.max_attempts}${job.crashes > 0 ? `, ${job.crashes} crashed` : ''}`],
    ['Progress', job.progress === null ? null : `${job.progress} %`],
    ['Stands', placeOf(job)],
    ['Accepted', when(job.created_at)],
    ['Started', when(job.started_at)],
    ['Ended', job.finished_at === null ? null : when(job.finished_at)],
    ['Ran for', took(job)],
    ['Cancel asked', job.cancel_requested_at === null ? null : when(job.cancel_requested_at)],
    ['Worker', job.worker_id && h('code', {}, job.worker_id)],
    [
      'Request',
      h('a', { href: `#/jobs?request_id=${encodeURIComponent(job.request_id)}` }, h('code', {}, job.request_id)),
    ],
    ['Trace', job.traceparent && h('code', {}, job.traceparent)],
  ].filter(([, value]) => value !== null);

const text = (title, value, length) =>
  h(
    'section',
    { class: 'panel' },
    h('h2', {}, title),
    value === null ? empty('None.') : h('pre', { tabindex: 0, 'aria-label': title }, pretty(value)),
    length > (value?.length ?? 0) &&
      h('p', { class: 'muted' }, `The first ${number(value.length)} of ${number(length)} characters.`),
  );

const attempts = (job) => {
  if (job.attempts.length === 0)
    return h('section', { class: 'panel' }, h('h2', {}, 'Earlier attempts'), empty('None.'));
  const layout = table('Attempts that another one followed', [
    { label: 'Attempt', class: 'num' },
    { label: 'Started' },
    { label: 'Ended' },
    { label: 'Error', class: 'wide' },
  ]);
  layout.body.append(
    ...job.attempts.map((one) =>
      layout.row([
        number(one.attempt),
        when(one.started_at),
        when(one.ended_at),
        h('span', {}, h('code', {}, one.error.code), ' ', one.error.message),
      ]),
    ),
  );
  return h('section', { class: 'panel' }, h('h2', {}, 'Earlier attempts'), layout.node);
};

const log = ({ logs }) =>
  h(
    'section',
    { class: 'panel' },
    h('h2', {}, 'Log'),
    logs.length === 0
      ? empty('Nothing was logged.')
      : h(
          'ol',
          { class: 'log', tabindex: 0, 'aria-label': 'Log' },
          logs.map(({ at, level, message }) =>
            h(
              'li',
              { class: level },
              h('time', { datetime: at }, at.slice(11, 23)),
              h('b', {}, level),
              h('span', {}, message),
            ),
          ),
        ),
  );

const retriable = new Set(['failed', 'cancelled', 'expired', 'dead']);
const over = new Set([...retriable, 'succeeded']);

/** One job: where it stands, what it was given, what came of it. */
export const job = ({ id }) => {
  const head = h('div', { class: 'job-head' });
  const list = h('dl', { class: 'facts' });
  const fault = h('p', { class: 'notice bad', hidden: true });
  const panels = h('div', { class: 'panels' });
  const path = `/ops/api/jobs/${encodeURIComponent(id)}`;

  const show = (found) => {
    setChildren(head, statusBadge(found.status), h('strong', {}, found.type), h('code', {}, found.id));
    setChildren(list, ...facts(found).map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))));
    setHidden(fault, found.error === null);
    setText(fault, found.error === null ? '' : `${found.error.code}: ${found.error.message}`);
    setHidden(cancel, over.has(found.status));
    setHidden(retry, !retriable.has(found.status));
    setChildren(
      panels,
      text('Payload', found.payload, found.payload_length),
      text('Result', found.result, found.result_length),
      attempts(found),
      log(found),
    );
  };

  const page = refreshing(2000, () => call('GET', path), show);

  const act = async (action, done) => {
    try {
      show(await call('POST', `${path}/${action}`));
      announce(done);
    } catch (error) {
      announce(inWords(error));
      setChildren(page.fault, h('p', { class: 'notice bad' }, inWords(error)));
    }
  };
  const retry = button('Retry', () => act('retry', 'The job is queued again.'), { class: 'primary', hidden: true });
  const cancel = button(
    'Cancel job',
    () =>
      ask({
        title: 'Cancel this job?',
        text: 'A running one is stopped where it is.',
        confirm: 'Cancel the job',
        danger: true,
        work: async () => {
          show(await call('POST', `${path}/cancel`));
          announce('The job is cancelled.');
        },
      }),
    { hidden: true },
  );
  void page.now();
  return {
    title: 'Job',
    node: h('div', {}, page.fault, head, fault, list, h('div', { class: 'actions start' }, retry, cancel), panels),
    close: page.close,
  };
};
