import {
  type InProject,
  type Register,
  type Run,
  call,
  confirmFirst,
  inProject,
  numberOption,
  requireArgument,
  textOption,
} from '../cli.ts';
import { notFound, usage } from '../errors.ts';
import { send } from '../http.ts';
import { clean, cleanLine, jsonText } from '../text.ts';
import type { Schemas } from '../types.ts';

type User = Schemas['User'];

const list = async (run: Run): Promise<void> => {
  const project = await inProject(run);
  const limit = numberOption(run, 'limit', 50);
  if (limit < 1 || limit > 200) throw usage('--limit must be from 1 to 200.');
  const search = textOption(run, 'search');
  const query = new URLSearchParams({ limit: String(limit), ...(search !== undefined && { q: search }) });
  const { users } = await call<{ users: User[] }>(project, `${project.path}/users?${query.toString()}`);
  const rows = users.map(
    ({ id, email, email_verified: verified, providers, banned_until: banned, last_sign_in_at: seen }) => ({
      id,
      email,
      verified,
      providers: providers.join(','),
      banned,
      seen,
    }),
  );
  run.cli.out.table(rows, users, 'There are no such users.');
};

const uuid = /^[0-9a-f-]{36}$/i;

/** A user by id or by the whole address. */
const find = async (project: InProject, wanted: string): Promise<User> => {
  if (uuid.test(wanted)) return call<User>(project, `${project.path}/users/${wanted}`);
  const query = new URLSearchParams({ q: wanted, limit: '200' });
  const { users } = await call<{ users: User[] }>(project, `${project.path}/users?${query.toString()}`);
  const found = users.find(({ email }) => email?.toLowerCase() === wanted.toLowerCase());
  if (found) return found;
  throw notFound(`There is no user ${cleanLine(wanted)}.`, 'List them with `plinth users list --search <text>`.');
};

const show = async (run: Run): Promise<void> => {
  const project = await inProject(run);
  const user = await find(project, requireArgument(run, 0, 'The user'));
  run.cli.out.data(user, clean(jsonText(user, 2)));
};

const remove = async (run: Run): Promise<void> => {
  const project = await inProject(run);
  const { id, email } = await find(project, requireArgument(run, 0, 'The user'));
  await confirmFirst(run, `The user ${cleanLine(email ?? id)} will be deleted, with all sign-ins.`);
  await send(project, `${project.path}/users/${id}`, { method: 'DELETE' });
  run.cli.out.say('Deleted.');
  if (run.cli.out.isJson) run.cli.out.data({ id, deleted: true }, '');
};

export const registerUsers: Register = (program, act) => {
  const users = program.command('users').description('the users of the project’s application, by address or id');
  users
    .command('list')
    .description('list users')
    .option('--search <text>', 'those with this text in their address')
    .option('-n, --limit <number>', 'at most so many', '50')
    .action(act(list));
  users.command('show <user>').description('print a user').action(act(show));
  users.command('delete <user>').description('delete a user').action(act(remove));
};
