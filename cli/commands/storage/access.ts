import { type Project, type Run, call, inProject } from '../../cli.ts';
import { Failure, exits, interrupted } from '../../errors.ts';
import { type Target, send } from '../../http.ts';

/** The way to a project's files. */
export interface Files extends Target {
  readonly headers: Readonly<Record<string, string>>;
  /** Below it are objects and buckets. */
  readonly root: string;
  readonly bucket: string;
}

const keyMs = 6 * 3_600_000;

interface MadeKey {
  readonly id: string;
  readonly api_key: string;
}

const makeKey = (target: Target, path: string): Promise<MadeKey> =>
  call<MadeKey>(target, `${path}/api-keys`, {
    method: 'POST',
    body: { name: 'plinth storage', kind: 'secret', expires_at: new Date(Date.now() + keyMs).toISOString() },
  }).catch((error: unknown) => {
    if (!(error instanceof Failure) || error.body.code !== 'forbidden') throw error;
    throw new Failure(exits.failed, 'forbidden', 'Files are reached by an API key, and you may make none.', {
      hint: 'Set PLINTH_API_KEY to a key of the project.',
    });
  });

const filesOf = (target: Target, { ref, slug }: Project, key: string): Files => {
  const { token: _token, ...rest } = target;
  return { ...rest, headers: { apikey: key }, root: `/p/${ref}/storage/v1`, bucket: slug };
};

/**
 * Does the work with a key of the project: the one of PLINTH_API_KEY, else one that is made for it and deleted
 * afterwards. Should that fail, it expires by itself.
 */
export const withFiles = async (run: Run, work: (files: Files) => Promise<void>): Promise<void> => {
  const project = await inProject(run);
  const found = await call<Project>(project, project.path);
  const given = run.cli.env['PLINTH_API_KEY'];
  if (given) return work(filesOf(project, found, given));
  const { id, api_key: key } = await makeKey(project, project.path);
  try {
    await work(filesOf(project, found, key));
  } finally {
    // Also after Ctrl-C, which has ended everything else.
    const last = { ...project, signal: AbortSignal.timeout(10_000) };
    await send(last, `${project.path}/api-keys/${id}`, { method: 'DELETE' }).catch(() =>
      run.cli.out.warn('The key that was made for this could not be deleted; it expires within 6 hours.'),
    );
  }
  if (run.cli.signal.aborted) throw interrupted();
};
