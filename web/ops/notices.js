import { h, setChildren } from './dom.js';

const list = (names) => new Intl.ListFormat('en').format(names);

const ofQueues = (queues) => {
  const notices = [];
  const closed = queues
    .filter(({ open, workers_alive: workers }) => open === false && workers !== 0)
    .map(({ type }) => type);
  const idle = queues.filter(({ workers_alive: alive, waiting }) => alive === 0 && waiting > 0).map(({ type }) => type);
  const paused = queues.filter((queue) => queue.paused).map(({ type }) => type);
  if (closed.length > 0)
    notices.push([
      'bad',
      `The gate of ${list(closed)} is being rebuilt from Postgres. Its jobs wait until that is done.`,
    ]);
  if (idle.length > 0) notices.push(['bad', `Jobs wait, and no worker is alive for ${list(idle)}.`]);
  if (paused.length > 0) notices.push(['warn', `Paused for all projects: ${list(paused)}.`]);
  return notices;
};

/** The notices that every view shows, as pairs of kind and text. */
const noticesOf = (state, snapshot) => {
  if (state === 'trouble') return [['bad', 'Postgres does not answer. What is shown may be old.']];
  if (state === 'lost') return [['warn', 'The connection to the API is lost; trying again. What is shown may be old.']];
  if (snapshot === null) return [];
  if (!snapshot.redis)
    return [['bad', 'Redis does not answer. Nothing new is handed to workers; what was accepted is safe in Postgres.']];
  return ofQueues(snapshot.queues);
};

/** Shows them at the top of the page; it is a status region, so that changes are read out. */
export const showNotices = (state, snapshot) => {
  const node = document.querySelector('.notices');
  setChildren(node, ...noticesOf(state, snapshot).map(([kind, text]) => h('p', { class: `notice ${kind}` }, text)));
};

/** Says in words what an action did, for those who do not see it. */
export const announce = (text) => {
  const node = document.querySelector('.announcer');
  node.textContent = '';
  requestAnimationFrame(() => (node.textContent = text));
};
