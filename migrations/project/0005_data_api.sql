-- Idempotency keys of writes through the data API: recorded in the write's own transaction, so that a change is never made
-- without its answer being kept, nor the other way round (contract, section 1).

create schema if not exists plinth_api;
grant usage on schema plinth_api to public;

create table plinth.idempotency_keys (
  -- SHA-256 over the caller and the key that the caller chose.
  key bytea primary key,
  -- SHA-256 over what was asked.
  fingerprint bytea not null,
  -- Null while the first request is at work; nobody but itself ever sees that.
  status smallint,
  headers text,
  body text,
  created_at timestamptz not null default now()
);
create index idempotency_keys_created_at on plinth.idempotency_keys (created_at);

-- Takes a key: no answer, or that of the request which had it before. While that one is at work this waits for it at the
-- primary key, and takes the key itself when it is rolled back.
create function plinth_api.take_key(a_key text, a_fingerprint text)
returns table (is_same text, status text, headers text, body text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  -- A few at a time: nobody waits long for the sweeping of others' keys.
  delete from plinth.idempotency_keys k where k.key in (
    select o.key from plinth.idempotency_keys o where o.created_at < now() - interval '24 hours'
    order by o.created_at limit 100 for update skip locked);
  -- What a project could store here does not count against its plan: beyond 64 MB the oldest go before their time.
  if pg_total_relation_size('plinth.idempotency_keys') > 67108864 then
    delete from plinth.idempotency_keys k where k.key in (
      select o.key from plinth.idempotency_keys o order by o.created_at limit 1000 for update skip locked);
  end if;
  delete from plinth.idempotency_keys k where k.key = decode(a_key, 'hex') and k.created_at < now() - interval '24 hours';
  insert into plinth.idempotency_keys as k (key, fingerprint) values (decode(a_key, 'hex'), decode(a_fingerprint, 'hex'))
    on conflict do nothing;
  if found then
    return query select null::text, null::text, null::text, null::text;
  else
    return query select (k.fingerprint = decode(a_fingerprint, 'hex'))::text, k.status::text, k.headers, k.body
      from plinth.idempotency_keys k where k.key = decode(a_key, 'hex');
  end if;
end $$;

-- Keeps the answer, within the transaction that took the key.
create function plinth_api.keep_answer(a_key text, a_status text, a_headers text, a_body text) returns text
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
  update plinth.idempotency_keys k set status = a_status::smallint, headers = a_headers, body = a_body
  where k.key = decode(a_key, 'hex') and k.status is null returning 'kept'
$$;

grant execute on function plinth_api.take_key(text, text), plinth_api.keep_answer(text, text, text, text) to public;
