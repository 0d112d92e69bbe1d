import { type Catalog, type Item, isOwn, ranks, readItems } from './item.ts';

const relation = (kinds: string): string =>
  `c.relkind in (${kinds}) and c.relnamespace = any ($1::oid[]) and ${isOwn('pg_class', 'c.oid')}`;

// The platform's own come with the table, by its event trigger; a partition's with its parent's. The project may put
// triggers on the table of its users, too.
const userTriggers = `
  select t.oid, t.tgname, t.tgenabled, t.tgrelid::regclass::text as table, pg_get_triggerdef(t.oid) as definition
  from pg_trigger t join pg_class c on c.oid = t.tgrelid
  where not t.tgisinternal and t.tgparentid = 0 and t.tgname !~ '^plinth_'
    and ((${relation(`'r', 'p', 'v'`)}) or c.oid = to_regclass('auth.users'))`;

const triggers = `
  select 'pg_trigger:' || t.oid as key, t.table || '.' || quote_ident(t.tgname) as name, t.definition as sql from (${userTriggers}) t`;

const triggerStates = `
  select 'state:' || t.oid as key, t.table || '.' || quote_ident(t.tgname) || ' state' as name,
    format('alter table %s %s trigger %I', t.table,
      case t.tgenabled when 'D' then 'disable' when 'R' then 'enable replica' else 'enable always' end, t.tgname) as sql
  from (${userTriggers}) t where t.tgenabled <> 'O'`;

const rowSecurity = `
  select 'security:' || what || c.oid as key, c.oid::regclass::text as name,
    format('alter table %s %s row level security', c.oid::regclass, what) as sql
  from pg_class c, lateral (select 'enable' where c.relrowsecurity union all select 'force' where c.relforcerowsecurity) as x (what)
  where ${relation(`'r', 'p'`)}`;

const forOthers = `exists (select from unnest(p.polroles) as r
  where r <> 0 and pg_get_userbyid(r) not in (current_user, 'anon', 'authenticated'))`;

/** Policies for a role that another project does not have. */
export const foreignPolicies = `
  select format('policy %I on %s, for a role of this project alone', p.polname, p.polrelid::regclass) as name
  from pg_policy p join pg_class c on c.oid = p.polrelid where ${relation(`'r', 'p'`)} and ${forOthers}`;

// The owner is named by what it is, so that the text fits another project.
const policies = `
  select 'pg_policy:' || p.oid as key, p.polrelid::regclass || '.' || quote_ident(p.polname) as name,
    concat('create policy ', quote_ident(p.polname), ' on ', p.polrelid::regclass, case when not p.polpermissive then ' as restrictive' end,
      ' for ', case p.polcmd when 'r' then 'select' when 'a' then 'insert' when 'w' then 'update' when 'd' then 'delete' else 'all' end,
      ' to ', (select string_agg(case when r = 0 then 'public' when pg_get_userbyid(r) = current_user then 'current_user'
        else quote_ident(pg_get_userbyid(r)) end, ', ') from unnest(p.polroles) as r),
      ' using (' || pg_get_expr(p.polqual, p.polrelid) || ')',
      ' with check (' || pg_get_expr(p.polwithcheck, p.polrelid) || ')') as sql
  from pg_policy p join pg_class c on c.oid = p.polrelid where ${relation(`'r', 'p'`)} and not ${forOthers}`;

const commented = `
  select 'pg_class'::regclass as classid, c.oid as objid, 0 as sub, case c.relkind when 'v' then 'view' when 'm' then 'materialized view'
      when 'S' then 'sequence' when 'c' then 'type' when 'i' then 'index' when 'I' then 'index' else 'table' end || ' ' || c.oid::regclass as target
    from pg_class c where ${relation(`'r', 'p', 'v', 'm', 'S', 'c', 'i', 'I'`)}
  union all select 'pg_class'::regclass, c.oid, a.attnum, format('column %s.%I', c.oid::regclass, a.attname)
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped where ${relation(`'r', 'p', 'v', 'm', 'c'`)}
  union all select 'pg_type'::regclass, t.oid, 0, case t.typtype when 'd' then 'domain ' else 'type ' end || t.oid::regtype
    from pg_type t where t.typtype in ('e', 'd', 'r') and t.typnamespace = any ($1::oid[]) and ${isOwn('pg_type', 't.oid')}
  union all select 'pg_proc'::regclass, p.oid, 0, case p.prokind when 'p' then 'procedure ' when 'a' then 'aggregate ' else 'function ' end || p.oid::regprocedure
    from pg_proc p where p.pronamespace = any ($1::oid[]) and ${isOwn('pg_proc', 'p.oid')}
  union all select 'pg_constraint'::regclass, k.oid, 0, format('constraint %I on %s', k.conname, k.conrelid::regclass)
    from pg_constraint k join pg_class c on c.oid = k.conrelid where k.contype in ('p', 'u', 'x', 'c', 'f') and k.conislocal and ${relation(`'r', 'p'`)}
  union all select 'pg_trigger'::regclass, t.oid, 0, format('trigger %I on %s', t.tgname, t.table) from (${userTriggers}) t
  union all select 'pg_policy'::regclass, p.oid, 0, format('policy %I on %s', p.polname, p.polrelid::regclass)
    from pg_policy p join pg_class c on c.oid = p.polrelid where ${relation(`'r', 'p'`)} and not ${forOthers}
  union all select 'pg_namespace'::regclass, n.oid, 0, format('schema %I', n.nspname)
    from pg_namespace n where n.oid = any ($1::oid[]) and n.nspname <> 'public'`;

