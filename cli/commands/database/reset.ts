import { type InProject, type Run, call, confirmFirst, findProject, inFolder, inProject } from '../../cli.ts';
import { readIfThere } from '../../files.ts';
import { cleanLine } from '../../text.ts';
import { tablesOf } from './exact.ts';
import { push } from './migrations.ts';
import { seed } from './seed.ts';

/*
 * Everything that the project's owner made, but what belongs to the platform: files, users and their tables stay. Each
 * loop looks again after each drop, since what depends on an object goes with it.
 */
const dropAll = `do $reset$
declare found text;
begin
  loop
    select format('drop schema %I cascade', nspname) into found from pg_namespace
      where pg_get_userbyid(nspowner) = current_user and nspname <> 'public' limit 1;
    exit when found is null;
    execute found;
  end loop;
  loop
    select format('drop extension %I cascade', extname) into found from pg_extension
      where pg_get_userbyid(extowner) = current_user limit 1;
    exit when found is null;
    execute found;
  end loop;
  loop
    select format('drop %s %s cascade',
        case relkind when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence'
          when 'c' then 'type' when 'f' then 'foreign table' else 'table' end, oid::regclass) into found
      from pg_class where relnamespace = 'public'::regnamespace and pg_get_userbyid(relowner) = current_user
        and relkind in ('r', 'p', 'v', 'm', 'S', 'c', 'f') order by relkind in ('S', 'c') limit 1;
    exit when found is null;
    execute found;
  end loop;
  loop
    select format('drop routine %s cascade', oid::regprocedure) into found
      from pg_proc where pronamespace = 'public'::regnamespace and pg_get_userbyid(proowner) = current_user limit 1;
    exit when found is null;
    execute found;
  end loop;
  loop
    select format('drop type %s cascade', oid::regtype) into found
      from pg_type where typnamespace = 'public'::regnamespace and pg_get_userbyid(typowner) = current_user
        and typtype in ('e', 'd', 'r') limit 1;
    exit when found is null;
    execute found;
  end loop;
end $reset$;
select plinth_migrations.forget();`;

const timeoutMs = 600_000;

const maxNamed = 10;

/** The name of the project and of what would be lost. */
const lossOf = async (project: InProject): Promise<string> => {
  const [{ name, slug }, tables] = await Promise.all([findProject(project, project.id), tablesOf(project)]);
  const named = tables.slice(0, maxNamed).map(({ schema, name: table, row_estimate: rows }) => {
    const count = rows === null || rows === 0 ? '' : ` (about ${rows} rows)`;
    return cleanLine(`${schema === 'public' ? '' : `${schema}.`}${table}${count}`);
  });
  const more = tables.length > maxNamed ? [`and ${tables.length - maxNamed} more`] : [];
  const list = named.length === 0 ? 'It has no tables.' : `Its tables: ${[...named, ...more].join(', ')}.`;
  return `This deletes everything in the database of ${cleanLine(name)} (${cleanLine(slug)}). ${list}`;
};

/** Drops what the project made, all or nothing, then applies the migrations and runs the seed. */
export const reset = async (run: Run): Promise<void> => {
  const { out } = run.cli;
  const project = await inProject(run);
  await confirmFirst(run, await lossOf(project));
  const request = { method: 'POST', body: { sql: dropAll }, timeoutMs };
  await call(project, `${project.path}/db/script`, request);
  out.say('The database is empty.');
  const quiet: Run = {
    ...run,
    args: [],
    cli: { ...run.cli, out: { ...out, data: () => undefined, table: () => undefined } },
  };
  await push(quiet);
  const hasSeed = run.options['seed'] !== false && (await readIfThere(inFolder(run, 'seed.sql')))?.trim();
  if (hasSeed) await seed(quiet);
  if (out.isJson) out.data({ reset: true, seeded: Boolean(hasSeed) }, '');
};
