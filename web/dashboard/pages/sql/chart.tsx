import { useState } from 'react';
import { textOf } from '../../client/exact-json.ts';
import type { Result } from './run.ts';

/** More bars would be thinner than a pixel. */
const maxBars = 200;
const [width, height] = [800, 240];

const numberAt = (value: unknown): number => {
  const number = value === null || value === undefined ? 0 : Number(textOf(value));
  return Number.isFinite(number) ? number : 0;
};

const isNumeric = (type: string): boolean => /^(?:smallint|integer|bigint|numeric|real|double|int|float)/.test(type);

/** Numbers of a result as bars, by another of its columns. */
export const Chart = ({ result }: { readonly result: Result }) => {
  const numeric = result.columns.filter(({ type }) => isNumeric(type));
  const [y, setY] = useState(numeric.at(-1)?.name ?? '');
  const [x, setX] = useState(result.columns[0]?.name ?? '');
  if (numeric.length === 0) return <p className="empty">There is no column of numbers to draw.</p>;
  const rows = result.rows.slice(0, maxBars);
  const values = rows.map((row) => numberAt(row[y]));
  const [top, bottom] = [Math.max(0, ...values), Math.min(0, ...values)];
  const span = top - bottom || 1;
  const step = width / Math.max(1, rows.length);
  return (
    <figure>
      <div className="row">
        <label className="inline">
          Bars
          <select value={y} onChange={({ target }) => setY(target.value)}>
            {numeric.map(({ name }) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <label className="inline">
          by
          <select value={x} onChange={({ target }) => setX(target.value)}>
            {result.columns.map(({ name }) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <span className="muted">
          {bottom.toLocaleString('en')} to {top.toLocaleString('en')}
          {result.rows.length > maxBars && `, the first ${maxBars} rows`}
        </span>
      </div>
      <svg className="chart" viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`${y} by ${x}`}>
        {values.map((value, index) => (
          <rect
            // oxlint-disable-next-line react/no-array-index-key -- a result never changes
            key={index}
            x={index * step + step * 0.1}
            width={step * 0.8}
            y={((top - Math.max(0, value)) / span) * height}
            height={Math.max(1, (Math.abs(value) / span) * height)}
          >
            <title>{`${textOf(rows[index]?.[x] ?? null)}: ${value}`}</title>
          </rect>
        ))}
      </svg>
    </figure>
  );
};
