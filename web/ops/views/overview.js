import { call } from '../api.js';
import { throughputChart, waitChart } from '../chart.js';
import { badge, button, h, keyed, setChildren, setHidden, setText } from '../dom.js';
import { compact, milliseconds, number, seconds } from '../format.js';
import { refreshing } from '../refresh.js';
import { globalLimit } from './global-limit.js';
import { askToSwitch } from './pausing.js';
import { trouble } from './trouble.js';

const figure = (label) => {
  const value = h('dd', {}, '–');
  return { node: h('div', { class: 'figure' }, h('dt', {}, label), value), set: (text) => setText(value, text) };
};

const total = (queues, of) => {
  const values = queues.map(of).filter((value) => value !== null);
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0);
};

const worst = (queues, of) =>
  queues.map(of).reduce((most, value) => (value === null ? most : Math.max(most ?? 0, value)), null);

const summary = () => {
  const names = ['Waiting', 'Running', 'Oldest wait', 'Accepted / min', 'Finished / min', 'Dead letters', 'Workers'];
  const figures = names.map(figure);
  const set = ({ queues, workers, redis }) => {
    const texts = [
      compact(total(queues, (queue) => queue.waiting)),
      compact(total(queues, (queue) => queue.running)),
      seconds(worst(queues, (queue) => queue.oldest_wait_seconds)),
      compact(total(queues, (queue) => queue.accepted.minute)),
      compact(total(queues, (queue) => queue.finished.minute)),
      compact(total(queues, (queue) => queue.dead)),
      redis ? number(workers.length) : '–',
    ];
    texts.forEach((text, i) => figures[i].set(text));
  };
  return {
    node: h(
      'dl',
      { class: 'summary' },
      figures.map(({ node }) => node),
    ),
    set,
  };
};

const stateOf = ({ open, paused, workers_alive: workers }) => {
  if (open === null) return badge('unknown', 'plain');
  // Workers open the gate: without one it stays closed, and nothing is being rebuilt.
  if (workers === 0) return badge('no worker', 'bad');
  if (!open) return badge('rebuilding', 'bad');
  return paused ? badge('paused', 'warn') : badge('open', 'good');
};

const failureLinks = ({ type, failures }) =>
  failures.length === 0
    ? [h('span', { class: 'muted' }, 'none in the last hour')]
    : failures.map(({ code, count }) =>
        h(
          'a',
          { class: 'chip', href: `#/jobs?${new URLSearchParams({ type, error_code: code })}` },
          code,
          ' ',
          h('b', {}, compact(count)),
        ),
      );

const pauseButton = (type) => {
  let paused = false;
  let counts = { waiting: 0, running: 0 };
  const node = button('Pause', async () => {
    const action = paused ? 'resume' : 'pause';
    await askToSwitch({
      action,
      what: `${type} for all projects`,
      counts,
      others: action === 'pause' ? 'Other types go on.' : 'Projects that are paused by themselves stay so.',
      path: `/ops/api/queues/${type}/${action}`,
      refresh: (answer) => set(answer),
    });
  });
  const set = ({ paused: value, waiting = counts.waiting, running = counts.running }) => {
    paused = value === true;
    counts = { waiting, running };
    setText(node, paused ? 'Resume' : 'Pause');
    node.setAttribute('aria-label', `${paused ? 'Resume' : 'Pause'} ${type} for all projects`);
  };
  set({ paused: false });
  return { node, set };
};

/** One job type. */
const card = ({ type, pool }) => {
  const state = h('span');
  const pause = pauseButton(type);
  const global = globalLimit(type);
  const [waiting, running, oldest] = ['Waiting', 'Running', 'Oldest wait'].map(figure);
  const [accepted, finished, waits] = ['Accepted, min / h', 'Finished, min / h', 'Wait p50 / p95'].map(figure);
  const meter = h('meter', { min: 0, 'aria-label': `${type}: running of the window` });
  const capacity = h('p', { class: 'muted small' });
  const charts = h('div', { class: 'charts' });
  const failures = h('p', { class: 'chips' });
  const dead = h('a', { class: 'chip bad', href: `#/dead?${new URLSearchParams({ type })}` });
  const node = h(
    'article',
    { class: 'card', 'aria-label': type },
    h('header', {}, h('h2', {}, type), state, h('span', { class: 'grow' }), global.change, pause.node),
    h('dl', { class: 'figures big' }, waiting.node, running.node, oldest.node),
    h('div', { class: 'capacity' }, meter, capacity, global.text),
    charts,
    h('dl', { class: 'figures' }, accepted.node, finished.node, waits.node),
    h('div', { class: 'failures' }, h('h3', {}, 'Failures'), failures, dead),
  );
  const update = (queue) => {
    setChildren(state, stateOf(queue));
    pause.set(queue);
    global.set(queue);
    waiting.set(compact(queue.waiting));
    running.set(compact(queue.running));
    oldest.set(seconds(queue.oldest_wait_seconds));
    meter.max = Math.max(1, queue.window ?? 0);
    meter.value = queue.running ?? 0;
    const alive = queue.workers_alive ?? 0;
    setText(
      capacity,
      queue.window === null
        ? `pool ${pool}`
        : `window ${number(queue.window)}, ${number(queue.slots)} slots on ${number(alive)} ${alive === 1 ? 'worker' : 'workers'}, pool ${pool}`,
    );
    accepted.set(`${compact(queue.accepted.minute)} / ${compact(queue.accepted.hour)}`);
    finished.set(`${compact(queue.finished.minute)} / ${compact(queue.finished.hour)}`);
    waits.set(`${milliseconds(queue.wait_ms.p50)} / ${milliseconds(queue.wait_ms.p95)}`);
    setChildren(failures, ...failureLinks(queue));
    setHidden(dead, queue.dead === 0);
    setText(dead, `${number(queue.dead)} dead`);
  };
  const draw = (series) => setChildren(charts, throughputChart(type, series), waitChart(type, series));
  return { node, update, draw };
};

/** All job types at a glance, a second old at most. */
export const overview = ({ live }) => {
  const sums = summary();
  const grid = h('div', { class: 'grid' });
  const cards = new Map();
  const show = keyed(
    grid,
    ({ type }) => type,
    (queue) => {
      const made = card(queue);
      cards.set(queue.type, made);
      return made;
    },
  );
  let series = [];
  const draw = () => series.forEach((one) => cards.get(one.type)?.draw(one));
  const charts = refreshing(
    10_000,
    () => call('GET', '/ops/api/charts'),
    ({ types }) => {
      series = types;
      draw();
    },
  );
  const stop = live.listen((snapshot) => {
    const before = cards.size;
    sums.set(snapshot);
    show(snapshot.queues);
    if (cards.size !== before) draw();
  });
  void charts.now();
  const wrong = trouble();
  return {
    title: 'Overview',
    node: h('div', {}, wrong.node, charts.fault, sums.node, grid),
    close: () => {
      stop();
      wrong.close();
      charts.close();
    },
  };
};
