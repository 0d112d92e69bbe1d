-- What the data API asks of a project's database beside the project's own tables: that answers fit, and idempotency keys.

create schema if not exists plinth_api;
grant usage on schema plinth_api to public;

-- Passes on the body of a statement that may have changed something. One that is too large to be fetched is refused here,
-- where the change is undone with it: fetched half, it would be answered as a failure, and be made all the same.
create function plinth_api.within(body text) returns text language plpgsql immutable as $$
begin
  if pg_catalog.octet_length(body) > 31457280 then
    raise exception 'The answer has % bytes, and 31457280 at most can be fetched; nothing was changed.',
      pg_catalog.octet_length(body)
      using errcode = 'PLA01', hint = 'Ask for fewer rows or columns, or for none: Prefer: return=minimal.';
  end if;
  return body;
end $$;
grant execute on function plinth_api.within(text) to public;

-- Idempotency keys of writes through the data API: recorded in the write's own transaction, so that a change is never made
-- without its answer being kept, nor the other way round (contract, section 1).
create table plinth.idempotency_keys (
  -- SHA-256 over the caller and the key that the caller chose.
  key bytea primary key,
  -- SHA-256 over what was asked.
  fingerprint bytea not null,
  -- Whose space it takes: service, anon, or one user (authenticated and a hash).
  share text not null,
  -- Null while the first request is at work; nobody but itself ever sees that.
  status smallint,
  headers text,
  body text,
  -- What it counts for in its share; 0 until its answer is kept.
  bytes integer not null default 0,
  created_at timestamptz not null default now()
);
create index idempotency_keys_created_at on plinth.idempotency_keys (created_at);
create index idempotency_keys_share on plinth.idempotency_keys (share, created_at);

-- How much each share holds, and all users together (authenticated). A role's count is in parts that are added up: requests
-- that end at the same time would wait for each other at a single row. The row of no share is who sweeps.
create table plinth.idempotency_use (
  share text not null,
  part smallint not null,
  bytes bigint not null,
  primary key (share, part)
) with (fillfactor = 50);
insert into plinth.idempotency_use (share, part, bytes) values ('', 0, 0);

-- What a share may hold; what stands last is one user's.
create function plinth.most_idempotency_bytes(a_share text) returns bigint language sql immutable
  return case a_share when 'service' then 67108864 when 'anon' then 16777216 when 'authenticated' then 134217728
    else 4194304 end;

create function plinth.is_idempotency_full(a_share text) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
  select coalesce(sum(u.bytes), 0) > plinth.most_idempotency_bytes(a_share)
  from plinth.idempotency_use u where u.share = a_share
$$;

-- Whether there is no room for one more answer, and none can be made: nothing is old enough to go.
create function plinth.is_idempotency_stuck(a_share text) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare horizon timestamptz := now() - interval '10 minutes';
begin
  -- Functions of the project can take keys that no answer is ever counted for. The file does not shrink again.
  if pg_total_relation_size('plinth.idempotency_keys') > 1073741824 then return true; end if;
  if plinth.is_idempotency_full(a_share) and not exists (
    select from plinth.idempotency_keys k where k.share = a_share and k.created_at < horizon) then return true; end if;
  return a_share like 'authenticated:%' and plinth.is_idempotency_full('authenticated') and not exists (
    select from plinth.idempotency_keys k where k.share like 'authenticated:%' and k.created_at < horizon);
end $$;

