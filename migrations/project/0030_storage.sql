-- Files of the project: buckets and objects in schema storage, with row-level security, so that policies decide who may do
-- what (decision 062). The bytes lie elsewhere. Rows are written by the platform alone: every statement needs a ticket,
-- which the platform signs and triggers check, whoever runs the statement.

select set_config('plinth.in_ddl', 'on', true);

-- Owns the two tables and nothing else, without a right to write them. The project's owner is a member, so that it may
-- write policies; all other changes of the tables are refused by check_storage.
do $$ begin
  if not exists (select from pg_roles where rolname = 'plinth_storage_owner') then
    create role plinth_storage_owner nologin noinherit;
  end if;
exception when duplicate_object or unique_violation then null; -- Another database of this server, at the same time.
end $$;
do $$ begin
  if not (select rolsuper from pg_roles where rolname = current_user) then grant plinth_storage_owner to current_user; end if;
end $$;

-- As in 0022, and: the role above.
create or replace function plinth.role_is_visible(role oid) returns boolean language sql stable
  return role < 16384 or has_database_privilege(role, current_database(), 'connect')
    or role in (to_regrole('anon'), to_regrole('authenticated'), to_regrole('plinth_events'), to_regrole('plinth_triggers'),
      to_regrole('plinth_users_owner'), to_regrole('plinth_users'), to_regrole('plinth_auth'), to_regrole('plinth_storage_owner'))
    or has_schema_privilege('plinth', 'create');

do $migration$ begin
-- A project that had a schema storage of its own keeps it, and has no files.
if to_regnamespace('storage') is not null then
  raise notice 'the project has a schema storage of its own; it has no files';
  return;
end if;

create or replace function plinth.is_user_schema(schema_name text) returns boolean language sql immutable
  return schema_name is not null and schema_name <> 'information_schema' and schema_name <> 'auth' and schema_name <> 'storage'
    and not starts_with(schema_name, 'pg_') and schema_name <> 'plinth' and not starts_with(schema_name, 'plinth_');

create schema storage;
grant usage on schema storage to anon, authenticated, plinth_storage_owner;

-- What policies make of names, as policies written for Supabase do.
create function storage.foldername(name text) returns text[] language sql immutable strict parallel safe
  return (string_to_array(name, '/'))[:cardinality(string_to_array(name, '/')) - 1];
create function storage.filename(name text) returns text language sql immutable strict parallel safe
  return substring(name from '[^/]*$');
create function storage.extension(name text) returns text language sql immutable strict parallel safe
  return coalesce(substring(name from '\.([^./]*)$'), '');

create table storage.buckets (
  id text primary key collate "C" check (octet_length(id) between 1 and 100),
  name text not null unique,
  owner_id uuid, owner text,
  public boolean not null default false,
  -- Null: the plan's own.
  file_size_limit bigint check (file_size_limit >= 0),
  -- Such as image/png or image/*. Null: all.
  allowed_mime_types text[],
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);

create table storage.objects (
  id uuid primary key,
  bucket_id text not null collate "C",
  name text not null collate "C" check (octet_length(name) between 1 and 1024),
  -- The user who uploaded it; null: a key, or a user whose subject is no UUID.
  owner_id uuid, owner text,
  size bigint not null check (size >= 0),
  mime_type text not null check (octet_length(mime_type) <= 255),
  -- SHA-256 of the content, as hexadecimal digits.
  etag text not null check (etag ~ '^[0-9a-f]{64}$'),
  cache_control text not null check (octet_length(cache_control) <= 255),
  user_metadata jsonb not null default '{}' check (jsonb_typeof(user_metadata) = 'object' and pg_column_size(user_metadata) <= 65536),
  -- Size, type and ETag once more, under the names that policies and clients of Supabase use.
  metadata jsonb not null,
  -- Names the bytes: another one each time that the content is replaced.
  version uuid not null unique,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  -- The name up to and with its last slash, for lists of a folder.
  folder text not null collate "C" generated always as (coalesce(substring(name from '^.*/'), '')) stored
);
create unique index objects_bucket_id_name on storage.objects (bucket_id, name);
create index objects_bucket_id_folder_name on storage.objects (bucket_id, folder, name);
alter table storage.buckets enable row level security;
alter table storage.objects enable row level security;

