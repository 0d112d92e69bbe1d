import { call } from '../api.js';
import { ask } from '../dialogs.js';
import { badge, button, h, setChildren, setHidden, table } from '../dom.js';
import { when } from '../format.js';
import { announce } from '../notices.js';
import { refreshing } from '../refresh.js';
import { input } from './filters.js';

const columns = [
  { label: 'Project' },
  { label: 'Organization' },
  { label: 'Deleted' },
  { label: 'Kept until' },
  { label: 'Actions', class: 'acts' },
];

const restore = (project, refresh) =>
  ask({
    title: `Restore ${project.name}?`,
    text: 'Its database, keys, functions, schedules and webhooks work again as they were. Jobs that were cancelled stay cancelled.',
    fields: project.slug_taken
      ? [
          input('slug', `Another project has the slug ${project.slug} by now. New slug`, `${project.slug}_restored`, {
            required: true,
          }),
        ]
      : [],
    confirm: 'Restore',
    work: async (data) => {
      const slug = data.get('slug');
      await call('POST', `/ops/api/projects/${project.project_id}/restore`, slug === null ? {} : { slug: slug.trim() });
      announce(`${project.name} is restored.`);
      await refresh();
    },
  });

const actionOf = (project, refresh) =>
  project.org_deleted
    ? badge('organization deleted', 'warn')
    : button('Restore', () => restore(project, refresh), { 'aria-label': `Restore ${project.name}` });

/** Deleted projects, while their databases are kept. Nothing is shown while there are none. */
export const deletedProjects = () => {
  const layout = table('Deleted projects, the latest first', columns);
  const node = h('section', { class: 'deleted' }, h('h2', {}, 'Deleted projects'), layout.node);
  node.hidden = true;
  const list = refreshing(
    15_000,
    () => call('GET', '/ops/api/projects/deleted'),
    ({ projects }) => {
      setHidden(node, projects.length === 0);
      setChildren(
        layout.body,
        ...projects.map((project) =>
          layout.row([
            h('div', { class: 'two' }, h('span', {}, project.name), h('small', {}, `${project.ref} · ${project.plan}`)),
            project.org_name,
            when(project.deleted_at),
            when(project.restorable_until),
            actionOf(project, list.now),
          ]),
        ),
      );
    },
  );
  node.prepend(list.fault);
  void list.now();
  return { node, close: list.close };
};
