import test from 'ava';
import { addMember } from '#test/support/members.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { inBrowser, useBrowser } from '../ops/browser.ts';
import { looksRight, seriousOf, signIn } from './browse.ts';
import { newCheckedScene, useDashboard } from './scene.ts';

const { platform } = useDashboard(test);
const open = useBrowser();

const hostile = '<img src=x onerror=alert(1)> "Ü" \u202Emoc.live 🦄';

const newScene = () => newCheckedScene(platform());

inBrowser('a segment of conditions is made, says who belongs to it, is saved and deleted', async (t) => {
  t.timeout(longTestMs);
  const scene = await newScene();
  await scene.call('POST', '/segments', { key: 'taken', conditions: [] });
  const { page, complaints, close } = await open(scene.at('/segments'));
  await signIn(page, scene.owner);
  await page.getByRole('button', { name: 'New segment' }).click();
  await page.getByLabel(/^Key, as/).fill('taken');
  await page.getByLabel('Name', { exact: true }).fill(hostile);
  await page.getByRole('button', { name: 'Create the segment' }).click();
  await page.getByRole('alert').getByText('There is a segment taken already.').waitFor();
  await page.getByLabel(/^Key, as/).fill('testers');
  await page.getByRole('button', { name: 'Create the segment' }).click();
  await page.getByRole('heading', { level: 1, name: 'testers' }).waitFor();
  t.is(await page.getByLabel('Name', { exact: true }).inputValue(), hostile);

  const verdict = page.getByRole('region', { name: 'Try it' }).getByRole('status');
  await page.getByLabel(/^Context/).fill('{"plan": "pro"}');
  await verdict.getByText('Belongs to it: every condition matches.').waitFor();
  await page.getByLabel(/^Values of condition 1/).fill('team');
  await verdict.getByText('Does not belong to it: plan in is the first that fails.').waitFor();
  await page.getByLabel(/^Operator of condition 1/).selectOption('matches');
  await page.getByLabel(/^Values of condition 1/).fill('"("');
  const conditions = page.getByRole('region', { name: 'Conditions' });
  await conditions.getByText(/^values /).waitFor();
  await page.reload();
  t.is(await page.getByLabel(/^Operator of condition 1/).inputValue(), 'matches', 'what was typed is kept');
  await page.getByLabel(/^Values of condition 1/).fill('^(team|pro)$');
  await verdict.getByText('Belongs to it').waitFor();
  await looksRight(t, page, 'segment');
  await page.getByRole('button', { name: 'Save the segment' }).click();
  await page.getByRole('button', { name: 'Save the segment' }).waitFor({ state: 'detached' });
  const saved = await scene.call('GET', '/segments/testers');
  t.deepEqual(saved.conditions, [{ attribute: 'plan', operator: 'matches', values: ['^(team|pro)$'] }]);

  await page.getByRole('link', { name: 'All segments' }).click();
  await page.getByText('<img src=x').waitFor();
  await looksRight(t, page, 'segments');
  await page.getByRole('link', { name: 'testers' }).click();
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('button', { name: 'Delete the segment' }).click();
  await page.getByRole('link', { name: 'taken' }).waitFor();
  await page.getByRole('link', { name: 'testers' }).waitFor({ state: 'detached' });
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('a list of keys is counted and tried as it is typed, read from a file, and saved', async (t) => {
  t.timeout(longTestMs);
  const scene = await newScene();
  const { page, complaints, close } = await open(scene.at('/segments'));
  await signIn(page, scene.owner);
  await page.getByText('There are no segments.').waitFor();
  await page.getByRole('button', { name: 'New segment' }).click();
  await page.getByLabel(/^Key, as/).fill('beta');
  await page.getByLabel('Who belongs to it').selectOption('keys');
  await page.getByRole('button', { name: 'Create the segment' }).click();
  await page.getByLabel(/^Targeting keys/).fill('ada\n\nbob\nada\n');
  await page.getByText('2 different keys.').waitFor();
  const verdict = page.getByRole('region', { name: 'Try it' }).getByRole('status');
  await page.getByLabel(/^Context/).fill('{"targetingKey": "bob"}');
  await verdict.getByText('Belongs to it: its targetingKey is listed.').waitFor();
  await page.getByLabel(/^Context/).fill('{"targetingKey": 7}');
  await verdict.getByText(/has no text as its targetingKey/).waitFor();
  await page.getByLabel(/^Targeting keys/).fill(`ada\n${'x'.repeat(300)}`);
  await page.getByRole('button', { name: 'Save the segment' }).click();
  await page
    .getByRole('region', { name: 'Keys' })
    .getByText(/each has 1 to 256 characters/)
    .waitFor();
  const many = Array.from({ length: 30_000 }, (_, n) => `user-${n}`).join('\n');
  const file = { name: 'keys.txt', mimeType: 'text/plain', buffer: Buffer.from(many) };
  await page.getByLabel(/^Replace them/).setInputFiles(file);
  await page.getByText('The list is too long to be edited here.').waitFor();
  await page.getByText(/^30\D?000 different keys/).waitFor();
  await page.getByLabel(/^Context/).fill('{"targetingKey": "user-29999"}');
  await verdict.getByText('its targetingKey is listed').waitFor();
  await page.getByRole('button', { name: 'Save the segment' }).click();
  await page.getByRole('button', { name: 'Save the segment' }).waitFor({ state: 'detached' });
  t.is((await scene.call('GET', '/segments/beta')).key_count, 30_000);
  await looksRight(t, page, 'segment-keys');
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('a segment in use names its flags and cannot be deleted', async (t) => {
  t.timeout(longTestMs);
  const scene = await newScene();
  await scene.call('POST', '/segments', { key: 'testers', conditions: [] });
  await scene.call('POST', '/flags', { key: 'new-checkout', targeting_rules: [{ segment: 'testers' }] });
  await scene.call('POST', '/flags', {
    key: 'banner',
    environment: 'staging',
    targeting_rules: [{ segment: 'testers' }],
  });
  const { page, complaints, close } = await open(scene.at('/segments/testers'));
  await signIn(page, scene.owner);
  await page.getByText('Without conditions everybody belongs to it.').waitFor();
  await page.getByRole('button', { name: 'Delete' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('It cannot be deleted while rules of flags name it:').waitFor();
  t.deepEqual(await dialog.getByRole('listitem').allTextContents(), [
    'new-checkout in production',
    'banner in staging',
  ]);
  t.deepEqual(await dialog.getByRole('button').allTextContents(), ['Close']);
  await dialog.getByRole('link', { name: 'banner' }).click();
  await page.getByRole('heading', { level: 1, name: 'banner' }).waitFor();
  t.is(await page.getByLabel('Segment').inputValue(), 'testers');
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('a colleague’s change of a segment is shown beside one’s own, and neither is lost', async (t) => {
  t.timeout(longTestMs);
  const scene = await newScene();
  await scene.call('POST', '/segments', { key: 'testers', name: 'first', conditions: [] });
  const { page, complaints, close } = await open(scene.at('/segments/testers'));
  await signIn(page, scene.owner);
  await page.getByLabel('Name', { exact: true }).fill('<b>mine</b>');
  await scene.call('PATCH', '/segments/testers', { name: 'theirs' });
  await page.getByRole('button', { name: 'Save the segment' }).click();
  const conflict = page.getByRole('region', { name: 'What they changed, and you' });
  await conflict.getByText('theirs', { exact: true }).waitFor();
  await conflict.getByText('<b>mine</b>').waitFor();
  t.is((await scene.call('GET', '/segments/testers')).name, 'theirs', 'nothing is overwritten');
  await page.getByRole('button', { name: 'Keep mine' }).click();
  await page.getByRole('button', { name: 'Save the segment' }).click();
  await page.getByRole('button', { name: 'Save the segment' }).waitFor({ state: 'detached' });
  t.is((await scene.call('GET', '/segments/testers')).name, '<b>mine</b>');
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('a viewer may try segments, and change none', async (t) => {
  t.timeout(longTestMs);
  const scene = await newScene();
  await scene.call('POST', '/segments', {
    key: 'testers',
    conditions: [{ attribute: 'plan', operator: 'in', values: ['pro'] }],
  });
  await scene.call('POST', '/segments', { key: 'listed', keys: ['ada'] });
  const viewer = await addMember(platform(), scene.project.orgId, 'viewer');
  const { page, complaints, close } = await open(scene.at('/segments'));
  await signIn(page, viewer);
  const main = page.getByRole('main');
  await page.getByText(/Segments are made and changed by/).waitFor();
  t.is(await main.getByRole('button').count(), 0);
  await page.getByRole('link', { name: 'testers' }).click();
  await page.getByLabel(/^Context/).fill('{"plan": "pro"}');
  await page.getByText('Belongs to it: every condition matches.').waitFor();
  t.true(await page.getByLabel(/^Values of condition 1/).isDisabled());
  t.is(await main.getByRole('button').count(), 0);
  await page.getByRole('link', { name: 'All segments' }).click();
  await page.getByRole('link', { name: 'listed' }).click();
  await page.getByLabel(/^Targeting keys/).waitFor();
  t.is(await page.getByLabel(/^Targeting keys/).getAttribute('readonly'), '');
  t.deepEqual(await main.getByRole('button').allTextContents(), ['Download the keys']);
  t.deepEqual(seriousOf(complaints), []);
  await close();
});
