import { type Project, type Run, call, inProject } from '../../cli.ts';
import { interrupted } from '../../errors.ts';
import type { Target } from '../../http.ts';

/** The way to a project's files. */
export interface Files extends Target {
  readonly headers: Readonly<Record<string, string>>;
  /** Below it are objects and buckets. */
  readonly root: string;
  readonly bucket: string;
  /** Where jobs of the project are looked at; null with a key, for which there is no such place. */
  readonly jobs: string | null;
}

const byKey = ({ token: _token, ...target }: Target, { ref, slug }: Project, key: string): Files => ({
  ...target,
  headers: { apikey: key },
  root: `/p/${ref}/storage/v1`,
  bucket: slug,
  jobs: null,
});

/** Does the work as the member who is signed in, or with the key of PLINTH_API_KEY. */
export const withFiles = async (run: Run, work: (files: Files) => Promise<void>): Promise<void> => {
  const project = await inProject(run);
  const found = await call<Project>(project, project.path);
  const given = run.cli.env['PLINTH_API_KEY'];
  const { path } = project;
  const asMember = { ...project, headers: {}, root: `${path}/storage/v1`, bucket: found.slug, jobs: `${path}/jobs` };
  await work(given ? byKey(project, found, given) : asMember);
  if (run.cli.signal.aborted) throw interrupted();
};
