import type { TenantLogin } from '#lib/tenant-connections.ts';
import { grantItems } from './closing.ts';
import { statementsOf } from './generate.ts';
import { type Catalog, type Item, read } from './item.ts';
import { type DumpProgram, findDumpProgram } from './programs.ts';
import { RunFailed, runProgram } from './run-program.ts';
import { statementsIn } from './statements.ts';

export interface DumpOptions {
  readonly login: TenantLogin;
  /** Ends the programs. */
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
  readonly maxBytes: number;
}

// A policy for a role of this project alone cannot be made in another.
const unfitSql = `
  select from pg_policy p, unnest(p.polroles) r
  where r <> 0 and pg_get_userbyid(r) not in ('anon', 'authenticated') limit 1`;

const schemasSql = `
  select n.nspname as name from pg_namespace n
  where n.nspname in ('plinth', 'auth') and n.nspowner = (select nspowner from pg_namespace where nspname = 'plinth')`;

const inOrder = (a: Item, b: Item): number => a.rank - b.rank || (`${a.name} ${a.sql}` < `${b.name} ${b.sql}` ? -1 : 1);

const environmentOf = ({ host, port, database, user, password }: TenantLogin): Readonly<Record<string, string>> => ({
  LC_ALL: 'C',
  HOME: '/nonexistent',
  PGHOST: host,
  PGPORT: String(port),
  PGDATABASE: database,
  PGUSER: user,
  PGPASSWORD: password,
  PGPASSFILE: '/dev/null',
  PGSERVICEFILE: '/dev/null',
  PGSSLMODE: 'disable',
  PGGSSENCMODE: 'disable',
  PGCLIENTENCODING: 'UTF8',
  PGCONNECT_TIMEOUT: '10',
  // Settings that a role has made for itself do not apply, and the servers' watchdog knows the time limit.
  PGOPTIONS: '-c role=none -c quote_all_identifiers=off',
  PGAPPNAME: 'plinth fence 32 s',
});

// Plain: the other formats hold the database's own entry, and the catalog of databases is closed to projects.
const dumpArgs = [
  '--format=plain',
  '--schema-only',
  '--no-owner',
  '--no-privileges',
  '--no-publications',
  '--no-subscriptions',
  '--no-security-labels',
  '--no-tablespaces',
  '--no-password',
  '--lock-wait-timeout=2000',
  '--exclude-schema=plinth_*',
];

/** Objects that every project has, or that only a superuser creates; comments of extensions come with them. */
const leftOut = [
  /^SET \w+_timeout = /,
  /^SET row_security = /,
  /^CREATE SCHEMA public$/,
  /^COMMENT ON (?:SCHEMA public IS|EXTENSION |EVENT TRIGGER )/,
  /^(?:CREATE|ALTER) EVENT TRIGGER /,
  /^CREATE TRIGGER plinth_\w+ .* EXECUTE FUNCTION plinth\.\w+\([^)]*\)$/s,
];

const dumpWith = async ({ dump, version }: DumpProgram, catalog: Catalog, options: DumpOptions): Promise<string> => {
  const [snapshot] = await read<{ id: string }>(catalog, 'select pg_export_snapshot() as id');
  const schemas = await read<{ name: string }>(catalog, schemasSql);
  const signal = AbortSignal.any([options.signal, AbortSignal.timeout(options.timeoutMs)]);
  const args = [
    ...dumpArgs,
    `--snapshot=${snapshot?.id ?? ''}`,
    ...schemas.map(({ name }) => `--exclude-schema=${name}`),
  ];
  const { maxBytes, login } = options;
  const text = await runProgram({ program: dump, args, env: environmentOf(login), signal, maxBytes });
  const statements = statementsIn(text.toString()).filter((one) => !leftOut.some((pattern) => pattern.test(one)));
  return `-- By pg_dump ${version}.\n\n${statements.map((one) => `${one};`).join('\n\n')}`;
};

/**
 * The schema as pg_dump writes it, as the project's owner and in the catalog's snapshot, with what end users may: whatever
 * the database does to it, it has no more rights there than the owner's own SQL. Without rows, owners, and what the
 * platform puts into every project.
 * @returns null where there is no pg_dump that knows the server's version, or the schema is not for it
 * @throws {OutputTooLarge}
 * @throws the reason of the signal, or a `TimeoutError`
 */
export const dumpByProgram = async (catalog: Catalog, options: DumpOptions): Promise<string | null> => {
  const [server] = await read<{ major: number }>(
    catalog,
    `select current_setting('server_version_num')::int / 10000 as major`,
  );
  const program = await findDumpProgram(server?.major ?? Infinity);
  if (program === undefined || (await read(catalog, unfitSql)).length > 0) return null;
  try {
    const text = await dumpWith(program, catalog, options);
    return `${text}\n\n${statementsOf((await grantItems(catalog)).toSorted(inOrder))}\n`;
  } catch (error) {
    // It may lack the rights where the platform is no superuser, or wait for a lock: our own reader needs less.
    if (error instanceof RunFailed) return null;
    throw error;
  }
};
