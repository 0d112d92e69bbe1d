import { existsSync } from 'node:fs';
import path from 'node:path';
import { type Register, type Run, isOn } from '../cli.ts';
import { Failure, exits } from '../errors.ts';
import { writeWhole } from '../files.ts';
import { ask, isInteractive } from '../prompts.ts';
import { timeName } from './database/migrations.ts';

const migration = `create table guests (
  id bigint generated always as identity primary key,
  name text not null,
  signed_at timestamptz not null default now()
);

-- Everybody may read the guest book; the functions of the project write it.
alter table guests enable row level security;
create policy "everybody reads" on guests for select using (true);
`;

const seed = `insert into guests (name) values ('Ada'), ('Grace');
`;

const handler = `import type { Handler } from 'plinth/functions';

export const handler: Handler<{ name?: string } | null> = async (payload, { db }) => {
  if (payload?.name) await db.insert('guests', { name: payload.name });
  return db.query('select name, signed_at from guests order by id desc limit 10');
};
`;

const handlerTest = `import assert from 'node:assert';
import { test } from 'node:test';

// \`plinth functions test\` deploys what is in this folder, and \`invoke\` calls it.
test('whoever signs the guest book is the first to be read', async () => {
  const { status, result } = await invoke({ name: 'Mary' });
  assert.equal(status, 'success');
  assert.equal(result[0].name, 'Mary');
});
`;

const manifest = `${JSON.stringify({ language: 'typescript', timeout_ms: 10_000 }, undefined, 2)}\n`;

interface Wanted {
  readonly database: boolean;
  readonly seed: boolean;
  readonly function: boolean;
}

const isYes = (answer: string): boolean => answer === '' || /^y(es)?$/i.test(answer);

const questions = async (run: Run): Promise<Wanted> => {
  const { terminal } = run.cli;
  if (run.options.yes === true || !isInteractive(terminal)) return { database: true, seed: true, function: true };
  const database = isYes(await ask(terminal, 'A table to begin with? [Y/n] '));
  const rows = database && isYes(await ask(terminal, 'Rows in it? [Y/n] '));
  return { database, seed: rows, function: isYes(await ask(terminal, 'A function that reads it? [Y/n] ')) };
};

/** Makes the files of a small project that works; nothing that is there is written over. */
const init = async (run: Run): Promise<void> => {
  const { cwd, out } = run.cli;
  const folder = path.join(cwd, 'plinth');
  if (existsSync(folder) && !isOn(run, 'force')) {
    throw new Failure(exits.conflict, 'conflict', 'There is a folder plinth here already.', {
      hint: 'Link it with `plinth link`.',
    });
  }
  const wanted = await questions(run);
  const files: Record<string, string> = {
    ...(wanted.database && { [`migrations/${timeName(new Date())}_guests.sql`]: migration }),
    ...(wanted.seed && { 'seed.sql': seed }),
    ...(wanted.function && {
      'functions/guest-book/index.ts': handler,
      'functions/guest-book/index.test.mjs': handlerTest,
      'functions/guest-book/plinth.json': manifest,
    }),
  };
  const names = Object.keys(files).filter((name) => !existsSync(path.join(folder, name)));
  for (const name of names) await writeWhole(path.join(folder, name), files[name] ?? '');
  for (const name of names) out.say(`plinth/${name}`);
  out.say('Next: plinth login, plinth link, plinth db push, plinth db seed, plinth functions deploy');
  if (out.isJson) out.data({ files: names.map((name) => `plinth/${name}`) }, '');
};

export const registerInit: Register = (program, act) => {
  program
    .command('init')
    .description('make a small project that works in this folder')
    .option('--force', 'also where there is a folder plinth; nothing in it is written over')
    .action(act(init));
};
