import { useMutation, useQuery } from '@tanstack/react-query';
import { type FormEvent, useEffect, useState } from 'react';
import { counted } from '../../client/counted.ts';
import { call } from '../../client/api.ts';
import { fieldOf } from '../../client/form.ts';
import { usePace } from '../../client/live.ts';
import { useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';
import { Dialog } from '../../components/dialog.tsx';
import { Failure } from '../../components/failure.tsx';
import { lastPart, shownName } from './paths.ts';

export type TransferOp = 'move' | 'copy';
type Plan = Operations['POST /projects/{project_id}/storage/v1/folder/check']['answer'];
type Job = Operations['GET /projects/{project_id}/jobs/{job_id}']['answer'];
type Rule = 'fail' | 'skip' | 'replace';

interface Folders {
  readonly bucket: string;
  readonly folder: string;
  readonly to_bucket: string;
  readonly to_folder: string;
}

const past: Readonly<Record<TransferOp, string>> = { move: 'moved', copy: 'copied' };
const maxNameLength = 1024;
const paceMs = 1000;

/** Asks what a transfer would do, and has it done. */
const useTransfer = (op: TransferOp) => {
  const { project } = useProject();
  const params = { project_id: project.id };
  const begin = async (folders: Folders, rule: Rule): Promise<string> => {
    const path = `POST /projects/{project_id}/storage/v1/folder/${op}` as const;
    const headers = { prefer: 'respond-async' };
    const answer = await call(path, { params, headers, body: { ...folders, on_collision: rule } });
    return (answer as unknown as { readonly job_id: string }).job_id;
  };
  const check = (folders: Folders): Promise<Plan> =>
    call('POST /projects/{project_id}/storage/v1/folder/check', { params, body: folders });
  return { begin, check };
};

interface WaitingProps {
  readonly op: TransferOp;
  readonly jobId: string;
  readonly files: number;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

const isOver = ({ status }: Job): boolean => !['queued', 'running', 'waiting'].includes(status);

/** How far the job is. It goes on when the dialog is closed. */
const Waiting = ({ op, jobId, files, onDone, onClose }: WaitingProps) => {
  const { project } = useProject();
  const params = { project_id: project.id, job_id: jobId };
  const pace = usePace(paceMs);
  const job = useQuery({
    queryKey: ['job', jobId],
    queryFn: () => call('GET /projects/{project_id}/jobs/{job_id}', { params }),
    // The live stream reports a beginning and an end, and no progress in between.
    refetchInterval: ({ state }) => (state.data !== undefined && isOver(state.data) ? pace : paceMs),
  });
  const stop = useMutation({
    mutationFn: () => call('POST /projects/{project_id}/jobs/{job_id}/cancel', { params, body: {} }),
    onSuccess: () => job.refetch(),
  });
  const { data } = job;
  const isDone = data?.status === 'succeeded';
  useEffect(() => {
    if (isDone) onDone();
    // It is done once.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [isDone]);
  const hasFailed = data !== undefined && isOver(data) && !isDone;
  return (
    <>
      <p>
        {hasFailed ? 'The job has ended' : `${counted(files, 'file')} ${files === 1 ? 'is' : 'are'} being ${past[op]}`}{' '}
        <progress aria-label={`Files that are ${past[op]}`} max={100} value={data?.progress ?? 0} />
      </p>
      {hasFailed && (
        <p role="alert" className="failure">
          {data.error?.message ?? `The job was ${data.status}.`} What was {past[op]} until then stays so.
        </p>
      )}
      {(job.error ?? stop.error) && <Failure error={job.error ?? stop.error} />}
      <p className="row end">
        {!hasFailed && (
          <button type="button" className="danger" disabled={stop.isPending} onClick={() => stop.mutate()}>
            Stop
          </button>
        )}
        <button type="button" onClick={hasFailed ? onDone : onClose}>
          {hasFailed ? 'Close' : 'Close, and let it go on'}
        </button>
      </p>
    </>
  );
};

interface QuestionProps {
  readonly op: TransferOp;
  readonly plan: Plan;
  readonly isPending: boolean;
  readonly onRule: (rule: Rule) => void;
  readonly onBack: () => void;
}

/** Names that are taken: nothing has begun, and somebody says what happens to them. */
const Question = ({ op, plan: { files, collisions, names }, isPending, onRule, onBack }: QuestionProps) => (
  <>
    <p role="alert">
      {collisions.toLocaleString('en')} of {counted(files, 'file')}{' '}
      {collisions === 1 ? 'has a name that is' : 'have names that are'} taken there:
    </p>
    <ul className="names">
      {names.map((name) => (
        <li key={name}>
          <bdi>{shownName(name)}</bdi>
        </li>
      ))}
      {collisions > names.length && <li>and {(collisions - names.length).toLocaleString('en')} more</li>}
    </ul>
    <p className="row end">
      <button type="button" onClick={onBack}>
        Back
      </button>
      <button type="button" className="danger" disabled={isPending} onClick={() => onRule('replace')}>
        Replace what is there
      </button>
      <button type="button" className="primary" disabled={isPending} onClick={() => onRule('skip')}>
        {op === 'move' ? 'Leave these where they are' : 'Copy all others'}
      </button>
    </p>
  </>
);

interface Props {
  readonly op: TransferOp;
  readonly bucket: string;
  readonly buckets: readonly string[];
  /** The whole name of the folder. */
  readonly folder: string;
  /** @param changed whether anything may be different now */
  readonly onClose: (changed: boolean) => void;
}

/** Gives a folder another name, another place or another bucket; or copies it there. */
export const TransferDialog = ({ op, bucket, buckets, folder, onClose }: Props) => {
  const { begin, check } = useTransfer(op);
  const [wanted, setWanted] = useState<Folders>({ bucket, folder, to_bucket: bucket, to_folder: folder });
  const [asked, setAsked] = useState<Plan | null>(null);
  const start = useMutation({
    mutationFn: async ({ folders, rule }: { readonly folders: Folders; readonly rule: Rule }) => {
      const plan = await check(folders);
      if (plan.collisions > 0 && rule === 'fail') {
        setAsked(plan);
        return null;
      }
      return { id: await begin(folders, rule), files: plan.files };
    },
  });
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    const folders = { ...wanted, to_bucket: fieldOf(form, 'bucket'), to_folder: fieldOf(form, 'folder') };
    setWanted(folders);
    start.mutate({ folders, rule: 'fail' });
  };
  const job = start.data ?? null;
  return (
    <Dialog
      title={`${op === 'move' ? 'Move or rename' : 'Copy'} ${shownName(lastPart(folder))}`}
      onClose={() => onClose(job !== null)}
    >
      {start.error && <Failure error={start.error} />}
      {job !== null && (
        <Waiting op={op} jobId={job.id} files={job.files} onDone={() => onClose(true)} onClose={() => onClose(true)} />
      )}
      {job === null && asked !== null && (
        <Question
          op={op}
          plan={asked}
          isPending={start.isPending}
          onRule={(rule) => start.mutate({ folders: wanted, rule })}
          onBack={() => setAsked(null)}
        />
      )}
      {job === null && asked === null && (
        <form onSubmit={submit}>
          <label>
            Bucket
            <select name="bucket" defaultValue={wanted.to_bucket}>
              {buckets.map((each) => (
                <option key={each}>{each}</option>
              ))}
            </select>
          </label>
          <label>
            Name of the folder, with those above it
            <input name="folder" maxLength={maxNameLength} defaultValue={wanted.to_folder} dir="auto" />
          </label>
          <p className="row end">
            <button type="button" onClick={() => onClose(false)}>
              Cancel
            </button>
            <button type="submit" className="primary" disabled={start.isPending}>
              {op === 'move' ? 'Move the folder' : 'Copy the folder'}
            </button>
          </p>
        </form>
      )}
    </Dialog>
  );
};
