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

-- Views of the cluster that would tell a project about its neighbours.
revoke select on
  pg_catalog.pg_database, pg_catalog.pg_roles, pg_catalog.pg_user, pg_catalog.pg_group, pg_catalog.pg_auth_members,
  pg_catalog.pg_shdescription, pg_catalog.pg_shdepend, pg_catalog.pg_shseclabel, pg_catalog.pg_db_role_setting,
  pg_catalog.pg_tablespace, pg_catalog.pg_replication_origin, pg_catalog.pg_subscription,
  pg_catalog.pg_stat_activity, pg_catalog.pg_stat_database, pg_catalog.pg_stat_database_conflicts,
  pg_catalog.pg_stat_replication, pg_catalog.pg_stat_wal_receiver, pg_catalog.pg_stat_ssl, pg_catalog.pg_stat_gssapi,
  pg_catalog.pg_stat_progress_vacuum, pg_catalog.pg_stat_progress_analyze, pg_catalog.pg_stat_progress_create_index,
  pg_catalog.pg_stat_progress_cluster, pg_catalog.pg_stat_progress_copy, pg_catalog.pg_stat_progress_basebackup,
  pg_catalog.pg_locks, pg_catalog.pg_prepared_xacts, pg_catalog.pg_replication_slots
  from public;
revoke execute on function
  pg_catalog.pg_stat_get_activity(integer), pg_catalog.pg_lock_status(), pg_catalog.pg_prepared_xact(),
  pg_catalog.pg_stat_get_progress_info(text)
  from public;