-- Takes a key: no answer, or that of the request which had it before. While that one is at work this waits for it at the
-- primary key, and takes the key itself when it is rolled back.
create function plinth_api.take_key(a_key text, a_fingerprint text, a_share text)
returns table (is_same text, status text, headers text, body text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare taken integer;
begin
  if a_share !~ '^(service|anon|authenticated:[0-9a-f]{64})$' or length(a_key) <> 64 or length(a_fingerprint) <> 64 then
    raise exception 'these are no keys of the data API' using errcode = '22023';
  end if;
  insert into plinth.idempotency_keys as k (key, fingerprint, share)
    values (decode(a_key, 'hex'), decode(a_fingerprint, 'hex'), a_share)
    on conflict on constraint idempotency_keys_pkey do update
      set fingerprint = excluded.fingerprint, status = null, headers = null, body = null, created_at = now()
      where k.created_at < now() - interval '24 hours';
  get diagnostics taken = row_count;
  if taken = 0 then
    return query select (k.fingerprint = decode(a_fingerprint, 'hex'))::text, k.status::text, k.headers, k.body
      from plinth.idempotency_keys k where k.key = decode(a_key, 'hex');
    return;
  end if;
  -- Somebody may still come back for what is young; what is old makes room when the answer is kept.
  if plinth.is_idempotency_stuck(a_share) then
    raise exception 'The answers that are kept for Idempotency-Keys of the last 10 minutes take all their space.'
      using errcode = 'PLA02', hint = 'Try again later, or ask for smaller answers: Prefer: return=minimal.';
  end if;
  return query select null::text, null::text, null::text, null::text;
end $$;

-- Adds to what a share holds: always to its role first, so that two sessions never wait for each other.
create function plinth.count_idempotency(a_share text, a_bytes bigint) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  insert into plinth.idempotency_use as u (share, part, bytes)
    values (split_part(a_share, ':', 1), pg_backend_pid() % 8, a_bytes)
    on conflict on constraint idempotency_use_pkey do update set bytes = u.bytes + excluded.bytes;
  if a_share not like 'authenticated:%' then return; end if;
  insert into plinth.idempotency_use as u (share, part, bytes) values (a_share, 0, a_bytes)
    on conflict on constraint idempotency_use_pkey do update set bytes = u.bytes + excluded.bytes;
end $$;

-- Takes away what is older than a day, of all shares, or what of users is older than 10 minutes when they have no room
-- together: some at a time, and by one session at a time, which alone holds the counts of several users at once.
create function plinth.sweep_idempotency() returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  crowded boolean := plinth.is_idempotency_full('authenticated');
  horizon timestamptz := now() - case when crowded then interval '10 minutes' else interval '24 hours' end;
  gone record;
begin
  if not crowded and not exists (select from plinth.idempotency_keys k where k.created_at < horizon) then return; end if;
  perform from plinth.idempotency_use u where u.share = '' for update skip locked;
  if not found then return; end if;
  for gone in
    with old as (
      delete from plinth.idempotency_keys k where k.key in (
        select o.key from plinth.idempotency_keys o
        where o.created_at < horizon and (not crowded or o.share like 'authenticated:%')
        order by o.created_at limit case when crowded then 5000 else 100 end for update skip locked)
      returning k.share, k.bytes)
    select o.share, sum(o.bytes) as bytes from old o group by o.share
  loop
    perform plinth.count_idempotency(gone.share, -gone.bytes);
    delete from plinth.idempotency_use u where u.share = gone.share and u.share like 'authenticated:%' and u.bytes <= 0;
  end loop;
end $$;

-- Keeps the answer, within the transaction that took the key, and as the last thing in it: what is counted is locked until
-- its end. A share that is full gives up its own oldest keys, enough of them for the largest answer, and none of the last
-- 10 minutes.
create function plinth_api.keep_answer(a_key text, a_status text, a_headers text, a_body text) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  own text;
  -- With what the row and its indexes take.
  kept integer := octet_length(a_headers) + octet_length(a_body) + 256;
  before integer;
  given_up bigint;
begin
  -- A body of 1 MB, the largest that is sent here, and its headers.
  if kept > 1114112 then
    raise exception 'the answer is too large to be kept' using errcode = '22023';
  end if;
  select k.share, k.bytes into own, before from plinth.idempotency_keys k
    where k.key = decode(a_key, 'hex') and k.status is null for update;
  if not found then return null; end if;
  update plinth.idempotency_keys k
    set status = a_status::smallint, headers = a_headers, body = a_body, bytes = kept where k.key = decode(a_key, 'hex');
  perform plinth.count_idempotency(own, kept - before);
  if plinth.is_idempotency_full(own) then
    with old as (
      delete from plinth.idempotency_keys k where k.key in (
        select o.key from plinth.idempotency_keys o
        where o.share = own and o.created_at < now() - interval '10 minutes'
        order by o.created_at limit 5000 for update skip locked)
      returning k.bytes)
    select sum(o.bytes) into given_up from old o;
    perform plinth.count_idempotency(own, -coalesce(given_up, 0));
  end if;
  perform plinth.sweep_idempotency();
  return 'kept';
end $$;

grant execute on function plinth_api.take_key(text, text, text), plinth_api.keep_answer(text, text, text, text) to public;
