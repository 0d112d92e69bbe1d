import type { Register } from '../cli.ts';
import { createBranch, deleteBranch, listBranches } from './database/branch.ts';
import { diff } from './database/diff.ts';
import { dump } from './database/dump.ts';
import { create, push } from './database/migrations.ts';
import { pull, types } from './database/pull.ts';
import { psql } from './database/psql.ts';
import { reset } from './database/reset.ts';
import { seed } from './database/seed.ts';
import { status } from './database/status.ts';

const registerBranches: Register = (db, act) => {
  const branch = db
    .command('branch')
    .description('copies of the project for a pull request, with keys of their own and an end');
  branch
    .command('create <name>')
    .description('make a branch with the schema of the project')
    .option('--hours <hours>', 'delete it after so many', '72')
    .option('--rows', 'copy the rows of all tables, too; never users, files and secrets')
    .action(act(createBranch));
  branch.command('list').description('print the branches').action(act(listBranches));
  branch.command('delete <branch>').description('delete a branch with its database').action(act(deleteBranch));
};

export const registerDatabase: Register = (program, act) => {
  const db = program.command('db').description('the schema and the data of the project');
  db.command('new <name>').description('make a file in plinth/migrations').action(act(create));
  db.command('status')
    .description(
      'print which migrations are applied, pending, changed or only there; exit 5 when one was changed, or the project differs from what they make',
    )
    .option('--fast', 'do not compare the project with what its migrations make')
    .action(act(status));
  db.command('push')
    .description('apply the migrations that are pending, each in a transaction')
    .option('--dry-run', 'run all of them in one transaction and keep nothing')
    .action(act(push));
  db.command('pull')
    .description('write the schema to plinth/schema.sql, and the first time a migration to begin with')
    .option('--check', 'write nothing; exit 5 when the file differs, or the project from what its migrations make')
    .option('--fast', 'with --check: compare with the file alone')
    .action(act(pull));
  db.command('diff')
    .description(
      'draft the migration that leads from the migrations to the project; it deletes nothing, and is never applied by itself',
    )
    .option('-n, --name <name>', 'write it to plinth/migrations')
    .option('-s, --schema <file>', 'lead to the schema in that file, in place of the project')
    .option('--reverse', 'lead from there to the migrations')
    .action(act(diff));
  db.command('seed [file]')
    .description('run plinth/seed.sql, or another file, as a whole or not at all')
    .option('--dry-run', 'run it and keep nothing')
    .action(act(seed));
  db.command('reset')
    .description(
      'delete everything in the database but users and files, then apply all migrations and run plinth/seed.sql',
    )
    .option('--no-seed', 'run no seed')
    .action(act(reset));
  db.command('dump')
    .description('print the schema as SQL, or the rows as COPY that `db seed` takes')
    .option('--data', 'the rows of all tables in place of the schema')
    .option('-o, --output <file>', 'write them there')
    .action(act(dump));
  db.command('psql')
    .description('run SQL at a prompt, or what standard input brings; each statement in a session of its own')
    .option('-c, --command <sql>', 'run this')
    .option('-f, --file <file>', 'run what is in that file')
    .action(act(psql));
  registerBranches(db, act);
  db.command('types')
    .description('print the types of the tables for TypeScript, as supabase-js takes them')
    .option('-o, --output <file>', 'write them there')
    .option('--check', 'write nothing; exit 5 when the file differs')
    .action(act(types));
};
