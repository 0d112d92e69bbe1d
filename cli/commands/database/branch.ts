import {
  type InProject,
  type Run,
  call,
  confirmFirst,
  inProject,
  isOn,
  numberOption,
  requireArgument,
} from '../../cli.ts';
import { notFound, usage } from '../../errors.ts';
import { cleanLine, didYouMean } from '../../text.ts';
import type { Schemas } from '../../types.ts';

type Branch = Schemas['Project'];
type Created = Schemas['ProjectWithKeys'];

const timeoutMs = 180_000;
const usualHours = 72;
const maxHours = 720;

const branchesOf = async (project: InProject): Promise<readonly Branch[]> =>
  (await call<{ branches: Branch[] }>(project, `${project.path}/branches`)).branches;

/** Makes a branch and waits until it can be used. */
export const createBranch = async (run: Run): Promise<void> => {
  const { out } = run.cli;
  const name = requireArgument(run, 0, 'The name');
  const hours = numberOption(run, 'hours', usualHours);
  if (hours < 1 || hours > maxHours) throw usage(`--hours must be 1 to ${maxHours}.`);
  const project = await inProject(run);
  const body = { name, expires_in_hours: hours, with_rows: isOn(run, 'rows') };
  const made = await call<Created>(project, `${project.path}/branches`, { method: 'POST', body, timeoutMs });
  const { ref, rest_url: url, api_key: key, publishable_key: publishable, expires_at: expires } = made;
  const rows = Object.entries({ ref, url, 'secret key': key, 'publishable key': publishable, expires });
  out.table(
    rows.map(([what, value]) => ({ what, value })),
    made,
    '',
  );
  out.say(`The keys are shown here only. Commands act on the branch with --project ${cleanLine(ref)}.`);
};

export const listBranches = async (run: Run): Promise<void> => {
  const branches = await branchesOf(await inProject(run));
  run.cli.out.table(
    branches.map(({ name, ref, status, expires_at: expires }) => ({ name, ref, status, expires })),
    branches,
    'There are no branches.',
  );
};

const findBranch = async (project: InProject, wanted: string): Promise<Branch> => {
  const branches = await branchesOf(project);
  const found = branches.filter(({ id, ref, name }) => [id, ref, name].includes(wanted));
  const [first] = found;
  if (first === undefined) {
    const names = branches.flatMap(({ ref, name }) => [name, ref]);
    throw notFound(
      `There is no branch ${cleanLine(wanted)}.${didYouMean(wanted, names)}`,
      'List them with `plinth db branch list`.',
    );
  }
  if (found.length > 1) throw usage(`Several branches are called ${cleanLine(wanted)}: name one by its ref.`);
  return first;
};

export const deleteBranch = async (run: Run): Promise<void> => {
  const wanted = requireArgument(run, 0, 'The branch');
  const project = await inProject(run);
  const { id, name, ref } = await findBranch(project, wanted);
  await confirmFirst(run, `This deletes the branch ${cleanLine(name)} (${cleanLine(ref)}) with its database.`);
  await call(project, `${project.path}/branches/${id}`, { method: 'DELETE' });
  run.cli.out.say(`Deleted ${cleanLine(name)}.`);
  if (run.cli.out.isJson) run.cli.out.data({ deleted: ref }, '');
};
