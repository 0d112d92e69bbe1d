-- A sign-in with an end of its own is one of the team (a member acts as the user), not one of the user: where a new sign-in
-- of a user ends the earlier ones, it does not. Otherwise as in 0026.

select set_config('plinth.in_ddl', 'on', true);

do $migration$ begin
if not plinth.has_users() then return; end if;

create or replace function auth.refresh(a_session uuid, a_number integer, idle_s integer, absolute_s integer, single boolean, a_client uuid)
returns table (user_id uuid, number integer, rotated_at timestamptz, aal smallint, amr jsonb, grant_id text, openid jsonb,
  repeated boolean)
language plpgsql volatile rows 1 set search_path = pg_catalog, pg_temp as $$
declare s auth.sessions;
begin
  select * into s from auth.sessions o where o.id = a_session for no key update;
  if not found or s.client_id is distinct from a_client then return; end if;
  if s.rotated_at < clock_timestamp() - make_interval(secs => idle_s)
    or s.created_at < clock_timestamp() - make_interval(secs => absolute_s) or s.not_after < clock_timestamp()
    or (single and s.client_id is null and s.not_after is null and exists (select from auth.sessions o
      where o.user_id = s.user_id and o.client_id is null and o.not_after is null
        and (o.created_at, o.id) > (s.created_at, s.id)))
    or a_number < s.refresh_number - 1 or a_number > s.refresh_number
    or (a_number = s.refresh_number - 1 and s.rotated_at < clock_timestamp() - interval '30 seconds') then
    delete from auth.sessions o where o.id = a_session;
    return;
  end if;
  repeated := a_number = s.refresh_number - 1;
  if not repeated then
    update auth.sessions o set refresh_number = o.refresh_number + 1, rotated_at = date_trunc('milliseconds', clock_timestamp())
      where o.id = a_session returning o.refresh_number, o.rotated_at into s.refresh_number, s.rotated_at;
  end if;
  return query select s.user_id, s.refresh_number, s.rotated_at, s.aal, s.amr, s.grant_id, s.openid, refresh.repeated;
end $$;
end $migration$;

select set_config('plinth.in_ddl', '', true);
