import test from 'ava';
import { systemActor } from '#domain/audit/actor.ts';
import { usePlatform } from '#test/support/platform.ts';
import { useWebBuild } from '#test/support/web-build.ts';
import { inBrowser, picture, signIn, useBrowser } from './browser.ts';
import { type SeededProject, dead, seedJobs, seedProjects } from './scene.ts';

// Without a worker jobs stay as they are.
const platform = usePlatform(test, { worker: false, settings: useWebBuild(test) });
const visit = useBrowser();

/** A page of operators that is signed in, at a view. */
const at = async (view: string) => {
  const one = await visit(`${platform().base}/ops/${view}`);
  await signIn(one.page);
  return one;
};

const projectsNamed = async (name: string, count: number): Promise<SeededProject[]> => {
  const { db } = platform();
  const made = await seedProjects(db, count);
  const ids = made.map(({ id }) => id);
  await db.transaction((tx) => tx.query('update projects set name = $1 where id = any ($2)', [name, ids]), systemActor);
  return made;
};

const projectNamed = async (name: string): Promise<string> => (await projectsNamed(name, 1))[0]?.id ?? '';

inBrowser('another project is found by its name and paused after a question that counts its jobs', async (t) => {
  const { page, close } = await at('projects');
  const name = 'Busy shop';
  const id = await projectNamed(name);
  const queued = { projectId: id, status: 'queued' };
  await seedJobs(platform().db, [
    queued,
    queued,
    { ...queued, type: 'cron.fire' },
    { projectId: id, status: 'running' },
  ]);
  await page.getByRole('button', { name: 'Pause another…' }).press('Enter');
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('textbox', { name: 'Project' }).fill(crypto.randomUUID());
  await page.keyboard.press('Enter');
  await dialog.getByRole('alert').getByText('There is no such project.').waitFor();
  await dialog.getByRole('textbox', { name: 'Project' }).fill(name);
  await page.keyboard.press('Enter');
  await dialog.getByText(`Pause ${name} in all its types?`).waitFor();
  const question = await dialog.innerText();
  t.regex(question, /3 jobs that wait stay where they are/);
  t.regex(question, /What runs \(1\) goes on\./);
  await picture(page, 'pause-another');
  const pausesOf = () => platform().db.query('select type from job_pauses where project_id = $1', [id]);
  t.deepEqual(await pausesOf(), [], 'nothing is paused before the answer');
  await dialog.getByRole('button', { name: 'Pause' }).press('Enter');
  await page
    .getByRole('button', { name: `Resume ${name}`, exact: true })
    .first()
    .waitFor();
  t.deepEqual(await pausesOf(), [{ type: null }]);
  await close();
});

inBrowser('of several projects with one name the page asks for the ref', async (t) => {
  const twins = await projectsNamed('Twin', 2);
  const { page, close } = await at('projects');
  await page.getByRole('button', { name: 'Pause another…' }).press('Enter');
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('textbox', { name: 'Project' }).fill('twin');
  await page.keyboard.press('Enter');
  const said = dialog.getByRole('alert').getByText('2 projects have that name.');
  await said.waitFor();
  for (const { ref } of twins) t.true((await said.innerText()).includes(ref));
  await dialog.getByRole('textbox', { name: 'Project' }).fill(twins[0]?.ref ?? '');
  await dialog.getByLabel('Type').selectOption('cron.fire');
  await page.keyboard.press('Enter');
  await dialog.getByText('Pause cron.fire of Twin?').waitFor();
  await close();
});

inBrowser('dead letters are those of a project when its name is given', async (t) => {
  const id = await projectNamed('Quiet shop');
  await seedJobs(platform().db, [dead(id), dead(id)]);
  const { page, close } = await at('dead');
  await page.getByRole('textbox', { name: 'Project', exact: true }).fill('quiet shop');
  await page.keyboard.press('Enter');
  await page.getByText('1–2 of 2').waitFor();
  const rows = page.getByRole('row').filter({ hasText: 'Quiet shop' });
  await rows.nth(1).waitFor();
  t.is(await rows.count(), 2);
  await page.goto(`${platform().base}/ops/dead?project_id=${id}`);
  await page.getByText('1–2 of 2').waitFor();
  await page.goto(`${platform().base}/ops/dead?project=${id}`);
  await page.getByText('1–2 of 2').waitFor();
  await page.getByRole('button', { name: 'Redrive all of this filter' }).press('Enter');
  await page.getByRole('dialog').getByRole('button', { name: 'Redrive' }).press('Enter');
  await page.getByText('No dead letter is like that.').waitFor();
  t.pass();
  await close();
});
