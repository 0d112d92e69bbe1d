import { type Catalog, type Item, isOwn, ranks, readItems } from './item.ts';

const schemas = `
  select 'pg_namespace:' || n.oid as key, quote_ident(n.nspname) as name, format('create schema %I', n.nspname) as sql
  from pg_namespace n where n.oid = any ($1::oid[]) and n.nspname <> 'public'`;

// Objects that the platform installed are in every project's database already.
const extensions = `
  select 'pg_extension:' || e.oid as key, quote_ident(e.extname) as name,
    format('create extension if not exists %I with schema %I', e.extname, n.nspname) as sql
  from pg_extension e join pg_namespace n on n.oid = e.extnamespace
  where e.extnamespace = any ($1::oid[]) and e.extowner <> (select nspowner from pg_namespace where nspname = 'plinth')`;

const functions = `
  select 'pg_proc:' || p.oid as key, p.oid::regprocedure::text as name, pg_get_functiondef(p.oid) as sql
  from pg_proc p where p.pronamespace = any ($1::oid[]) and p.prokind in ('f', 'p') and ${isOwn('pg_proc', 'p.oid')}
    and not exists (select from pg_depend i where i.classid = 'pg_proc'::regclass and i.objid = p.oid and i.deptype = 'i')`;

const aggregates = `
  select 'pg_proc:' || p.oid as key, p.oid::regprocedure::text as name,
    concat('create aggregate ', p.pronamespace::regnamespace, '.', quote_ident(p.proname), '(', coalesce(nullif(pg_get_function_arguments(p.oid), ''), '*'), ') (',
      'sfunc = ', a.aggtransfn, ', stype = ', format_type(a.aggtranstype, null),
      case when a.aggfinalfn <> 0 then ', finalfunc = ' || a.aggfinalfn end,
      case when a.aggcombinefn <> 0 then ', combinefunc = ' || a.aggcombinefn end,
      ', initcond = ' || quote_literal(a.agginitval),
      case p.proparallel when 's' then ', parallel = safe' when 'r' then ', parallel = restricted' end, ')') as sql
  from pg_proc p join pg_aggregate a on a.aggfnoid = p.oid
  where p.pronamespace = any ($1::oid[]) and a.aggkind = 'n' and ${isOwn('pg_proc', 'p.oid')}`;

const optionsOf = `case when c.reloptions is not null then ' with (' || array_to_string(c.reloptions, ', ') || ')' end`;

const views = `
  select 'pg_class:' || c.oid as key, c.oid::regclass::text as name,
    concat('create view ', c.oid::regclass, ${optionsOf}, e' as\\n', rtrim(pg_get_viewdef(c.oid), ';')) as sql
  from pg_class c where c.relkind = 'v' and c.relnamespace = any ($1::oid[]) and ${isOwn('pg_class', 'c.oid')}`;

const materializedViews = `
  select 'pg_class:' || c.oid as key, c.oid::regclass::text as name,
    concat('create materialized view ', c.oid::regclass, ${optionsOf}, e' as\\n', rtrim(pg_get_viewdef(c.oid), ';'),
      case when not c.relispopulated then e'\\nwith no data' end) as sql
  from pg_class c where c.relkind = 'm' and c.relnamespace = any ($1::oid[]) and ${isOwn('pg_class', 'c.oid')}`;

const viewDefaults = `
  select 'pg_attrdef:' || d.oid as key, c.oid::regclass::text as name,
    format('alter view %s alter column %I set default %s', c.oid::regclass, a.attname, pg_get_expr(d.adbin, d.adrelid)) as sql
  from pg_attrdef d join pg_class c on c.oid = d.adrelid join pg_attribute a on a.attrelid = c.oid and a.attnum = d.adnum
  where c.relkind = 'v' and c.relnamespace = any ($1::oid[]) and ${isOwn('pg_class', 'c.oid')}`;

// A key's index comes with its constraint. One that could not be built to its end is left out.
const indexes = `
  select 'pg_class:' || i.indexrelid as key, i.indexrelid::regclass::text as name, pg_get_indexdef(i.indexrelid) as sql
  from pg_index i join pg_class c on c.oid = i.indrelid join pg_class x on x.oid = i.indexrelid
  where c.relkind in ('r', 'p', 'm') and c.relnamespace = any ($1::oid[]) and ${isOwn('pg_class', 'c.oid')}
    and (i.indisvalid or x.relkind = 'I')
    and not exists (select from pg_constraint k where k.conindid = i.indexrelid and k.contype in ('p', 'u', 'x'))`;

const partitions = `
  select 'attach:' || c.oid as key, c.oid::regclass::text as name,
    format('alter table only %s attach partition %s %s', i.inhparent::regclass, c.oid::regclass, pg_get_expr(c.relpartbound, c.oid)) as sql
  from pg_class c join pg_inherits i on i.inhrelid = c.oid
  where c.relispartition and c.relkind in ('r', 'p') and c.relnamespace = any ($1::oid[])`;

const replicaIdentities = `
  select 'identity:' || c.oid as key, c.oid::regclass::text as name,
    concat('alter table only ', c.oid::regclass, ' replica identity ', case c.relreplident when 'f' then 'full' when 'n' then 'nothing'
      else (select 'using index ' || quote_ident(x.relname) from pg_index i join pg_class x on x.oid = i.indexrelid
        where i.indrelid = c.oid and i.indisreplident) end) as sql
  from pg_class c where c.relkind in ('r', 'p') and c.relnamespace = any ($1::oid[]) and ${isOwn('pg_class', 'c.oid')}
    and (c.relreplident in ('f', 'n') or c.relreplident = 'i'
      and exists (select from pg_index i where i.indrelid = c.oid and i.indisreplident))`;

const statistics = `
  select 'pg_statistic_ext:' || s.oid as key, format('%I.%I', s.stxnamespace::regnamespace, s.stxname) as name,
    pg_get_statisticsobjdef(s.oid) as sql
  from pg_statistic_ext s where s.stxnamespace = any ($1::oid[])`;

const rules = `
  select 'pg_rewrite:' || r.oid as key, r.ev_class::regclass || '.' || r.rulename as name, rtrim(pg_get_ruledef(r.oid), ';') as sql
  from pg_rewrite r join pg_class c on c.oid = r.ev_class
  where r.rulename <> '_RETURN' and c.relnamespace = any ($1::oid[]) and ${isOwn('pg_class', 'c.oid')}`;

/** Names that the project itself added. */
const extensionItems = (catalog: Catalog): Promise<Item[]> => readItems(catalog, ranks.extension, extensions);

/** Schemas, functions and what reads tables, makes them faster or belongs to them. */
export const relationItems = async (catalog: Catalog): Promise<Item[]> => [
  ...(await readItems(catalog, ranks.schema, schemas)),
  ...(await extensionItems(catalog)),
  ...(await readItems(catalog, ranks.function, functions)),
  ...(await readItems(catalog, ranks.function, aggregates)),
  ...(await readItems(catalog, ranks.view, views)),
  ...(await readItems(catalog, ranks.materialized, materializedViews)),
  ...(await readItems(catalog, ranks.default, viewDefaults)),
  ...(await readItems(catalog, ranks.index, indexes)),
  ...(await readItems(catalog, ranks.attach, partitions)),
  ...(await readItems(catalog, ranks.statistics, replicaIdentities)),
  ...(await readItems(catalog, ranks.statistics, statistics)),
  ...(await readItems(catalog, ranks.rule, rules)),
];
