import type { Knex } from 'knex';

const accounts = `
alter table users add column email_confirmed_at timestamptz;

-- Through what somebody signed in, and when the sign-in was last renewed.
alter table sign_ins
  add column kind text not null default 'api',
  add column last_seen_at timestamptz;

-- Links that prove that an address is the user's. With another address than the present one, the link changes it.
create table email_confirmations (
  hash bytea primary key,
  user_id uuid not null references users on delete cascade,
  email text not null,
  expires_at timestamptz not null
);
create index email_confirmations_user on email_confirmations (user_id);
create index email_confirmations_expiry on email_confirmations (expires_at);

-- Second factors (TOTP). It counts once it was verified; last_step is the time step whose code was used last.
create table user_factors (
  id uuid primary key,
  user_id uuid not null unique references users on delete cascade,
  secret_sealed bytea not null,
  last_step bigint,
  verified_at timestamptz,
  created_at timestamptz not null default now()
);

create table recovery_codes (
  hash bytea primary key,
  user_id uuid not null references users on delete cascade
);
create index recovery_codes_user on recovery_codes (user_id);

-- A sign-in whose password was right and whose second factor is still to come.
create table factor_challenges (
  hash bytea primary key,
  user_id uuid not null references users on delete cascade,
  attempts integer not null default 0,
  expires_at timestamptz not null
);
create index factor_challenges_user on factor_challenges (user_id);
create index factor_challenges_expiry on factor_challenges (expires_at);

-- Failed sign-ins by account, known or not: the SHA-256 of the address in small letters.
create table sign_in_failures (
  account bytea primary key,
  failures integer not null,
  began_at timestamptz not null
);
create index sign_in_failures_began on sign_in_failures (began_at);

alter table platform_mail drop constraint platform_mail_kind_check;
alter table platform_mail add constraint platform_mail_kind_check
  check (kind in ('password-reset', 'invite', 'notice', 'confirm-email', 'account'));
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(accounts);
};

export const down = (): Promise<void> => Promise.reject(new Error('Second factors are not given up.'));
