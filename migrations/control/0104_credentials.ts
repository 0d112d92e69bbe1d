import type { Knex } from 'knex';

/** Personal access tokens, the cookie of the dashboard, and sign-ins of devices that have no browser (RFC 8628). */
const credentials = `
alter table sign_in_tokens drop constraint sign_in_tokens_kind_check;
alter table sign_in_tokens add constraint sign_in_tokens_kind_check
  check (kind in ('access', 'refresh', 'cookie', 'personal'));

-- Each is a sign-in of the kind 'personal' with one token, so that whatever follows sign-ins follows these, too.
create table personal_tokens (
  id uuid primary key references sign_ins on delete cascade,
  user_id uuid not null references users on delete cascade,
  name text not null,
  scopes text[] not null,
  -- Null: all organizations of the user.
  org_id text references organizations on delete cascade,
  last_four text not null,
  -- Null: it does not expire.
  expires_at timestamptz,
  last_used_at timestamptz,
  created_at timestamptz not null default now()
);
create index personal_tokens_user on personal_tokens (user_id);
create index personal_tokens_org on personal_tokens (org_id);

create table device_requests (
  -- The SHA-256 of the device code, which only the device knows.
  hash bytea primary key,
  -- The code that a person types or compares.
  user_code text not null unique,
  client_name text not null,
  ip text,
  user_agent text,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  status text not null default 'pending' check (status in ('pending', 'approved', 'denied')),
  -- The sign-in that approved it: when it has ended, so has the approval.
  approved_by uuid references sign_ins on delete cascade,
  last_polled_at timestamptz
);
create index device_requests_approver on device_requests (approved_by);
create index device_requests_expiry on device_requests (expires_at);
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(credentials);
};

export const down = (): Promise<void> => Promise.reject(new Error('Tokens that are in use are not given up.'));
