-- Whether an address was proved: `email_verified` of the identity `email`. An address that counts as confirmed since the
-- project asks for no proof is nobody's proof elsewhere. And codes for those who change the password after a long time.

select set_config('plinth.in_ddl', 'on', true);

do $migration$ begin
if not plinth.has_users() then return; end if;

-- A user who was confirmed when they were made has shown nothing; one whose confirmation came later has used a link.
update auth.identities i set data = i.data || '{"email_verified": false}'
from auth.users u
where u.id = i.user_id and i.provider = 'email' and i.data ->> 'email_verified' = 'true'
  and u.email_confirmed_at < u.created_at + interval '5 seconds';

-- A link to the address was used. Changes nothing for a user who is known by other providers alone.
create function auth.prove_email(a_user uuid) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
  update auth.identities i set updated_at = now(), data = i.data || '{"email_verified": true}'
  where i.user_id = a_user and i.provider = 'email' and i.data ->> 'email_verified' is distinct from 'true'
$$;
revoke execute on function auth.prove_email(uuid) from public;
grant execute on function auth.prove_email(uuid) to plinth_users;

-- One session at a time, where a plan for a thousand would read whole tables.
alter function auth.refresh(uuid, integer, integer, integer, boolean, uuid) rows 1;

alter table auth.one_time_tokens drop constraint one_time_tokens_kind_check;
alter table auth.one_time_tokens add constraint one_time_tokens_kind_check check (kind in (
  'signup', 'invite', 'magiclink', 'recovery', 'email_change_current', 'email_change_new', 'reauthentication'));
end $migration$;

select set_config('plinth.in_ddl', '', true);
