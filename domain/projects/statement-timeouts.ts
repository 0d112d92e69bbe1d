import type { Project } from './store.ts';

/** How long one statement of the data API may take, by who asks; in ms. */
export interface StatementTimeouts {
  readonly anon: number;
  readonly authenticated: number;
  /** The time-out of secret keys. */
  readonly secret: number;
}

/** A stranger with a publishable key must not keep processors busy for as long as the project's own servers may. */
export const usualStatementTimeouts: StatementTimeouts = { anon: 3000, authenticated: 8000, secret: 30_000 };

/** In ms. Above it the watchdog of the servers ends what runs (`statementTimeoutSeconds`). */
export const statementTimeoutBounds = { min: 100, max: 30_000 } as const;

export const statementTimeoutsOf = ({
  statement_timeouts: set,
}: Pick<Project, 'statement_timeouts'>): StatementTimeouts => ({
  ...usualStatementTimeouts,
  ...set,
});