-- The key of tickets, derived by the platform from the project's data key.
create table plinth.storage_key (
  only_row boolean primary key default true check (only_row),
  key bytea not null check (octet_length(key) = 32)
);
-- What all files take, exact: changed in the transaction of each row.
create table plinth.storage_usage (
  only_row boolean primary key default true check (only_row),
  bytes bigint not null default 0,
  objects bigint not null default 0,
  -- Whether the bucket that a project begins with was made: one that was deleted stays so.
  has_default boolean not null default false
) with (fillfactor = 20);
insert into plinth.storage_usage default values;
-- The buckets once more, without policies: an object locks its bucket here against its deletion.
create table plinth.storage_buckets (
  id text primary key collate "C"
);
-- Contents that no row names any more: the sweep deletes their bytes after a grace.
create table plinth.storage_tombstones (
  version uuid primary key,
  size bigint not null,
  removed_at timestamptz not null default now()
);
create index storage_tombstones_removed_at on plinth.storage_tombstones (removed_at);

grant select on plinth.storage_key to plinth_triggers;
grant select, update on plinth.storage_usage to plinth_triggers;
grant select, insert, update, delete on plinth.storage_buckets to plinth_triggers;
grant select, insert on plinth.storage_tombstones to plinth_triggers;

-- The ticket of the running statement: what the platform allows it to write, as JSON. Its MAC stands before it; they are
-- compared by their hashes, so that no time tells how much of it was right.
create function plinth.storage_ticket(ops text[]) returns jsonb
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  given text := current_setting('plinth.storage_ticket', true);
  body text := substr(given, 66);
  ticket jsonb;
begin
  if given ~ '^[0-9a-f]{64}\.\{' then
    perform from plinth.storage_key k
      where sha256(sha256(k.key || '\x02'::bytea || sha256(k.key || '\x01'::bytea || convert_to(body, 'UTF8'))))
        = sha256(decode(left(given, 64), 'hex'));
    if found then ticket := body::jsonb; end if;
  end if;
  if ticket is null or ticket ->> 'op' <> all (ops) or (ticket ->> 'exp')::float8 < extract(epoch from clock_timestamp()) then
    raise exception 'rows of schema storage are written by the storage API alone' using errcode = '42501',
      hint = 'Policies decide who may do what through it.';
  end if;
  return ticket;
end $$;

