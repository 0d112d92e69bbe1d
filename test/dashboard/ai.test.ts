import { readFileSync } from 'node:fs';
import test from 'ava';
import type { Answer } from '#test/support/client.ts';
import { addMember } from '#test/support/members.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';
import { configure, createScene, saying } from '../ai/chat-scene.ts';
import { inBrowser, useBrowser } from '../ops/browser.ts';
import { looksRight, seriousOf, signIn } from './browse.ts';
import { useDashboard } from './scene.ts';

const { platform } = useDashboard(test);
const open = useBrowser();

const scene = async (t: { teardown: (work: () => void) => void }) => {
  const made = await createScene(platform());
  t.teardown(() => made.upstream.close());
  return made;
};

inBrowser('a model is asked, its answer comes word by word, and two answer side by side', async (t) => {
  t.timeout(longTestMs);
  const { user, project, upstream } = await scene(t);
  const { page, complaints, close } = await open(
    `${platform().base}/dashboard/projects/${project.id}/ai?model=openai%2Fgpt-4o`,
  );
  await signIn(page, user);
  const goesOn = Promise.withResolvers<void>();
  upstream.answerWith(() => ({ pieces: ['first ', 'second <b>third</b>'], hold: { after: 1, until: goesOn.promise } }));
  await page.getByLabel('Message').fill('Say something');
  await page.getByRole('button', { name: 'Ask', exact: true }).click();
  const text = page.getByRole('region', { name: 'Text of openai/gpt-4o' });
  await text.getByText('first').waitFor();
  t.false(((await text.textContent()) ?? '').includes('second'));
  goesOn.resolve();
  await text.getByText('second <b>third</b>', { exact: false }).waitFor();
  await page.getByText(/^\d+ \+ \d+$/).waitFor();
  await looksRight(t, page, 'ai-playground');

  upstream.answerWith(({ model }) => ({ text: `I am ${model}.` }));
  await page.getByRole('button', { name: 'Compare with another model' }).click();
  await page.getByLabel('Model 2', { exact: true }).selectOption({ index: 1 });
  await page.getByRole('button', { name: 'Ask 2 models' }).click();
  await page.getByText('I am gpt-4o.').waitFor();
  await page.waitForFunction(`document.querySelectorAll('.answer[aria-busy="false"]').length === 2`);
  await looksRight(t, page, 'ai-arena');

  await page.getByText(/^Saved prompts/).click();
  await page.getByLabel('Name', { exact: true }).fill('<i>mine</i>');
  await page.getByRole('button', { name: 'Save this prompt' }).click();
  await page.getByLabel('Message').fill('');
  await page.reload();
  await page.getByText('Saved prompts (1)').click();
  await page.getByRole('button', { name: 'Use <i>mine</i>' }).click();
  t.is(await page.getByLabel('Message').inputValue(), 'Say something');

  await page.getByRole('link', { name: 'Usage', exact: true }).last().click();
  await page.getByRole('table', { name: 'By day' }).waitFor();
  await page.getByRole('button', { name: 'Set the budget' }).click();
  await page.getByLabel('US dollars').fill('5');
  await page.getByRole('button', { name: 'Save the budget' }).click();
  await page.getByText(/of \$5 this month|of \$5\.00 this month/).waitFor();
  await page.getByText(/It begins anew on .* 1, \d{4} at 0:00 UTC/).waitFor();
  await looksRight(t, page, 'ai-usage');
  t.deepEqual(
    complaints.filter((complaint) => !/status of 40[14]/.test(complaint)),
    [],
  );
  await close();
});

/** Calls with and without a key: one of them fails with a text that a page could take for markup. */
const makeCalls = async ({ project, user, upstream }: Awaited<ReturnType<typeof scene>>): Promise<Answer> => {
  const { client } = platform();
  const at = `/projects/${project.id}/ai/chat`;
  for (let made = 0; made < 52; made += 1)
    await client.call('POST', '/api/ai/chat', { key: project.key, body: saying('x') });
  await client.call('POST', at, { token: user.token, body: saying('x', { model: 'anthropic/claude-sonnet-4-5' }) });
  upstream.answerWith(() => ({ status: 400, message: '<img src=x onerror=alert(1)> \u202E' }));
  return client.call('POST', at, { token: user.token, body: saying('x') });
};

