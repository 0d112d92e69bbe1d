import type { Register } from '../cli.ts';
import { create, push, status } from './database/migrations.ts';
import { pull, types } from './database/pull.ts';
import { seed } from './database/seed.ts';

export const registerDatabase: Register = (program, act) => {
  const db = program.command('db').description('the schema and the data of the project');
  db.command('new <name>').description('make a file in plinth/migrations').action(act(create));
  db.command('status')
    .description('print which migrations are applied, pending, changed or only there; exit 5 when one was changed')
    .action(act(status));
  db.command('push')
    .description('apply the migrations that are pending, each in a transaction')
    .option('--dry-run', 'run all of them in one transaction and keep nothing')
    .action(act(push));
  db.command('pull')
    .description('write the schema to plinth/schema.sql, and the first time a migration to begin with')
    .option('--check', 'write nothing; exit 5 when the file differs')
    .action(act(pull));
  db.command('seed [file]')
    .description('run plinth/seed.sql, or another file, as a whole or not at all')
    .option('--dry-run', 'run it and keep nothing')
    .action(act(seed));
  db.command('types')
    .description('print the types of the tables for TypeScript, as supabase-js takes them')
    .option('-o, --output <file>', 'write them there')
    .option('--check', 'write nothing; exit 5 when the file differs')
    .action(act(types));
};
