import { type Run, call, confirmFirst, textOption } from '../../cli.ts';
import { Failure, exits, failed, usage } from '../../errors.ts';
import { send } from '../../http.ts';
import { cleanLine } from '../../text.ts';
import type { Operations } from '../../types.ts';
import type { Files } from './access.ts';
import { type Place, shownPlace } from './place.ts';

/* Moves and copies within the platform: of one object by a call, of a folder by a job. */

export type Op = 'move' | 'copy';

type Plan = Operations['POST /projects/{project_id}/storage/v1/folder/check']['answer'];
type Job = Operations['GET /projects/{project_id}/jobs/{job_id}']['answer'];

const past: Readonly<Record<Op, string>> = { move: 'moved', copy: 'copied' };
const rules = ['skip', 'replace'];
const askEveryMs = 500;

/** Moves or copies one object. An object that a copy finds is replaced; a move refuses that. */
export const transferObject = async (files: Files, op: Op, from: Place, to: Place): Promise<void> => {
  const body = {
    bucketId: from.bucket,
    sourceKey: from.name,
    destinationBucket: to.bucket,
    destinationKey: to.name,
    ...(op === 'copy' && { upsert: true }),
  };
  await send(files, `${files.root}/object/${op}`, { method: 'POST', body, headers: files.headers });
};

/** @throws {Failure} for names that are taken, where nobody has said what happens to them */
const agreedRule = async (run: Run, { files, collisions, names }: Plan): Promise<string> => {
  const rule = textOption(run, 'onCollision');
  if (rule !== undefined && !rules.includes(rule)) throw usage(`--on-collision must be ${rules.join(' or ')}.`);
  if (collisions === 0) return rule ?? 'fail';
  if (rule === undefined) {
    const some = names.map((name) => `  ${cleanLine(name)}`).join('\n');
    const message = `${collisions} of ${files} files have names that are taken at the destination, such as\n${some}`;
    throw new Failure(exits.conflict, 'conflict', message, {
      details: { files, collisions, names },
      hint: 'Leave them where they are with --on-collision skip, or replace what is there with --on-collision replace.',
    });
  }
  if (rule === 'replace') await confirmFirst(run, `${collisions} files at the destination will be replaced.`);
  return rule;
};

const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

const hasEnded = ({ status }: Job): boolean => !['queued', 'running', 'waiting'].includes(status);

/** Follows the job to its end. It goes on when this program is interrupted. */
const followJob = async (run: Run, files: Files, at: string, { bytes }: Plan): Promise<Job> => {
  const progress = run.cli.out.progress('', bytes);
  let shown = 0;
  try {
    for (;;) {
      const job = await call<Job>(files, at);
      const now = hasEnded(job) ? bytes : (bytes * (job.progress ?? 0)) / 100;
      progress.add(now - shown);
      shown = now;
      if (hasEnded(job)) return job;
      await wait(askEveryMs);
    }
  } finally {
    progress.end();
  }
};

/** Moves or copies a folder: what lies in it lies in the other one then. */
export const transferFolder = async (run: Run, files: Files, op: Op, [from, to]: readonly [Place, Place]) => {
  if (files.jobs === null)
    throw usage('Folders are moved and copied by members of the project.', 'Unset PLINTH_API_KEY and sign in.');
  const places = { bucket: from.bucket, folder: from.name, to_bucket: to.bucket, to_folder: to.name };
  const plan = await call<Plan>(files, `${files.root}/folder/check`, { method: 'POST', body: places });
  const rule = await agreedRule(run, plan);
  const { job_id: id } = await call<{ job_id: string }>(files, `${files.root}/folder/${op}`, {
    method: 'POST',
    headers: { prefer: 'respond-async' },
    body: { ...places, on_collision: rule },
  });
  run.cli.out.say(`${plan.files} files of ${shownPlace(from)} are being ${past[op]} by the job ${id}.`);
  const { status, result, error } = await followJob(run, files, `${files.jobs}/${encodeURIComponent(id)}`, plan);
  if (status !== 'succeeded') throw failed(error?.code ?? status, error?.message ?? `The job was ${status}.`);
  const { done, skipped } = result as { done: number; skipped: number };
  run.cli.out.say(`${done} ${past[op]}${skipped === 0 ? '' : `, ${skipped} left where they are`}.`);
  if (run.cli.out.isJson) run.cli.out.data({ [past[op]]: done, skipped }, '');
};
