import type { ReactNode } from 'react';
import type { Series } from '../client/api.ts';
import { compactText, millisecondsText, numberText } from '../client/words.ts';

const [width, height] = [240, 44];

type Point = readonly [x: number, y: number];

const pointsOf = (values: readonly number[], top: number): readonly Point[] =>
  values.map((value, place) => [
    (place / (values.length - 1)) * width,
    height - 1 - (value / (top || 1)) * (height - 3),
  ]);

const lineOf = (points: readonly Point[]): string =>
  points.map(([x, y], place) => `${place === 0 ? 'M' : 'L'}${x.toFixed(1)} ${y.toFixed(1)}`).join('');

/** The line between the values that are missing; a single value is a short dash. */
const piecesOf = (values: readonly (number | null)[], top: number): string => {
  const points = pointsOf(
    values.map((value) => value ?? 0),
    top,
  );
  const runs: Point[][] = [];
  for (const [place, point] of points.entries()) {
    if (values[place] === null) continue;
    const goesOn = place > 0 && values[place - 1] !== null;
    if (goesOn) runs.at(-1)?.push(point);
    else runs.push([point]);
  }
  return runs.map((run) => (run.length > 1 ? lineOf(run) : `${lineOf(run)}h2`)).join('');
};

const Bars = ({ values, top }: { readonly values: readonly number[]; readonly top: number }) => {
  const step = width / values.length;
  return values.map((value, place) => {
    if (value === 0) return null;
    const tall = Math.max(2, (value / (top || 1)) * (height - 3));
    return (
      // oxlint-disable-next-line react/no-array-index-key -- a bar is its minute
      <rect key={place} className="bar" x={place * step} y={height - tall} width={step * 0.8} height={tall} />
    );
  });
};

interface FrameProps {
  readonly title: string;
  readonly label: string;
  readonly top: string;
  readonly children: ReactNode;
}

const Frame = ({ title, label, top, children }: FrameProps) => (
  <figure className="chart">
    <p aria-hidden="true">{title}</p>
    <svg viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label={label}>
      <line className="base" x1={0} x2={width} y1={height - 0.5} y2={height - 0.5} />
      {children}
    </svg>
    <figcaption aria-hidden="true">
      <span>1 h ago</span>
      <span>{top}</span>
      <span>now</span>
    </figcaption>
  </figure>
);

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

const Throughput = ({ series: { type, accepted, failed } }: { readonly series: Series }) => {
  const top = Math.max(...accepted, ...failed);
  const line = lineOf(pointsOf(accepted, top));
  return (
    <Frame
      title="Accepted, failed"
      label={`${type}, last hour: ${numberText(sum(accepted))} accepted, ${numberText(sum(failed))} failed`}
      top={top === 0 ? 'nothing' : `most ${compactText(top)}/min`}
    >
      {top > 0 && <path className="area" d={`${line}L${width} ${height}L0 ${height}Z`} />}
      {top > 0 && <path className="line" d={line} />}
      <Bars values={failed} top={top} />
    </Frame>
  );
};

/** The wait that 95 of 100 jobs stayed below; a minute without jobs shows none. */
const Waits = ({ series: { type, p95_wait_ms: waits } }: { readonly series: Series }) => {
  const known = waits.filter((wait) => wait !== null);
  const worst = Math.max(0, ...known);
  const top = known.length === 0 ? 'no jobs' : `worst ${millisecondsText(worst)}`;
  return (
    <Frame title="p95 wait" label={`${type}, p95 wait by minute of the last hour: ${top}`} top={top}>
      <path className="line wait" d={piecesOf(waits, worst)} />
    </Frame>
  );
};

/** The last hour of a job type by minutes: accepted as an area with failed ones as bars, and waits as a line. */
export const Charts = ({ series }: { readonly series: Series }) => (
  <>
    <Throughput series={series} />
    <Waits series={series} />
  </>
);
