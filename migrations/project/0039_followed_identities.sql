-- `provider` and `providers` of a user's `app_metadata` follow the identities that are added and taken away.

select set_config('plinth.in_ddl', 'on', true);

do $migration$ begin
if not plinth.has_users() then return; end if;

-- Only users whose list differs are written, so that signing up costs no second version of the row.
create function auth.list_providers(users uuid[]) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
  update auth.users u
  set updated_at = now(),
    raw_app_meta_data = u.raw_app_meta_data || jsonb_build_object('providers', p.names, 'provider',
      case when p.names ? (u.raw_app_meta_data ->> 'provider') then u.raw_app_meta_data -> 'provider' else p.names -> 0 end)
  from (
    select i.user_id, jsonb_agg(i.provider order by i.since, i.provider) as names
    from (
      select user_id, provider, min(created_at) as since from auth.identities where user_id = any (users)
      group by user_id, provider) i
    group by i.user_id) p
  where u.id = p.user_id and u.raw_app_meta_data -> 'providers' is distinct from p.names
$$;
revoke execute on function auth.list_providers(uuid[]) from public;

create function auth.follow_identities() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform auth.list_providers((select array_agg(distinct user_id) from changed));
  return null;
end $$;
revoke execute on function auth.follow_identities() from public;
create trigger identities_added after insert on auth.identities referencing new table as changed
  for each statement execute function auth.follow_identities();
create trigger identities_taken_away after delete on auth.identities referencing old table as changed
  for each statement execute function auth.follow_identities();

perform auth.list_providers((
  select array_agg(user_id) from (select user_id from auth.identities group by user_id having count(*) > 1) several));
end $migration$;

select set_config('plinth.in_ddl', '', true);
