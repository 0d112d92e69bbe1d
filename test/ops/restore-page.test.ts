import test from 'ava';
import { systemActor } from '#domain/audit/actor.ts';
import type { TestProject } from '#test/support/client.ts';
import { usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { useWebBuild } from '#test/support/web-build.ts';
import { fits, inBrowser, picture, signIn, useBrowser } from './browser.ts';

const platform = usePlatform(test, { settings: useWebBuild(test) });
const visit = useBrowser();

const sizes = {
  wide: { width: 1360, height: 900 },
  narrow: { width: 375, height: 740 },
};

const statusOf = async ({ id }: TestProject) =>
  (await platform().db.query('select slug, deleted_at from projects where id = $1', [id]))[0];

for (const [size, viewport] of Object.entries(sizes)) {
  inBrowser(`a deleted project is restored under another slug on a ${size} screen`, async (t) => {
    const { client, db } = platform();
    const owner = await client.signUp();
    const name = `Corner shop (${size})`;
    const first = await client.createProject(owner, { name, slug: `shop_${size}` });
    await client.call('DELETE', `/projects/${first.id}`, { token: owner.token });
    await until(async () => {
      const rows = await db.query('select from projects where id = $1 and retired_at is not null', [first.id]);
      return rows.length > 0;
    });
    await client.createProject(owner, { name: 'The next shop', slug: `shop_${size}` });

    const { page, complaints, close } = await visit(`${platform().base}/ops/projects`, { viewport });
    complaints.length = 0;
    await signIn(page);
    const restore = page.getByRole('button', { name: `Restore ${name}`, exact: true });
    await restore.waitFor();
    t.true(await fits(page));
    await picture(page, `restore-list-${size}`);
    await restore.press('Enter');
    const dialog = page.getByRole('dialog');
    await dialog.getByText(`Restore ${name}?`).waitFor();
    t.true(await fits(page));
    await picture(page, `restore-asks-${size}`);
    const slug = dialog.getByLabel(/New slug/);
    await slug.fill(`shop_${size}`);
    await page.keyboard.press('Enter');
    await dialog.getByRole('alert').getByText(/slug/).first().waitFor();
    await picture(page, `restore-refused-${size}`);
    complaints.length = 0;
    await slug.fill(`old_${size}`);
    await page.keyboard.press('Enter');
    await restore.waitFor({ state: 'detached' });
    t.deepEqual(await statusOf(first), { slug: `old_${size}`, deleted_at: null });
    t.deepEqual(complaints, []);
    await close();
  });
}

inBrowser('the project of a deleted organization is listed without a button to restore it', async (t) => {
  const { client, db } = platform();
  const owner = await client.signUp();
  const project = await client.createProject(owner, { name: 'Orphan' });
  await db.transaction(async (tx) => {
    await tx.query('update projects set deleted_at = now() where id = $1', [project.id]);
    await tx.query(
      'update organizations set deleted_at = now() where id = (select org_id from projects where id = $1)',
      [project.id],
    );
  }, systemActor);
  const { page, close } = await visit(`${platform().base}/ops/projects`);
  await signIn(page);
  const row = page.getByRole('row').filter({ hasText: 'Orphan' });
  await row.getByText('organization deleted').waitFor();
  t.is(await row.getByRole('button').count(), 0);
  await close();
});
