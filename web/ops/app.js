import { call, inWords } from './api.js';
import { h, setChildren, setText } from './dom.js';
import { refreshTimes } from './format.js';
import { createLive } from './live.js';
import { announce, showNotices } from './notices.js';
import { signIn } from './sign-in.js';
import { cron } from './views/cron.js';
import { dead } from './views/dead.js';
import { setTypes } from './views/filters.js';
import { job } from './views/job.js';
import { jobs } from './views/jobs.js';
import { mail, oneMail } from './views/mail.js';
import { overview } from './views/overview.js';
import { projects } from './views/projects.js';
import { workers } from './views/workers.js';

// A view is made for { live, query, id } and is { title, node, close? }.
const views = [
  { path: '', label: 'Overview', view: overview },
  { path: 'projects', label: 'Projects', view: projects },
  { path: 'jobs', label: 'Jobs', view: jobs },
  { path: 'dead', label: 'Dead letters', view: dead },
  { path: 'workers', label: 'Workers', view: workers },
  { path: 'cron', label: 'Cron', view: cron },
  { path: 'mail', label: 'Mail', view: mail },
];

const ofOne = { jobs: job, mail: oneMail };

const main = document.querySelector('main');
const nav = document.querySelector('nav');
const pulse = document.querySelector('.pulse');
const signOut = document.querySelector('.sign-out');
const live = createLive();
let shown = null;

const words = { live: 'live', connecting: 'connecting', lost: 'reconnecting', trouble: 'no database' };

live.watch((state, snapshot) => {
  pulse.dataset.state = state;
  setText(pulse.querySelector('.pulse-text'), words[state]);
  showNotices(state, snapshot);
});

const locationNow = () => {
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const [name = '', id = null] = path.split('/');
  return { name, id, query: new URLSearchParams(query) };
};

const markNav = (name) => {
  for (const link of nav.querySelectorAll('a[data-view]')) {
    if (link.dataset.view === name) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
};

const nowhere = () => ({ title: 'Not found', node: h('p', { class: 'empty' }, 'There is no such view.') });

const show = (focus) => {
  const { name, id, query } = locationNow();
  const found = views.find(({ path }) => path === name);
  const make = (id === null ? found?.view : ofOne[name]) ?? nowhere;
  shown?.close?.();
  const view = make({ live, query, id });
  shown = view;
  document.title = `${view.title} · plinth operations`;
  const heading = h('h1', { tabindex: -1 }, view.title);
  main.replaceChildren(heading, view.node);
  markNav(name);
  if (focus) {
    heading.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
};

const setSignedIn = (signedIn) => {
  for (const node of [nav, pulse, signOut]) node.hidden = !signedIn;
};

const onHash = () => show(true);

const enter = async () => {
  const { queues } = await call('GET', '/ops/api/queues');
  setTypes(queues.map(({ type }) => type));
  setSignedIn(true);
  addEventListener('hashchange', onHash);
  live.start();
  show(false);
};

const leave = () => {
  removeEventListener('hashchange', onHash);
  live.stop();
  shown?.close?.();
  shown = null;
  setSignedIn(false);
  setChildren(document.querySelector('.notices'));
  document.title = 'Sign in · plinth operations';
  main.replaceChildren(signIn(enter));
};

nav.append(
  h(
    'ul',
    {},
    views.map(({ path, label }) => h('li', {}, h('a', { href: `#/${path}`, 'data-view': path }, label))),
    h('li', {}, h('a', { href: '/ops/bullmq' }, 'BullMQ')),
  ),
);

signOut.addEventListener('click', async () => {
  await call('DELETE', '/ops/session').catch(() => null);
  leave();
  announce('Signed out.');
});

document.addEventListener('signed-out', () => {
  if (!nav.hidden) leave();
});

// The skip link would change the view: the view's name stands in the hash.
document.querySelector('.skip').addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});

setInterval(refreshTimes, 1000);

try {
  await enter();
} catch (error) {
  if (error.status === 401) leave();
  else main.replaceChildren(h('p', { class: 'empty', role: 'alert' }, inWords(error)));
}
