import { queryOf } from '../api.js';
import { h } from '../dom.js';

let types = [];

/** The job types of this installation; told when the page begins. */
export const setTypes = (known) => {
  types = known;
};

export const statuses = ['queued', 'running', 'waiting', 'succeeded', 'failed', 'cancelled', 'expired', 'dead'];

/** A choice among `options`, or any. */
export const select = ({ name, label, options, value, whenChanged }) => {
  const node = h(
    'select',
    { name },
    h('option', { value: '' }, 'any'),
    options.map((option) => h('option', { value: option, selected: option === value }, option)),
  );
  if (whenChanged) node.addEventListener('change', () => whenChanged(node.value));
  return h('label', { class: 'field' }, h('span', {}, label), node);
};

export const typeFilter = (value, whenChanged) =>
  select({ name: 'type', label: 'Type', options: types, value, whenChanged });

export const input = (name, label, value, attributes = {}) =>
  h(
    'label',
    { class: 'field' },
    h('span', {}, label),
    h('input', { name, value, spellcheck: 'false', autocomplete: 'off', ...attributes }),
  );

const two = (value) => String(value).padStart(2, '0');

/** A time of the API as an input for local times wants it; empty when it is none. */
export const localTime = (iso) => {
  const date = new Date(iso);
  if (iso === '' || Number.isNaN(date.getTime())) return '';
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day}T${two(date.getHours())}:${two(date.getMinutes())}`;
};

export const timeInput = (name, label, value) => input(name, label, value, { type: 'datetime-local' });

/** The values of a form, trimmed. */
export const valuesIn = (form) =>
  Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, value.trim()]));

/** A view's filter as its address has it. Links of older versions name a project by `project_id`. */
export const filterOf = (query, names) => {
  const wanted = Object.fromEntries(names.map((name) => [name, query.get(name) ?? '']));
  return { ...wanted, project: wanted.project || (query.get('project_id') ?? '') };
};

/** Opens a view with that filter; it stands in the address, so that it can be passed on. */
export const goTo = (view, fields, offset) => {
  location.hash = `#/${view}${queryOf({ ...fields, offset: offset > 0 ? offset : '' })}`;
};
