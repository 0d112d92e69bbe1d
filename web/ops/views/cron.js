import { call } from '../api.js';
import { badge, empty, h, keyed, setChildren, setHidden, table } from '../dom.js';
import { when } from '../format.js';
import { refreshing } from '../refresh.js';

const columns = [{ label: 'Fires' }, { label: 'Schedule' }, { label: 'Target' }, { label: 'Project' }];

const rowOf = (layout) => (first) => {
  const [next, name, target] = [h('span'), h('span'), h('span')];
  const link = h('a', { href: `#/jobs?project_id=${first.project_id}`, title: first.project_id }, first.project_name);
  const project = h('div', { class: 'two' }, link, h('small', {}, first.project_ref));
  const update = (fire) => {
    setChildren(next, when(fire.next_run_at));
    setChildren(name, fire.name);
    setChildren(target, badge(fire.target_type));
  };
  return { node: layout.row([next, name, target, project]), update };
};

/** What schedules will do next, in all projects. */
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
