-- Idempotency keys of what the makers of a project do with its database: statements, tables, columns, migrations. They lie
-- with those of the data API (0005) and are kept in the same way, but only the owner's role can take one: no end user and no
-- secret key puts an answer in the place of a statement that was never run.

create or replace function plinth.most_idempotency_bytes(a_share text) returns bigint
language sql immutable set search_path = pg_catalog, pg_temp as $$
  select case a_share when 'service' then 67108864 when 'owner' then 67108864 when 'anon' then 16777216
    when 'authenticated' then 134217728 else 4194304 end
$$;

-- Takes a key: no row, or the answer of the request which had it before; while that one is at work this waits for it.
-- A key of the data API has 32 bytes: with one more before it this is none of them, whatever somebody takes there. The answer
-- is kept with plinth_api.keep_answer, which knows keys of the same transaction only.
create function plinth_api.take_owner_key(a_key text, a_fingerprint text) returns table (is_same boolean, body text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  own bytea := decode(a_key, 'hex');
  taken integer;
begin
  if not exists (select from plinth.roles r where r.kind = 'owner' and r.name = session_user) then
    raise exception 'only the project''s owner role takes these keys' using errcode = '42501';
  end if;
  if length(own) <> 33 or length(decode(a_fingerprint, 'hex')) <> 32 then
    raise exception 'these are no keys of the owner''s' using errcode = '22023';
  end if;
  insert into plinth.idempotency_keys as k (key, fingerprint, share) values (own, decode(a_fingerprint, 'hex'), 'owner')
    on conflict on constraint idempotency_keys_pkey do update
      set fingerprint = excluded.fingerprint, status = null, headers = null, body = null, created_at = now()
      where k.created_at < now() - interval '24 hours';
  get diagnostics taken = row_count;
  if taken = 0 then
    return query select k.fingerprint = decode(a_fingerprint, 'hex'), k.body
      from plinth.idempotency_keys k where k.key = own;
    return;
  end if;
  if plinth.is_idempotency_stuck('owner') then
    raise exception 'The answers that are kept for Idempotency-Keys of the last 10 minutes take all their space.'
      using errcode = 'PLA02', hint = 'Try again later, or without the key.';
  end if;
end $$;
grant execute on function plinth_api.take_owner_key(text, text) to public;
