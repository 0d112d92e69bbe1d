import { h } from './dom.js';
import { compact, milliseconds, number } from './format.js';

const width = 240;
const height = 44;

const pointsOf = (values, top) =>
  values.map((value, i) => [(i / (values.length - 1)) * width, height - 1 - (value / (top || 1)) * (height - 3)]);

const line = (points) => points.map(([x, y], i) => `${i === 0 ? 'M' : 'L'}${x.toFixed(1)} ${y.toFixed(1)}`).join('');

const area = (points) => `${line(points)}L${width} ${height}L0 ${height}Z`;

/** Pieces of a line, between the values that are missing; a single value is a short dash. */
const pieces = (values, top) => {
  const points = pointsOf(
    values.map((value) => value ?? 0),
    top,
  );
  const runs = [];
  for (const [i, value] of values.entries()) {
    if (value === null) continue;
    if (i > 0 && values[i - 1] !== null) runs.at(-1).push(points[i]);
    else runs.push([points[i]]);
  }
  return runs.map((run) => (run.length > 1 ? line(run) : `${line(run)}h2`)).join('');
};

const bars = (values, top) => {
  const step = width / values.length;
  return values.flatMap((value, i) => {
    if (value === 0) return [];
    const tall = Math.max(2, (value / (top || 1)) * (height - 3));
    return [
      h('rect', {
        class: 'bar',
        x: (i * step).toFixed(1),
        y: (height - tall).toFixed(1),
        width: (step * 0.8).toFixed(1),
        height: tall.toFixed(1),
      }),
    ];
  });
};

const frame = ({ title, label, top }, parts) =>
  h(
    'figure',
    { class: 'chart' },
    h('p', { 'aria-hidden': 'true' }, title),
    h(
      'svg',
      { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': label },
      h('line', { class: 'base', x1: 0, x2: width, y1: height - 0.5, y2: height - 0.5 }),
      parts,
    ),
    h('figcaption', { 'aria-hidden': 'true' }, h('span', {}, '1 h ago'), h('span', {}, top), h('span', {}, 'now')),
  );

const sum = (values) => values.reduce((total, value) => total + value, 0);

/** Accepted jobs of each minute of the last hour as an area, failed ones as bars. */
export const throughputChart = (type, { accepted, failed }) => {
  const top = Math.max(...accepted, ...failed);
  const label = `${type}, last hour: ${number(sum(accepted))} accepted, ${number(sum(failed))} failed`;
  const points = pointsOf(accepted, top);
  return frame({ title: 'Accepted, failed', label, top: top === 0 ? 'nothing' : `most ${compact(top)}/min` }, [
    top > 0 && h('path', { class: 'area', d: area(points) }),
    top > 0 && h('path', { class: 'line', d: line(points) }),
    ...bars(failed, top),
  ]);
};

/** The wait that 95 of 100 jobs stayed below, by minute; a minute without jobs shows none. */
export const waitChart = (type, { p95_wait_ms: waits }) => {
  const known = waits.filter((wait) => wait !== null);
  const worst = Math.max(0, ...known);
  const top = known.length === 0 ? 'no jobs' : `worst ${milliseconds(worst)}`;
  const label = `${type}, p95 wait by minute of the last hour: ${top}`;
  return frame({ title: 'p95 wait', label, top }, [h('path', { class: 'line wait', d: pieces(waits, worst) })]);
};