create function plinth.lock_storage_bucket(bucket text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform from plinth.storage_buckets b where b.id = bucket for key share;
  if not found then raise exception 'there is no bucket %', bucket using errcode = 'PLS01'; end if;
end $$;

-- Makes the row be what its ticket says, whatever the statement said. Policies are checked after this.
create function plinth.write_storage_object() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare t jsonb := plinth.storage_ticket(array['put', 'move']);
begin
  if tg_op = 'UPDATE' and (old.bucket_id, old.name) is distinct from
      (coalesce(t ->> 'from_bucket', t ->> 'bucket'), coalesce(t ->> 'from_name', t ->> 'name'))
    or tg_op = 'INSERT' and t ->> 'op' <> 'put' then
    raise exception 'the ticket is for another object' using errcode = '42501';
  end if;
  perform plinth.refuse_growth();
  new.bucket_id := t ->> 'bucket';
  new.name := t ->> 'name';
  perform plinth.lock_storage_bucket(new.bucket_id);
  if t ->> 'op' = 'move' then
    old.bucket_id := new.bucket_id;
    old.name := new.name;
    old.updated_at := clock_timestamp();
    return old;
  end if;
  new.version := (t ->> 'version')::uuid;
  -- A ticket that is used twice names bytes that may be gone.
  perform from plinth.storage_tombstones b where b.version = new.version;
  if found then raise exception 'the ticket was used' using errcode = '42501'; end if;
  new.id := case tg_op when 'INSERT' then (t ->> 'id')::uuid else old.id end;
  new.owner := t ->> 'owner';
  new.owner_id := (t ->> 'owner_id')::uuid;
  new.size := (t ->> 'size')::bigint;
  new.mime_type := t ->> 'mime_type';
  new.etag := t ->> 'etag';
  new.cache_control := t ->> 'cache_control';
  new.user_metadata := t -> 'user_metadata';
  new.created_at := case tg_op when 'INSERT' then clock_timestamp() else old.created_at end;
  new.updated_at := clock_timestamp();
  new.metadata := jsonb_build_object('eTag', format('"%s"', new.etag), 'size', new.size, 'mimetype', new.mime_type,
    'cacheControl', new.cache_control, 'contentLength', new.size, 'httpStatusCode', 200,
    'lastModified', to_char(new.updated_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'));
  return new;
end $$;

-- Adds to what all files take, and refuses what would take more than the ticket allows.
create function plinth.count_storage(a_bytes bigint, a_objects bigint, max_bytes bigint) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare used bigint;
begin
  update plinth.storage_usage u set bytes = u.bytes + a_bytes, objects = u.objects + a_objects returning u.bytes into used;
  if a_bytes > 0 and used > max_bytes then
    raise exception 'all files together would have % bytes; the plan allows %', used, max_bytes
      using errcode = 'PLS02', detail = format('{"limit":%s,"value":%s}', max_bytes, used);
  end if;
end $$;

create function plinth.emit_storage(event text, rows json[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if rows is null then return; end if;
  insert into plinth.outbox (table_name, op, row) select event, 'EVENT', r::text from unnest(rows) r;
  if currval('plinth.outbox_id_seq') > pg_sequence_last_value('plinth.outbox_checked') then perform plinth.check_backlog(); end if;
end $$;

create function plinth.storage_event(o storage.objects) returns json language sql stable set search_path = pg_catalog, pg_temp as $$
  select json_build_object('bucket_id', o.bucket_id, 'name', o.name, 'size', o.size, 'mime_type', o.mime_type, 'etag', o.etag,
    'owner_id', o.owner_id, 'version', o.version)
$$;

create function plinth.storage_objects_inserted() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare added record;
begin
  select count(*) as rows, coalesce(sum(n.size), 0)::bigint as bytes into added from new_rows n;
  if added.rows = 0 then return null; end if;
  perform plinth.count_storage(added.bytes, added.rows, (plinth.storage_ticket(array['put']) ->> 'max_bytes')::bigint);
  if plinth.is_subscribed('storage.upload', 'EVENT') then
    perform plinth.emit_storage('storage.upload', (select array_agg(plinth.storage_event(n)) from new_rows n));
  end if;
  return null;
end $$;

-- A replaced content leaves a tombstone; a move is a deletion and an upload.
create function plinth.storage_objects_updated() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  grown bigint;
  moved boolean;
begin
  select sum(n.size - o.size), bool_or((o.bucket_id, o.name) <> (n.bucket_id, n.name)) into grown, moved
    from old_rows o join new_rows n on n.id = o.id;
  if grown is null then return null; end if;
  insert into plinth.storage_tombstones (version, size)
    select o.version, o.size from old_rows o join new_rows n on n.id = o.id where n.version <> o.version;
  perform plinth.count_storage(grown, 0, (plinth.storage_ticket(array['put', 'move']) ->> 'max_bytes')::bigint);
  if moved and plinth.is_subscribed('storage.delete', 'EVENT') then
    perform plinth.emit_storage('storage.delete', (select array_agg(plinth.storage_event(o)) from old_rows o));
  end if;
  if plinth.is_subscribed('storage.upload', 'EVENT') then
    perform plinth.emit_storage('storage.upload', (select array_agg(plinth.storage_event(n)) from new_rows n));
  end if;
  return null;
end $$;

create function plinth.storage_objects_deleted() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  t jsonb;
  gone record;
begin
  select count(*) as rows, coalesce(sum(o.size), 0)::bigint as bytes into gone from old_rows o;
  if gone.rows = 0 then return null; end if;
  t := plinth.storage_ticket(array['delete']);
  -- Without names: all that the bucket has.
  perform from old_rows o where o.bucket_id <> t ->> 'bucket' or (t -> 'names' <> 'null' and not t -> 'names' ? o.name);
  if found then raise exception 'the ticket is for other objects' using errcode = '42501'; end if;
  insert into plinth.storage_tombstones (version, size) select o.version, o.size from old_rows o;
  perform plinth.count_storage(-gone.bytes, -gone.rows, null);
  if plinth.is_subscribed('storage.delete', 'EVENT') then
    perform plinth.emit_storage('storage.delete', (select array_agg(plinth.storage_event(o)) from old_rows o));
  end if;
  return null;
end $$;

create function plinth.write_storage_bucket() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare t jsonb := plinth.storage_ticket(array['bucket']);
begin
  if tg_op = 'UPDATE' and old.id <> t ->> 'bucket' then
    raise exception 'the ticket is for another bucket' using errcode = '42501';
  end if;
  if tg_op = 'INSERT' then
    perform plinth.refuse_growth();
    new.id := t ->> 'bucket';
    new.owner := t ->> 'owner';
    new.owner_id := (t ->> 'owner_id')::uuid;
    new.created_at := clock_timestamp();
  else
    new.id := old.id; new.owner := old.owner; new.owner_id := old.owner_id; new.created_at := old.created_at;
  end if;
  new.name := new.id;
  new.public := (t ->> 'public')::boolean;
  new.file_size_limit := (t ->> 'file_size_limit')::bigint;
  new.allowed_mime_types := case when jsonb_typeof(t -> 'allowed_mime_types') = 'array'
    then array(select jsonb_array_elements_text(t -> 'allowed_mime_types')) end;
  new.updated_at := clock_timestamp();
  return new;
end $$;

create function plinth.storage_buckets_inserted() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare most bigint;
begin
  perform from new_rows;
  if not found then return null; end if;
  most := (plinth.storage_ticket(array['bucket']) ->> 'max_buckets')::bigint;
  insert into plinth.storage_buckets select n.id from new_rows n;
  if (select count(*) from plinth.storage_buckets) > most then
    raise exception 'a project may have % buckets', most using errcode = 'PLS03';
  end if;
  return null;
end $$;

-- As the owner of the table, which no policy binds: no code of the project runs.
create function plinth.is_bucket_empty(bucket text) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  return not exists (select from only storage.objects o where o.bucket_id = bucket);
end $$;

create function plinth.storage_buckets_deleted() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare gone record;
begin
  for gone in select o.id from old_rows o loop
    if plinth.storage_ticket(array['bucket-delete']) ->> 'bucket' <> gone.id then
      raise exception 'the ticket is for another bucket' using errcode = '42501';
    end if;
    -- Waits for uploads into the bucket that are about to commit.
    delete from plinth.storage_buckets b where b.id = gone.id;
    if not plinth.is_bucket_empty(gone.id) then
      raise exception 'the bucket % is not empty', gone.id using errcode = 'PLS04';
    end if;
  end loop;
  return null;
end $$;

create function plinth.refuse_storage_truncate() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  raise exception 'rows of schema storage are deleted by the storage API alone' using errcode = '42501';
end $$;

create trigger plinth_write before insert or update on storage.objects for each row execute function plinth.write_storage_object();
create trigger plinth_inserted after insert on storage.objects referencing new table as new_rows
  for each statement execute function plinth.storage_objects_inserted();
create trigger plinth_updated after update on storage.objects referencing old table as old_rows new table as new_rows
  for each statement execute function plinth.storage_objects_updated();
create trigger plinth_deleted after delete on storage.objects referencing old table as old_rows
  for each statement execute function plinth.storage_objects_deleted();
create trigger plinth_truncate before truncate on storage.objects
  for each statement execute function plinth.refuse_storage_truncate();
create trigger plinth_write before insert or update on storage.buckets for each row execute function plinth.write_storage_bucket();
create trigger plinth_inserted after insert on storage.buckets referencing new table as new_rows
  for each statement execute function plinth.storage_buckets_inserted();
create trigger plinth_deleted after delete on storage.buckets referencing old table as old_rows
  for each statement execute function plinth.storage_buckets_deleted();
create trigger plinth_truncate before truncate on storage.buckets
  for each statement execute function plinth.refuse_storage_truncate();

revoke all on storage.buckets, storage.objects from public;
revoke execute on all functions in schema storage from public;
grant execute on all functions in schema storage to public;
-- The new owner of a function must be able to create one there, unless a superuser hands it over.
if not (select rolsuper from pg_roles where rolname = current_user) then
  grant create on schema plinth to plinth_triggers, plinth_storage_owner;
  grant create on schema storage to plinth_storage_owner;
end if;
alter function plinth.storage_ticket(text[]) owner to plinth_triggers;
alter function plinth.lock_storage_bucket(text) owner to plinth_triggers;
alter function plinth.write_storage_object() owner to plinth_triggers;
alter function plinth.count_storage(bigint, bigint, bigint) owner to plinth_triggers;
alter function plinth.emit_storage(text, json[]) owner to plinth_triggers;
alter function plinth.storage_event(storage.objects) owner to plinth_triggers;
alter function plinth.storage_objects_inserted() owner to plinth_triggers;
alter function plinth.storage_objects_updated() owner to plinth_triggers;
alter function plinth.storage_objects_deleted() owner to plinth_triggers;
alter function plinth.write_storage_bucket() owner to plinth_triggers;
alter function plinth.storage_buckets_inserted() owner to plinth_triggers;
alter function plinth.storage_buckets_deleted() owner to plinth_triggers;
revoke execute on function plinth.storage_ticket(text[]), plinth.lock_storage_bucket(text), plinth.write_storage_object(),
  plinth.count_storage(bigint, bigint, bigint), plinth.emit_storage(text, json[]), plinth.storage_event(storage.objects),
  plinth.storage_objects_inserted(), plinth.storage_objects_updated(), plinth.storage_objects_deleted(),
  plinth.write_storage_bucket(), plinth.storage_buckets_inserted(), plinth.storage_buckets_deleted(),
  plinth.refuse_storage_truncate(), plinth.is_bucket_empty(text) from public;
grant execute on function plinth.is_bucket_empty(text) to plinth_triggers;
alter function plinth.is_bucket_empty(text) owner to plinth_storage_owner;
grant usage on schema storage to plinth_triggers;
alter table storage.buckets owner to plinth_storage_owner;
alter table storage.objects owner to plinth_storage_owner;
if not (select rolsuper from pg_roles where rolname = current_user) then
  revoke create on schema plinth from plinth_triggers, plinth_storage_owner;
  revoke create on schema storage from plinth_storage_owner;
end if;
end $migration$;

-- Whether schema storage is the platform's: not in a project that has one of its own.
create function plinth.has_storage() returns boolean language sql stable set search_path = pg_catalog, pg_temp as $$
  select to_regclass('plinth.storage_usage') is not null
    and exists (select from pg_class c where c.oid = to_regclass('storage.objects'))
$$;

-- As in 0017, and: the schema of files.
create or replace function plinth.is_own(class oid, id oid) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
  -- False, and not null, for what is in no schema.
  select (n.schema = 'plinth'::regnamespace or (n.schema = to_regnamespace('storage') and plinth.has_storage())) is true
  from (select case class
    when 'pg_namespace'::regclass then id
    when 'pg_class'::regclass then (select relnamespace from pg_class where oid = id)
    when 'pg_proc'::regclass then (select pronamespace from pg_proc where oid = id)
  end as schema) n
$$;

-- What all files take; 0 in a project that has none.
create function plinth.file_bytes() returns bigint language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  if not plinth.has_storage() then return 0; end if;
  return (select u.bytes from plinth.storage_usage u);
end $$;
revoke execute on function plinth.file_bytes() from public;

create function plinth.grant_storage() returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  owner name := (select r.name from plinth.roles r where r.kind = 'owner');
  service name := (select r.name from plinth.roles r where r.kind = 'service');
  reader name := (select r.name from plinth.roles r where r.kind = 'reader');
  relation text;
begin
  if not plinth.has_storage() or owner is null or service is null or reader is null then return; end if;
  execute format('grant usage on schema storage to %I, %I, %I', owner, service, reader);
  foreach relation in array array['storage.buckets', 'storage.objects'] loop
    -- Without the rights that an owner begins with: members would have them, too.
    execute format('alter table %s owner to plinth_storage_owner', relation);
    execute format('revoke all on %s from plinth_storage_owner', relation);
    execute format('grant select on %s to plinth_storage_owner, %I, %I', relation, owner, reader);
    if not (select rolsuper from pg_roles where rolname = current_user) then
      execute format('grant insert on %s to %I', relation, current_user); -- The bucket that a project begins with.
    end if;
    execute format('grant select, insert, update, delete on %s to anon, authenticated, %I', relation, service);
    -- Where the server forbids BYPASSRLS.
    execute format('drop policy if exists plinth_service on %s', relation);
    execute format('create policy plinth_service on %s to %I using (true) with check (true)', relation, service);
    execute format('drop policy if exists plinth_reader on %s', relation);
    execute format('create policy plinth_reader on %s for select to %I using (true)', relation, reader);
  end loop;
end $$;

-- The rights that somebody may have on the two tables: no other, and none on columns.
create function plinth.has_storage_strangers() returns boolean language sql stable set search_path = pg_catalog, pg_temp as $$
  select exists (
    select from pg_class c, aclexplode(c.relacl) a
    where c.oid in (to_regclass('storage.buckets'), to_regclass('storage.objects')) and not (
      a.privilege_type = 'SELECT' and (a.grantee = to_regrole('plinth_storage_owner')
        or a.grantee in (select to_regrole(quote_ident(r.name)) from plinth.roles r where r.kind in ('owner', 'reader', 'service')))
      or a.privilege_type in ('SELECT', 'INSERT', 'UPDATE', 'DELETE') and (a.grantee in (to_regrole('anon'), to_regrole('authenticated'))
        or a.grantee in (select to_regrole(quote_ident(r.name)) from plinth.roles r where r.kind = 'service'))))
    or exists (select from pg_attribute a
      where a.attrelid in (to_regclass('storage.buckets'), to_regclass('storage.objects')) and a.attacl is not null)
$$;

-- Of the schema storage a project changes policies, and nothing else.
create function plinth.check_storage() returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  command record;
  own oid[] := array[to_regclass('storage.buckets'), to_regclass('storage.objects')]::oid[];
begin
  -- Not by has_storage, which a table that was just moved away would change.
  if to_regclass('plinth.storage_usage') is null or has_schema_privilege(session_user, 'plinth', 'create') then return; end if;
  perform from pg_class c where c.oid = any (own) and c.relowner = to_regrole('plinth_storage_owner')
    having count(*) = 2;
  if not found then raise exception 'the tables of schema storage are the platform''s' using errcode = '42501'; end if;
  for command in select * from pg_event_trigger_ddl_commands() loop
    if command.command_tag in ('CREATE POLICY', 'ALTER POLICY', 'COMMENT') then continue; end if;
    if command.schema_name is not distinct from 'storage' and not starts_with(command.command_tag, 'GRANT')
      or command.classid = 'pg_class'::regclass and command.objid = any (own)
      or exists (select from pg_trigger t where command.classid = 'pg_trigger'::regclass and t.oid = command.objid and t.tgrelid = any (own))
      or exists (select from pg_rewrite r where command.classid = 'pg_rewrite'::regclass and r.oid = command.objid and r.ev_class = any (own))
      or exists (select from pg_inherits i where command.classid = 'pg_class'::regclass and i.inhparent = any (own)) then
      raise exception 'of schema storage only policies can be changed' using errcode = '42501',
        hint = 'Buckets and objects are changed through the storage API.';
    end if;
    if command.command_tag in ('GRANT', 'REVOKE') and plinth.has_storage_strangers() then
      raise exception 'rights on the tables of schema storage are the platform''s' using errcode = '42501',
        hint = 'Policies decide who may do what.';
    end if;
  end loop;
end $$;

create function plinth.check_storage_drop() returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if has_schema_privilege(session_user, 'plinth', 'create') or to_regclass('plinth.storage_usage') is null then return; end if;
  perform from pg_event_trigger_dropped_objects() d
    where (d.schema_name = 'storage' or d.address_names[1] = 'storage') and not d.is_temporary
      and (d.object_type <> 'policy' or starts_with(d.address_names[3], 'plinth_'));
  if found then
    raise exception 'of schema storage only policies can be dropped' using errcode = '42501';
  end if;
end $$;
revoke execute on function plinth.has_storage(), plinth.grant_storage(), plinth.has_storage_strangers(), plinth.check_storage(),
  plinth.check_storage_drop() from public;
insert into plinth.ddl_hooks (name, position) values ('check_storage', 6);

-- As in 0017, and: of schema storage policies alone.
create or replace function plinth.protect_drop() returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare dropped record;
begin
  perform plinth.check_storage_drop();
  for dropped in
    select d.address_names as names from pg_event_trigger_dropped_objects() d
    where d.object_type = 'trigger' and starts_with(d.address_names[3], 'plinth_')
  loop
    perform from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname = dropped.names[1] and c.relname = dropped.names[2];
    if found then
      raise exception 'the trigger % of % is the platform''s', dropped.names[3], dropped.names[2] using errcode = '42501';
    end if;
  end loop;
  if has_schema_privilege(session_user, 'plinth', 'create') then return; end if;
  select d.object_identity as name into dropped from pg_event_trigger_dropped_objects() d
    where starts_with(d.schema_name, 'plinth') and not d.is_temporary limit 1;
  if found then
    raise exception '% is the platform''s', dropped.name using errcode = '42501';
  end if;
end $$;

-- Gives the database the key of its tickets, and the bucket that a project begins with.
create function plinth.set_storage(a_key bytea, default_bucket text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare ticket text;
begin
  if not plinth.has_storage() then return; end if;
  insert into plinth.storage_key as k (key) values (a_key) on conflict (only_row) do update set key = excluded.key
    where k.key <> excluded.key;
  perform from plinth.storage_usage u where not u.has_default for update;
  if not found then return; end if;
  ticket := json_build_object('op', 'bucket', 'bucket', default_bucket, 'public', false, 'max_buckets', 1000,
    'exp', extract(epoch from clock_timestamp()) + 60);
  perform set_config('plinth.storage_ticket', encode(sha256(a_key || '\x02'::bytea || sha256(a_key || '\x01'::bytea
    || convert_to(ticket, 'UTF8'))), 'hex') || '.' || ticket, true);
  insert into storage.buckets (id, name) values (default_bucket, default_bucket) on conflict do nothing;
  update plinth.storage_usage set has_default = true;
end $$;
revoke execute on function plinth.set_storage(bytea, text) from public;

-- As in 0022, and: the rights on schema storage.
create or replace function plinth.set_roles(kinds text[], names name[]) returns void
language plpgsql set plinth.in_ddl = 'on' set search_path = pg_catalog, pg_temp as $$
declare owner name;
begin
  perform plinth.make_room();
  insert into plinth.roles select kind, name from unnest(kinds, names) as given (kind, name)
    on conflict (kind) do update set name = excluded.name;
  perform plinth.grant_schema(oid) from pg_namespace;
  perform plinth.set_counting(name) from plinth.roles where kind = 'service';
  select r.name into owner from plinth.roles r
    where r.kind = 'owner' and pg_get_viewdef('pg_catalog.pg_roles'::regclass) ~ 'role_is_visible';
  if owner is not null then execute format('grant select on pg_catalog.pg_roles to %I', owner); end if;
  perform plinth.grant_users();
  perform plinth.grant_storage();
  perform plinth.attach_tables();
end $$;

select set_config('plinth.in_ddl', '', true);
