import type { ReactNode } from 'react';

/** A list of names with their values; a value that is null or false is left out. */
export const Facts = ({ of }: { readonly of: Readonly<Record<string, ReactNode>> }) => (
  <dl className="facts">
    {Object.entries(of)
      .filter(([, value]) => value !== null && value !== false)
      .map(([name, value]) => (
        <div key={name} className="fact">
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
  </dl>
);