const comments = `
  select concat('comment:', o.classid::oid, ':', o.objid, ':', o.sub) as key, o.target as name,
    format('comment on %s is %s', o.target, quote_literal(d.description)) as sql
  from (${commented}) o join pg_description d on d.classoid = o.classid and d.objoid = o.objid and d.objsubid = o.sub`;

const granted = `
  select concat('pg_class:', c.oid, ':', a.attnum) as key, privilege_type, is_grantable, grantee,
    case c.relkind when 'S' then 'sequence ' else 'table ' end || c.oid::regclass as target, format(' (%I)', a.attname) as columns
    from pg_class c join pg_attribute a on a.attrelid = c.oid and not a.attisdropped, aclexplode(a.attacl)
    where ${relation(`'r', 'p', 'v', 'm'`)}
  union all select 'pg_class:' || c.oid, privilege_type, is_grantable, grantee,
    case c.relkind when 'S' then 'sequence ' else 'table ' end || c.oid::regclass, ''
    from pg_class c, aclexplode(c.relacl) where ${relation(`'r', 'p', 'v', 'm', 'S'`)}
  union all select 'pg_proc:' || p.oid, privilege_type, is_grantable, grantee,
    case p.prokind when 'p' then 'procedure ' else 'function ' end || p.oid::regprocedure, ''
    from pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner)))
    where p.pronamespace = any ($1::oid[]) and ${isOwn('pg_proc', 'p.oid')}
  union all select 'pg_namespace:' || n.oid, privilege_type, is_grantable, grantee, format('schema %I', n.nspname), ''
    from pg_namespace n, aclexplode(n.nspacl) where n.oid = any ($1::oid[]) and n.nspname <> 'public'`;

// Only what end users may: the project's own roles get theirs by default privileges.
const grants = `
  select concat('grant:', g.key, ':', g.grantee, ':', g.is_grantable) as key, g.target as name,
    format('grant %s on %s to %s%s', string_agg(lower(g.privilege_type) || g.columns, ', ' order by g.privilege_type), g.target,
      case when g.grantee = 0 then 'public' else pg_get_userbyid(g.grantee)::text end,
      case when g.is_grantable then ' with grant option' end) as sql
  from (${granted}) g where g.grantee = 0 or pg_get_userbyid(g.grantee) in ('anon', 'authenticated')
  group by g.key, g.target, g.grantee, g.is_grantable`;

// Row-level security opens a relation of schema public to end users; here its owner took something of that back.
const revokes = `
  select 'revoke:' || c.oid as key, c.oid::regclass::text as name,
    format('revoke all on table %s from anon, authenticated', c.oid::regclass) as sql
  from pg_class c
  where ${relation(`'r', 'p', 'v'`)} and c.relnamespace = 'public'::regnamespace
    and (c.relrowsecurity or exists (select from pg_options_to_table(c.reloptions) o
      where o.option_name = 'security_invoker' and lower(o.option_value) not in ('false', 'off', 'no', '0')))
    and 8 > (select count(*) from aclexplode(c.relacl) a
      where a.privilege_type in ('SELECT', 'INSERT', 'UPDATE', 'DELETE') and pg_get_userbyid(a.grantee) in ('anon', 'authenticated'))`;

/** Additions to existing objects: triggers, row-level security, comments, grants. */
export const closingItems = async (catalog: Catalog): Promise<Item[]> => [
  ...(await readItems(catalog, ranks.trigger, triggers)),
  ...(await readItems(catalog, ranks.security, triggerStates)),
  ...(await readItems(catalog, ranks.security, rowSecurity)),
  ...(await readItems(catalog, ranks.policy, policies)),
  ...(await readItems(catalog, ranks.comment, comments)),
  // Row-level security is on before anything is granted.
  ...(await readItems(catalog, ranks.revoke, revokes)),
  ...(await readItems(catalog, ranks.grant, grants)),
];
