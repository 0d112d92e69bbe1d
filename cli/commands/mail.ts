import { type Register, type Run, call, confirmFirst, inProject, isOn, numberOption, textOption } from '../cli.ts';
import { usage } from '../errors.ts';
import type { Schemas } from '../types.ts';
import { sinceOf } from './logs.ts';

type Mail = Schemas['Email'];
type Changed = Schemas['BulkResult'];

const list = async (run: Run): Promise<void> => {
  const project = await inProject(run);
  const limit = numberOption(run, 'limit', 50);
  if (limit < 1 || limit > 200) throw usage('--limit must be from 1 to 200.');
  const query = new URLSearchParams({ limit: String(limit) });
  for (const name of ['status', 'recipient']) {
    const value = textOption(run, name);
    if (value !== undefined) query.set(name, value);
  }
  const { mails } = await call<{ mails: Mail[] }>(project, `${project.path}/email/mails?${query.toString()}`);
  const rows = mails.map(({ id, template, recipient, status, attempts, error, response, created_at: created }) => ({
    id,
    template,
    recipient,
    status,
    attempts,
    why: error ?? response,
    created,
  }));
  run.cli.out.table(rows, mails, 'There are no such mails.');
};

/** @throws {Failure} `usage` for a filter that would be all mails */
const filterOf = (run: Run): Record<string, unknown> => {
  const [status, recipient, since] = ['status', 'recipient', 'since'].map((name) => textOption(run, name));
  const filter = {
    ...(run.args.length > 0 && { ids: run.args }),
    ...(status !== undefined && { status }),
    ...(recipient !== undefined && { recipient }),
    ...(since !== undefined && { since: sinceOf(since, Date.now()) }),
  };
  if (Object.keys(filter).length > 0) return filter;
  throw usage('Name mails, or choose some with --status, --recipient or --since.');
};

const resend = async (run: Run): Promise<void> => {
  const project = await inProject(run);
  const filter = filterOf(run);
  const send = (isDry: boolean): Promise<Changed> =>
    call(project, `${project.path}/email/mails/resend`, { method: 'POST', body: { filter, dry_run: isDry } });
  const { matched } = await send(true);
  const changesNothing = isOn(run, 'dryRun') || matched === 0;
  if (!changesNothing) await confirmFirst(run, `${matched} mails will be sent again.`);
  const done = changesNothing ? { matched, changed: 0 } : await send(false);
  run.cli.out.say(`${done.matched} match, ${done.changed} are sent again.`);
  if (run.cli.out.isJson) run.cli.out.data(done, '');
};

export const registerMail: Register = (program, act) => {
  const mail = program.command('mail').description('mails of the project, and those that were not delivered');
  mail
    .command('list')
    .description('list mails, the latest first')
    .option('--status <status>', 'undelivered, queued, sent, failed, bounced, unknown or kept')
    .option('--recipient <text>', 'those to an address with this part')
    .option('-n, --limit <number>', 'at most so many', '50')
    .action(act(list));
  mail
    .command('resend [ids...]')
    .description('send mails again that were not delivered')
    .option('--status <status>', 'failed, unknown or kept')
    .option('--recipient <text>', 'those to an address with this part')
    .option('--since <time>', 'those made since, such as 1h')
    .option('--dry-run', 'count them only')
    .action(act(resend));
};
