import { call } from '../api.js';
import { badge, empty, h, keyed, setChildren, setHidden, table } from '../dom.js';
import { when } from '../format.js';
import { refreshing } from '../refresh.js';

const columns = [
  { label: 'Fires' },
  { label: 'Schedule' },
  { label: 'Target' },
  { label: 'Last run', class: 'wide' },
  { label: 'Project' },
];

const kinds = { succeeded: 'good', failed: 'bad', dead: 'bad', cancelled: 'warn', expired: 'warn', skipped: 'warn' };

const outcome = ({ status, job_id: job, error_code: code, error_message: message, reason, fire_at: at }) =>
  h(
    'div',
    { class: 'two' },
    h(
      'span',
      {},
      job === null ? badge(status, kinds[status]) : h('a', { href: `#/jobs/${job}` }, badge(status, kinds[status])),
      ' ',
      when(at),
    ),
    (code ?? reason) && h('small', {}, [code, message ?? reason].filter(Boolean).join(': ')),
  );

const due = ({ next_run_at: next, overdue_seconds: late }) =>
  late === null ? when(next) : h('span', {}, badge('overdue', 'bad'), ' ', when(next));

const rowOf = (layout) => (first) => {
  const [next, name, target, last] = [h('span'), h('div', { class: 'two' }), h('div', { class: 'two' }), h('div')];
  const link = h('a', { href: `#/jobs?project=${first.project_id}`, title: first.project_id }, first.project_name);
  const project = h('div', { class: 'two' }, link, h('small', {}, first.project_ref));
  const update = (fire) => {
    setChildren(next, due(fire));
    setChildren(name, h('span', {}, fire.name), h('small', {}, h('code', {}, fire.schedule), ` ${fire.timezone}`));
    setChildren(
      target,
      h('span', {}, badge(fire.target_type)),
      fire.function_name && h('small', {}, fire.function_name),
    );
    setChildren(last, fire.last_run === null ? h('span', { class: 'muted' }, 'none yet') : outcome(fire.last_run));
  };
  return { node: layout.row([next, name, target, last, project]), update };
};

/** The next fires of all schedules, in all projects. */
export const cron = () => {
  const layout = table('Schedules by when they fire next', columns);
  const none = empty('No schedule is due: there are none, or all are disabled.');
  layout.node.hidden = true;
  none.hidden = true;
  const show = keyed(layout.body, (fire) => fire.schedule_id, rowOf(layout));
  const upcoming = refreshing(
    5000,
    () => call('GET', '/ops/api/cron/upcoming?limit=100'),
    ({ fires }) => {
      show(fires);
      setHidden(none, fires.length > 0);
      setHidden(layout.node, fires.length === 0);
    },
  );
  void upcoming.now();
  return { title: 'Upcoming', node: h('div', {}, upcoming.fault, layout.node, none), close: upcoming.close };
};