inBrowser('usage is added up by day, model and key, with the filters in the address, and saved as CSV', async (t) => {
  t.timeout(longTestMs);
  const made = await scene(t);
  const { user, project } = made;
  await makeCalls(made);
  const { page, complaints, close } = await open(`${platform().base}/dashboard/projects/${project.id}/ai?tab=usage`);
  await signIn(page, user);
  await page.getByRole('table', { name: 'By day' }).waitFor();
  await page.getByRole('combobox', { name: 'By', exact: true }).selectOption('all');
  const table = page.getByRole('table', { name: 'By day, model and key' });
  await until(async () => (await table.getByRole('row').count()) === 4);
  await looksRight(t, page, 'ai-usage-groups');
  await page.getByRole('combobox', { name: 'Key', exact: true }).selectOption('none');
  await until(async () => (await table.getByRole('row').count()) === 3);
  await page.getByRole('combobox', { name: 'Model', exact: true }).selectOption('openai/gpt-4o');
  await until(async () => (await table.getByRole('row').count()) === 2);
  const shared = page.url();
  t.regex(shared, /by=all/);
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Download as CSV' }).click(),
  ]);
  const lines = readFileSync((await download.path()) ?? '', 'utf8')
    .trim()
    .split('\r\n');
  t.is(lines.length, 2);
  t.regex(lines[1] ?? '', /,openai,gpt-4o,,without a key,1,1,/);
  await page.reload();
  await until(async () => (await table.getByRole('row').count()) === 2);
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('calls are listed beyond the first page and found by request; one shows both of its sides', async (t) => {
  t.timeout(longTestMs);
  const made = await scene(t);
  const { user, project } = made;
  const bad = await makeCalls(made);
  const at = `${platform().base}/dashboard/projects/${project.id}/ai?tab=calls`;
  const { page, complaints, close } = await open(at);
  await signIn(page, user);
  const rows = page.getByRole('table', { name: 'Calls of models' }).getByRole('row');
  await until(async () => (await rows.count()) === 51);
  await page.getByRole('button', { name: 'Earlier calls' }).click();
  await until(async () => (await rows.count()) === 55);
  await looksRight(t, page, 'ai-calls');
  await page.getByLabel('Status').selectOption('error');
  await until(async () => (await rows.count()) === 2);
  await page.getByLabel('Status').selectOption('');
  await page.getByLabel('Request').fill(bad.headers.get('x-request-id') ?? '');
  await page.getByRole('button', { name: 'Search' }).click();
  await until(async () => (await rows.count()) === 2);
  await rows.nth(1).getByRole('link').click();
  await page.getByRole('region', { name: 'Request' }).getByText('without a key').waitFor();
  await page
    .getByRole('region', { name: 'Answer' })
    .getByText('<img src=x onerror=alert(1)>', { exact: false })
    .waitFor();
  await looksRight(t, page, 'ai-call');
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('a provider that fails is named with its error; a stopped answer stays as far as it came', async (t) => {
  t.timeout(longTestMs);
  const { user, project, upstream } = await scene(t);
  const { page, close } = await open(`${platform().base}/dashboard/projects/${project.id}/ai?model=openai%2Fgpt-4o`);
  await signIn(page, user);
  // The list of models comes from the provider, too: it has to be there before anything fails.
  await page.getByLabel('Message').fill('Say something');
  upstream.answerWith(() => ({ status: 400, message: 'The prompt is <b>bad</b>.' }));
  await page.getByRole('button', { name: 'Ask', exact: true }).click();
  await page.getByRole('alert').first().waitFor();
  upstream.answerWith(() => ({ pieces: ['begun ', 'never'], hold: { after: 1, until: new Promise(() => undefined) } }));
  await page.getByRole('button', { name: 'Ask', exact: true }).click();
  const text = page.getByRole('region', { name: 'Text of openai/gpt-4o' });
  await text.getByText('begun').waitFor();
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByRole('button', { name: 'Stop' }).waitFor({ state: 'detached' });
  t.is((await text.textContent())?.trim(), 'begun');
  t.is(await page.getByLabel('Message').inputValue(), 'Say something');
  await close();
});

inBrowser('keys of providers are set, tested and deleted, and never shown again; a viewer sets none', async (t) => {
  t.timeout(longTestMs);
  const { user, project, upstream } = await scene(t);
  const at = `${platform().base}/dashboard/projects/${project.id}/ai?tab=providers`;
  const { page, close } = await open(at);
  await signIn(page, user);
  await page.getByRole('button', { name: 'Add a key of groq' }).click();
  await page.getByLabel('API key').fill('gsk-very-secret-0123456789');
  await page.getByLabel('Address').fill(upstream.openai);
  await page.getByRole('button', { name: 'Save the key' }).click();
  await page.getByRole('button', { name: 'Test groq' }).click();
  await page.getByText(/^works, \d+ ms$/).waitFor();
  t.false((await page.content()).includes('very-secret'));
  await looksRight(t, page, 'ai-providers');
  await page.getByRole('button', { name: 'Delete the key of groq' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete the key' }).click();
  await page.getByRole('button', { name: 'Test groq' }).waitFor({ state: 'detached' });
  await close();

  const viewer = await addMember(platform(), project.orgId, 'viewer');
  const seen = await open(at);
  await signIn(seen.page, viewer);
  await seen.page.getByText('Keys of providers are set by admins and owners.').waitFor();
  t.is(await seen.page.getByRole('button', { name: / of |Test|Delete/ }).count(), 0);
  await seen.close();
});

inBrowser('a collection is made, filled by a job, searched with a filter, and deleted', async (t) => {
  t.timeout(longTestMs);
  const made = await scene(t);
  const { user, project, upstream } = made;
  await configure(platform(), made, 'openai', upstream.openai);
  upstream.answerWith(() => ({ dimensions: 8 }));
  const { page, close } = await open(`${platform().base}/dashboard/projects/${project.id}/vectors`);
  await signIn(page, user);
  await page.getByRole('button', { name: 'New collection' }).click();
  await page.getByLabel('Name').fill('notes');
  await page.getByLabel('Dimensions').fill('8');
  await page.getByRole('button', { name: 'Create the collection' }).click();
  await page.getByRole('heading', { name: 'notes' }).waitFor();
  const documents = [
    { id: '<b>one</b>', content: 'A text about tea', metadata: { language: 'en' } },
    { id: 'two', content: 'Ein Text über Tee', metadata: { language: 'de' } },
  ];
  await page.getByLabel('Texts').fill(JSON.stringify(documents));
  await page.getByRole('button', { name: 'Add the texts' }).click();
  await page.getByText('succeeded', { exact: true }).waitFor();
  await page.getByText('2 documents, 8 dimensions', { exact: false }).waitFor();
  await page.getByLabel('Search').fill('A text about tea');
  await page.getByRole('button', { name: 'Find', exact: true }).click();
  const results = page.getByRole('region', { name: 'Results' });
  await results.getByText('1.000').waitFor();
  await page.getByLabel('Filter').fill('{"language": "de"}');
  await page.getByRole('button', { name: 'Find', exact: true }).click();
  await results.getByText('A text about tea').waitFor({ state: 'detached' });
  await results.getByText('Ein Text über Tee').waitFor();
  await looksRight(t, page, 'vectors');
  await page.getByLabel('Filter').fill('[1]');
  await page.getByRole('button', { name: 'Find', exact: true }).click();
  await page.getByRole('alert').getByText('The filter is an object', { exact: false }).waitFor();
  await page.getByRole('button', { name: 'Delete two' }).click();
  await page.getByRole('button', { name: 'Delete the document' }).click();
  await page.getByText('1 document, ', { exact: false }).waitFor();

  const viewer = await addMember(platform(), project.orgId, 'viewer');
  const seen = await open(`${platform().base}/dashboard/projects/${project.id}/vectors/notes`);
  await signIn(seen.page, viewer);
  await seen.page.getByText('A text about tea').waitFor();
  t.is(await seen.page.getByRole('button', { name: /New|Delete|Add|Find$/ }).count(), 0);
  await seen.close();

  await page.getByRole('button', { name: 'Delete the collection' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete the collection' }).click();
  await page.getByText('No collection yet.').waitFor();
  await close();
});
