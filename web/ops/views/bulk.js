import { call } from '../api.js';
import { ask } from '../dialogs.js';
import { button, h } from '../dom.js';
import { number } from '../format.js';
import { announce } from '../notices.js';

const possible = {
  retry: new Set(['', 'failed', 'dead', 'cancelled', 'expired']),
  cancel: new Set(['', 'queued', 'running', 'waiting']),
};

const jobsIn = (count) => `${count >= 100_000 ? 'at least ' : ''}${number(count)} ${count === 1 ? 'job' : 'jobs'}`;

const texts = {
  retry: {
    label: 'Retry all of this filter…',
    title: (many) => `Retry ${many}?`,
    text: 'Those that failed, died, expired or were cancelled are queued again under their ids. What they had done before is done again.',
    none: 'No job of this filter can be retried.',
    confirm: 'Retry them',
    done: 'retried',
  },
  cancel: {
    label: 'Cancel all of this filter…',
    title: (many) => `Cancel ${many}?`,
    text: 'Those that wait end at once, those that run are stopped where they are. Their callers are told.',
    none: 'No job of this filter waits or runs.',
    confirm: 'Cancel them',
    done: 'cancelled',
  },
};

/** Calls until nothing moves any more: one call works for 20 s at most. */
const changeAll = async (action, filter, report) => {
  let done = 0;
  for (;;) {
    const { matched, changed } = await call('POST', `/ops/api/jobs/${action}`, { filter });
    done += changed;
    report(`${number(done)} ${texts[action].done}.`);
    if (changed === 0 || changed >= matched) return done;
  }
};

const described = (filter) =>
  h(
    'dl',
    { class: 'facts' },
    Object.entries(filter).map(([name, value]) =>
      h('div', {}, h('dt', {}, name.replaceAll('_', ' ')), h('dd', {}, value)),
    ),
  );

const start = async (action, filter, show, refresh) => {
  const words = texts[action];
  const { matched } = await call('POST', `/ops/api/jobs/${action}`, { filter, dry_run: true });
  if (matched === 0) {
    announce(words.none);
    show(words.none);
    return;
  }
  await ask({
    title: words.title(jobsIn(matched)),
    text: words.text,
    fields: [described(filter)],
    confirm: words.confirm,
    danger: action === 'cancel',
    work: async (_data, report) => {
      const done = await changeAll(action, filter, report);
      announce(`${jobsIn(done)} ${words.done}.`);
      await refresh();
    },
  });
};

/**
 * Buttons that change all jobs of a filter; without a filter they do nothing.
 * @param show shows a sentence near the list; @param fail shows a failure
 */
export const bulkButtons = (filter, { show, fail, refresh }) => {
  const isEmpty = Object.keys(filter).length === 0;
  return Object.keys(texts).map((action) => {
    const isPossible = !isEmpty && possible[action].has(filter.status ?? '');
    const work = () => start(action, filter, show, refresh).catch(fail);
    return button(texts[action].label, work, {
      disabled: !isPossible,
      title: isEmpty ? 'Name something in the filter first.' : undefined,
    });
  });
};
