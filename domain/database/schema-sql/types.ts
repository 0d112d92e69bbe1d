import { type Catalog, type Item, isOwn, ranks, readItems } from './item.ts';

const enums = `
  select 'pg_type:' || t.oid as key, t.oid::regtype::text as name,
    format('create type %s as enum (%s)', t.oid::regtype,
      coalesce((select string_agg(quote_literal(enumlabel), ', ' order by enumsortorder) from pg_enum where enumtypid = t.oid), '')) as sql
  from pg_type t where t.typtype = 'e' and t.typnamespace = any ($1::oid[]) and ${isOwn('pg_type', 't.oid')}`;

const domains = `
  select 'pg_type:' || t.oid as key, t.oid::regtype::text as name,
    concat('create domain ', t.oid::regtype, ' as ', format_type(t.typbasetype, t.typtypmod),
      (select format(' collate %I.%I', n.nspname, c.collname) from pg_collation c join pg_namespace n on n.oid = c.collnamespace
        join pg_type base on base.oid = t.typbasetype where c.oid = t.typcollation and t.typcollation <> base.typcollation),
      ' default ' || t.typdefault, case when t.typnotnull then ' not null' end,
      (select string_agg(format(' constraint %I %s', conname, pg_get_constraintdef(oid)), '' order by conname)
        from pg_constraint where contypid = t.oid and contype = 'c')) as sql
  from pg_type t where t.typtype = 'd' and t.typnamespace = any ($1::oid[]) and ${isOwn('pg_type', 't.oid')}`;

const composites = `
  select 'pg_class:' || c.oid as key, c.oid::regclass::text as name,
    format(e'create type %s as (\\n%s\\n)', c.oid::regclass, coalesce((
      select string_agg(concat('  ', quote_ident(a.attname), ' ', format_type(a.atttypid, a.atttypmod),
          case when a.attcollation <> t.typcollation then format(' collate %I.%I', cn.nspname, co.collname) end), e',\\n' order by a.attnum)
      from pg_attribute a join pg_type t on t.oid = a.atttypid
      left join pg_collation co on co.oid = a.attcollation left join pg_namespace cn on cn.oid = co.collnamespace
      where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped), '')) as sql
  from pg_class c where c.relkind = 'c' and c.relnamespace = any ($1::oid[]) and ${isOwn('pg_class', 'c.oid')}
    and ${isOwn('pg_type', 'c.reltype')}`;

const rangeTypes = `
  select 'pg_type:' || t.oid as key, t.oid::regtype::text as name,
    concat('create type ', t.oid::regtype, ' as range (subtype = ', r.rngsubtype::regtype,
      ', multirange_type_name = ' || r.rngmultitypid::regtype,
      (select ', subtype_opclass = ' || format('%I.%I', n.nspname, o.opcname) from pg_opclass o
        join pg_namespace n on n.oid = o.opcnamespace where o.oid = r.rngsubopc and not o.opcdefault),
      (select ', collation = ' || format('%I.%I', n.nspname, co.collname) from pg_collation co
        join pg_namespace n on n.oid = co.collnamespace join pg_type s on s.oid = r.rngsubtype
        where co.oid = r.rngcollation and r.rngcollation <> s.typcollation),
      case when r.rngsubdiff <> 0 then ', subtype_diff = ' || r.rngsubdiff::regproc end, ')') as sql
  from pg_type t join pg_range r on r.rngtypid = t.oid
  where t.typnamespace = any ($1::oid[]) and ${isOwn('pg_type', 't.oid')}`;

// Sequences of an identity column are created with it.
const sequences = `
  select 'pg_class:' || c.oid as key, c.oid::regclass::text as name,
    concat('create ', case when c.relpersistence = 'u' then 'unlogged ' end, 'sequence ', c.oid::regclass, ' as ',
      s.seqtypid::regtype, ' increment by ', s.seqincrement, ' minvalue ', s.seqmin, ' maxvalue ', s.seqmax,
      ' start with ', s.seqstart, ' cache ', s.seqcache, case when s.seqcycle then ' cycle' end) as sql
  from pg_class c join pg_sequence s on s.seqrelid = c.oid
  where c.relnamespace = any ($1::oid[]) and ${isOwn('pg_class', 'c.oid')}
    and not exists (select from pg_depend i where i.classid = 'pg_class'::regclass and i.objid = c.oid and i.deptype = 'i')`;

const ownedSequences = `
  select 'owned:' || c.oid as key, c.oid::regclass::text as name,
    format('alter sequence %s owned by %s.%I', c.oid::regclass, d.refobjid::regclass, a.attname) as sql
  from pg_class c join pg_depend d on d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'a'
    and d.refclassid = 'pg_class'::regclass and d.refobjsubid > 0
  join pg_attribute a on a.attrelid = d.refobjid and a.attnum = d.refobjsubid
  where c.relkind = 'S' and c.relnamespace = any ($1::oid[]) and ${isOwn('pg_class', 'c.oid')}`;

/** Types and sequences. */
// A cast is in no schema: it counts as the project's when its function or one of its types is.
const casts = `
  select 'pg_cast:' || k.oid as key, format('(%s as %s)', k.castsource::regtype, k.casttarget::regtype) as name,
    concat('create cast (', k.castsource::regtype, ' as ', k.casttarget::regtype, ') ',
      case k.castmethod when 'f' then 'with function ' || k.castfunc::regprocedure when 'i' then 'with inout'
        else 'without function' end,
      case k.castcontext when 'a' then ' as assignment' when 'i' then ' as implicit' end) as sql
  from pg_cast k where k.oid >= 16384 and ${isOwn('pg_cast', 'k.oid')} and (
    exists (select from pg_type t where t.oid in (k.castsource, k.casttarget) and t.typnamespace = any ($1::oid[]))
    or exists (select from pg_proc p where p.oid = k.castfunc and p.pronamespace = any ($1::oid[])))`;

export const typeItems = async (catalog: Catalog): Promise<Item[]> => [
  ...(await readItems(catalog, ranks.type, enums)),
  ...(await readItems(catalog, ranks.type, domains)),
  ...(await readItems(catalog, ranks.type, composites)),
  ...(await readItems(catalog, ranks.type, rangeTypes)),
  ...(await readItems(catalog, ranks.function, casts)),
  ...(await readItems(catalog, ranks.sequence, sequences)),
  ...(await readItems(catalog, ranks.ownedBy, ownedSequences)),
];
