-- What every project database holds before its owner's first table. Runs once, as the platform, in the template that new
-- project databases are copied from; a later file is a later version.

-- The platform's own objects in a project database.
create schema plinth;
revoke all on schema plinth from public;

create table plinth.migrations (
  version integer primary key,
  applied_at timestamptz not null default now()
);

-- Nothing is open to everyone: the project's roles get what they need by name.
revoke create on schema public from public;
revoke usage on schema public from public;
alter default privileges revoke execute on functions from public;

do $$
declare name text;
begin
  -- The catalogs belong to the server's superuser. Where the platform is not one (managed servers), projects keep to
  -- themselves what they hold, but can read the names of their neighbours.
  if not (select rolsuper from pg_roles where rolname = current_user) then return; end if;
  -- What would tell a project about its neighbours on the server. Not every version has all of these.
  for name in
    select oid::regclass from pg_class
    where relnamespace = 'pg_catalog'::regnamespace and relname in (
      'pg_database', 'pg_roles', 'pg_user', 'pg_group', 'pg_auth_members', 'pg_shdescription', 'pg_shdepend',
      'pg_shseclabel', 'pg_db_role_setting', 'pg_tablespace', 'pg_replication_origin', 'pg_subscription',
      'pg_stat_activity', 'pg_stat_database', 'pg_stat_database_conflicts', 'pg_stat_replication',
      'pg_stat_wal_receiver', 'pg_stat_ssl', 'pg_stat_gssapi', 'pg_stat_subscription', 'pg_stat_subscription_stats',
      'pg_stat_progress_vacuum', 'pg_stat_progress_analyze', 'pg_stat_progress_create_index',
      'pg_stat_progress_cluster', 'pg_stat_progress_copy', 'pg_stat_progress_basebackup', 'pg_locks',
      'pg_prepared_xacts', 'pg_replication_slots', 'pg_stat_replication_slots')
  loop
    execute format('revoke all on %s from public', name);
  end loop;
  for name in
    select oid::regprocedure from pg_proc
    where pronamespace = 'pg_catalog'::regnamespace and (proname in (
      'pg_stat_get_activity', 'pg_lock_status', 'pg_prepared_xact', 'pg_stat_get_progress_info',
      'pg_stat_get_wal_senders', 'pg_stat_get_subscription', 'pg_get_replication_slots',
      'pg_show_replication_origin_status', 'pg_tablespace_databases', 'pg_describe_object', 'pg_identify_object',
      'pg_identify_object_as_address',
      -- Ways to write for those who may only read: large objects, and messages into the write-ahead log.
      'lo_creat', 'lo_create', 'lo_from_bytea', 'pg_logical_emit_message')
      or proname ~ '^pg_stat_get_(backend|db)_')
  loop
    execute format('revoke execute on function %s from public', name);
  end loop;
end $$;
