import { call, queryOf } from '../api.js';
import { ask } from '../dialogs.js';
import { button, empty, h, setChildren, setHidden, setText } from '../dom.js';
import { number } from '../format.js';
import { announce } from '../notices.js';
import { refreshing } from '../refresh.js';
import { filterOf, goTo, input, typeFilter, valuesIn } from './filters.js';
import { jobTable, pager } from './job-table.js';

const limit = 50;
const names = ['type', 'project', 'error_code'];

const count = (many) => `${number(many)} dead ${many === 1 ? 'letter' : 'letters'}`;

/** Calls until nothing is left, or what is left does not move. */
const redriveAll = async (which, report) => {
  let done = 0;
  for (;;) {
    const { redriven, remaining } = await call('POST', '/ops/api/dead/redrive', which);
    done += redriven;
    report(`${number(done)} redriven, ${number(remaining)} to go.`);
    if (remaining === 0 || redriven === 0) return done;
  }
};

const askToRedrive = (many, which, refresh) =>
  ask({
    title: `Redrive ${many}?`,
    text: 'They are queued again, with all their attempts before them.',
    confirm: 'Redrive',
    work: async (_data, report) => {
      announce(`${count(await redriveAll(which, report))} redriven.`);
      await refresh();
    },
  });

const groupLink = ({ type, error_code: code, count: many }) =>
  h(
    'a',
    { class: 'chip', href: `#/dead${queryOf({ type, error_code: code })}` },
    `${type} · ${code ?? 'unknown'} `,
    h('b', {}, number(many)),
  );

/** The jobs that are ticked; `changed` is called when they are others. */
const createChoice = (changed) => {
  const ids = new Set();
  const box = (job) => {
    const node = h('input', { type: 'checkbox', 'aria-label': `Choose ${job.type} ${job.id}` });
    node.checked = ids.has(job.id);
    node.addEventListener('change', () => {
      if (node.checked) ids.add(job.id);
      else ids.delete(job.id);
      changed(ids);
    });
    return node;
  };
  const keepOnly = (found) => {
    const present = new Set(found.map(({ id }) => id));
    for (const id of ids) if (!present.has(id)) ids.delete(id);
    changed(ids);
  };
  return { ids, box, keepOnly };
};

const filterForm = (wanted) => {
  const form = h(
    'form',
    { class: 'filters', role: 'search', 'aria-label': 'Dead letters' },
    typeFilter(wanted.type),
    input('project', 'Project', wanted.project, { size: 18, placeholder: 'name, slug, ref or id' }),
    input('error_code', 'Error code', wanted.error_code, { size: 16 }),
    h('button', { type: 'submit', class: 'primary' }, 'Filter'),
  );
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    goTo('dead', valuesIn(form), 0);
  });
  return form;
};

/** Jobs that are given up until somebody redrives them. */
export const dead = ({ query }) => {
  const wanted = filterOf(query, names);
  const offset = Number(query.get('offset') ?? 0);
  const given = Object.fromEntries(Object.entries(wanted).filter(([, value]) => value !== ''));
  const filtered = Object.keys(given).length > 0;
  const [groups, list] = [h('p', { class: 'chips' }), h('div', { class: 'list' })];

  const redrive = async (many, which) => {
    const done = await askToRedrive(many, which, letters.now);
    // The row that asked is gone.
    if (done) (all.disabled ? document.querySelector('h1') : all).focus();
  };
  const all = button(
    filtered ? 'Redrive all of this filter' : 'Redrive all',
    () => redrive(all.dataset.many, filtered ? given : { all: true }),
    { class: 'primary' },
  );
  const some = button('Redrive chosen', () => redrive(count(choice.ids.size), { ids: [...choice.ids] }));
  const choice = createChoice(({ size }) => {
    some.disabled = size === 0;
    setText(some, size === 0 ? 'Redrive chosen' : `Redrive chosen (${size})`);
  });
  const one = (job) =>
    button('Redrive', () => redrive('this dead letter', { ids: [job.id] }), {
      'aria-label': `Redrive ${job.type} ${job.id}`,
    });
  const columns = [
    { label: 'Choose', class: 'tick', cell: choice.box },
    { label: 'Action', cell: one },
  ];

  const show = ({ jobs: found, total, total_is_exact: exact, groups: kinds }) => {
    setChildren(groups, ...kinds.map(groupLink));
    setHidden(groups, kinds.length === 0);
    choice.keepOnly(found);
    all.dataset.many = exact ? count(total) : `more than ${count(total)}`;
    all.disabled = total === 0;
    list.replaceChildren(
      found.length === 0
        ? empty(filtered ? 'No dead letter is like that.' : 'There are no dead letters.')
        : jobTable('Dead letters, newest first', found, columns),
      pager({ offset, limit, shown: found.length, total, exact }, (to) => goTo('dead', wanted, to)),
    );
  };
  const letters = refreshing(0, () => call('GET', `/ops/api/dead${queryOf({ ...wanted, limit, offset })}`), show);
  void letters.now();
  return {
    title: 'Dead letters',
    node: h('div', {}, filterForm(wanted), groups, h('div', { class: 'bar-of-list' }, all, some), letters.fault, list),
    close: letters.close,
  };
};
