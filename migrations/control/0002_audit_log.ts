import type { Knex } from 'knex';

/**
 * The audit log is written by triggers: a change of an audited table without an actor fails, so no code path can forget
 * it. Trigger arguments: the target type, then the columns that are secrets or machine state.
 */
const audit = `
-- UUIDv7 (RFC 9562): milliseconds, then random bits. PostgreSQL has its own from version 18 on.
create function uuid_v7() returns uuid language sql volatile as $$
  select encode(
    set_bit(set_bit(
      overlay(uuid_send(gen_random_uuid())
        placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6),
      52, 1), 53, 1), 'hex')::uuid
$$;

create table audit_entries (
  id uuid primary key default uuid_v7(),
  org_id text not null,
  project_id uuid,
  actor jsonb not null,
  action text not null,
  target_type text not null,
  target_id text not null,
  before jsonb,
  after jsonb,
  ip text,
  user_agent text,
  request_id text,
  created_at timestamptz not null default clock_timestamp()
);
create index audit_entries_org on audit_entries (org_id, created_at desc, id);

create function audit_shorten(value jsonb) returns jsonb language sql immutable strict as $$
  select coalesce(jsonb_object_agg(key, case
    when jsonb_typeof(v) = 'string' and length(v #>> '{}') > 1000
      then to_jsonb('sha256:' || encode(sha256(convert_to(v #>> '{}', 'UTF8')), 'hex'))
    else v end), '{}')
  from jsonb_each(value) as each(key, v)
$$;

create function audit_change() returns trigger language plpgsql as $$
declare
  actor jsonb := nullif(current_setting('plinth.actor', true), '')::jsonb;
  wanted text := current_setting('plinth.action', true);
  kind text := tg_argv[0];
  hidden text[] := tg_argv[1:];
  old_row jsonb := case when tg_op <> 'INSERT' then to_jsonb(old) - hidden end;
  new_row jsonb := case when tg_op <> 'DELETE' then to_jsonb(new) - hidden end;
  row_now jsonb := coalesce(to_jsonb(new), to_jsonb(old));
  org text := case when kind = 'organization' then row_now ->> 'id' else row_now ->> 'org_id' end;
  project uuid := case when kind = 'project' then row_now ->> 'id' else row_now ->> 'project_id' end;
  changed text[];
begin
  if tg_op = 'UPDATE' then
    select array_agg(key) into changed from jsonb_each(new_row) where value is distinct from old_row -> key;
    if changed is null then return null; end if;
    select jsonb_object_agg(key, value) into old_row from jsonb_each(old_row) where key = any (changed);
    select jsonb_object_agg(key, value) into new_row from jsonb_each(new_row) where key = any (changed);
  end if;
  if actor is null then
    raise exception 'a change of % needs an actor', tg_table_name using errcode = 'PL001';
  end if;
  if org is null then select org_id into org from projects where id = project; end if;
  -- The organization or project went away in this very statement: its own entry tells of it.
  if org is null then return null; end if;
  insert into audit_entries
    (org_id, project_id, actor, action, target_type, target_id, before, after, ip, user_agent, request_id)
  values (
    org, project, actor - '{ip,user_agent,request_id}'::text[],
    case when wanted like kind || '.%' then wanted
      else kind || '.' || case tg_op when 'INSERT' then 'create' when 'UPDATE' then 'update' else 'delete' end end,
    kind, row_now ->> 'id', audit_shorten(old_row), audit_shorten(new_row),
    actor ->> 'ip', actor ->> 'user_agent', actor ->> 'request_id'
  );
  return null;
end $$;

create trigger audit after insert or update or delete on organizations
  for each row execute function audit_change('organization');
create trigger audit after insert or update or delete on members
  for each row execute function audit_change('member', 'invite_hash', 'user_id');
create trigger audit after insert or update or delete on projects
  for each row execute function audit_change('project', 'data_key', 'status', 'updated_at', 'retired_at', 'server_id', 'db_name');
create trigger audit after insert or update or delete on api_keys
  for each row execute function audit_change('api_key', 'hash');
create trigger audit after insert or update or delete on functions
  for each row execute function audit_change('function', 'env_sealed', 'compiled', 'updated_at', 'deployed_at');
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(audit);
};

export const down = (): Promise<void> => Promise.reject(new Error('The audit log is not given up.'));
