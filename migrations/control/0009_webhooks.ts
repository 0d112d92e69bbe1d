import type { Knex } from 'knex';

const webhooks = `
-- Who is told of a project's events: an address of the project's own, or a chat of its integrations.
create table webhooks (
  id uuid primary key,
  -- A project that is purged waits for its webhooks, and these for their deliveries, which go in steps.
  project_id uuid not null references projects,
  kind text not null default 'http' check (kind in ('http', 'slack', 'discord')),
  name text,
  -- Sealed where it is a secret itself, as those of chats are; then url is null.
  url text,
  url_sealed bytea,
  -- Names, 'group.*', 'table.<name>.*' or '*'.
  events text[] not null,
  secret_sealed bytea not null,
  -- Signs beside the new one until then.
  previous_secret_sealed bytea,
  previous_secret_until timestamptz,
  send_secret boolean not null default false,
  rate_per_second integer not null default 50,
  is_active boolean not null default true,
  -- Why the platform made it inactive; null when its owner did, or while it is active.
  disabled_reason text,
  -- Counts its addresses, secrets and fresh starts: what became of a try of an earlier one says nothing of this one.
  version integer not null default 1,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  -- Its deliveries go in steps, then the row.
  deleted_at timestamptz,
  check ((url is null) <> (url_sealed is null))
);
create index webhooks_project on webhooks (project_id);
create index webhooks_present on webhooks (project_id, created_at, id) where deleted_at is null;
create index webhooks_deleted on webhooks (deleted_at) where deleted_at is not null;
-- One chat of a kind in a project.
create unique index webhooks_chat on webhooks (project_id, kind) where kind <> 'http' and deleted_at is null;

create trigger audit after insert or update or delete on webhooks
  for each row execute function audit_change('webhook', 'url_sealed', 'secret_sealed', 'previous_secret_sealed', 'version',
    'updated_at');

create function count_webhook_version() returns trigger language plpgsql as $$
begin
  new.version := old.version + 1;
  return new;
end $$;
create trigger count_version before update of url, url_sealed, secret_sealed, is_active on webhooks for each row
  when (row(old.url, old.url_sealed, old.secret_sealed) is distinct from row(new.url, new.url_sealed, new.secret_sealed)
    or (new.is_active and not old.is_active))
  execute function count_webhook_version();

-- How deliveries of a webhook get on. Apart from the webhook, since it changes with each of them.
create table webhook_lanes (
  webhook_id uuid primary key references webhooks on delete cascade,
  -- Tries in a row that failed.
  failures integer not null default 0,
  -- Since when nothing else was seen, how many tries that were, and when the last one was: after days without any it begins
  -- anew.
  failing_since timestamptz,
  failed_tries integer not null default 0,
  failed_at timestamptz,
  -- Nothing is tried before, since it fails all the time; a success ends that.
  closed_until timestamptz,
  -- Nor before that: the receiver asked for a pause.
  asked_until timestamptz,
  -- What its rate leaves: so many tries at that time.
  tokens double precision not null default 1,
  tokens_at timestamptz not null default now(),
  -- When something is to be done, at the latest.
  next_at timestamptz,
  -- Whether its last try was a success within some seconds. Others have one try at a time.
  is_quick boolean not null default false,
  -- Of those: the project while one has a try under way, or waits until others of the project that are not quick have not.
  slow_in uuid,
  waits_since timestamptz
) with (fillfactor = 50);
create index webhook_lanes_next on webhook_lanes (next_at) where next_at is not null;
create index webhook_lanes_slow on webhook_lanes (slow_in, waits_since) where slow_in is not null;
create function open_webhook_lane() returns trigger language plpgsql as $$
begin
  insert into webhook_lanes (webhook_id, tokens) values (new.id, new.rate_per_second);
  return null;
end $$;
create trigger open_lane after insert on webhooks for each row execute function open_webhook_lane();

-- One event for one webhook. What is sent is put together from the event when it is sent.
create table webhook_deliveries (
  id uuid primary key default uuid_v7(),
  -- No foreign key: each of ten thousand rows of one event would take a lock for it.
  webhook_id uuid not null,
  project_id uuid not null,
  event_id uuid not null,
  -- As this webhook asked for it.
  event text not null,
  status text not null check (status in ('pending', 'success', 'failed', 'exhausted', 'skipped')),
  -- Counts the tries; those since it was last asked for by hand are attempt - attempts_before.
  attempt integer not null default 0,
  attempts_before integer not null default 0,
  -- Null: no further try.
  next_attempt_at timestamptz,
  -- The try that waits for its turn or is under way.
  job_id uuid,
  status_code integer,
  response_time_ms integer,
  request_headers json,
  response_body text,
  error text,
  created_at timestamptz not null default now(),
  finished_at timestamptz,
  unique (event_id, webhook_id)
) with (fillfactor = 80);
create index webhook_deliveries_webhook on webhook_deliveries (webhook_id, id desc);
create index webhook_deliveries_status on webhook_deliveries (webhook_id, status, id desc);
create index webhook_deliveries_due on webhook_deliveries (webhook_id, next_attempt_at)
  where next_attempt_at is not null and job_id is null;
create index webhook_deliveries_under_way on webhook_deliveries (webhook_id) where job_id is not null;
create index webhook_deliveries_finished on webhook_deliveries (finished_at) where finished_at is not null;

alter table outbox_events
  -- From then on whoever subscribes has its delivery.
  add column fanned_at timestamptz;
create index outbox_events_waiting on outbox_events (project_id, id) where fanned_at is null;
create index outbox_events_fanned on outbox_events (fanned_at) where fanned_at is not null;

-- Everything that one may subscribe to and be told of this event. A pattern has at most 200 characters.
create function event_patterns(event text) returns text[] language sql immutable strict parallel safe as $$
  select case
    when event like 'table.%' then array[event, 'table.*', '*', 'db.*', 'database.*',
      regexp_replace(event, '\\.[A-Z]+$', '.*'), 'db.' || lower(substring(event from '[A-Z]+$'))]
    -- payments.stripe.invoice.paid: payments.*, payments.stripe.* and payments.stripe.invoice.*.
    else array[event, '*', case when event like 'user.%' then 'users.*' else '*' end] || array(
      select array_to_string(parts[1:level], '.') || '.*'
      from string_to_array(left(event, 199), '.') as parts, generate_series(1, cardinality(parts) - 1) as level) end
$$;

-- What an event is called for who subscribes to those: writes to tables have two names.
create function event_name_for(event text, subscribed text[]) returns text language sql immutable strict parallel safe as $$
  select case
    when event like 'table.%' and subscribed && array['*', 'db.*', 'database.*', 'db.' || lower(substring(event from '[A-Z]+$'))]
      then 'db.' || lower(substring(event from '[A-Z]+$'))
    else event end
$$;

-- What webhooks that are not deleted ask for: an event costs what it matches, whatever else its project asks for. Kept by
-- the trigger below; no foreign key, since each of a hundred rows of a webhook would take a lock for it.
create table webhook_patterns (
  project_id uuid not null,
  pattern text not null,
  webhook_id uuid not null,
  primary key (project_id, pattern, webhook_id)
);

-- What nobody subscribes to is not kept. The settings: where most rows are of one project, a walk through the table looks
-- cheap for all the others, too.
create function keep_if_subscribed() returns trigger language plpgsql
  set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  patterns constant text[] := event_patterns(new.event);
begin
  -- Asked for by hand, for one webhook, whatever it subscribes to.
  if new.event like 'test.%' then return new; end if;
  if exists (select from webhook_patterns p where p.project_id = new.project_id and p.pattern = any (patterns)) then
    return new;
  end if;
  return null;
end $$;
create trigger keep_if_subscribed before insert on outbox_events
  for each row execute function keep_if_subscribed();

-- Who is to be told of an event, and as what. The settings: as above.
create function subscribers(of_project uuid, happened text)
  returns table (webhook_id uuid, is_active boolean, event text) language plpgsql stable
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
  patterns constant text[] := event_patterns(happened);
begin
  return query
    select m.id, w.is_active, event_name_for(happened, m.asked)
    from (select p.webhook_id as id, array_agg(p.pattern) as asked from webhook_patterns p
          where p.project_id = of_project and p.pattern = any (patterns) group by p.webhook_id) as m
      join webhooks w on w.id = m.id
    where w.deleted_at is null;
end $$;

-- How many webhooks a project has, as far as it matters. The settings: as above.
create function webhooks_up_to(of_project uuid, most integer) returns bigint language plpgsql stable
  set enable_seqscan = off set enable_bitmapscan = off as $$
begin
  return (select count(*) from (
    select from webhooks w where w.project_id = of_project and w.deleted_at is null limit most) as counted);
end $$;

-- Projects whose databases are yet to be told which writes leave events.
create table subscriptions_to_set (
  project_id uuid primary key references projects on delete cascade,
  wanted_at timestamptz not null default clock_timestamp()
);

-- A project's database has something to be told only when the first asks for a write, or the last does no more.
create function note_webhook_patterns() returns trigger language plpgsql
  set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  project uuid;
  webhook uuid;
  asked text[] := '{}';
  asks text[] := '{}';
  came text[];
  gone text[];
begin
  if tg_op <> 'INSERT' then
    project := old.project_id;
    webhook := old.id;
    if old.deleted_at is null then asked := old.events; end if;
  end if;
  if tg_op <> 'DELETE' then
    project := new.project_id;
    webhook := new.id;
    if new.deleted_at is null then asks := new.events; end if;
  end if;
  came := array(select unnest(asks) except select unnest(asked));
  gone := array(select unnest(asked) except select unnest(asks));
  if came = '{}' and gone = '{}' then return null; end if;
  -- One at a time for each project: of two at once neither would be the first, or the last.
  perform pg_advisory_xact_lock(hashtextextended('webhook-patterns:' || project, 0));
  delete from webhook_patterns p where p.project_id = project and p.pattern = any (gone) and p.webhook_id = webhook;
  if exists (
    select from unnest(came || gone) as changed (pattern)
    where (pattern = '*' or pattern like 'db.%' or pattern like 'database.%' or pattern like 'table.%')
      and not exists (select from webhook_patterns p where p.project_id = project and p.pattern = changed.pattern)
  ) and exists (select from projects where id = project) then
    insert into subscriptions_to_set (project_id) values (project)
    on conflict (project_id) do update set wanted_at = clock_timestamp();
  end if;
  insert into webhook_patterns (project_id, pattern, webhook_id)
  select project, pattern, webhook from unnest(came) as pattern;
  return null;
end $$;
create trigger note_patterns after insert or delete or update of events, deleted_at on webhooks
  for each row execute function note_webhook_patterns();
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(webhooks);
};

export const down = (): Promise<void> => Promise.reject(new Error('Webhooks are not given up.'));
