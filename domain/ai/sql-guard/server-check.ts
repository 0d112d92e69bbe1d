import type { ClientBase } from 'pg';
import { queryFunctions } from './functions.ts';
import type { Reason, UsedNames } from './verdict.ts';

/**
 * Functions and operators of the project under names of the server's own, and what `x.name` would call: the parser cannot
 * know. What extensions brought is theirs.
 */
const namesSql = `
  select 'function' as kind, p.proname::text as name from pg_proc p
  where p.pronamespace = 'public'::regnamespace and p.proname = any($1)
    and not exists (select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
  union
  select 'field', p.proname::text from pg_proc p
  where p.proname = any($2) and (p.provariadic <> 0 or 1 between p.pronargs - p.pronargdefaults and p.pronargs)
    and case when p.pronamespace = 'pg_catalog'::regnamespace
      then not p.proname = any($4) and (p.provolatile = 'v' or p.proname ~ '^(pg_|current_setting$|lo_)')
      else p.pronamespace = 'public'::regnamespace end
  union
  select 'operator', o.oprname::text from pg_operator o
  where o.oprnamespace = 'public'::regnamespace and o.oprname = any($3)
    and not exists (
      select from pg_depend d where d.classid = 'pg_operator'::regclass and d.objid = o.oid and d.deptype = 'e')
  union
  select 'target', c.relname::text from pg_class c
  where c.relnamespace = 'public'::regnamespace and c.relname = any($5) and c.relkind not in ('r', 'p')
  order by 1, 2`;

type Kind = 'function' | 'field' | 'operator' | 'target';

const reasons: Readonly<Record<Kind, (name: string) => Reason>> = {
  function: (name) => ({
    rule: 'function',
    message: `The project has a function ${name} of its own, which may be called instead of the server’s. Write pg_catalog.${name}.`,
  }),
  field: (name) => ({
    rule: 'function',
    message: `“.${name}” may call the function ${name}, which is not among those that are allowed.`,
  }),
  operator: (name) => ({
    rule: 'operator',
    message: `The project has an operator ${name} of its own, which may be called instead of the server’s. Write OPERATOR(pg_catalog.${name}), and no CASE x WHEN, BETWEEN, IN (SELECT …) or USING that stands for it.`,
  }),
  target: (name) => ({
    rule: 'statement',
    message: `${name} is no table: views, sequences, indexes and the like cannot be changed here.`,
  }),
};

/**
 * Completes a verdict with the database's own check, in the transaction in which the statement is to run.
 * @returns why it is refused all the same; empty: it is not
 */
export const reasonsOnServer = async (
  client: ClientBase,
  { functions, fields, operators, targets }: UsedNames,
): Promise<readonly Reason[]> => {
  if (functions.length + fields.length + operators.length + targets.length === 0) return [];
  // Our own words mean what they say, whatever the project has made.
  await client.query('set local search_path = pg_catalog');
  const values = [functions, fields, operators, [...queryFunctions], targets];
  const { rows } = await client.query<{ kind: Kind; name: string }>(namesSql, values);
  await client.query('set local search_path = public');
  return rows.map(({ kind, name }) => reasons[kind](name));
};
