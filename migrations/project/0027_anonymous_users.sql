-- Users without an address, who may get one later.

select set_config('plinth.in_ddl', 'on', true);

do $migration$ begin
if not plinth.has_users() then return; end if;

-- As in 0022, and: a user who had no address gets the identity of one.
create or replace function auth.put_email(a_user uuid, a_email text, verified boolean) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
  insert into auth.identities as i (id, user_id, provider, subject, data, email)
  values (gen_random_uuid(), a_user, 'email', a_user::text,
    json_build_object('sub', a_user, 'email', a_email, 'email_verified', verified)::jsonb, a_email)
  on conflict (provider, subject) do update set email = excluded.email, updated_at = now(),
    data = i.data || json_build_object('email', a_email, 'email_verified', verified)::jsonb
$$;
end $migration$;

select set_config('plinth.in_ddl', '', true);
