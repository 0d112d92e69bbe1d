/**
 * The actor that starts a job: a member in the dashboard (or an operator, without an id), an API key, one of the
 * project's own users, a schedule, or an event (a webhook, a payment provider).
 */
export interface Starter {
  readonly kind: 'dashboard' | 'secret' | 'publishable' | 'user' | 'cron' | 'event';
  /** The id of the user, key, schedule, webhook or integration; for a project's own user, the subject of the token. */
  readonly id: string | null;
}

/** The columns of `jobs` that say who started it. */
export interface StartedBy {
  readonly started_by_kind: string | null;
  readonly started_by_id: string | null;
}

/** Whether that key or end user may read a job: a secret key reads all of its project, the others what they started. */
export const mayRead = (job: StartedBy, { kind, id }: Starter): boolean =>
  kind === 'secret' || (id !== null && job.started_by_kind === kind && job.started_by_id === id);
