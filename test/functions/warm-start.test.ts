import test from 'ava';
import { useJobsApi } from '#test/jobs/scene.ts';

const { platform, scene } = useJobsApi(test);

/** Text that stays text in the compiled code, and makes it long enough to be evaluated ahead of its runs. */
const filler = `const filler = '${'x'.repeat(70_000)}';`;
const handler = 'exports.handler = () => filler.length;';

const deployed = async (code: string, fields: object = {}) => {
  const one = await scene('exports.handler = () => 1;');
  const body = { name: 'large', language: 'javascript', code, ...fields };
  const answer = await one.ask('POST', '/functions', { body });
  if (answer.status !== 201) throw new Error(answer.text);
  const { id } = answer.body;
  const shown = async () => (await one.ask('GET', `/functions/${id}`)).body.warm_start;
  const change = (changes: object) => one.ask('PATCH', `/functions/${id}`, { body: changes });
  return { one, id: String(id), header: answer.headers.get('x-plinth-warm-start'), shown, change };
};

test('the deploy of a large module says that its runs begin with a copy of it', async (t) => {
  const { header, shown, one, id } = await deployed(filler + handler);
  t.is(header, 'snapshot');
  t.deepEqual(await shown(), { snapshot: true, reason: null });
  const { body } = await one.ask('POST', `/functions/${id}/invoke`, { body: { payload: null } });
  t.is(body.result, 70_000);
});

test('a module that cannot be stored is deployed, and the deploy says why each run evaluates it', async (t) => {
  const { header, shown, change, one, id } = await deployed(
    `${filler}const money = new Intl.NumberFormat('de');${handler}`,
  );
  t.is(header, 'each-run; reason="Intl cannot be stored"');
  t.deepEqual(await shown(), { snapshot: false, reason: 'Intl cannot be stored' });
  const { body } = await one.ask('POST', `/functions/${id}/invoke`, { body: { payload: null } });
  t.is(body.result, 70_000);

  const better = await change({ code: filler + handler });
  t.is(better.headers.get('x-plinth-warm-start'), 'snapshot');
  t.deepEqual(await shown(), { snapshot: true, reason: null });

  const back = await one.ask('POST', `/functions/${id}/versions/1/rollback`);
  t.is(back.headers.get('x-plinth-warm-start'), 'each-run; reason="Intl cannot be stored"');
  t.is((await shown()).snapshot, false);
});

test('a module is tried with the variables of its function, and its own words do no harm in a header', async (t) => {
  const needsKey = `${filler}if (process.env.KEY !== 'k') throw new Error('no "key"\\r\\nX-Evil: ü');${handler}`;
  const without = await deployed(needsKey);
  t.is(without.header, `each-run; reason="the module throws: Error: no ?key???X-Evil: ?"`);
  t.is((await without.change({ env_vars: { KEY: 'k' } })).headers.get('x-plinth-warm-start'), 'snapshot');
  const renamed = await without.change({ name: 'other' });
  t.is(renamed.headers.get('x-plinth-warm-start'), 'snapshot');
  const { db } = platform();
  const tried = await db.query(`select from jobs where type = 'function.snapshot' and project_id = $1`, [
    without.one.project.id,
  ]);
  t.is(tried.length, 2, 'a name is no version');
});

test('small modules and those in Python say nothing, and nobody else’s are shown', async (t) => {
  const { header, shown, one, id } = await deployed(handler);
  t.is(header, null);
  t.is(await shown(), null);
  const python = await one.ask('POST', '/functions', {
    body: { name: 'py', language: 'python', code: `x = '${'x'.repeat(70_000)}'\ndef handler(p, sdk):\n    return 1\n` },
  });
  t.deepEqual([python.status, python.headers.get('x-plinth-warm-start')], [201, null], python.text);
  const other = await platform().client.signUp();
  const foreign = await platform().client.call('GET', `/projects/${one.project.id}/functions/${id}`, {
    token: other.token,
  });
  t.is(foreign.status, 404);
});
