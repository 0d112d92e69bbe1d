import { CallError, call, queryOf } from '../api.js';
import { ask, field } from '../dialogs.js';
import { badge, button, empty, h, keyed, setChildren, setHidden, setText, table } from '../dom.js';
import { compact, number } from '../format.js';
import { announce } from '../notices.js';
import { refreshing } from '../refresh.js';
import { deletedProjects } from './deleted.js';
import { input, typeFilter } from './filters.js';
import { askToSwitch } from './pausing.js';

const columns = [
  { label: 'Project' },
  { label: 'Type' },
  { label: 'Running', class: 'num' },
  { label: 'Waiting', class: 'num' },
  { label: 'State' },
  { label: 'Actions', class: 'acts' },
];

const nameOf = ({ name, ref, project_id: id }) => name ?? ref ?? id;

const of = (count, limit, own) =>
  `${compact(count)} of ${limit === null ? 'its plan’s' : compact(limit)}${own === null ? '' : ' (set)'}`;

const limitInput = (name, value) =>
  h('input', { type: 'number', name, min: 0, max: 1_000_000, step: 1, inputmode: 'numeric', value: value ?? '' });

const numberOrNull = (text) => (text === '' ? null : Number(text));

const editLimits = (project, refresh) =>
  ask({
    title: `Limits of ${nameOf(project)}`,
    text: `For ${project.type}. Empty: what the plan (${project.plan ?? 'unknown'}) gives.`,
    fields: [
      field('Running at a time', limitInput('running', project.own_limit), `now ${number(project.limit)}`),
      field('Waiting', limitInput('waiting', project.own_waiting_limit), `now ${number(project.waiting_limit)}`),
    ],
    confirm: 'Set limits',
    work: async (data) => {
      await call('PUT', `/ops/api/projects/${project.project_id}/limits`, {
        type: project.type,
        running: numberOrNull(data.get('running')),
        waiting: numberOrNull(data.get('waiting')),
      });
      announce(`The limits of ${nameOf(project)} are set.`);
      await refresh();
    },
  });

const stateOf = ({ paused, project_paused: all, running, waiting, limit }) => {
  if (paused) return badge(all ? 'project paused' : 'paused', 'warn');
  if (waiting > 0 && limit !== null && running >= limit) return badge('at its limit', 'info');
  return running + waiting > 0 ? badge('flowing', 'good') : badge('idle');
};

/** A row pauses and resumes its own type; a pause of the whole project can only be ended for all of its types. */
const switchOf = (project) => {
  const { project_id: id, type, paused, project_paused: all, waiting, running } = project;
  const name = nameOf(project);
  const action = paused ? 'resume' : 'pause';
  const path = `/ops/api/projects/${id}/${action}`;
  const counts = { waiting, running };
  if (all) {
    const others = `These are its jobs of ${type}. It is paused as a whole, and types that were paused alone run again, too.`;
    return { action, what: `${name} in all its types`, label: `Resume ${name}`, counts, others, path, body: {} };
  }
  const others = 'Its other types and other projects go on.';
  const what = `${type} of ${name}`;
  const label = `${paused ? 'Resume' : 'Pause'} ${name} for ${type}`;
  return { action, what, label, counts, others, path, body: { type } };
};

/** One project's jobs of one type. */
const rowOf = (layout, refresh) => (first) => {
  let project = first;
  const [running, waiting, state] = [h('span'), h('span'), h('span')];
  const toggle = button('Pause', () => askToSwitch({ ...switchOf(project), refresh }));
  const limits = button('Limits', () => editLimits(project, refresh));
  const link = h('a', { href: `#/jobs${queryOf({ project: first.project_id, type: first.type })}` }, nameOf(first));
  const node = layout.row([
    h('div', { class: 'two' }, link, h('small', {}, `${first.ref ?? first.project_id} · ${first.plan ?? 'no plan'}`)),
    first.type,
    running,
    waiting,
    state,
    h('div', { class: 'buttons' }, toggle, limits),
  ]);
  const update = (next) => {
    project = next;
    setText(running, of(next.running, next.limit, next.own_limit));
    setText(waiting, compact(next.waiting));
    setChildren(state, stateOf(next));
    setText(toggle, next.paused ? 'Resume' : 'Pause');
    toggle.setAttribute('aria-label', switchOf(next).label);
    limits.setAttribute('aria-label', `Limits of ${nameOf(next)} for ${next.type}`);
  };
  return { node, update };
};

/** @throws {CallError} when no project has that name, or several have it */
const findOne = async (fields) => {
  const { projects: found } = await call('GET', `/ops/api/projects/search${queryOf(fields)}`);
  const [one, ...others] = found;
  if (one === undefined) throw new CallError(404, { message: 'There is no such project.' });
  if (others.length === 0) return one;
  const refs = new Intl.ListFormat('en').format(found.map(({ ref }) => ref));
  throw new CallError(409, {
    message: `${number(found.length)} projects have that name. Give the ref of one: ${refs}.`,
  });
};

/** Pauses a project that is not in the list: first it is found, then its jobs are named in the question. */
const pauseAnother = async (refresh) => {
  let type = '';
  let project;
  await ask({
    title: 'Pause another project',
    text: 'One that is not in the list; it is listed from then on. Without a type, all its types are paused.',
    fields: [input('project', 'Project', '', { required: true, placeholder: 'name, slug, ref or id' }), typeFilter('')],
    confirm: 'Continue',
    work: async (data) => {
      type = data.get('type');
      project = await findOne({ project: data.get('project').trim(), type });
    },
  });
  if (project === undefined) return;
  const name = nameOf(project);
  await askToSwitch({
    action: 'pause',
    what: type === '' ? `${name} in all its types` : `${type} of ${name}`,
    counts: project,
    others: type === '' ? 'Other projects go on.' : 'Its other types and other projects go on.',
    path: `/ops/api/projects/${project.project_id}/pause`,
    body: type === '' ? {} : { type },
    refresh,
  });
};

/** The projects with the most work, and those that were paused or limited. */
export const projects = ({ query }) => {
  const layout = table('Projects by jobs waiting and running', columns);
  const none = empty('No project has jobs waiting or running, and none is paused or limited.');
  none.hidden = true;
  let type = query.get('type') ?? '';
  const list = refreshing(
    2500,
    () => call('GET', `/ops/api/projects${queryOf({ type, limit: 100 })}`),
    (answer) => {
      show(answer.projects);
      setHidden(none, answer.projects.length > 0);
      setHidden(layout.node, answer.projects.length === 0);
    },
  );
  const show = keyed(layout.body, (one) => `${one.project_id} ${one.type}`, rowOf(layout, list.now));
  const filter = typeFilter(type, (next) => {
    type = next;
    void list.now();
  });
  const another = button('Pause another…', () => pauseAnother(list.now));
  void list.now();
  const deleted = deletedProjects();
  return {
    title: 'Projects',
    node: h('div', {}, h('form', { class: 'filters' }, filter, another), list.fault, layout.node, none, deleted.node),
    close: () => {
      list.close();
      deleted.close();
    },
  };
};
