import test from 'ava';
import { addMember } from '#test/support/members.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { inBrowser, useBrowser } from '../ops/browser.ts';
import { looksRight, seriousOf, signIn } from './browse.ts';
import { newCheckedScene, useDashboard } from './scene.ts';

const { platform } = useDashboard(test);
const open = useBrowser();

const newScene = () => newCheckedScene(platform());

inBrowser('a flag is made, gets a rule, says why it has its value, and is saved', async (t) => {
  t.timeout(longTestMs);
  const scene = await newScene();
  const { page, complaints, close } = await open(scene.at('/flags'));
  await signIn(page, scene.owner);
  await page.getByText('There are no flags in this environment.').waitFor();
  await page.getByRole('button', { name: 'New flag' }).click();
  await page.getByLabel(/^Key, as/).fill('new-checkout');
  await page.getByRole('button', { name: 'Create the flag' }).click();
  await page.getByRole('heading', { level: 1, name: 'new-checkout' }).waitFor();
  const status = page.getByRole('region', { name: 'Try it' }).getByRole('status');
  await status.getByText('the flag is off').waitFor();
  await page.getByRole('button', { name: 'Turn on' }).click();
  await status.getByText(/there are no rules/).waitFor();

  await page.getByRole('button', { name: 'Add a rule' }).click();
  await page.getByText('matches, and decides').waitFor();
  await page.getByLabel(/^Values of condition 1/).fill('team, "18"');
  await page.getByText('does not match: plan in').waitFor();
  await status.getByText(/no rule matches/).waitFor();
  await page.getByLabel(/^Context/).fill('{"plan": "18"');
  await page.getByText('This is not JSON yet.').waitFor();
  await page.getByLabel(/^Context/).fill('{"plan": "18"}');
  await page.getByText('matches, and decides').waitFor();
  await page.getByLabel('Percent of users').fill('101');
  await page.getByRole('region', { name: 'Rules' }).getByText('percent must be from 0 to 100').waitFor();
  await page.getByLabel('Percent of users').fill('');
  await page.reload();
  t.is(await page.getByLabel(/^Values of condition 1/).inputValue(), 'team, "18"');
  await looksRight(t, page, 'flag');
  await page.getByRole('button', { name: 'Save the flag' }).click();
  await page.getByRole('button', { name: 'Save the flag' }).waitFor({ state: 'detached' });
  const saved = await scene.call('GET', '/flags/new-checkout');
  t.deepEqual(saved.targeting_rules, [{ conditions: [{ attribute: 'plan', operator: 'in', values: ['team', '18'] }] }]);

  await page.getByLabel('At', { exact: true }).fill('2026-12-24T18:00');
  await page.getByRole('button', { name: 'Schedule' }).click();
  const schedules = page.getByRole('region', { name: 'Scheduled changes' });
  await schedules.getByText('{"is_enabled":true}').waitFor();
  await schedules.getByRole('button', { name: 'Cancel' }).click();
  await schedules.waitFor({ state: 'detached' });
  await page.getByText(/^Version 1,/).click();
  await page.getByRole('button', { name: 'Make version 1 the present one' }).click();
  await page
    .getByRole('dialog')
    .getByRole('button', { name: /present one/ })
    .click();
  await page.getByText('There are no rules: everybody gets the value.').waitFor();
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('a colleague’s change is shown beside one’s own, and neither is lost', async (t) => {
  t.timeout(longTestMs);
  const scene = await newScene();
  await scene.call('POST', '/flags', { key: 'banner', flag_type: 'string', value: 'hello' });
  const { page, complaints, close } = await open(scene.at('/flags/banner'));
  await signIn(page, scene.owner);
  await page.getByLabel('Value', { exact: true }).fill('<b>mine</b>');
  await scene.call('PATCH', '/flags/banner', { description: 'theirs' });
  await page.getByRole('button', { name: 'Save the flag' }).click();
  await page.getByRole('alert').getByText('Your changes are still here.').waitFor();
  await page.reload();
  await page.getByText(/changed by somebody else meanwhile/).waitFor();
  const conflict = page.getByRole('region', { name: 'What they changed, and you' });
  await conflict.getByText('<b>mine</b>').waitFor();
  await looksRight(t, page, 'flag-conflict');
  await page.getByRole('button', { name: 'Keep mine' }).click();
  await page.getByRole('button', { name: 'Save the flag' }).click();
  await page.getByRole('button', { name: 'Save the flag' }).waitFor({ state: 'detached' });
  t.is((await scene.call('GET', '/flags/banner')).value, '<b>mine</b>');
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('environments are made, compared, exported, imported with a preview and deleted', async (t) => {
  t.timeout(longTestMs);
  const scene = await newScene();
  await scene.call('POST', '/flags', { key: 'one', name: '<img src=x onerror=alert(1)> "Ü"' });
  await scene.call('POST', '/flags', { key: 'two' });
  const { page, complaints, close } = await open(scene.at('/flags'));
  await signIn(page, scene.owner);
  await page.getByText('<img src=x').waitFor();
  await page.getByRole('button', { name: 'Environments' }).click();
  await page.getByLabel('Name of the environment').fill('staging');
  await page.getByLabel('With the flags of').selectOption('production');
  await page.getByRole('button', { name: 'Make or copy' }).click();
  await page.getByText('2 made, 0 changed, 0 deleted.').waitFor();
  await page.getByRole('button', { name: 'Close' }).click();
  await page.getByRole('switch', { name: 'one is on' }).click();
  await page.getByRole('switch', { name: 'one is off' }).waitFor();
  await page.getByLabel('Compare with').selectOption('staging');
  await page.getByText('differs in is_enabled').waitFor();
  await looksRight(t, page, 'flags');
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('link', { name: 'Export' }).click(),
  ]);
  t.is(download.suggestedFilename(), 'flags-production.json');
  await page.getByRole('button', { name: 'Import' }).click();
  const file = {
    name: 'flags.json',
    mimeType: 'application/json',
    buffer: Buffer.from('{"flags": [{"key": "three"}]}'),
  };
  await page.getByLabel('File').setInputFiles(file);
  await page.getByText('1 would be made: three').waitFor();
  await page.getByText('2 would be deleted: one, two').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Import' }).click();
  await page.getByRole('link', { name: 'three' }).first().waitFor();
  await page.getByRole('button', { name: 'Environments' }).click();
  await page.getByRole('button', { name: 'Delete staging' }).click();
  t.true(await page.getByRole('button', { name: 'Delete the environment' }).isDisabled());
  await page.getByRole('dialog').getByRole('textbox').fill('staging');
  await page.getByRole('button', { name: 'Delete the environment' }).click();
  await page.getByRole('button', { name: 'Delete staging' }).waitFor({ state: 'detached' });
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('a flag is archived once nothing needs it, is shown in a list of its own, and comes back', async (t) => {
  t.timeout(longTestMs);
  const scene = await newScene();
  await scene.call('POST', '/flags', { key: 'base', name: '<img src=x onerror=alert(1)> "Ü" \u202E 🦄' });
  await scene.call('POST', '/flags', { key: 'top', prerequisites: [{ key: 'base', value: true }] });
  const { page, complaints, close } = await open(scene.at('/flags/base'));
  await signIn(page, scene.owner);
  await page.getByRole('button', { name: 'Archive', exact: true }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('needs it: take it out of the prerequisites there first.').waitFor();
  await dialog.getByText('No application has asked for it in 90 days.').waitFor();
  t.deepEqual(await dialog.getByRole('button').allTextContents(), ['Cancel']);
  await looksRight(t, page, 'flag-needed');
  await dialog.getByRole('link', { name: 'top' }).click();
  await page.getByRole('heading', { level: 1, name: 'top' }).waitFor();
  t.is(await page.getByLabel('Flag of prerequisite 1').inputValue(), 'base');
  await page.getByRole('button', { name: 'Remove prerequisite 1' }).click();
  await page.getByRole('button', { name: 'Save the flag' }).click();
  await page.getByRole('button', { name: 'Save the flag' }).waitFor({ state: 'detached' });

  await page.goto(scene.at('/flags/base'));
  await page.getByRole('button', { name: 'Archive', exact: true }).click();
  await dialog.getByText('No other flag needs it.').waitFor();
  await dialog.getByRole('button', { name: 'Archive the flag' }).click();
  await page.getByText('This flag is archived.').waitFor();
  t.is(await page.getByRole('region', { name: 'Try it' }).count(), 0);
  t.is(await page.getByRole('button', { name: /^Turn/ }).count(), 0);
  t.true(await page.getByLabel('Name', { exact: true }).isDisabled());
  await looksRight(t, page, 'flag-archived');
  await page.getByRole('link', { name: /^All flags of/ }).click();
  await page.getByRole('link', { name: 'top' }).waitFor();
  t.is(await page.getByRole('link', { name: 'base' }).count(), 0);
  await page.getByLabel('Archived ones').check();
  await page.getByRole('link', { name: 'base' }).waitFor();
  t.regex(page.url(), /archived=true/);
  t.is(await page.getByRole('switch').count(), 0);
  await page.getByRole('link', { name: 'base' }).click();
  await page.getByRole('button', { name: 'Take it out of the archive' }).click();
  await page.getByRole('button', { name: 'Turn off' }).waitFor();
  await page.getByRole('region', { name: 'Try it' }).waitFor();
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('a flag that a colleague changed meanwhile is not archived', async (t) => {
  t.timeout(longTestMs);
  const scene = await newScene();
  await scene.call('POST', '/flags', { key: 'banner' });
  const { page, complaints, close } = await open(scene.at('/flags/banner'));
  await signIn(page, scene.owner);
  await page.getByRole('button', { name: 'Archive', exact: true }).click();
  await scene.call('PATCH', '/flags/banner', { description: 'theirs' });
  await page.getByRole('dialog').getByRole('button', { name: 'Archive the flag' }).click();
  await page.getByRole('dialog').getByRole('alert').getByText('The flag has changed').waitFor();
  t.like(await scene.call('GET', '/flags/banner'), { description: 'theirs', is_archived: false });
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('values by weight, prerequisites and segments are written with what is wrong beside them', async (t) => {
  t.timeout(longTestMs);
  const scene = await newScene();
  await scene.call('POST', '/flags', { key: 'payments' });
  await scene.call('POST', '/segments', { key: 'testers', conditions: [] });
  await scene.call('POST', '/flags', { key: 'theme', flag_type: 'string', value: 'plain' });
  const { page, complaints, close } = await open(scene.at('/flags/theme'));
  await signIn(page, scene.owner);
  await page.getByRole('button', { name: 'Add a prerequisite' }).click();
  await page.getByLabel('Flag of prerequisite 1').fill('nothing');
  await page.getByRole('region', { name: 'Prerequisites' }).getByText('there is no flag nothing').waitFor();
  await page.getByLabel('Flag of prerequisite 1').fill('payments');
  await page.getByRole('button', { name: 'Add a rule' }).click();
  const rules = page.getByRole('region', { name: 'Rules' });
  await rules.getByLabel('Segment').fill('nobody');
  await rules.getByText('there is no such segment').waitFor();
  await rules.getByLabel('Segment').fill('testers');
  await rules.getByRole('button', { name: 'Several values by weight for rule 1' }).click();
  await rules.getByLabel('Name of variant 1').fill('dark');
  await rules.getByLabel('Value of variant 1').fill('<b>dark</b>');
  await rules.getByLabel('Percent of variant 1').fill('60');
  await rules.getByText('Together 60 %; it has to be 100 %.').waitFor();
  await rules.getByText('variants the percentages make 60, not 100').waitFor();
  await rules.getByRole('button', { name: 'Add a variant to rule 1' }).click();
  await rules.getByLabel('Name of variant 2').fill('light');
  await rules.getByLabel('Value of variant 2').fill('light');
  t.is(await rules.getByLabel('Percent of variant 2').inputValue(), '40');
  await rules.getByText('Together 100 %.').waitFor();
  await rules.getByLabel('Divided by').fill('country');
  await page.getByLabel(/^Context/).fill('{"plan": "pro", "country": "CH"}');
  await rules.getByText('matches, and decides').waitFor();
  await looksRight(t, page, 'flag-variants');
  await page.getByRole('button', { name: 'Save the flag' }).click();
  await page.getByRole('button', { name: 'Save the flag' }).waitFor({ state: 'detached' });
  const saved = await scene.call('GET', '/flags/theme');
  t.deepEqual(saved.prerequisites, [{ key: 'payments', value: true }]);
  t.deepEqual(saved.targeting_rules, [
    {
      conditions: [{ attribute: 'plan', operator: 'in', values: ['pro'] }],
      segment: 'testers',
      rollout: {
        variants: [
          { name: 'dark', value: '<b>dark</b>', percent: 60 },
          { name: 'light', value: 'light', percent: 40 },
        ],
        attribute: 'country',
      },
    },
  ]);
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('a viewer may try flags, and change none', async (t) => {
  t.timeout(longTestMs);
  const scene = await newScene();
  await scene.call('POST', '/flags', {
    key: 'one',
    targeting_rules: [{ attribute: 'plan', operator: 'in', values: ['pro'] }],
  });
  const viewer = await addMember(platform(), scene.project.orgId, 'viewer');
  const { page, complaints, close } = await open(scene.at('/flags'));
  await signIn(page, viewer);
  await page.getByText(/Flags are made and changed by/).waitFor();
  await page.getByRole('link', { name: 'one' }).waitFor();
  const main = page.getByRole('main');
  t.deepEqual(await main.getByRole('button').allTextContents(), ['Search']);
  t.is(await main.getByRole('switch').count(), 0);
  await page.getByRole('link', { name: 'one' }).click();
  await page.getByText('matches, and decides').waitFor();
  t.deepEqual(await main.getByRole('button').allTextContents(), []);
  await scene.call('POST', '/flags/one/archive');
  await page.reload();
  await page.getByText('This flag is archived.').waitFor();
  t.deepEqual(await main.getByRole('button').allTextContents(), []);
  await scene.call('POST', '/flags/one/unarchive');
  await page.reload();
  await page.getByLabel(/^Context/).fill('{}');
  await page.getByText('does not match: plan in').waitFor();
  t.deepEqual(seriousOf(complaints), []);
  await close();
});
