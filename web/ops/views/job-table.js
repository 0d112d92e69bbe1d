import { badge, h, table } from '../dom.js';
import { shortId, when } from '../format.js';

const kinds = {
  queued: 'plain',
  running: 'info',
  waiting: 'plain',
  succeeded: 'good',
  failed: 'bad',
  dead: 'bad',
  cancelled: 'warn',
  expired: 'warn',
};

export const statusBadge = (status) => badge(status, kinds[status] ?? 'plain');

const columns = [
  { label: 'Job' },
  { label: 'Status' },
  { label: 'Project' },
  { label: 'Function' },
  { label: 'Attempt', class: 'num' },
  { label: 'Accepted' },
  { label: 'Ended' },
  { label: 'Error', class: 'wide' },
];

const jobLink = ({ id, type }) =>
  h('a', { href: `#/jobs/${id}`, title: id }, h('span', {}, type), ' ', h('code', {}, shortId(id)));

const projectOf = ({ project_name: name, project_ref: ref, project_id: id }) =>
  h('a', { href: `#/jobs?project=${id}`, class: 'plain-link' }, name ?? ref ?? shortId(id));

export const functionLink = ({ function_id: id, function_name: name }) =>
  id === null ? '' : h('a', { href: `#/jobs?function=${id}`, class: 'plain-link', title: id }, name ?? 'deleted');

const errorOf = ({ error }) =>
  error && h('span', { class: 'error-text' }, h('code', {}, error.code), ' ', error.message);

/**
 * Jobs as a table.
 * @param more columns in front: `[{ label, class?, cell(job) }]`
 */
export const jobTable = (caption, found, more = []) => {
  const layout = table(caption, [...more, ...columns]);
  layout.body.append(
    ...found.map((job) =>
      layout.row([
        ...more.map(({ cell }) => cell(job)),
        jobLink(job),
        statusBadge(job.status),
        projectOf(job),
        functionLink(job),
        `${job.attempt} of ${job.max_attempts}`,
        when(job.created_at),
        when(job.finished_at),
        errorOf(job) ?? '',
      ]),
    ),
  );
  return layout.node;
};

/** Earlier and later, for a list that is paged by `offset`. */
export const pager = ({ offset, limit, shown, total, exact }, go) => {
  const step = (label, to, possible) => {
    const node = h('button', { type: 'button', class: 'quiet', disabled: !possible }, label);
    node.addEventListener('click', () => go(to));
    return node;
  };
  const from = shown === 0 ? 0 : offset + 1;
  return h(
    'div',
    { class: 'pager' },
    h(
      'p',
      { class: 'muted' },
      `${from}–${offset + shown} of ${exact ? '' : 'more than '}${total.toLocaleString('en')}`,
    ),
    step('Newer', Math.max(0, offset - limit), offset > 0),
    step('Older', offset + limit, offset + shown < total),
  );
};
