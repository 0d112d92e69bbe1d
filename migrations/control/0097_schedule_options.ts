import type { Knex } from 'knex';

/** A schedule's own time-out, retries, jitter and deadline. */
export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    alter table schedules
      -- Null: that of the target.
      add column timeout_ms integer check (timeout_ms > 0),
      add column retry jsonb,
      -- Each fire is late by a random part of it.
      add column jitter_ms integer not null default 0 check (jitter_ms >= 0),
      -- A run that has not succeeded so long after its fire is told to webhooks; null: none is.
      add column deadline_ms integer check (deadline_ms > 0);
    alter table schedule_runs
      -- Null: none, or it was looked at.
      add column deadline_at timestamptz;
    create index schedule_runs_deadline on schedule_runs (deadline_at) where deadline_at is not null;
  `);
};

export const down = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    alter table schedule_runs drop column deadline_at;
    alter table schedules drop column timeout_ms, drop column retry, drop column jitter_ms, drop column deadline_ms;
  `);
};
