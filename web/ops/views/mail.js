import { call, inWords, queryOf } from '../api.js';
import { badge, button, empty, h, setChildren, setHidden, table } from '../dom.js';
import { when } from '../format.js';
import { announce } from '../notices.js';
import { refreshing } from '../refresh.js';
import { goTo, select } from './filters.js';
import { pager } from './job-table.js';

const limit = 50;
const statuses = ['queued', 'sent', 'failed', 'unknown', 'kept'];
const kinds = { queued: 'plain', sent: 'good', failed: 'bad', kept: 'info' };
const columns = [{ label: 'To' }, { label: 'Subject', class: 'wide' }, { label: 'Status' }, { label: 'Written' }];

const statusBadge = (status) => badge(status, kinds[status] ?? 'plain');

const rowOf = (layout) => (mail) =>
  layout.row([
    mail.recipient,
    h('a', { href: `#/mail/${mail.id}` }, mail.subject || 'No subject'),
    statusBadge(mail.status),
    when(mail.created_at),
  ]);

/** The mails of the platform to its users, and those of projects that cannot be sent because there is no mail server. */
export const mail = ({ query }) => {
  const status = query.get('status') ?? '';
  const offset = Number(query.get('offset') ?? 0);
  const filter = select({
    name: 'status',
    label: 'Status',
    options: statuses,
    value: status,
    whenChanged: (value) => goTo('mail', { status: value }, 0),
  });
  const list = h('div', { class: 'list' });
  const show = ({ mails, total }) => {
    const layout = table('Mails, newest first', columns);
    layout.body.append(...mails.map(rowOf(layout)));
    setChildren(
      list,
      mails.length === 0 ? empty(status === '' ? 'Nothing was written yet.' : `No mail is ${status}.`) : layout.node,
      pager({ offset, limit, shown: mails.length, total, exact: true }, (to) => goTo('mail', { status }, to)),
    );
  };
  const mails = refreshing(5000, () => call('GET', `/ops/api/mail${queryOf({ status, limit, offset })}`), show);
  void mails.now();
  return {
    title: 'Mail',
    node: h('div', {}, h('form', { class: 'filters' }, filter), mails.fault, list),
    close: mails.close,
  };
};

const outcomeOf = ({ status, error, response, attempts }) => {
  if (status === 'kept') return 'There is no mail server for it, so it was not sent.';
  if (error !== null) return `${error} (${attempts} ${attempts === 1 ? 'try' : 'tries'})`;
  return response;
};

const facts = (found) =>
  [
    ['To', found.recipient],
    ['From', found.project_id === null ? 'the platform' : `project ${found.project_id}`],
    ['Written', when(found.created_at)],
    ['Sent', found.sent_at === null ? null : when(found.sent_at)],
    ['Outcome', outcomeOf(found)],
  ]
    .filter(([, value]) => value !== null && value !== undefined)
    .map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value)));

const textOf = ({ id, body, subject }) =>
  body === null
    ? [empty('Its text is not for operators: it lets its reader in.')]
    : [
        h('iframe', { class: 'mail', title: `The mail “${subject}”`, sandbox: '', src: `/ops/api/mail/${id}/html` }),
        h('section', { class: 'panel' }, h('h2', {}, 'As text'), h('pre', { tabindex: 0 }, body)),
      ];

const maySend = ({ status, project_id: project }) => project === null && ['failed', 'unknown', 'kept'].includes(status);

/** One mail, as its reader sees it. */
export const oneMail = ({ id }) => {
  const [head, list, panels] = [
    h('div', { class: 'job-head' }),
    h('dl', { class: 'facts' }),
    h('div', { class: 'panels' }),
  ];
  const path = `/ops/api/mail/${encodeURIComponent(id)}`;
  const show = (found) => {
    setChildren(head, statusBadge(found.status), h('strong', {}, found.subject || 'No subject'));
    setChildren(list, ...facts(found));
    setHidden(again, !maySend(found));
    setChildren(panels, ...textOf(found));
  };
  const page = refreshing(5000, () => call('GET', path), show);
  const again = button(
    'Send it',
    async () => {
      try {
        show(await call('POST', `${path}/retry`));
        announce('The mail is queued.');
      } catch (error) {
        announce(inWords(error));
        setChildren(page.fault, h('p', { class: 'notice bad' }, inWords(error)));
      }
    },
    { class: 'primary', hidden: true },
  );
  void page.now();
  return {
    title: 'Mail',
    node: h('div', {}, page.fault, head, list, h('div', { class: 'actions start' }, again), panels),
    close: page.close,
  };
};
