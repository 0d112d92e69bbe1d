import type { ClientBase } from 'pg';
import { introspectionOf, schemaOf } from '#domain/data-api/schema/introspect.ts';
import type { Table } from '#domain/data-api/schema/types.ts';

/** The name of a type: its own, an array's with `_` before it; of a domain its base type. */
export interface Attribute {
  readonly name: string;
  readonly type: string;
}

export interface RoutineShape {
  readonly name: string;
  readonly arguments: readonly (Attribute & { readonly optional: boolean })[];
  readonly returns: string;
  readonly set: boolean;
  /** The columns of a RETURNS TABLE, or OUT parameters; null without any. */
  readonly outputs: readonly Attribute[] | null;
}

/** The source of the types: schema `public` of a project's database, at one moment. */
export interface TypedSchema {
  readonly tables: readonly Table[];
  readonly routines: readonly RoutineShape[];
  readonly enums: readonly { readonly name: string; readonly values: readonly string[] }[];
  readonly composites: readonly { readonly name: string; readonly attributes: readonly Attribute[] }[];
}

const own = (catalog: string, oid: string): string =>
  `not exists (select from pg_catalog.pg_depend e where e.classid = '${catalog}'::regclass and e.objid = ${oid} and e.deptype = 'e')`;

const typeName = (oid: string): string =>
  `(select case when t.typtype = 'd' then b.typname else t.typname end from pg_catalog.pg_type t
    left join pg_catalog.pg_type b on b.oid = t.typbasetype where t.oid = ${oid})`;

const enumsSql = `
  select t.typname as name, pg_catalog.array_agg(e.enumlabel::text order by e.enumsortorder) as values
  from pg_catalog.pg_type t join pg_catalog.pg_enum e on e.enumtypid = t.oid
  where t.typnamespace = 'public'::regnamespace and ${own('pg_type', 't.oid')}
  group by 1 order by 1`;

const compositesSql = `
  select c.relname as name, coalesce(pg_catalog.json_agg(pg_catalog.json_build_object('name', a.attname, 'type', ${typeName('a.atttypid')})
    order by a.attnum) filter (where a.attnum > 0 and not a.attisdropped), '[]') as attributes
  from pg_catalog.pg_class c left join pg_catalog.pg_attribute a on a.attrelid = c.oid
  where c.relkind = 'c' and c.relnamespace = 'public'::regnamespace and ${own('pg_type', 'c.reltype')}
  group by c.oid, c.relname order by 1`;

const parameters = (modes: string): string => `
  select pg_catalog.json_agg(pg_catalog.json_build_object('name', x.name, 'type', ${typeName('x.type')},
    'optional', x.place > p.pronargs - p.pronargdefaults) order by x.place)
  from (select coalesce(p.proargnames[i.at], '') as name, i.type, pg_catalog.row_number() over (order by i.at) as place
    from pg_catalog.unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) with ordinality as i (type, at)
    where coalesce(p.proargmodes[i.at], 'i') in (${modes})) x`;

const routinesSql = `
  select p.proname as name, coalesce((${parameters(`'i', 'b', 'v'`)}), '[]') as arguments, ${typeName('p.prorettype')} as returns,
    p.proretset as set, (${parameters(`'o', 'b', 't'`)}) as outputs
  from pg_catalog.pg_proc p
  where p.pronamespace = 'public'::regnamespace and p.prokind = 'f' and ${own('pg_proc', 'p.oid')}
    and p.prorettype not in ('pg_catalog.trigger'::regtype, 'pg_catalog.event_trigger'::regtype)
  order by p.proname, p.oid`;

const rowsOf = async <T extends object>(client: ClientBase, sql: string): Promise<T[]> =>
  (await client.query<T>(sql)).rows;

const readAll = async (client: ClientBase): Promise<TypedSchema> => {
  const { text, params } = introspectionOf('public');
  const { rows } = await client.query<(string | null)[]>({ text, values: [...params], rowMode: 'array' });
  return {
    tables: [...schemaOf(rows[0] ?? []).tables.values()],
    routines: await rowsOf(client, routinesSql),
    enums: await rowsOf(client, enumsSql),
    composites: await rowsOf(client, compositesSql),
  };
};

/** Reads it in one snapshot. */
export const readTypedSchema = async (client: ClientBase, timeoutMs: number): Promise<TypedSchema> => {
  await client.query(`begin isolation level repeatable read read only; set local statement_timeout = ${timeoutMs}`);
  try {
    return await readAll(client);
  } finally {
    await client.query('rollback');
  }
};
