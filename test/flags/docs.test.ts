import { readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import test from 'ava';
import { build } from 'esbuild';
import { type ComponentType, createElement } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { uniqueName } from '#test/support/client.ts';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test, { shared: true });
const root = path.resolve(import.meta.dirname, '../..');

/** The first block of code of a language below a heading of docs/flags.md. */
const example = async (heading: string, language: string): Promise<string> => {
  const page = await readFile(path.join(root, 'docs/flags.md'), 'utf8');
  const below = page.slice(page.indexOf(`\n### ${heading}\n`));
  const [, code] = new RegExp(`\`\`\`${language}\\n(.*?)\`\`\``, 's').exec(below) ?? [];
  if (code === undefined) throw new Error(`docs/flags.md has no example in ${language} below ${heading}`);
  return code;
};

/** Runs an example with an address and a key, and answers what it exports. Packages are those of the checkout. */
const run = async (code: string, { url, key }: { readonly url: string; readonly key: string }): Promise<unknown> => {
  const file = path.join(root, 'node_modules', `.${uniqueName('example')}.mjs`);
  await build({
    stdin: { contents: code, loader: 'jsx', resolveDir: root },
    define: { REST_URL: JSON.stringify(url), API_KEY: JSON.stringify(key) },
    jsx: 'automatic',
    outfile: file,
    format: 'esm',
  });
  try {
    return await import(file);
  } finally {
    await rm(file);
  }
};

const scene = async () => {
  const { client, base } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const rule = { attribute: 'plan', operator: 'in', values: ['pro'] };
  const made = await client.call('POST', `/projects/${project.id}/flags`, {
    token: user.token,
    body: { key: 'new-checkout', targeting_rules: [rule] },
  });
  if (made.status !== 201) throw new Error(made.text);
  return { client, user, project, url: `${base}/p/${project.ref}` };
};

test.serial('the example in JavaScript works as it stands in the documents', async (t) => {
  const { url, project } = await scene();
  const { isNew } = (await run(await example('JavaScript (server)', 'js'), { url, key: project.key })) as {
    isNew: boolean;
  };
  t.true(isNew);
});

test.serial('the example in React works as it stands in the documents', async (t) => {
  const { url, project } = await scene();
  const { App } = (await run(await example('React', 'jsx'), { url, key: project.publishableKey })) as {
    App: ComponentType;
  };
  t.is(renderToStaticMarkup(createElement(App)), '<p>The new checkout</p>');
  const { OpenFeature } = (await import('@openfeature/react-sdk')) as {
    OpenFeature: { clearProviders: () => Promise<void> };
  };
  await OpenFeature.clearProviders();
});

test.serial('the example of a function works as it stands in the documents', async (t) => {
  const { client, user, project } = await scene();
  const fn = await client.deploy(user, project, await example('In functions', 'js'));
  t.deepEqual((await client.invoke(user, project, fn, { user: 'u' })).body.result, false);
});

test.serial('the flag of the documents can be created', async (t) => {
  const { client, user, project } = await scene();
  const page = await readFile(path.join(root, 'docs/flags.md'), 'utf8');
  const [, flag = ''] = /```json\n(.*?)```/s.exec(page) ?? [];
  const call = (where: string, body: unknown) =>
    client.call('POST', `/projects/${project.id}/${where}`, { token: user.token, body });
  await call('flags', { key: 'payments' });
  await call('segments', { key: 'beta', keys: ['u1'] });
  await client.call('DELETE', `/projects/${project.id}/flags/new-checkout`, { token: user.token });
  const made = await call('flags', JSON.parse(flag));
  t.is(made.status, 201, made.text);
});
